"""The published schemas and the AsyncAPI document."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, get_args

import jsonschema_rs
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.retrieval_dtos import ContextItem, Hit, RagAnswer, RagCitation, RagHits, RagSearch
from modules.llm_platform.domain.exceptions import LLMConnectionError
from modules.llm_platform.presentation.kafka.contract import requests
from modules.llm_platform.presentation.kafka.contract.outcomes import (
    OUTCOME_TOO_LARGE,
    REUSED_HEADER,
    ErrorCode,
    Failure,
    describe_failure,
    encode_failure,
    encode_result,
)
from modules.llm_platform.presentation.kafka.contract.requests import (
    FAILED_TOPIC,
    REASON_TEXTS,
    REQUEST_TOPICS,
    RESULT_TOPICS,
    EchoedFields,
    RequestError,
)
from modules.llm_platform.presentation.kafka.contract.schemas import asyncapi, schemas

DOCUMENT = asyncapi()
SCHEMAS = schemas()
TOPICS = {*REQUEST_TOPICS.values(), *RESULT_TOPICS.values(), FAILED_TOPIC}

_TEXTS = st.text(max_size=9)
_MAYBE = st.none() | _TEXTS
_HITS = st.builds(Hit, doc_id=_TEXTS, score=st.floats(0, 1), title=_MAYBE, snippet=_MAYBE, source=_MAYBE, url=_MAYBE)
_PARTS = st.lists(st.builds(Degraded, component=_TEXTS, reason=_TEXTS), max_size=2).map(tuple)
_FOUND = st.builds(RagHits, hits=st.lists(_HITS, max_size=3).map(tuple), degraded=_PARTS)
_PAGE = st.none() | st.integers(1)
_CITED = st.lists(st.builds(RagCitation, doc_id=_MAYBE, title=_MAYBE, url=_MAYBE, page=_PAGE), max_size=3).map(tuple)
_ANSWERS = st.builds(RagAnswer, answer=_TEXTS, citations=_CITED, degraded=_PARTS)
_ECHOS = st.builds(EchoedFields, st.sampled_from([None, '"t"']), st.sampled_from([None, "{}", '{"a": [1.10]}']))


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for inner in part.values():
            yield from _references(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from _references(inner)


def _at(reference: str) -> Any:
    found: Any = DOCUMENT
    for name in reference.removeprefix("#/").split("/"):
        found = found[name]
    return found


def _problems(topic: str, body: bytes) -> list[str]:
    return [error.message for error in jsonschema_rs.validator_for(SCHEMAS[topic]).iter_errors(json.loads(body))]


def test_asyncapi_has_every_topic() -> None:
    """With channel, message, schema and operation."""
    assert {channel["address"] for channel in DOCUMENT["channels"].values()} == TOPICS
    assert DOCUMENT["components"]["messages"].keys() == TOPICS
    assert DOCUMENT["components"]["schemas"].keys() == TOPICS
    actions = {
        operation["channel"]["$ref"].rpartition("/")[2]: operation["action"]
        for operation in DOCUMENT["operations"].values()
    }
    assert actions == {topic: "receive" if topic in REQUEST_TOPICS.values() else "send" for topic in TOPICS}


def test_every_reference_resolves() -> None:
    """No tool stumbles over a name that is not there."""
    found = list(_references(DOCUMENT))
    assert len(found) > 20
    assert all(isinstance(_at(reference), dict) for reference in found)


@for_each("topic", sorted(TOPICS))
def test_schemas_are_valid(topic: str) -> None:
    """In draft 7 and in draft 2020-12."""
    jsonschema_rs.meta.validate(SCHEMAS[topic] | {"$schema": "https://json-schema.org/draft/2020-12/schema"})
    jsonschema_rs.meta.validate(SCHEMAS[topic] | {"$schema": "http://json-schema.org/draft-07/schema#"})


def test_schemas_have_every_field() -> None:
    """Except for the one that senders cannot set, and the one that is not sent."""
    named = {topic: schema["properties"] for topic, schema in SCHEMAS.items()}
    assert named[REQUEST_TOPICS["search"]].keys() >= RagSearch.model_fields.keys() - {"keyword_fallback"}
    assert named[REQUEST_TOPICS["answer"]]["context"]["items"]["properties"].keys() == ContextItem.model_fields.keys()
    assert named[RESULT_TOPICS["search"]]["hits"]["items"]["properties"].keys() == Hit.model_fields.keys() - {"pages"}
    assert named[RESULT_TOPICS["answer"]]["citations"]["items"]["properties"].keys() == RagCitation.model_fields.keys()


def test_a_later_field_is_compatible_in_a_registry() -> None:
    """A registry of Confluent refuses a typed property that is added to an object with unknown fields allowed, and takes one
    without a type: an earlier message may have anything there.
    """
    page = SCHEMAS[RESULT_TOPICS["answer"]]["properties"]["citations"]["items"]["properties"]["page"]
    assert page.keys() == {"description"}


def test_schemas_have_the_limits_of_the_parser() -> None:
    """A sender that keeps to the schema is not refused, and every code and header of an outcome is named."""
    search, answer = (SCHEMAS[topic]["properties"] for topic in REQUEST_TOPICS.values())
    for properties in (search, answer):
        assert properties["request_id"]["maxLength"] == requests.KAFKA_ID_CHARS
        assert properties["request_id"]["not"] == {"pattern": f"^{requests.FALLBACK_ID_PREFIX}"}
    filters = search["filters"]
    assert filters["maxProperties"] == requests.MAX_FILTERS
    assert filters["additionalProperties"]["maxItems"] == requests.KAFKA_FILTER_VALUES
    assert answer["context"]["maxItems"] == requests.MAX_CONTEXT_ITEMS
    failed = SCHEMAS[FAILED_TOPIC]["properties"]
    assert failed["stage"]["enum"] == list(REQUEST_TOPICS)
    assert failed["error_code"]["enum"] == list(get_args(ErrorCode))
    assert REUSED_HEADER in DOCUMENT["components"]["messageTraits"]["outcome"]["headers"]["properties"]


@given(_FOUND, _ECHOS)
def test_every_search_result_matches_its_schema(found: RagHits, echo: EchoedFields) -> None:
    """Whatever a search finds."""
    assert _problems(RESULT_TOPICS["search"], encode_result("a", echo, found, 3)) == []


@given(_ANSWERS, _ECHOS)
def test_every_answer_matches_its_schema(found: RagAnswer, echo: EchoedFields) -> None:
    """Whatever an answer says."""
    assert _problems(RESULT_TOPICS["answer"], encode_result("a", echo, found, 3)) == []


@for_each(
    "failure",
    [
        OUTCOME_TOO_LARGE,
        describe_failure(TimeoutError()),
        describe_failure(LLMConnectionError()),
        *(describe_failure(RequestError("context", reason, "context[0]")) for reason in REASON_TEXTS),
    ],
)
def test_every_failure_matches_its_schema(failure: Failure) -> None:
    """Whatever went wrong."""
    assert _problems(FAILED_TOPIC, encode_failure("a", EchoedFields('"t"', "{}"), "answer", failure)) == []
