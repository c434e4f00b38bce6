"""Files and folders as documents to be indexed: Markdown, text, HTML and PDF one each, JSON lines one a line."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final

from modules.llm_platform.domain.dtos.indexing_dtos import DocumentText, FoundDocument, LeftOut
from modules.llm_platform.domain.ports.document_source import IDocumentSource, IDocumentWalk
from modules.llm_platform.domain.redaction import Redactor
from modules.llm_platform.infrastructure.documents.addresses import DocumentAddresses
from modules.llm_platform.infrastructure.documents.decoding import EmptyDocument, UnreadableDocument
from modules.llm_platform.infrastructure.documents.folder import SUFFIXES, FoundFile, Stamp, list_folder
from modules.llm_platform.infrastructure.documents.json_lines import JSON_LINES, clean, json_documents, shown
from modules.llm_platform.infrastructure.documents.parser_process import ParserProcess
from modules.llm_platform.infrastructure.documents.reading import MAX_FILE_BYTES, read_text

INDEXED: Final = (*SUFFIXES, *JSON_LINES)
MAX_FILES: Final = 1_000_000  # below one folder
ORIGIN_CHARS: Final = 16  # of a digest in hexadecimal
HASHED_AT_ONCE: Final = 1 << 20  # bytes
_KINDS: Final = {".markdown": "md", ".htm": "html"}
Known = Mapping[str, tuple[Stamp, str]]  # of files by their path below a folder: as they were, and their digest then

NOT_THERE: Final = "there is no such file or folder"
NO_DOCUMENT: Final = (
    f"its name ends in none of {', '.join(INDEXED)}"  # a path that was given; in folders they are passed
)


@dataclass(frozen=True, slots=True)
class _Root:
    """A folder, or the folder of a file that was given. `name` is what it is called where it is no link, `origin` tells it
    from other folders.
    """

    folder: Path
    name: str
    origin: str
    files: Sequence[FoundFile]


class FileDocumentSource(IDocumentSource):
    """A file's id is its path below the folder that was given, and its address `doc:` and that path, or below `base_url`.

    Its filters are `doc_id`, `source` (the name of the folder that was given), `doc_type` (md, txt, rst, html, pdf, docx,
    epub, ipynb) and `lang` as detected.
    """

    def __init__(
        self,
        base_url: str | None = None,
        redactor: Redactor | None = None,
        parser: Callable[[], ParserProcess] = ParserProcess,
    ) -> None:
        self._redactor = redactor or Redactor()
        self._addresses = DocumentAddresses(base_url, redactor)
        self._parser = parser

    def walk(self, paths: Sequence[Path], known: Known | None = None) -> IDocumentWalk:
        """Files that are `known`, and still as they were, are not opened before they are to be read."""
        return FileWalk(paths, self._addresses, self._redactor, self._parser(), known or {})


class FileWalk(IDocumentWalk):
    """Lists everything at once; what is in the files is looked at as one goes along."""

    def __init__(
        self,
        paths: Sequence[Path],
        addresses: DocumentAddresses,
        redactor: Redactor,
        parser: ParserProcess,
        known: Known,
    ) -> None:
        self._addresses = addresses
        self._redactor = redactor
        self._parser = parser
        self._known = known
        self._left_out: list[LeftOut] = []
        self.remarks: list[tuple[str, str]] = []
        self._roots = [root for path in paths if (root := self._root(path))]
        self.origins = {root.origin for root in self._roots}
        self.total_bytes = sum(file.stamp[0] for root in self._roots for file in root.files)

    def __iter__(self) -> Iterator[FoundDocument | LeftOut]:
        yield from self._left_out
        place = 0
        for root in self._roots:
            for file in root.files:
                if file.suffix in JSON_LINES:
                    yield from json_documents(root.folder / file.path, place, self._redactor)
                else:
                    yield self._document(root, file, place)
                place += file.stamp[0]

    def stop(self) -> None:
        self._parser.stop()

    def close(self) -> None:
        self._parser.__exit__(None, None, None)

    def _root(self, path: Path) -> _Root | None:
        try:
            status = path.stat()
            if stat.S_ISDIR(status.st_mode):
                return self._listed(path)
        except (OSError, RuntimeError):  # RuntimeError: a circle of links, before Python 3.13
            self._left_out.append(LeftOut(shown(path), NOT_THERE, hides=""))
            return None
        if not stat.S_ISREG(status.st_mode) or not path.name.lower().endswith(INDEXED):
            self._left_out.append(LeftOut(shown(path), NO_DOCUMENT))
            return None
        stamp = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        return _Root(path.parent, self._name(path.parent), _origin(path.parent), [FoundFile(path.name, stamp)])

    def _listed(self, folder: Path) -> _Root:
        listing = list_folder(folder, suffixes=INDEXED, max_files=MAX_FILES)
        if unread := listing.unread_words:
            self.remarks.append((shown(folder), unread))
        for path, reason in sorted(listing.left_out.items()):
            self._left_out.append(LeftOut(shown(folder / path), reason, hides=self._hidden_in(folder, path)))
        return _Root(
            folder, self._name(folder), _origin(folder), [listing.files[path] for path in sorted(listing.files)]
        )

    def _hidden_in(self, folder: Path, path: str) -> str:
        """What ids may begin with that stand in something left out; of a folder that cannot be opened, nobody knows."""
        inside = folder / path
        closed = inside.is_dir() and not inside.is_symlink()
        return "" if closed or path.lower().endswith(JSON_LINES) else self._id(path)

    def _id(self, path: str) -> str:
        return clean(self._redactor.text(path))

    def _name(self, folder: Path) -> str:
        return clean(self._redactor.text(folder.resolve().name))

    def _document(self, root: _Root, file: FoundFile, place: int) -> FoundDocument | LeftOut:
        path = root.folder / file.path
        where, doc_id, url = shown(path), self._id(file.path), self._addresses.of(file.path)
        try:
            digest = self._digest_of(file, path, url)
        except OSError as error:
            return LeftOut(where, f"it cannot be opened ({error.strerror})", hides=doc_id)
        read = partial(self._read, root, file, where, doc_id, url)
        return FoundDocument(doc_id, digest, where, place + file.stamp[0], read, root.origin)

    def _digest_of(self, file: FoundFile, path: Path, url: str) -> str:
        stamp, digest = self._known.get(file.path, (None, ""))
        return digest if stamp == file.stamp else _digest(path, url)

    def _read(self, root: _Root, file: FoundFile, where: str, doc_id: str, url: str) -> DocumentText | LeftOut:
        try:
            read = read_text(root.folder, file, self._parser, self._redactor)
        except EmptyDocument:
            return DocumentText(doc_id, "", url)
        except UnreadableDocument as error:
            return LeftOut(where, str(error), hides=doc_id)
        kind = _KINDS.get(file.suffix, file.suffix[1:])
        fields = {"doc_id": (doc_id,), "source": (root.name,), "doc_type": (kind,)}
        text = clean(read.text)
        return DocumentText(clean(read.title or doc_id), text, url, source=root.name, fields=fields, note=read.note)


def _origin(folder: Path) -> str:
    """Of where the folder really is; the path itself stays here."""
    return sha256(os.fsencode(folder.resolve())).hexdigest()[:ORIGIN_CHARS]


def _digest(path: Path, url: str) -> str:
    """Of the content, as far as it may be read, and of the address, which stands in every passage."""
    digest = sha256(url.encode())
    with path.open("rb", buffering=0) as file:
        digest.update(str(os.fstat(file.fileno()).st_size).encode())
        left = MAX_FILE_BYTES
        while left > 0 and (piece := file.read(min(HASHED_AT_ONCE, left))):
            digest.update(piece)
            left -= len(piece)
    return digest.hexdigest()
