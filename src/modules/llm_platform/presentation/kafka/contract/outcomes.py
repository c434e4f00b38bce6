"""Makes the outcome of a request, and the record that tells it."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.retrieval_dtos import Hit, Outcome, RagAnswer, RagCitation, RagHits, RagStage
from modules.llm_platform.domain.exceptions import (
    EmbeddingConfigError,
    EmbeddingError,
    LLMConfigError,
    LLMConnectionError,
    LLMException,
    LLMUnavailableError,
    OutcomeStoreError,
    PageConfigError,
    PageConnectionError,
    PageError,
    PageRequestError,
    ResearchTimeoutError,
    VectorStoreConfigError,
    VectorStoreError,
)
from modules.llm_platform.presentation.kafka.contract.requests import (
    FAILED_TOPIC,
    RESERVED_ID,
    RESULT_TOPICS,
    WHOLE_MESSAGE,
    Echo,
    Message,
    RequestError,
)
from shared.exceptions import AppException

# From what went wrong to what its sender is told (requirements RC7 and RC9).


ErrorCode = Literal["invalid_payload", "embedding_failed", "retrieval_failed", "llm_failed", "timeout", "internal"]
DependencyName = Literal["index", "embedder", "model", "outcomes"]  # what a request needs

MAX_MESSAGE_CHARS: Final = 500
# What an operator has to mend: such a failure is no outcome.
MUST_MEND: Final = (LLMConfigError, EmbeddingConfigError, VectorStoreConfigError, OutcomeStoreError)

# Most specific first. A page is an address of the context that cannot be read: a part of retrieval.
CODES: Final[tuple[tuple[tuple[type[AppException], ...], ErrorCode], ...]] = (
    ((ResearchTimeoutError,), "timeout"),
    ((EmbeddingError, EmbeddingConfigError), "embedding_failed"),
    ((VectorStoreError, VectorStoreConfigError), "retrieval_failed"),
    ((PageRequestError, PageConfigError, PageConnectionError, PageError), "retrieval_failed"),
    ((LLMException,), "llm_failed"),
)

DEPENDENCIES: Final[tuple[tuple[tuple[type[AppException], ...], DependencyName], ...]] = (
    ((EmbeddingError, EmbeddingConfigError), "embedder"),
    ((VectorStoreError, VectorStoreConfigError), "index"),
    ((LLMConfigError, LLMConnectionError, LLMUnavailableError), "model"),
)


@dataclass(frozen=True, slots=True)
class Failure:
    """What a failure says. `recoverable`: the same request under a new id may succeed. `dependency`: what failed beneath;
    `must_mend`: by a cause that only the operator can mend, unless the request itself brought it about.
    """

    code: ErrorCode
    recoverable: bool
    message: str
    details: dict[str, Any] = field(default_factory=dict)
    dependency: DependencyName | None = None
    must_mend: bool = False


OUTCOME_TOO_LARGE: Final = Failure(
    "internal",
    False,
    "the outcome is longer than its topic takes: ask for fewer documents, or send less metadata",
    {"field": WHOLE_MESSAGE, "reason": "outcome_too_large"},
)


UNFORESEEN: Final = Failure("internal", False, "this should not have happened: the log of the worker says more")


def failure_of(error: RequestError | AppException | TimeoutError) -> Failure:
    """The failure that an error stands for."""
    if isinstance(error, RequestError):
        return Failure("invalid_payload", False, str(error), error.details())
    if isinstance(error, TimeoutError):
        return Failure("timeout", True, "there was no outcome before the deadline: try again under a new id")
    code: ErrorCode = next((code for kinds, code in CODES if isinstance(error, kinds)), "internal")
    return Failure(
        code, error.retryable, error.message[:MAX_MESSAGE_CHARS], {"cause": error.code},
        dependency=next((name for kinds, name in DEPENDENCIES if isinstance(error, kinds)), None),
        must_mend=isinstance(error, MUST_MEND),
    )  # fmt: skip


# Outcomes as UTF-8 JSON (requirements RC4, RC6 and RC7). Optional fields that have no value are left out.


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


# Records as they come from Kafka and go back to it, without any client's types.
# Nobody changes one, and none is frozen, nor is what is read from one: to make a frozen one takes three times as long.


Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(slots=True)
class IncomingRecord:
    """A request as it was read. `value` None is a tombstone."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@dataclass(slots=True)
class OutgoingRecord:
    """The one outcome of a request, ready to be produced."""

    topic: str
    key: bytes | None
    value: bytes
    headers: Headers = ()


log = logging.getLogger(__name__)

