"""Tests the checker itself: it finds every kind of broken promise and reports nothing for a kept one."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import islice

import pytest
from tests.crash.checker import Record, committed_too_early, judge
from tests.crash.planned_ends import POINTS, plan_ends
from tests.crash.workload import TRACE, generate_requests

ASKED = b'{"request_id": "a", "trace_id": "t", "query": "q", "metadata": {"b": 1.50, "a": "\\u00fc"}}'
TOLD = b'{"request_id":"a","trace_id":"t","hits":[],"latency_ms":3,"metadata":{"b":1.50,"a":"\\u00fc"}}'
REQUEST = Record("rag_search_request", 4, 10, b"k", ASKED, TRACE)
OUTCOME = Record("rag_search_result", 2, 20, b"k", TOLD, TRACE)
NEXT = Record("rag_search_request", 4, 11, b"k", ASKED.replace(b'"a"', b'"next"', 1))
NEXT_OUTCOME = Record("rag_search_result", 2, 21, b"k", TOLD.replace(b'"a"', b'"next"', 1))
FAILURE = b'{"request_id":"%s","stage":"search","error_code":"invalid_payload"}'
REUSED = (*TRACE, ("request_id_reused", b"true"))


def told(body: bytes, **changes: object) -> Record:
    return replace(OUTCOME, value=body, **changes)  # type: ignore[arg-type]


def broken(*records: Record) -> str:
    return "\n".join(judge(records).problems)


def test_correct_outcomes_have_no_problems() -> None:
    """Repeated outcomes are allowed, because delivery is at least once."""
    again = replace(OUTCOME, offset=30)
    verdict = judge([REQUEST, NEXT, OUTCOME, NEXT_OUTCOME, again])
    assert verdict.problems == ()
    assert (verdict.requests, verdict.names, verdict.outcomes, verdict.repeats) == (2, 2, 3, 1)


@pytest.mark.parametrize(
    "value", [None, b"\xff", b"{", b"[1]", b'{"query": "q"}', b'{"request_id": 7}', b'{"request_id": ""}']
)
def test_request_without_id_is_matched_by_position(value: bytes | None) -> None:
    """The request has no id, but it still has an outcome."""
    request = replace(REQUEST, value=value)
    made = FAILURE % b"unparsable:rag_search_request-4-10"
    assert broken(request, told(made, topic="rag_failed")) == ""
    assert "lost" in broken(request)


def test_lost_request_is_found() -> None:
    """Each record needs an outcome, even if another request with the same id has one."""
    assert "lost: search 'a', asked at rag_search_request/4/10" in broken(REQUEST)
    assert "lost: search 'a' with the key b'other'" in broken(
        REQUEST, replace(REQUEST, offset=11, key=b"other"), OUTCOME
    )
    assert "lost: search 'a' with the key b'k'" in broken(REQUEST, replace(REQUEST, offset=11), OUTCOME)


def test_commit_before_the_outcome_is_found() -> None:
    """The outcome may still come, but if its worker ended now, no worker would write it."""
    partition = (REQUEST.topic, REQUEST.partition)
    assert list(committed_too_early([REQUEST, NEXT, OUTCOME], {partition: 11})) == []
    assert list(committed_too_early([REQUEST], {partition: 10})) == []
    [problem] = committed_too_early([REQUEST, NEXT, OUTCOME], {partition: 12})
    assert problem == "committed without an outcome: search 'next', asked at rag_search_request/4/11"
    again = replace(REQUEST, offset=11)
    assert list(committed_too_early([REQUEST, again, OUTCOME], {partition: 12})) != []


def test_request_answered_only_after_a_restart_is_found() -> None:
    """Every request has an outcome in the end, but one had none while the workers were up and had time."""
    records = [REQUEST, NEXT, OUTCOME, NEXT_OUTCOME]
    assert judge(records, [records, [REQUEST, OUTCOME], []]).problems == ()
    (problem,) = judge(records, [records, [REQUEST, NEXT, OUTCOME]]).problems
    assert problem == "not answered while workers were up: search 'next', asked at rag_search_request/4/11"
    again = replace(REQUEST, offset=12)
    twice = [*records, again, replace(OUTCOME, offset=30)]
    assert "not answered" in "".join(judge(twice, [[*records, again]]).problems), "each record of an id is answered"


@pytest.mark.parametrize(
    "other",
    [
        told(TOLD.replace(b":3", b":4"), offset=30),
        told(TOLD + b" ", offset=30),
        replace(OUTCOME, topic="rag_answer_result"),
        told(FAILURE % b"a", topic="rag_failed"),
    ],
    ids=["another latency", "another space", "another stage", "a failure"],
)
def test_contradicting_outcomes_are_found(other: Record) -> None:
    """Outcomes are compared byte for byte, including time and white space, and across topics."""
    assert broken(REQUEST, OUTCOME, other) != ""


def test_outcome_without_request_is_found() -> None:
    """The same id in another stage is another request."""
    assert "nobody asked" in broken(OUTCOME)
    assert "nobody asked" in broken(REQUEST, OUTCOME, told(TOLD.replace(b'"a"', b'"b"', 1), offset=21))
    assert "nobody asked" in broken(
        REQUEST, OUTCOME, told(FAILURE.replace(b"search", b"answer") % b"a", topic="rag_failed")
    )


@pytest.mark.parametrize(
    "changed",
    [
        replace(OUTCOME, key=b"other"),
        replace(OUTCOME, key=None),
        replace(OUTCOME, headers=()),
        replace(OUTCOME, headers=TRACE[::-1]),
        replace(OUTCOME, headers=(*TRACE, ("more", b"1"))),
        told(TOLD.replace(b"1.50", b"1.5")),
        told(TOLD.replace(b"\\u00fc", b"\xc3\xbc")),
        told(TOLD.replace(b'"b":1.50,"a":"\\u00fc"', b'"a":"\\u00fc","b":1.50')),
        told(TOLD.replace(b'"t"', b'"u"')),
        told(TOLD.replace(b'"trace_id":"t",', b"")),
        told(TOLD[: TOLD.index(b',"metadata"')] + b"}"),
        replace(OUTCOME, headers=REUSED),
    ],
)
def test_changed_echo_is_found(changed: Record) -> None:
    """The echo covers key, headers, trace_id, and metadata with order, digits and escapes. A wrong reuse header counts too."""
    assert broken(REQUEST, changed) != ""


def test_reused_id_may_echo_any_of_its_payloads() -> None:
    """An outside client cannot see which payload came first. The header says that the payloads differ."""
    reused = replace(REQUEST, offset=11, value=ASKED.replace(b"1.50", b"2.50"))
    second = replace(OUTCOME, offset=21, headers=REUSED)
    assert broken(REQUEST, reused, OUTCOME, second) == ""
    neither = told(TOLD.replace(b"1.50", b"3.50"))
    assert broken(REQUEST, reused, neither, replace(neither, offset=21, headers=REUSED)) != ""


def test_outcomes_out_of_order_are_found() -> None:
    """Only the order of the first outcomes counts, because repeated outcomes come later."""
    early, late = replace(NEXT_OUTCOME, offset=15), replace(NEXT_OUTCOME, offset=25)
    assert "out of order" in broken(REQUEST, NEXT, OUTCOME, early)
    assert broken(REQUEST, NEXT, OUTCOME, late, replace(OUTCOME, offset=30)) == ""
    assert "several partitions" in broken(REQUEST, NEXT, OUTCOME, replace(NEXT_OUTCOME, partition=3))


def test_oversized_outcome_echoes_no_metadata() -> None:
    """The contract says so, because with metadata the outcome would be too large again."""
    body = b'{"request_id":"a","trace_id":"t","stage":"search","details":{"reason":"outcome_too_large"}}'
    assert broken(REQUEST, told(body, topic="rag_failed")) == ""
    assert broken(REQUEST, told(body[:-1] + b',"metadata":{}}', topic="rag_failed")) != ""


def test_every_crash_point_and_request_kind_occurs() -> None:
    """A run that skips a crash point or never repeats an id would prove less than it claims."""
    kinds = {end.how for end in plan_ends(10, random.Random(1))}
    assert set(POINTS) < kinds
    assert {"any time", "while it stops", "leaves"} < kinds
    sent = list(islice(generate_requests(random.Random(1)), 1000))
    assert len(sent) > len(set(sent)), "nothing comes again"
    assert any(request.value is None for request in sent)
    assert any(request.key is None for request in sent)
    assert any(b"another" in (request.value or b"") for request in sent)
