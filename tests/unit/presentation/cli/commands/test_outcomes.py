"""The commands on stored outcomes, without a process and a broker."""

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta

from tests.fakes.failed_request_store import MemoryFailedRequestStore
from tests.fakes.outcome_store import MemoryOutcomeStore

from modules.llm_platform.domain.dtos.retrieval_dtos import FailedRequest, Outcome, OutcomeFilter, StoredOutcome
from modules.llm_platform.presentation.cli.commands.outcomes import (
    REMOVAL_BATCH_SIZE,
    SHOWN,
    Selection,
    find_failures,
    forget_outcomes,
    selection,
)
from shared.config import Settings

COUNT = 10 * REMOVAL_BATCH_SIZE + 7


class CountedStore(MemoryOutcomeStore):
    """Counts the outcomes that were scanned and not removed yet."""

    def __init__(self) -> None:
        super().__init__()
        self.held = self.most_held = 0

    async def scan(self, wanted: OutcomeFilter) -> AsyncIterator[StoredOutcome]:
        async for stored in super().scan(wanted):
            self.held += 1
            self.most_held = max(self.held, self.most_held)
            yield stored

    async def remove(self, outcomes: Sequence[Outcome]) -> list[bool]:
        self.held -= len(outcomes)
        return await super().remove(outcomes)


class OnceReadStore(MemoryFailedRequestStore):
    """Counts how often all requests were read."""

    reads = 0

    async def list(self) -> list[FailedRequest]:
        self.reads += 1
        return await super().list()


def test_age_beyond_all_dates_is_a_hundred_years() -> None:
    """Any store can subtract it from the time of today. No outcome is older."""
    for age in ("999999999d", "36600d"):
        wanted = selection(Settings(), None, None, None, None, None, age, age).wanted
        assert wanted.min_age_s == wanted.max_age_s == 36_600 * 86_400
        assert datetime.now(UTC) - timedelta(seconds=wanted.min_age_s) > datetime(1900, 1, 1, tzinfo=UTC)


async def test_forgetting_holds_a_batch_at_a_time() -> None:
    """However many outcomes the store has. All are removed and counted, and a dry run shows the first."""
    store, failed = CountedStore(), MemoryFailedRequestStore()
    await store.put_if_absent([Outcome("search", f"r{number}", "result", b"{}", "0") for number in range(COUNT)])
    dry = await forget_outcomes(store, failed, Selection(OutcomeFilter()), removes=False)
    assert (dry.matched, dry.removed, len(dry.shown), dry.ids) == (COUNT, 0, SHOWN, set())
    store.held = store.most_held = 0
    done = await forget_outcomes(store, failed, Selection(OutcomeFilter()), removes=True)
    assert (done.matched, done.removed, store.most_held) == (COUNT, COUNT, REMOVAL_BATCH_SIZE)
    assert [stored async for stored in store.scan(OutcomeFilter())] == []
    named = await forget_outcomes(store, failed, Selection(OutcomeFilter(), ("r1", "r2")), removes=True)
    assert (named.matched, named.ids) == (0, set())


async def test_a_replay_holds_what_it_can_send() -> None:
    """Failures without a stored request are counted by their codes, however many there are, and the requests read once."""
    store, failed = MemoryOutcomeStore(), OnceReadStore()
    body = b'{"error_code": "timeout"}'
    await store.put_if_absent([Outcome("search", f"r{number}", "failed", body, "0") for number in range(COUNT)])
    for request_id in ("r1", "r2", "interrupted"):
        await failed.put(FailedRequest("search", request_id, "", b"{}"))
    found = await find_failures(store, failed, Selection(OutcomeFilter(kind="failed")))
    assert {entry.stored.outcome.request_id for entry in found.ready} == {"r1", "r2"}
    assert [request.request_id for request in found.interrupted] == ["interrupted"]
    assert found.not_stored == {"timeout": COUNT - 2}
    assert failed.reads == 1
