"""application/rag/passages.py"""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from modules.llm_platform.application.rag.passages import FORM, OVERLAP_WORDS, chunk_document, fingerprint
from modules.llm_platform.domain.dtos.indexing_dtos import ORIGIN_FIELD, DocumentText

LONG = "# Heating\n\n" + " ".join(f"The pump number {number} draws four kilowatts in winter." for number in range(120))


def test_a_document_becomes_passages_with_their_offsets() -> None:
    """Each passage is a verbatim part of the text. Neighbours share whole sentences."""
    read = DocumentText("T", LONG, "doc:a.md", "notes", fields={"doc_type": ("md",)})
    made = chunk_document("a.md", "digest", read, "A")
    assert made.document.model_dump() == {
        "doc_id": "a.md",
        "sha256": fingerprint("digest"),
        "passages": len(made.passages),
        "title": "T",
        "url": "doc:a.md",
        "origin": "A",
        "embedded": True,
        "form": FORM,
    }
    assert len(made.passages) > 2
    for passage in made.passages:
        assert LONG[passage.start :].startswith(passage.text)
        assert (passage.doc_id, passage.url, passage.source, passage.lang) == ("a.md", "doc:a.md", "notes", "en")
        filters = {"doc_type": ("md",), "lang": ("en",), "doc_id": ("a.md",), ORIGIN_FIELD: ("A",)}
        assert passage.fields == filters
        assert UUID(passage.id).version == 5
    first, second = made.passages[:2]
    shared = first.start + len(first.text) - second.start
    assert 0 < len(first.text[-shared:].split()) <= OVERLAP_WORDS
    assert second.text.startswith("The pump")


def test_a_passage_has_one_label() -> None:
    """The title and the headings above it, each once."""
    text = "# House\n\n" + "Its walls. " * 40 + "\n\n#" + LONG
    made = chunk_document("a.md", "digest", DocumentText("The farm", text))
    assert [passage.label.splitlines() for passage in made.passages[:3]] == [
        ["The farm"],
        ["The farm", "House"],
        ["The farm", "House", "Heating"],
    ]
    assert made.to_embed[2] == f"The farm\nHouse\nHeating\n{made.passages[2].text}"


def test_label_omits_headings_that_the_passage_repeats() -> None:
    """A file that begins with its title does not count it twice, however it is written; a word further down is no title."""
    (made,) = chunk_document("a.md", "digest", DocumentText("The house", "# THE\n house\n\nIt has a cellar.")).to_embed
    assert made == "# THE\n house\n\nIt has a cellar."
    later = "It has a cellar. " * 30 + "The house"
    assert chunk_document("a.md", "digest", DocumentText("The house", later)).passages[0].label == "The house"
    assert chunk_document("a.md", "digest", DocumentText("Heating", LONG)).passages[1].label == "Heating"


def test_the_language_that_is_named_wins() -> None:
    """A given language has priority, and is listed once in the filters."""
    named = DocumentText("T", "What is this?", lang="de-AT", fields={"lang": ("de-AT",)})
    (passage,) = chunk_document("a", "d", named).passages
    assert (passage.lang, passage.fields["lang"]) == ("de-AT", ("de-AT",))
    (unknown,) = chunk_document("a", "d", DocumentText("T", "42 17")).passages
    assert (unknown.lang, unknown.fields) == (None, {"doc_id": ("a",)})


@given(st.text(max_size=400), st.text(min_size=1, max_size=20))
def test_ids_are_stable_and_differ(text: str, doc_id: str) -> None:
    """The same document gives the same ids, no two passages share one, and another document has others."""
    text = f"{text}\n\n{text}"
    ids = [passage.id for passage in chunk_document(doc_id, "d", DocumentText("T", text)).passages]
    assert ids == [passage.id for passage in chunk_document(doc_id, "e", DocumentText("U", text)).passages]
    assert len(set(ids)) == len(ids)
    assert not set(ids) & {
        passage.id for passage in chunk_document(doc_id + "x", "d", DocumentText("T", text)).passages
    }


def test_repeated_text_makes_two_passages() -> None:
    """A document may repeat itself."""
    paragraph = "\n\n".join([" ".join(["again"] * 299)] * 3)
    ids = [passage.id for passage in chunk_document("a", "d", DocumentText("T", paragraph)).passages]
    assert len(ids) == len(set(ids)) >= 3


def test_no_text_no_passages() -> None:
    """Blanks hold nothing to find."""
    assert chunk_document("a", "d", DocumentText("T", " \n\n ")).passages == []
