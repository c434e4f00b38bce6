"""domain/privacy/egress_log.py: who was sent what, kept apart for each research."""

from __future__ import annotations

import asyncio
import contextvars
import threading

from hypothesis import given
from hypothesis import strategies as st

from modules.llm_platform.domain.dtos.sent import Sent
from modules.llm_platform.domain.privacy.egress_log import (
    EgressLog,
    current_egress_log,
    log_not_sent,
    log_sent,
    open_egress_log,
)

HOSTS = st.sampled_from(["a.example", "b.example", "127.0.0.1"])
KINDS = st.sampled_from(["query", "url", "page text"])
NOTES = st.lists(st.tuples(HOSTS, KINDS, st.integers(0, 10_000)))


def test_requests_to_one_host_are_summed_by_kind() -> None:
    """One entry for each host and kind, with the number of requests and the bytes of all."""
    ledger = EgressLog()
    ledger.add("b.example", "query", 10)
    ledger.add("a.example", "url", 3)
    ledger.add("b.example", "page text", 500)
    ledger.add("b.example", "query", 5)
    assert ledger.sent() == (
        Sent(host="a.example", kind="url", requests=1, bytes=3),
        Sent(host="b.example", kind="page text", requests=1, bytes=500),
        Sent(host="b.example", kind="query", requests=2, bytes=15),
    )


@given(NOTES)
def test_no_logged_request_is_lost(notes: list) -> None:
    """The entries contain all logged requests and bytes, with one entry for each host and kind."""
    ledger = EgressLog()
    for note in notes:
        ledger.add(*note)
    sent = ledger.sent()
    assert sum(entry.requests for entry in sent) == len(notes)
    assert sum(entry.bytes for entry in sent) == sum(size for *_, size in notes)
    assert {(entry.host, entry.kind) for entry in sent} == {(host, kind) for host, kind, _ in notes}
    assert len({(entry.host, entry.kind) for entry in sent}) == len(sent)


@given(NOTES, st.tuples(HOSTS, KINDS, st.integers(0, 10_000)))
def test_what_is_taken_back_leaves_no_trace(notes: list, unsent: tuple) -> None:
    """A request that found no connection changes nothing, not even by an entry with zeros."""
    kept, changed = EgressLog(), EgressLog()
    changed.add(*unsent)
    for note in notes:
        kept.add(*note)
        changed.add(*note)
    changed.remove(*unsent)
    assert changed.sent() == kept.sent()


def test_without_a_ledger_notes_go_nowhere() -> None:
    """An adapter need not know whether anybody keeps a ledger; a later one does not hear of it."""
    log_sent("a.example", "query", 1)
    log_not_sent("a.example", "query", 1)
    assert current_egress_log() is None
    with open_egress_log() as ledger:
        assert ledger.sent() == ()


def test_a_ledger_ends_where_it_was_opened() -> None:
    """What is sent after a research run is not written into its ledger, and an inner one gives way to the outer again."""
    with open_egress_log() as outer:
        with open_egress_log() as inner:
            log_sent("inner.example", "query", 1)
        log_sent("outer.example", "query", 1)
    log_sent("late.example", "query", 1)
    assert [entry.host for entry in inner.sent()] == ["inner.example"]
    assert [entry.host for entry in outer.sent()] == ["outer.example"]


async def _research(number: int) -> EgressLog:
    async def branch(step: int) -> None:
        await asyncio.sleep(0)
        log_sent(f"{number}.example", "query", step)
        await asyncio.to_thread(log_sent, f"{number}.example", "url", step)

    with open_egress_log() as ledger:
        async with asyncio.TaskGroup() as group:
            for step in range(5):
                group.create_task(branch(step))
        return ledger


async def test_concurrent_runs_have_separate_logs() -> None:
    """Each concurrent research run logs exactly what its own tasks and threads sent."""
    ledgers = await asyncio.gather(*map(_research, range(20)))
    for number, ledger in enumerate(ledgers):
        host = f"{number}.example"
        assert ledger.sent() == (
            Sent(host=host, kind="query", requests=5, bytes=10),
            Sent(host=host, kind="url", requests=5, bytes=10),
        )


async def test_a_shared_call_is_logged_by_the_run_that_started_it() -> None:
    """If two research runs wait for one answer, only the run that started it has sent the query."""
    flights: list[asyncio.Task[None]] = []
    landing = asyncio.Event()

    async def fly() -> None:
        log_sent("search.example", "query", 9)
        await landing.wait()

    async def research() -> tuple[Sent, ...]:
        with open_egress_log() as ledger:
            if not flights:
                flights.append(asyncio.create_task(fly()))
            await flights[0]
            return ledger.sent()

    both = [asyncio.create_task(research()) for _ in range(2)]
    await asyncio.sleep(0)
    landing.set()
    first, second = await asyncio.gather(*both)
    assert first == (Sent(host="search.example", kind="query", requests=1, bytes=9),)
    assert second == ()


def test_threads_that_were_given_the_ledger_lose_nothing() -> None:
    """Notes from several threads at once are all counted."""
    with open_egress_log() as ledger:
        contexts = [contextvars.copy_context() for _ in range(4)]

    def work() -> None:
        for _ in range(2000):
            log_sent("a.example", "query", 1)

    threads = [threading.Thread(target=context.run, args=(work,)) for context in contexts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.sent() == (Sent(host="a.example", kind="query", requests=8000, bytes=8000),)


def test_requests_through_a_proxy_have_separate_entries() -> None:
    """One host with and without a proxy has two entries. A logged request can be taken back."""
    with open_egress_log() as ledger:
        log_sent("a.example", "query", 10, "proxy.example")
        log_sent("a.example", "query", 5)
        log_sent("a.example", "query", 7, "proxy.example")
        log_not_sent("a.example", "query", 7, "proxy.example")
    assert ledger.sent() == (
        Sent(host="a.example", kind="query", requests=1, bytes=5),
        Sent(host="a.example", kind="query", requests=1, bytes=10, via="proxy.example"),
    )
