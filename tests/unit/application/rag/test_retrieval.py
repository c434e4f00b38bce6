"""application/rag/retrieval.py"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest
from tests.fakes.embedder import HashEmbedder
from tests.fakes.vector_store import MemoryVectorStore

from modules.llm_platform.application.rag.retrieval import MAX_TOP_K, RetrievalService
from modules.llm_platform.domain.dtos.retrieval_dtos import (
    Collection,
    EmbeddedPassage,
    IndexedDocument,
    Passage,
    RagSearch,
    Vector,
)
from modules.llm_platform.domain.exceptions import (
    EmbeddingConfigError,
    EmbeddingError,
    VectorStoreConfigError,
    VectorStoreError,
)
from modules.llm_platform.domain.ports.embedder import IEmbedder
from modules.llm_platform.domain.retrieval.embeddable import NoneEmbedder
from shared.exceptions import AppException

EMBEDDER = HashEmbedder()
FACTS = Collection(name="documents", embedder=EMBEDDER.name, dimension=EMBEDDER.dimension)


async def put(store: MemoryVectorStore, doc_id: str, *texts: str, **fields: str) -> None:
    passages = [
        Passage(
            id=f"{doc_id}-{n}",
            doc_id=doc_id,
            title=doc_id.title(),
            text=text,
            url=f"doc:{doc_id}",
            source="notes",
            fields={key: (value,) for key, value in fields.items()},
        )
        for n, text in enumerate(texts)
    ]
    vectors = await EMBEDDER.embed(texts)
    document = IndexedDocument(doc_id=doc_id, sha256="0", passages=len(texts))
    await store.replace("documents", document, [EmbeddedPassage(*pair) for pair in zip(passages, vectors, strict=True)])


@pytest.fixture
async def store() -> MemoryVectorStore:
    store = MemoryVectorStore()
    await store.prepare(FACTS)
    await put(store, "cats", "cats drink milk", "cats sleep on the warm mat", "milk is what cats like", lang="en")
    await put(store, "dogs", "dogs chase a ball", "dogs drink water", lang="en")
    await put(store, "vaches", "les vaches donnent du milk", lang="fr")
    return store


def service(store: MemoryVectorStore, embedder: IEmbedder = EMBEDDER, **options: float) -> RetrievalService:
    return RetrievalService(embedder, store, "documents", top_k=5, **options)


class TestHits:
    async def test_unsafe_addresses_are_removed(self, store: MemoryVectorStore) -> None:
        """An author's address may be a script, and callers make links of the addresses of hits."""
        for doc_id, url in (("evil", "javascript:alert(1)"), ("good", "https://example.org/a")):
            passage = Passage(id=doc_id, doc_id=doc_id, title=doc_id, text=f"{doc_id} owls", url=url)
            document = IndexedDocument(doc_id=doc_id, sha256="0", passages=1)
            (vector,) = await EMBEDDER.embed([passage.text])
            await store.replace("documents", document, [EmbeddedPassage(passage, vector)])
        found = await service(store).search(RagSearch(query="owls"))
        urls = {hit.doc_id: hit.url for hit in found.hits}
        assert (urls["evil"], urls["good"]) == (None, "https://example.org/a")

    async def test_one_for_each_document_at_its_best_passage(self, store: MemoryVectorStore) -> None:
        """The best document comes first, with scores from 0 to 1 and the document's metadata."""
        found = await service(store).search(RagSearch(query="what milk do cats drink"))
        assert len({hit.doc_id for hit in found.hits}) == len(found.hits)
        assert found.hits[0].model_dump(exclude={"score"}) == {
            "doc_id": "cats",
            "title": "Cats",
            "snippet": "cats drink milk",
            "source": "notes",
            "url": "doc:cats",
        }
        scores = [hit.score for hit in found.hits]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)
        assert (found.query_cut, found.degraded) == (False, ())

    async def test_the_number_of_hits_is_limited(self, store: MemoryVectorStore) -> None:
        """The platform's default applies without a number, and no number exceeds the limit."""
        for number in range(120):
            await put(store, f"d{number}", f"milk number {number}")
        asked = service(store)
        for top_k, expected in ((None, 5), (2, 2), (40, 40), (MAX_TOP_K + 50, MAX_TOP_K)):
            assert len((await asked.search(RagSearch(query="milk", top_k=top_k))).hits) == expected

    async def test_a_document_of_many_passages_hides_no_other(self, store: MemoryVectorStore) -> None:
        """When the best passages are all of one document, more are asked for."""
        await put(store, "milk", *(f"milk milk milk {number}" for number in range(100)))
        found = await service(store).search(RagSearch(query="milk", top_k=3))
        assert len(found.hits) == 3
        assert found.hits[0].doc_id == "milk"

    async def test_filters_go_to_the_store(self, store: MemoryVectorStore) -> None:
        """Any of the values, all of the keys; an unknown key finds nothing and is no error."""
        asked = service(store)
        french = await asked.search(RagSearch(query="milk", filters={"lang": ("fr", "it")}))
        assert [hit.doc_id for hit in french.hits] == ["vaches"]
        assert (await asked.search(RagSearch(query="milk", filters={"tenant": ("acme",)}))).hits == ()
        assert len((await asked.search(RagSearch(query="milk", filters={"lang": ()}))).hits) == 2

    async def test_finding_nothing_is_an_answer(self, store: MemoryVectorStore) -> None:
        """Words that occur nowhere give an empty result."""
        assert (await service(store, NoneEmbedder()).search(RagSearch(query="zebra"))).hits == ()

    async def test_passages_and_documents(self, store: MemoryVectorStore) -> None:
        """An answer gets several passages of one document. A reader gets all passages of a document in order."""
        asked = service(store)
        found = await asked.search_passages(RagSearch(query="cats milk", top_k=2))
        assert [passage.passage.doc_id for passage in found.passages] == ["cats", "cats"]
        assert [passage.id for passage in await asked.load_document("cats")] == ["cats-0", "cats-1", "cats-2"]
        assert await asked.load_document("nothing") == []


