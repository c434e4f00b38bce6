"""Outcomes in PostgreSQL, which the workers of several machines share.

Concurrent calls are batched: one statement stores the outcomes of many requests. Times come from the database, so that a
wrong clock of one machine removes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from hashlib import sha256
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from modules.llm_platform.domain.dtos.retrieval_dtos import Outcome, OutcomeFilter, RagStage, StoredOutcome
from modules.llm_platform.domain.exceptions import OutcomeStoreError
from modules.llm_platform.domain.ports.outcome_store import IOutcomeStore
from modules.llm_platform.domain.ports.tracing import NO_SPAN, database_call, running
from modules.llm_platform.infrastructure.stores.database.migrations import write_probe
from modules.llm_platform.infrastructure.stores.database.postgres import POSTGRESQL, Database, DatabaseError
from modules.llm_platform.infrastructure.stores.failed_requests.sql import decode_id, encode_id

if TYPE_CHECKING:
    from modules.llm_platform.infrastructure.stores.database.postgres import Connection

Result = TypeVar("Result")

DAY_S: Final = 86_400
BATCH: Final = 128  # outcomes of one statement
CLEANUP_BATCH_SIZE: Final = 500  # rows of one transaction, so that other workers wait for milliseconds
CLOSED: Final = "the outcome store is closed"
_KEEP_ATTEMPTS: Final = 3  # an outcome may expire between the insertion that finds it and the query that reads it
# %b: binary. Rows in the order of their keys, so that two workers with the same requests do not deadlock.
_INSERT: Final = """
INSERT INTO llm_platform.outcome (digest, stage, tenant, request_id, kind, body, request_sha256)
SELECT * FROM unnest(%b::bytea[], %b::text[], %b::bytea[], %b::bytea[], %b::text[], %b::bytea[], %b::text[])
ON CONFLICT DO NOTHING RETURNING digest
"""
_SELECT: Final = "SELECT digest, kind, body, request_sha256 FROM llm_platform.outcome WHERE digest = ANY(%b)"
SCAN_BATCH_SIZE: Final = 100  # rows; most outcomes have some kilobytes
_SCAN: Final = """
SELECT digest, stored_at, extract(epoch FROM stored_at), stage, request_id, kind, body, request_sha256, tenant
FROM llm_platform.outcome
WHERE (%(stored_at)s::timestamptz IS NULL OR (stored_at, digest) < (%(stored_at)s, %(digest)s::bytea))
AND (%(stage)s::text IS NULL OR stage = %(stage)s) AND (%(kind)s::text IS NULL OR kind = %(kind)s)
AND (%(request_id)s::bytea IS NULL OR request_id = %(request_id)s)
AND (%(tenant)s::bytea IS NULL OR tenant = %(tenant)s) AND (%(key)s::bytea IS NULL OR digest = %(key)s)
AND stored_at <= clock_timestamp() - make_interval(secs => %(min_age_s)s)
AND (%(max_age_s)s::float IS NULL OR stored_at >= clock_timestamp() - make_interval(secs => %(max_age_s)s))
ORDER BY stored_at DESC, digest DESC LIMIT %(limit)s
"""
_REMOVE: Final = "DELETE FROM llm_platform.outcome WHERE digest = %s AND kind = %s AND body = %s"
_CLEAN: Final = """
DELETE FROM llm_platform.outcome WHERE digest IN (
    SELECT digest FROM llm_platform.outcome WHERE stored_at < clock_timestamp() - make_interval(secs => %s)
    ORDER BY stored_at LIMIT %s FOR UPDATE SKIP LOCKED
)
"""


class _Call(NamedTuple):
    """A call of `keep`, and the future of its caller."""

    outcomes: Sequence[Outcome]
    answer: asyncio.Future[list[Outcome]]


class PostgresOutcomeStore(IOutcomeStore):
    """Outcomes in the table `llm_platform.outcome`, each stored for `ttl_days`. The caller closes `database`."""

    reach = "all workers that use this PostgreSQL database"

    def __init__(self, database: Database, ttl_days: float) -> None:
        self._database = database
        self._ttl_s = ttl_days * DAY_S
        self._waiting: list[_Call] = []
        self._writer: asyncio.Task[None] | None = None
        self._closed = False

    async def get(self, stage: RagStage, request_id: str, tenant: str = "") -> Outcome | None:
        [found] = await self.get_many(((stage, request_id, tenant),))
        return found

    async def get_many(self, wanted: Sequence[tuple[RagStage, str, str]]) -> list[Outcome | None]:
        if not wanted:
            return []
        return await self._run(lambda connection: _select(connection, wanted))

    async def put_if_absent(self, outcomes: Sequence[Outcome]) -> list[Outcome]:
        if self._closed:
            raise OutcomeStoreError(CLOSED)
        if not outcomes:
            return []
        answer: asyncio.Future[list[Outcome]] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Call(outcomes, answer))
        if self._writer is None:
            with running(NO_SPAN):  # it writes the outcomes of other requests too
                self._writer = asyncio.create_task(self._write_batches())
        with database_call(POSTGRESQL, "INSERT"):
            return await answer

    async def scan(self, wanted: OutcomeFilter) -> AsyncIterator[StoredOutcome]:
        last: tuple[Any, Any] = (None, None)
        while rows := await self._run(partial(_fetch_page, wanted=wanted, last=last)):
            for digest, stored_at, seconds, stage, request_id, kind, body, request_sha256, tenant in rows:
                last = stored_at, digest
                outcome = Outcome(stage, decode_id(request_id), kind, bytes(body), request_sha256, decode_id(tenant))
                yield StoredOutcome(outcome, float(seconds))

    async def remove(self, outcomes: Sequence[Outcome]) -> list[bool]:
        async def delete(connection: Connection) -> list[bool]:
            removed = []
            for outcome in outcomes:
                digest = _digest(outcome.stage, outcome.request_id, outcome.tenant)
                cursor = await connection.execute(_REMOVE, (digest, outcome.kind, outcome.body), binary=True)
                removed.append(cursor.rowcount > 0)
            return removed

        return await self._run(delete)

    async def clean(self) -> int:
        removed = 0
        while some := await self._run(self._remove_expired):
            removed += some
        return removed

    async def probe(self) -> None:
        await self._run(write_probe)

    async def identity(self) -> str:
        async def select(connection: Connection) -> str:
            found = await connection.execute("SELECT id FROM llm_platform.about")
            row = await found.fetchone()
            if row is None:
                raise DatabaseError("the table llm_platform.about is empty: restore the database")
            return str(row[0])

        return await self._run(select)

    async def aclose(self) -> None:
        self._closed = True
        if self._writer is not None:
            await asyncio.wait((self._writer,))

    async def _run(self, work: Callable[[Connection], Awaitable[Result]]) -> Result:
        if self._closed:
            raise OutcomeStoreError(CLOSED)
        try:
            return await self._database.run(work)
        except DatabaseError as error:
            raise _translate_error(error) from error

    async def _write_batches(self) -> None:
        """Store what waits, batch by batch, until nothing does."""
        try:
            while self._waiting:
                # A batch has whole calls, and at least one.
                sizes = accumulate(len(call.outcomes) for call in self._waiting)
                count = max(1, sum(size <= BATCH for size in sizes))
                batch, self._waiting = self._waiting[:count], self._waiting[count:]
                await self._write(batch)
        finally:
            self._writer = None
            _fail(self._waiting, OutcomeStoreError(CLOSED))  # none, unless this task was cancelled

    async def _write(self, calls: Sequence[_Call]) -> None:
        outcomes = [outcome for call in calls for outcome in call.outcomes]
        try:
            stored = iter(await self._database.run(partial(_insert, outcomes=outcomes)))
        except DatabaseError as error:
            _fail(calls, _translate_error(error))
            return
        for call in calls:
            result = list(islice(stored, len(call.outcomes)))
            if not call.answer.done():  # its caller was cancelled
                call.answer.set_result(result)

    async def _remove_expired(self, connection: Connection) -> int:
        return int((await connection.execute(_CLEAN, (self._ttl_s, CLEANUP_BATCH_SIZE))).rowcount)


def _fail(calls: Sequence[_Call], error: OutcomeStoreError) -> None:
    for call in calls:
        if not call.answer.done():
            call.answer.set_exception(error)


async def _insert(connection: Connection, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Store each outcome unless its request has one, and return the stored ones."""
    rows = sorted(
        map(_make_row, outcomes), key=lambda row: row[0]
    )  # stable: of two outcomes of a request the first is stored
    columns = [list(column) for column in zip(*rows, strict=True)]
    keys = [(outcome.stage, outcome.request_id, outcome.tenant) for outcome in outcomes]
    for _ in range(_KEEP_ATTEMPTS):
        inserted = await (await connection.execute(_INSERT, columns, binary=True)).fetchall()
        if len(inserted) == len(outcomes):
            return list(outcomes)
        stored = [outcome for outcome in await _select(connection, keys) if outcome is not None]
        if len(stored) == len(outcomes):
            return stored
    raise DatabaseError("outcomes vanish from PostgreSQL while they are stored: is OUTCOME_TTL_DAYS too small?")


