"""Makes the outcome of a request, and the record that tells it."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from modules.llm_platform.domain.dtos.outcome import Outcome
from modules.llm_platform.domain.dtos.retrieval_dtos import RagAnswer, RagHits, RagStage
from modules.llm_platform.presentation.kafka.failures import OUTCOME_TOO_LARGE, UNFORESEEN, Failure
from modules.llm_platform.presentation.kafka.fields import RESERVED_ID
from modules.llm_platform.presentation.kafka.messages import Echo, Message
from modules.llm_platform.presentation.kafka.records import IncomingRecord, OutgoingRecord
from modules.llm_platform.presentation.kafka.topics import FAILED_TOPIC, RESULT_TOPICS
from modules.llm_platform.presentation.kafka.writing import write_failure, write_result

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
