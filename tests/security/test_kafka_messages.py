"""Hostile bytes in the request topics: each message has one outcome of the right kind, and never an exception."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.outcome_store import MemoryOutcomeStore
from tests.support import fuzz
from tests.support.cases import for_each

from modules.llm_platform.domain.dtos.retrieval_dtos import RagAnswer, RagHits, RagQuestion, RagSearch
from modules.llm_platform.presentation.kafka.contract.outcomes import IncomingRecord, OutgoingRecord
from modules.llm_platform.presentation.kafka.contract.requests import CONTRACT_TOPICS, FAILED_TOPIC
from modules.llm_platform.presentation.kafka.worker.handler import HandlerOptions, RagHandler

HERE = Path(__file__).parent
TOPICS = sorted(CONTRACT_TOPICS.stage_of)
MAX_MESSAGE_BYTES = 10_000  # limit in the tests of message size

Case = Mapping[str, Any]


def _cases() -> Iterator[Case]:
    for name in ("bad_kafka_messages.jsonl", "kafka_messages.jsonl"):
        for line in (HERE / name).read_text(encoding="utf-8").splitlines():
            yield json.loads(line)


CASES = list(_cases())


def _value(case: Case) -> bytes | None:
    if "value_b64" in case:
        return base64.b64decode(case["value_b64"])
    if "value_gen" in case:
        made = case["value_gen"]
        return str(made["prefix"] + made["unit"] * made["count"] + made["suffix"]).encode()
    return None if case["value"] is None else str(case["value"]).encode()


async def _search(asked: RagSearch) -> RagHits:
    assert asked.query.strip()
    return RagHits(hits=())


async def _answer(asked: RagQuestion) -> RagAnswer:
    assert asked.question.strip()
    return RagAnswer(answer="yes")


def _handler(**options: Any) -> RagHandler:
    return RagHandler(_search, _answer, MemoryOutcomeStore(), HandlerOptions(**options))


def _record(topic: str, value: bytes | None, **more: Any) -> IncomingRecord:
    return IncomingRecord(topic, 3, 7, more.pop("key", b"k"), value, **more)


def _strict(body: bytes) -> Mapping[str, Any]:
    """Parse an outcome strictly."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len(dict(pairs)) == len(pairs)
        return dict(pairs)

    def refused(name: str) -> Any:
        raise AssertionError(name)

    found = json.loads(body.decode("utf-8", "strict"), object_pairs_hook=once, parse_constant=refused)
    assert isinstance(found, dict)
    return found


def _is_one_outcome(record: IncomingRecord, told: OutgoingRecord) -> Mapping[str, Any]:
    """Check that the outcome is a valid message of the contract."""
    body = _strict(told.value)
    assert isinstance(body["request_id"], str)
    assert body["request_id"]
    if told.topic == FAILED_TOPIC:
        assert body["stage"] == CONTRACT_TOPICS.stage_of[record.topic]
        assert body["error_type"] in ("recoverable", "non_recoverable")
        assert body["error_message"]
    else:
        assert told.topic == record.topic.replace("request", "result")
    return body


def _name(case: Case) -> str:
    return f"{case['id']} {case['why']}"


@for_each("case", CASES)
async def test_each_case_has_its_outcome(case: Case) -> None:
    """Topic, stage, code, id and details are those of the case, and the key is inherited."""
    expect, key = case["expect"], case["key"] and case["key"].encode()
    record = _record(case["topic"], _value(case), key=key)
    told = await _handler().handle(record)
    body = _is_one_outcome(record, told)
    assert (told.topic, told.key) == (expect["topic"], key), body
    named = {name: expect[name] for name in ("stage", "error_type", "error_code", "details") if name in expect}
    assert {name: body.get(name) for name in named} == named
    unparsable = f"unparsable:{case['topic']}-3-7"
    assert body["request_id"] == (unparsable if expect["request_id"].startswith("*") else expect["request_id"])


@pytest.mark.parametrize("case", [case for case in CASES if "then" in case], ids=_name)
async def test_a_repeated_message_gets_the_same_outcome(case: Case) -> None:
    """A second message with the same id gets the first outcome, byte for byte."""
    handler = _handler()
    first = await handler.handle(_record(case["topic"], _value(case)))
    for then in case["then"]:
        assert then["expect"] == "same_as_first"
        again = await handler.handle(_record(case["topic"], _value(then)))
        assert (again.topic, again.value) == (first.topic, first.value)


