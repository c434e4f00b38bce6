"""infrastructure/documents/json_lines.py"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.infrastructure.documents import json_lines
from modules.llm_platform.infrastructure.documents.json_lines import parse_record, read_document, read_filters, read_id
from modules.llm_platform.infrastructure.parsing.decoding import UnreadableDocument

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)


@for_each("line", [b"", b"{", b"[1]", b"42", b'"text"', b"null", b"\xff\xfe", b"[" * 5000])
def test_line_without_object_is_refused(line: bytes) -> None:
    """In words that repeat nothing of it."""
    with pytest.raises(UnreadableDocument, match=r"it is not (JSON|a JSON object)"):
        parse_record(line)


@for_each(
    ("record", "doc_id"),
    [
        ({"doc_id": "a", "url": "https://x/"}, "a"),
        ({"doc_id": 17}, "17"),
        ({"url": "https://example.org/"}, "https://example.org/"),
        ({"doc_id": "", "url": "https://example.org/"}, "https://example.org/"),
        ({"doc_id": "half \ud800"}, "half ?"),
    ],
)
def test_the_id(record: dict[str, Any], doc_id: str) -> None:
    """What is given, else the address."""
    assert read_id(record) == doc_id


def test_id_is_made_from_content() -> None:
    """Without id and address the same words give the same id, and others another one."""
    first, second = ({"title": "T", "text": text} for text in ("one", "two"))
    assert read_id(first) == read_id(dict(first)) != read_id(second)


@for_each("given_id", [True, 1.5, ["a"], {"a": 1}, "x" * 1001, "   ", "\t\n"])
def test_an_id_that_is_none(given_id: Any) -> None:
    """It is refused rather than guessed."""
    with pytest.raises(UnreadableDocument, match="doc_id"):
        read_id({"doc_id": given_id})


def test_a_fractional_id_is_refused() -> None:
    """A fraction is a number, so the message says that an id must be an integer."""
    with pytest.raises(UnreadableDocument, match="neither text nor a whole number"):
        read_id({"doc_id": 1.5})


def test_record_becomes_a_document() -> None:
    """Title, text and the fields that the format names; line ends as in every text."""
    read = read_document(
        {"title": " A\n title ", "text": "One.\r\nTwo.\rThree.", "url": "https://x/", "source": "blog", "lang": "de"},
        "id",
    )
    assert (read.title, read.text) == ("A title", "One.\nTwo.\nThree.")
    assert (read.url, read.source, read.lang, read.note) == ("https://x/", "blog", "de", None)


@for_each(
    ("record", "title"), [({"text": "# Head\n\nx"}, "Head"), ({"text": "x"}, "id"), ({"title": 5, "text": "x"}, "id")]
)
def test_a_title_is_always_there(record: dict[str, Any], title: str) -> None:
    """The text's first heading, else the id."""
    assert read_document(record, "id").title == title


@for_each("record", [{}, {"text": None}, {"text": " \n"}, {"text": 5}, {"text": ["a"]}])
def test_without_text_there_is_nothing_to_find(record: dict[str, Any]) -> None:
    """The word says which field."""
    with pytest.raises(UnreadableDocument, match="`text`"):
        read_document(record, "id")


def test_a_very_long_text_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """A note reports the cut."""
    monkeypatch.setattr(json_lines, "RECORD_TEXT_CHARS", 10)
    read = read_document({"text": "0123456789abc"}, "id")
    assert (read.text, read.note) == ("0123456789", "only its first 10 characters were read")


def test_every_scalar_and_list_is_a_filter() -> None:
    """Values are filters in their JSON form, except null, nested values and the text itself."""
    record = {
        "text": "t",
        "title": "T",
        "doc_type": "blog",
        "year": 2026,
        "score": 1.5,
        "draft": True,
        "tags": ["a", 7, None, {}],
        "nothing": None,
        "nested": {"a": 1},
        "empty": [],
        "blank": "",
        "long": "x" * 1001,
    }
    assert read_filters(record) == {
        "title": ("T",),
        "doc_type": ("blog",),
        "year": ("2026",),
        "score": ("1.5",),
        "draft": ("true",),
        "tags": ("a", "7"),
        "blank": ("",),
    }
    assert read_document(record, "id").fields["doc_id"] == ("id",)


def test_filters_are_not_without_end() -> None:
    """A thousand values of one document are enough."""
    filters = read_filters({"a": [str(n) for n in range(900)], "b": [str(n) for n in range(900)], "c": "x"})
    assert sum(map(len, filters.values())) == 1000
    assert "c" not in filters


@given(
    st.dictionaries(st.sampled_from(["doc_id", "title", "text", "url", "source", "lang", "x", ""]), JSON, max_size=8)
)
def test_any_object_is_read_or_refused(value: dict[str, Any]) -> None:
    """Never another error, and nothing that UTF-8 cannot hold."""
    try:
        record = parse_record(json.dumps(value).encode())
        read = read_document(record, read_id(record))
    except UnreadableDocument:
        return
    assert read.text.strip()
    json.dumps([read.title, read.text, read.url, dict(read.fields)], ensure_ascii=False).encode()
