"""Watched questions over real HTTP on the wired platform: a changing page, documents, notices, budgets and pauses."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.support.loopback_upstream import Loopback, serving
from tests.support.watched_page import CHANGED, COSMETIC, FIRST, NEW_TOLL, QUESTION, SECRET, TOLL, World

from modules.llm_platform import IWebSearchProvider, WebSearchRequest, WebSearchResponse, WebSearchResultItem
from modules.llm_platform.application.platform import LLMPlatform
from modules.llm_platform.application.services import watch_service, watch_worker
from modules.llm_platform.container import build_platform
from modules.llm_platform.domain.dtos.watch_dtos import FoundChange, WatchDetail, WatchRequest
from modules.llm_platform.domain.exceptions import (
    BackgroundError,
    PriceUnknownError,
    WatchLimitError,
    WatchNotFoundError,
    WebSearchConnectionError,
)
from modules.llm_platform.domain.search.fresh_searches import searches_afresh
from modules.llm_platform.infrastructure.documents import folder_index
from modules.llm_platform.presentation.rest.app import create_app
from shared.config import Settings

DAY = 86_400


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Poll runs often, so that a test takes no longer than its runs."""
    monkeypatch.setattr(watch_worker, "FIRST_LOOK_S", 0.05)
    monkeypatch.setattr(watch_worker, "LAST_LOOK_S", 0.05)
    monkeypatch.setattr(watch_worker, "BUSY_POLL_S", 0.05)
    monkeypatch.setattr(watch_worker, "POLL_S", 0.05)
    monkeypatch.setattr(watch_service, "LOOK_S", 0.05)


class BridgeSearch(IWebSearchProvider):
    """Finds the page of the bridge or nothing, or fails."""

    name = "found"

    def __init__(self, host: Loopback) -> None:
        self._url = f"{host.url}/bridge"
        self.finds = self.fails = False
        self.asked = 0
        self.are_fresh = set[bool]()

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        self.asked += 1
        self.are_fresh.add(searches_afresh())
        if self.fails:
            raise WebSearchConnectionError
        item = WebSearchResultItem(title="Harbour bridge", url=self._url, snippet="The harbour bridge and its toll.")
        return WebSearchResponse(query=request.query, results=(item,) if self.finds else (), provider="found")


class Watching:
    """A platform with one watched question."""

    def __init__(self, platform: LLMPlatform, host: Loopback, search: BridgeSearch) -> None:
        self.watches = platform.watches
        self.jobs = platform.research_jobs
        self.host, self.search = host, search
        self.watch: WatchDetail | None = None

    @property
    def page(self) -> str:
        return f"{self.host.url}/bridge"

    async def add(self, **fields: Any) -> None:
        request = {"query": QUESTION, "every_s": DAY, **fields}
        self.watch = await self.watches.add(WatchRequest.model_validate(request))
        self.watches.start()

    async def run(self) -> tuple[FoundChange, ...]:
        """Run the watch once and return its changes."""
        assert self.watch is not None
        if self.watch.runs:
            await self.watches.run_now(self.watch.id)
        return await self.wait()

    async def wait(self) -> tuple[FoundChange, ...]:
        """Wait for the next run and return its changes."""
        assert self.watch is not None
        [(self.watch, page)] = await self.watches.finish_runs([self.watch])
        return page.changes


@asynccontextmanager
async def watching(tmp_path: Path, world: World, **settings: Any) -> AsyncIterator[Watching]:
    async with serving(world.handle) as host:
        address = host.url.removeprefix("http://")
        own = Settings(
            _env_file=None,
            **{
                "LLM_PLATFORM_DATA_DIR": str(tmp_path / "data"),
                "READER_ALLOWED_HOSTS": address,
                "READERS": "direct",
                "READ_PAGES": 3,  # pages of answers are cached
                "WEBHOOK_ALLOWED_HOSTS": address,
                "WEBHOOK_SECRET": SECRET,
                **settings,
            },
        )
        search = BridgeSearch(host)
        overrides = {} if "SEARCH_PROVIDERS" in settings else {IWebSearchProvider: search}
        async with build_platform(own, overrides) as platform:
            yield Watching(platform, host, search)


