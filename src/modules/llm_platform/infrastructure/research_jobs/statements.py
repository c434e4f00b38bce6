"""The SQL of the store of background runs, for SQLite and PostgreSQL, without a driver.

An operation is a generator: it yields statements, is sent the rows of each, and returns the result. A driver runs it in one
transaction. Statements name their parameters as `:name`; `:now` is the store's time in seconds since 1970.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias, TypeVar

from modules.llm_platform.domain.dtos import research_job_dtos as dtos
from modules.llm_platform.domain.dtos.research_dtos import HeldSources, ResearchRequest
from modules.llm_platform.domain.ports.research_job_store import IResearchJobStore, LeaseLostError

Result = TypeVar("Result")
Row: TypeAlias = Sequence[Any]
DAY_S: Final = 86_400
CLOCK_STEP_S: Final = 5.0  # back, after which a lease still counts; its worker renews it meanwhile
LONGEST_DELAY_S: Final = 2.0 * DAY_S  # of a webhook: a retry waits for 29 hours at most
CLEANED_AT_ONCE: Final = 100  # research runs of one transaction


@dataclass(frozen=True, slots=True)
class Statement:
    sql: str
    parameters: Mapping[str, Any]


Operation: TypeAlias = Generator[Statement, Sequence[Row], Result]

# `{number}` is the type of a key that counts up. A queued research has a lease that has run out.
SCHEMA: Final = (
    """
    CREATE TABLE llm_platform.research_job (
        number {number},
        owner text NOT NULL,
        id text NOT NULL,
        label text NOT NULL,
        request text NOT NULL,
        status text NOT NULL DEFAULT 'queued',
        created_at double precision NOT NULL,
        started_at double precision,
        finished_at double precision,
        attempts integer NOT NULL DEFAULT 0,
        progress text NOT NULL DEFAULT '{{}}',
        last_event integer NOT NULL DEFAULT 0,
        lease text,
        lease_until double precision NOT NULL DEFAULT 0,
        webhook text,
        webhook_status text,
        webhook_attempts integer NOT NULL DEFAULT 0,
        webhook_at double precision NOT NULL DEFAULT 0,
        UNIQUE (owner, id)
    )
    """,
    "CREATE INDEX research_job_open ON llm_platform.research_job (number) WHERE status IN ('queued', 'running')",
    "CREATE INDEX research_job_webhook ON llm_platform.research_job (webhook_at) WHERE webhook_status = 'pending'",
    "CREATE INDEX research_job_page ON llm_platform.research_job (owner, number)",
    "CREATE INDEX research_job_finished_at ON llm_platform.research_job (finished_at)",
    """
    CREATE TABLE llm_platform.research_job_event (
        job bigint NOT NULL,
        number integer NOT NULL,
        type text NOT NULL,
        data text NOT NULL,
        PRIMARY KEY (job, number)
    )
    """,
    "CREATE TABLE llm_platform.research_job_sources (job bigint PRIMARY KEY, data text NOT NULL)",
)
ADD_TRACEPARENT: Final = "ALTER TABLE llm_platform.research_job ADD COLUMN traceparent text NOT NULL DEFAULT ''"
_OPEN: Final = "status IN ('queued', 'running')"
# A lease further away than its length is that of a clock that was wrong.
_HELD: Final = f"lease_until > :now AND lease_until <= :now + :lease_s + {CLOCK_STEP_S}"
_LEASED: Final = "WHERE number = :number AND lease = :token AND status = 'running' RETURNING number"
_INSERT_EVENT: Final = (
    "INSERT INTO llm_platform.research_job_event (job, number, type, data) VALUES (:job, :number, :type, :data) "
    "ON CONFLICT DO NOTHING"
)
_JOB: Final = (
    "id, status, request, created_at, started_at, finished_at, attempts, progress, webhook_attempts, "
    "CASE WHEN webhook IS NULL OR status = 'cancelled' THEN NULL ELSE coalesce(webhook_status, 'pending') END"
)
_LAST_EVENT: Final = (
    "SELECT data FROM llm_platform.research_job_event WHERE job = :job ORDER BY number DESC LIMIT 1"
)
# {skip}: rows that another worker is claiming are left to it. An owner with fewer running research runs comes first, so that
# nobody's full queue keeps the others waiting.
_CLAIM: Final = f"""
UPDATE llm_platform.research_job
SET status = 'running', attempts = attempts + 1, lease = :token, lease_until = :now + :lease_s,
    started_at = coalesce(started_at, :now)
