"""Requests are read as the published schemas say."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modules.llm_platform.domain.dtos.retrieval_dtos import ContextItem, RagQuestion, RagSearch, RagStage
from modules.llm_platform.presentation.kafka.contract.requests import (
    LARGEST_TOP_K,
    MAX_ID_CHARS,
    MEANINGS,
    REQUEST_TOPICS,
    Message,
    RequestError,
    read_message,
)
from modules.llm_platform.presentation.kafka.contract.schemas import schemas

MAX_BYTES = 1_000_000
SEARCH = {"request_id": "a", "query": "what"}
QUESTION = {"request_id": "a", "question": "why"}
VALIDATORS = {stage: jsonschema_rs.validator_for(schemas()[topic]) for stage, topic in REQUEST_TOPICS.items()}

_TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), max_size=4) | st.just(" ")
_SCALARS = st.none() | st.booleans() | st.integers(-2, 5) | st.sampled_from([1.0, 0.5, 1e300]) | _TEXTS
_LISTS = st.lists(_TEXTS | _SCALARS, max_size=3)
_ITEMS = st.dictionaries(st.sampled_from(["doc_id", "snippet", "url", "x"]), _SCALARS, max_size=3)
_VALUES = _SCALARS | _LISTS | st.lists(_ITEMS, max_size=3) | st.dictionaries(_TEXTS, _LISTS | st.none(), max_size=2)
_REQUESTS = st.builds(
    lambda base, more: {**base, **more},
    st.sampled_from([SEARCH, QUESTION, {}]),
    st.dictionaries(
        st.sampled_from(
            ["request_id", "trace_id", "metadata", "query", "question", "top_k", "filters", "context", "x"]
        ),
        _VALUES,
        max_size=3,
    ),
)


def read(value: Any, stage: RagStage = "search", **more: Any) -> Message:
    return read_message(stage, json.dumps(value).encode(), MAX_BYTES, **more)


def asked_search(**more: Any) -> RagSearch:
    asked = read({**SEARCH, **more}).asked
    assert isinstance(asked, RagSearch)
    return asked


def refusal(message: Message) -> tuple[str, str]:
    assert isinstance(message.asked, RequestError)
    return message.asked.field, message.asked.reason


@settings(max_examples=600, deadline=None)
@given(st.sampled_from(["search", "answer"]), _REQUESTS)
def test_what_the_schema_allows_is_what_is_read(stage: RagStage, value: dict[str, Any]) -> None:
    """A client that checks its requests against our schema is never refused, and one that fails it always is."""
    refused = isinstance(read(value, stage).asked, RequestError)
    assert VALIDATORS[stage].is_valid(value) is not refused


def test_every_field_of_a_search() -> None:
    """The contract's own example means what it says."""
    filters = {"doc_type": ["blog", "doc"], "lang": ["en"]}
    asked = asked_search(query=" vector databases ", top_k=5, filters=filters, trace_id="t", metadata={})
    assert asked == RagSearch(query="vector databases", top_k=5, filters={"doc_type": ("blog", "doc"), "lang": ("en",)})


def test_every_field_of_a_question() -> None:
    """Context keeps its order; a piece that says nothing is left out."""
    context = [
        {"doc_id": "d", "snippet": "s", "x": 1},
        {},
        {"url": "https://example.org", "snippet": None},
        {"doc_id": ""},
    ]
    asked = read({**QUESTION, "context": context}, "answer").asked
    pieces = (ContextItem(doc_id="d", snippet="s"), ContextItem(url="https://example.org"))
    assert asked == RagQuestion(question="why", context=pieces)


@pytest.mark.parametrize("name", ["trace_id", "metadata", "top_k", "filters"])
def test_null_is_not_given(name: str) -> None:
    """An optional field that is null is one that is absent."""
    assert read({**SEARCH, name: None}) == read(SEARCH)


def test_empty_filters_are_not_given() -> None:
    """Neither an empty list nor null is a filter."""
    assert asked_search(filters={"a": [], "b": None, "c": ["x"]}).filters == {"c": ("x",)}


