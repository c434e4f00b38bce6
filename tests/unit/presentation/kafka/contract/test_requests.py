"""Requests are read as the published schemas say."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import fuzz
from tests.support.cases import for_each

from modules.llm_platform.domain.dtos.retrieval_dtos import ContextItem, RagQuestion, RagSearch, RagStage
from modules.llm_platform.presentation.kafka.contract.requests import (
    KAFKA_ID_CHARS,
    KAFKA_TOP_K,
    REASON_TEXTS,
    REQUEST_TOPICS,
    ParsedRequest,
    RequestError,
    parse_request,
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


def read(value: Any, stage: RagStage = "search", **more: Any) -> ParsedRequest:
    return parse_request(stage, json.dumps(value).encode(), MAX_BYTES, **more)


def parsed_search(**more: Any) -> RagSearch:
    content = read({**SEARCH, **more}).content
    assert isinstance(content, RagSearch)
    return content


def refusal(message: ParsedRequest) -> tuple[str, str]:
    assert isinstance(message.content, RequestError)
    return message.content.field, message.content.reason


@settings(max_examples=fuzz.chosen(600, 5_000))
@given(st.sampled_from(["search", "answer"]), _REQUESTS)
def test_parser_accepts_what_the_schema_accepts(stage: RagStage, value: dict[str, Any]) -> None:
    """The parser accepts and refuses exactly what the schema accepts and refuses."""
    refused = isinstance(read(value, stage).content, RequestError)
    assert VALIDATORS[stage].is_valid(value) is not refused


def test_search_fields_are_parsed() -> None:
    """The contract's example is parsed into the documented values."""
    filters = {"doc_type": ["blog", "doc"], "lang": ["en"]}
    content = parsed_search(query=" vector databases ", top_k=5, filters=filters, trace_id="t", metadata={})
    assert content == RagSearch(
        query="vector databases", top_k=5, filters={"doc_type": ("blog", "doc"), "lang": ("en",)}
    )


def test_question_fields_are_parsed() -> None:
    """Context keeps its order without empty items."""
    context = [
        {"doc_id": "d", "snippet": "s", "x": 1},
        {},
        {"url": "https://example.org", "snippet": None},
        {"doc_id": ""},
        {"doc_id": "  "},
        {"doc_id": " ", "snippet": "t"},
    ]
    content = read({**QUESTION, "context": context}, "answer").content
    pieces = (ContextItem(doc_id="d", snippet="s"), ContextItem(url="https://example.org"), ContextItem(snippet="t"))
    assert content == RagQuestion(question="why", context=pieces)


@for_each("name", ["trace_id", "metadata", "top_k", "filters"])
def test_null_is_absent(name: str) -> None:
    """An optional field that is null is one that is absent."""
    assert read({**SEARCH, name: None}) == read(SEARCH)


def test_empty_filters_are_absent() -> None:
    """An empty list and null are no filters."""
    assert parsed_search(filters={"a": [], "b": None, "c": ["x"]}).filters == {"c": ("x",)}


@for_each(("given", "expected"), [(1, 1), (5.0, 5), (10**40, KAFKA_TOP_K), (1e300, KAFKA_TOP_K)])
def test_top_k_accepts_integers(given: float, expected: int) -> None:
    """In any notation and size."""
    assert parsed_search(top_k=given).top_k == expected


def test_query_has_no_length_limit() -> None:
    """The message size is the limit."""
    assert len(parsed_search(query="x" * 900_000).query) == 900_000


def test_echoed_fields_keep_their_source_text() -> None:
    """Also in an invalid request; a field of the wrong type is not echoed."""
    text = b'{"request_id": "a", "query": "", "trace_id": "t\\u0041", "metadata": { "n" : 1.10 }}'
    message = parse_request("search", text, MAX_BYTES)
    assert refusal(message) == ("query", "empty_or_missing")
    assert (message.echo.trace_id, message.echo.metadata) == ('"t\\u0041"', '{ "n" : 1.10 }')
    wrong = read({**SEARCH, "trace_id": 3, "metadata": [1]})
    assert refusal(wrong) == ("trace_id", "wrong_type")
    assert (wrong.echo.trace_id, wrong.echo.metadata) == (None, None)


@pytest.mark.parametrize("size", [KAFKA_ID_CHARS, KAFKA_ID_CHARS + 1])
def test_request_id_has_a_length_limit(size: int) -> None:
    """An id above the limit is ignored."""
    assert (read({**SEARCH, "request_id": "ü" * size}).request_id is None) is (size > KAFKA_ID_CHARS)


def test_every_reason_has_a_text() -> None:
    """It follows the field, or the path inside it."""
    for reason in REASON_TEXTS:
        assert str(RequestError("query", reason)) == f"query {REASON_TEXTS[reason]}"
    error = RequestError("context", "wrong_type", "context[2].url")
    assert str(error).startswith("context[2].url is")
    assert error.details() == {"field": "context", "reason": "wrong_type", "path": "context[2].url"}


class TestTenants:
    """With KAFKA_TENANT_FIELD a request sees the documents of the tenant that its metadata names, and no others."""

    def test_metadata_is_no_filter_without_the_setting(self) -> None:
        """As the contract says."""
        assert parsed_search(metadata={"tenant": "acme"}).filters == {}

    @pytest.mark.parametrize("value", [SEARCH, {**SEARCH, "filters": {"tenant": ["other", "acme"]}}])
    def test_search_is_restricted_to_its_tenant(self, value: dict[str, Any]) -> None:
        """Whatever its filters allow."""
        content = read({**value, "metadata": {"tenant": "acme"}}, tenant_field="tenant").content
        assert isinstance(content, RagSearch)
        assert content.filters == {"tenant": ("acme",)}

    def test_question_is_restricted_to_its_tenant(self) -> None:
        """The other stage, by the same rule."""
        content = read({**QUESTION, "metadata": {"org": "acme"}}, "answer", tenant_field="org").content
        assert isinstance(content, RagQuestion)
        assert content.filters == {"org": ("acme",)}

    @for_each("metadata", [None, {}, {"tenant": None}, {"tenant": ""}, {"other": "acme"}])
    def test_request_without_tenant_is_refused(self, metadata: Any) -> None:
        """A request without a tenant is refused, not answered from everybody's documents."""
        message = read({**SEARCH, "metadata": metadata}, tenant_field="tenant")
        assert refusal(message) == ("metadata", "tenant_missing")

    @for_each("tenant", [["acme"], 3, True, {"a": 1}])
    def test_tenant_must_be_a_string(self, tenant: Any) -> None:
        """Anything else is the wrong type."""
        message = read({**SEARCH, "metadata": {"tenant": tenant}}, tenant_field="tenant")
        assert refusal(message) == ("metadata", "wrong_type")

    def test_filter_for_another_tenant_is_refused(self) -> None:
        """A filter that excludes the request's own tenant is refused."""
        value = {**SEARCH, "filters": {"tenant": ["other"]}, "metadata": {"tenant": "acme"}}
        assert refusal(read(value, tenant_field="tenant")) == ("filters", "tenant_mismatch")