def make_due(tmp_path: Path) -> None:
    """Make the next run due now."""
    with closing(sqlite3.connect(tmp_path / "data" / "watches.sqlite3", timeout=60)) as connection, connection:
        assert connection.execute("UPDATE watch SET next_at = created_at - 1e6").rowcount == 1


async def test_ten_cosmetic_changes_are_silent_and_one_real_change_is_told(tmp_path: Path) -> None:
    """The webhook gets both quotes of a real change. The first run and cosmetic changes send nothing."""
    world = World()
    async with watching(tmp_path, world) as watching_it:
        await watching_it.add(urls=(watching_it.page,), webhook=f"{watching_it.host.url}/hook")
        assert await watching_it.run() == ()
        for number, html in enumerate(COSMETIC, 1):
            world.html = html
            assert await watching_it.run() == (), number
            assert world.told == [], number
        world.html = CHANGED
        [change] = await watching_it.run()
        assert (change.kind, change.was and change.was.quote, change.now and change.now.quote) == (
            "changed",
            TOLL,
            NEW_TOLL,
        )
        assert (change.was and change.was.value, change.now and change.now.value) == ("12", "14")
        [told] = world.told
        assert told["type"] == "watch.changed"
        assert told["data"]["changes"][0]["now"]["quote"] == NEW_TOLL
        assert watching_it.search.asked == 0
        assert await watching_it.run() == ()
        assert len(world.told) == 1
        runs = await watching_it.jobs.list(limit=100)
        assert [job.status for job in runs.researches] == ["done"] * 13


async def test_known_pages_are_read_again_though_no_search_finds_them(tmp_path: Path) -> None:
    """The same pages are read again, past the caches, even if no search finds them.

    A failed search does not fail the run.
    """
    world = World()
    async with watching(tmp_path, world) as watching_it:
        watching_it.search.finds = True
        await watching_it.add()
        assert await watching_it.run() == ()
        world.html, watching_it.search.finds = CHANGED, False
        [change] = await watching_it.run()
        assert change.now is not None
        assert (change.kind, change.now.quote) == ("changed", NEW_TOLL)
        assert watching_it.search.are_fresh == {True}
        world.html, watching_it.search.fails = FIRST, True
        [change] = await watching_it.run()
        assert change.now is not None
        assert change.now.quote == TOLL


async def test_three_failed_runs_pause_a_watch_and_say_so(tmp_path: Path) -> None:
    """The owner is notified once with the reason and the remedy.

    A manual run resumes the watch and compares with the last good run.
    """
    world = World()
    async with watching(tmp_path, world) as watching_it:
        await watching_it.add(urls=(watching_it.page,), webhook=f"{watching_it.host.url}/hook")
        await watching_it.run()
        world.html = None
        for _ in range(3):
            assert world.told == []
            make_due(tmp_path)
            await watching_it.wait()
        watch = watching_it.watch
        assert watch is not None
        assert (watch.state, watch.paused_because, watch.refusals) == ("paused", "refused", 3)
        assert watch.problem
        [told] = world.told
        assert told["type"] == "watch.paused"
        assert told["data"]["problem"] == watch.problem
        assert "run the watch to resume it" in told["data"]["remedy"]
        world.html = CHANGED
        [change] = await watching_it.run()
        assert change.was is not None
        assert change.was.quote == TOLL
        assert (watching_it.watch and watching_it.watch.state) == "active"


