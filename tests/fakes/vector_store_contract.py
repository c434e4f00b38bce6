"""The contract of `IVectorStore`, and documents to fill a store with."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from typing import Any, Final, TypeAlias
from uuid import NAMESPACE_URL, uuid5

from tests.fakes.embedder import DIMENSION, HashEmbedder

from modules.llm_platform.domain.dtos.retrieval_dtos import (
    Collection,
    EmbeddedPassage,
    Filters,
    FoundPassage,
    IndexedDocument,
    Passage,
    Vector,
)
from modules.llm_platform.domain.exceptions import VectorStoreConfigError
from modules.llm_platform.domain.ports.vector_store import IVectorStore
from modules.llm_platform.testing.waiting import error_of

COLLECTION_NAME: Final = "contract"
COLLECTION: Final = Collection(name=COLLECTION_NAME, embedder=f"hash/{DIMENSION}", dimension=DIMENSION)
EMBEDDER: Final = HashEmbedder()

OpenAgain: TypeAlias = Callable[[], Awaitable[IVectorStore]]

SPECIAL_FIELDS: Final = {
    "lang": ("en", "de"),
    "with.dots[0]": ("a.b",),
    "with=equals%": ("x=y", "100%", ""),
    'quote"and\\slash': ('"', "\\"),
    "ключ": ("значение",),
    "": ("no name",),
}
SPECIAL_TEXT: Final = "日本語 👍 a\0b \u202e half a pair: \ud800 " + "x" * 5000
CONCURRENT_CALLS: Final = 12


class VectorStoreContract:
    """Subclass it and add the fixtures `store` (an empty one) and `open_again` (opens another one on the same data)."""

    many = 1100  # documents: more than a page of the store

    async def test_missing_collection_is_a_config_error(self, store: IVectorStore) -> None:
        """A missing collection has no description, and calls raise an error that names the remedy."""
        assert await store.describe(COLLECTION_NAME) is None
        for call in (
            store.search(COLLECTION_NAME, "x", None, {}, 1),
            store.lookup(COLLECTION_NAME, ["a"]),
            store.passages(COLLECTION_NAME, "a"),
        ):
            error = await error_of(call, VectorStoreConfigError)
            assert "llm-platform index" in error.message
        await error_of(list_documents(store), VectorStoreConfigError)
        await store.finish(COLLECTION_NAME)

    async def test_prepare_creates_a_collection_once(self, store: IVectorStore) -> None:
        """A second `prepare` changes nothing, not even the mean."""
        collection = COLLECTION.model_copy(update={"mean": tuple(number / 1000 for number in range(DIMENSION))})
        await store.prepare(collection)
        await store.prepare(COLLECTION)
        assert await store.describe(COLLECTION_NAME) == collection
        assert await list_documents(store) == []
        assert await search(store, "anything") == []

    async def test_other_embedder_is_refused(self, store: IVectorStore) -> None:
        """Vectors of two embedders cannot be mixed: the error names the embedder and the settings."""
        await fill_store(store)
        for update in ({"embedder": "other/64"}, {"dimension": 32}):
            error = await error_of(store.prepare(COLLECTION.model_copy(update=update)), VectorStoreConfigError)
            assert all(words in error.message for words in (COLLECTION.embedder, "EMBEDDER", "QDRANT_COLLECTION"))
        assert await store.describe(COLLECTION_NAME) == COLLECTION

    async def test_document_is_returned_unchanged(self, store: IVectorStore) -> None:
        """Documents and passages are returned unchanged, the passages in order."""
        await store.prepare(COLLECTION)
        texts = [f"passage number {number}" for number in range(12)]
        document = await put_document(
            store, "a/b.md", *texts, fields=SPECIAL_FIELDS, title="Title", url="https://example.org/a"
        )
        assert await list_documents(store) == [document]
        assert await store.lookup(COLLECTION_NAME, ["a/b.md", "none"]) == {"a/b.md": document}
        assert await store.passages(COLLECTION_NAME, "a/b.md") == sample_passages(
            "a/b.md", texts, fields=SPECIAL_FIELDS, title="Title", url="https://example.org/a"
        )
        assert await store.passages(COLLECTION_NAME, "none") == []

    async def test_special_characters_are_stored(self, store: IVectorStore) -> None:
        """Any text can be stored; lone surrogates are replaced."""
        await store.prepare(COLLECTION)
        await put_document(store, SPECIAL_TEXT[:100], SPECIAL_TEXT, title=SPECIAL_TEXT[:50])
        (document,) = await list_documents(store)
        (passage,) = await store.passages(COLLECTION_NAME, document.doc_id)
        assert passage.text == SPECIAL_TEXT.replace("\ud800", "?")
        assert (await search(store, "日本語"))[0].passage == passage

    async def test_replace_removes_the_old_passages(self, store: IVectorStore) -> None:
        """After `replace` only the new passages exist; other documents are unchanged."""
        await fill_store(store)
        await put_document(store, "cats", "lions hunt at dawn", "cats sleep on the mat")
        assert [passage.text for passage in await store.passages(COLLECTION_NAME, "cats")] == [
            "lions hunt at dawn",
            "cats sleep on the mat",
        ]
        assert "milk" not in " ".join(hit.passage.text for hit in await search(store, "cats drink milk"))
        assert sorted(document.doc_id for document in await list_documents(store)) == ["cats", "dogs", "tasks"]
        assert (await store.lookup(COLLECTION_NAME, ["cats"]))["cats"].passages == 2

    async def test_document_can_have_no_passages(self, store: IVectorStore) -> None:
        """A document without passages is listed, so that its file is not read again."""
        await fill_store(store)
        await put_document(store, "cats")
        assert (await store.lookup(COLLECTION_NAME, ["cats"]))["cats"].passages == 0
        assert await store.passages(COLLECTION_NAME, "cats") == []
        assert "cats" not in {hit.passage.doc_id for hit in await search(store, "cats drink milk")}

    async def test_replace_many_replaces_each_document(self, store: IVectorStore) -> None:
        """`replace_many` has the effect of several calls of `replace`."""
        await fill_store(store)
        texts = {"cats": ["lions hunt at dawn"], "new": ["birds sing", "birds fly"], "dogs": []}
        batch = []
        for name, passages in texts.items():
            embedded = zip(sample_passages(name, passages), await EMBEDDER.embed(passages), strict=True)
            batch.append((sample_document(name, passages, ""), [EmbeddedPassage(*passage) for passage in embedded]))
        await store.replace_many(COLLECTION_NAME, batch)
        await store.replace_many(COLLECTION_NAME, [])
        for name, passages in texts.items():
            assert [passage.text for passage in await store.passages(COLLECTION_NAME, name)] == passages
        assert sorted(document.doc_id for document in await list_documents(store)) == ["cats", "dogs", "new", "tasks"]
        assert (await search(store, "birds fly"))[0].passage.doc_id == "new"
        assert all("milk" not in hit.passage.text for hit in await search(store, "milk"))

    async def test_vectors_can_be_added_later(self, store: IVectorStore) -> None:
        """A passage without a vector is found by keywords; after `add_vectors` also by its vector."""
        await store.prepare(COLLECTION)
        (passage,) = sample_passages("cats", ["cats drink milk"])
        document = sample_document("cats", ["cats drink milk"], "").model_copy(update={"embedded": False})
        await store.replace(COLLECTION_NAME, document, [EmbeddedPassage(passage, None)])
        assert await list_documents(store) == [document]
        (vector,) = await EMBEDDER.embed(["cats drink milk"])
        assert await store.search(COLLECTION_NAME, "?!", vector, {}, 5) == []
        complete = document.model_copy(update={"embedded": True})
        await store.add_vectors(COLLECTION_NAME, [(complete, [EmbeddedPassage(passage, vector)])])
        assert await list_documents(store) == [complete]
        for text, query_vector in (("?!", vector), ("milk", None)):
            assert [hit.passage for hit in await store.search(COLLECTION_NAME, text, query_vector, {}, 5)] == [passage]

    async def test_remove_deletes_documents(self, store: IVectorStore) -> None:
        """`remove` deletes documents with their passages and ignores unknown ids."""
        await fill_store(store)
        await store.remove(COLLECTION_NAME, ["cats", "never there"])
        await store.remove(COLLECTION_NAME, [])
        assert sorted(document.doc_id for document in await list_documents(store)) == ["dogs", "tasks"]
        assert await store.passages(COLLECTION_NAME, "cats") == []
        assert "cats" not in {hit.passage.doc_id for hit in await search(store, "cats drink milk")}

    async def test_documents_lists_all_pages(self, store: IVectorStore) -> None:
        """Each document is listed once, also beyond one page."""
        await store.prepare(COLLECTION)
        for number in range(self.many):
            await store.replace(COLLECTION_NAME, sample_document(f"d{number}", [], ""), [])
        ids = [document.doc_id for document in await list_documents(store)]
        assert len(ids) == len(set(ids)) == self.many

    async def test_hybrid_search_ranks_passages(self, store: IVectorStore) -> None:
        """Results are unique, sorted by a score from 0 to 1, and at most `limit`."""
        await fill_store(store)
        found = await search(store, "how is a running task cancelled")
        assert found[0].passage.text == "a running task is cancelled by calling cancel"
        assert found[0].passage.fields == {"kind": ("code",)}
        scores = [hit.score for hit in found]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)
        assert len({hit.passage.id for hit in found}) == len(found)
        (first,) = await search(store, "how is a running task cancelled", limit=1)
        assert first.passage == found[0].passage

    async def test_scores_do_not_depend_on_the_limit(self, store: IVectorStore) -> None:
        """The first results of a long list have the scores of a short one."""
        await store.prepare(COLLECTION)
        await put_document(
            store, "long", *(f"task {number} of {number % 7} and {number % 11}" for number in range(600))
        )
        short, long = [await search(store, "task 3 of 5", limit) for limit in (10, 400)]
        assert [hit.score for hit in long[:10]] == [hit.score for hit in short]

    async def test_keyword_search_without_vector(self, store: IVectorStore) -> None:
        """Without a vector only passages that share a keyword are found."""
        await fill_store(store)
        found = await store.search(COLLECTION_NAME, "the milk", None, {}, 10)
        assert [hit.passage.doc_id for hit in found] == ["cats"]
        assert 0 < found[0].score <= 1
        assert await store.search(COLLECTION_NAME, "unheardof", None, {}, 10) == []

    async def test_vector_search_without_keywords(self, store: IVectorStore) -> None:
        """A query without known keywords is answered by its vector."""
        await fill_store(store)
        (vector,) = await EMBEDDER.embed(["cats drink milk"])
        found = await store.search(COLLECTION_NAME, "?!", vector, {}, 1)
        assert [hit.passage.doc_id for hit in found] == ["cats"]
        assert await store.search(COLLECTION_NAME, "?!", None, {}, 1) == []

    async def test_label_is_searched(self, store: IVectorStore) -> None:
        """A keyword of the label finds the passage, whose text does not contain the label."""
        await store.prepare(COLLECTION)
        await put_document(store, "a", "nothing to see", label="Zebras")
        found = await store.search(COLLECTION_NAME, "zebras", None, {}, 5)
        assert [(hit.passage.doc_id, hit.passage.text) for hit in found] == [("a", "nothing to see")]

    async def test_filters_select_passages(self, store: IVectorStore) -> None:
        """Any value of every key must match; an empty list is no filter; unknown keys and values match nothing."""
        await store.prepare(COLLECTION)
        for name, fields in {"a": {"x": ("1", "2"), "y": ("q",)}, "b": {"x": ("2",), "y": ("r",)}, "c": {}}.items():
            await put_document(store, name, f"the word {name}", fields=fields)
        cases: tuple[tuple[Filters, set[str]], ...] = (
            ({"x": ("1",)}, {"a"}),
            ({"x": ("2",)}, {"a", "b"}),
            ({"x": ("1", "2"), "y": ("r", "s")}, {"b"}),
            ({"x": ()}, {"a", "b", "c"}),
            ({}, {"a", "b", "c"}),
            ({"x": ("3",)}, set()),
            ({"z": ("1",)}, set()),
            ({"x": ("1",), "z": ("1",)}, set()),
            ({"x": ("q",)}, set()),
        )
        for filters, expected in cases:
            for vector in (None, (await EMBEDDER.embed(["the word"]))[0]):
                found = await store.search(COLLECTION_NAME, "the word", vector, filters, 10)
                assert {hit.passage.doc_id for hit in found} == expected, filters

    async def test_filter_keys_and_values_can_be_any_text(self, store: IVectorStore) -> None:
        """Filter keys and values may contain any characters."""
        await store.prepare(COLLECTION)
        await put_document(store, "a", "the word", fields=SPECIAL_FIELDS)
        for key, values in SPECIAL_FIELDS.items():
            for value in values:
                assert len(await store.search(COLLECTION_NAME, "word", None, {key: (value,)}, 10)) == 1, (key, value)
                assert await store.search(COLLECTION_NAME, "word", None, {key: (value + "?",)}, 10) == []

    async def test_invalid_vectors_are_not_stored(self, store: IVectorStore) -> None:
        """A passage whose vector is NaN, infinite, zero, too short or missing is found by keywords only."""
        await fill_store(store)
        broken: tuple[Vector | None, ...] = (
            [math.nan] * DIMENSION,
            [math.inf, *[0.0] * (DIMENSION - 1)],
            [0.0] * DIMENSION,
            [1.0],
            [],
            None,
        )
        for number, vector in enumerate(broken):
            (passage,) = sample_passages(f"broken{number}", ["the broken one"])
            document = sample_document(f"broken{number}", ["the broken one"], "")
            await store.replace(COLLECTION_NAME, document, [EmbeddedPassage(passage, vector)])
        (query_vector,) = await EMBEDDER.embed(["a running task"])
        found = await store.search(COLLECTION_NAME, "a running task", query_vector, {}, 20)
        assert found[0].passage.doc_id == "tasks"
        assert not any(hit.passage.doc_id.startswith("broken") for hit in found)
        assert len(await store.search(COLLECTION_NAME, "broken", None, {}, 20)) == len(broken)
        for vector in broken:
            assert (await store.search(COLLECTION_NAME, "milk", vector, {}, 20))[0].passage.doc_id == "cats"

    async def test_collection_without_vectors(self, store: IVectorStore) -> None:
        """A collection of the embedder `none` supports keyword search."""
        await store.prepare(Collection(name=COLLECTION_NAME, embedder="none", dimension=0))
        (passage,) = sample_passages("a", ["cats drink milk"])
        await store.replace(
            COLLECTION_NAME, sample_document("a", ["cats drink milk"], ""), [EmbeddedPassage(passage, None)]
        )
        assert [hit.passage for hit in await store.search(COLLECTION_NAME, "milk", None, {}, 5)] == [passage]
        await error_of(store.prepare(COLLECTION), VectorStoreConfigError)

    async def test_vectors_are_mean_centered(self, store: IVectorStore) -> None:
        """The mean vector is subtracted; otherwise all passages would have nearly the same score."""
        await store.prepare(COLLECTION.model_copy(update={"mean": (1.0, *[0.0] * (DIMENSION - 1))}))
        for position, name in enumerate("ab", 1):
            (passage,) = sample_passages(name, ["same words"])
            await store.replace(
                COLLECTION_NAME,
                sample_document(name, ["same words"], ""),
                [EmbeddedPassage(passage, vector_near_mean(position))],
            )
        for position, name in enumerate("ab", 1):
            found = await store.search(COLLECTION_NAME, "?", vector_near_mean(position), {}, 1)
            assert found[0].passage.doc_id == name

    async def test_collections_are_independent(self, store: IVectorStore) -> None:
        """A change in one collection does not affect another one."""
        await fill_store(store)
        await store.prepare(COLLECTION.model_copy(update={"name": "other"}))
        assert await store.search("other", "milk", None, {}, 5) == []
        await store.remove("other", ["cats"])
        assert len(await list_documents(store)) == 3

    async def test_finished_changes_are_visible_to_other_stores(
        self, store: IVectorStore, open_again: OpenAgain
    ) -> None:
        """After `finish` another store reads the same collection, documents and passages, also after a change."""
        await fill_store(store)
        await store.finish(COLLECTION_NAME)
        other = await open_again()
        assert await other.describe(COLLECTION_NAME) == COLLECTION
        assert len([document async for document in other.documents(COLLECTION_NAME)]) == 3
        (mine, theirs) = [await search(reader, "cats drink milk") for reader in (store, other)]
        assert [hit.passage for hit in mine] == [hit.passage for hit in theirs]
        await put_document(store, "cats", "lions hunt at dawn")
        await store.finish(COLLECTION_NAME)
        await store.finish(COLLECTION_NAME)
        assert [passage.text for passage in await other.passages(COLLECTION_NAME, "cats")] == ["lions hunt at dawn"]
        assert (await search(other, "lions"))[0].passage.doc_id == "cats"

    async def test_calls_can_run_concurrently(self, store: IVectorStore) -> None:
        """With concurrent writes and searches, all documents are stored and all searches succeed."""
        await fill_store(store)
        texts = [f"text of number{number} and more" for number in range(CONCURRENT_CALLS)]
        writing = [put_document(store, f"n{number}", text) for number, text in enumerate(texts)]
        reading = [search(store, "cats drink milk") for _ in texts]
        _, answers = await asyncio.gather(asyncio.gather(*writing), asyncio.gather(*reading))
        assert all(answer[0].passage.doc_id == "cats" for answer in answers)
        for number, text in enumerate(texts):
            assert (await search(store, f"number{number}"))[0].passage.text == text

    async def test_store_can_be_closed_twice(self, store: IVectorStore) -> None:
        """A second `aclose` does nothing."""
        await fill_store(store)
        await store.aclose()
        await store.aclose()


async def fill_store(store: IVectorStore) -> None:
    await store.prepare(COLLECTION)
    await put_document(store, "cats", "cats drink milk", "cats sleep on the mat", fields={"kind": ("animal",)})
    await put_document(store, "dogs", "dogs chase a ball in the garden", fields={"kind": ("animal",)})
    await put_document(store, "tasks", "a running task is cancelled by calling cancel", fields={"kind": ("code",)})


async def put_document(store: IVectorStore, doc_id: str, *texts: str, **about: Any) -> IndexedDocument:
    passages = sample_passages(doc_id, texts, **about)
    vectors = await EMBEDDER.embed(texts)
    document = sample_document(doc_id, texts, about.get("title", ""), about.get("url"))
    embedded = [EmbeddedPassage(*pair) for pair in zip(passages, vectors, strict=True)]
    await store.replace(COLLECTION_NAME, document, embedded)
    return document


def sample_document(doc_id: str, texts: Sequence[str], title: str, url: str | None = None) -> IndexedDocument:
    digest = sha256("\n".join(texts).encode(errors="replace")).hexdigest()
    return IndexedDocument(doc_id=doc_id, sha256=digest, passages=len(texts), title=title, url=url)


def sample_passages(
    doc_id: str, texts: Sequence[str], title: str = "", fields: Filters | None = None, **about: Any
) -> list[Passage]:
    return [
        Passage(
            id=str(uuid5(NAMESPACE_URL, repr((doc_id, number, text)))),
            doc_id=doc_id,
            title=title,
            text=text,
            start=number * 10,
            lang="en",
            fields=fields or {},
            **about,
        )
        for number, text in enumerate(texts)
    ]


def vector_near_mean(position: int) -> list[float]:
    """Return a vector near the mean direction, with a small component at `position`."""
    vector = [1.0, *[0.0] * (DIMENSION - 1)]
    vector[position] = 0.1
    return vector


async def search(store: IVectorStore, text: str, limit: int = 10) -> list[FoundPassage]:
    (vector,) = await EMBEDDER.embed([text])
    return await store.search(COLLECTION_NAME, text, vector, {}, limit)


async def list_documents(store: IVectorStore) -> list[IndexedDocument]:
    return [document async for document in store.documents(COLLECTION_NAME)]
