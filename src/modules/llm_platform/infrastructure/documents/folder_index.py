"""Indexes one folder of documents. Each search first reads what has changed since the search before it.

If `llm-platform index` has put the folder into the shared index, its documents are searched and updated there.
Otherwise the folder has an index of its own.
"""

import asyncio
import logging
import shutil
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from modules.llm_platform.application.rag.indexing import IndexingService
from modules.llm_platform.application.rag.intake import is_duplicate_id
from modules.llm_platform.application.rag.retrieval import MAX_TOP_K, RetrievalService
from modules.llm_platform.domain import exceptions
from modules.llm_platform.domain.concurrency.task_group import cancel_and_wait
from modules.llm_platform.domain.dtos.indexing_dtos import ORIGIN_FIELD, IndexProgress, IndexReport
from modules.llm_platform.domain.dtos.retrieval_dtos import Filters, Passage
from modules.llm_platform.domain.ports.document_source import IDocumentSource, IDocumentWalk
from modules.llm_platform.domain.ports.embedder import IEmbedder
from modules.llm_platform.domain.ports.vector_store import IVectorStore
from modules.llm_platform.domain.retrieval.embeddable import NoneEmbedder
from modules.llm_platform.domain.retrieval.mean_centering import MIN_VECTORS
from modules.llm_platform.domain.search.fresh_searches import searches_afresh
from modules.llm_platform.infrastructure.documents import file_source
from modules.llm_platform.infrastructure.documents.folder import Listing, list_folder
from modules.llm_platform.infrastructure.documents.folder_state import FolderState, FolderStates, FolderView
from modules.llm_platform.infrastructure.documents.index_directory import IndexDirectory
from modules.llm_platform.infrastructure.documents.json_lines import JSON_LINES
from modules.llm_platform.infrastructure.parsing.decoding import replace_unprintable

KEYWORDS_ONLY: Final = "the vectors of the documents are not complete yet{}: keyword search only"

COLLECTION: Final = "documents"  # the collection in an index of the folder's own
CHECK_AGAIN_S: Final = 1.0  # longest time after an update without a new listing at a search, for a folder of any size
CHECK_ALWAYS_S: Final = 0.02  # a folder that is listed faster (a thousand files) is listed at every search
LISTING_SHARE: Final = 20  # a slower folder is listed again after 20 times as long as its listing took
LOCK_POLL_S: Final = 0.05
REMOVAL_BATCH_SIZE: Final = 500  # documents removed by one call of the store
MUCH_BYTES: Final = 5_000_000  # larger changes are indexed for keyword search first, and for vector search afterwards
OUTGROWN: Final = 10 * MIN_VECTORS  # passages or files; a larger collection without a mean of its vectors is rebuilt

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SharedIndex:
    """The embedded index that `llm-platform index` writes: a collection below `folder`, and the states of its folders."""

    folder: Path
    collection: str
    states: FolderStates


@dataclass(frozen=True, slots=True)
class _Location:
    """The place of an index: a collection below `folder`, in the shared index or in one of the folder's own."""

    folder: Path
    collection: str
    states: FolderStates
    is_shared: bool = False