REUSED_HEADER: Final = "request_id_reused"  # on the outcome of an id that came before with another payload
OK: Final = "ok"  # the code of a result, beside the error codes

OUTCOME_BYTES: Final = 1_000_000  # of a record; what librdkafka sends and a broker takes if nothing else is set
RECORD_OVERHEAD_BYTES: Final = 512  # a batch of one record, with room to spare
HEADER_OVERHEAD_BYTES: Final = 10  # two lengths


@dataclass(slots=True)
class Job:
    """A request that was read. `request_id` is the sender's, or one that we made where there was none to be read. `known`:
    whether the store of outcomes was asked for it already; `kept` is what it said.
    """

    record: IncomingRecord
    stage: RagStage
    request_id: str
    message: Message
    sha256: str
    known: bool = False
    kept: Outcome | None = None

    @property
    def tenant(self) -> str:
        """Whose request it is; "" where requests have no tenants, or this one names none."""
        return self.message.tenant or ""

    @classmethod
    def of(cls, record: IncomingRecord, stage: RagStage, message: Message) -> Job:
        """The job of a record and of the message that was read from it."""
        request_id = message.request_id or f"{RESERVED_ID}{record.topic}-{record.partition}-{record.offset}"
        sha256 = hashlib.sha256(record.value or b"").hexdigest()
        return cls(record, stage, request_id, message, sha256)


class Outcomes:
    """Writes what was found, or what failed, so that its topic takes it. `outcome_bytes`: topic to its longest record."""

    def __init__(self, outcome_bytes: Mapping[str, int]) -> None:
        self._outcome_bytes = outcome_bytes

    def made(self, job: Job, found: RagHits | RagAnswer | Failure, latency_ms: int) -> tuple[Outcome, str]:
        """The outcome, and its code. A result that its topic does not take becomes a failure."""
        if not isinstance(found, Failure):
            result = self._result(job, found, latency_ms)
            if isinstance(result, Outcome):
                return result, OK
            found = result
        return self.failed(job, found), found.code

    def failed(self, job: Job, failure: Failure) -> Outcome:
        """The outcome of a failure, without metadata and at last without trace_id where only so it fits.

        Metadata may be what made an outcome too large, so that failure never has them.
        """
        echo = job.message.echo
        echos = (echo, replace(echo, metadata=None), Echo())
        for smaller in echos[1:] if failure is OUTCOME_TOO_LARGE else echos:
            outcome = _outcome(job, "failed", write_failure(job.request_id, smaller, job.stage, failure))
            if self._fits(_record(job, outcome)):
                break
        return outcome

    def told(self, job: Job, outcome: Outcome) -> OutgoingRecord:
        """The record of an outcome, with the key and the headers of this request, whichever request it was made for.

        Headers and at last the key are left out where only so it fits: an outcome must get through.
        """
        record = _record(job, outcome)
        if self._fits(record):
            return record
        record = replace(record, headers=())
        return record if self._fits(record) else replace(record, key=None)

    def _result(self, job: Job, found: RagHits | RagAnswer, latency_ms: int) -> Outcome | Failure:
        try:
            body = write_result(job.request_id, job.message.echo, found, latency_ms)
        except ValueError:
            log.exception("a stage gave a number that is none")
            return UNFORESEEN
        outcome = _outcome(job, "result", body)
        return outcome if self._fits(_record(job, outcome)) else OUTCOME_TOO_LARGE

    def _fits(self, record: OutgoingRecord) -> bool:
        size = RECORD_OVERHEAD_BYTES + len(record.value) + len(record.key or b"")
        for name, value in record.headers:
            size += HEADER_OVERHEAD_BYTES + len(name.encode()) + len(value or b"")
        return size <= self._outcome_bytes.get(record.topic, OUTCOME_BYTES)


def _outcome(job: Job, kind: Literal["result", "failed"], body: bytes) -> Outcome:
    return Outcome(
        stage=job.stage, request_id=job.request_id, kind=kind, body=body, request_sha256=job.sha256, tenant=job.tenant
    )


def _record(job: Job, outcome: Outcome) -> OutgoingRecord:
    topic = FAILED_TOPIC if outcome.kind == "failed" else RESULT_TOPICS[job.stage]
    headers = job.record.headers
    if any(name == REUSED_HEADER for name, _ in headers):  # from a client that sends on what it was told
        headers = tuple(header for header in headers if header[0] != REUSED_HEADER)
    if outcome.request_sha256 != job.sha256:
        headers = (*headers, (REUSED_HEADER, b"true"))
    return OutgoingRecord(topic, job.record.key, outcome.body, headers)
