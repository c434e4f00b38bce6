"""Requests and their expected outcomes: the contract's examples, each error code, and each case of hostile bytes."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.kafka.broker import ROOT
from tests.kafka.reference_client import ANSWER, ANSWERED, FAILED, SEARCH, SEARCHED

SECURITY = ROOT / "tests" / "security"
BAD_MESSAGES = (SECURITY / "bad_kafka_messages.jsonl", SECURITY / "kafka_messages.jsonl")
MAX_MESSAGE_BYTES = 700_000  # RAG_MAX_MESSAGE_BYTES of the workers here
HASTY_S = 1.0  # the deadline of requests that must time out
LARGE, TOO_LARGE = 600_000, 800_000  # above the 512 KB that the contract advises; above MAX_MESSAGE_BYTES

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Scenario:
    """`expected`: fields of the outcome's body. `id`: its request id, or None if the bytes contain no id."""

    name: str
    topic: str
    value: object  # bytes and None are sent unchanged, other values as JSON
    outcome: str  # topic
    id: str | None
    key: bytes | None = None
    headers: Headers = ()
    expected: Mapping[str, Any] = field(default_factory=dict)

    @property
    def stage(self) -> str:
        return "search" if self.topic == SEARCH else "answer"


def bad_messages() -> Iterator[Scenario]:
    """Yield the cases of the files. If the bytes contain no id, the unique key identifies the outcome."""
    for line in (line for file in BAD_MESSAGES for line in file.read_text("utf-8").splitlines()):
        case = json.loads(line)
        expect = case["expect"]
        names = [name for name in ("stage", "error_type", "error_code", "details") if name in expect]
        shown = None if expect["request_id"].startswith("*") else expect["request_id"]
        key = None if case["key"] is None else case["key"].encode()
        yield Scenario(
            f"{case['id']} {case['why']}",
            case["topic"],
            _bytes_of(case),
            expect["topic"],
            shown,
            key,
            expected={name: expect[name] for name in names},
        )


def _bytes_of(case: Mapping[str, Any]) -> bytes | None:
    if "value_b64" in case:
        return base64.b64decode(case["value_b64"])
    if "value_gen" in case:
        made = case["value_gen"]
        return str(made["prefix"] + made["unit"] * made["count"] + made["suffix"]).encode()
    return None if case["value"] is None else str(case["value"]).encode()


def _search(name: str, query: object = "sample", **more: Any) -> dict[str, Any]:
    return {"request_id": name, "query": query, **more}


def _answer(name: str, question: object = "what is a sample?", **more: Any) -> dict[str, Any]:
    return {"request_id": name, "question": question, **more}


def good_requests() -> Iterator[Scenario]:
    """Yield the contract's examples and other valid requests."""
    metadata = {"tenant": "acme", "user": "uid-123", "nested": {"a": [1, 2.5, None, "äöü 漢字 🙂"]}}
    echo = {"trace_id": "trace-abc", "metadata": metadata}
    yield Scenario(
        "the contract's search",
        SEARCH,
        _search(
            "search-001", "vector databases", top_k=5, filters={"doc_type": ["blog", "doc"], "lang": ["en"]}, **echo
        ),
        SEARCHED,
        "search-001",
        b"search-001",
        expected=echo,
    )
    context = [{"doc_id": "doc-10", "snippet": "Vector stores enable similarity search..."}]
    yield Scenario(
        "the contract's answer",
        ANSWER,
        _answer("answer-001", context=context, **echo),
        ANSWERED,
        "answer-001",
        b"answer-001",
        expected=echo,
    )
    nulls = _search("nulls", top_k=None, filters=None, trace_id=None, metadata=None)
    yield Scenario("null is not given", SEARCH, nulls, SEARCHED, "nulls", b"nulls")
    empty = _search("empty-list", filters={"lang": []})
    yield Scenario("an empty list is not given", SEARCH, empty, SEARCHED, "empty-list", b"")
    carried: Headers = (("traceparent", b"00-4bf9-00f0-01"), ("tenant", b"acme"), ("blank", b""), ("none", None))
    yield Scenario("headers go on", SEARCH, _search("headers"), SEARCHED, "headers", b"\x00\xff key", headers=carried)
    yield Scenario("headers of a failure go on", SEARCH, _search("no", ""), FAILED, "no", b"no", headers=carried)
    same = _answer("search-001")
    yield Scenario("the same id in the other stage", ANSWER, same, ANSWERED, "search-001", b"same id")
    large = _search("large", "sample " + "x" * LARGE)
    yield Scenario("above the advice on size", SEARCH, large, SEARCHED, "large", b"large")


def failing_requests() -> Iterator[Scenario]:
    """Yield a request for each cause of each error code. `recoverable`: the same request may succeed later."""
    causes = {
        "embedding": ("embedding_failed", True),
        "embedding_config": ("embedding_failed", False),
        "retrieval": ("retrieval_failed", True),
        "retrieval_config": ("retrieval_failed", False),
        "llm": ("llm_failed", True),
        "llm_config": ("llm_failed", False),
        "bug": ("internal", False),
    }
    for cause, (code, recoverable) in causes.items():
        for topic in (SEARCH, ANSWER):
            yield _failing(topic, cause, f"@fail={cause}", code, recoverable)
    yield _failing(SEARCH, "slow", "@sleep=600", "timeout", True)
    yield _failing(ANSWER, "slow", "@sleep=600", "timeout", True)
    too_large = _search("too-large", "sample " + "x" * TOO_LARGE)
    yield Scenario("above the setting", SEARCH, too_large, FAILED, "too-large", b"too-large", expected=_invalid())
    for name, broken in {
        "top_k 0": {"top_k": 0},
        "top_k true": {"top_k": True},
        "filters list": {"filters": ["en"]},
    }.items():
        value = _search(f"wrong {name}", **broken)
        yield Scenario(name, SEARCH, value, FAILED, f"wrong {name}", name.encode(), expected=_invalid())


def _failing(topic: str, cause: str, text: str, code: str, recoverable: bool) -> Scenario:
    name = f"{'search' if topic == SEARCH else 'answer'}-{cause}"
    value = _search(name, text) if topic == SEARCH else _answer(name, text)
    kind = "recoverable" if recoverable else "non_recoverable"
    return Scenario(
        f"{cause} of {topic}",
        topic,
        {**value, "trace_id": name, "metadata": {"tenant": cause}},
        FAILED,
        name,
        name.encode(),
        expected={"error_code": code, "error_type": kind, "trace_id": name, "metadata": {"tenant": cause}},
    )


def _invalid() -> dict[str, str]:
    return {"error_code": "invalid_payload", "error_type": "non_recoverable"}


SCENARIOS: tuple[Scenario, ...] = (*good_requests(), *failing_requests())