class FolderIndex:
    """The index of one folder. Make one object for a folder, and use it in one event loop.

    Concurrent searches share one listing and one update, which continues when they are cancelled. If several processes index
    the folder, one updates the index; the others wait for it and then find nothing left to do.

    - `directory` is where an index of the folder's own is stored.
    - `open_store` opens the store below a folder.
    - `shared` is the index of `llm-platform index`, if there is one.
    - `store` replaces the store of an index of the folder's own. It is not closed.
    - `collection` names the collection in an index of the folder's own.
    - `clock` returns seconds and never jumps.
    """

    def __init__(
        self,
        folder: Path,
        directory: IndexDirectory,
        files: file_source.FileDocumentSource,
        embedder: IEmbedder,
        *,
        open_store: Callable[[Path], IVectorStore],
        shared: SharedIndex | None = None,
        store: IVectorStore | None = None,
        collection: str = COLLECTION,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = folder.absolute()
        self._directory = directory
        self._files = files
        self._embedder = embedder
        self._shared = shared
        self._external_store = store
        self._open_store = open_store
        self._collection = collection
        self._clock = clock
        self._origin = ""
        self._location: _Location | None = None
        self._rejected_stamp: object = None  # the stamp of a shared state whose collection cannot be used
        self._store: IVectorStore | None = None
        self._retrieval: RetrievalService | None = None
        self._state: FolderState | None = None
        self._state_stamp: object = None
        self._view = FolderView(0, {}, {})
        self._check_after = float("-inf")
        self._refreshing: asyncio.Task[None] | None = None
        self._closed = False
        self._failed_before = False  # whether the last update failed in the store
        self._embedding: asyncio.Task[None] | None = None
        self._embedded = (0, 0)  # the number of documents that have vectors, and the number of all documents
        self.progress: IndexProgress | None = None  # set while an update runs

    @property
    def retrieval(self) -> RetrievalService:
        """The search over the indexed documents. While vectors are pending, it searches by keywords only."""
        if self._view.pending:
            done, total = self._embedded
            share = f" ({done:,} of {total:,})" if done else ""
            return self._build_retrieval(NoneEmbedder(KEYWORDS_ONLY.format(share)))
        if self._retrieval is None:
            self._retrieval = self._build_retrieval(self._embedder)
        return self._retrieval

    @property
    def filters(self) -> Filters:
        """The filters that keep a search to this folder."""
        return {ORIGIN_FIELD: (self._origin,)} if self._location and self._location.is_shared else {}

    @property
    def state_stamp(self) -> object:
        """A value that changes whenever the documents of the index change."""
        return self._location, self._state_stamp

    @property
    def documents_read(self) -> int:
        """The number of documents that the running update has processed, 0 if none runs."""
        return self.progress.documents if self.progress else 0

    async def document(self, doc_id: str) -> list[Passage]:
        """Return all passages of a document. The list is empty if the folder has no document by this id."""
        for candidate_id in (
            doc_id,
            file_source.qualify_id(self._files.folder_name(self._folder), self._origin, doc_id),
        ):
            passages = await self.retrieval.load_document(candidate_id)
            if passages and all(passages[0].fields.get(key) == values for key, values in self.filters.items()):
                return passages
        return []

    async def refresh(self) -> FolderView:
        """Bring the index in step with the folder, and return what it holds.

        A caller that is cancelled leaves the update running. After large changes (MUCH_BYTES), keywords find the new text
        when this returns, and its vectors are made in the background.

        Raises WebSearchConfigError if the folder cannot be opened, the index cannot be written, or `aclose` was called; and
        the errors of IndexingService.
        """
        if self._refreshing is not None and not self._refreshing.done():
            # A running update may have listed the folder before this call, so it may miss a change that its caller made.
            # Its error is reported to those who started it.
            await asyncio.wait([self._refreshing])
        if self._closed:
            raise exceptions.WebSearchConfigError("the search of the documents is closed")
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._refresh_when_due())
            self._refreshing.add_done_callback(_log_failure)
        await asyncio.shield(self._refreshing)
        return self._view

    async def aclose(self) -> None:
        """Stop the running update and close the index. What has been read stays in it. A second call does nothing."""
        self._closed = True
        refreshing, self._refreshing = self._refreshing, None
        if refreshing is not None:
            await cancel_and_wait(refreshing)
        await self._stop_embedding()
        await self._close_store()
        await asyncio.to_thread(self._directory.close)

    # --- comparing the index with the folder ------------------------------------------------------------------------------

    async def _refresh_when_due(self) -> None:
        """Update the index, unless the folder was listed a moment ago and the search may be answered by caches."""
        began = self._clock()
        if began < self._check_after and not searches_afresh():
            return
        listing = await self._list_files()
        took = self._clock() - began
        await self._refresh(listing)
        self._check_after = self._clock() + (
            0.0 if took <= CHECK_ALWAYS_S else min(CHECK_AGAIN_S, took * LISTING_SHARE)
        )

    async def _list_files(self) -> Listing:
        try:
            self._origin = self._origin or await asyncio.to_thread(file_source.get_origin, self._folder)
            return await asyncio.to_thread(
                list_folder, self._folder, suffixes=file_source.INDEXED, max_files=file_source.MAX_FILES
            )
        except (OSError, RuntimeError) as error:
            raise exceptions.WebSearchConfigError(
                "DOCUMENTS_DIR names no folder that can be opened: create it or correct the setting"
            ) from error

    async def _refresh(self, listing: Listing) -> None:
        """Update the index to a listing of the folder, unless another process has done so in the meantime."""
        location = await self._locate()
        await self._load_state(location)
        while not await self._is_current(location, listing):
            await self._stop_embedding()
            async with self._writer_lock(location):
                await self._load_state(location)
                if await self._is_current(location, listing):
                    break
                try:
                    self._state = await self._update_or_rebuild(location, listing)
                except exceptions.VectorStoreBusyError:
                    if not location.is_shared:
                        raise
                else:
                    await self._save_state(location, self._state)
                    break
            # `llm-platform index` is writing to the shared collection: wait until it has finished.
            await asyncio.sleep(LOCK_POLL_S)
        state = self._state or FolderState()
        skipped = {replace_unprintable(Path(position)): reason for position, reason in listing.left_out.items()}
        bad = skipped | dict(state.bad)
        self._view = FolderView(state.documents, bad, state.notes, listing.unread_summary, state.pending)
        if state.pending and (self._embedding is None or self._embedding.done()):
            self._embedding = asyncio.create_task(self._embed(location))
            self._embedding.add_done_callback(_log_failure)

    async def _locate(self) -> _Location:
        """Return the shared index if it holds this folder and can be used, else the index of the folder's own."""
        shared = self._shared
        stamp = await asyncio.to_thread(self._read_shared_stamp)
        if shared is not None and stamp is not None and stamp != self._rejected_stamp:
            location = _Location(shared.folder, shared.collection, shared.states, is_shared=True)
            if location == self._location:
                return location
            await self._move_to(location)
            if await self._uses_our_embedder(location):
                return location
            self._rejected_stamp = stamp
        location = await asyncio.to_thread(self._open_own_location)
        if location != self._location:
            await self._move_to(location)
        return location

    def _read_shared_stamp(self) -> tuple[int, int] | None:
        """Return the stamp of this folder's state in the shared index, or None if the shared index cannot serve the folder."""
        if self._shared is None or self._folder.is_file():
            # The state would describe the folder around the file, which has other documents as well.
            return None
        return self._shared.states.stamp(self._origin)

    async def _move_to(self, location: _Location) -> None:
        await self._stop_embedding()
        await self._close_store()
        self._location, self._state, self._state_stamp = location, None, None

    async def _uses_our_embedder(self, location: _Location) -> bool:
        try:
            collection_info = await self._use_store(location).describe(location.collection)
        except (exceptions.VectorStoreError, exceptions.VectorStoreConfigError):
            return False
        embedder = self._embedder
        return collection_info is not None and (collection_info.embedder, collection_info.dimension) == (
            embedder.name,
            embedder.dimension,
        )

    def _open_own_location(self) -> _Location:
        with _as_config_error():
            folder = self._directory.make()
        # The time of the last use matters to the clean-up only: without it, the index can still be used.
        with suppress(OSError):
            self._directory.touch()
        location = self._location
        if location is not None and not location.is_shared and location.folder == folder:
            return location
        return _Location(folder, self._collection, FolderStates(folder / self._collection))

    async def _load_state(self, location: _Location) -> None:
        """Read the stored state, unless it is the one that was read or written last."""
        stamp = await asyncio.to_thread(location.states.stamp, self._origin)
        if stamp != self._state_stamp or self._state is None:
            self._state = await asyncio.to_thread(location.states.load, self._origin)
            self._state_stamp = stamp

    async def _save_state(self, location: _Location, state: FolderState) -> None:
        await asyncio.to_thread(location.states.save, self._origin, state)
        self._state_stamp = await asyncio.to_thread(location.states.stamp, self._origin)

    async def _is_current(self, location: _Location, listing: Listing) -> bool:
        """Return whether the index holds the folder as it was listed.

        Another process may have removed the collection, so a matching state does not suffice.
        """
        if self._state is None or not self._state.matches(listing):
            return False
        if not self._state.documents:
            return True
        try:
            return await self._use_store(location).describe(location.collection) is not None
        except exceptions.VectorStoreError:
            return False

    @asynccontextmanager
    async def _writer_lock(self, location: _Location) -> AsyncIterator[None]:
        """Wait for the lock that lets one process at a time write to the index, and hold it inside the block."""
        lock = location.states.lock(self._origin) if location.is_shared else self._directory
        with _as_config_error():
            while not lock.acquire():  # noqa: ASYNC110  another process is waited for
                await asyncio.sleep(LOCK_POLL_S)
        try:
            yield
        finally:
            lock.release()

    # --- vectors ----------------------------------------------------------------------------------------------------------

    async def _embed(self, location: _Location) -> None:
        """Make the pending vectors, unless another process has made them while this one waited for the lock."""
        async with self._writer_lock(location):
            state = await asyncio.to_thread(location.states.load, self._origin)
            if state is None:
                return
            if state.pending:
                store = self._use_store(location)
                indexing = IndexingService(self._files, self._embedder, store, location.collection)
                async with aclosing(indexing.add_vectors()) as steps:
                    async for step in steps:
                        self._embedded = step
                state = replace(state, pending=False)
                await self._save_state(location, state)
        self._state = state
        self._view = replace(self._view, pending=False)
        self._embedded = (0, 0)

    async def _stop_embedding(self) -> None:
        embedding, self._embedding = self._embedding, None
        if embedding is not None:
            await cancel_and_wait(embedding)

    # --- updating ---------------------------------------------------------------------------------------------------------

    async def _update_or_rebuild(self, location: _Location, listing: Listing) -> FolderState:
        """Update the index, and return its new state.

        An index of the folder's own is rebuilt if it is damaged, since its documents can be read again. The shared index
        holds other folders as well and is never rebuilt. Raises VectorStoreError if an update fails, except that the second
        failure in a row leads to a rebuild. While the files cannot be used (VectorStoreUnavailableError), nothing is removed.
        """
        state = self._state or FolderState()
        if location.is_shared:
            return await self._update(location, listing, state)
        if await self._is_usable(location, listing, state):
            try:
                updated = await self._update(location, listing, state)
            except exceptions.VectorStoreUnavailableError:
                await self._close_store()
                raise
            except exceptions.VectorStoreError:
                await self._close_store()
                self._failed_before = not self._failed_before
                # The first failure may pass, and the index is as it was. A second one in a row is damage.
                if self._failed_before:
                    raise
                log.warning("folder index rebuilt")
            else:
                self._failed_before = False
                return updated
        await self._close_store()
        await asyncio.to_thread(self._remove_own, location)
        return await self._update(location, listing, FolderState())

    async def _is_usable(self, location: _Location, listing: Listing, state: FolderState) -> bool:
        """Return whether the collection can be read and updated.

        One that began with too few passages for a mean of their vectors, and has many by now, must be rebuilt. Raises
        VectorStoreUnavailableError, since an index that cannot be read for now may be intact.
        """
        try:
            collection_info = await self._use_store(location).describe(location.collection)
            if collection_info is None:
                return False
            if collection_info.mean or not collection_info.dimension or self._external_store is not None:
                return True
            passages = [
                document.passages async for document in self._use_store(location).documents(location.collection)
            ]
        except exceptions.VectorStoreUnavailableError:
            raise
        except exceptions.VectorStoreError as error:
            log.warning("folder index rebuilt", extra={"error": error.code})
            return False
        return max(sum(passages), len(listing.files) - len(state.bad)) < OUTGROWN

    def _remove_own(self, location: _Location) -> None:
        """Remove the index of the folder's own.

        The state is removed first: if a rebuild is interrupted, it must not claim that all files are indexed.
        """
        self._state = None
        with _as_config_error():
            location.states.remove(self._origin)
        shutil.rmtree(location.folder / location.collection, ignore_errors=True)

    async def _update(self, location: _Location, listing: Listing, state: FolderState) -> FolderState:
        unchanged = {path for path in listing.files if state.is_unchanged(path, listing)}
        changed_bytes = sum(file.stamp[0] for path, file in listing.files.items() if path not in unchanged)
        vectors_later = changed_bytes > MUCH_BYTES and self._embedder.dimension > 0 and not location.is_shared
        has_json_lines = any(path.lower().endswith(JSON_LINES) for path in (*state.files, *listing.files))
        reading = file_source.FolderReading(
            known={path: known_file for path, known_file in state.known.items() if path in unchanged},
            # The other document of an id may be gone, although the file of this one did not change.
            bad={at: why for at, why in state.select_valid(state.bad, listing).items() if not is_duplicate_id(why)},
            # In a shared index and in JSON lines, an id may have passed to another document.
            trusted=not (location.is_shared or has_json_lines),
            readable_only=True,
        )
        report = await self._index(location, reading, vectors_later=vectors_later)
        await self._remove_unreadable(location, reading, everything=not report.documents)
        files = {path: file.stamp for path, file in listing.files.items()}
        notes = {**state.select_valid(state.notes, listing), **reading.notes}
        digests = {path: digest for path, digest in reading.digests.items() if path in files}
        pending = vectors_later or state.pending
        bad = self._list_duplicates(report) | reading.found_bad
        return FolderState(files, bad, notes, report.documents, digests, pending)

    def _list_duplicates(self, report: IndexReport) -> dict[str, str]:
        """Return the reason by position for each document that was left out because another one has its id."""
        root = Path(replace_unprintable(self._folder.parent if self._folder.is_file() else self._folder))
        return {
            Path(problem.where).relative_to(root).as_posix(): problem.reason
            for problem in report.problems
            if is_duplicate_id(problem.reason)
        }

    async def _index(
        self, location: _Location, reading: file_source.FolderReading, *, vectors_later: bool
    ) -> IndexReport:
        source = _OneReading(self._files, reading)
        indexing = IndexingService(source, self._embedder, self._use_store(location), location.collection)
        report = IndexReport(collection=location.collection, embedder=self._embedder.name)
        try:
            async with aclosing(indexing.index([self._folder], prune=True, vectors_later=vectors_later)) as steps:
                async for step in steps:
                    if isinstance(step, IndexProgress):
                        self.progress = step
                    else:
                        report = step
        finally:
            self.progress = None
        return report

    async def _remove_unreadable(
        self, location: _Location, reading: file_source.FolderReading, *, everything: bool
    ) -> None:
        """Remove documents whose files cannot be read any more, or with `everything`, all documents of the folder.

        Indexing does not do this: it leaves such documents as they were, and prunes nothing if it finds no document at all.
        """
        store = self._use_store(location)
        if not (everything or reading.unreadable) or await store.describe(location.collection) is None:
            return
        removed = reading.unreadable
        if everything:
            documents = store.documents(location.collection)
            removed = [document.doc_id async for document in documents if document.origin == self._origin]
        for first in range(0, len(removed), REMOVAL_BATCH_SIZE):
            await store.remove(location.collection, removed[first : first + REMOVAL_BATCH_SIZE])
        await store.finish(location.collection)

    # --- the store --------------------------------------------------------------------------------------------------------

    def _build_retrieval(self, embedder: IEmbedder) -> RetrievalService:
        location = self._location or self._open_own_location()
        return RetrievalService(embedder, self._use_store(location), location.collection, top_k=MAX_TOP_K)

    def _use_store(self, location: _Location) -> IVectorStore:
        if self._store is None:
            external = None if location.is_shared else self._external_store
            self._store = external or self._open_store(location.folder)
        return self._store

    async def _close_store(self) -> None:
        store, self._store, self._retrieval = self._store, None, None
        if store is not None and store is not self._external_store:
            await store.aclose()


@dataclass(frozen=True, slots=True)
class _OneReading(IDocumentSource):
    """A document source that walks files with one `reading`: what is known of them, and what is found out about them."""

    files: file_source.FileDocumentSource
    reading: file_source.FolderReading

    def walk(self, paths: Sequence[Path]) -> IDocumentWalk:
        return self.files.walk(paths, self.reading)


@contextmanager
def _as_config_error() -> Iterator[None]:
    """Raise an OSError as WebSearchConfigError, with a message that names the setting."""
    try:
        yield
    except OSError as error:
        raise exceptions.WebSearchConfigError(
            "no folder is writable for the document index: set LLM_PLATFORM_DATA_DIR to a writable folder"
        ) from error


def _log_failure(task: asyncio.Task[None]) -> None:
    """Log the failure of a task that may have no caller left. The next search meets the error again and reports it."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.warning("folder not read", extra={"error": type(error).__name__})
