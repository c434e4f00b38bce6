"""Kafka outcomes: the failure that stands for an error, and the record of a result or a failure.
Nothing here depends on a Kafka client.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from modules.llm_platform.domain import exceptions
from modules.llm_platform.domain.dtos.retrieval_dtos import Hit, Outcome, RagAnswer, RagCitation, RagHits, RagStage
from modules.llm_platform.presentation.kafka.contract import requests
from shared.exceptions import AppException

log = logging.getLogger(__name__)

ErrorCode = Literal["invalid_payload", "embedding_failed", "retrieval_failed", "llm_failed", "timeout", "internal"]
DependencyName = Literal["index", "embedder", "model", "outcomes"]
Encode = Callable[[str, bytes], bytes]  # topic and body to the message
Headers = tuple[tuple[str, bytes | None], ...]

OK: Final = "ok"  # counted for a result, where a failure counts its error code
REUSED_HEADER: Final = "request_id_reused"  # marks the outcome of an id that was first used with another payload
OUTCOME_ERROR_CHARS: Final = 500
DEFAULT_RECORD_BYTES: Final = 1_000_000  # the default limit of librdkafka and of a broker
RECORD_OVERHEAD_BYTES: Final = 512  # upper bound for a batch of one record
HEADER_OVERHEAD_BYTES: Final = 10  # two lengths

# Only the operator can repair these causes, so they are not reported as an outcome.
OPERATOR_ERRORS: Final = (
    exceptions.LLMConfigError,
    exceptions.EmbeddingConfigError,
    exceptions.VectorStoreConfigError,
    exceptions.OutcomeStoreError,
)

# The first match counts. A page is a URL of the context, so it belongs to retrieval.
ERROR_CODES: Final[tuple[tuple[tuple[type[AppException], ...], ErrorCode], ...]] = (
    ((exceptions.ResearchTimeoutError,), "timeout"),
    ((exceptions.EmbeddingError, exceptions.EmbeddingConfigError), "embedding_failed"),
    ((exceptions.VectorStoreError, exceptions.VectorStoreConfigError), "retrieval_failed"),
    (
        (exceptions.PageRequestError, exceptions.PageConfigError, exceptions.PageConnectionError, exceptions.PageError),
        "retrieval_failed",
    ),
    ((exceptions.LLMException,), "llm_failed"),
)
FAILED_DEPENDENCIES: Final[tuple[tuple[tuple[type[AppException], ...], DependencyName], ...]] = (
    ((exceptions.EmbeddingError, exceptions.EmbeddingConfigError), "embedder"),
    ((exceptions.VectorStoreError, exceptions.VectorStoreConfigError), "index"),
    ((exceptions.LLMConfigError, exceptions.LLMConnectionError, exceptions.LLMUnavailableError), "model"),
)


@dataclass(frozen=True, slots=True)
class Failure:
    """The content of a failed outcome.

    - `recoverable` is True if the same request may succeed under a new id.
    - `dependency` is the dependency that failed, or None.
    - `needs_operator` is True if only the operator can repair the cause.
    """

    code: ErrorCode
    recoverable: bool
    message: str
    details: dict[str, Any] = field(default_factory=dict)
    dependency: DependencyName | None = None
    needs_operator: bool = False


OUTCOME_TOO_LARGE: Final = Failure(
    "internal",
    False,
    "the outcome is longer than its topic accepts: ask for fewer documents, or send less metadata",
    {"field": requests.WHOLE_MESSAGE, "reason": "outcome_too_large"},
)
UNEXPECTED_ERROR: Final = Failure("internal", False, "an unexpected error occurred: see the log of the worker")


def describe_failure(error: requests.RequestError | AppException | TimeoutError) -> Failure:
    if isinstance(error, requests.RequestError):
        return Failure("invalid_payload", False, str(error), error.details())
    if isinstance(error, TimeoutError):
        return Failure("timeout", True, "the deadline passed before there was an outcome: try again under a new id")
    code: ErrorCode = next((code for types, code in ERROR_CODES if isinstance(error, types)), "internal")
    return Failure(
        code,
        error.retryable,
        error.message[:OUTCOME_ERROR_CHARS],
        {"cause": error.code},
        dependency=next((name for types, name in FAILED_DEPENDENCIES if isinstance(error, types)), None),
        needs_operator=isinstance(error, OPERATOR_ERRORS),
    )


# The dataclasses below are not frozen: creating a frozen instance takes three times as long.


@dataclass(slots=True)
class IncomingRecord:
    """A consumed request. `value` None is a tombstone."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@dataclass(slots=True)
class OutgoingRecord:
    """An outcome that is ready to be produced."""

    topic: str
    key: bytes | None
    value: bytes
    headers: Headers = ()


@dataclass(slots=True)
class Job:
    """A parsed request with its id.

    - `is_looked_up` is True if the outcome store was queried. `stored` is the outcome that it returned, or None.
    - `code` is the code of the outcome that was computed, and OK for a stored one.
    """

    record: IncomingRecord
    stage: RagStage
    request_id: str
    request: requests.ParsedRequest
    sha256: str
    is_looked_up: bool = False
    stored: Outcome | None = None
    code: str = OK

    @property
    def tenant(self) -> str:
        """The tenant, or "" without one."""
        return self.request.tenant or ""

    @classmethod
    def from_record(
        cls, record: IncomingRecord, value: bytes | None, stage: RagStage, request: requests.ParsedRequest
    ) -> Job:
        """Create the job of a record, of its JSON `value`, and of the request that was parsed from it."""
        request_id = request.request_id or requests.make_fallback_request_id(
            record.topic, record.partition, record.offset
        )
        return cls(record, stage, request_id, request, hashlib.sha256(value or b"").hexdigest())


