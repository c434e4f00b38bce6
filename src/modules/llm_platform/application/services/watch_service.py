"""Watch questions: what their owners may do with them, and their work in this process (docs/howto/watch-a-question.md)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from modules.llm_platform.application.services.research_job_service import ResearchJobService
from modules.llm_platform.application.services.research_service import ResearchService
from modules.llm_platform.application.services.watch_notices import WatchNotices
from modules.llm_platform.application.services.watch_worker import WatchWorker
from modules.llm_platform.domain.callers.api_key_label import api_key_label
from modules.llm_platform.domain.callers.list_cursor import parse_cursor, write_cursor
from modules.llm_platform.domain.callers.request_id import is_request_id, new_request_id
from modules.llm_platform.domain.concurrency.page_allowance import Charge
from modules.llm_platform.domain.dtos import watch_dtos as dtos
from modules.llm_platform.domain.dtos.report_dtos import ReportAmounts
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.dtos.request_type import require_request
from modules.llm_platform.domain.dtos.research_job_dtos import MAX_LISTED
from modules.llm_platform.domain.exceptions import (
    BackgroundError,
    PriceUnknownError,
    ResearchNotFoundError,
    WatchLimitError,
    WatchNotFoundError,
)
from modules.llm_platform.domain.ports.research_job_store import JobSelection
from modules.llm_platform.domain.ports.watch_store import IWatchStore, WatchSelection
from modules.llm_platform.domain.watches.schedule import is_due

Stored = TypeVar("Stored")

MAX_WATCHES: Final = 1000  # of one owner
MAX_RUNS_PER_DAY: Final = 100  # of one watch, after which its owner cannot ask for another one
SHOWN_RUNS: Final = 10  # runs of one watch that are shown with it
LOOK_S: Final = 0.5
DAY: Final = timedelta(days=1)
DAY_S: Final = 24 * 3600
NO_STORE: Final = "watched questions need the store, which is disabled: set STORE_TTL_DAYS to more than 0"
TOO_MANY: Final = f"a caller has at most {MAX_WATCHES} watches: remove one"
TOO_OFTEN: Final = f"a watch runs at most {MAX_RUNS_PER_DAY} times in 24 hours: wait for its next run"


class WatchService:
    """Watched questions. `owner` is the caller that added one: for any other caller its id does not exist.

    - `store` is None if nothing may be stored.
    - Nothing runs before `start` or `start_next_runs`. Any process that shares the store may run the watches.
    """

    def __init__(
        self,
        research: ResearchService,
        jobs: ResearchJobService,
        store: IWatchStore | None,
        notices: WatchNotices | None,
        worker: WatchWorker | None,
    ) -> None:
        self._research = research
        self._jobs = jobs
        self._store = store
        self._notices = notices
        self._worker = worker

    @property
    def is_available(self) -> bool:
        """True if questions can be watched."""
        return self._store is not None

    def start(
        self, only: WatchSelection | None = None, make_page_charge: Callable[[str], Charge] | None = None
    ) -> None:
        """Run due watches in this process, and deliver notices. A second call does nothing.

        - With `only`, this process runs and delivers only these watches. A server selects the callers that it knows.
        - `make_page_charge` returns the function that counts a run as a request of its caller; None means no limit.
        """
        if self._worker is not None:
            self._worker.start(only, make_page_charge)

    def start_next_runs(self, watches: Sequence[dtos.Watch], *, owner: str = "") -> None:
        """Run each of these watches once in this process, and no other watch or background run.

        Notices are delivered only by `finish_runs` and `deliver_notices`.
        """
        if self._worker is not None:
            runs = tuple(dtos.job_id_of_run(watch.id, watch.runs + 1) for watch in watches)
            self._worker.start(_select(watches, owner), runs=JobSelection(owner, runs))

    async def aclose(self) -> None:
        """Stop working. Any process continues with the unfinished runs."""
        if self._worker is not None:
            await self._worker.aclose()

    async def add(self, request: dtos.WatchRequest, *, owner: str = "") -> dtos.WatchDetail:
        """Watch a question. Its first run is due at once.

        Raises BackgroundError, WebhookError, PriceUnknownError, WatchLimitError, StoreError, and errors of settings that do
        not allow the question.
        """
        require_request(request, dtos.WatchRequest)
        if self._store is None or self._notices is None:
            raise BackgroundError(NO_STORE)
        asked = ResearchRequest.model_validate(
            request.model_dump(include={"query", "depth", "sources", "language"}, exclude_none=True)
        )
        is_only_urls = bool(request.urls) and request.sources is None
        amounts = self._estimate(asked, request.every_s, len(request.urls), is_only_urls=is_only_urls)
        if request.max_cost_usd is not None and amounts.run.cost_usd is None:
            raise PriceUnknownError
        self._research.check(asked)
        if request.webhook is not None:
            await self._notices.check(request.webhook)
        watch = dtos.NewWatch(
            id=new_request_id(),
            request=asked,
            every_s=request.every_s,
            urls=request.urls,
            is_only_urls=is_only_urls,
            owner=owner,
            label=api_key_label(),
            webhook=request.webhook,
            max_cost_usd=request.max_cost_usd,
        )
        added = await self._store.add(watch, MAX_WATCHES)
        if added is None:
            raise WatchLimitError(TOO_MANY)
        self._wake()
        return dtos.WatchDetail.model_validate({**dict(added), "at_most": amounts})

    async def get(self, watch_id: str, *, owner: str = "") -> dtos.WatchDetail:
        """Return a watch with its newest runs. Raises WatchNotFoundError."""
        store = self._find_store(watch_id)
        watch = _require_found(await store.get(owner, watch_id))
        runs = await store.runs(owner, watch_id, SHOWN_RUNS)
        asked = ResearchRequest(query=watch.query, depth=watch.depth, sources=watch.sources or ("web",))
        is_only_urls = watch.sources is None
        amounts = self._estimate(asked, watch.every_s, len(watch.urls), is_only_urls=is_only_urls)
        return dtos.WatchDetail.model_validate({**dict(watch), "at_most": amounts, "last_runs": runs})

    async def list(self, *, owner: str = "", limit: int = 20, before: str | None = None) -> dtos.WatchPage:
        """Return a page of the owner's watches, newest first.

        `before` is `next` of the page before, or an id. Raises BackgroundError, and WatchNotFoundError for the id of no watch.
        """
        if self._store is None:
            raise BackgroundError(NO_STORE)
        if before is not None:
            cursor = parse_cursor(before)
            store = self._find_store(cursor.id)
            if cursor.at is None:
                _require_found(await store.get(owner, cursor.id))
        limit = max(1, min(limit, MAX_LISTED))
        found = await self._store.page(owner, limit + 1, before)
        last = found[limit - 1] if len(found) > limit else None
        return dtos.WatchPage(watches=found[:limit], next=write_cursor(last.id, last.created_at) if last else None)

    async def list_changes(
        self, watch_id: str, *, owner: str = "", limit: int = 20, before: int | None = None
    ) -> dtos.ChangePage:
        """Return a page of the changes of a watch, newest first. Raises WatchNotFoundError."""
        store = self._find_store(watch_id)
        _require_found(await store.get(owner, watch_id))
        limit = max(1, min(limit, MAX_LISTED))
        found = await store.changes(owner, watch_id, limit + 1, before)
        return dtos.ChangePage(changes=found[:limit], next=found[limit - 1].number if len(found) > limit else None)

    async def run_now(self, watch_id: str, *, owner: str = "") -> dtos.WatchDetail:
        """Make a watch due now, and resume a paused one. Raises WatchNotFoundError and WatchLimitError."""
        store = self._find_store(watch_id)
        runs = await store.runs(owner, watch_id, MAX_RUNS_PER_DAY)
        if len(runs) == MAX_RUNS_PER_DAY and runs[-1].at > datetime.now(UTC) - DAY:
            raise WatchLimitError(TOO_OFTEN)
        _require_found(await store.run_now(owner, watch_id))
        self._wake()
        return await self.get(watch_id, owner=owner)

    async def remove(self, watch_id: str, *, owner: str = "") -> None:
        """Remove a watch with its runs, changes and notices, and stop its current run. Raises WatchNotFoundError."""
        store = self._find_store(watch_id)
        watch = _require_found(await store.get(owner, watch_id))
        _require_found(await store.remove(owner, watch_id))
        with suppress(ResearchNotFoundError):  # no run was asked for
            await self._jobs.cancel(dtos.job_id_of_run(watch_id, watch.runs + 1), owner=owner)

    async def finish_runs(
        self, watches: Sequence[dtos.Watch], *, owner: str = ""
    ) -> tuple[tuple[dtos.WatchDetail, dtos.ChangePage], ...]:
        """Wait until each of these watches has run once more and its notices were tried. Return the watches with their changes.

        A watch that is removed meanwhile is left out. A process that shares the store must have called `start` or
        `start_next_runs`.
        """
        finished: list[tuple[dtos.WatchDetail, dtos.ChangePage]] = []
        for watch in watches:
            if await self._wait_for_run(watch, owner):
                page = await self.list_changes(watch.id, owner=owner, limit=MAX_LISTED)
                new = tuple(change for change in page.changes if change.run > watch.runs)
                finished.append((await self.get(watch.id, owner=owner), dtos.ChangePage(changes=new)))
        if self._notices is not None and self._worker is not None:
            await self._notices.deliver_due(_select(watches, owner))
            await self._worker.wait_for_delivery()
        return tuple(finished)

    async def deliver_notices(self, *, owner: str = "") -> None:
        """Try the due notices of all watches of the owner once."""
        if self._notices is not None:
            await self._notices.deliver_due(WatchSelection((owner,)))

    async def _wait_for_run(self, watch: dtos.Watch, owner: str) -> bool:
        """Wait for the next run of a watch, which any process may make. Return False if the watch is removed."""
        store = self._find_store(watch.id)
        while (now := await store.get(owner, watch.id)) is not None:
            if now.runs > watch.runs:
                return True
            await asyncio.sleep(LOOK_S)
        return False

    async def list_due(self, *, owner: str = "") -> tuple[dtos.Watch, ...]:
        """Return the watches of the owner that are due or running."""
        due: list[dtos.Watch] = []
        before: str | None = None
        while True:
            page = await self.list(owner=owner, limit=MAX_LISTED, before=before)
            now = datetime.now(UTC).timestamp()
            due += [
                one
                for one in page.watches
                if one.next_at is not None and (one.is_running or is_due(one.next_at.timestamp(), one.every_s, now))
            ]
            if page.next is None:
                return tuple(due)
            before = page.next

    def _estimate(self, asked: ResearchRequest, every_s: int, urls: int, *, is_only_urls: bool) -> dtos.WatchAmounts:
        run = self._research.estimate(asked, searches_nothing=is_only_urls)
        again = urls if is_only_urls else urls + 2 * dtos.MAX_REREAD_PAGES  # before the search, and after the answer
        run = run.model_copy(update={"pages": run.pages + again})
        runs = math.ceil(dtos.BUDGET_DAYS * DAY_S / every_s)
        days_30 = ReportAmounts(
            searches=runs * run.searches,
            pages=runs * run.pages,
            llm_calls=runs * run.llm_calls,
            tokens=runs * run.tokens,
            cost_usd=None if run.cost_usd is None else runs * run.cost_usd,
        )
        return dtos.WatchAmounts(run=run, days_30=days_30)

    def _wake(self) -> None:
        if self._worker is not None:
            self._worker.wake()

    def _find_store(self, watch_id: str) -> IWatchStore:
        if self._store is None:
            raise BackgroundError(NO_STORE)
        if not is_request_id(watch_id):
            raise WatchNotFoundError
        return self._store


def _select(watches: Sequence[dtos.Watch], owner: str) -> WatchSelection:
    return WatchSelection((owner,), tuple(watch.id for watch in watches))


def _require_found(result: Stored | None) -> Stored:
    """Return the store's result. None and False mean that there is no such watch, and raise WatchNotFoundError."""
    if not result:
        raise WatchNotFoundError
    return result
