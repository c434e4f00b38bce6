"""The contract of `IWatchStore`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from tests.support.clock import Clock

from modules.llm_platform.domain.callers.list_cursor import write_cursor
from modules.llm_platform.domain.dtos import watch_dtos as dtos
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.dtos.research_job_dtos import FinalStatus
from modules.llm_platform.domain.ports.watch_store import KEPT_FACTS, IWatchStore, WatchLeaseLostError, WatchSelection

MANY = 1000
DAY = 86_400
LEASE_S = 60.0
QUESTION = ResearchRequest(query="What is the toll on the bridge?", depth="deep")
URLS = ("https://toll.example.org/fares",)
AT = datetime(2026, 1, 1, tzinfo=UTC)
ALL: tuple[dtos.NoticeChannel, ...] = ("webhook", "mail")
NEXT_DAY = dtos.NextRun(DAY)


def new_watch(watch_id: str, owner: str = "", max_cost_usd: float | None = None) -> dtos.NewWatch:
    return dtos.NewWatch(
        watch_id,
        QUESTION,
        DAY,
        URLS,
        is_only_urls=True,
        owner=owner,
        label="key",
        webhook="https://hook.example.com",
        max_cost_usd=max_cost_usd,
    )


def change(value: str) -> dtos.WatchChange:
    now = dtos.FactAt(value=value, quote=f"The toll is {value} euros.", source="https://example.org", at=AT)
    return dtos.WatchChange(kind="changed", fact="The toll is … euros.", was=now, now=now)


async def claim(store: IWatchStore, token: str = "t") -> dtos.ClaimedWatch:
    claimed = await store.claim(token, LEASE_S)
    assert claimed is not None
    return claimed


async def finish(
    store: IWatchStore,
    watch: dtos.ClaimedWatch,
    *changes: dtos.WatchChange,
    reading: dtos.WatchReading | None = None,
    following: dtos.NextRun = NEXT_DAY,
    cost_usd: float = 0.0,
    status: FinalStatus = "done",
    notices: Sequence[dtos.NoticeChannel] = (),
) -> None:
    problem = "The site refuses." if status == "failed" else None
    run = dtos.WatchRun(number=watch.run, job_id=watch.job_id, at=AT, status=status, cost_usd=cost_usd, problem=problem)
    await store.finish(watch, run, changes, reading, following, notices)


async def claim_notice(store: IWatchStore) -> dtos.WatchNotice:
    notice = await store.claim_notice(LEASE_S, ALL)
    assert notice is not None
    return notice


async def watch_of(store: IWatchStore) -> dtos.Watch:
    watch = await store.get("", "a")
    assert watch is not None
    return watch


def ids(watches: Sequence[dtos.Watch]) -> list[str]:
    return [watch.id for watch in watches]


class WatchStoreContract:
    """Subclass it and add these fixtures.

    `store`: an empty IWatchStore whose time is `clock` · `second`: another store with the same watches, as in another
    process.
    """

    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    async def test_an_empty_store(self, store: IWatchStore) -> None:
        """Any call about an unknown watch finds nothing."""
        assert await store.claim("t", LEASE_S) is None
        assert await store.get("", "a") is None
        assert await store.page("", MANY) == ()
        assert await store.runs("", "a", MANY) == await store.changes("", "a", MANY) == ()
        assert await store.run_now("", "a") is await store.remove("", "a") is False
        assert await store.claim_notice(LEASE_S, ALL) is None
        assert await store.count() == {"active": 0, "paused": 0}

    async def test_a_new_watch_is_due_now(self, store: IWatchStore, clock: Clock) -> None:
        """Its owner reads it unchanged."""
        added = await store.add(new_watch("a", max_cost_usd=2.5), MANY)
        now = datetime.fromtimestamp(clock.now, UTC)
        assert added == dtos.Watch(
            id="a",
            query=QUESTION.query,
            depth="deep",
            every_s=DAY,
            urls=URLS,
            created_at=now,
            next_at=now,
            max_cost_usd=2.5,
        )
        assert await store.get("", "a") == added
        claimed = await claim(store)
        assert (claimed.id, claimed.request, claimed.run, claimed.is_asked) == ("a", QUESTION, 1, False)
        assert (claimed.urls, claimed.is_only_urls, claimed.max_cost_usd) == (URLS, True, 2.5)
        assert (claimed.webhook, claimed.label, claimed.created_at) == ("https://hook.example.com", "key", clock.now)

    async def test_a_watch_belongs_to_its_owner(self, store: IWatchStore) -> None:
        """Other owners can neither see nor change it, and may use its id."""
        await store.add(new_watch("a", "alice"), MANY)
        assert await store.get("bob", "a") is None
        assert await store.remove("bob", "a") is await store.run_now("bob", "a") is False
        assert await store.add(new_watch("a", "bob"), MANY) is not None
        assert ids(await store.page("alice", MANY)) == ["a"]

    async def test_the_number_of_watches_of_an_owner_is_limited(self, store: IWatchStore) -> None:
        """Adding an existing watch again stores nothing and is not refused."""
        assert await store.add(new_watch("a", "alice"), 1) is not None
        assert await store.add(new_watch("b", "alice"), 1) is None
        assert await store.add(new_watch("a", "alice"), 1) is not None
        assert await store.add(new_watch("b", "bob"), 1) is not None

    async def test_watches_are_listed_newest_first(self, store: IWatchStore) -> None:
        for watch_id in "abc":
            await store.add(new_watch(watch_id), MANY)
        assert ids(await store.page("", 2)) == ["c", "b"]
        assert ids(await store.page("", 2, before="b")) == ["a"]

    async def test_a_list_continues_after_a_removed_watch(self, store: IWatchStore, clock: Clock) -> None:
        """The list continues by the watch's time. An id alone has no position."""
        for watch_id in "abc":
            await store.add(new_watch(watch_id), MANY)
            clock.now += 1
        last = (await store.page("", 2))[-1]
        await store.remove("", last.id)
        assert ids(await store.page("", 2, before=write_cursor(last.id, last.created_at))) == ["a"]
        assert await store.page("", 2, before=last.id) == ()

    async def test_a_watch_is_claimed_once(self, store: IWatchStore, second: IWatchStore, clock: Clock) -> None:
        """The watch is not claimed again until its lease ends.

        A new worker then continues the same run with the same id.
        """
        await store.add(new_watch("a"), MANY)
        first = await claim(store, "one")
        assert await second.claim("two", LEASE_S) is None
        clock.now += LEASE_S + 1
        again = await claim(second, "two")
        assert (again.run, again.job_id) == (first.run, first.job_id)
        for late in (store.wait(first, 5.0), finish(store, first)):
            with pytest.raises(WatchLeaseLostError):
                await late
        await finish(second, again)
        assert len(await store.runs("", "a", MANY)) == 1

    async def test_a_lease_of_a_wrong_clock_does_not_count(self, store: IWatchStore, clock: Clock) -> None:
        await store.add(new_watch("a"), MANY)
        clock.now += DAY
        await claim(store, "one")
        clock.now -= DAY
        assert (await claim(store, "two")).id == "a"

    async def test_a_time_planned_by_a_clock_that_was_ahead_does_not_count(
        self, store: IWatchStore, clock: Clock
    ) -> None:
        """The watch is due as soon as the clock is right again. A time within one interval is kept."""
        await store.add(new_watch("a"), MANY)
        clock.now += 100 * DAY
        await finish(store, await claim(store))
        assert await store.claim("t", LEASE_S) is None
        clock.now -= 100 * DAY
        await finish(store, await claim(store))
        clock.now += DAY - 1
        assert await store.claim("t", LEASE_S) is None

    async def test_only_selected_watches_are_claimed(self, store: IWatchStore) -> None:
        """A watch of another owner with the same id is another watch."""
        for watch_id, owner in (("a", "alice"), ("b", "alice"), ("c", "alice"), ("b", "bob")):
            await store.add(new_watch(watch_id, owner), MANY)
        assert await store.claim("t", LEASE_S, WatchSelection(("alice",), ())) is None
        assert await store.claim("t", LEASE_S, WatchSelection(())) is None
        only = WatchSelection(("alice",), ("b", "c"))
        found = [await store.claim(token, LEASE_S, only) for token in "xyz"]
        assert [(one.owner, one.id) if one else None for one in found] == [("alice", "b"), ("alice", "c"), None]
        found = [await store.claim(token, LEASE_S, WatchSelection(("bob", "carol"))) for token in "xy"]
        assert [(one.owner, one.id) if one else None for one in found] == [("bob", "b"), None]

    async def test_only_notices_of_selected_watches_are_claimed(self, store: IWatchStore) -> None:
        for watch_id, owner in (("a", "alice"), ("b", "alice"), ("b", "bob")):
            await store.add(new_watch(watch_id, owner), MANY)
            await finish(store, await claim(store), change("12"), notices=["webhook"])
        assert await store.claim_notice(LEASE_S, ALL, WatchSelection(())) is None
        for only in (WatchSelection(("alice",), ("b",)), WatchSelection(("bob", "carol"))):
            notice = await store.claim_notice(LEASE_S, ALL, only)
            assert notice is not None
            assert notice.watch.id == "b"
            assert await store.claim_notice(LEASE_S, ALL, only) is None
        assert (await claim_notice(store)).watch.id == "a"

    async def test_watches_of_some_owners_are_counted(self, store: IWatchStore) -> None:
        for watch_id, owner in (("a", "alice"), ("b", "alice"), ("b", "bob")):
            await store.add(new_watch(watch_id, owner), MANY)
        await finish(store, await claim(store), following=dtos.NextRun(DAY, 3, "refused"))
        assert await store.count() == {"active": 2, "paused": 1}
        assert await store.count(WatchSelection(("alice", "carol"))) == {"active": 1, "paused": 1}
        assert await store.count(WatchSelection(())) == {"active": 0, "paused": 0}

    async def test_a_question_that_was_not_asked_is_not_marked(self, store: IWatchStore, clock: Clock) -> None:
        await store.add(new_watch("a"), MANY)
        await store.wait(await claim(store), 5.0, is_asked=False)
        assert await store.claim("t", LEASE_S) is None
        clock.now += 5
        assert not (await claim(store)).is_asked

    async def test_the_newest_runs_keep_their_facts(self, store: IWatchStore, clock: Clock) -> None:
        """Earlier runs are kept without their facts."""
        await store.add(new_watch("a"), MANY)
        facts = (dtos.LedgerFact(quote="12", url="https://a.example"),)
        for number in range(1, KEPT_FACTS + 3):
            run = dtos.WatchRun(number=number, job_id="j", at=AT, status="done", cost_usd=0.5, facts=facts)
            await store.finish(await claim(store), run, (), None, NEXT_DAY)
            clock.now += DAY
        runs = await store.runs("", "a", MANY)
        assert [run.facts for run in runs] == [facts] * KEPT_FACTS + [()] * 2
        assert (runs[-1].number, runs[-1].cost_usd) == (1, 0.5)

    async def test_a_run_is_polled_again(self, store: IWatchStore, second: IWatchStore, clock: Clock) -> None:
        """After the question was asked, any worker continues the same run."""
        await store.add(new_watch("a"), MANY)
        asked = await claim(store)
        assert not (await watch_of(store)).is_running
        await store.wait(asked, 5.0)
        assert (await watch_of(store)).is_running
        assert await second.claim("t", LEASE_S) is None
        clock.now += 5
        again = await claim(second)
        assert (again.is_asked, again.job_id) == (True, asked.job_id)
        await finish(second, again)
        assert not (await watch_of(store)).is_running

    async def test_a_finished_run_is_stored_with_its_changes(self, store: IWatchStore, clock: Clock) -> None:
        """All runs and changes are kept, and the next run has another id."""
        await store.add(new_watch("a"), MANY)
        first = await claim(store)
        assert await store.get_reading(first) is None
        reading = dtos.WatchReading(at=AT, language="en", facts=(dtos.LedgerFact(quote="12", url="https://a.example"),))
        await finish(store, first, change("12"), change("13"), reading=reading, cost_usd=0.5)
        clock.now += DAY
        later = await claim(store)
        assert (later.run, later.is_asked, later.cost_usd) == (2, False, 0.5)
        assert later.job_id != first.job_id
        assert await store.get_reading(later) == reading
        await finish(store, later, change("14"), cost_usd=0.25)
        found = await store.changes("", "a", MANY)
        assert [(one.number, one.run, one.now) for one in found] == [
            (3, 2, change("14").now),
            (2, 1, change("13").now),
            (1, 1, change("12").now),
        ]
        assert [one.number for one in await store.changes("", "a", 1, before=3)] == [2]
        assert [run.number for run in await store.runs("", "a", MANY)] == [2, 1]
        watch = await store.get("", "a")
        assert watch is not None
        assert (watch.runs, watch.changes, watch.cost_usd) == (2, 3, 0.75)
        assert watch.last_run_at == found[0].at == datetime.fromtimestamp(clock.now, UTC)

    async def test_a_failed_run_keeps_the_baseline_of_the_next_one(self, store: IWatchStore, clock: Clock) -> None:
        await store.add(new_watch("a"), MANY)
        reading = dtos.WatchReading(at=AT, language="en")
        await finish(store, await claim(store), reading=reading)
        clock.now += DAY
        await finish(store, await claim(store), status="failed", following=dtos.NextRun(DAY, refusals=1))
        clock.now += DAY
        again = await claim(store)
        assert await store.get_reading(again) == reading
        assert again.refusals == 1
        failed = await store.get("", "a")
        assert failed is not None
        assert failed.problem == "The site refuses."
        await finish(store, again)
        good = await store.get("", "a")
        assert good is not None
        assert good.problem is None

    async def test_a_paused_watch_waits_for_its_owner(self, store: IWatchStore, clock: Clock) -> None:
        """A run requested by the owner resets the refusals."""
        await store.add(new_watch("a"), MANY)
        await finish(store, await claim(store), following=dtos.NextRun(DAY, 3, "refused"))
        clock.now += 2 * DAY
        assert await store.claim("t", LEASE_S) is None
        assert await store.count() == {"active": 0, "paused": 1}
        paused = await store.get("", "a")
        assert paused is not None
        assert (paused.state, paused.paused_because, paused.refusals, paused.next_at) == ("paused", "refused", 3, None)
        assert await store.run_now("", "a")
        assert (await claim(store)).refusals == 0

    async def test_no_run_moves_the_schedule(self, store: IWatchStore, clock: Clock) -> None:
        """Neither a failed run nor a requested run moves the schedule, which is counted from the creation of the watch."""
        began = clock.now
        await store.add(new_watch("a"), MANY)
        await finish(store, await claim(store), status="failed", following=dtos.NextRun(900.0, 1))
        clock.now += 900
        await finish(store, await claim(store))
        clock.now += 1000
        assert await store.run_now("", "a")
        assert (await claim(store)).created_at == began

    async def test_costs_count_for_a_number_of_days(self, store: IWatchStore, clock: Clock) -> None:
        """The list has the same sum as a worker gets, and the time of the last run, whatever its cost."""
        await store.add(new_watch("a"), MANY)
        await store.add(new_watch("b"), MANY)
        only = WatchSelection(("",), ("a",))
        began, later = clock.now, dtos.NextRun(0.0)
        shown = list[tuple[float, float | None]]()
        for day, cost_usd in enumerate((1.0, 0.0, 0.5, 0.25, 0.0)):
            clock.now = began + 10 * day * DAY
            claimed = await store.claim("t", LEASE_S, only)
            assert claimed is not None
            await finish(store, claimed, cost_usd=cost_usd, following=later)
        for days in (40, 49, 50, 59, 60, 70):
            clock.now = began + days * DAY
            claimed = await store.claim("t", LEASE_S, only)
            assert claimed is not None
            await store.wait(claimed, 0.0, is_asked=False)
            [other, watch] = await store.page("", MANY)
            assert (other.cost_usd, other.last_run_at) == (0.0, None)
            assert watch.cost_usd == claimed.cost_usd
            assert watch.last_run_at == datetime.fromtimestamp(began + 40 * DAY, UTC)
            shown.append((days, watch.cost_usd))
        assert shown == [(40, 0.75), (49, 0.75), (50, 0.25), (59, 0.25), (60, 0.0), (70, 0.0)]

    async def test_the_most_overdue_watch_comes_first(self, store: IWatchStore, clock: Clock) -> None:
        for watch_id in "ab":
            await store.add(new_watch(watch_id), MANY)
            clock.now += 1
        assert [(await claim(store, token)).id for token in "xy"] == ["a", "b"]

    async def test_a_notice_is_stored_with_its_run(self, store: IWatchStore, second: IWatchStore, clock: Clock) -> None:
        """One worker claims the notice with only the changes of its run, and it keeps its id at each attempt."""
        await store.add(new_watch("a"), MANY)
        await finish(store, await claim(store), change("12"))
        clock.now += DAY
        await finish(store, await claim(store), change("13"), change("14"), notices=["webhook"])
        notice = await claim_notice(store)
        assert (notice.id, notice.channel, notice.attempt, notice.run) == ("a.2", "webhook", 1, 2)
        assert notice.url == "https://hook.example.com"
        assert [one.number for one in notice.changes] == [2, 3]
        assert await second.claim_notice(LEASE_S, ALL) is None
        await store.settle_notice(notice, "pending", 5.0)
        assert await second.claim_notice(LEASE_S, ALL) is None
        clock.now += 5
        again = await claim_notice(second)
        assert (again.id, again.attempt) == ("a.2", 2)
        assert (await watch_of(store)).undelivered == 1
        await second.settle_notice(again, "delivered")
        clock.now += LEASE_S + 1
        assert await store.claim_notice(LEASE_S, ALL) is None
        assert (await watch_of(store)).undelivered == 0

    async def test_a_notice_of_a_vanished_worker_is_sent_by_another(
        self, store: IWatchStore, second: IWatchStore, clock: Clock
    ) -> None:
        """Later results of the first worker are ignored."""
        await store.add(new_watch("a"), MANY)
        await finish(store, await claim(store), change("12"), notices=["webhook", "mail"])
        vanished, other = await claim_notice(store), await claim_notice(store)
        assert {vanished.channel, other.channel} == {"webhook", "mail"}
        await store.settle_notice(other, "failed")
        clock.now += LEASE_S + 1
        again = await claim_notice(second)
        assert (again.channel, again.attempt) == (vanished.channel, 2)
        await store.settle_notice(vanished, "pending", 0.0)
        assert await second.claim_notice(LEASE_S, ALL) is None

    async def test_a_notice_waits_for_a_worker_that_can_send_it(self, store: IWatchStore) -> None:
        await store.add(new_watch("a"), MANY)
        await finish(store, await claim(store), change("12"), notices=["mail"])
        assert await store.claim_notice(LEASE_S, ["webhook"]) is None
        assert (await claim_notice(store)).attempt == 1

    async def test_a_lost_lease_stores_no_notice(self, store: IWatchStore, clock: Clock) -> None:
        await store.add(new_watch("a"), MANY)
        first = await claim(store, "one")
        clock.now += LEASE_S + 1
        await claim(store, "two")
        with pytest.raises(WatchLeaseLostError):
            await finish(store, first, change("12"), notices=["webhook"])
        assert await store.claim_notice(LEASE_S, ALL) is None

    async def test_a_removed_watch_leaves_nothing(self, store: IWatchStore, second: IWatchStore) -> None:
        """A worker that has claimed it writes nothing more, and a new watch with this id starts from the beginning."""
        await store.add(new_watch("a"), MANY)
        await finish(store, await claim(store), change("11"), following=dtos.NextRun(0.0), notices=["webhook"])
        claimed = await claim(store)
        assert await second.remove("", "a")
        assert await store.claim_notice(LEASE_S, ALL) is None
        with pytest.raises(WatchLeaseLostError):
            await finish(store, claimed, change("12"))
        added = await store.add(new_watch("a"), MANY)
        assert added is not None
        assert added.runs == 0
        assert await store.changes("", "a", MANY) == ()
