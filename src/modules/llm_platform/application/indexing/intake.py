"""The first stage of an indexing: which documents are there, which of them are new or changed, and what they say."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeVar

from modules.llm_platform.application.indexing.cutting import CutDocument, cut, fingerprint
from modules.llm_platform.application.indexing.tally import Tally
from modules.llm_platform.domain.dtos.indexing_dtos import FoundDocument, LeftOut
from modules.llm_platform.domain.dtos.retrieval_dtos import IndexedDocument
from modules.llm_platform.domain.ports.document_source import IDocumentSource
from modules.llm_platform.domain.ports.vector_store import IVectorStore

LOOKED_AT: Final = 256  # documents at once
LOOKED_AT_BYTES: Final = 16_000_000
BATCH_PASSAGES: Final = 256  # read and cut before they are embedded; a document is never divided
NO_TEXT: Final = "it holds no text"
EMPTIED: Final = "it holds no text any more: what was indexed of it is gone"
TWICE: Final = "a document with the id {!r} came before: give each another doc_id, or index their common folder"

Result = TypeVar("Result")


@dataclass(slots=True)
class Batch:
    """Documents to be stored. `known` are those that are in the collection in an older form, by their ids; `place` is how far
    the documents have been gone through, in bytes.
    """

    place: int
    documents: list[CutDocument] = field(default_factory=list)
    known: Mapping[str, IndexedDocument] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)
    remarks: list[tuple[str, str]] = field(default_factory=list)
    passages: int = 0


class Intake:
    """Goes through a source in a thread of its own, and tells the tally what it met."""

    def __init__(self, source: IDocumentSource, store: IVectorStore, collection: str, tally: Tally) -> None:
        self._source = source
        self._store = store
        self._collection = collection
        self._tally = tally

    async def batches(self, paths: Sequence[Path], *, is_new: bool) -> AsyncGenerator[Batch, None]:
        """What is new or changed, all of it where the collection `is_new`; batches without documents show how far we are."""
        thread = ThreadPoolExecutor(1, "indexing")
        walk = await _in(thread, self._source.walk, paths)
        try:
            self._tally.total_bytes = walk.total_bytes
            self._tally.origins = walk.origins
            for remark in walk.remarks:
                self._tally.remark(*remark)
            rest = iter(walk)
            place = 0
            while looked := await _in(thread, _take, rest, place):
                found = [each for each in looked if isinstance(each, FoundDocument)]
                place = found[-1].place if found else place
                waiting, known = await self._changed(self._met(looked), is_new=is_new)
                while waiting:
                    batch = await _in(thread, _read, waiting, known)
                    for left in batch.left_out:
                        self._tally.left_out(left)
                    for remark in batch.remarks:
                        self._tally.remark(*remark)
                    yield batch
                yield Batch(place)
            await _in(thread, walk.close)
        finally:
            walk.stop()
            thread.submit(walk.close)  # after what it is doing
            thread.shutdown(wait=False)

    def _met(self, looked: Sequence[FoundDocument | LeftOut]) -> list[FoundDocument]:
        """Each document once."""
        first: list[FoundDocument] = []
        for each in looked:
            if isinstance(each, LeftOut):
                self._tally.left_out(each)
            elif each.doc_id in self._tally.met:
                self._tally.left_out(LeftOut(each.where, TWICE.format(each.doc_id)))
            else:
                self._tally.met.add(each.doc_id)
                first.append(each)
        return first

    async def _changed(
        self, found: Sequence[FoundDocument], *, is_new: bool
    ) -> tuple[deque[FoundDocument], Mapping[str, IndexedDocument]]:
        """Those that are to be read, and all that the collection knows."""
        asked = [] if is_new else [each.doc_id for each in found if not each.unchanged]
        known = await self._store.lookup(self._collection, asked) if asked else {}
        waiting: deque[FoundDocument] = deque()
        for each in found:
            there = known.get(each.doc_id)
            same = there is not None and there.sha256 == fingerprint(each.digest)
            if same or (each.unchanged and not is_new):
                self._tally.unchanged += 1
            else:
                waiting.append(each)
        return waiting, known


def _take(rest: Iterator[FoundDocument | LeftOut], place: int) -> list[FoundDocument | LeftOut]:
    """The next ones, few where they are large: some hold what they are made of."""
    taken: list[FoundDocument | LeftOut] = []
    for each in islice(rest, LOOKED_AT):
        taken.append(each)
        if isinstance(each, FoundDocument) and each.place - place > LOOKED_AT_BYTES:
            break
    return taken


def _read(waiting: deque[FoundDocument], known: Mapping[str, IndexedDocument]) -> Batch:
    """Read and cut documents until there are enough passages."""
    batch = Batch(0, known=known)
    while waiting and batch.passages < BATCH_PASSAGES:
        found = waiting.popleft()
        batch.place = found.place
        read = found.read()
        if isinstance(read, LeftOut):
            batch.left_out.append(read)
            continue
        document = cut(found.doc_id, found.digest, read, found.origin)
        if not document.passages and found.doc_id not in known:
            batch.left_out.append(LeftOut(found.where, NO_TEXT))
            continue
        batch.documents.append(document)
        batch.passages += len(document.passages)
        if note := read.note if document.passages else EMPTIED:
            batch.remarks.append((found.where, note))
    return batch


async def _in(thread: ThreadPoolExecutor, work: Callable[..., Result], *given: Any) -> Result:
    return await asyncio.get_running_loop().run_in_executor(thread, partial(work, *given))
