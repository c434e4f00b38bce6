"""A named folder as a collection of its own, kept in step with the folder: looked at when something is asked, never between."""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from modules.llm_platform.application.services.indexing_service import IndexingService
from modules.llm_platform.application.services.retrieval_service import MAX_TOP_K, RetrievalService
from modules.llm_platform.domain.dtos.indexing_dtos import IndexProgress, IndexReport
from modules.llm_platform.domain.dtos.retrieval_dtos import Collection
from modules.llm_platform.domain.exceptions import VectorStoreError, WebSearchConfigError
from modules.llm_platform.domain.mean_centering import MIN_VECTORS
from modules.llm_platform.domain.ports.embedder import IEmbedder
from modules.llm_platform.domain.ports.vector_store import IVectorStore
from modules.llm_platform.infrastructure.adapters.embedded_vector_store import QdrantEdgeVectorStore
from modules.llm_platform.infrastructure.documents import folder_state as states
from modules.llm_platform.infrastructure.documents.file_source import INDEXED, MAX_FILES, FileDocumentSource
from modules.llm_platform.infrastructure.documents.folder import Listing, list_folder
from modules.llm_platform.infrastructure.documents.folder_source import FolderSource
from modules.llm_platform.infrastructure.documents.folder_state import FolderState, FolderView
from modules.llm_platform.infrastructure.documents.index_directory import IndexDirectory
from modules.llm_platform.infrastructure.documents.json_lines import JSON_LINES, shown
from modules.llm_platform.infrastructure.policies.unconfigured import NoneEmbedder

# What keeps a named folder from being searched, and what to do about it.


CLOSED: Final = "the search of the documents is closed"
NO_FOLDER: Final = "DOCUMENTS_DIR names no folder that can be opened: create it or correct the setting"
NO_PLACE: Final = "the index of the documents can be written nowhere: set LLM_PLATFORM_DATA_DIR to a writable folder"


@contextmanager
def os_error_text() -> Iterator[None]:
    """What is written where the indexes lie: what the system has against it is a mistake of the settings."""
    try:
        yield
    except OSError as error:
        raise WebSearchConfigError(NO_PLACE) from error


log = logging.getLogger(__name__)

COLLECTION: Final = "documents"  # of the folder's own store
LOOK_AGAIN_S: Final = 1.0  # at most this old is the view of a large folder
FREELY_S: Final = 0.02  # a folder that is looked through so fast (a thousand files) is looked at on every search
LOOKING_SHARE: Final = 20  # beyond that looking takes at most a twentieth of the time
ASK_AGAIN_S: Final = 0.05  # whether another process is done writing
REMOVED_AT_ONCE: Final = 500
MUCH_BYTES: Final = 5_000_000  # to be read: then words find it first, and vectors are made afterwards
BY_WORDS: Final = "the documents are still being read for meaning{}: found by words alone"
OUTGROWN: Final = (
    10 * MIN_VECTORS
)  # passages or files, from which on a collection that began too small for a mean gets one


