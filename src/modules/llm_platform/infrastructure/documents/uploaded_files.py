"""Files of a request as documents. They are parsed like files of a folder, indexed in memory, and gone when the run has
ended."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final

from modules.llm_platform.application.rag.indexing import IndexingService
from modules.llm_platform.application.rag.retrieval import MAX_TOP_K, RetrievalService
from modules.llm_platform.application.research.find.files import FILES, OpenedFiles
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.indexing_dtos import DocumentText, FoundDocument, LeftOut
from modules.llm_platform.domain.dtos.uploaded_file_dtos import UploadedFile, clean_names
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse, WebSearchResultItem
from modules.llm_platform.domain.exceptions import UploadedFileError
from modules.llm_platform.domain.ports.document_source import IDocumentSource, IDocumentWalk
from modules.llm_platform.domain.ports.embedder import IEmbedder
from modules.llm_platform.domain.ports.vector_store import IVectorStore
from modules.llm_platform.domain.privacy.redaction import Redactor
from modules.llm_platform.domain.retrieval.merge_passages import merge_document_text
from modules.llm_platform.domain.text.scripts import replace_surrogates
from modules.llm_platform.infrastructure.documents.addresses import DocumentAddresses
from modules.llm_platform.infrastructure.documents.folder import SUFFIXES, get_suffix
from modules.llm_platform.infrastructure.documents.page_reader import DocumentPageReader
from modules.llm_platform.infrastructure.documents.reading import read_content
from modules.llm_platform.infrastructure.documents.web_search import DocumentWebSearch
from modules.llm_platform.infrastructure.parsing.decoding import EmptyDocument, UnreadableDocument
from modules.llm_platform.infrastructure.parsing.parser_pool import ParserPool, PooledParser

# All files of a request, in equal shares; indexing takes 1.3 s of CPU time a million.
UPLOADED_TEXT_CHARS: Final = 10_000_000
BEGINNING_CHARS: Final = 4000  # shown of a file where no passage fits the question
CUT: Final = "only its first {chars:,} characters were read"
NO_TEXT: Final = "it contains no text (a scan has none before its letters are recognised)"


class UploadedFiles(IDocumentSource):
    """The files of one request. `bad` has the reason for each file that cannot be read, `notes` what is missing from
    the others."""

    def __init__(self, files: Sequence[UploadedFile], redactor: Redactor, parsers: ParserPool | None = None) -> None:
        self._redactor = redactor
        self._parsers = parsers
        self._max_chars = UPLOADED_TEXT_CHARS // max(1, len(files))
        shown = [file.model_copy(update={"name": replace_surrogates(redactor.text(file.name))}) for file in files]
        self.files = {file.name: file for file in clean_names(shown)}  # two names may be equal without their secrets
        self.addresses = DocumentAddresses()
        self.bad: dict[str, str] = {}
        self.notes: dict[str, str] = {}

    @property
    def urls(self) -> Collection[str]:
        return frozenset(map(self.addresses.of, self.files))

    def walk(self, paths: Sequence[Path]) -> IDocumentWalk:
        return _Walk(self, PooledParser(self._parsers))

    def read(self, name: str, parser: PooledParser) -> DocumentText | LeftOut:
        try:
            if get_suffix(name) not in SUFFIXES:
                raise UnreadableDocument(f"its name ends in none of {', '.join(SUFFIXES)}")
            read = read_content(name, self.files[name].content, parser, self._redactor)
        except EmptyDocument:
            return self._note_bad(name, NO_TEXT)
        except UnreadableDocument as error:
            return self._note_bad(name, str(error))
        text = read.text[: self._max_chars]
        note = CUT.format(chars=self._max_chars) if len(text) < len(read.text) else read.note
        if note:
            self.notes[name] = note
        fields = {"doc_type": (get_suffix(name)[1:],)}
        return DocumentText(
            replace_surrogates(read.title or name),
            replace_surrogates(text),
            self.addresses.of(name),
            fields=fields,
            note=note,
            pages=read.pages,
        )

    def _note_bad(self, name: str, reason: str) -> LeftOut:
        self.bad[name] = reason
        return LeftOut(name, reason)


class _Walk(IDocumentWalk):
    def __init__(self, source: UploadedFiles, parser: PooledParser) -> None:
        self._source = source
        self._parser = parser
        self.total_bytes = sum(len(file.content) for file in source.files.values())

    def __iter__(self) -> Iterator[FoundDocument | LeftOut]:
        position = 0
        for name, file in self._source.files.items():
            position += len(file.content)
            digest = sha256(file.content).hexdigest()
            yield FoundDocument(name, digest, name, position, partial(self._source.read, name, self._parser))

    def stop(self) -> None:
        self._parser.stop()

    def close(self) -> None:
        self._parser.__exit__(None, None, None)


class UploadedFileSearch(DocumentWebSearch):
    """A search in uploaded files. `degraded` says what is missing of them."""

    def __init__(
        self, source: UploadedFiles, retrieval: RetrievalService, redactor: Redactor, *, needs_words: bool
    ) -> None:
        super().__init__(retrieval, None, redactor, needs_words=needs_words)
        self._files = source

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        answer = await super().search(request)
        return answer.with_degraded(
            [Degraded(component=f"{FILES}/{name}", reason=note) for name, note in self._files.notes.items()]
        )

    async def beginnings(self) -> tuple[WebSearchResultItem, ...]:
        found: list[WebSearchResultItem] = []
        for name in self._files.files:
            if passages := await self.retrieval.load_document(name):
                text = self.redactor.text(merge_document_text(passages, BEGINNING_CHARS).text)
                url, title = self.get_address(passages[0]), passages[0].title
                found.append(WebSearchResultItem(title=title, url=url, snippet=text, source=self.name))
        return tuple(found)


@asynccontextmanager
async def open_uploaded_files(
    files: Sequence[UploadedFile],
    embedder: IEmbedder,
    open_store: Callable[[], IVectorStore],
    redactor: Redactor,
    parsers: ParserPool,
) -> AsyncGenerator[OpenedFiles]:
    """Parse and index the files, and return the search in them. Raises UploadedFileError if a file cannot be read."""
    source, store = UploadedFiles(files, redactor, parsers), open_store()
    try:
        async for _ in IndexingService(source, embedder, store, FILES).index([]):
            pass
        for name, reason in source.bad.items():
            raise UploadedFileError(
                f"The file {name} cannot be read: {reason}. Send another one, or leave it out.", file=name
            )
        retrieval = RetrievalService(embedder, store, FILES, top_k=MAX_TOP_K)
        search = UploadedFileSearch(source, retrieval, redactor, needs_words=embedder.dimension > 0)
        yield OpenedFiles(search, search.beginnings, DocumentPageReader(search), source.urls)
    finally:
        await store.aclose()