class TestLongQueries:
    async def test_they_are_cut_at_the_window_and_logged(
        self, store: MemoryVectorStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The response reports the cut, and the log contains no word of the text."""
        embedder = HashEmbedder(window_tokens=4)
        query = "cats drink milk every secretmorning " * 1000
        with caplog.at_level(logging.INFO):
            found = await service(store, embedder).search(RagSearch(query=query))
        assert found.query_cut
        assert embedder.calls == [("cats drink milk every",)]
        assert "query cut" in caplog.messages
        assert "secretmorning" not in str([vars(record) for record in caplog.records])

    async def test_short_query_is_not_cut(self, store: MemoryVectorStore) -> None:
        """Blanks at its end are no words."""
        assert not (await service(store).search(RagSearch(query="milk" + " " * 5000))).query_cut


class TestWordsAlone:
    @pytest.mark.parametrize("error", [EmbeddingError(), EmbeddingConfigError("set EMBEDDING_API_KEY")])
    async def test_an_embedder_that_fails(self, store: MemoryVectorStore, error: AppException) -> None:
        """The words find, and `degraded` says why the meaning did not help."""
        found = await service(store, HashEmbedder(error=error)).search(RagSearch(query="milk"))
        assert {hit.doc_id for hit in found.hits} == {"cats", "vaches"}
        assert [(degradation.component, degradation.reason) for degradation in found.degraded] == [
            ("hash/64", f"{error.code}: {error.message}")
        ]

    async def test_an_embedder_that_hangs(self, store: MemoryVectorStore) -> None:
        """A question does not wait for it longer than some seconds."""
        found = await service(store, HashEmbedder(delay_s=60), embedding_timeout_s=0.01).search(RagSearch(query="milk"))
        assert (len(found.hits), len(found.degraded)) == (2, 1)

    async def test_no_embedder(self, store: MemoryVectorStore) -> None:
        """A missing embedder may be intended, but is still reported."""
        found = await service(store, NoneEmbedder()).search(RagSearch(query="milk"))
        assert "EMBEDDER=none" in found.degraded[0].reason

    async def test_a_query_without_anything_to_embed(self, store: MemoryVectorStore) -> None:
        """Without text to embed nothing failed, so nothing is reported."""
        assert (await service(store).search(RagSearch(query="?!"))).degraded == ()


class TestMistakes:
    @pytest.mark.parametrize("other", [HashEmbedder(32), HashEmbedder(name="hash/other")])
    async def test_another_embedder_than_the_collections(self, store: MemoryVectorStore, other: HashEmbedder) -> None:
        """Scores would be chance: the error names both and the settings."""
        with pytest.raises(VectorStoreConfigError, match=r"hash/64 \(64 dimensions\).*EMBEDDER"):
            await service(store, other).search(RagSearch(query="milk"))

    async def test_embedder_of_the_collection_is_cached(self, store: MemoryVectorStore) -> None:
        """But often enough to see that it was made anew."""
        now, described = [0.0], []

        class Counting(MemoryVectorStore):
            async def describe(self, collection: str) -> Collection | None:
                described.append(collection)
                return await super().describe(collection)

        asked = service(Counting(same_as=store), clock=lambda: now[0])  # type: ignore[arg-type]
        for now[0] in (0.0, 10.0, 20.0, 40.0):
            await asked.search(RagSearch(query="milk"))
        assert len(described) == 2

    async def test_no_collection(self) -> None:
        """The error says how to make one."""
        for asking in ("search", "search_passages", "describe"):
            asked = service(MemoryVectorStore())
            with pytest.raises(VectorStoreConfigError, match="llm-platform index"):
                await (asked.describe() if asking == "describe" else getattr(asked, asking)(RagSearch(query="milk")))

    async def test_a_store_that_is_away(self, store: MemoryVectorStore) -> None:
        """Not being able to look is an error, never an empty answer."""
        store.error = VectorStoreError()
        with pytest.raises(VectorStoreError):
            await service(store).search(RagSearch(query="milk"))

    async def test_the_facts_of_the_collection(self, store: MemoryVectorStore) -> None:
        """Returns the facts of the collection, for callers that check whether it exists."""
        assert await service(store).describe() == FACTS


class Broken(IEmbedder):
    """Returns an invalid vector."""

    name, dimension, window_tokens = EMBEDDER.name, EMBEDDER.dimension, 100

    async def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        return [[float("nan")] * self.dimension for _ in texts]


async def test_a_vector_of_no_numbers_finds_by_words(store: MemoryVectorStore) -> None:
    """NaN never reaches a comparison."""
    found = await service(store, Broken()).search(RagSearch(query="milk"))
    assert {hit.doc_id for hit in found.hits} == {"cats", "vaches"}