class OutcomeBuilder:
    """Builds outcomes that their topics accept. `max_record_bytes` has the limits of topics, if not DEFAULT_RECORD_BYTES."""

    def __init__(
        self,
        max_record_bytes: Mapping[str, int],
        topics: requests.Topics = requests.CONTRACT_TOPICS,
        encode: Encode | None = None,
    ) -> None:
        self._max_record_bytes = max_record_bytes
        self._topics = topics
        self._encode = encode  # adds what a schema registry requires; part of the stored bytes, which never change

    def build(self, job: Job, content: RagHits | RagAnswer | Failure, latency_ms: int) -> tuple[Outcome, str]:
        """Return the outcome and its code. A result that is too large becomes a failure."""
        if isinstance(content, Failure):
            failure = content
        else:
            result = self._build_result(job, content, latency_ms)
            if isinstance(result, Outcome):
                return result, OK
            failure = result
        return self.build_failure(job, failure), failure.code

    def build_failure(self, job: Job, failure: Failure) -> Outcome:
        """Return the outcome of a failure. If it does not fit, metadata is left out, and then trace_id.

        OUTCOME_TOO_LARGE never has metadata, which may be the reason for the size.
        """
        echo = job.request.echo
        reduced = (echo, replace(echo, metadata=None), requests.EchoedFields())
        for echoed in reduced[1:] if failure is OUTCOME_TOO_LARGE else reduced:
            outcome = self._make_outcome(job, "failed", encode_failure(job.request_id, echoed, job.stage, failure))
            if self._fits(self._record(job, outcome)):
                break
        return outcome

    def to_record(self, job: Job, outcome: Outcome) -> OutgoingRecord:
        """Return the record of an outcome, with the key and the headers of this request.

        If the record does not fit, the headers are left out, and then the key.
        """
        record = self._record(job, outcome)
        if self._fits(record):
            return record
        record = replace(record, headers=())
        return record if self._fits(record) else replace(record, key=None)

    def _build_result(self, job: Job, content: RagHits | RagAnswer, latency_ms: int) -> Outcome | Failure:
        try:
            body = encode_result(job.request_id, job.request.echo, content, latency_ms)
        except ValueError:
            log.exception("a stage returned a score that is not a finite number")
            return UNEXPECTED_ERROR
        outcome = self._make_outcome(job, "result", body)
        return outcome if self._fits(self._record(job, outcome)) else OUTCOME_TOO_LARGE

    def _make_outcome(self, job: Job, kind: Literal["result", "failed"], body: bytes) -> Outcome:
        if self._encode is not None:
            body = self._encode(self._choose_topic(kind, job.stage), body)
        return Outcome(
            stage=job.stage,
            request_id=job.request_id,
            kind=kind,
            body=body,
            request_sha256=job.sha256,
            tenant=job.tenant,
        )

    def _choose_topic(self, kind: Literal["result", "failed"], stage: RagStage) -> str:
        return self._topics.failed if kind == "failed" else self._topics.results[stage]

    def _record(self, job: Job, outcome: Outcome) -> OutgoingRecord:
        topic = self._choose_topic(outcome.kind, job.stage)
        headers = job.record.headers
        if any(name == REUSED_HEADER for name, _ in headers):  # a client may forward the headers of an outcome
            headers = tuple(header for header in headers if header[0] != REUSED_HEADER)
        if outcome.request_sha256 != job.sha256:
            headers = (*headers, (REUSED_HEADER, b"true"))
        return OutgoingRecord(topic, job.record.key, outcome.body, headers)

    def _fits(self, record: OutgoingRecord) -> bool:
        size = RECORD_OVERHEAD_BYTES + len(record.value) + len(record.key or b"")
        for name, value in record.headers:
            size += HEADER_OVERHEAD_BYTES + len(name.encode()) + len(value or b"")
        return size <= self._max_record_bytes.get(record.topic, DEFAULT_RECORD_BYTES)


# Bodies are UTF-8 JSON. Optional fields without a value are left out.

_encode_json: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def encode_result(request_id: str, echo: requests.EchoedFields, content: RagHits | RagAnswer, latency_ms: int) -> bytes:
    """Return the body of a result. Raises ValueError when a score is not finite."""
    fields: dict[str, Any]
    if isinstance(content, RagHits):
        fields = {"hits": _without_none(content.hits)}
    else:
        fields = {"answer": content.answer, "citations": _without_none(content.citations)}
    if content.degraded:
        fields["degraded"] = [
            {"component": degradation.component, "reason": degradation.reason} for degradation in content.degraded
        ]
    return _encode(request_id, echo, {**fields, "latency_ms": latency_ms})


def encode_failure(request_id: str, echo: requests.EchoedFields, stage: RagStage, failure: Failure) -> bytes:
    fields: dict[str, Any] = {
        "stage": stage,
        "error_type": "recoverable" if failure.recoverable else "non_recoverable",
        "error_code": failure.code,
        "error_message": failure.message,
    }
    return _encode(request_id, echo, fields | ({"details": failure.details} if failure.details else {}))


def _without_none(items: Sequence[Hit | RagCitation]) -> list[dict[str, Any]]:
    return [item.model_dump(exclude_none=True) for item in items]


def _encode(request_id: str, echo: requests.EchoedFields, fields: dict[str, Any]) -> bytes:
    """Insert the echoed texts unchanged. Half a surrogate pair becomes a question mark."""
    parts = [f'{{"request_id": {_encode_json(request_id)}']
    if echo.trace_id is not None:
        parts.append(f'"trace_id": {echo.trace_id}')
    parts.append(_encode_json(fields)[1:-1])
    if echo.metadata is not None:
        parts.append(f'"metadata": {echo.metadata}')
    return (", ".join(parts) + "}").encode(errors="replace")
