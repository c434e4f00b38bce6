"""A folder kept searchable: looks for changes, reads what is new, answers queries. It blocks: run it in a thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from modules.llm_platform.domain.exceptions import WebSearchConfigError
from modules.llm_platform.domain.redaction import Redactor
from modules.llm_platform.infrastructure.documents.errors import UnreadableDocument
from modules.llm_platform.infrastructure.documents.folder import FoundFile, Listing, Stamp, list_folder
from modules.llm_platform.infrastructure.documents.index import PassageIndex
from modules.llm_platform.infrastructure.documents.parser_process import DocumentParser, ParserProcess
from modules.llm_platform.infrastructure.documents.reading import Document, read_document
from modules.llm_platform.infrastructure.documents.results import Quotable, by_document

LOOK_AGAIN_SECONDS: Final = 1.0  # at most this old is the view of a large folder
FREELY_SECONDS: Final = 0.02  # a folder that is looked through so fast (a thousand files) is looked at on every search
LOOKING_SHARE: Final = 20  # beyond that looking takes at most a twentieth of the time
BATCH: Final = 500  # documents in one transaction
MAX_TEXT_CHARS: Final = 500_000_000  # of all documents: they are held in memory
HITS_PER_RESULT: Final = 8  # passages fetched for one document shown
MIN_HITS: Final = 100

_ORDER = {".pdf": 2, ".html": 1, ".htm": 1}  # what is quickly read is searchable first


@dataclass(frozen=True, slots=True)
class Found:
    """Documents best first, whether there may be more, how many are searched, and a word about each bad file."""

    results: Sequence[Quotable]
    more: bool
    documents: int
    words: Mapping[str, str]


class DocumentLibrary:
    """Looks at its folder when it is asked something, never in between."""

    def __init__(
        self,
        folder: Path,
        redactor: Redactor | None = None,
        parser: Callable[[], AbstractContextManager[DocumentParser]] = ParserProcess,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = folder
        self._redactor = redactor or Redactor()
        self._new_parser = parser
        self._clock = clock
        self._index = PassageIndex()
        self._stamps: dict[str, Stamp] = {}
        self._notes: dict[str, str] = {}
        self._words: Mapping[str, str] = {}
        self._chars = 0
        self._look_after = float("-inf")
        self._stopped = threading.Event()
        self._parser: DocumentParser | None = None

    @property
    def documents(self) -> int:
        """How many can be searched by now; may be asked from any thread."""
        return len(self._index)

    def stop(self) -> None:
        """Give up reading soon; to be called from any thread."""
        self._stopped.set()
        stop = getattr(self._parser, "stop", None)
        if stop is not None:
            stop()

    def search(self, query: str, language: str, count: int, page: int) -> Found:
        """The documents that say most about the query. Raises WebSearchConfigError without a folder."""
        self.refresh()
        wanted = count * page
        limit = max(MIN_HITS, (wanted + 1) * HITS_PER_RESULT)
        hits = self._index.search(query, language, limit)
        best = list(by_document(hits))
        more = len(best) > wanted or len(hits) == limit
        return Found(best[wanted - count : wanted], more, len(self._index), self._words)

    def document(self, path: str) -> Document | str | None:
        """The document of that path, looked up among those that are known: a path opens nothing. Where it stands in the
        folder but cannot be read, the word about it. Raises WebSearchConfigError without a folder.
        """
        self.refresh()
        return self._index.get(path) or self._words.get(path)

    def refresh(self) -> None:
        """Read what was added or changed since the last look, forget what has gone."""
        began = self._clock()
        if began < self._look_after:
            return
        listing = self._listing()
        for path in [path for path in self._stamps if path not in listing.files]:
            self._forget(path)
        changed = [file for path, file in listing.files.items() if self._stamps.get(path) != file.stamp]
        looked = self._clock()
        if changed:
            self._read(sorted(changed, key=lambda file: (_ORDER.get(file.suffix, 0), file.path)))
        self._words = listing.left_out | self._notes  # a new one: another thread may still be reading the old one
        took = looked - began
        self._look_after = self._clock() + (0.0 if took <= FREELY_SECONDS else min(LOOK_AGAIN_SECONDS, took * LOOKING_SHARE))

    def _listing(self) -> Listing:
        try:
            return list_folder(self._folder)
        except (OSError, RuntimeError) as error:
            raise WebSearchConfigError(
                "DOCUMENTS_DIR names no folder that can be opened: create it or correct the setting"
            ) from error

    def _read(self, files: Sequence[FoundFile]) -> None:
        with self._new_parser() as self._parser:
            remaining = iter(files)
            while batch := list(islice(remaining, BATCH)):
                with self._index.batch():
                    for file in batch:
                        if self._stopped.is_set():
                            return
                        self._take(file, self._parser)

    def _take(self, file: FoundFile, parser: DocumentParser) -> None:
        self._forget(file.path)
        try:
            if self._chars > MAX_TEXT_CHARS:
                raise UnreadableDocument("the folder holds more text than is kept in memory")
            document = read_document(self._folder, file, parser, self._redactor)
        except UnreadableDocument as error:
            self._notes[file.path] = str(error)
        else:
            self._chars += len(document.text)
            self._index.add(document)
            if document.note:
                self._notes[file.path] = document.note
        if not self._stopped.is_set():  # else it was not read because of us
            self._stamps[file.path] = file.stamp

    def _forget(self, path: str) -> None:
        self._stamps.pop(path, None)
        self._notes.pop(path, None)
        gone = self._index.remove(path)
        self._chars -= len(gone.text) if gone else 0