class FolderIndex:
    """Made once for a folder; to be used by one event loop.

    Searches that come at once share one look and one reading, which goes on when they are cancelled. Of several processes
    one reads, the others wait until it is done and find nothing left to do.
    """

    def __init__(
        self,
        folder: Path,
        home: IndexDirectory,
        files: FileDocumentSource,
        embedder: IEmbedder,
        *,
        store: IVectorStore | None = None,
        open_store: Callable[[Path], IVectorStore] = QdrantEdgeVectorStore,
        collection: str = COLLECTION,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = folder.absolute()
        self._home = home
        self._files = files
        self._embedder = embedder
        self._given = store
        self._open_store = open_store
        self._collection = collection
        self._clock = clock
        self._store: IVectorStore | None = None
        self._retrieval: RetrievalService | None = None
        self._state: FolderState | None = None
        self._view = FolderView(0, {}, {})
        self._look_after = float("-inf")
        self._run: asyncio.Task[None] | None = None
        self._closed = False
        self._doubtful = False  # the last reading failed in the index
        self._embedding: asyncio.Task[None] | None = None
        self._embedded = (0, 0)  # documents, and of how many
        self.reading: IndexProgress | None = None  # how far we are, while we read

    @property
    def retrieval(self) -> RetrievalService:
        """The search over what was indexed, once something was; by words alone while vectors are pending."""
        if self._view.pending:
            done, of_all = self._embedded
            share = f" ({done:,} of {of_all:,})" if done else ""
            words = NoneEmbedder(BY_WORDS.format(share))
            return RetrievalService(words, self._open(), self._collection, top_k=MAX_TOP_K)
        if self._retrieval is None:
            self._retrieval = RetrievalService(self._embedder, self._open(), self._collection, top_k=MAX_TOP_K)
        return self._retrieval

    @property
    def so_far(self) -> int:
        """How many documents were read, of those that are being read."""
        return self.reading.documents if self.reading else 0

    async def in_step(self) -> FolderView:
        """The folder as it is now, read as far as it had changed. Cancelling leaves the reading under way. Where much had
        changed, words find it when this returns, and vectors are made afterwards, as long as nothing else is to be read.

        Raises WebSearchConfigError without a folder or after `aclose`, and what indexing raises.
        """
        if self._run is not None and not self._run.done():
            await asyncio.wait([self._run])  # it may have looked before we were asked; how it ended is others' business
        if self._closed:
            raise WebSearchConfigError(CLOSED)
        if self._run is None or self._run.done():
            self._run = asyncio.create_task(self._keep_in_step())
            self._run.add_done_callback(_heard)
        await asyncio.shield(self._run)
        return self._view

    async def aclose(self) -> None:
        """Stop reading; what was read is kept. A second call does nothing."""
        self._closed = True
        run, self._run = self._run, None
        if run is not None:
            run.cancel()
            await asyncio.wait([run])
        await self._stop_embedding()
        await self._close_store()
        await asyncio.to_thread(self._home.close)

    async def _close_store(self) -> None:
        store, self._store, self._retrieval = self._store, None, None
        if store is not None and store is not self._given:
            await store.aclose()

    # --- looking ----------------------------------------------------------------------------------------------------------

    async def _keep_in_step(self) -> None:
        began = self._clock()
        if began < self._look_after:
            return
        listing = await self._listing()
        took = self._clock() - began
        await self._bring(listing)
        self._look_after = self._clock() + (0.0 if took <= FREELY_S else min(LOOK_AGAIN_S, took * LOOKING_SHARE))

    async def _listing(self) -> Listing:
        try:
            return await asyncio.to_thread(list_folder, self._folder, suffixes=INDEXED, max_files=MAX_FILES)
        except (OSError, RuntimeError) as error:
            raise WebSearchConfigError(NO_FOLDER) from error

    async def _bring(self, listing: Listing) -> None:
        """Index what is new. Another process may do it, or have done it: then there is nothing left for us."""
        path = await asyncio.to_thread(self._place)
        if self._state is None:
            self._state = await asyncio.to_thread(states.load, path)
        if not await self._is_there(listing):
            await self._stop_embedding()
            async with self._turn():
                self._state = await asyncio.to_thread(states.load, path)
                if not await self._is_there(listing):
                    self._state = await self._healed(listing, path)
                    await asyncio.to_thread(states.save, path, self._state)
        state = self._state or FolderState()
        passed = {shown(Path(place)): word for place, word in listing.left_out.items()}
        self._view = FolderView(
            state.documents, passed | dict(state.bad), state.notes, listing.unread_words, state.pending
        )
        if state.pending and (self._embedding is None or self._embedding.done()):
            self._embedding = asyncio.create_task(self._embed(path))
            self._embedding.add_done_callback(_heard)

    async def _embed(self, path: Path) -> None:
        """Make the vectors that are pending; another process may have made them by the time that it is our turn."""
        async with self._turn():
            state = await asyncio.to_thread(states.load, path)
            if state is None:
                return
            if state.pending:
                indexing = IndexingService(self._files, self._embedder, self._open(), self._collection)
                async with aclosing(indexing.add_vectors()) as steps:
                    async for step in steps:
                        self._embedded = step
                state = replace(state, pending=False)
                await asyncio.to_thread(states.save, path, state)
        self._state = state
        self._view = replace(self._view, pending=False)
        self._embedded = (0, 0)

    async def _stop_embedding(self) -> None:
        embedding, self._embedding = self._embedding, None
        if embedding is not None:
            embedding.cancel()
            await asyncio.wait([embedding])

    def _place(self) -> Path:
        with os_error_text():
            place = self._home.make()
        with suppress(OSError):  # a look is no less true for it
            self._home.used()
        return place

    async def _is_there(self, listing: Listing) -> bool:
        """Whether the index holds the folder as it was listed; somebody may have removed it."""
        if self._state is None or not self._state.is_of(listing):
            return False
        if not self._state.documents:
            return True
        try:
            return await self._open().describe(self._collection) is not None
        except VectorStoreError:
            return False

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        with os_error_text():
            while not self._home.take():  # noqa: ASYNC110  another process is waited for
                await asyncio.sleep(ASK_AGAIN_S)
        try:
            yield
        finally:
            self._home.release()

    # --- reading ----------------------------------------------------------------------------------------------------------

    async def _healed(self, listing: Listing, path: Path) -> FolderState:
        """Indexed; anew where what is there is damaged, since all of it can be read again."""
        before = self._state or FolderState()
        if await self._is_usable(listing, before):
            try:
                state = await self._indexed(listing, before)
            except VectorStoreError:
                await self._close_store()
                self._doubtful = not self._doubtful
                if self._doubtful:  # a full disk passes, and the index is as it was; damage is met again
                    raise
                log.warning("folder index made anew")
            else:
                self._doubtful = False
                return state
        await self._close_store()
        await asyncio.to_thread(self._emptied, path)
        return await self._indexed(listing, FolderState())

    async def _is_usable(self, listing: Listing, before: FolderState) -> bool:
        try:
            there = await self._open().describe(self._collection)
            return there is not None and not await self._outgrown(there, listing, before)
        except VectorStoreError as error:
            log.warning("folder index made anew", extra={"error": error.code})
            return False

    def _emptied(self, path: Path) -> None:
        """What is known of the files goes first: of a reading that stops halfway it would say that all of them are there."""
        self._state = None
        with os_error_text():
            states.forget(path)
        shutil.rmtree(path / self._collection, ignore_errors=True)

    async def _outgrown(self, there: Collection, listing: Listing, before: FolderState) -> bool:
        """Whether it began with too few passages for a mean of their vectors, and there are many by now."""
        if there.mean or not there.dimension or self._given is not None:
            return False
        passages = [each.passages async for each in self._open().documents(self._collection)]
        return max(sum(passages), len(listing.files) - len(before.bad)) >= OUTGROWN

    async def _indexed(self, listing: Listing, before: FolderState) -> FolderState:
        bad = before.still_true(before.bad, listing)
        passed = [shown(Path(place)) for place in listing.left_out]
        known = {path: each for path, each in before.known.items() if before.is_same(path, listing)}
        changed = sum(file.stamp[0] for path, file in listing.files.items() if not before.is_same(path, listing))
        later = changed > MUCH_BYTES and self._embedder.dimension > 0
        trusted = not any(path.lower().endswith(JSON_LINES) for path in (*before.files, *listing.files))
        source = FolderSource(self._files, self._folder, bad, passed, known, trusted=trusted)
        report = await self._read(source, vectors_later=later)
        await self._forget(source, everything=not report.documents)
        files = {path: file.stamp for path, file in listing.files.items()}
        notes = {**before.still_true(before.notes, listing), **source.notes}
        digests = {path: digest for path, digest in source.digests.items() if path in files}
        return FolderState(files, source.found_bad, notes, report.documents, digests, later or before.pending)

    async def _read(self, source: FolderSource, *, vectors_later: bool) -> IndexReport:
        indexing = IndexingService(source, self._embedder, self._open(), self._collection)
        report = IndexReport(collection=self._collection, embedder=self._embedder.name)
        try:
            async with aclosing(indexing.index([self._folder], prune=True, vectors_later=vectors_later)) as steps:
                async for step in steps:
                    if isinstance(step, IndexProgress):
                        self.reading = step
                    else:
                        report = step
        finally:
            self.reading = None
        return report

    async def _forget(self, source: FolderSource, *, everything: bool) -> None:
        """Documents that cannot be read any more are found no longer: indexing alone keeps them as they were, and removes
        nothing where it met none at all.
        """
        store = self._open()
        if not (everything or source.unreadable) or await store.describe(self._collection) is None:
            return
        gone = [each.doc_id async for each in store.documents(self._collection)] if everything else source.unreadable
        for first in range(0, len(gone), REMOVED_AT_ONCE):
            await store.remove(self._collection, gone[first : first + REMOVED_AT_ONCE])
        await store.finish(self._collection)

    def _open(self) -> IVectorStore:
        if self._store is None:
            self._store = self._given or self._open_store(self._place())
        return self._store


def _heard(run: asyncio.Task[None]) -> None:
    """An error that nobody waits for any more is the next search's to meet."""
    if not run.cancelled() and (error := run.exception()) is not None:
        log.warning("folder not read", extra={"error": type(error).__name__})
