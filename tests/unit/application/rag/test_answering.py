"""Documents that a context names, looked up in the index."""

from __future__ import annotations

import pytest
from tests.support.cases import for_each
from tests.support.rag_world import COLLECTION, SECRETS, SESSIONS, Indexed, RagWorld

from modules.llm_platform.application.rag.answering import MAX_TEXT_CHARS, DocumentLookup
from modules.llm_platform.domain.dtos.retrieval_dtos import EmbeddedPassage, IndexedDocument, Passage
from modules.llm_platform.domain.exceptions import VectorStoreError

TEXT = "The first sentence. The second sentence. The third sentence."


async def known(world: RagWorld, passages: list[tuple[int, str]]) -> str:
    """Return the text that is put together from passages, each with its start."""
    cut = [
        EmbeddedPassage(
            Passage(id=f"00000000-0000-0000-0000-{n:012}", doc_id="d", title="D", text=text, start=start), None
        )
        for n, (start, text) in enumerate(passages)
    ]
    document = IndexedDocument(doc_id="d", sha256="0" * 64, passages=len(cut), title="D")
    await world.store.replace(COLLECTION, document, cut)
    found = await DocumentLookup(world.store, COLLECTION).find(["d"], {"d"}, {})
    return found["d"].text


@for_each(
    "cuts",
    [
        [(0, len(TEXT))],
        [(0, 40), (20, len(TEXT))],
        [(0, 19), (20, len(TEXT))],
        [(0, 40), (0, 40), (10, 30), (20, len(TEXT))],
    ],
)
async def test_overlap_of_passages_is_merged_once(cuts: list[tuple[int, int]]) -> None:
    """Overlapping passages give the text that they were cut from, give or take the blanks between them."""
    text = await known(await RagWorld(()).indexed(), [(start, TEXT[start:end]) for start, end in cuts])
    assert text.split() == TEXT.split()


async def test_passages_without_overlap_are_separated() -> None:
    """Passages whose texts differ from the document's characters lose nothing."""
    assert (
        await known(await RagWorld(()).indexed(), [(0, "# Head\nOne."), (3, "# Head\nTwo.")])
        == "# Head\nOne.\n\n# Head\nTwo."
    )


async def test_a_long_document_is_cut() -> None:
    """A document's id is short, so the text that it adds is limited."""
    world = await RagWorld((Indexed("long", "Long", tuple("word " * 2000 for _ in range(30))),)).indexed()
    found = await DocumentLookup(world.store, COLLECTION).find(["long"], ["long"], {})
    assert len(found["long"].text) == MAX_TEXT_CHARS


async def test_only_requested_documents_are_read() -> None:
    """A title and an address need no passages."""
    world = await RagWorld().indexed()
    found = await DocumentLookup(world.store, COLLECTION).find(["sessions", "none", "roles"], ["roles"], {})
    assert found["sessions"].text == ""
    assert (found["sessions"].title, found["sessions"].url) == (SESSIONS.title, SESSIONS.url)
    assert found["roles"].text
    assert "none" not in found


@pytest.mark.parametrize("with_text", [[], ["secrets", "sessions"]])
async def test_a_filter_hides_titles_too(with_text: list[str]) -> None:
    """A document of another tenant is absent whether its text is wanted or its name alone."""
    world = await RagWorld((SESSIONS, SECRETS)).indexed()
    lookup = DocumentLookup(world.store, COLLECTION)
    found = await lookup.find(["secrets", "sessions"], with_text, {"tenant": ("acme",), "lang": ()})
    assert set(found) == {"sessions"}
    assert set(await lookup.find(["secrets", "sessions"], with_text, {"tenant": ()})) == {"secrets", "sessions"}


async def test_a_store_that_fails_is_an_error() -> None:
    """Not knowing is not the same as not being there."""
    world = await RagWorld().indexed()
    world.store.error = VectorStoreError("away")
    for whole in ([], ["sessions"]):
        with pytest.raises(VectorStoreError):
            await DocumentLookup(world.store, COLLECTION).find(["sessions"], whole, {})
