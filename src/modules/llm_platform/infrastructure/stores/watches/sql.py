"""Store watched questions with SQL that SQLite and PostgreSQL both understand. The driver fills in `:now` and `{skip}`."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from modules.llm_platform.domain.dtos import watch_dtos as dtos
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.exceptions import StoreError
from modules.llm_platform.domain.ports.watch_store import (
    KEPT_FACTS,
    IWatchStore,
    NoticeUnreadableError,
    WatchLeaseLostError,
    WatchSelection,
    WatchUnreadableError,
)
from modules.llm_platform.domain.watches.schedule import CLOCK_STEP_S
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

LONGEST_DELAY_S: Final = 2.0 * DAY_S  # more than the longest wait for a retry of a notice, 29 hours
DAMAGED: Final = "a run or change of this watch cannot be read: the store is damaged; restore it, or remove the watch"
UNREADABLE: Final = "(This question cannot be read.)"  # a newer program stored it, or the file is damaged
_BUDGET_S: Final = dtos.BUDGET_DAYS * DAY_S
# A lease that ends later than it can was taken while the clock was wrong: it does not count.
_IS_LEASED: Final = f"lease_until > :now AND lease_until <= :now + :lease_s + {CLOCK_STEP_S}"
_RUN: Final = "FROM llm_platform.watch_run AS run WHERE run.watch = watch.number"
_LAST: Final = f"{_RUN} AND run.number = watch.last_run"
_COST: Final = (
    f"(coalesce((SELECT total_usd {_LAST}), 0) - coalesce((SELECT total_usd {_RUN} "
    f"AND run.at <= :now - {_BUDGET_S} ORDER BY run.at DESC, run.number DESC LIMIT 1), 0))"
)
_LAST_AT: Final = f"(SELECT at {_LAST})"
_UNDELIVERED: Final = (
    "(SELECT count(*) FROM llm_platform.watch_notice AS notice "
    "WHERE notice.watch = watch.number AND status <> 'delivered' AND attempts > 0)"
)
# The columns of `_watch`.
_WATCH: Final = (
    "id, request, urls, is_only_urls, every_s, created_at, paused_because, problem, asked, next_at, last_run, last_change, "
    f"refusals, max_cost_usd, {_COST}, {_LAST_AT}, {_UNDELIVERED}"
)
_NUMBER: Final = "(SELECT number FROM llm_platform.watch WHERE owner = :owner AND id = :id)"
_AFTER_WATCH: Final = CONTINUE_AFTER.format(
    entry="SELECT number FROM llm_platform.watch WHERE owner = :owner AND id = :before",
    not_older="SELECT min(number) FROM llm_platform.watch WHERE owner = :owner",
)
_CLAIM: Final = f"""
UPDATE llm_platform.watch SET lease = :token, lease_until = :now + :lease_s
WHERE number = (
    SELECT number FROM llm_platform.watch WHERE paused_because IS NULL AND NOT ({_IS_LEASED})
    AND (next_at <= :now OR next_at > :now + every_s + {CLOCK_STEP_S}){{only}}
    ORDER BY next_at LIMIT 1 {{skip}}
)
RETURNING number, id, request, urls, every_s, last_run + 1, asked, created_at, :now, is_only_urls, owner, label, webhook,
    refusals, {_COST}, max_cost_usd
