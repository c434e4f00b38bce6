"""Store watched questions with SQL that SQLite and PostgreSQL both understand. The driver fills in `:now` and `{skip}`."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from modules.llm_platform.domain.dtos import watch_dtos as dtos
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.ports.watch_store import IWatchStore, WatchLeaseLostError
from modules.llm_platform.infrastructure.stores.database.operations import (
    DAY_S,
    Operation,
    Row,
    SqlStore,
    Statement,
    operation,
)

CLOCK_STEP_S: Final = 5.0  # a clock may be set back by this much, and leases still count
_BUDGET_S: Final = dtos.BUDGET_DAYS * DAY_S
# A lease that ends later than it can was taken while the clock was wrong: it does not count.
_IS_LEASED: Final = f"lease_until > :now AND lease_until <= :now + :lease_s + {CLOCK_STEP_S}"
_COST: Final = (
    "(SELECT coalesce(sum(cost_usd), 0) FROM llm_platform.watch_run AS run "  # noqa: S608  constants
    f"WHERE run.watch = watch.number AND run.at > :now - {_BUDGET_S})"
)
_LAST_AT: Final = "(SELECT max(at) FROM llm_platform.watch_run AS run WHERE run.watch = watch.number)"
# The columns of `_watch`.
_WATCH: Final = (
    "id, request, every_s, created_at, paused_because, next_at, last_run, last_change, refusals, max_cost_usd, "
    f"{_COST}, {_LAST_AT}"
)
_NUMBER: Final = "(SELECT number FROM llm_platform.watch WHERE owner = :owner AND id = :id)"
_CLAIM: Final = f"""
UPDATE llm_platform.watch SET lease = :token, lease_until = :now + :lease_s
WHERE number = (
    SELECT number FROM llm_platform.watch WHERE paused_because IS NULL AND next_at <= :now AND NOT ({_IS_LEASED})
    ORDER BY next_at LIMIT 1 {{skip}}
)
RETURNING number, id, request, every_s, last_run + 1, asked, due_at, :now, owner, label, webhook, refusals, {_COST},
    max_cost_usd
