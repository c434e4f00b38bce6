"""The promises that every vector store keeps, for those who write one.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from modules.llm_platform.domain.dtos.retrieval_dtos import Collection, EmbeddedPassage, Filters, Vector
from modules.llm_platform.domain.exceptions import VectorStoreConfigError
from modules.llm_platform.domain.ports.vector_store import IVectorStore
from modules.llm_platform.testing.embedder import DIMENSION
from modules.llm_platform.testing.made_up_documents import (
    EMBEDDER,
    FACTS,
    NAME,
    a_document,
    failure_of,
    filled,
    found_by,
    listed,
    near,
    put,
    some_passages,
)

OpenAgain: TypeAlias = Callable[[], Awaitable[IVectorStore]]

HARD_FIELDS: Final = {
    "lang": ("en", "de"),
    "with.dots[0]": ("a.b",),
    "with=equals%": ("x=y", "100%", ""),
    'quote"and\\slash': ('"', "\\"),
    "ключ": ("значение",),
    "": ("no name",),
}
HARD_TEXT: Final = "日本語 👍 a\0b \u202e half a pair: \ud800 " + "x" * 5000
SIDE_BY_SIDE: Final = 12


class VectorStoreContract:
    """Subclass, give `store`, an empty one, and `open_again`, which opens another one on the same data."""

    many = 1100  # documents: more than the store lists at once

    async def test_nothing_is_there_before_it_is_made(self, store: IVectorStore) -> None:
        """A collection that is not there has no facts, and asking it is a mistake that names the remedy."""
        assert await store.describe(NAME) is None
        for asking in (store.search(NAME, "x", None, {}, 1), store.lookup(NAME, ["a"]), store.passages(NAME, "a")):
            error = await failure_of(asking)
            assert isinstance(error, VectorStoreConfigError)
            assert "llm-platform index" in error.message
        assert isinstance(await failure_of(listed(store)), VectorStoreConfigError)
        await store.finish(NAME)

    async def test_it_is_made_once(self, store: IVectorStore) -> None:
        """The first facts stay, the mean among them; making it again changes nothing."""
        facts = FACTS.model_copy(update={"mean": tuple(number / 1000 for number in range(DIMENSION))})
        await store.prepare(facts)
        await store.prepare(FACTS)
        assert await store.describe(NAME) == facts
        assert await listed(store) == []
        assert await found_by(store, "anything") == []

    async def test_another_embedder_is_refused(self, store: IVectorStore) -> None:
        """Vectors of two kinds do not mix: the error names both and the settings."""
        await filled(store)
        for update in ({"embedder": "other/64"}, {"dimension": 32}):
            error = await failure_of(store.prepare(FACTS.model_copy(update=update)))
            assert isinstance(error, VectorStoreConfigError)
            assert all(words in error.message for words in (FACTS.embedder, "EMBEDDER", "QDRANT_COLLECTION"))
        assert await store.describe(NAME) == FACTS

    async def test_what_was_put_is_there(self, store: IVectorStore) -> None:
        """Documents and passages come back as they were, the passages in the document's order."""
        await store.prepare(FACTS)
        texts = [f"passage number {number}" for number in range(12)]
        document = await put(store, "a/b.md", *texts, fields=HARD_FIELDS, title="Title", url="https://example.org/a")
        assert await listed(store) == [document]
        assert await store.lookup(NAME, ["a/b.md", "none"]) == {"a/b.md": document}
        assert await store.passages(NAME, "a/b.md") == some_passages(
            "a/b.md", texts, fields=HARD_FIELDS, title="Title", url="https://example.org/a"
        )
        assert await store.passages(NAME, "none") == []

    async def test_hard_texts(self, store: IVectorStore) -> None:
        """Any text can be kept; what no UTF-8 can hold is replaced."""
        await store.prepare(FACTS)
        await put(store, HARD_TEXT[:100], HARD_TEXT, title=HARD_TEXT[:50])
        (document,) = await listed(store)
        (passage,) = await store.passages(NAME, document.doc_id)
        assert passage.text == HARD_TEXT.replace("\ud800", "?")
        assert (await found_by(store, "日本語"))[0].passage == passage

    async def test_a_document_takes_the_place_of_its_old_form(self, store: IVectorStore) -> None:
        """All of the new, nothing of the old, and the others stay as they are."""
        await filled(store)
        await put(store, "cats", "lions hunt at dawn", "cats sleep on the mat")
        assert [each.text for each in await store.passages(NAME, "cats")] == [
            "lions hunt at dawn",
            "cats sleep on the mat",
        ]
        assert "milk" not in " ".join(each.passage.text for each in await found_by(store, "cats drink milk"))
        assert sorted(each.doc_id for each in await listed(store)) == ["cats", "dogs", "tasks"]
        assert (await store.lookup(NAME, ["cats"]))["cats"].passages == 2

    async def test_a_document_without_passages(self, store: IVectorStore) -> None:
        """An empty file is known, so that it is not read again."""
        await filled(store)
        await put(store, "cats")
        assert (await store.lookup(NAME, ["cats"]))["cats"].passages == 0
        assert await store.passages(NAME, "cats") == []
        assert "cats" not in {each.passage.doc_id for each in await found_by(store, "cats drink milk")}

    async def test_several_documents_at_once(self, store: IVectorStore) -> None:
        """Each takes the place of its old form, as if they had come one by one."""
        await filled(store)
        texts = {"cats": ["lions hunt at dawn"], "new": ["birds sing", "birds fly"], "dogs": []}
        batch = []
        for name, said in texts.items():
            embedded = zip(some_passages(name, said), await EMBEDDER.embed(said), strict=True)
            batch.append((a_document(name, said, ""), [EmbeddedPassage(*each) for each in embedded]))
        await store.replace_many(NAME, batch)
        await store.replace_many(NAME, [])
        for name, said in texts.items():
            assert [each.text for each in await store.passages(NAME, name)] == said
        assert sorted(each.doc_id for each in await listed(store)) == ["cats", "dogs", "new", "tasks"]
        assert (await found_by(store, "birds fly"))[0].passage.doc_id == "new"
        assert all("milk" not in each.passage.text for each in await found_by(store, "milk"))

    async def test_vectors_that_come_later(self, store: IVectorStore) -> None:
        """Until then words find a passage; then meaning does as well, and its document is known to be complete."""
        await store.prepare(FACTS)
        (passage,) = some_passages("cats", ["cats drink milk"])
        document = a_document("cats", ["cats drink milk"], "").model_copy(update={"embedded": False})
        await store.replace(NAME, document, [EmbeddedPassage(passage, None)])
        assert await listed(store) == [document]
        (vector,) = await EMBEDDER.embed(["cats drink milk"])
        assert await store.search(NAME, "?!", vector, {}, 5) == []
        complete = document.model_copy(update={"embedded": True})
        await store.add_vectors(NAME, [(complete, [EmbeddedPassage(passage, vector)])])
        assert await listed(store) == [complete]
        for text, asked in (("?!", vector), ("milk", None)):
            assert [each.passage for each in await store.search(NAME, text, asked, {}, 5)] == [passage]

    async def test_taking_out(self, store: IVectorStore) -> None:
        """What is taken out is gone with all its passages; what is not there is passed over."""
        await filled(store)
        await store.remove(NAME, ["cats", "never there"])
        await store.remove(NAME, [])
        assert sorted(each.doc_id for each in await listed(store)) == ["dogs", "tasks"]
        assert await store.passages(NAME, "cats") == []
        assert "cats" not in {each.passage.doc_id for each in await found_by(store, "cats drink milk")}

    async def test_many_documents(self, store: IVectorStore) -> None:
        """Each is listed once, however many there are."""
        await store.prepare(FACTS)
        for number in range(self.many):
            await store.replace(NAME, a_document(f"d{number}", [], ""), [])
        ids = [each.doc_id for each in await listed(store)]
        assert len(ids) == len(set(ids)) == self.many

    async def test_found_by_words_and_by_meaning(self, store: IVectorStore) -> None:
        """Best first, scores from 0 to 1, at most as many as wanted, each passage once."""
        await filled(store)
        found = await found_by(store, "how is a running task cancelled")
        assert found[0].passage.text == "a running task is cancelled by calling cancel"
        assert found[0].passage.fields == {"kind": ("code",)}
        scores = [each.score for each in found]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)
        assert len({each.passage.id for each in found}) == len(found)
        (first,) = await found_by(store, "how is a running task cancelled", limit=1)
        assert first.passage == found[0].passage

    async def test_by_words_alone(self, store: IVectorStore) -> None:
        """Without a vector the words find, and what shares none is not found."""
        await filled(store)
        found = await store.search(NAME, "the milk", None, {}, 10)
        assert [each.passage.doc_id for each in found] == ["cats"]
        assert 0 < found[0].score <= 1
        assert await store.search(NAME, "unheardof", None, {}, 10) == []

    async def test_by_meaning_alone(self, store: IVectorStore) -> None:
        """A question without a word that is anywhere is still near something."""
        await filled(store)
        (vector,) = await EMBEDDER.embed(["cats drink milk"])
        found = await store.search(NAME, "?!", vector, {}, 1)
        assert [each.passage.doc_id for each in found] == ["cats"]
        assert await store.search(NAME, "?!", None, {}, 1) == []

    async def test_the_label_counts(self, store: IVectorStore) -> None:
        """A word of a passage's label finds it, and the text that comes back is the passage's own."""
        await store.prepare(FACTS)
        await put(store, "a", "nothing to see", label="Zebras")
        found = await store.search(NAME, "zebras", None, {}, 5)
        assert [(each.passage.doc_id, each.passage.text) for each in found] == [("a", "nothing to see")]

    async def test_filters(self, store: IVectorStore) -> None:
        """Any of the values, all of the keys; an empty list is no filter; an unknown key or value means no hit."""
        await store.prepare(FACTS)
        for name, fields in {"a": {"x": ("1", "2"), "y": ("q",)}, "b": {"x": ("2",), "y": ("r",)}, "c": {}}.items():
            await put(store, name, f"the word {name}", fields=fields)
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
                found = await store.search(NAME, "the word", vector, filters, 10)
                assert {each.passage.doc_id for each in found} == expected, filters

    async def test_filters_of_any_name(self, store: IVectorStore) -> None:
        """Keys and values may hold whatever they like."""
        await store.prepare(FACTS)
        await put(store, "a", "the word", fields=HARD_FIELDS)
        for key, values in HARD_FIELDS.items():
            for value in values:
                assert len(await store.search(NAME, "word", None, {key: (value,)}, 10)) == 1, (key, value)
                assert await store.search(NAME, "word", None, {key: (value + "?",)}, 10) == []

    async def test_broken_vectors_never_enter(self, store: IVectorStore) -> None:
        """A passage whose vector is NaN, endless, zero, too short or missing is found by its words alone."""
        await filled(store)
        broken: tuple[Vector | None, ...] = (
            [math.nan] * DIMENSION,
            [math.inf, *[0.0] * (DIMENSION - 1)],
            [0.0] * DIMENSION,
            [1.0],
            [],
            None,
        )
        for number, vector in enumerate(broken):
            (passage,) = some_passages(f"broken{number}", ["the broken one"])
            document = a_document(f"broken{number}", ["the broken one"], "")
            await store.replace(NAME, document, [EmbeddedPassage(passage, vector)])
        (asked,) = await EMBEDDER.embed(["a running task"])
        found = await store.search(NAME, "a running task", asked, {}, 20)
        assert found[0].passage.doc_id == "tasks"
        assert not any(each.passage.doc_id.startswith("broken") for each in found)
        assert len(await store.search(NAME, "broken", None, {}, 20)) == len(broken)
        for vector in broken:
            assert (await store.search(NAME, "milk", vector, {}, 20))[0].passage.doc_id == "cats"

    async def test_a_collection_of_words(self, store: IVectorStore) -> None:
        """Without an embedder there are no vectors at all, and everything works."""
        await store.prepare(Collection(name=NAME, embedder="none", dimension=0))
        (passage,) = some_passages("a", ["cats drink milk"])
        await store.replace(NAME, a_document("a", ["cats drink milk"], ""), [EmbeddedPassage(passage, None)])
        assert [each.passage for each in await store.search(NAME, "milk", None, {}, 5)] == [passage]
        assert isinstance(await failure_of(store.prepare(FACTS)), VectorStoreConfigError)

    async def test_the_mean_is_taken_away(self, store: IVectorStore) -> None:
        """What all vectors share does not count: with it every passage would be as near as any other."""
        await store.prepare(FACTS.model_copy(update={"mean": (1.0, *[0.0] * (DIMENSION - 1))}))
        for position, name in enumerate("ab", 1):
            (passage,) = some_passages(name, ["same words"])
            await store.replace(NAME, a_document(name, ["same words"], ""), [EmbeddedPassage(passage, near(position))])
        for position, name in enumerate("ab", 1):
            found = await store.search(NAME, "?", near(position), {}, 1)
            assert found[0].passage.doc_id == name

    async def test_collections_do_not_mix(self, store: IVectorStore) -> None:
        """The same document in another collection is another document."""
        await filled(store)
        await store.prepare(FACTS.model_copy(update={"name": "other"}))
        assert await store.search("other", "milk", None, {}, 5) == []
        await store.remove("other", ["cats"])
        assert len(await listed(store)) == 3

    async def test_others_see_what_is_finished(self, store: IVectorStore, open_again: OpenAgain) -> None:
        """After `finish` another store sees the same: facts, documents and passages; and again after a change."""
        await filled(store)
        await store.finish(NAME)
        other = await open_again()
        assert await other.describe(NAME) == FACTS
        assert len([each async for each in other.documents(NAME)]) == 3
        (mine, theirs) = [await found_by(each, "cats drink milk") for each in (store, other)]
        assert [each.passage for each in mine] == [each.passage for each in theirs]
        await put(store, "cats", "lions hunt at dawn")
        await store.finish(NAME)
        await store.finish(NAME)
        assert [each.text for each in await other.passages(NAME, "cats")] == ["lions hunt at dawn"]
        assert (await found_by(other, "lions"))[0].passage.doc_id == "cats"

    async def test_callers_side_by_side(self, store: IVectorStore) -> None:
        """Writers and readers at once: everything that was put is there, and every search answers."""
        await filled(store)
        texts = [f"text of number{number} and more" for number in range(SIDE_BY_SIDE)]
        writing = [put(store, f"n{number}", text) for number, text in enumerate(texts)]
        reading = [found_by(store, "cats drink milk") for _ in texts]
        _, answers = await asyncio.gather(asyncio.gather(*writing), asyncio.gather(*reading))
        assert all(answer[0].passage.doc_id == "cats" for answer in answers)
        for number, text in enumerate(texts):
            assert (await found_by(store, f"number{number}"))[0].passage.text == text

    async def test_closing(self, store: IVectorStore) -> None:
        """Closing a second time does nothing."""
        await filled(store)
        await store.aclose()
        await store.aclose()
