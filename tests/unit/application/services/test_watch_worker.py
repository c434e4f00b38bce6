"""Runs of watched questions where a process ends at the worst moments: asked once, stored once, told at least once."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.metrics import MemoryMetrics
from tests.fakes.research_job_store import MemoryResearchJobStore
from tests.fakes.watch_store import DAY, MANY, change, finish
from tests.support.clock import Clock

from modules.llm_platform.application.research.events import Done, ResearchEvent, Started
from modules.llm_platform.application.services import watch_worker
from modules.llm_platform.application.services.research_job_service import ResearchJobService
from modules.llm_platform.application.services.research_job_worker import JobOptions
from modules.llm_platform.application.services.watch_notices import MAX_LISTED_CHANGES, WatchNotices, write_mail
from modules.llm_platform.application.services.watch_worker import WatchTools, WatchWorker, build_request, select_pages
from modules.llm_platform.application.services.webhook_service import RETRY_DELAYS_S, WebhookService
from modules.llm_platform.domain.concurrency.page_allowance import Charge
from modules.llm_platform.domain.dtos import watch_dtos as dtos
from modules.llm_platform.domain.dtos.answer_dtos import ResearchMetadata, ResearchResponse
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.dtos.research_job_dtos import WATCH, ClaimedJob
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.exceptions import (
    ResearchQueueFullError,
    StoreUnavailableError,
    WebSearchConnectionError,
)
from modules.llm_platform.domain.ports.mail_sender import IMailSender, Mail
from modules.llm_platform.domain.ports.watch_store import WatchSelection
from modules.llm_platform.domain.ports.webhook_sender import DeliveryReply, IWebhookSender
from modules.llm_platform.domain.telemetry.metrics import WATCH_NOTICES, WATCH_RUNS, WATCHES
from modules.llm_platform.domain.watches.page_versions import PagePairs
from modules.llm_platform.infrastructure.stores.watches.sqlite import SqliteWatchStore

URL = "https://example.org/toll"
HOOK = "https://hook.example.org/"
PATIENCE_S = 30.0
AT = datetime(2026, 1, 1, tzinfo=UTC)
HIGHEST_COST = 2.0  # US dollars of a run


class Killed(BaseException):
    """The process ends here: nothing of it runs any more."""


class FakeRuns:
    """Reads a page with this toll. Its runs cost `cost_usd`, and fail while `error` is set."""

    def __init__(self) -> None:
        self.toll = "12"
        self.cost_usd: float | None = 0.0
        self.error: Exception | None = None
        self.first: list[dtos.WatchedPages] = []

    async def stream(self, job: ClaimedJob, store_sources: Any) -> AsyncGenerator[ResearchEvent, None]:
        self.first.append(dtos.WatchedPages.model_validate(job.client_request[WATCH]))
        yield Started(request_id=job.id)
        if self.error is not None:
            raise self.error
        text = f"The toll on the bridge is {self.toll} euros. Lorries need a permit of the port before they cross."
        fact = dtos.LedgerFact(quote=f"The toll on the bridge is {self.toll} euros.", url=URL)
        source = Source(index=1, title="Toll", url=URL, text=text)
        reading = dtos.WatchReading(at=AT, language="en", facts=(fact,), sources=(source,))
        metadata = ResearchMetadata(latency_ms=1, request_id=job.id, cost_usd=self.cost_usd)
        response = ResearchResponse(
            query=job.request.query,
            depth="deep",
            synthesis="",
            output=reading.model_dump(mode="json"),
            metadata=metadata,
        )
        yield Done(request_id=job.id, response=response)


class FakeSender(IWebhookSender):
    def __init__(self) -> None:
        self.sent: list[tuple[str, Mapping[str, Any]]] = []
        self.fails = False

    async def check(self, url: str) -> None:
        """All addresses are good."""

    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> DeliveryReply:
        self.sent.append((headers["webhook-id"], json.loads(body)))
        return DeliveryReply(is_delivered=not self.fails, reason="")


class FakeMail(IMailSender):
    def __init__(self) -> None:
        self.sent: list[Mail] = []

    async def send(self, mail: Mail) -> DeliveryReply:
        self.sent.append(mail)
        return DeliveryReply(is_delivered=True, reason="")


class DyingStore(SqliteWatchStore):
    """Ends its process when a method of `dies_in` is called: before it, or after it with `after:`."""

    dies_in = ""

    async def wait(self, watch: dtos.ClaimedWatch, delay_s: float, *, is_asked: bool = True) -> None:
        self._die("wait")
        await super().wait(watch, delay_s, is_asked=is_asked)
        self._die("after:wait")

    async def finish(self, *arguments: Any, **options: Any) -> None:
        self._die("finish")
        await super().finish(*arguments, **options)
        self._die("after:finish")

    async def settle_notice(self, *arguments: Any, **options: Any) -> None:
        self._die("settle_notice")
        await super().settle_notice(*arguments, **options)

    def _die(self, where: str) -> None:
        if self.dies_in == where:
            self.dies_in = ""
            raise Killed


class World:
    """Workers with a shared store and a manual clock."""

    def __init__(self, tmp_path: Path, clock: Clock) -> None:
        self.clock = clock
        self.file = tmp_path / "watches.sqlite3"
        self.store = DyingStore(self.file, clock)
        self.job_store = MemoryResearchJobStore()
        self.runs, self.sender, self.mail = FakeRuns(), FakeSender(), FakeMail()
        self.metrics = MemoryMetrics()
        self.has_mail = False
        self.jobs: list[ResearchJobService] = []

    def worker(self) -> WatchWorker:
        webhooks = WebhookService(self.job_store, lambda: self.sender, [b"0" * 32], clock=self.clock)
        research: Any = _Research()
        options = JobOptions(lease_s=5.0, poll_s=0.02, flush_s=0.0)
        jobs = ResearchJobService(research, self.job_store, webhooks, options, others={"watch": self.runs})
        jobs.start()
        self.jobs.append(jobs)
        notices = WatchNotices(self.store, webhooks, self.mail if self.has_mail else None, self.metrics)
        tools = WatchTools(self.store, jobs, notices, self.metrics, estimate_cost=lambda request: HIGHEST_COST)
        return WatchWorker(tools)

    async def step(self, worker: WatchWorker) -> None:
        """Let the worker run due watches and deliver due notices."""
        await worker._work()
        await worker._tools.notices.deliver_due()

    async def complete(self, worker: WatchWorker, run: int) -> dtos.Watch:
        """Let the worker make a run, whatever became of it before."""
        async with asyncio.timeout(PATIENCE_S):
            while (watch := await self.store.get("", "a")) is None or watch.runs < run:
                await self.step(worker)
                self.clock.now += watch_worker.LEASE_S + 1
                await asyncio.sleep(0.01)
        await self.step(worker)
        return watch

    async def add(self, **fields: Any) -> None:
        request = ResearchRequest(query="What is the toll on the bridge?", depth="deep")
        await self.store.add(dtos.NewWatch("a", request, DAY, **{"webhook": HOOK, **fields}), MANY)

    async def pass_day(self) -> None:
        self.clock.now += DAY

    async def count_jobs(self) -> int:
        return len(await self.job_store.page("", MANY))


class _Research:
    def check(self, request: ResearchRequest) -> None:
        """All requests are valid."""

    async def forget(self, request_id: str, *, owner: str = "") -> None:
        """Nothing is stored."""


@pytest.fixture
async def world(tmp_path: Path, clock: Clock) -> AsyncIterator[World]:
    world = World(tmp_path, clock)
    yield world
    for jobs in world.jobs:
        await jobs.aclose()
    await world.job_store.aclose()


async def test_nothing_is_told_unless_something_has_changed(world: World) -> None:
    await world.add()
    worker = world.worker()
    await world.complete(worker, 1)
    await world.pass_day()
    await world.complete(worker, 2)
    assert world.sender.sent == []
    world.runs.toll = "14"
    await world.pass_day()
    watch = await world.complete(worker, 3)
    [(message_id, message)] = world.sender.sent
    assert (message_id, message["type"]) == ("msg_a.3", "watch.changed")
    [change] = message["data"]["changes"]
    assert (change["was"]["value"], change["now"]["value"]) == ("12", "14")
    assert (watch.changes, watch.refusals) == (1, 0)
    results = [world.metrics.values[WATCH_RUNS.name, result] for result in ("first", "same", "changed")]
    assert results == [1, 1, 1]


@pytest.mark.parametrize("moment", ["wait", "after:wait", "finish", "after:finish", "settle_notice"])
async def test_a_worker_that_is_killed_is_replaced(world: World, moment: str) -> None:
    """The run is asked once, stored once, and its change told at least once, always with the same id."""
    await world.add()
    await world.complete(world.worker(), 1)
    world.runs.toll = "14"
    await world.pass_day()
    world.store.dies_in = moment
    victim = world.worker()
    with suppress(Killed):
        async with asyncio.timeout(PATIENCE_S):
            while world.store.dies_in:
                await world.step(victim)
                world.clock.now += 2.0
                await asyncio.sleep(0.01)
    world.clock.now += watch_worker.LEASE_S + 1
    watch = await world.complete(world.worker(), 2)
    assert (watch.runs, watch.changes) == (2, 1)
    assert await world.count_jobs() == 2
    assert {message_id for message_id, _ in world.sender.sent} == {"msg_a.2"}
    assert len(world.sender.sent) == (2 if moment == "settle_notice" else 1)


async def test_two_workers_share_the_runs(world: World) -> None:
    """However they take turns, each run is asked and told once."""
    await world.add()
    one, other = world.worker(), world.worker()
    await world.complete(one, 1)
    world.runs.toll = "14"
    await world.pass_day()
    async with asyncio.timeout(PATIENCE_S):
        while not world.sender.sent:
            await asyncio.gather(world.step(one), world.step(other))
            world.clock.now += 1.0
            await asyncio.sleep(0.01)
    assert (await world.count_jobs(), len(world.sender.sent)) == (2, 1)


async def test_three_failures_pause_a_watch_and_tell_it_once(world: World) -> None:
    """The message says why and what to do. The next run is compared with the last good one."""
    await world.add()
    worker = world.worker()
    await world.complete(worker, 1)
    world.runs.error = WebSearchConnectionError("The search refuses.")
    for run in (2, 3, 4):
        assert world.sender.sent == []
        await world.pass_day()
        watch = await world.complete(worker, run)
    assert (watch.state, watch.paused_because, watch.problem) == ("paused", "refused", "The search refuses.")
    [(_, message)] = world.sender.sent
    assert (message["type"], message["data"]["problem"]) == ("watch.paused", "The search refuses.")
    world.runs.error, world.runs.toll = None, "14"
    await world.pass_day()
    await world.step(worker)
    assert (await world.store.get("", "a")) == watch
    await world.store.run_now("", "a")
    assert (await world.complete(worker, 5)).changes == 1


async def test_a_defect_fails_its_run_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other watches continue, and the error is logged."""
    await world.add()
    worker = world.worker()
    await world.complete(worker, 1)

    def breaks(*arguments: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(watch_worker, "compare_readings", breaks)
    await world.pass_day()
    watch = await world.complete(worker, 2)
    assert (watch.refusals, watch.problem) == (1, watch_worker.DEFECT)


async def test_a_comparison_ends_before_the_lease(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise each worker would begin it again. The run has failed, and the next one is compared with the last good one."""
    await world.add()
    worker = world.worker()
    await world.complete(worker, 1)
    released = threading.Event()
    with monkeypatch.context() as slow:
        slow.setattr(watch_worker, "COMPARE_S", 0.05)
        slow.setattr(watch_worker, "compare_readings", lambda *readings: released.wait(PATIENCE_S))
        await world.pass_day()
        watch = await world.complete(worker, 2)
        released.set()
    assert (watch.refusals, watch.problem) == (1, watch_worker.TOO_MUCH)
    assert watch_worker.COMPARE_S < watch_worker.LEASE_S
    world.runs.toll = "14"
    await world.pass_day()
    assert (await world.complete(worker, 3)).changes == 1


async def test_a_comparison_that_is_given_up_ends_its_thread(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take the time of others for minutes, and a server that stops would wait for it."""
    await world.add()
    worker = world.worker()
    await world.complete(worker, 1)
    released, ended = threading.Event(), threading.Event()

    def compare(was: dtos.WatchReading, now: dtos.WatchReading, pages: PagePairs) -> tuple[dtos.WatchChange, ...]:
        try:
            while not released.is_set():
                for page in pages.today.values():
                    page.has(page.read_claim("The toll is 12 euros."))
        finally:
            ended.set()
        return ()

    monkeypatch.setattr(watch_worker, "COMPARE_S", 0.05)
    monkeypatch.setattr(watch_worker, "compare_readings", compare)
    await world.pass_day()
    watch = await world.complete(worker, 2)
    assert watch.problem == watch_worker.TOO_MUCH
    has_ended = await asyncio.to_thread(ended.wait, PATIENCE_S)
    released.set()
    assert has_ended


async def test_an_unreadable_question_fails_its_run_alone(world: World) -> None:
    """Other watches continue. Three failures pause the watch like any other."""
    await world.add()
    world.clock.now += 1
    request = ResearchRequest(query="What is the toll on the tunnel?", depth="deep")
    await world.store.add(dtos.NewWatch("b", request, DAY), MANY)
    with closing(sqlite3.connect(world.file)) as connection, connection:
        connection.execute("UPDATE watch SET request = '{}' WHERE id = 'a'")
    worker = world.worker()
    await world.step(worker)
    assert await world.count_jobs() == 1
    watch = await world.complete(worker, 3)
    assert (watch.state, watch.problem) == ("paused", watch_worker.UNREADABLE)


async def test_a_run_that_was_removed_is_not_paid_again(world: World) -> None:
    await world.add()
    worker = world.worker()
    await world.step(worker)
    assert await world.job_store.delete("", dtos.job_id_of_run("a", 1))
    world.clock.now += watch_worker.FIRST_LOOK_S + 1
    await world.step(worker)
    watch = await world.store.get("", "a")
    assert watch is not None
    assert (watch.runs, watch.problem, await world.count_jobs()) == (1, watch_worker.RUN_REMOVED, 0)


async def test_a_full_queue_is_no_run(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The question is asked when there is room."""
    await world.add()
    worker = world.worker()

    async def refuse(*arguments: object, **options: object) -> None:
        raise ResearchQueueFullError

    with monkeypatch.context() as full:
        full.setattr(worker._tools.jobs, "submit_watched", refuse)
        await world.step(worker)
    watch = await world.store.get("", "a")
    assert watch is not None
    assert (watch.runs, watch.is_running) == (0, False)
    assert (await world.complete(worker, 1)).problem is None


async def test_a_watch_that_is_removed_while_its_question_is_asked_leaves_no_run(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.add()
    worker = world.worker()
    submit = worker._tools.jobs.submit_watched

    async def submit_and_remove(*arguments: Any, **options: Any) -> Any:
        job = await submit(*arguments, **options)
        assert await world.store.remove("", "a")
        return job

    cancelled: list[str] = []

    async def cancel(research_id: str, *, owner: str = "") -> None:
        cancelled.append(research_id)

    monkeypatch.setattr(worker._tools.jobs, "submit_watched", submit_and_remove)
    monkeypatch.setattr(worker._tools.jobs, "cancel", cancel)
    await world.step(worker)
    assert cancelled == [dtos.job_id_of_run("a", 1)]


async def test_a_worker_without_mail_leaves_mail_to_others(world: World) -> None:
    world.has_mail = True
    await world.add(webhook=None)
    mailing = world.worker()
    world.has_mail = False
    other = world.worker()
    await world.complete(mailing, 1)
    world.runs.toll = "14"
    await world.pass_day()
    async with asyncio.timeout(PATIENCE_S):
        while (watch := await world.store.get("", "a")) is None or watch.runs < 2:
            await mailing._work()
            world.clock.now += watch_worker.LAST_LOOK_S
            await asyncio.sleep(0.01)
    await other._tools.notices.deliver_due()
    assert world.mail.sent == []
    await mailing._tools.notices.deliver_due()
    assert [mail.id for mail in world.mail.sent] == ["a.2"]


async def test_a_defect_of_a_sender_is_tried_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stops no other notice."""
    await world.add()
    worker = world.worker()
    await world.complete(worker, 1)
    world.runs.toll = "14"
    await world.pass_day()

    async def breaks(*arguments: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as broken:
        broken.setattr(world.sender, "send", breaks)
        await world.complete(worker, 2)
    assert world.metrics.values[WATCH_NOTICES.name, "webhook", "retried"] >= 1
    world.clock.now += DAY / 2
    await world.step(worker)
    assert [message_id for message_id, _ in world.sender.sent] == ["msg_a.2"]


async def test_a_notice_that_cannot_be_read_is_given_up(world: World) -> None:
    """It is given up after the usual number of attempts, and other notices are delivered meanwhile."""
    for watch_id in "ab":
        request = ResearchRequest(query="What is the toll on the bridge?", depth="deep")
        await world.store.add(dtos.NewWatch(watch_id, request, DAY, webhook=HOOK), MANY)
    worker = world.worker()
    await world.complete(worker, 1)
    world.runs.toll = "14"
    await world.pass_day()
    world.sender.fails = True
    await world.complete(worker, 2)
    with closing(sqlite3.connect(world.file)) as connection, connection:
        connection.execute("UPDATE watch_change SET data = '{}' WHERE watch = 1")
    world.sender.fails = False
    for _ in range(len(RETRY_DELAYS_S) + 1):
        world.clock.now += 2 * RETRY_DELAYS_S[-1]
        await worker._tools.notices.deliver_due()
    assert world.metrics.values[WATCH_NOTICES.name, "webhook", "failed"] == 1
    assert world.metrics.values[WATCH_NOTICES.name, "webhook", "delivered"] == 1
    assert await world.store.claim_notice(60.0, ["webhook"]) is None
    watch = await world.store.get("", "a")
    assert watch is not None
    assert watch.undelivered == 1


async def test_watches_of_unknown_callers_do_not_run_and_are_not_told(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A server knows the owners of its API keys. The log and a metric say how many watches it leaves alone."""
    monkeypatch.setattr(watch_worker, "POLL_S", 0.01)
    for owner in ("label:gone", "label:alice"):
        await world.add(owner=owner)
        watch = await world.store.claim("t", 60.0, WatchSelection((owner,)))
        assert watch is not None
        await finish(world.store, watch, change("14"), following=dtos.NextRun(0.0), notices=["webhook"])
    worker = world.worker()
    worker.start(WatchSelection(("", "label:alice")))
    async with asyncio.timeout(PATIENCE_S):
        while not await world.job_store.page("label:alice", MANY) or not world.sender.sent:
            await asyncio.sleep(0.01)
    await worker._work()
    await worker.aclose()
    assert await world.job_store.page("label:gone", MANY) == ()
    assert len(world.sender.sent) == 1
    states = [world.metrics.values[WATCHES.name, state] for state in ("active", "paused", "stopped")]
    assert states == [1, 0, 1]
    [warning] = [record for record in caplog.records if "their API key is not set" in record.message]
    assert warning.__dict__["watches"] == 1


async def test_a_delivery_that_has_begun_is_waited_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process may end after its run, so a started delivery is finished first."""
    await world.add()
    watch = await world.store.claim("t", 60.0)
    assert watch is not None
    await finish(world.store, watch, change("14"), notices=["webhook"])
    reached, released = asyncio.Event(), asyncio.Event()

    async def send(*arguments: object) -> DeliveryReply:
        reached.set()
        await released.wait()
        return DeliveryReply(is_delivered=True, reason="")

    monkeypatch.setattr(world.sender, "send", send)
    worker = world.worker()
    await worker.wait_for_delivery()
    worker.start()
    await asyncio.wait_for(reached.wait(), PATIENCE_S)
    waiting = asyncio.create_task(worker.wait_for_delivery())
    await asyncio.sleep(0)
    assert not waiting.done()
    released.set()
    await asyncio.wait_for(waiting, PATIENCE_S)
    found = await world.store.get("", "a")
    assert found is not None
    assert found.undelivered == 0
    await worker.aclose()


async def test_a_run_counts_as_a_request_of_its_owner(world: World) -> None:
    """If the limit of the owner refuses it, it is asked later, and nothing else is lost."""
    await world.add(owner="alice")
    worker = world.worker()
    asked, waits = list[str](), [5.0, 0.0]

    def make_page_charge(owner: str) -> Charge:
        async def charge() -> float:
            asked.append(owner)
            return waits.pop(0)

        return charge

    worker._make_page_charge = make_page_charge
    await world.step(worker)
    assert await world.job_store.page("alice", MANY) == ()
    world.clock.now += watch_worker.LIMITED_S - 1
    await world.step(worker)
    assert asked == ["alice"]
    world.clock.now += 1
    await world.step(worker)
    assert len(await world.job_store.page("alice", MANY)) == 1
    world.clock.now += watch_worker.FIRST_LOOK_S
    await world.step(worker)
    assert asked == ["alice", "alice"]


async def test_a_worker_makes_the_runs_of_selected_watches_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_worker, "POLL_S", 0.01)
    await world.add(owner="alice")
    await world.add(owner="bob")
    worker = world.worker()
    worker.start(WatchSelection(("bob",), ("a",)))
    async with asyncio.timeout(PATIENCE_S):
        while not await world.job_store.page("bob", MANY):
            await asyncio.sleep(0.01)
    await worker._work()
    await worker.aclose()
    assert await world.job_store.page("alice", MANY) == ()


async def test_a_budget_pauses_a_watch(world: World) -> None:
    """The run that exceeds the budget is the last one."""
    world.runs.cost_usd = 0.6
    await world.add(max_cost_usd=1.0)
    worker = world.worker()
    await world.complete(worker, 1)
    await world.pass_day()
    watch = await world.complete(worker, 2)
    assert (watch.state, watch.paused_because, watch.cost_usd) == ("paused", "budget", pytest.approx(1.2))
    [(_, message)] = world.sender.sent
    assert "max_cost_usd" in message["data"]["remedy"]


async def test_a_run_of_unknown_cost_counts_with_what_it_costs_at_most(world: World) -> None:
    """A budget is not overdrawn by calls that were too late."""
    world.runs.cost_usd = None
    await world.add(max_cost_usd=2.5)
    watch = await world.complete(world.worker(), 1)
    assert watch.cost_usd == HIGHEST_COST


async def test_mail_tells_the_same_as_the_webhook(world: World) -> None:
    """Both are tried independently of each other."""
    world.has_mail, world.sender.fails = True, True
    await world.add()
    worker = world.worker()
    await world.complete(worker, 1)
    world.runs.toll = "14"
    await world.pass_day()
    await world.complete(worker, 2)
    [mail] = world.mail.sent
    assert (mail.id, mail.subject) == ("a.2", "1 changed: What is the toll on the bridge?")
    assert "Before (2026-01-01): The toll on the bridge is 12 euros." in mail.text
    assert "Now (2026-01-01): The toll on the bridge is 14 euros." in mail.text
    assert world.metrics.values[WATCH_NOTICES.name, "mail", "delivered"] == 1
    assert world.metrics.values[WATCH_NOTICES.name, "webhook", "retried"] >= 1


@pytest.mark.parametrize("error", [StoreUnavailableError(), ZeroDivisionError()])
async def test_the_worker_waits_for_a_failed_store(
    world: World, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """The loop continues when the store is back, even after a defect."""
    monkeypatch.setattr(watch_worker, "POLL_S", 0.01)
    failures = [error, error]
    claim = world.store.claim

    async def claim_after_failures(
        token: str, lease_s: float, only: WatchSelection | None = None
    ) -> dtos.ClaimedWatch | None:
        if failures:
            raise failures.pop()
        return await claim(token, lease_s, only)

    monkeypatch.setattr(world.store, "claim", claim_after_failures)
    await world.add()
    worker = world.worker()
    worker.start()
    async with asyncio.timeout(PATIENCE_S):
        while not await world.count_jobs():
            await asyncio.sleep(0.01)
    await worker.aclose()


def test_a_run_reads_first_what_the_last_one_quoted() -> None:
    """The addresses of the watch, then pages with facts, then other pages; no excerpts without facts, and not too many."""
    facts = (dtos.LedgerFact(quote="x", url="https://a.example/2"),)
    kinds = [("https://a.example/1", "page"), ("https://a.example/3", "snippet"), ("doc:b.md", "document")]
    sources: Sequence[Source] = [
        Source.model_validate({"index": 1, "title": "", "url": url, "text": "x", "text_kind": kind})
        for url, kind in kinds
    ]
    reading = dtos.WatchReading(at=AT, language="en", facts=facts, sources=tuple(sources))
    pages = select_pages(("https://a.example/0",), reading, are_all=False)
    assert pages.urls == ("https://a.example/0", "https://a.example/2", "https://a.example/1", "doc:b.md")
    assert select_pages(("https://a.example/0",), reading, are_all=True).urls == ("https://a.example/0",)
    many = reading.model_copy(
        update={"facts": tuple(dtos.LedgerFact(quote="x", url=f"https://b.example/{n}") for n in range(99))}
    )
    assert len(select_pages((), many, are_all=False).urls) == dtos.MAX_REREAD_PAGES


def test_a_report_gets_the_rest_of_the_budget() -> None:
    """The report reads pages and searches within the remaining budget, and takes nothing from the store."""
    request = ResearchRequest(query="What is the toll?", depth="report")
    watch = dtos.ClaimedWatch(
        1, "t", "a", request, DAY, 2, is_asked=False, created_at=0.0, now=0.0, cost_usd=0.75, max_cost_usd=1.0
    )
    asked = build_request(watch, dtos.WatchedPages(urls=(URL, "doc:a.md")))
    assert (asked.urls, asked.fresh, asked.max_cost_usd) == ((URL,), True, 0.25)
    assert "sources" in asked.model_fields_set
    only = build_request(watch, dtos.WatchedPages(urls=(URL,), are_all=True))
    assert "sources" not in only.model_fields_set


def test_a_mail_lists_a_limited_number_of_changes() -> None:
    side = dtos.FactAt(value="1", quote="One.", source=URL, at=AT)
    changes = tuple(
        dtos.FoundChange(kind="gone", fact="x", was=side, number=n, run=2, at=AT) for n in range(MAX_LISTED_CHANGES + 5)
    )
    watch = dtos.Watch(id="a", query="q", depth="deep", every_s=DAY, created_at=AT)
    mail = write_mail(dtos.WatchNotice(1, "mail", 1, watch, 2, changes))
    assert mail.text.count("Gone: x") == MAX_LISTED_CHANGES
    assert "5 more are listed" in mail.text


def test_a_page_writes_no_lines_of_a_mail() -> None:
    side = dtos.FactAt(value="", quote="One.\r\n\nWatch b:\u2028paid\x1b[31m", source="doc:a\n.md", at=AT)
    change = dtos.FoundChange(kind="new", fact="x\ny", now=side, number=1, run=2, at=AT)
    watch = dtos.Watch(
        id="a",
        query="q\r\nBcc: b\x07",
        depth="deep",
        every_s=DAY,
        created_at=AT,
        paused_because="budget",
        problem="p\nr",
    )
    mail = write_mail(dtos.WatchNotice(1, "mail", 1, watch.model_copy(update={"state": "paused"}), 2, (change,)))
    assert mail.subject == "1 changed: q Bcc: b"
    assert mail.text.split("\n")[:6] == [
        "q Bcc: b",
        "",
        "New: x y",
        f"  Now ({AT:%Y-%m-%d}): One. Watch b: paid[31m",
        "    doc:a .md",
        "",
    ]
    assert "\np r\n" in mail.text