"""  # noqa: S608  constants


class SqlWatchStore(IWatchStore, SqlStore):
    """Store of watched questions. Nothing of a watch is removed before the watch is."""

    @operation()
    def add(self, watch: dtos.NewWatch, max_watches: int) -> Operation[dtos.Watch | None]:
        key = {"owner": watch.owner, "id": watch.id}
        yield Statement(
            """
            INSERT INTO llm_platform.watch
                (owner, id, label, request, every_s, webhook, max_cost_usd, created_at, due_at, next_at)
            SELECT :owner, :id, :label, :request, :every_s, :webhook, :max_cost_usd, :now, :now, :now
            WHERE :max_watches > (SELECT count(*) FROM llm_platform.watch WHERE owner = :owner)
            ON CONFLICT (owner, id) DO NOTHING
            """,
            {
                **key,
                "label": watch.label,
                "request": watch.request.model_dump_json(exclude_defaults=True),
                "every_s": watch.every_s,
                "webhook": watch.webhook,
                "max_cost_usd": watch.max_cost_usd,
                "max_watches": max_watches,
            },
        )
        return (yield from _get(key))

    @operation(empty=None, is_read=True)
    def get(self, owner: str, watch_id: str) -> Operation[dtos.Watch | None]:
        return (yield from _get({"owner": owner, "id": watch_id}))

    @operation(empty=(), is_read=True)
    def page(self, owner: str, limit: int, before: str | None = None) -> Operation[tuple[dtos.Watch, ...]]:
        rows = yield Statement(
            f"""
            SELECT {_WATCH} FROM llm_platform.watch WHERE owner = :owner
            AND (CAST(:id AS text) IS NULL OR number < {_NUMBER}) ORDER BY number DESC LIMIT :limit
            """,  # noqa: S608  constants
            {"owner": owner, "id": before, "limit": limit},
        )
        return tuple(map(_watch, rows))

    @operation(empty=False)
    def remove(self, owner: str, watch_id: str) -> Operation[bool]:
        rows = yield Statement(
            "DELETE FROM llm_platform.watch WHERE owner = :owner AND id = :id RETURNING number",
            {"owner": owner, "id": watch_id},
        )
        for table in ("watch_run", "watch_change", "watch_reading") if rows else ():
            yield Statement(f"DELETE FROM llm_platform.{table} WHERE watch = :number", {"number": rows[0][0]})  # noqa: S608
        return bool(rows)

    @operation(empty=False)
    def run_now(self, owner: str, watch_id: str) -> Operation[bool]:
        rows = yield Statement(
            """
            UPDATE llm_platform.watch SET paused_because = NULL, refusals = 0, next_at = :now,
                due_at = CASE WHEN asked THEN due_at ELSE :now END
            WHERE owner = :owner AND id = :id RETURNING number
            """,
            {"owner": owner, "id": watch_id},
        )
        return bool(rows)

    @operation(empty=(), is_read=True)
    def runs(
        self, owner: str, watch_id: str, limit: int, before: int | None = None
    ) -> Operation[tuple[dtos.WatchRun, ...]]:
        rows = yield _page_of("watch_run", "data, at", owner, watch_id, limit, before)
        return tuple(dtos.WatchRun.model_validate_json(data).model_copy(update={"at": _time(at)}) for data, at in rows)

    @operation(empty=(), is_read=True)
    def changes(
        self, owner: str, watch_id: str, limit: int, before: int | None = None
    ) -> Operation[tuple[dtos.FoundChange, ...]]:
        rows = yield _page_of("watch_change", "number, run, at, data", owner, watch_id, limit, before)
        return tuple(
            dtos.FoundChange(number=number, run=run, at=_time(at), change=dtos.WatchChange.model_validate_json(data))
            for number, run, at, data in rows
        )

    @operation(empty=None)
    def claim(self, token: str, lease_s: float) -> Operation[dtos.ClaimedWatch | None]:
        rows = yield Statement(_CLAIM, {"token": token, "lease_s": lease_s})
        if not rows:
            return None
        [(number, watch_id, request, every_s, run, asked, *rest)] = rows
        asks = ResearchRequest.model_validate_json(request)
        return dtos.ClaimedWatch(number, token, watch_id, asks, every_s, run, bool(asked), *rest)

    @operation()
    def wait(self, watch: dtos.ClaimedWatch, in_s: float) -> Operation[None]:
        yield from _give_up_lease(watch, "asked = true, next_at = :now + :in_s", in_s=in_s)

    @operation(empty=None)
    def reading(self, watch: dtos.ClaimedWatch) -> Operation[dtos.WatchReading | None]:
        rows = yield Statement(
            "SELECT data FROM llm_platform.watch_reading WHERE watch = :number", {"number": watch.number}
        )
        return dtos.WatchReading.model_validate_json(rows[0][0]) if rows else None

    @operation()
    def finish(
        self,
        watch: dtos.ClaimedWatch,
        run: dtos.WatchRun,
        changes: Sequence[dtos.WatchChange],
        reading: dtos.WatchReading | None,
        following: dtos.NextRun,
    ) -> Operation[None]:
        last = yield from _give_up_lease(
            watch,
            "asked = false, last_run = :run, last_change = last_change + :found, refusals = :refusals, "
            "paused_because = :paused_because, due_at = :now + :in_s, next_at = :now + :in_s",
            run=run.number,
            found=len(changes),
            refusals=following.refusals,
            paused_because=following.paused_because,
            in_s=following.in_s,
        )
        key = {"watch": watch.number, "run": run.number}
        yield Statement(
            "INSERT INTO llm_platform.watch_run (watch, number, at, cost_usd, data) VALUES (:watch, :run, :now, :cost, :data)",
            {**key, "cost": run.cost_usd, "data": run.model_dump_json()},
        )
        for number, change in enumerate(changes, last - len(changes) + 1):
            yield Statement(
                "INSERT INTO llm_platform.watch_change (watch, number, run, at, data) "
                "VALUES (:watch, :number, :run, :now, :data)",
                {**key, "number": number, "data": change.model_dump_json()},
            )
        if reading is not None:
            yield Statement(
                "INSERT INTO llm_platform.watch_reading (watch, data) VALUES (:watch, :data) "
                "ON CONFLICT (watch) DO UPDATE SET data = excluded.data",
                {"watch": watch.number, "data": reading.model_dump_json()},
            )


def _get(key: dict[str, str]) -> Operation[dtos.Watch | None]:
    rows = yield Statement(f"SELECT {_WATCH} FROM llm_platform.watch WHERE owner = :owner AND id = :id", key)  # noqa: S608
    return _watch(rows[0]) if rows else None


def _page_of(table: str, columns: str, owner: str, watch_id: str, limit: int, before: int | None) -> Statement:
    return Statement(
        f"""
        SELECT {columns} FROM llm_platform.{table} WHERE watch = {_NUMBER}
        AND (CAST(:before AS bigint) IS NULL OR number < :before) ORDER BY number DESC LIMIT :limit
        """,  # noqa: S608  constants
        {"owner": owner, "id": watch_id, "limit": limit, "before": before},
    )


def _give_up_lease(watch: dtos.ClaimedWatch, changes: str, **parameters: Any) -> Operation[int]:
    """Update a watch of this worker, and return the number of its last change.

    Raises WatchLeaseLostError if the worker no longer has the lease, which rolls back the whole operation.
    """
    rows = yield Statement(
        f"""
        UPDATE llm_platform.watch SET {changes}, lease = NULL, lease_until = 0
        WHERE number = :number AND lease = :token RETURNING last_change
        """,  # noqa: S608  constants
        {"number": watch.number, "token": watch.token, **parameters},
    )
    if not rows:
        raise WatchLeaseLostError
    return int(rows[0][0])


def _watch(row: Row) -> dtos.Watch:
    (watch_id, request, every_s, created_at, paused, next_at, runs, changes, refusals, max_cost, cost, last_at) = row
    asked = json.loads(request)
    return dtos.Watch(
        id=watch_id,
        query=asked["query"],
        depth=asked.get("depth", "shallow"),
        every_s=every_s,
        created_at=_time(created_at),
        state="active" if paused is None else "paused",
        paused_because=paused,
        next_at=_time(next_at) if paused is None else None,
        last_run_at=None if last_at is None else _time(last_at),
        runs=runs,
        changes=changes,
        refusals=refusals,
        cost_usd=cost,
        max_cost_usd=max_cost,
    )


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
