"""The first stage of indexing: find the documents, read the new and changed ones, and split them into passages."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import UUID, uuid5

from modules.llm_platform.domain.concurrency.task_group import cancel_and_wait
from modules.llm_platform.domain.dtos import indexing_dtos as dtos
from modules.llm_platform.domain.dtos.retrieval_dtos import EmbeddedPassage, IndexedDocument, Passage, Vector
from modules.llm_platform.domain.ports.document_source import IDocumentSource, IDocumentWalk
from modules.llm_platform.domain.ports.vector_store import IVectorStore
from modules.llm_platform.domain.retrieval.chunking import HEADING_SEPARATOR, MAX_WORDS, split_chunks
from modules.llm_platform.domain.retrieval.mean_centering import MAX_VECTORS, mean_vector
from modules.llm_platform.domain.text.language import detect

MAX_PROBLEMS: Final = 1000  # problems that one report lists


@dataclass(slots=True)
class IndexingProgress:
    """The counts of a run and the ids of its documents. Only the ids (about 150 bytes each) grow with the documents."""

    total_bytes: int = 0
    done_bytes: int = 0
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    failed: int = 0
    removed: int = 0
    displaced: int = 0
    upgraded: int = 0  # had been stored in another form
    removed_elsewhere: int = 0
    passages: int = 0
    problem_count: int = 0
    problems: list[dtos.IndexProblem] = field(default_factory=list)
    seen: dict[str, str | None] = field(default_factory=dict)  # origins by id
    hidden: set[str] = field(default_factory=set)
    origins: Collection[str] | None = None
    displaced_origins: set[str] = field(default_factory=set)

    def count_stored(self, document: IndexedDocument, before: IndexedDocument | None) -> None:
        """Count a stored document; `before` is the one it replaced."""
        self.passages += document.passages
        if before is None:
            self.added += 1
            return
        self.changed += 1
        self.upgraded += before.form != document.form
        if before.origin is not None and before.came_from_elsewhere((document.origin,)):
            self.displaced += 1
            self.displaced_origins.add(before.origin)

    def count_failed(self, left: dtos.LeftOut) -> None:
        """Count a document that was not read. It is not pruned."""
        self.failed += 1
        self.add_problem(left.where, left.reason)
        if left.hides is not None:
            self.hidden.add(left.hides)

    def add_problem(self, where: str, reason: str) -> None:
        self.problem_count += 1
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(dtos.IndexProblem(where=where, reason=reason))

    def is_missing(self, doc_id: str) -> bool:
        """Return whether the walk was complete for this document of the collection and did not find it."""
        unqualified = doc_id.partition("/")[2]
        hidden = any(doc_id.startswith(prefix) or unqualified.startswith(prefix) for prefix in self.hidden)
        return doc_id not in self.seen and not hidden

    def snapshot(self) -> dtos.IndexProgress:
        return dtos.IndexProgress(
            documents=self.added + self.changed + self.unchanged + self.failed,
            passages=self.passages,
            done_bytes=self.done_bytes,
            total_bytes=self.total_bytes,
        )

    def report(self, collection: str, embedder: str) -> dtos.IndexReport:
        counts = {name: getattr(self, name) for name in dtos.IndexReport.model_fields if hasattr(self, name)}
        return dtos.IndexReport(collection=collection, embedder=embedder, **counts)


# --- passages with stable ids ---------------------------------------------------------------------------------------------

OVERLAP_WORDS: Final = 30  # two adjacent passages share this much, in complete sentences
LABEL_SEARCH_CHARS: Final = 400  # a heading in this part of the passage is not repeated in its label
FORM: Final = f"5/{MAX_WORDS}/{OVERLAP_WORDS}"  # a new value makes every document count as changed
LANGUAGE_SAMPLE_CHARS: Final = 2000

_PASSAGES: Final = UUID("8c1d2b57-6f0e-5f0c-9b57-2f6a4f1f3c77")  # the namespace of the ids


@dataclass(frozen=True, slots=True)
class ChunkedDocument:
    """A document and its passages, as they are stored."""

    document: IndexedDocument
    passages: list[Passage]

    @property
    def to_embed(self) -> list[str]:
        """The texts of the passages for an embedder."""
        return [passage.searched for passage in self.passages]


def fingerprint(digest: str) -> str:
    """Return a hash that changes with the document and with the chunking."""
    return sha256(f"{FORM}:{digest}".encode()).hexdigest()


def chunk_document(doc_id: str, digest: str, read: dtos.DocumentText, origin: str | None = None) -> ChunkedDocument:
    """Split the text into passages of about MAX_WORDS that start at headings and end at sentences; none for an empty text."""
    lang = read.lang or detect(read.text[:LANGUAGE_SAMPLE_CHARS])
    fields = {**read.fields, "doc_id": (doc_id,)}
    if lang and "lang" not in fields:
        fields["lang"] = (lang,)
    if origin is not None:
        fields[dtos.ORIGIN_FIELD] = (origin,)
    occurrences: Counter[str] = Counter()
    passages = []
    for span in split_chunks(read.text, language=lang or "en", overlap=OVERLAP_WORDS):
        text = read.text[span.start : span.end]
        passages.append(
            Passage(
                id=passage_id(doc_id, text, occurrences[text]), doc_id=doc_id, title=read.title, text=text, start=span.start,
                url=read.url, source=read.source, lang=lang, fields=fields, label=_label(read.title, span.heading, text),
            )
        )
        occurrences[text] += 1
    document = IndexedDocument(
        doc_id=doc_id, sha256=fingerprint(digest), passages=len(passages), title=read.title, url=read.url,
        origin=origin, form=FORM,
    )
    return ChunkedDocument(document, passages)


def _label(title: str, headings: str, text: str) -> str:
    """Return the title and the headings above the passage, without those that the beginning of the passage repeats."""
    beginning = _plain(text[:LABEL_SEARCH_CHARS])
    labels = {_plain(heading): heading for heading in (title, *headings.split(HEADING_SEPARATOR))}
    return "\n".join(label for plain, label in labels.items() if plain and plain not in beginning)


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def passage_id(doc_id: str, text: str, before: int) -> str:
    """Return an id that is equal for equal texts of one document; `before` counts the earlier passages of the document with
    this text.
    """
    return str(uuid5(_PASSAGES, "\0".join((doc_id, str(before), text)).encode("utf-8", "replace").decode()))


WALK_BATCH_DOCUMENTS: Final = 256
WALK_BATCH_BYTES: Final = 16_000_000
BATCH_PASSAGES: Final = 256  # passages embedded together; a document is never divided
NO_TEXT: Final = "it holds no text"
EMPTIED: Final = "it contains no text any more: its passages were removed from the index"
DUPLICATE_ID: Final = "another document has the id {!r}: give each its own doc_id, or index their common folder"

Result = TypeVar("Result")


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

    async def batches(self, paths: Sequence[Path], *, is_new: bool) -> AsyncGenerator[DocumentBatch, None]:
        """Yield the new and changed documents, all if the collection `is_new`. An empty batch reports the position."""
        thread = ThreadPoolExecutor(1, "indexing")
        walk = self._walk = await _in(thread, self._source.walk, paths)
        try:
            self._progress.total_bytes = walk.total_bytes
            self._progress.origins = walk.origins
            for problem in walk.remarks:
                self._progress.add_problem(*problem)
            rest = iter(walk)
            position = 0
            while walked := await _in(thread, _take, rest, position):
                found = [document for document in walked if isinstance(document, dtos.FoundDocument)]
                position = found[-1].position if found else position
                pending, known = await self._changed(walked, is_new=is_new)
                while pending:
                    batch = await _in(thread, _read, pending, known)
                    for left in batch.left_out:
                        self._progress.count_failed(left)
                    for problem in batch.problems:
                        self._progress.add_problem(*problem)
                    yield batch
                yield DocumentBatch(position)
            await _in(thread, walk.close)
        finally:
            walk.stop()
            thread.submit(walk.close)  # runs when the current call has ended
            thread.shutdown(wait=False)

    async def stored(self) -> None:
        """Report to the walk that the collection contains everything it found."""
        if self._walk is not None:
            await asyncio.to_thread(self._walk.stored, self._progress.displaced_origins)

    async def _changed(
        self, walked: Sequence[dtos.FoundDocument | dtos.LeftOut], *, is_new: bool
    ) -> tuple[deque[dtos.FoundDocument], Mapping[str, IndexedDocument]]:
        """Return the documents to read, each id once, and the documents of the collection with their ids."""
        found = [document for document in walked if isinstance(document, dtos.FoundDocument)]
        for left in walked:
            if isinstance(left, dtos.LeftOut):
                self._progress.count_failed(left)
        known: dict[str, IndexedDocument] = {}
        if not is_new:
            known = await self._lookup([document.doc_id for document in found if not document.unchanged])
            new = [
                document.qualified()
                for document in found
                if document.qualified and self._may_be_qualified(document, known)
            ]
            known |= await self._lookup([document.doc_id for document in new])
        pending: deque[dtos.FoundDocument] = deque()
        for document in found:
            resolved = self._with_final_id(document, known)
            if resolved.doc_id in self._progress.seen:
                self._progress.count_failed(dtos.LeftOut(resolved.where, DUPLICATE_ID.format(resolved.doc_id)))
                continue
            self._progress.seen[resolved.doc_id] = resolved.origin
            there = known.get(resolved.doc_id)
            if (there is not None and _is_same(resolved, there)) or (resolved.unchanged and not is_new):
                self._progress.unchanged += 1
            else:
                pending.append(resolved)
        return pending, known

    async def _lookup(self, doc_ids: Sequence[str]) -> dict[str, IndexedDocument]:
        return await self._store.lookup(self._collection, doc_ids) if doc_ids else {}

    def _may_be_qualified(self, found: dtos.FoundDocument, known: Mapping[str, IndexedDocument]) -> bool:
        there = known.get(found.doc_id)
        is_ours = there is not None and not there.came_from_elsewhere((found.origin,))
        return not (found.unchanged or is_ours or self._replaces_collection)

    def _with_final_id(self, found: dtos.FoundDocument, known: Mapping[str, IndexedDocument]) -> dtos.FoundDocument:
        """Return the document with a qualified id if another origin has the plain one, or if it was stored with it before."""
        if found.qualified is None:
            return found
        is_taken = self._progress.seen.get(found.doc_id, found.origin) != found.origin
        if is_taken or self._may_be_qualified(found, known):
            qualified = found.qualified()
            if is_taken or found.doc_id in known or qualified.doc_id in known:
                return qualified
        return found


def _is_same(found: dtos.FoundDocument, there: IndexedDocument) -> bool:
    return there.sha256 == fingerprint(found.digest) and there.origin == found.origin


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


async def _in(thread: ThreadPoolExecutor, work: Callable[..., Result], *args: Any) -> Result:
    return await asyncio.get_running_loop().run_in_executor(thread, partial(copy_context().run, work, *args))


# --- prefetching ----------------------------------------------------------------------------------------------------------

Value = TypeVar("Value")


async def prefetch(source: AsyncGenerator[Value, None]) -> AsyncGenerator[Value, None]:
    """Yield the values of the source; each is computed while the one before is in use. Closing this closes the source."""
    pending: asyncio.Task[Value] | None = None
    try:
        pending = _next(source)
        while True:
            try:
                value = await pending
            except StopAsyncIteration:
                pending = None
                return
            pending = _next(source)
            yield value
    finally:
        if pending is not None:
            await cancel_and_wait(pending)
        await source.aclose()


def _next(source: AsyncIterator[Value]) -> asyncio.Task[Value]:
    async def step() -> Value:
        return await anext(source)

    return asyncio.create_task(step())


# --- checkpoints ----------------------------------------------------------------------------------------------------------

CHECKPOINT_S: Final = 20.0  # seconds of work that a crash may lose
CHECKPOINT_COST_FACTOR: Final = 10  # checkpoints take at most a tenth of the time


class Checkpoints:
    """Decides when to call `finish`, which makes the written documents durable. It and the next write may be slow."""

    def __init__(
        self,
        finish: Callable[[], Awaitable[None]],
        every_s: float = CHECKPOINT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._finish = finish
        self._every_s = every_s
        self._clock = clock
        self._due = clock() + every_s
        self._began: float | None = None  # start of the last checkpoint, until something is written after it

    def record_write(self) -> None:
        """Record a write: the cost of the last checkpoint is known from here on."""
        if self._began is not None:
            now = self._clock()
            self._due = now + max(self._every_s, (now - self._began) * CHECKPOINT_COST_FACTOR)
            self._began = None

    async def finish_if_due(self) -> None:
        """Make a checkpoint if one is due. Called after a complete batch."""
        if self._began is None and self._clock() >= self._due:
            self._began = self._clock()
            await self._finish()


# --- the mean of a new collection -----------------------------------------------------------------------------------------

MEAN_PASSAGES: Final = 2000  # the mean of the vectors is computed once there are this many


@dataclass(slots=True)
class EmbeddedBatch:
    """Documents with vectors, ready to be stored; see DocumentBatch."""

    position: int
    documents: list[tuple[IndexedDocument, list[EmbeddedPassage]]] = field(default_factory=list)
    known: Mapping[str, IndexedDocument] = field(default_factory=dict)

    @property
    def vectors(self) -> list[Vector]:
        return [passage.vector for _, passages in self.documents for passage in passages if passage.vector is not None]


async def collect_mean(
    batches: AsyncGenerator[EmbeddedBatch, None],
) -> tuple[list[EmbeddedBatch], tuple[float, ...]]:
    """Return the first batches with at least MEAN_PASSAGES passages together, and the mean of their vectors."""
    first: list[EmbeddedBatch] = []
    passages = 0
    async for batch in batches:
        first.append(batch)
        passages += sum(len(embedded) for _, embedded in batch.documents)
        if passages >= MEAN_PASSAGES:
            break
    vectors = [vector for batch in first for vector in batch.vectors]
    step = max(1, len(vectors) // MAX_VECTORS)
    return first, mean_vector(vectors[::step])