"""  # noqa: S608  constants
_CLAIM_NOTICE: Final = f"""
UPDATE llm_platform.watch_notice SET attempts = attempts + 1, due_at = :now + :lease_s
WHERE number = (
    SELECT number FROM llm_platform.watch_notice
    WHERE status = 'pending' AND (due_at <= :now OR due_at > :now + {LONGEST_DELAY_S}) AND channel IN ({{channels}}){{only}}
    ORDER BY attempts, due_at LIMIT 1 {{skip}}
)
RETURNING number, channel, attempts, watch, run
"""  # noqa: S608  constants
_CHANGE: Final = "number, run, at, data"  # the columns of `_read_change`


class SqlWatchStore(IWatchStore, SqlStore):
    """Store of watched questions. Nothing of a watch is removed before the watch is."""

    @operation()
    def add(self, watch: dtos.NewWatch, max_watches: int) -> Operation[dtos.Watch | None]:
        return (yield from insert_watch(watch, max_watches))

    @operation(empty=None, is_read=True)
    def get(self, owner: str, watch_id: str) -> Operation[dtos.Watch | None]:
        return (yield from _get({"owner": owner, "id": watch_id}))

    @operation(empty=(), is_read=True)
    def page(self, owner: str, limit: int, before: str | None = None) -> Operation[tuple[dtos.Watch, ...]]:
        rows = yield Statement(
            f"""
            SELECT {_WATCH} FROM llm_platform.watch WHERE owner = :owner
            AND (CAST(:before AS text) IS NULL OR number < {_AFTER_WATCH}) ORDER BY number DESC LIMIT :limit
            """,  # noqa: S608  constants
            {"owner": owner, "limit": limit, **make_position(before)},
        )
        return tuple(map(_watch, rows))

    @operation(empty=False)
    def remove(self, owner: str, watch_id: str) -> Operation[bool]:
        rows = yield Statement(
            "DELETE FROM llm_platform.watch WHERE owner = :owner AND id = :id RETURNING number",
            {"owner": owner, "id": watch_id},
        )
        for table in ("watch_run", "watch_change", "watch_notice", "watch_reading") if rows else ():
            yield Statement(f"DELETE FROM llm_platform.{table} WHERE watch = :number", {"number": rows[0][0]})  # noqa: S608
        return bool(rows)

    @operation(empty=False)
    def run_now(self, owner: str, watch_id: str) -> Operation[bool]:
        rows = yield Statement(
            """
            UPDATE llm_platform.watch SET paused_because = NULL, refusals = 0, next_at = :now
            WHERE owner = :owner AND id = :id RETURNING number
            """,
            {"owner": owner, "id": watch_id},
        )
        return bool(rows)

    @operation(empty=(), is_read=True)
    def runs(
        self, owner: str, watch_id: str, limit: int, before: int | None = None
    ) -> Operation[tuple[dtos.WatchRun, ...]]:
        rows = yield _select_page("watch_run", "data, at", owner, watch_id, limit, before)
        with _readable():
            return tuple(
                dtos.WatchRun.model_validate_json(data).model_copy(update={"at": _read_time(at)}) for data, at in rows
            )

    @operation(empty=(), is_read=True)
    def changes(
        self, owner: str, watch_id: str, limit: int, before: int | None = None
    ) -> Operation[tuple[dtos.FoundChange, ...]]:
        rows = yield _select_page("watch_change", _CHANGE, owner, watch_id, limit, before)
        with _readable():
            return tuple(map(_read_change, rows))

    async def claim(self, token: str, lease_s: float, only: WatchSelection | None = None) -> dtos.ClaimedWatch | None:
        row = await self._claim(token, lease_s, only)
        return None if row is None else _build_claimed_watch(token, row)

    @operation(empty=None)
    def _claim(self, token: str, lease_s: float, only: WatchSelection | None) -> Operation[Row | None]:
        condition, parameters = _build_condition(only)
        sql = _CLAIM.replace("{only}", f" AND {condition}")
        rows = yield Statement(sql, {"token": token, "lease_s": lease_s, **parameters})
        return rows[0] if rows else None

    @operation()
    def wait(self, watch: dtos.ClaimedWatch, delay_s: float, *, is_asked: bool = True) -> Operation[None]:
        yield from _give_up_lease(
            watch, "asked = :is_asked, next_at = :now + :delay_s", is_asked=is_asked, delay_s=delay_s
        )

    @operation(empty=None)
    def get_reading(self, watch: dtos.ClaimedWatch) -> Operation[dtos.WatchReading | None]:
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
        notices: Sequence[dtos.NoticeChannel] = (),
    ) -> Operation[None]:
        last = yield from _give_up_lease(
            watch,
            "asked = false, last_run = :run, last_change = last_change + :found, refusals = :refusals, "
            "paused_because = :paused_because, problem = :problem, next_at = :now + :delay_s",
            run=run.number,
            found=len(changes),
            refusals=following.refusals,
            paused_because=following.paused_because,
            problem=run.problem,
            delay_s=following.delay_s,
        )
        key = {"watch": watch.number, "run": run.number}
        yield Statement(
            """
            INSERT INTO llm_platform.watch_run (watch, number, at, cost_usd, total_usd, data)
            VALUES (:watch, :run, :now, :cost, :cost + coalesce((
                SELECT total_usd FROM llm_platform.watch_run WHERE watch = :watch AND number = :before
            ), 0), :data)
            """,
            {**key, "before": run.number - 1, "cost": run.cost_usd, "data": run.model_dump_json()},
        )
        yield from _drop_facts(watch.number, run.number - KEPT_FACTS)
        for number, change in enumerate(changes, last - len(changes) + 1):
            yield Statement(
                "INSERT INTO llm_platform.watch_change (watch, number, run, at, data) "
                "VALUES (:watch, :number, :run, :now, :data)",
                {**key, "number": number, "data": change.model_dump_json()},
            )
        for channel in notices:
            yield Statement(
                "INSERT INTO llm_platform.watch_notice (watch, run, channel, due_at) VALUES (:watch, :run, :channel, :now)",
                {**key, "channel": channel},
            )
        if reading is not None:
            yield Statement(
                "INSERT INTO llm_platform.watch_reading (watch, data) VALUES (:watch, :data) "
                "ON CONFLICT (watch) DO UPDATE SET data = excluded.data",
                {"watch": watch.number, "data": reading.model_dump_json()},
            )

    async def claim_notice(
        self, lease_s: float, channels: Collection[dtos.NoticeChannel], only: WatchSelection | None = None
    ) -> dtos.WatchNotice | None:
        found = await self._claim_notice(lease_s, channels, only)
        if found is None:
            return None
        (number, channel, attempt, _, run), (url, *row), changes = found
        notice = dtos.WatchNotice(number, channel, attempt, _watch(row), run, (), url)
        try:
            return replace(notice, changes=tuple(map(_read_change, changes)))
        except ValueError as error:
            raise NoticeUnreadableError(notice) from error

    @operation(empty=None)
    def _claim_notice(
        self, lease_s: float, channels: Collection[str], only: WatchSelection | None
    ) -> Operation[tuple[Row, Row, Sequence[Row]] | None]:
        marks, parameters = list_marks("channel", channels)
        condition, selected = _build_condition(only)
        of_watches = f" AND watch IN (SELECT number FROM llm_platform.watch WHERE {condition})" if only else ""  # noqa: S608
        sql = _CLAIM_NOTICE.replace("{channels}", marks).replace("{only}", of_watches)
        rows = yield Statement(sql, {"lease_s": lease_s, **parameters, **selected})
        if not rows:
            return None
        [(*_, watch, run)] = rows
        [row] = yield Statement(
            f"SELECT webhook, {_WATCH} FROM llm_platform.watch WHERE number = :watch",  # noqa: S608
            {"watch": watch},
        )
        changes = yield Statement(
            f"SELECT {_CHANGE} FROM llm_platform.watch_change WHERE watch = :watch AND run = :run ORDER BY number",  # noqa: S608
            {"watch": watch, "run": run},
        )
        return rows[0], row, changes

    @operation()
    def settle_notice(
        self, notice: dtos.WatchNotice, status: dtos.NoticeStatus, retry_in_s: float = 0.0
    ) -> Operation[None]:
        yield Statement(
            "UPDATE llm_platform.watch_notice SET status = :status, due_at = :now + :retry_in_s "
            "WHERE number = :number AND attempts = :attempt",
            {"number": notice.number, "attempt": notice.attempt, "status": status, "retry_in_s": retry_in_s},
        )

    @operation(empty=(0, 0), is_read=True)
    def _count(self, only: WatchSelection | None) -> Operation[tuple[int, int]]:
        condition, parameters = _build_condition(only)
        sql = f"SELECT count(*), count(paused_because) FROM llm_platform.watch WHERE {condition}"  # noqa: S608  constants
        [(watches, paused)] = yield Statement(sql, parameters)
        return watches, paused

    async def count(self, only: WatchSelection | None = None) -> Mapping[dtos.WatchState, int]:
        watches, paused = await self._count(only)
        return {"active": watches - paused, "paused": paused}


def insert_watch(watch: dtos.NewWatch, max_watches: int) -> Operation[dtos.Watch | None]:
    """Add a watch unless its owner has `max_watches`, and return it, or the stored watch with its id."""
    key = {"owner": watch.owner, "id": watch.id}
    yield Statement(
        """
        INSERT INTO llm_platform.watch
            (owner, id, label, request, urls, is_only_urls, every_s, webhook, max_cost_usd, created_at, next_at)
        SELECT :owner, :id, :label, :request, :urls, :is_only_urls, :every_s, :webhook, :max_cost_usd, :now, :now
        WHERE :max_watches > (SELECT count(*) FROM llm_platform.watch WHERE owner = :owner)
        ON CONFLICT (owner, id) DO NOTHING
        """,
        {
            **key,
            "label": watch.label,
            "request": watch.request.model_dump_json(exclude_defaults=True),
            "urls": json.dumps(watch.urls),
            "is_only_urls": watch.is_only_urls,
            "every_s": watch.every_s,
            "webhook": watch.webhook,
            "max_cost_usd": watch.max_cost_usd,
            "max_watches": max_watches,
        },
    )
    return (yield from _get(key))


def _get(key: dict[str, str]) -> Operation[dtos.Watch | None]:
    rows = yield Statement(f"SELECT {_WATCH} FROM llm_platform.watch WHERE owner = :owner AND id = :id", key)  # noqa: S608
    return _watch(rows[0]) if rows else None


@contextmanager
def _readable() -> Iterator[None]:
    """Raise StoreError if the block cannot read an entry. A list that left it out would suggest that it never existed."""
    try:
        yield
    except ValueError as error:
        raise StoreError(DAMAGED) from error


def _build_condition(only: WatchSelection | None) -> tuple[str, dict[str, Any]]:
    """Return the condition that selects these watches, and its parameters."""
    if only is None:
        return "true", {}
    owners, parameters = list_marks("owner", only.owners)
    if only.ids is None:
        return f"owner IN ({owners})", parameters
    ids, named = list_marks("id", only.ids)
    return f"owner IN ({owners}) AND id IN ({ids})", {**parameters, **named}


def _build_claimed_watch(token: str, row: Row) -> dtos.ClaimedWatch:
    """Return the watch of a row of _CLAIM. Raises WatchUnreadableError."""
    number, watch_id, request, urls, every_s, run, asked, created_at, now, is_only_urls, *rest = row
    asks, pages = _read_request(request), _read_urls(urls)
    watch = dtos.ClaimedWatch(
        number,
        token,
        watch_id,
        asks or _no_request(),
        every_s,
        run,
        bool(asked),
        created_at,
        now,
        pages or (),
        bool(is_only_urls),
        *rest,
    )
    if asks is None or pages is None:
        raise WatchUnreadableError(watch)
    return watch


def _read_request(data: str) -> ResearchRequest | None:
    try:
        return ResearchRequest.model_validate_json(data)
    except ValueError:
        return None


def _no_request() -> ResearchRequest:
    return ResearchRequest(query=UNREADABLE)


def _read_urls(data: str) -> tuple[str, ...] | None:
    try:
        urls = json.loads(data)
    except ValueError:
        return None
    return tuple(urls) if isinstance(urls, list) and all(isinstance(url, str) for url in urls) else None


def _drop_facts(watch: int, run: int) -> Operation[None]:
    """Remove the facts of a run."""
    key = {"watch": watch, "run": run}
    rows = yield Statement("SELECT data FROM llm_platform.watch_run WHERE watch = :watch AND number = :run", key)
    for (data,) in rows:
        yield Statement(
            "UPDATE llm_platform.watch_run SET data = :data WHERE watch = :watch AND number = :run",
            {**key, "data": json.dumps({**json.loads(data), "facts": []})},
        )


def _select_page(table: str, columns: str, owner: str, watch_id: str, limit: int, before: int | None) -> Statement:
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


def _read_change(row: Row) -> dtos.FoundChange:
    number, run, at, data = row
    change = dtos.WatchChange.model_validate_json(data)
    return dtos.FoundChange(number=number, run=run, at=_read_time(at), **dict(change))


def _watch(row: Row) -> dtos.Watch:
    watch_id, request, urls, is_only_urls, every_s, created_at, paused, problem, asked_now, next_at, *numbers = row
    runs, changes, refusals, max_cost, cost, last_at, undelivered = numbers
    asked = _read_request(request) or _no_request()
    return dtos.Watch(
        id=watch_id,
        query=asked.query,
        depth=asked.depth,
        every_s=every_s,
        created_at=_read_time(created_at),
        sources=None if is_only_urls else asked.sources,
        urls=_read_urls(urls) or (),
        language=asked.language,
        state="active" if paused is None else "paused",
        paused_because=paused,
        problem=problem,
        is_running=bool(asked_now),
        next_at=_read_time(next_at) if paused is None else None,
        last_run_at=None if last_at is None else _read_time(last_at),
        runs=runs,
        changes=changes,
        refusals=refusals,
        undelivered=undelivered,
        cost_usd=cost,
        max_cost_usd=max_cost,
    )


def _read_time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