WHERE number = (
    WITH busy AS MATERIALIZED (
        SELECT owner, count(*) AS running FROM llm_platform.research_job
        WHERE status = 'running' AND {_HELD} GROUP BY owner
    )
    SELECT number FROM llm_platform.research_job AS waiting WHERE {_OPEN} AND NOT ({_HELD})
    ORDER BY coalesce((SELECT running FROM busy WHERE busy.owner = waiting.owner), 0), number LIMIT 1 {{skip}}
)
RETURNING number, id, owner, label, request, attempts, last_event, traceparent
"""  # noqa: S608  constants
# First attempts come before retries: receivers that hang do not delay the others.
_CLAIM_WEBHOOK: Final = f"""
UPDATE llm_platform.research_job
SET webhook_attempts = webhook_attempts + 1, webhook_at = :now + :lease_s
WHERE number = (
    SELECT number FROM llm_platform.research_job WHERE webhook_status = 'pending'
    AND (webhook_at <= :now OR webhook_at > :now + {LONGEST_DELAY_S})
    ORDER BY webhook_attempts, webhook_at LIMIT 1 {{skip}}
)
RETURNING number, webhook, {_JOB}
"""  # noqa: S608  constants


def add(job: dtos.NewResearchJob, max_queued: int) -> Operation[dtos.ResearchJob | None]:
    """One statement, since a client waits. Run again after its connection broke, it finds the research."""
    rows = yield Statement(
        f"""
        INSERT INTO llm_platform.research_job (owner, id, label, request, created_at, webhook, traceparent)
        SELECT :owner, :id, :label, :request, :now, :webhook, :traceparent WHERE :max_queued > (
            SELECT count(*) FROM llm_platform.research_job WHERE owner = :owner AND status = 'queued'
        )
        ON CONFLICT (owner, id) DO UPDATE SET label = excluded.label
        RETURNING {_JOB}
        """,  # noqa: S608  constants
        {
            "max_queued": max_queued,
            "owner": job.owner,
            "id": job.id,
            "label": job.label,
            # The fields that were set: whether `sources` was is part of a request with `urls`.
            "request": job.request.model_dump_json(exclude_unset=True),
            "webhook": job.webhook,
            "traceparent": job.traceparent,
        },
    )
    return _job(rows[0]) if rows else None


def get(owner: str, job_id: str) -> Operation[dtos.ResearchJobDetail | None]:
    rows = yield Statement(
        f"SELECT number, {_JOB} FROM llm_platform.research_job WHERE owner = :owner AND id = :id",  # noqa: S608
        {"owner": owner, "id": job_id},
    )
    if not rows:
        return None
    number, *row = rows[0]
    job, request = _job(row), ResearchRequest.model_validate_json(row[2])
    result: Mapping[str, Any] = {}
    if job.finished_at is not None:
        result = _decoded((yield Statement(_LAST_EVENT, {"job": number})))
    return dtos.ResearchJobDetail.model_validate(
        {**dict(job), "request": request, "response": result.get("response"), "problem": result.get("problem")}
    )


def page(owner: str, limit: int, before: str | None) -> Operation[tuple[dtos.ResearchJob, ...]]:
    rows = yield Statement(
        f"""
        SELECT {_JOB} FROM llm_platform.research_job
        WHERE owner = :owner AND (CAST(:before AS text) IS NULL OR number < (
            SELECT number FROM llm_platform.research_job WHERE owner = :owner AND id = :before
        ))
        ORDER BY number DESC LIMIT :limit
        """,  # noqa: S608  constants
        {"owner": owner, "limit": limit, "before": before},
    )
    return tuple(map(_job, rows))


def cancel(owner: str, job_id: str, event: dtos.JobEvent) -> Operation[bool]:
    rows = yield Statement(
        f"""
        UPDATE llm_platform.research_job
        SET status = 'cancelled', finished_at = :now, lease = NULL, lease_until = 0, last_event = last_event + 1
        WHERE owner = :owner AND id = :id AND {_OPEN} RETURNING number, last_event
        """,  # noqa: S608  constants
        {"owner": owner, "id": job_id},
    )
    if rows:
        [(job, number)] = rows
        yield Statement(_INSERT_EVENT, {"job": job, "number": number, "type": event.type, "data": event.data})
        return True
    found = yield Statement(
        "SELECT 1 FROM llm_platform.research_job WHERE owner = :owner AND id = :id", {"owner": owner, "id": job_id}
    )
    return bool(found)


def events(owner: str, job_id: str, after: int, limit: int) -> Operation[dtos.EventPage | None]:
    rows = yield Statement(
        "SELECT number, finished_at, last_event FROM llm_platform.research_job WHERE owner = :owner AND id = :id",
        {"owner": owner, "id": job_id},
    )
    if not rows:
        return None
    [(job, finished_at, last_event)] = rows
    found = yield Statement(
        """
        SELECT number, type, data FROM llm_platform.research_job_event
        WHERE job = :job AND number > :after AND number <= :last ORDER BY number LIMIT :limit
        """,
        {"job": job, "after": after, "last": last_event, "limit": limit},
    )
    page = tuple(dtos.JobEvent(*row) for row in found)
    reached = page[-1].number if page else after
    return dtos.EventPage(page, is_last=finished_at is not None and reached >= last_event)


def sources(owner: str, job_id: str) -> Operation[HeldSources | None]:
    rows = yield Statement(
        """
        SELECT data FROM llm_platform.research_job_sources WHERE job = (
            SELECT number FROM llm_platform.research_job WHERE owner = :owner AND id = :id
        )
        """,
        {"owner": owner, "id": job_id},
    )
    return HeldSources.model_validate_json(rows[0][0]) if rows else None


def claim(token: str, lease_s: float) -> Operation[dtos.ClaimedJob | None]:
    rows = yield Statement(_CLAIM, {"token": token, "lease_s": lease_s})
    if not rows:
        return None
    [(number, found_id, owner, label, request, *rest)] = rows
    return dtos.ClaimedJob(number, token, found_id, owner, label, ResearchRequest.model_validate_json(request), *rest)


def renew(job: dtos.ClaimedJob, lease_s: float) -> Operation[None]:
    yield from _update_leased(job, "lease_until = :now + :lease_s", lease_s=lease_s)


def append(job: dtos.ClaimedJob, new: Sequence[dtos.JobEvent], progress: dtos.ResearchProgress) -> Operation[None]:
    changed = {"progress": progress.model_dump_json(), "last": new[-1].number}
    yield from _update_leased(job, "progress = :progress, last_event = :last", **changed)
    yield from _insert_events(job, new)


def put_sources(job: dtos.ClaimedJob, held: HeldSources) -> Operation[None]:
    yield from _update_leased(job, "lease = lease")
    yield Statement(
        """
        INSERT INTO llm_platform.research_job_sources (job, data) VALUES (:job, :data)
        ON CONFLICT (job) DO UPDATE SET data = excluded.data
        """,
        {"job": job.number, "data": held.model_dump_json()},
    )


def finish(
    job: dtos.ClaimedJob, status: dtos.FinalStatus, new: Sequence[dtos.JobEvent], progress: dtos.ResearchProgress
) -> Operation[None]:
    yield from _update_leased(
        job,
        "status = :status, finished_at = :now, progress = :progress, last_event = :last, lease = NULL, lease_until = 0, "
        "webhook_at = :now, webhook_status = CASE WHEN webhook IS NULL THEN NULL ELSE 'pending' END",
        status=status,
        progress=progress.model_dump_json(),
        last=new[-1].number,
    )
    yield from _insert_events(job, new)


def release(job: dtos.ClaimedJob) -> Operation[None]:
    yield Statement(
        f"""
        UPDATE llm_platform.research_job
        SET status = 'queued', lease = NULL, lease_until = 0, attempts = attempts - 1 {_LEASED}
        """,  # noqa: S608  constants
        {"number": job.number, "token": job.token},
    )


def claim_webhook(lease_s: float) -> Operation[dtos.WebhookDelivery | None]:
    rows = yield Statement(_CLAIM_WEBHOOK, {"lease_s": lease_s})
    if not rows:
        return None
    [(number, url, *row)] = rows
    job = _job(row)
    result = _decoded((yield Statement(_LAST_EVENT, {"job": number})))
    return dtos.WebhookDelivery(number, url, job.webhook.attempts if job.webhook else 1, job, result)


def settle_webhook(delivery: dtos.WebhookDelivery, status: dtos.WebhookStatus, retry_in_s: float) -> Operation[None]:
    yield Statement(
        """
        UPDATE llm_platform.research_job SET webhook_status = :status, webhook_at = :now + :retry_in_s
        WHERE number = :number AND webhook_status = 'pending' AND webhook_attempts = :attempt RETURNING number
        """,
        {"number": delivery.number, "attempt": delivery.attempt, "status": status, "retry_in_s": retry_in_s},
    )


def counts() -> Operation[Mapping[dtos.ResearchStatus, int]]:
    rows = yield Statement(
        f"SELECT status, count(*) FROM llm_platform.research_job WHERE {_OPEN} GROUP BY status",  # noqa: S608
        {},
    )
    return {"queued": 0, "running": 0, **{status: int(count) for status, count in rows}}


def clean(ttl_s: float) -> Operation[int]:
    """Remove up to CLEANED_AT_ONCE research runs."""
    rows = yield Statement(
        "SELECT number FROM llm_platform.research_job WHERE finished_at < :now - :ttl_s ORDER BY number LIMIT :limit {skip}",
        {"ttl_s": ttl_s, "limit": CLEANED_AT_ONCE},
    )
    for (job,) in rows:
        for table, key in (("research_job_event", "job"), ("research_job_sources", "job"), ("research_job", "number")):
            yield Statement(f"DELETE FROM llm_platform.{table} WHERE {key} = :job", {"job": job})  # noqa: S608
    return len(rows)


def _update_leased(job: dtos.ClaimedJob, changes: str, **parameters: Any) -> Operation[None]:
    """Raises LeaseLostError, which rolls the operation back."""
    rows = yield Statement(
        f"UPDATE llm_platform.research_job SET {changes} {_LEASED}",  # noqa: S608  constants
        {"number": job.number, "token": job.token, **parameters},
    )
    if not rows:
        raise LeaseLostError


def _insert_events(job: dtos.ClaimedJob, new: Sequence[dtos.JobEvent]) -> Operation[None]:
    for event in new:
        yield Statement(
            _INSERT_EVENT, {"job": job.number, "number": event.number, "type": event.type, "data": event.data}
        )


def _job(row: Row) -> dtos.ResearchJob:
    """The research of the columns `_JOB`."""
    job_id, status, request, created_at, started_at, finished_at, attempts, progress, sent, webhook = row
    asked = json.loads(request)
    return dtos.ResearchJob(
        id=job_id,
        status=status,
        query=asked["query"],
        depth=asked.get("depth", "shallow"),
        created_at=_time(created_at),
        started_at=None if started_at is None else _time(started_at),
        finished_at=None if finished_at is None else _time(finished_at),
        attempts=attempts,
        progress=dtos.ResearchProgress.model_validate_json(progress),
        webhook=None if webhook is None else dtos.WebhookState(status=webhook, attempts=sent),
    )


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _decoded(rows: Sequence[Row]) -> Mapping[str, Any]:
    return json.loads(rows[0][0]) if rows else {}


class SqlResearchJobStore(IResearchJobStore):
    """The store over a driver. `_transact` runs the operation that the function makes in one transaction, and may run it twice
    if the connection broke. Research runs are stored for `ttl_days` after their end.
    """

    def __init__(self, ttl_days: float) -> None:
        self._ttl_s = ttl_days * DAY_S

    @abstractmethod
    async def _transact(self, make: Callable[[], Operation[Result]]) -> Result:
        """Run the operation that `make` returns in one transaction."""

    async def _run_statement(self, make: Callable[[], Operation[Result]]) -> Result:
        """As `_transact`, for an operation of one statement, which is a transaction by itself."""
        return await self._transact(make)

    async def _query(self, make: Callable[[], Operation[Result]], empty: Result) -> Result:
        """As `_transact`; `empty` is the result where no research run was ever added."""
        return await self._transact(make)

    async def add(self, job: dtos.NewResearchJob, max_queued: int) -> dtos.ResearchJob | None:
        return await self._run_statement(lambda: add(job, max_queued))

    async def get(self, owner: str, job_id: str) -> dtos.ResearchJobDetail | None:
        return await self._query(lambda: get(owner, job_id), None)

    async def page(self, owner: str, limit: int, before: str | None = None) -> tuple[dtos.ResearchJob, ...]:
        return await self._query(lambda: page(owner, limit, before), ())

    async def cancel(self, owner: str, job_id: str, event: dtos.JobEvent) -> bool:
        return await self._query(lambda: cancel(owner, job_id, event), False)

    async def events(self, owner: str, job_id: str, after: int, limit: int) -> dtos.EventPage | None:
        return await self._query(lambda: events(owner, job_id, after, limit), None)

    async def sources(self, owner: str, job_id: str) -> HeldSources | None:
        return await self._query(lambda: sources(owner, job_id), None)

    async def claim(self, token: str, lease_s: float) -> dtos.ClaimedJob | None:
        return await self._query(lambda: claim(token, lease_s), None)

    async def renew(self, job: dtos.ClaimedJob, lease_s: float) -> None:
        await self._transact(lambda: renew(job, lease_s))

    async def append(self, job: dtos.ClaimedJob, events: Sequence[dtos.JobEvent], progress: dtos.ResearchProgress) -> None:
        await self._transact(lambda: append(job, events, progress))

    async def put_sources(self, job: dtos.ClaimedJob, sources: HeldSources) -> None:
        await self._transact(lambda: put_sources(job, sources))

    async def finish(
        self, job: dtos.ClaimedJob, status: dtos.FinalStatus, events: Sequence[dtos.JobEvent], progress: dtos.ResearchProgress
    ) -> None:
        await self._transact(lambda: finish(job, status, events, progress))

    async def release(self, job: dtos.ClaimedJob) -> None:
        await self._transact(lambda: release(job))

    async def claim_webhook(self, lease_s: float) -> dtos.WebhookDelivery | None:
        return await self._query(lambda: claim_webhook(lease_s), None)

    async def settle_webhook(self, delivery: dtos.WebhookDelivery, status: dtos.WebhookStatus, retry_in_s: float = 0.0) -> None:
        await self._transact(lambda: settle_webhook(delivery, status, retry_in_s))

    async def counts(self) -> Mapping[dtos.ResearchStatus, int]:
        return await self._query(counts, {"queued": 0, "running": 0})

    async def clean(self) -> int:
        removed = 0
        while some := await self._query(lambda: clean(self._ttl_s), 0):
            removed += some
        return removed
