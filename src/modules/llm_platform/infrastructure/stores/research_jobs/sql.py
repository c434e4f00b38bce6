"""Store research runs and their events with SQL that SQLite and PostgreSQL both understand.

The parameters `:now` (seconds since 1970) and `{skip}`, `{known}` in the text of a statement are filled in by the driver.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, get_args

from modules.llm_platform.domain.dtos import research_job_dtos as dtos
from modules.llm_platform.domain.dtos.request_dtos import Depth, ResearchRequest
from modules.llm_platform.domain.dtos.source_dtos import StoredSources
from modules.llm_platform.domain.ports.research_job_store import IResearchJobStore, JobSelection, LeaseLostError
from modules.llm_platform.infrastructure.stores.database.operations import (
    CONTINUE_AFTER,
    DAY_S,
    Operation,
    Row,
    SqlStore,
    Statement,
    list_marks,
    make_position,
    operation,
)
from modules.llm_platform.infrastructure.stores.research_jobs.answer_columns import make_answer_columns

CLOCK_STEP_S: Final = 5.0  # a clock may be set back by this much, and leases still count
UNREADABLE: Final = "(This question cannot be read.)"  # a newer program stored it, or the file is damaged
LONGEST_DELAY_S: Final = 2.0 * DAY_S  # more than the longest wait for a retry of a webhook, 29 hours
CLEANUP_BATCH_SIZE: Final = 100  # research runs removed by one transaction
_OPEN: Final = "status IN ('queued', 'running')"
# A lease that ends later than it can was taken while the clock was wrong: it does not count.
_IS_LEASED: Final = f"lease_until > :now AND lease_until <= :now + :lease_s + {CLOCK_STEP_S}"
_OF_LEASE: Final = "WHERE number = :number AND lease = :token AND status = 'running' RETURNING is_finish_asked"
_INSERT_EVENT: Final = (
    "INSERT INTO llm_platform.research_job_event (job, number, type, data) VALUES (:job, :number, :type, :data) "
    "ON CONFLICT DO NOTHING"
)
_PUT_SOURCES: Final = (
    "INSERT INTO llm_platform.research_job_sources (job, data) VALUES (:job, :data) "
    "ON CONFLICT (job) DO UPDATE SET data = excluded.data"
)
# The columns of `_read_job`.
_JOB: Final = (
    "id, status, request, created_at, started_at, finished_at, attempts, progress, webhook_attempts, "
    "CASE WHEN webhook IS NULL OR status = 'cancelled' THEN NULL ELSE coalesce(webhook_status, 'pending') END, api, thread"
)
_GAP: Final = "\x1f"  # separates the question of a run from the thread title, if different, in a search text
_SEARCH_TITLE: Final = f"coalesce(nullif(split_part(search_text, '{_GAP}', 2), ''), search_text)"
# A run joins the thread of the run `:joined_id`, and takes over its title, if any run of that thread is still stored.
_JOINED: Final = (
    "FROM llm_platform.research_job WHERE owner = :owner AND (id = :joined_id OR thread = :joined_id) LIMIT 1"
)
_THREAD: Final = (
    f"coalesce((SELECT thread {_JOINED}), :id), coalesce((SELECT nullif(title, '') {_JOINED}), :title), "
    f":search_text || coalesce((SELECT '{_GAP}' || {_SEARCH_TITLE} {_JOINED}), ''), :is_report"
)
_THREAD_COLUMNS: Final = "thread, title, search_text, is_report"
# `:id` is the id of any run of the thread, or the id of the thread. The first run of the thread may have been removed.
_IS_THREAD: Final = (
    "thread = coalesce((SELECT thread FROM llm_platform.research_job WHERE owner = :owner AND id = :id), :id)"
)
_OF_THREAD: Final = f"WHERE owner = :owner AND {_IS_THREAD}"
_RUNS: Final = "FROM llm_platform.research_job AS run WHERE run.owner = newest.owner AND run.thread = newest.thread"
# Threads that only clients of compatible APIs have written to are not listed.
_OF_OWNER: Final = "FROM llm_platform.research_job WHERE owner = :owner"
_NOT_OLDER: Final = f"SELECT min(number) {_OF_OWNER}"
_AFTER_RUN: Final = CONTINUE_AFTER.format(entry=f"SELECT number {_OF_OWNER} AND id = :before", not_older=_NOT_OLDER)
_AFTER_THREAD: Final = CONTINUE_AFTER.format(
    entry=f"SELECT max(number) {_OF_OWNER} AND thread = :before", not_older=_NOT_OLDER
)
_HAS_NATIVE_RUN: Final = f"EXISTS (SELECT 1 {_RUNS} AND run.api = '')"
_LIKE_SIGN: Final = re.compile(r"([%_!])")
_THREADS: Final = f"""
SELECT thread, title, status, created_at, request, (SELECT min(created_at) {_RUNS}), (SELECT count(*) {_RUNS}),
    (SELECT count(*) {_RUNS} AND run.{_OPEN}), evidence