def test_there_are_enough_cases() -> None:
    """There are at least sixty handwritten cases with distinct names."""
    assert len(CASES) >= 19 + 60
    assert len({case["id"] for case in CASES}) == len(CASES)


async def test_a_refusal_repeats_nothing_of_the_request() -> None:
    """A refusal contains no unknown field name or value of the request."""
    secret = "hunter2secret"
    for value in (
        f'{{"request_id": "a", "query": "q", "{secret}": NaN}}',
        f'{{"request_id": "a", "query": "q", "{secret}": {{"{secret}": 1, "{secret}": 2}}}}',
        f'{{"request_id": "a", "query": ["{secret}"]}}',
        f'{{"request_id": "a", "query": "q", "filters": {{"{secret}": "{secret}"}}}}',
        f'{{"request_id": "a", "query": "q", "top_k": "{secret}"}}',
        secret,
    ):
        told = await _handler().handle(_record(TOPICS[1], value.encode()))
        assert told.topic == FAILED_TOPIC
        assert secret.encode() not in told.value


@for_each("size", [MAX_MESSAGE_BYTES, MAX_MESSAGE_BYTES + 1, 1_000_000, 9_000_000])
async def test_a_message_above_the_setting_is_refused(size: int) -> None:
    """A message up to RAG_MAX_MESSAGE_BYTES is read.

    A larger message is invalid, with its id if the id is near the start.
    """
    head, tail = b'{"query": "', b'", "request_id": "large"}'
    value = head + b"x" * (size - len(head) - len(tail)) + tail
    record = _record("rag_search_request", value)
    body = _is_one_outcome(record, await _handler(max_message_bytes=MAX_MESSAGE_BYTES).handle(record))
    if size <= MAX_MESSAGE_BYTES:
        assert body["hits"] == []
        return
    assert body["details"] == {"field": "message", "reason": "too_large"}
    assert body["request_id"] == ("large" if size <= 1_000_000 else "unparsable:rag_search_request-3-7")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(), max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
_FIELDS = st.sampled_from(
    ["request_id", "trace_id", "metadata", "query", "question", "top_k", "filters", "context", "doc_id", "x"]
)
_HEADERS = st.lists(
    st.tuples(st.text(st.characters(codec="utf-8"), max_size=9), st.none() | st.binary(max_size=9)), max_size=3
)


@settings(max_examples=fuzz.chosen(400, 5_000))
@given(st.sampled_from(TOPICS), st.none() | st.binary(max_size=200), st.none() | st.binary(max_size=20), _HEADERS)
async def test_any_bytes_have_one_outcome(
    topic: str, value: bytes | None, key: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    """Random bytes are refused with the key and headers of the message."""
    record = IncomingRecord(topic, 0, 0, key, value, tuple(headers))
    told = await _handler().handle(record)
    _is_one_outcome(record, told)
    assert (told.key, told.headers) == (key, tuple(headers))


@settings(max_examples=fuzz.chosen(400, 5_000))
@given(st.sampled_from(TOPICS), st.dictionaries(_FIELDS, _JSON, max_size=8))
async def test_any_object_has_one_outcome(topic: str, value: dict[str, Any]) -> None:
    """An object with the right names and wrong values has one outcome, also if it is sent twice."""
    record = _record(topic, json.dumps(value).encode())
    handler = _handler()
    told = await handler.handle(record)
    _is_one_outcome(record, told)
    assert await handler.handle(record) == told


@settings(max_examples=fuzz.chosen(200, 5_000))
@given(st.data())
async def test_a_good_message_with_a_spoilt_byte(data: st.DataObject) -> None:
    """A valid message with one byte changed, removed or inserted has one outcome."""
    good = b'{"request_id": "a\\u00e9", "query": "b", "filters": {"c": ["d"]}, "metadata": {"e": [1.5, null, true]}}'
    at = data.draw(st.integers(0, len(good) - 1))
    spoilt = good[:at] + data.draw(st.binary(max_size=2)) + good[at + data.draw(st.integers(0, 2)) :]
    record = _record("rag_search_request", spoilt)
    _is_one_outcome(record, await _handler().handle(record))
