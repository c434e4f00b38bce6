"""Requests of every kind: good ones, failing ones, bytes that are none, ids that come again with the same payload or another.

Stages do what the texts tell them, see tests/kafka/stages.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

SEARCH, ANSWER = "rag_search_request", "rag_answer_request"
TEXT_OF = {SEARCH: "query", ANSWER: "question"}
KEYS = 200  # few enough that requests of one key meet, many enough to use all partitions
NO_KEY, HEADERS, METADATA = 0.15, 0.3, 0.6  # shares
SLOWEST_S = 0.12
REMEMBERED = 300  # requests of which one may come again
TRACE = (("traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"), ("tenant", b"acme"), ("none", None))
METADATA_TEXTS = (
    '{"tenant":"acme"}', '{"z": 1.50, "a": 12345678901234567890123, "e": 1e2}',
    '{"\\u00fc": "\\ud83d\\ude00 \\/", "é": [null, {}]}', "{}",
)  # fmt: skip
FAILURES = ("embedding_config", "retrieval_config", "llm_config", "bug")  # without a second try, which takes seconds
UNREADABLE = (None, b"", b"\xff\xfe", b"{", b"[1]", b'{"query": "no id"}', b'{"request_id": 7, "metadata": {"a": 1.0}}')
OUTGROWN_BYTES = 1_100_000


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to be sent."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def asks(dice: random.Random) -> Iterator[Ask]:
    """Without an end; the same for the same dice."""
    earlier: list[Ask] = []
    kinds, shares = list(SHARES), list(SHARES.values())
    number = 0
    while True:
        number += 1
        kind = dice.choices(kinds, shares)[0]
        if earlier and kind in (_again, _reused):
            yield kind(dice, dice.choice(earlier))
            continue
        new = _ordinary(dice, number) if kind in (_again, _reused) else kind(dice, number)
        if new.value and b"request-" in new.value:
            earlier = [*earlier[-REMEMBERED:], new]
        yield new


def slow_asks(dice: random.Random, count: int, seconds: float) -> Iterator[Ask]:
    """So many of each topic in turns, each under a key of its own, so that they reach every partition."""
    for _ in range(count):
        for topic, member in TEXT_OF.items():
            name = f"slow-{dice.getrandbits(64):x}"
            yield Ask(topic, name.encode(), f'{{"request_id": "{name}", "{member}": "@sleep={seconds}"}}'.encode(), ())


def _ordinary(dice: random.Random, number: int, text: str = "") -> Ask:
    topic = dice.choice((SEARCH, ANSWER))
    said = text or f"@sleep={dice.uniform(0, SLOWEST_S):.3f} sample"
    metadata = f', "metadata": {dice.choice(METADATA_TEXTS)}' if dice.random() < METADATA else ""
    value = f'{{"request_id": "request-{number}", "trace_id": "trace-{number}", "{TEXT_OF[topic]}": "{said}"{metadata}}}'
    return _sent(dice, topic, value.encode())


def _failing(dice: random.Random, number: int) -> Ask:
    return _ordinary(dice, number, f"@fail={dice.choice(FAILURES)}")


def _outgrown(dice: random.Random, number: int) -> Ask:
    return _ordinary(dice, number, f"@bytes={OUTGROWN_BYTES}")


def _invalid(dice: random.Random, number: int) -> Ask:
    return _ordinary(dice, number, " ")


def _unreadable(dice: random.Random, number: int) -> Ask:
    return _sent(dice, dice.choice((SEARCH, ANSWER)), dice.choice(UNREADABLE))


def _again(dice: random.Random, earlier: Ask) -> Ask:
    return earlier


def _reused(dice: random.Random, earlier: Ask) -> Ask:
    """The same id with another payload, under whatever key: two workers may have it at the same moment."""
    assert earlier.value is not None
    return replace(_sent(dice, earlier.topic, earlier.value.replace(b'": "@', b'": "another @', 1)))


def _sent(dice: random.Random, topic: str, value: bytes | None) -> Ask:
    key = None if dice.random() < NO_KEY else f"key-{dice.randrange(KEYS)}".encode()
    return Ask(topic, key, value, TRACE if dice.random() < HEADERS else ())


SHARES: Mapping[Callable[..., Ask], float] = {
    _ordinary: 0.74, _again: 0.08, _reused: 0.05, _failing: 0.05, _invalid: 0.03, _unreadable: 0.04, _outgrown: 0.01,
}  # fmt: skip
