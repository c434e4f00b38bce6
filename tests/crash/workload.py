"""A load with every kind of request: valid, failing, invalid, oversized and unreadable requests, duplicates, and reused ids.

A reused id has another payload. The texts script the stages, see tests/kafka/stages.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

SEARCH, ANSWER = "rag_search_request", "rag_answer_request"
TEXT_OF = {SEARCH: "query", ANSWER: "question"}
KEYS = 200  # few enough to send several requests with one key, many enough to use all partitions
NO_KEY, HEADERS, METADATA = 0.15, 0.3, 0.6  # shares
SLOWEST_S = 0.12
MAX_EARLIER = 300  # number of recent requests that may be repeated
TRACE = (
    ("traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
    ("tenant", b"acme"),
    ("none", None),
)
METADATA_TEXTS = (
    '{"tenant":"acme"}',
    '{"z": 1.50, "a": 12345678901234567890123, "e": 1e2}',
    '{"\\u00fc": "\\ud83d\\ude00 \\/", "é": [null, {}]}',
    "{}",
)
# Failures without a retry, because a retry takes seconds.
FAILURES = ("embedding_config", "retrieval_config", "llm_config", "bug")
UNREADABLE = (None, b"", b"\xff\xfe", b"{", b"[1]", b'{"query": "no id"}', b'{"request_id": 7, "metadata": {"a": 1.0}}')
OVERSIZED_BYTES = 1_100_000


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """A request of the load."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def generate_requests(rng: random.Random) -> Iterator[LoadRequest]:
    """Yield requests without end. The same seed yields the same requests."""
    earlier: list[LoadRequest] = []
    kinds, shares = list(SHARES), list(SHARES.values())
    number = 0
    while True:
        number += 1
        kind = rng.choices(kinds, shares)[0]
        if earlier and kind in (_duplicate, _reused):
            yield kind(rng, rng.choice(earlier))
            continue
        new = _valid(rng, number) if kind in (_duplicate, _reused) else kind(rng, number)
        if new.value and b"request-" in new.value:
            earlier = [*earlier[-MAX_EARLIER:], new]
        yield new


def slow_requests(rng: random.Random, count: int, seconds: float) -> Iterator[LoadRequest]:
    """Yield `count` requests per topic, alternating between the topics. Each has a unique key, so they reach every partition."""
    for _ in range(count):
        for topic, member in TEXT_OF.items():
            name = f"slow-{rng.getrandbits(64):x}"
            yield LoadRequest(
                topic, name.encode(), f'{{"request_id": "{name}", "{member}": "@sleep={seconds}"}}'.encode(), ()
            )


def _valid(rng: random.Random, number: int, text: str = "") -> LoadRequest:
    topic = rng.choice((SEARCH, ANSWER))
    query = text or f"@sleep={rng.uniform(0, SLOWEST_S):.3f} sample"
    metadata = f', "metadata": {rng.choice(METADATA_TEXTS)}' if rng.random() < METADATA else ""
    value = (
        f'{{"request_id": "request-{number}", "trace_id": "trace-{number}", "{TEXT_OF[topic]}": "{query}"{metadata}}}'
    )
    return _sent(rng, topic, value.encode())


def _failing(rng: random.Random, number: int) -> LoadRequest:
    return _valid(rng, number, f"@fail={rng.choice(FAILURES)}")


def _oversized(rng: random.Random, number: int) -> LoadRequest:
    return _valid(rng, number, f"@bytes={OVERSIZED_BYTES}")


def _invalid(rng: random.Random, number: int) -> LoadRequest:
    return _valid(rng, number, " ")


def _unreadable(rng: random.Random, number: int) -> LoadRequest:
    return _sent(rng, rng.choice((SEARCH, ANSWER)), rng.choice(UNREADABLE))


def _duplicate(rng: random.Random, earlier: LoadRequest) -> LoadRequest:
    return earlier


def _reused(rng: random.Random, earlier: LoadRequest) -> LoadRequest:
    """Return the same id with another payload and a random key, so two workers may process the id at the same moment."""
    assert earlier.value is not None
    return replace(_sent(rng, earlier.topic, earlier.value.replace(b'": "@', b'": "another @', 1)))


def _sent(rng: random.Random, topic: str, value: bytes | None) -> LoadRequest:
    key = None if rng.random() < NO_KEY else f"key-{rng.randrange(KEYS)}".encode()
    return LoadRequest(topic, key, value, TRACE if rng.random() < HEADERS else ())


SHARES: Mapping[Callable[..., LoadRequest], float] = {
    _valid: 0.74,
    _duplicate: 0.08,
    _reused: 0.05,
    _failing: 0.05,
    _invalid: 0.03,
    _unreadable: 0.04,
    _oversized: 0.01,
}
