"""Payloads of passages, documents and collections survive a round trip."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.domain.dtos.retrieval_dtos import Collection, IndexedDocument, Passage
from modules.llm_platform.domain.exceptions import VectorStoreConfigError
from modules.llm_platform.domain.retrieval.bm25 import FORM
from modules.llm_platform.domain.text.scripts import replace_surrogates
from modules.llm_platform.infrastructure.index.payloads import (
    make_document_payload,
    make_document_point,
    make_facts_payload,
    make_field_texts,
    make_passage_payload,
    parse_document,
    parse_facts,
    parse_passage,
    parse_place,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
FIELDS = st.dictionaries(TEXT, st.lists(TEXT, min_size=1).map(tuple), max_size=4)


@given(TEXT, TEXT, FIELDS, st.none() | TEXT)
def test_passages(doc_id: str, text: str, fields: dict[str, tuple[str, ...]], url: str | None) -> None:
    """Fields of any name and value among them, through JSON."""
    passage = Passage(id="x", doc_id=doc_id, title=text, text=text, start=7, url=url, fields=fields)
    assert parse_passage("x", json.loads(json.dumps(make_passage_payload(passage, 3)))) == passage


@given(TEXT, st.none() | TEXT, st.none() | TEXT)
def test_documents(text: str, url: str | None, origin: str | None) -> None:
    """With or without an address, and where it came from."""
    document = IndexedDocument(doc_id=text, sha256="s", passages=2, title=text, url=url, origin=origin)
    assert parse_document(json.loads(json.dumps(make_document_payload(document)))) == document


def test_facts() -> None:
    """The mean to the last digit."""
    facts = Collection(name="n", embedder="e", dimension=2, mean=(0.1, 1 / 3))
    assert parse_facts("n", json.loads(json.dumps(make_facts_payload(facts)))) == facts


@for_each("words", [None, FORM - 1, FORM + 1, "2"])
def test_facts_of_another_sparse_format(words: object) -> None:
    """Questions would find almost nothing without a visible reason, so the remedy is reported instead."""
    payload = {**make_facts_payload(Collection(name="n", embedder="e", dimension=2)), "words": words}
    with pytest.raises(VectorStoreConfigError, match=r"'n'.*index again"):
        parse_facts("n", payload)


@for_each("value", [None, 7, "text", [7], [[7]], {"a": 7}])
def test_damaged_payloads(value: object) -> None:
    """A field of a wrong type is a KeyError, which the stores turn into an error with a remedy; never another one."""
    passage = make_passage_payload(Passage(id="x", doc_id="d", title="t", text="t", pages=((0, 1),)), 3)
    document = make_document_payload(IndexedDocument(doc_id="d", sha256="s", passages=2, title="t", origin="o"))
    facts = make_facts_payload(Collection(name="n", embedder="e", dimension=2, mean=(0.1, 0.2)))
    readers: list[tuple[Callable[[dict[str, Any]], object], dict[str, Any]]] = [
        (lambda payload: parse_passage("x", payload), passage),
        (parse_place, passage),
        (parse_document, document),
        (lambda payload: parse_facts("n", payload), facts),
    ]
    for read, payload in readers:
        for name in payload:
            with suppress(KeyError, VectorStoreConfigError):
                read({**payload, name: value})


@given(TEXT, TEXT, TEXT, TEXT)
def test_fields_do_not_collide(key: str, value: str, other_key: str, other_value: str) -> None:
    """Two fields are written alike only where they are the same."""
    alike = make_field_texts(key, [value]) == make_field_texts(other_key, [other_value])
    assert alike == ((key, value) == (other_key, other_value))


@given(st.text())
def test_clean(text: str) -> None:
    """The result can be encoded in UTF-8, and valid text is unchanged."""
    assert replace_surrogates(text).encode().decode() == replace_surrogates(text)
    assert replace_surrogates(replace_surrogates(text)) == replace_surrogates(text)
    assert len(replace_surrogates(text)) == len(text)
    assert replace_surrogates("ünïcode") == "ünïcode"
    assert replace_surrogates("\ud800") == "?"


def test_points_of_documents() -> None:
    """The same on every machine, another for each document."""
    assert make_document_point("a") == "bcde56b6-ce99-502c-a8f6-848733b3d45e"
    assert make_document_point("a") != make_document_point("b")