async def test_documents_are_watched_like_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A document is read completely, because its search excerpt may differ between runs.

    The folder is listed for each run, even if that is slow, so other searches use a recent listing.
    """
    monkeypatch.setattr(folder_index, "CHECK_ALWAYS_S", 0.0)
    monkeypatch.setattr(folder_index, "CHECK_AGAIN_S", float(DAY))
    monkeypatch.setattr(folder_index, "LISTING_SHARE", float("inf"))
    folder, filler = (
        tmp_path / "documents",
        "\n\n".join(f"Note {n} of the port is about berth {n}." for n in range(400)),
    )
    folder.mkdir()
    (folder / "bridge.md").write_text(f"# Harbour bridge\n\n{TOLL}\n\n{filler}\n")
    settings = {"DOCUMENTS_DIR": str(folder), "SEARCH_PROVIDERS": "documents", "LLM_PLATFORM_OFFLINE": True}
    async with watching(tmp_path, World(), **settings) as watching_it:
        await watching_it.add(sources=("documents",))
        assert await watching_it.run() == ()
        (folder / "bridge.md").write_text(f"# Harbour bridge\n\n{filler}\n\n{TOLL}\n")
        assert await watching_it.run() == ()
        (folder / "bridge.md").write_text(f"# Harbour bridge\n\n{filler}\n\n{NEW_TOLL}\n")
        [change] = await watching_it.run()
        assert change.now is not None
        assert (change.kind, change.now.quote, change.now.source) == ("changed", NEW_TOLL, "doc:bridge.md")


def serve_documents(tmp_path: Path, **values: Any) -> Settings:
    """Return the settings of a server with a document about the bridge."""
    (tmp_path / "documents").mkdir(exist_ok=True)
    (tmp_path / "documents" / "bridge.md").write_text(f"# Harbour bridge\n\n{TOLL}\n")
    own = {"DOCUMENTS_DIR": tmp_path / "documents", "SEARCH_PROVIDERS": "documents", "LLM_PLATFORM_OFFLINE": True}
    return Settings(_env_file=None, LLM_PLATFORM_DATA_DIR=tmp_path / "data", **own, **values)


@asynccontextmanager
async def serving_watches(settings: Settings) -> AsyncIterator[LLMPlatform]:
    """Run a server and yield its platform."""
    async with build_platform(settings) as platform:
        app = create_app(platform, settings)
        async with app.router.lifespan_context(app):
            yield platform


async def test_a_server_runs_no_watch_whose_api_key_was_removed(tmp_path: Path) -> None:
    """A watch whose API key was removed is suspended, and continues when the key is back."""
    request = WatchRequest(query=QUESTION, every_s=DAY, sources=("documents",))
    key, gone = "alice:the-long-random-key-of-alice", "gone:the-long-random-key-of-gone"
    async with serving_watches(serve_documents(tmp_path, LLM_PLATFORM_API_KEYS=key)) as platform:
        removed = await platform.watches.add(request, owner="label:gone")
        kept = await platform.watches.add(request, owner="label:alice")
        await platform.watches.finish_runs([kept], owner="label:alice")
        removed = await platform.watches.get(removed.id, owner="label:gone")
        assert (removed.runs, removed.is_running, removed.state) == (0, False, "active")
    async with serving_watches(serve_documents(tmp_path, LLM_PLATFORM_API_KEYS=f"{key},{gone}")) as platform:
        [(watch, _)] = await platform.watches.finish_runs([removed], owner="label:gone")
        assert watch.runs == 1


async def test_a_run_counts_for_the_rate_limit_of_its_key(tmp_path: Path) -> None:
    """A run that exceeds the rate limit of its key is postponed."""
    request = WatchRequest(query=QUESTION, every_s=DAY, sources=("documents",))
    limits = {
        "RATE_LIMIT_PER_MINUTE": 1,
        "RATE_LIMIT_BURST": 1,
        "LLM_PLATFORM_API_KEYS": "alice:the-long-random-key-of-alice",
    }
    async with serving_watches(serve_documents(tmp_path, **limits)) as platform:
        first = await platform.watches.add(request, owner="label:alice")
        await platform.watches.finish_runs([first], owner="label:alice")
        second = await platform.watches.add(request, owner="label:alice")
        async with asyncio.timeout(60):
            while second.next_at is None or second.next_at <= datetime.now(UTC):
                await asyncio.sleep(0.05)
                second = await platform.watches.get(second.id, owner="label:alice")
        assert (second.runs, second.is_running) == (0, False)


async def test_a_report_is_watched(tmp_path: Path) -> None:
    """Watching a report reuses no stored report and needs no model."""
    world = World()
    async with watching(tmp_path, world) as watching_it:
        await watching_it.add(urls=(watching_it.page,), depth="report")
        assert await watching_it.run() == ()
        world.html = COSMETIC[0]
        assert await watching_it.run() == ()
        world.html = CHANGED
        [change] = await watching_it.run()
        assert change.now is not None
        assert change.now.quote == NEW_TOLL


async def test_the_cost_of_a_watch_is_an_upper_bound(tmp_path: Path) -> None:
    """No run exceeds its announced number of searches, pages or model calls."""
    async with watching(tmp_path, World()) as watching_it:
        await watching_it.add(urls=(watching_it.page,))
        assert watching_it.watch is not None
        only_pages = watching_it.watch.at_most
        assert (only_pages.run.searches, only_pages.run.pages, only_pages.days_30.pages) == (0, 1, 30)
        assert (only_pages.run.llm_calls, only_pages.run.cost_usd) == (0, 0.0)
        for depth in ("shallow", "deep"):
            watching_it.search.finds, watching_it.search.asked = True, 0
            await watching_it.add(depth=depth)
            assert watching_it.watch is not None
            at_most = watching_it.watch.at_most.run
            for _ in range(2):
                await watching_it.run()
                run = watching_it.watch.last_runs[0]
                answer = (await watching_it.jobs.get(run.job_id)).response
                assert answer is not None
                assert watching_it.search.asked <= at_most.searches
                assert answer.metadata.pages_read + answer.metadata.pages_failed <= at_most.pages
                watching_it.search.asked = 0


async def test_a_model_without_a_price_has_no_budget(tmp_path: Path) -> None:
    model = {"LLM_API_KEY": "none-of-yours", "LLM_MODEL": "unpriced", "LLM_BASE_URL": "http://127.0.0.1:9/v1"}
    async with watching(tmp_path, World(), **model) as watching_it:
        with pytest.raises(PriceUnknownError):
            await watching_it.add(max_cost_usd=1.0)
        await watching_it.add()
        assert watching_it.watch is not None
        assert watching_it.watch.at_most.run.llm_calls > 0
        assert watching_it.watch.at_most.run.cost_usd is None


async def test_watches_need_the_store(tmp_path: Path) -> None:
    async with watching(tmp_path, World(), STORE_TTL_DAYS=0.0) as watching_it:
        assert not watching_it.watches.is_available
        with pytest.raises(BackgroundError, match="STORE_TTL_DAYS"):
            await watching_it.add()
        for refused in (watching_it.watches.list(), watching_it.watches.list_due(), watching_it.watches.get("a" * 32)):
            with pytest.raises(BackgroundError, match="STORE_TTL_DAYS"):
                await refused


async def test_a_watch_runs_a_limited_number_of_times_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_service, "MAX_RUNS_PER_DAY", 2)
    async with watching(tmp_path, World()) as watching_it:
        await watching_it.add(urls=(watching_it.page,))
        await watching_it.run()
        await watching_it.run()
        with pytest.raises(WatchLimitError, match="24 hours"):
            await watching_it.run()


async def test_a_removed_watch_ends_with_its_run(tmp_path: Path) -> None:
    """A caller that waits for the run is informed, and no notice is sent."""
    world = World()
    world.is_silent = True
    async with watching(tmp_path, world) as watching_it:
        await watching_it.add(urls=(watching_it.page,), webhook=f"{watching_it.host.url}/hook")
        assert watching_it.watch is not None
        await asyncio.wait_for(world.reached.wait(), 60)
        await watching_it.watches.remove(watching_it.watch.id)
        assert await watching_it.watches.finish_runs([watching_it.watch]) == ()
        with pytest.raises(WatchNotFoundError):
            await watching_it.watches.get(watching_it.watch.id)
        [job] = (await watching_it.jobs.list()).researches
        assert job.status == "cancelled"
        assert world.told == []
