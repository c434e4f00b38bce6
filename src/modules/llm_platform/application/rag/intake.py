"""The first stage of indexing: find the documents, read the new and changed ones, and split them into passages."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeVar

from modules.llm_platform.application.rag.passages import ChunkedDocument, chunk_document, fingerprint
from modules.llm_platform.application.rag.progress import IndexingProgress
from modules.llm_platform.domain.dtos import indexing_dtos as dtos
from modules.llm_platform.domain.dtos.retrieval_dtos import IndexedDocument
from modules.llm_platform.domain.ports.document_source import IDocumentSource, IDocumentWalk
from modules.llm_platform.domain.ports.vector_store import IVectorStore

WALK_BATCH_DOCUMENTS: Final = 256
WALK_BATCH_BYTES: Final = 16_000_000
BATCH_PASSAGES: Final = 256  # passages embedded together; a document is never divided
NO_TEXT: Final = "it contains no text"
EMPTIED: Final = "it contains no text any more: its passages were removed from the index"
DUPLICATE_ID: Final = "another document has the id {!r}: give each its own doc_id, or index their common folder"

Result = TypeVar("Result")


def is_duplicate_id(reason: str) -> bool:
    """Return whether a document was left out because another one has its id."""
    return reason.startswith(DUPLICATE_ID.partition("{")[0])


@dataclass(slots=True)
class DocumentBatch:
    """Documents to store. `known` are their older versions in the collection; `position` is the position in bytes."""

    position: int
    documents: list[ChunkedDocument] = field(default_factory=list)
    known: Mapping[str, IndexedDocument] = field(default_factory=dict)
    left_out: list[dtos.LeftOut] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)
    passages: int = 0


class DocumentIntake:
    """Walks a source in its own thread, and counts what it finds."""

    def __init__(
        self,
        source: IDocumentSource,
        store: IVectorStore,
        collection: str,
        progress: IndexingProgress,
        *,
        replaces_collection: bool = False,
    ) -> None:
        """Start a run. With `replaces_collection`, the documents of other origins lose their ids and are removed at the end."""
        self._replaces_collection = replaces_collection
        self._source = source
        self._store = store
        self._collection = collection
        self._progress = progress
        self._walk: IDocumentWalk | None = None

    async def read_batches(self, paths: Sequence[Path], *, is_new: bool) -> AsyncGenerator[DocumentBatch, None]:
        """Yield the new and changed documents, all if the collection `is_new`. An empty batch reports the position."""
        thread = ThreadPoolExecutor(1, "indexing")
        walk = self._walk = await _run_in_thread(thread, self._source.walk, paths)
        try:
            self._progress.total_bytes = walk.total_bytes
            self._progress.origins = walk.origins
            for problem in walk.remarks:
                self._progress.add_problem(*problem)
            rest = iter(walk)
            position = 0
            while walked := await _run_in_thread(thread, _take, rest, position):
                found = [document for document in walked if isinstance(document, dtos.FoundDocument)]
                position = found[-1].position if found else position
                pending, known = await self._select_changed(walked, is_new=is_new)
                while pending:
                    batch = await _run_in_thread(thread, _read, pending, known)
                    for left in batch.left_out:
                        self._progress.count_failed(left)
                    for problem in batch.problems:
                        self._progress.add_problem(*problem)
                    yield batch
                yield DocumentBatch(position)
            await _run_in_thread(thread, walk.close)
        finally:
            walk.stop()
            thread.submit(walk.close)  # runs when the current call has ended
            thread.shutdown(wait=False)

    async def report_stored(self) -> None:
        """Report to the walk that the collection contains everything it found."""
        if self._walk is not None:
            await asyncio.to_thread(self._walk.stored, self._progress.displaced_origins)

    async def _select_changed(
        self, walked: Sequence[dtos.FoundDocument | dtos.LeftOut], *, is_new: bool
    ) -> tuple[deque[dtos.FoundDocument], Mapping[str, IndexedDocument]]:
        """Return the documents to read, each id once, and the documents of the collection with their ids."""
        found = [document for document in walked if isinstance(document, dtos.FoundDocument)]
        for left in walked:
            if isinstance(left, dtos.LeftOut):
                self._progress.count_failed(left)
        known: dict[str, IndexedDocument] = {}
        if not is_new:
            known = await self._look_up([document.doc_id for document in found if not document.unchanged])
            new = [
                document.qualified()
                for document in found
                if document.qualified and self._may_be_qualified(document, known)
            ]
            known |= await self._look_up([document.doc_id for document in new])
        pending: deque[dtos.FoundDocument] = deque()
        for document in found:
            resolved = self._choose_id(document, known)
            if resolved.doc_id in self._progress.seen:
                self._progress.count_failed(dtos.LeftOut(resolved.where, DUPLICATE_ID.format(resolved.doc_id)))
                continue
            self._progress.seen[resolved.doc_id] = resolved.origin
            stored = known.get(resolved.doc_id)
            is_same = (
                stored is not None
                and stored.sha256 == fingerprint(resolved.digest)
                and stored.origin == resolved.origin
            )
            if is_same or (resolved.unchanged and not is_new):
                self._progress.unchanged += 1
            else:
                pending.append(resolved)
        return pending, known

    async def _look_up(self, doc_ids: Sequence[str]) -> dict[str, IndexedDocument]:
        return await self._store.lookup(self._collection, doc_ids) if doc_ids else {}

    def _may_be_qualified(self, found: dtos.FoundDocument, known: Mapping[str, IndexedDocument]) -> bool:
        there = known.get(found.doc_id)
        is_ours = there is not None and not there.came_from_elsewhere((found.origin,))
        return not (found.unchanged or is_ours or self._replaces_collection)

    def _choose_id(self, found: dtos.FoundDocument, known: Mapping[str, IndexedDocument]) -> dtos.FoundDocument:
        """Return the document with a qualified id if another origin has the plain one, or if it was stored with it before."""
        if found.qualified is None:
            return found
        is_taken = self._progress.seen.get(found.doc_id, found.origin) != found.origin
        if is_taken or self._may_be_qualified(found, known):
            qualified = found.qualified()
            if is_taken or found.doc_id in known or qualified.doc_id in known:
                return qualified
        return found


def _take(rest: Iterator[dtos.FoundDocument | dtos.LeftOut], position: int) -> list[dtos.FoundDocument | dtos.LeftOut]:
    """Return the next documents, fewer if they are large: some of them have their content in memory."""
    taken: list[dtos.FoundDocument | dtos.LeftOut] = []
    for entry in islice(rest, WALK_BATCH_DOCUMENTS):
        taken.append(entry)
        if isinstance(entry, dtos.FoundDocument) and entry.position - position > WALK_BATCH_BYTES:
            break
    return taken


def _read(pending: deque[dtos.FoundDocument], known: Mapping[str, IndexedDocument]) -> DocumentBatch:
    """Read and chunk documents until there are enough passages."""
    batch = DocumentBatch(0, known=known)
    while pending and batch.passages < BATCH_PASSAGES:
        found = pending.popleft()
        batch.position = found.position
        read = found.read()
        if isinstance(read, dtos.LeftOut):
            batch.left_out.append(read)
            continue
        document = chunk_document(found.doc_id, found.digest, read, found.origin)
        if not document.passages and found.doc_id not in known:
            batch.left_out.append(dtos.LeftOut(found.where, NO_TEXT))
            continue
        batch.documents.append(document)
        batch.passages += len(document.passages)
        if note := read.note if document.passages else EMPTIED:
            batch.problems.append((found.where, note))
    return batch


async def _run_in_thread(thread: ThreadPoolExecutor, work: Callable[..., Result], *args: Any) -> Result:
    return await asyncio.get_running_loop().run_in_executor(thread, partial(copy_context().run, work, *args))