FROM llm_platform.research_job AS newest
WHERE owner = :owner AND NOT EXISTS (SELECT 1 {_RUNS} AND run.number > newest.number)
"""  # noqa: S608  constants
_LAST_EVENT: Final = "SELECT data FROM llm_platform.research_job_event WHERE job = :job ORDER BY number DESC LIMIT 1"
# Whoever had the lease of a run that is still running has vanished, or could not renew it.
_UNCLEAN_ENDS: Final = "unclean_ends + CASE WHEN status = 'running' THEN 1 ELSE 0 END"
_ONE_UNLESS_GIVEN_UP: Final = f"CASE WHEN {{ends}} < {dtos.MAX_UNCLEAN_ENDS} THEN 1 ELSE 0 END"
# {skip} leaves out rows that another worker is claiming. The owner with the fewest running runs comes first, so that nobody's
# full queue keeps the others waiting.
_CLAIM: Final = f"""
UPDATE llm_platform.research_job
SET status = 'running', attempts = attempts + {_ONE_UNLESS_GIVEN_UP.format(ends=_UNCLEAN_ENDS)},
    unclean_ends = {_UNCLEAN_ENDS}, lease = :token, lease_until = :now + :lease_s, started_at = coalesce(started_at, :now)
WHERE number = (
    WITH busy AS MATERIALIZED (
        SELECT owner, count(*) AS running FROM llm_platform.research_job
        WHERE status = 'running' AND {_IS_LEASED} GROUP BY owner
    )
    SELECT number FROM llm_platform.research_job AS waiting WHERE {_OPEN} AND NOT ({_IS_LEASED})
        AND (CAST(:is_report AS boolean) IS NULL OR is_report = :is_report)
        AND replace(CAST(:held AS text), ',' || CAST(number AS text) || ',', '') = CAST(:held AS text)
        AND NOT (:leaves_suspects AND {_UNCLEAN_ENDS} BETWEEN 1 AND {dtos.MAX_UNCLEAN_ENDS - 1}){{only}}
    ORDER BY coalesce((SELECT running FROM busy WHERE busy.owner = waiting.owner), 0), number LIMIT 1 {{skip}}
)
RETURNING number, id, owner, label, request, client_request, is_finish_asked, attempts, last_event, traceparent, unclean_ends
"""  # noqa: S608  constants
# First attempts come before retries, so that receivers that hang do not delay the others.
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


class SqlResearchJobStore(IResearchJobStore, SqlStore):
    """Store of research runs, each removed `ttl_days` after its end."""

    def __init__(self, ttl_days: float) -> None:
        self._ttl_s = ttl_days * DAY_S

    @operation(is_statement=True)
    def add(self, job: dtos.NewResearchJob, max_queued: int) -> Operation[dtos.ResearchJob | None]:
        """Add a run with one statement, because a client waits for it.

        A statement whose connection broke is run again and may find the run stored: it then returns the stored run.
        """
        return (yield from insert_queued(job, max_queued))

    @operation()
    def record(
        self, job: dtos.NewResearchJob, events: Sequence[dtos.JobEvent], sources: StoredSources | None, took_s: float
    ) -> Operation[None]:
        yield from _delete(job.owner, job.id)
        [(number,)] = yield Statement(
            f"""
            INSERT INTO llm_platform.research_job (
                owner, id, label, request, status, created_at, started_at, finished_at, attempts, last_event, api,
                client_request, webhook, webhook_status, webhook_at, answer_text, evidence, {_THREAD_COLUMNS}
            ) VALUES (
                :owner, :id, :label, :request, 'done', :now - :took_s, :now - :took_s, :now, 1, :last, :api, :client_request,
                :webhook, :webhook_status, :now, :answer_text, :evidence, {_THREAD}
            )
            RETURNING number
            """,  # noqa: S608  constants
            {
                **_make_parameters(job),
                **make_answer_columns(events[-1]),
                "took_s": took_s,
                "last": events[-1].number,
                "webhook": job.webhook,
                "webhook_status": "pending" if job.webhook else None,
            },
        )
        yield from _insert_events(number, events)
        if sources is not None:
            yield Statement(_PUT_SOURCES, {"job": number, "data": sources.model_dump_json()})

    @operation(empty=False)
    def delete(self, owner: str, job_id: str) -> Operation[bool]:
        return (yield from _delete(owner, job_id))

    @operation(empty=None, is_read=True)
    def get(self, owner: str, job_id: str) -> Operation[dtos.ResearchJobDetail | None]:
        rows = yield Statement(
            f"SELECT number, client_request, {_JOB} FROM llm_platform.research_job WHERE owner = :owner AND id = :id",  # noqa: S608
            {"owner": owner, "id": job_id},
        )
        if not rows:
            return None
        number, client_request, *row = rows[0]
        job, request = _read_job(row), _read_request(row[2]) or _make_unreadable_request()
        result: Mapping[str, Any] = {}
        if job.finished_at is not None:
            result = _make_event_data((yield Statement(_LAST_EVENT, {"job": number})))
        return dtos.ResearchJobDetail.model_validate(
            {
                **dict(job),
                "request": request,
                "client_request": _read_client_request(client_request) or {},
                "response": result.get("response"),
                "problem": result.get("problem"),
            }
        )

    @operation(empty=(), is_read=True)
    def page(
        self, owner: str, limit: int, before: str | None = None, api: str | None = None
    ) -> Operation[tuple[dtos.ResearchJob, ...]]:
        rows = yield Statement(
            f"""
            SELECT {_JOB} FROM llm_platform.research_job
            WHERE owner = :owner AND (CAST(:api AS text) IS NULL OR api = :api)
                AND (CAST(:before AS text) IS NULL OR number < {_AFTER_RUN})
            ORDER BY number DESC LIMIT :limit
            """,  # noqa: S608  constants
            {"owner": owner, "limit": limit, "api": api, **make_position(before)},
        )
        return tuple(map(_read_job, rows))

    @operation(empty=(), is_read=True)
    def threads(
        self, owner: str, limit: int, before: str | None = None, text: str | None = None
    ) -> Operation[tuple[dtos.ResearchThread, ...]]:
        pattern = None if text is None else "%" + _LIKE_SIGN.sub(r"!\1", text.casefold()) + "%"
        rows = yield Statement(
            f"""
            {_THREADS} AND {_HAS_NATIVE_RUN} AND (CAST(:before AS text) IS NULL OR number < {_AFTER_THREAD})
            AND (CAST(:pattern AS text) IS NULL OR EXISTS (
                SELECT 1 {_RUNS} AND (
                    run.search_text LIKE :pattern ESCAPE '!' OR run.answer_text LIKE :pattern ESCAPE '!'
                )
            ))
            ORDER BY number DESC LIMIT :limit
            """,
            {"owner": owner, "limit": limit, "pattern": pattern, **make_position(before)},
        )
        return tuple(map(_read_thread, rows))

    @operation(empty=None, is_read=True)
    def thread(self, owner: str, job_id: str) -> Operation[dtos.ResearchThreadDetail | None]:
        key = {"owner": owner, "id": job_id}
        rows = yield Statement(
            f"SELECT {_JOB} FROM llm_platform.research_job {_OF_THREAD} ORDER BY number DESC LIMIT :limit",  # noqa: S608
            {**key, "limit": dtos.MAX_LISTED},
        )
        if not rows:
            return None
        [about] = yield Statement(f"{_THREADS} AND {_IS_THREAD}", key)
        return dtos.ResearchThreadDetail(**dict(_read_thread(about)), researches=tuple(map(_read_job, reversed(rows))))

    @operation(empty=False)
    def rename_thread(self, owner: str, job_id: str, title: str) -> Operation[bool]:
        rows = yield Statement(
            f"""
            UPDATE llm_platform.research_job
            SET title = :title, search_text = split_part(search_text, '{_GAP}', 1) || '{_GAP}' || :search_title
            {_OF_THREAD} RETURNING number
            """,  # noqa: S608  constants
            {"owner": owner, "id": job_id, "title": title, "search_title": _search_text(title)},
        )
        return bool(rows)

    @operation(empty=())
    def delete_thread(self, owner: str, job_id: str) -> Operation[tuple[str, ...]]:
        removed = yield from _remove(_OF_THREAD, {"owner": owner, "id": job_id})
        return tuple(found_id for _, found_id in removed)

    @operation(empty=False)
    def cancel(self, owner: str, job_id: str, *events: dtos.JobEvent) -> Operation[bool]:
        rows = yield Statement(
            f"""
            UPDATE llm_platform.research_job
            SET status = 'cancelled', finished_at = :now, lease = NULL, lease_until = 0, last_event = last_event + :events
            WHERE owner = :owner AND id = :id AND {_OPEN} RETURNING number, last_event
            """,  # noqa: S608  constants
            {"owner": owner, "id": job_id, "events": len(events)},
        )
        if rows:
            [(job, last)] = rows
            numbered = [replace(event, number=number) for number, event in enumerate(events, last - len(events) + 1)]
            yield from _insert_events(job, numbered)
            return True
        found = yield Statement(
            "SELECT 1 FROM llm_platform.research_job WHERE owner = :owner AND id = :id", {"owner": owner, "id": job_id}
        )
        return bool(found)

    @operation(empty=False)
    def ask_finish(self, owner: str, job_id: str) -> Operation[bool]:
        rows = yield Statement(
            f"""
            UPDATE llm_platform.research_job SET is_finish_asked = true
            WHERE owner = :owner AND id = :id AND {_OPEN} RETURNING number
            """,  # noqa: S608  constants
            {"owner": owner, "id": job_id},
        )
        return bool(rows)

    @operation(empty=None, is_read=True)
    def events(self, owner: str, job_id: str, after: int, limit: int) -> Operation[dtos.EventPage | None]:
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

    @operation(empty=None, is_read=True)
    def sources(self, owner: str, job_id: str) -> Operation[StoredSources | None]:
        rows = yield Statement(
            """
            SELECT data FROM llm_platform.research_job_sources WHERE job = (
                SELECT number FROM llm_platform.research_job WHERE owner = :owner AND id = :id
            )
            """,
            {"owner": owner, "id": job_id},
        )
        return StoredSources.model_validate_json(rows[0][0]) if rows else None

    @operation(empty=None)
    def claim(
        self,
        token: str,
        lease_s: float,
        is_report: bool | None = None,
        *,
        held: Collection[int] = (),
        leaves_suspects: bool = False,
        only: JobSelection | None = None,
    ) -> Operation[dtos.ClaimedJob | None]:
        condition, selected = "", dict[str, Any]()
        if only is not None:
            marks, selected = list_marks("id", only.ids)
            condition, selected = f" AND owner = :owner AND id IN ({marks})", {**selected, "owner": only.owner}
        rows = yield Statement(
            _CLAIM.replace("{only}", condition),
            {
                **selected,
                "token": token,
                "lease_s": lease_s,
                "is_report": is_report,
                "leaves_suspects": leaves_suspects,
                "held": f",{','.join(map(str, held))},",
            },
        )
        if not rows:
            return None
        [(number, found_id, owner, label, request, client_request, is_asked, attempts, last_event, trace, ends)] = rows
        asks, sent = _read_request(request), _read_client_request(client_request)
        return dtos.ClaimedJob(
            number,
            token,
            found_id,
            owner,
            label,
            asks or _make_unreadable_request(),
            attempts,
            last_event,
            trace,
            is_finish_asked=bool(is_asked),
            unclean_ends=ends,
            client_request=sent or {},
            is_readable=asks is not None and sent is not None,
        )

    @operation()
    def renew(self, job: dtos.ClaimedJob, lease_s: float) -> Operation[bool]:
        return (yield from _update_leased(job, "lease_until = :now + :lease_s", lease_s=lease_s))

    @operation()
    def clear_unclean_ends(self, job: dtos.ClaimedJob) -> Operation[None]:
        yield from _update_leased(job, "unclean_ends = 0")

    @operation()
    def append(
        self, job: dtos.ClaimedJob, events: Sequence[dtos.JobEvent], progress: dtos.ResearchProgress
    ) -> Operation[None]:
        changed = {"progress": progress.model_dump_json(), "last": events[-1].number}
        yield from _update_leased(job, "progress = :progress, last_event = :last", **changed)
        yield from _insert_events(job.number, events)

    @operation()
    def put_sources(self, job: dtos.ClaimedJob, sources: StoredSources) -> Operation[None]:
        yield from _update_leased(job, "lease = lease")
        yield Statement(_PUT_SOURCES, {"job": job.number, "data": sources.model_dump_json()})

    @operation()
    def finish(
        self,
        job: dtos.ClaimedJob,
        status: dtos.FinalStatus,
        events: Sequence[dtos.JobEvent],
        progress: dtos.ResearchProgress,
    ) -> Operation[None]:
        yield from _update_leased(
            job,
            "status = :status, finished_at = :now, progress = :progress, last_event = :last, lease = NULL, lease_until = 0, "
            "answer_text = :answer_text, evidence = :evidence, "
            "webhook_at = :now, webhook_status = CASE WHEN webhook IS NULL THEN NULL ELSE 'pending' END",
            status=status,
            progress=progress.model_dump_json(),
            last=events[-1].number,
            **make_answer_columns(events[-1]),
        )
        yield from _insert_events(job.number, events)

    @operation()
    def release(self, job: dtos.ClaimedJob) -> Operation[None]:
        yield Statement(
            f"""
            UPDATE llm_platform.research_job
            SET status = 'queued', lease = NULL, lease_until = 0,
                attempts = attempts - {_ONE_UNLESS_GIVEN_UP.format(ends="unclean_ends")} {_OF_LEASE}
            """,  # noqa: S608  constants
            {"number": job.number, "token": job.token},
        )

    @operation(empty=None)
    def claim_webhook(self, lease_s: float) -> Operation[dtos.WebhookDelivery | None]:
        rows = yield Statement(_CLAIM_WEBHOOK, {"lease_s": lease_s})
        if not rows:
            return None
        [(number, url, *row)] = rows
        job = _read_job(row)
        result = _make_event_data((yield Statement(_LAST_EVENT, {"job": number})))
        return dtos.WebhookDelivery(number, url, job.webhook.attempts if job.webhook else 1, job, result)

    @operation()
    def settle_webhook(
        self, delivery: dtos.WebhookDelivery, status: dtos.WebhookStatus, retry_in_s: float = 0.0
    ) -> Operation[None]:
        yield Statement(
            """
            UPDATE llm_platform.research_job SET webhook_status = :status, webhook_at = :now + :retry_in_s
            WHERE number = :number AND webhook_status = 'pending' AND webhook_attempts = :attempt RETURNING number
            """,
            {"number": delivery.number, "attempt": delivery.attempt, "status": status, "retry_in_s": retry_in_s},
        )

    @operation(empty={"queued": 0, "running": 0}, is_read=True)
    def counts(self) -> Operation[Mapping[dtos.ResearchStatus, int]]:
        rows = yield Statement(
            f"SELECT status, count(*) FROM llm_platform.research_job WHERE {_OPEN} GROUP BY status",  # noqa: S608
            {},
        )
        return {"queued": 0, "running": 0, **{status: int(count) for status, count in rows}}

    @operation(empty=0)
    def _clean_some(self) -> Operation[int]:
        """Remove up to CLEANUP_BATCH_SIZE expired research runs, and return the number removed."""
        removed = yield from _remove(
            "WHERE number IN (SELECT number FROM llm_platform.research_job WHERE finished_at < :now - :ttl_s "
            "ORDER BY number LIMIT :limit {skip})",
            {"ttl_s": self._ttl_s, "limit": CLEANUP_BATCH_SIZE},
        )
        return len(removed)

    async def clean(self) -> int:
        removed = 0
        while some := await self._clean_some():
            removed += some
        return removed


def insert_queued(job: dtos.NewResearchJob, max_queued: int) -> Operation[dtos.ResearchJob | None]:
    """Add a run unless `max_queued` of its owner are queued, and return it, or the stored run with its id."""
    rows = yield Statement(
        f"""
        INSERT INTO llm_platform.research_job
            (owner, id, label, request, created_at, webhook, traceparent, api, client_request, {_THREAD_COLUMNS})
        SELECT :owner, :id, :label, :request, :now, :webhook, :traceparent, :api, :client_request, {_THREAD}
        WHERE {{known}} AND (:max_queued > (
            SELECT count(*) FROM llm_platform.research_job WHERE owner = :owner AND status = 'queued'
        ) OR EXISTS (SELECT 1 FROM llm_platform.research_job WHERE owner = :owner AND id = :id))
        ON CONFLICT (owner, id) DO UPDATE SET label = excluded.label
        RETURNING {_JOB}
        """,  # noqa: S608  constants
        {
            **_make_parameters(job),
            "max_queued": max_queued,
            "webhook": job.webhook,
            "traceparent": job.traceparent,
        },
    )
    return _read_job(rows[0]) if rows else None


def _make_parameters(job: dtos.NewResearchJob) -> dict[str, Any]:
    """Return the parameters that `add` and `record` have in common."""
    return {
        "owner": job.owner,
        "id": job.id,
        "label": job.label,
        # Only fields that were set are stored: a request with `urls` means something else if `sources` is set.
        "request": job.request.model_dump_json(exclude_unset=True),
        "api": job.api,
        "client_request": json.dumps(job.client_request) if job.client_request else "",
        "joined_id": job.thread_id or job.request.previous_id,
        "title": job.request.query,
        "search_text": _search_text(job.request.query),
        "is_report": job.request.depth == "report",
    }


def _search_text(text: str) -> str:
    return text.replace(_GAP, " ").casefold()


def _delete(owner: str, job_id: str) -> Operation[bool]:
    removed = yield from _remove("WHERE owner = :owner AND id = :id", {"owner": owner, "id": job_id})
    return bool(removed)


def _remove(which: str, parameters: Mapping[str, Any]) -> Operation[Sequence[Row]]:
    """Remove the runs that the clause `which` selects, with their events and sources. Return their numbers and ids.

    The run is removed first: this waits for a worker that is writing its events, and no worker can write any afterwards.
    """
    removed = yield Statement(f"DELETE FROM llm_platform.research_job {which} RETURNING number, id", parameters)  # noqa: S608
    for job, _ in removed:
        for table in ("research_job_event", "research_job_sources"):
            yield Statement(f"DELETE FROM llm_platform.{table} WHERE job = :job", {"job": job})  # noqa: S608
    return removed


def _update_leased(job: dtos.ClaimedJob, changes: str, **parameters: Any) -> Operation[bool]:
    """Update a run of this worker. Return whether its caller has asked for an early finish.

    Raises LeaseLostError if the worker no longer has the lease, which rolls back the whole operation.
    """
    rows = yield Statement(
        f"UPDATE llm_platform.research_job SET {changes} {_OF_LEASE}",  # noqa: S608  constants
        {"number": job.number, "token": job.token, **parameters},
    )
    if not rows:
        raise LeaseLostError
    return bool(rows[0][0])


def _insert_events(job: int, new: Sequence[dtos.JobEvent]) -> Operation[None]:
    for event in new:
        yield Statement(_INSERT_EVENT, {"job": job, "number": event.number, "type": event.type, "data": event.data})


def _read_job(row: Row) -> dtos.ResearchJob:
    job_id, status, request, created_at, started_at, finished_at, attempts, progress, sent, webhook, api, thread_id = (
        row
    )
    asked = _read_fields(request)
    return dtos.ResearchJob(
        id=job_id,
        status=status,
        query=asked["query"],
        depth=asked.get("depth", "shallow"),
        created_at=_read_time(created_at),
        started_at=None if started_at is None else _read_time(started_at),
        finished_at=None if finished_at is None else _read_time(finished_at),
        attempts=attempts,
        progress=dtos.ResearchProgress.model_validate_json(progress),
        webhook=None if webhook is None else dtos.WebhookState(status=webhook, attempts=sent),
        api=api,
        previous_id=asked.get("previous_id"),
        thread_id=thread_id,
    )


def _read_thread(row: Row) -> dtos.ResearchThread:
    """Return the thread of a row of `_THREADS`. A thread of an earlier version has no title: its question replaces it."""
    thread_id, title, status, updated_at, request, created_at, runs, open_runs, evidence = row
    return dtos.ResearchThread(
        id=thread_id,
        title=title or _read_fields(request)["query"],
        status=status,
        created_at=_read_time(created_at),
        updated_at=_read_time(updated_at),
        runs=runs,
        running=open_runs,
        evidence=dtos.AnswerEvidence.model_validate_json(evidence) if evidence else None,
    )


def _read_request(data: str) -> ResearchRequest | None:
    """Return a stored request; None for one that this program cannot read."""
    try:
        return ResearchRequest.model_validate_json(data)
    except ValueError:
        return None


def _read_client_request(data: str) -> Mapping[str, Any] | None:
    """Return what a compatible API stored of its request; None if it cannot be read."""
    try:
        sent = json.loads(data or "{}")
    except ValueError:
        return None
    return sent if isinstance(sent, dict) else None


def _make_unreadable_request() -> ResearchRequest:
    return ResearchRequest(query=UNREADABLE)


def _read_fields(data: str) -> Mapping[str, Any]:
    """Return the fields of a stored request, which is not compared with all rules: lists have many."""
    try:
        fields = json.loads(data)
    except ValueError:
        fields = None
    if not isinstance(fields, dict) or not isinstance(fields.get("query"), str):
        return {"query": UNREADABLE}
    return fields if fields.get("depth", "shallow") in get_args(Depth) else {"query": UNREADABLE}


def _read_time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _make_event_data(rows: Sequence[Row]) -> Mapping[str, Any]:
    """Return the data of the event that the rows of `_LAST_EVENT` hold, empty without one."""
    return json.loads(rows[0][0]) if rows else {}