async def _select(connection: Connection, wanted: Sequence[tuple[RagStage, str, str]]) -> list[Outcome | None]:
    digests = [_digest(*key) for key in wanted]
    found = await connection.execute(_SELECT, (list(dict.fromkeys(digests)),), binary=True)
    rows = {bytes(digest): rest for digest, *rest in await found.fetchall()}
    return [_make_outcome(key, rows.get(digest)) for key, digest in zip(wanted, digests, strict=True)]


async def _fetch_page(connection: Connection, wanted: OutcomeFilter, last: tuple[Any, Any]) -> list[Any]:
    has_key = not (wanted.stage is None or wanted.request_id is None or wanted.tenant is None)
    fields = {
        **wanted._asdict(),
        "request_id": None if wanted.request_id is None else encode_id(wanted.request_id),
        "tenant": None if wanted.tenant is None else encode_id(wanted.tenant),
        "key": _digest(wanted.stage or "search", wanted.request_id or "", wanted.tenant or "") if has_key else None,
        "stored_at": last[0],
        "digest": last[1],
        "limit": SCAN_BATCH_SIZE,
    }
    return await (await connection.execute(_SCAN, fields)).fetchall()


def _make_outcome(key: tuple[RagStage, str, str], row: Sequence[Any] | None) -> Outcome | None:
    if row is None:
        return None
    (stage, request_id, tenant), (kind, body, request_sha256) = key, row
    return Outcome(
        stage=stage, request_id=request_id, kind=kind, body=bytes(body), request_sha256=request_sha256, tenant=tenant
    )


def _make_row(outcome: Outcome) -> tuple[bytes, str, bytes, bytes, str, bytes, str]:
    tenant, request_id = encode_id(outcome.tenant), encode_id(outcome.request_id)
    digest = _digest(outcome.stage, outcome.request_id, outcome.tenant)
    return digest, outcome.stage, tenant, request_id, outcome.kind, outcome.body, outcome.request_sha256


def _digest(stage: RagStage, request_id: str, tenant: str) -> bytes:
    """Return the key. The tenant's length is part of it, so that tenant and id cannot run into each other."""
    owner = encode_id(tenant)
    return sha256(b"%s %d %s%s" % (stage.encode(), len(owner), owner, encode_id(request_id))).digest()


def _translate_error(error: DatabaseError) -> OutcomeStoreError:
    return OutcomeStoreError(f"{error}; nothing is answered until it can be used", reason=error.reason)