@pytest.mark.parametrize(("given", "meant"), [(1, 1), (5.0, 5), (10**40, LARGEST_TOP_K), (1e300, LARGEST_TOP_K)])
def test_top_k_is_any_whole_number(given: float, meant: int) -> None:
    """However it is written, and however large."""
    assert asked_search(top_k=given).top_k == meant


def test_a_query_has_any_length() -> None:
    """The message's size is the only limit."""
    assert len(asked_search(query="x" * 900_000).query) == 900_000


def test_what_is_echoed_is_the_text_that_was_sent() -> None:
    """Also when the rest is refused; what has the wrong type is not repeated."""
    text = b'{"request_id": "a", "query": "", "trace_id": "t\\u0041", "metadata": { "n" : 1.10 }}'
    message = read_message("search", text, MAX_BYTES)
    assert refusal(message) == ("query", "empty_or_missing")
    assert (message.echo.trace_id, message.echo.metadata) == ('"t\\u0041"', '{ "n" : 1.10 }')
    wrong = read({**SEARCH, "trace_id": 3, "metadata": [1]})
    assert refusal(wrong) == ("trace_id", "wrong_type")
    assert (wrong.echo.trace_id, wrong.echo.metadata) == (None, None)


@pytest.mark.parametrize("size", [MAX_ID_CHARS, MAX_ID_CHARS + 1])
def test_an_id_has_a_longest_length(size: int) -> None:
    """One that is longer is none."""
    assert (read({**SEARCH, "request_id": "ü" * size}).request_id is None) is (size > MAX_ID_CHARS)


def test_every_reason_has_words() -> None:
    """Each ends a sentence that begins with the field, and names the place where there is one."""
    for reason in MEANINGS:
        assert str(RequestError("query", reason)) == f"query {MEANINGS[reason]}"
    error = RequestError("context", "wrong_type", "context[2].url")
    assert str(error).startswith("context[2].url is")
    assert error.details() == {"field": "context", "reason": "wrong_type", "path": "context[2].url"}


class TestTenants:
    """With KAFKA_TENANT_FIELD a request sees the documents of the tenant that its metadata names, and no others."""

    def test_without_the_setting_metadata_takes_no_part(self) -> None:
        """As the contract says."""
        assert asked_search(metadata={"tenant": "acme"}).filters == {}

    @pytest.mark.parametrize("value", [SEARCH, {**SEARCH, "filters": {"tenant": ["other", "acme"]}}])
    def test_a_search_is_kept_to_its_tenant(self, value: dict[str, Any]) -> None:
        """The filter is the tenant alone, also where the request would allow more."""
        asked = read({**value, "metadata": {"tenant": "acme"}}, tenant_field="tenant").asked
        assert isinstance(asked, RagSearch)
        assert asked.filters == {"tenant": ("acme",)}

    def test_a_question_is_kept_to_its_tenant(self) -> None:
        """The other stage, by the same rule."""
        asked = read({**QUESTION, "metadata": {"org": "acme"}}, "answer", tenant_field="org").asked
        assert isinstance(asked, RagQuestion)
        assert asked.filters == {"org": ("acme",)}

    @pytest.mark.parametrize("metadata", [None, {}, {"tenant": None}, {"tenant": ""}, {"other": "acme"}])
    def test_who_names_no_tenant_sees_nothing(self, metadata: Any) -> None:
        """A request without a tenant is refused, not answered from everybody's documents."""
        message = read({**SEARCH, "metadata": metadata}, tenant_field="tenant")
        assert refusal(message) == ("metadata", "tenant_missing")

    @pytest.mark.parametrize("tenant", [["acme"], 3, True, {"a": 1}])
    def test_a_tenant_is_a_string(self, tenant: Any) -> None:
        """Anything else is the wrong type."""
        message = read({**SEARCH, "metadata": {"tenant": tenant}}, tenant_field="tenant")
        assert refusal(message) == ("metadata", "wrong_type")

    def test_another_tenants_documents_cannot_be_asked_for(self) -> None:
        """A filter that leaves the own tenant out is refused."""
        value = {**SEARCH, "filters": {"tenant": ["other"]}, "metadata": {"tenant": "acme"}}
        assert refusal(read(value, tenant_field="tenant")) == ("filters", "tenant_mismatch")
