"""application/rag/indexing.py"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.embedder import HashEmbedder
from tests.fakes.vector_store import MemoryVectorStore

from modules.llm_platform.application.rag import embedded_batches, intake
from modules.llm_platform.application.rag.indexing import UPGRADED, IndexingService
from modules.llm_platform.application.rag.intake import EMPTIED, NO_TEXT
from modules.llm_platform.domain.dtos.indexing_dtos import (
    ORIGIN_FIELD,
    DocumentText,
    FoundDocument,
    IndexProgress,
    IndexReport,
    LeftOut,
)
from modules.llm_platform.domain.dtos.retrieval_dtos import EmbeddedPassage, IndexedDocument, Vector
from modules.llm_platform.domain.exceptions import EmbeddingError, VectorStoreConfigError, VectorStoreError
from modules.llm_platform.domain.ports.document_source import IDocumentSource, IDocumentWalk
from modules.llm_platform.domain.retrieval.embeddable import NoneEmbedder
from modules.llm_platform.domain.retrieval.mean_centering import MIN_VECTORS
from modules.llm_platform.testing.waiting import becomes_true

ALL = [Path("all")]


class Shelf(IDocumentSource, IDocumentWalk):
    """Documents by id. A LeftOut stands for an unreadable document. `read` lists the opened documents."""

    def __init__(self, **texts: str | LeftOut) -> None:
        self.texts: dict[str, str | LeftOut] = dict(texts)
        self.before: list[LeftOut] = []
        self.read: list[str] = []
        self.twice: list[str] = []
        self.stopped = self.closed = False
        self.total_bytes = 0
        self.origin: str | None = None
        self.unchanged: set[str] = set()
        self.qualifies = False
        self.displaced_origins: set[str] | None = None

    def walk(self, paths: Sequence[Path]) -> IDocumentWalk:
        self.total_bytes, self.closed, self.read = 10 * len(self.texts), False, []
        self.origins = (self.origin,) if self.origin else None
        return self

    def __iter__(self) -> Iterator[FoundDocument | LeftOut]:
        yield from self.before
        for position, doc_id in enumerate([*self.texts, *self.twice], 1):
            digest = str(self.texts[doc_id])
            found = FoundDocument(
                doc_id, digest, f"{doc_id}.md", 10 * position, lambda doc_id=doc_id: self._open(doc_id), self.origin
            )
            qualified = partial(replace, found, doc_id=f"{self.origin}/{doc_id}") if self.qualifies else None
            yield replace(found, unchanged=doc_id in self.unchanged, qualified=qualified)

    def _open(self, doc_id: str) -> DocumentText | LeftOut:
        self.read.append(doc_id)
        text = self.texts[doc_id]
        return (
            text
            if isinstance(text, LeftOut)
            else DocumentText(doc_id.upper(), text, note="cut" if "cut" in text else None)
        )

    def stop(self) -> None:
        self.stopped = True

    def close(self) -> None:
        self.closed = True

    def stored(self, displaced_origins: Collection[str]) -> None:
        self.displaced_origins = set(displaced_origins)


class Watched(MemoryVectorStore):
    """Counts finished documents, and fails at the document with this id."""

    def __init__(self, fails_at: str | None = None) -> None:
        super().__init__()
        self.fails_at, self.finished = fails_at, 0

    async def replace(self, collection: str, document: IndexedDocument, passages: Sequence[EmbeddedPassage]) -> None:
        if document.doc_id == self.fails_at:
            raise VectorStoreError
        await super().replace(collection, document, passages)

    async def finish(self, collection: str) -> None:
        self.finished += 1


@pytest.fixture
def shelf() -> Shelf:
    return Shelf(a="cats drink milk", b="dogs chase a ball", c="birds sing at dawn")


@pytest.fixture
def store() -> Watched:
    return Watched()


async def index(
    shelf: Shelf, store: MemoryVectorStore, *, prune: bool = False, replaces_collection: bool = False, **options: Any
) -> IndexReport:
    service = IndexingService(shelf, options.pop("embedder", HashEmbedder()), store, "documents", **options)
    steps = [step async for step in service.index(ALL, prune=prune, replaces_collection=replaces_collection)]
    assert all(isinstance(step, IndexProgress) for step in steps[:-1])
    assert isinstance(steps[-1], IndexReport)
    return steps[-1]


async def ids(store: MemoryVectorStore) -> set[str]:
    return {document.doc_id async for document in store.documents("documents")}


def counts(report: IndexReport) -> tuple[int, int, int, int, int]:
    return report.added, report.changed, report.unchanged, report.failed, report.removed


class TestWhatIsDone:
    async def test_everything_is_new_at_first(self, shelf: Shelf, store: Watched) -> None:
        """After the first run each document is found by its words."""
        report = await index(shelf, store)
        assert counts(report) == (3, 0, 0, 0, 0)
        assert (report.documents, report.passages, report.problems) == (3, 3, ())
        assert (await store.search("documents", "milk", None, {}, 5))[0].passage.title == "A"
        assert shelf.closed

    async def test_unchanged_documents_are_not_read(self, shelf: Shelf, store: Watched) -> None:
        """An unchanged document is neither read nor embedded again."""
        await index(shelf, store)
        embedder = HashEmbedder()
        report = await index(shelf, store, embedder=embedder)
        assert counts(report) == (0, 0, 3, 0, 0)
        assert (shelf.read, [call for call in embedder.calls if call]) == ([], [])

    async def test_changed_document_replaces_its_old_version(self, shelf: Shelf, store: Watched) -> None:
        """Other documents are unchanged. Missing documents are kept unless they are pruned."""
        await index(shelf, store)
        shelf.texts["b"] = "dogs sleep"
        del shelf.texts["c"]
        report = await index(shelf, store)
        assert (counts(report), shelf.read) == ((0, 1, 1, 0, 0), ["b"])
        assert await store.search("documents", "ball", None, {}, 5) == []
        assert await ids(store) == {"a", "b", "c"}

    async def test_emptied_document_is_not_found(self, shelf: Shelf, store: Watched) -> None:
        """The old passages of an emptied document are removed and reported once.

        A document that never had text is skipped.
        """
        await index(shelf, store)
        shelf.texts |= {"b": " ", "d": ""}
        report = await index(shelf, store)
        assert counts(report) == (0, 1, 2, 1, 0)
        assert [(problem.where, problem.reason) for problem in report.problems] == [
            ("d.md", NO_TEXT),
            ("b.md", EMPTIED),
        ]
        assert await store.search("documents", "ball", None, {}, 5) == []
        assert counts(await index(shelf, store)) == (0, 0, 3, 1, 0)

    async def test_another_chunking_changes_every_document(
        self, shelf: Shelf, store: Watched, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """After a change of the chunking, documents of an older version are indexed again."""
        await index(shelf, store)
        monkeypatch.setattr("modules.llm_platform.application.rag.passages.FORM", "2")
        report = await index(shelf, store)
        assert counts(report) == (0, 3, 0, 0, 0)
        assert [problem.reason for problem in report.problems] == [UPGRADED.format(documents="3 documents were")]
        assert not (await index(shelf, store)).problems

    async def test_words_alone(self, shelf: Shelf, store: Watched) -> None:
        """Without an embedder everything works but the vectors."""
        report = await index(shelf, store, embedder=NoneEmbedder())
        assert (report.embedder, report.added) == ("none", 3)
        assert (await store.search("documents", "milk", None, {}, 5))[0].passage.doc_id == "a"

    async def test_progress_goes_to_the_end(self, shelf: Shelf, store: Watched) -> None:
        """Bytes never go back, and end at all of them."""
        service = IndexingService(shelf, HashEmbedder(), store, "documents")
        steps = [step async for step in service.index(ALL) if isinstance(step, IndexProgress)]
        done = [step.done_bytes for step in steps]
        assert done == sorted(done)
        assert (steps[-1].done_bytes, steps[-1].total_bytes, steps[-1].documents) == (30, 30, 3)

    async def test_memory_is_bounded_by_batches(self, store: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
        """However many documents, no more are embedded at once than a batch holds."""
        monkeypatch.setattr(intake, "BATCH_PASSAGES", 4)
        monkeypatch.setattr(intake, "WALK_BATCH_DOCUMENTS", 10)
        monkeypatch.setattr(embedded_batches, "MEAN_PASSAGES", 20)
        embedder = HashEmbedder()
        report = await index(Shelf(**{f"d{n}": f"text {n}" for n in range(95)}), store, embedder=embedder)
        assert report.added == 95
        assert max(len(call) for call in embedder.calls) == 4


class TestKnownToBeUnchanged:
    async def test_it_is_not_asked_for(self, shelf: Shelf) -> None:
        """What the source vouches for counts as met and unchanged, and is not pruned."""
        asked: list[str] = []

        class Asked(Watched):
            async def lookup(self, collection: str, doc_ids: Sequence[str]) -> dict[str, IndexedDocument]:
                asked.extend(doc_ids)
                return await super().lookup(collection, doc_ids)

        store = Asked()
        await index(shelf, store)
        shelf.unchanged = {"a", "b"}
        shelf.texts["c"] = "birds sing at noon"
        assert counts(await index(shelf, store, prune=True))[:3] == (0, 1, 2)
        assert (asked, shelf.read) == (["c"], ["c"])
        assert await ids(store) == {"a", "b", "c"}

    async def test_a_collection_that_has_to_be_made_is_filled(self, shelf: Shelf, store: Watched) -> None:
        """Whatever the source says."""
        shelf.unchanged = {"a", "b", "c"}
        await index(shelf, store)
        assert await ids(store) == {"a", "b", "c"}


class TestPruning:
    async def test_prune_removes_missing_documents(self, shelf: Shelf, store: Watched) -> None:
        """And what cannot be read is not gone."""
        await index(shelf, store)
        del shelf.texts["c"]
        shelf.texts["b"] = LeftOut("b.md", "it is broken")
        report = await index(shelf, store, prune=True)
        assert counts(report) == (0, 0, 1, 1, 1)
        assert await ids(store) == {"a", "b"}

    @pytest.mark.parametrize(
        ("left", "stays"),
        [
            (LeftOut("sub", "the folder cannot be opened", hides="b"), {"a", "b"}),
            (LeftOut("x.jsonl", "it cannot be read", hides=""), {"a", "b", "c"}),
            (LeftOut("x.jsonl:3", "it is not JSON"), {"a"}),
        ],
    )
    async def test_prune_keeps_unreadable_documents(
        self, shelf: Shelf, store: Watched, left: LeftOut, stays: set[str]
    ) -> None:
        """A folder that cannot be opened for once does not empty the collection."""
        await index(shelf, store)
        shelf.texts, shelf.before = {"a": shelf.texts["a"]}, [left]
        await index(shelf, store, prune=True)
        assert await ids(store) == stays

    async def test_an_empty_folder_removes_nothing(self, shelf: Shelf, store: Watched) -> None:
        """An empty folder is more likely an unmounted disk than an intention. The report says so."""
        await index(shelf, store)
        shelf.texts = {}
        report = await index(shelf, store, prune=True)
        assert await ids(store) == {"a", "b", "c"}
        assert [problem.where for problem in report.problems] == ["--prune"]

    async def test_prune_of_a_missing_collection_does_nothing(self, store: Watched) -> None:
        """A collection that was never made is no error."""
        shelf = Shelf(a=LeftOut("a.md", "it is broken"))
        assert counts(await index(shelf, store, prune=True)) == (0, 0, 0, 1, 0)
        assert await store.describe("documents") is None


class TestBadDocuments:
    async def test_they_are_reported_and_the_others_indexed(self, shelf: Shelf, store: Watched) -> None:
        """Unreadable, without text, read in part, twice there: each is a word in the report."""
        shelf.texts |= {"bad": LeftOut("bad.md", "it is broken"), "empty": "  ", "part": "cut text"}
        shelf.before, shelf.twice = [LeftOut("x.jsonl:2", "it is not JSON")], ["a"]
        report = await index(shelf, store)
        assert counts(report) == (4, 0, 0, 4, 0)
        told = {problem.where: problem.reason for problem in report.problems}
        assert told.keys() == {"x.jsonl:2", "bad.md", "empty.md", "part.md", "a.md"}
        assert "another document has the id" in told["a.md"]
        assert report.problem_count == 5

    async def test_only_the_first_thousand_are_named(self, store: Watched) -> None:
        """A million bad lines do not fill the memory."""
        shelf = Shelf(a="text")
        shelf.before = [LeftOut(f"x:{number}", "it is not JSON") for number in range(1500)]
        report = await index(shelf, store)
        assert (len(report.problems), report.problem_count, report.failed, report.added) == (1000, 1500, 1500, 1)


class TestTheCollection:
    async def test_its_mean_is_taken_once(self, store: Watched) -> None:
        """The mean is taken from passages of the whole first part. With too few passages there is none."""
        await index(Shelf(a="one"), store)
        collection_info = await store.describe("documents")
        assert collection_info is not None
        assert collection_info.mean == ()
        many = Shelf(**{f"d{n}": f"text of {n}" for n in range(2 * MIN_VECTORS)})
        other = Watched()
        await index(many, other)
        collection_info = await other.describe("documents")
        assert collection_info is not None
        assert len(collection_info.mean) == collection_info.dimension == 64
        many.texts["new"] = "something else"
        await index(many, other)
        assert await other.describe("documents") == collection_info

    async def test_another_embedder_is_refused_before_anything_is_read(self, shelf: Shelf, store: Watched) -> None:
        """With the remedy in the error."""
        await index(shelf, store)
        with pytest.raises(VectorStoreConfigError, match="QDRANT_COLLECTION"):
            await index(shelf, store, embedder=HashEmbedder(32))
        assert shelf.read == ["a", "b", "c"]

    async def test_a_dimension_that_is_learned_with_the_first_vector(self, shelf: Shelf, store: Watched) -> None:
        """Some services report the dimension only with the first vector."""

        class Late(HashEmbedder):
            dimension = 0

            async def embed(self, texts: Sequence[str]) -> list[Vector | None]:
                self.dimension = 64
                return await super().embed(texts)

        late = Late()
        late.dimension = 0
        await index(shelf, store, embedder=late)
        collection_info = await store.describe("documents")
        assert collection_info is not None
        assert collection_info.dimension == 64
        late.dimension = 0
        assert (await index(shelf, store, embedder=late)).unchanged == 3


class TestInterruptions:
    @pytest.fixture(autouse=True)
    def _small_batches(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(intake, "BATCH_PASSAGES", 1)
        monkeypatch.setattr(embedded_batches, "MEAN_PASSAGES", 1)

    async def test_stored_documents_survive_an_error(self, shelf: Shelf) -> None:
        """And finished; the next run does only the rest."""
        store = Watched(fails_at="c")
        with pytest.raises(VectorStoreError):
            await index(shelf, store)
        assert (store.finished, await ids(store)) == (1, {"a", "b"})
        store.fails_at = None
        assert await becomes_true(lambda: shelf.closed, 60)
        assert counts(await index(shelf, store)) == (1, 0, 2, 0, 0)

    async def test_an_embedder_that_fails_is_an_error(self, shelf: Shelf, store: Watched) -> None:
        """Passages without vectors would leave half an index without notice."""
        with pytest.raises(EmbeddingError):
            await index(shelf, store, embedder=HashEmbedder(error=EmbeddingError()))
        assert await store.describe("documents") is None

    async def test_leaving_early(self, shelf: Shelf, store: Watched) -> None:
        """A caller that stops early keeps what was finished so far, which is flushed."""
        service = IndexingService(shelf, HashEmbedder(), store, "documents")
        async with aclosing(service.index(ALL)) as steps:
            await anext(steps)
        assert store.finished == 1
        assert await ids(store) == {"a"}
        assert shelf.stopped
        assert asyncio.all_tasks() == {asyncio.current_task()}

    async def test_cancelling_while_a_document_is_read(self, store: Watched) -> None:
        """The reader is told to stop, and is closed in its thread afterwards."""
        reading, stopped = threading.Event(), threading.Event()

        class Slow(Shelf):
            def _open(self, doc_id: str) -> DocumentText | LeftOut:
                reading.set()
                assert stopped.wait(60)
                return LeftOut(doc_id, "reading was stopped")

            def stop(self) -> None:
                stopped.set()

        shelf = Slow(a="text")
        task = asyncio.create_task(index(shelf, store))
        await asyncio.to_thread(reading.wait, 60)
        task.cancel()
        await asyncio.wait([task], timeout=60)
        assert task.cancelled()
        assert await becomes_true(lambda: shelf.closed, 60)

    async def test_checkpoints_on_the_way(self, shelf: Shelf, store: Watched) -> None:
        """On a running clock, stored documents are flushed before the end."""
        await index(shelf, store, checkpoint_s=0.0)
        assert store.finished > 1


class TestOrigins:
    """Documents of several folders in one collection."""

    @pytest.fixture
    def one(self) -> Shelf:
        shelf = Shelf(a="cats drink milk", b="dogs chase a ball", c="birds sing at dawn")
        shelf.origin = "A"
        return shelf

    @pytest.fixture
    def other(self) -> Shelf:
        shelf = Shelf(a="cows eat grass", d="fish swim")
        shelf.origin = "B"
        return shelf

    async def test_path_of_two_folders_stands_for_both(self, one: Shelf, other: Shelf, store: Watched) -> None:
        """The second document with the path gets another id and keeps it.

        Neither is read again, in any order of the folders.
        """
        other.qualifies = True
        await index(one, store)
        report = await index(other, store)
        assert (counts(report), report.displaced) == ((2, 0, 0, 0, 0), 0)
        assert await ids(store) == {"a", "b", "c", "B/a", "d"}
        assert counts(await index(other, store)) == (0, 0, 2, 0, 0)
        assert counts(await index(one, store)) == (0, 0, 3, 0, 0)
        del one.texts["a"]
        await index(one, store, prune=True)
        assert counts(await index(other, store, prune=True)) == (0, 0, 2, 0, 0)
        assert await ids(store) == {"b", "c", "B/a", "d"}

    async def test_passages_carry_the_origin(self, one: Shelf, other: Shelf, store: Watched) -> None:
        """So that a search can be kept to one folder."""
        await index(one, store)
        await index(other, store)
        found = await store.search("documents", "fish sing", None, {ORIGIN_FIELD: ("B",)}, 10)
        assert {hit.passage.doc_id for hit in found} == {"d"}

    async def test_own_id_passes_to_the_folder_that_was_indexed_last(
        self, one: Shelf, other: Shelf, store: Watched
    ) -> None:
        """A document keeps the plain id in the folder that was indexed last, even with the same text.

        The loss is counted, and the source learns which folder lost its document.
        """
        await index(one, store)
        other.texts["b"] = "dogs chase a ball"
        report = await index(other, store)
        assert (counts(report), report.displaced, other.displaced_origins) == ((1, 2, 0, 0, 0), 2, {"A"})
        report = await index(other, store)
        assert (counts(report), report.displaced, other.displaced_origins) == ((0, 0, 3, 0, 0), 0, set())

    async def test_pruning_leaves_other_folders_alone(self, one: Shelf, other: Shelf, store: Watched) -> None:
        """What is gone from the folder is removed; with `replaces_collection` everything else too, and the ids are free
        again.
        """
        other.qualifies = True
        await index(one, store)
        await index(other, store)
        del other.texts["d"]
        report = await index(other, store, prune=True)
        assert (report.removed, report.removed_elsewhere) == (1, 0)
        assert await ids(store) == {"a", "b", "c", "B/a"}
        report = await index(other, store, replaces_collection=True)
        assert (report.removed, report.removed_elsewhere, other.displaced_origins) == (3, 2, {"A"})
        assert await ids(store) == {"a"}

    @pytest.mark.parametrize(("before", "now"), [(None, "B"), (None, None)])
    async def test_documents_of_unknown_origin_are_replaced(
        self, one: Shelf, other: Shelf, store: Watched, before: str | None, now: str | None
    ) -> None:
        """Older indexes know none: no folder loses anything by that."""
        one.origin, other.origin = before, now
        await index(one, store)
        report = await index(other, store)
        assert (report.changed, report.displaced) == (1, 0)

    async def test_pruning_documents_of_unknown_origin(self, one: Shelf, other: Shelf, store: Watched) -> None:
        """They stay, unless everything else is to be removed or the source has no origins."""
        one.origin = None
        await index(one, store)
        assert (await index(other, store, prune=True)).removed == 0
        other.origin = None
        assert (await index(other, store, prune=True)).removed == 2
        await index(one, store)
        other.origin = "B"
        report = await index(other, store, replaces_collection=True)
        assert (report.removed, report.removed_elsewhere) == (2, 0)
