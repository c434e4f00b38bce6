"""Outcomes as UTF-8 JSON (rag-core.md §§4.2, 4.4, 4.5). Optional fields that have no value are left out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.retrieval_dtos import Hit, RagAnswer, RagCitation, RagHits, RagStage
from modules.llm_platform.presentation.kafka.failures import Failure
from modules.llm_platform.presentation.kafka.messages import Echo

_json: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_quoted: Final = json.encoder.encode_basestring  # what `_json` does with a text


def write_result(request_id: str, echo: Echo, found: RagHits | RagAnswer, latency_ms: int) -> bytes:
    """A result. ValueError when a score is not a number."""
    said = _hits(found) if isinstance(found, RagHits) else _answer(found)
    return _written(request_id, echo, {**said, "latency_ms": latency_ms})


def write_failure(request_id: str, echo: Echo, stage: RagStage, failure: Failure) -> bytes:
    """A failure of this stage."""
    said: dict[str, Any] = {
        "stage": stage,
        "error_type": "recoverable" if failure.recoverable else "non_recoverable",
        "error_code": failure.code,
        "error_message": failure.message,
    }
    return _written(request_id, echo, said | ({"details": failure.details} if failure.details else {}))


def _hits(found: RagHits) -> dict[str, Any]:
    return {"hits": _given(found.hits), **_degraded(found.degraded)}


def _answer(found: RagAnswer) -> dict[str, Any]:
    return {"answer": found.answer, "citations": _given(found.citations), **_degraded(found.degraded)}


def _degraded(parts: Sequence[Degraded]) -> dict[str, Any]:
    """What did not go as asked, though there is a result."""
    return {"degraded": [{"component": part.component, "reason": part.reason} for part in parts]} if parts else {}


def _given(items: Sequence[Hit | RagCitation]) -> list[dict[str, Any]]:
    """Their fields are texts and numbers: they need no conversion."""
    return [{name: value for name, value in item if value is not None} for item in items]


def _written(request_id: str, echo: Echo, said: dict[str, Any]) -> bytes:
    """What is echoed goes in as the text that it was. Half a surrogate pair in what a stage says becomes a question mark."""
    parts = [f'{{"request_id": {_quoted(request_id)}']
    if echo.trace_id is not None:
        parts.append(f'"trace_id": {echo.trace_id}')
    parts.append(_json(said)[1:-1])
    if echo.metadata is not None:
        parts.append(f'"metadata": {echo.metadata}')
    return (", ".join(parts) + "}").encode(errors="replace")
