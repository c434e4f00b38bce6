"""The documents of one named folder: what cannot be read is told by its place below it, and leaves nothing in the index."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from modules.llm_platform.domain.dtos.indexing_dtos import DocumentText, FoundDocument, LeftOut
from modules.llm_platform.domain.ports.document_source import IDocumentSource, IDocumentWalk
from modules.llm_platform.infrastructure.documents.file_source import FileDocumentSource, Known
from modules.llm_platform.infrastructure.documents.json_lines import shown

MAX_WORDS: Final = 1000  # about files and lines, of each kind
NO_TEXT: Final = "it holds no text"


class FolderSource(IDocumentSource):
    """One reading of a folder. `bad` are the places that were bad when they were read, and have not changed: they are not
    read again. `passed` are left out by the listing, which has its own word about them. Files that are `known`, and still as
    they were, are not opened; where that is `trusted`, the collection is not asked for them either.

    Filled while it is walked: `notes`, `found_bad`, `digests` (all by place), and `unreadable`, the ids of documents that may
    still be indexed as they were before.
    """

    def __init__(
        self,
        files: FileDocumentSource,
        folder: Path,
        bad: Mapping[str, str],
        passed: Sequence[str],
        known: Known,
        *,
        trusted: bool = False,
    ) -> None:
        self._files = files
        self._known = known
        self._trusted = trusted
        self._prefix = shown(folder.parent if folder.is_file() else folder).rstrip("/\\") + os.sep
        self._bad = bad
        self._passed = frozenset(passed)
        self.notes: dict[str, str] = {}
        self.found_bad: dict[str, str] = {}
        self.digests: dict[str, str] = {}
        self.unreadable: list[str] = []

    def walk(self, paths: Sequence[Path]) -> IDocumentWalk:
        return _FolderWalk(self, self._files.walk(paths, self._known))

    def told(self, each: FoundDocument | LeftOut) -> FoundDocument | LeftOut:
        """The same as one folder's: whatever is left out hides nothing that may stay."""
        place = self._place(each.where)
        if isinstance(each, LeftOut):
            if place not in self._passed:
                _put(self.found_bad, place, each.reason)
            return replace(each, hides=None)
        if place == each.doc_id:
            self.digests[place] = each.digest
        if word := self._bad.get(place):
            if not _put(self.found_bad, place, word):
                self.digests.pop(place, None)  # else it would count as indexed the next time
            return LeftOut(each.where, word)
        there = self._known.get(place, (None, ""))[1]
        unchanged = self._trusted and place == each.doc_id and there == each.digest
        return replace(each, read=partial(self._read, each, place), unchanged=unchanged)

    def _read(self, found: FoundDocument, place: str) -> DocumentText | LeftOut:
        read = found.read()
        if isinstance(read, DocumentText) and read.text.strip():
            if read.note:
                _put(self.notes, place, read.note)
            return read
        reason = read.reason if isinstance(read, LeftOut) else NO_TEXT
        _put(self.found_bad, place, reason)
        self.digests.pop(place, None)
        self.unreadable.append(found.doc_id)
        return LeftOut(found.where, reason)

    def _place(self, where: str) -> str:
        return where.removeprefix(self._prefix).replace(os.sep, "/")


class _FolderWalk(IDocumentWalk):
    def __init__(self, source: FolderSource, walk: IDocumentWalk) -> None:
        self._source = source
        self._walk = walk
        self.total_bytes = walk.total_bytes

    def __iter__(self) -> Iterator[FoundDocument | LeftOut]:
        return map(self._source.told, self._walk)

    def stop(self) -> None:
        self._walk.stop()

    def close(self) -> None:
        self._walk.close()


def _put(words: dict[str, str], place: str, word: str) -> bool:
    """False where there is no more room."""
    if len(words) < MAX_WORDS:
        words[place] = word
    return place in words
