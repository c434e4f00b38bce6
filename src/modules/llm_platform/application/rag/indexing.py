"""The first stage of an indexing: which documents are there, which of them are new or changed, and what they say."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import UUID, uuid5

from modules.llm_platform.domain.chunking import MAX_WORDS, TRAIL, split_chunks
from modules.llm_platform.domain.dtos.indexing_dtos import (
    DocumentText,
    FoundDocument,
    IndexProblem,
    IndexProgress,
    IndexReport,
    LeftOut,
)
from modules.llm_platform.domain.dtos.retrieval_dtos import EmbeddedPassage, IndexedDocument, Passage, Vector
from modules.llm_platform.domain.mean_centering import MAX_VECTORS, mean_vector
from modules.llm_platform.domain.ports.document_source import IDocumentSource
from modules.llm_platform.domain.ports.vector_store import IVectorStore
from modules.llm_platform.domain.text.language import detect

# What an indexing has done so far.


MAX_PROBLEMS: Final = 1000  # that are named


@dataclass(slots=True)
class IndexingProgress:
    """Counts, and the ids that were met. An id takes about 150 bytes; nothing else here grows with the documents."""

    total_bytes: int = 0
    done_bytes: int = 0
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    failed: int = 0
    removed: int = 0
    displaced: int = 0
    removed_elsewhere: int = 0
    passages: int = 0
    problem_count: int = 0
    problems: list[IndexProblem] = field(default_factory=list)
    met: set[str] = field(default_factory=set)
    hidden: set[str] = field(default_factory=set)
    origins: Collection[str] = ()

    def stored(self, document: IndexedDocument, before: IndexedDocument | None) -> None:
        """`before` is what it took the place of."""
        self.passages += document.passages
        if before is None:
            self.added += 1
            return
        self.changed += 1
        if document.origin is not None and before.came_from_elsewhere((document.origin,)):
            self.displaced += 1

    def left_out(self, left: LeftOut) -> None:
        """It is in none of our counts of documents but this one, and must not be pruned for it."""
        self.failed += 1
        self.remark(left.where, left.reason)
        if left.hides is not None:
            self.hidden.add(left.hides)

    def remark(self, where: str, reason: str) -> None:
        self.problem_count += 1
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(IndexProblem(where=where, reason=reason))

    def is_gone(self, doc_id: str) -> bool:
        """Whether a document of the collection was looked for and not met."""
        return doc_id not in self.met and not any(map(doc_id.startswith, self.hidden))

    def progress(self) -> IndexProgress:
        return IndexProgress(
            documents=self.added + self.changed + self.unchanged + self.failed,
            passages=self.passages,
            done_bytes=self.done_bytes,
            total_bytes=self.total_bytes,
        )

    def report(self, collection: str, embedder: str) -> IndexReport:
        return IndexReport(
            collection=collection,
            embedder=embedder,
            added=self.added,
            changed=self.changed,
            unchanged=self.unchanged,
            failed=self.failed,
            removed=self.removed,
            displaced=self.displaced,
            removed_elsewhere=self.removed_elsewhere,
            passages=self.passages,
            problems=tuple(self.problems),
            problem_count=self.problem_count,
        )


# A document's text as passages with stable ids.


OVERLAP_WORDS: Final = 30  # whole sentences that stand in two passages, so that neither begins amid a thought
LABEL_UNLESS_IN_CHARS: Final = 400  # of a passage: what its beginning says is not said again before it
FORM: Final = f"4/{MAX_WORDS}/{OVERLAP_WORDS}"  # another one, and every document counts as changed
TOLD_BY_CHARS: Final = 2000  # enough to tell the language by, which sentences are split for

_PASSAGES: Final = UUID("8c1d2b57-6f0e-5f0c-9b57-2f6a4f1f3c77")  # the namespace of the ids


@dataclass(frozen=True, slots=True)
class CutDocument:
    """A document as it is stored."""

    document: IndexedDocument
    passages: list[Passage]

    @property
    def to_embed(self) -> list[str]:
        """What an embedder reads of each passage."""
        return [each.searched for each in self.passages]


def fingerprint(digest: str) -> str:
    """What tells that a document, or how we cut it, has changed."""
    return sha256(f"{FORM}:{digest}".encode()).hexdigest()


def cut_document(doc_id: str, digest: str, read: DocumentText, origin: str | None = None) -> CutDocument:
    """Passages of about MAX_WORDS that begin at headings and end at sentences. Empty where the text is."""
    lang = read.lang or detect(read.text[:TOLD_BY_CHARS])
    fields = {**read.fields, **({"lang": (lang,)} if lang and "lang" not in read.fields else {})}
    times: Counter[str] = Counter()
    passages = []
    for span in split_chunks(read.text, language=lang or "en", overlap=OVERLAP_WORDS):
        text = read.text[span.start : span.end]
        passages.append(
            Passage(
                id=passage_id(doc_id, text, times[text]), doc_id=doc_id, title=read.title, text=text, start=span.start,
                url=read.url, source=read.source, lang=lang, fields=fields, label=_label(read.title, span.heading, text),
            )
        )  # fmt: skip
        times[text] += 1
    document = IndexedDocument(
        doc_id=doc_id, sha256=fingerprint(digest), passages=len(passages), title=read.title, url=read.url,
        origin=origin,
    )  # fmt: skip
    return CutDocument(document, passages)


def _label(title: str, headings: str, text: str) -> str:
    """The title and the headings above, each once, without those that the passage's beginning says anyway: a file that begins
    with its title would count it twice.
    """
    beginning = _plain(text[:LABEL_UNLESS_IN_CHARS])
    wanted = {_plain(each): each for each in (title, *headings.split(TRAIL))}
    return "\n".join(each for plain, each in wanted.items() if plain and plain not in beginning)


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def passage_id(doc_id: str, text: str, before: int) -> str:
    """The same for the same words of the same document; `before` is how often they stood in it already."""
    return str(uuid5(_PASSAGES, "\0".join((doc_id, str(before), text)).encode("utf-8", "replace").decode()))


LOOKED_AT: Final = 256  # documents at once
LOOKED_AT_BYTES: Final = 16_000_000
BATCH_PASSAGES: Final = 256  # read and cut before they are embedded; a document is never divided
NO_TEXT: Final = "it holds no text"
EMPTIED: Final = "it holds no text any more: what was indexed of it is gone"
TWICE: Final = "a document with the id {!r} came before: give each another doc_id, or index their common folder"

Result = TypeVar("Result")


@dataclass(slots=True)
class DocumentBatch:
    """Documents to be stored. `known` are those that are in the collection in an older form, by their ids; `place` is how far
    the documents have been gone through, in bytes.
    """

    place: int
    documents: list[CutDocument] = field(default_factory=list)
    known: Mapping[str, IndexedDocument] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)
    remarks: list[tuple[str, str]] = field(default_factory=list)
    passages: int = 0


class DocumentIntake:
    """Goes through a source in a thread of its own, and tells the tally what it met."""

    def __init__(self, source: IDocumentSource, store: IVectorStore, collection: str, tally: IndexingProgress) -> None:
        self._source = source
        self._store = store
        self._collection = collection
        self._tally = tally

    async def batches(self, paths: Sequence[Path], *, is_new: bool) -> AsyncGenerator[DocumentBatch, None]:
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
                yield DocumentBatch(place)
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


def _read(waiting: deque[FoundDocument], known: Mapping[str, IndexedDocument]) -> DocumentBatch:
    """Read and cut documents until there are enough passages."""
    batch = DocumentBatch(0, known=known)
    while waiting and batch.passages < BATCH_PASSAGES:
        found = waiting.popleft()
        batch.place = found.place
        read = found.read()
        if isinstance(read, LeftOut):
            batch.left_out.append(read)
            continue
        document = cut_document(found.doc_id, found.digest, read, found.origin)
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


# Do the next step while the last one's result is being used.


Value = TypeVar("Value")


async def prefetch(source: AsyncGenerator[Value, None]) -> AsyncGenerator[Value, None]:
    """The same values; each is being made while the one before is in use. Whoever closes this closes the source."""
    making: asyncio.Task[Value] | None = None
    try:
        making = _next(source)
        while True:
            try:
                value = await making
            except StopAsyncIteration:
                making = None
                return
            making = _next(source)
            yield value
    finally:
        if making is not None:
            making.cancel()
            await asyncio.wait([making])
            if not making.cancelled():
                making.exception()  # nobody asks for it any more
        await source.aclose()


def _next(source: AsyncIterator[Value]) -> asyncio.Task[Value]:
    async def step() -> Value:
        return await anext(source)

    return asyncio.create_task(step())


# When to make what was written safe: often enough to lose little in a crash, seldom enough to cost little.


CHECKPOINT_S: Final = 20.0  # of work that a crash may cost
COST_SHARE: Final = 10  # at most a tenth of the time goes into making safe, however large the collection is


class Checkpoints:
    """`finish` makes safe what was written; it may take long, and so may the first write after it."""

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
        self._began: float | None = None  # of the last one, until the first write after it

    def wrote(self) -> None:
        """Something was written: what the last checkpoint cost is known now."""
        if self._began is not None:
            now = self._clock()
            self._due = now + max(self._every_s, (now - self._began) * COST_SHARE)
            self._began = None

    async def reached(self) -> None:
        """Here what was written is whole: make it safe when it is time."""
        if self._began is None and self._clock() >= self._due:
            self._began = self._clock()
            await self._finish()


# The facts of a collection that is being made: the mean of its vectors is taken from its first passages, and frozen.


MEAN_FROM: Final = 2000  # passages that are waited for, so that the mean is not that of the first few documents


@dataclass(slots=True)
class EmbeddedBatch:
    """Documents with vectors, ready to be stored; see `Batch`."""

    place: int
    documents: list[tuple[IndexedDocument, list[EmbeddedPassage]]] = field(default_factory=list)
    known: Mapping[str, IndexedDocument] = field(default_factory=dict)

    @property
    def vectors(self) -> list[Vector]:
        return [each.vector for _, passages in self.documents for each in passages if each.vector is not None]


async def new_collection_facts(
    batches: AsyncGenerator[EmbeddedBatch, None],
) -> tuple[list[EmbeddedBatch], tuple[float, ...]]:
    """The first batches, until there are enough passages or no more batches, and the mean of their vectors."""
    first: list[EmbeddedBatch] = []
    passages = 0
    async for batch in batches:
        first.append(batch)
        passages += sum(len(each) for _, each in batch.documents)
        if passages >= MEAN_FROM:
            break
    vectors = [vector for batch in first for vector in batch.vectors]
    step = max(1, len(vectors) // MAX_VECTORS)
    return first, mean_vector(vectors[::step])
