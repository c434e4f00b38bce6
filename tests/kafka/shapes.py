"""The required fields of an outcome, taken from the contract (docs/reference/kafka.md) and not from the code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.kafka.reference_client import ANSWERED, FAILED, SEARCHED, Seen

CODES = frozenset({"invalid_payload", "embedding_failed", "retrieval_failed", "llm_failed", "timeout", "internal"})
TEXT, NUMBER, WHOLE, OBJECT, LIST = (str,), (int, float), (int,), (dict,), (list,)
Fields = Mapping[str, tuple[tuple[type, ...], bool]]  # by name: the allowed types, and whether the field is required

ECHO: Fields = {"request_id": (TEXT, True), "trace_id": (TEXT, False), "metadata": (OBJECT, False)}
SHAPES: Mapping[str, Fields] = {
    SEARCHED: {**ECHO, "hits": (LIST, True), "latency_ms": (WHOLE, False)},
    ANSWERED: {**ECHO, "answer": (TEXT, True), "citations": (LIST, False), "latency_ms": (WHOLE, False)},
    FAILED: {
        **ECHO,
        "stage": (TEXT, True),
        "error_type": (TEXT, True),
        "error_code": (TEXT, True),
        "error_message": (TEXT, True),
        "details": (OBJECT, False),
    },
}
HIT: Fields = {
    "doc_id": (TEXT, True),
    "score": (NUMBER, True),
    "title": (TEXT, False),
    "snippet": (TEXT, False),
    "source": (TEXT, False),
    "url": (TEXT, False),
}
CITATION: Fields = {"doc_id": (TEXT, False), "title": (TEXT, False), "url": (TEXT, False)}


def problems(seen: Seen) -> list[str]:
    """Return the problems of an outcome. The list is empty if the outcome follows the contract."""
    body = seen.body
    found = _wrong_fields(body, SHAPES[seen.topic], "")
    for name, shape in (("hits", HIT), ("citations", CITATION)):
        for position, item in enumerate(body.get(name) or ()):
            found += _wrong_fields(item, shape, f"{name}[{position}].")
    if seen.topic == SEARCHED:
        found += [f"score {hit['score']}" for hit in body["hits"] if not 0 <= hit["score"] <= 1]
    if seen.topic == FAILED:
        found += _wrong_words(body)
    return found


def _wrong_fields(body: Mapping[str, Any], shape: Fields, where: str) -> list[str]:
    found = [f"{where}{name} is missing" for name, (_, needed) in shape.items() if needed and name not in body]
    for name, value in body.items():
        kinds, _ = shape.get(name, ((object,), False))
        if not isinstance(value, kinds) or (isinstance(value, bool) and kinds != (object,)):
            found.append(f"{where}{name} is {type(value).__name__}")
    return found


def _wrong_words(body: Mapping[str, Any]) -> list[str]:
    allowed = {"stage": {"search", "answer"}, "error_type": {"recoverable", "non_recoverable"}, "error_code": CODES}
    return [f"{name} is {body.get(name)}" for name, words in allowed.items() if body.get(name) not in words]
