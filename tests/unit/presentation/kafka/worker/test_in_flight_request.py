"""The states of a request, its slot and its turn."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Hashable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.llm_platform.presentation.kafka.contract.outcomes import OutgoingRecord
from modules.llm_platform.presentation.kafka.worker.in_flight_request import (
    Consumed,
    Ended,
    KeyTurn,
    Preparing,
    Producing,
    Refused,
    Slot,
    Unsettled,
    Working,
)

OUTCOME, FAILURE = OutgoingRecord("out", b"k", b"outcome"), OutgoingRecord("failed", b"k", b"too large")


async def do_nothing(_state: Working | Refused) -> None:
    """The task of a state."""


async def test_a_written_request_passes_every_state() -> None:
    """A refused outcome is sent to the producer again unchanged."""
    turns: dict[Hashable, KeyTurn] = {}
    waiting = Preparing(KeyTurn("k", turns)).work(Slot(asyncio.Semaphore(1)), do_nothing).wait_for_turn()
    assert "k" in turns
    producing = waiting.produce(OUTCOME)
    assert "k" not in turns
    again = producing.refuse(do_nothing).produce_again()
    assert (again.outcome, again.is_replacement) == (OUTCOME, False)
    replaced = again.refuse(do_nothing).replace(FAILURE).refuse(do_nothing).produce_again()
    assert (replaced.outcome, replaced.is_replacement) == (FAILURE, True)
    assert replaced.acknowledge() == Ended(is_written=True)


async def test_every_state_can_be_abandoned() -> None:
    """The next request of the key may proceed, and the offset is not committed."""
    for reach in (
        lambda turn: Preparing(turn),
        lambda turn: Working(turn, Slot(asyncio.Semaphore(1)), do_nothing),
        lambda turn: Working(turn, Slot(asyncio.Semaphore(1)), do_nothing).wait_for_turn(),
    ):
        turns: dict[Hashable, KeyTurn] = {}
        state: Unsettled = reach(KeyTurn("k", turns))
        assert state.abandon() == Ended(is_written=False)
        assert turns == {}
    for state in (Consumed(), Producing(OUTCOME), Producing(OUTCOME).refuse(do_nothing)):
        assert state.abandon() == Ended(is_written=False)


async def test_a_stage_that_ends_in_an_error_has_not_started() -> None:
    """Its request is among those that wait again, and is cancelled as they are; its place is free for the next one."""
    positions = asyncio.Semaphore(1)
    slot = Slot(positions)
    with pytest.raises(KeyError):
        async with slot:
            assert slot.has_started
            raise KeyError
    assert not slot.has_started
    async with slot:
        assert positions.locked()
    assert (slot.has_started, positions.locked()) == (True, False)


async def test_slots_limit_concurrency_in_order() -> None:
    """A waiting request has not started."""
    semaphore, begun, most = asyncio.Semaphore(2), list[int](), 0
    running: set[int] = set()

    async def run(number: int) -> None:
        nonlocal most
        async with mine[number]:
            begun.append(number)
            running.add(number)
            most = max(most, len(running))
            await asyncio.sleep(0)
            running.remove(number)

    mine = [Slot(semaphore) for _ in range(9)]
    assert not any(slot.has_started for slot in mine)
    await asyncio.gather(*(run(number) for number in range(9)))
    assert (begun, most, semaphore._value) == (list(range(9)), 2, 2)
    assert all(slot.has_started for slot in mine)


async def test_failed_stage_releases_its_slot() -> None:
    """A stage that breaks does not keep its place."""
    semaphore = asyncio.Semaphore(1)
    try:
        async with Slot(semaphore):
            raise ValueError
    except ValueError:
        assert semaphore._value == 1


@given(cancelled=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 6)), max_size=20), count=st.integers(1, 3))
def test_cancellation_loses_no_slot(cancelled: list[tuple[int, int]], count: int) -> None:
    """A cancellation releases the slot, even if both happen at once."""

    async def play() -> None:
        semaphore = asyncio.Semaphore(count)

        async def run() -> None:
            async with Slot(semaphore):
                await asyncio.sleep(0)

        tasks = [asyncio.create_task(run()) for _ in range(10)]
        for step in range(7):
            for number in [number for number, when in cancelled if when == step]:
                tasks[number].cancel()
            await asyncio.sleep(0)
        async with asyncio.timeout(30):
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(error is None or isinstance(error, asyncio.CancelledError) for error in ended)
        assert semaphore._value == count

    asyncio.run(play())


async def test_turns_of_one_key_run_in_order() -> None:
    """However long each request takes."""
    turns, order = dict[Hashable, KeyTurn](), random.Random(3)
    gone: list[int] = []
    delays = [order.random() / 200 for _ in range(30)]

    async def go(number: int, delay_s: float) -> None:
        turn = mine[number]
        await asyncio.sleep(delay_s)
        await turn.wait()
        gone.append(number)
        turn.release()

    mine = [KeyTurn("a", turns) for _ in delays]
    await asyncio.gather(*(go(number, delay_s) for number, delay_s in enumerate(delays)))
    assert gone == list(range(30))
    assert len(turns) == 0


async def test_turns_of_other_keys_do_not_wait() -> None:
    """A turn of another key proceeds at once."""
    turns: dict[Hashable, KeyTurn] = {}
    KeyTurn("a", turns)
    async with asyncio.timeout(30):
        await KeyTurn("b", turns).wait()


async def test_cancelled_turn_releases_the_next() -> None:
    """Also when it was cancelled while it waited."""
    turns: dict[Hashable, KeyTurn] = {}
    first, second, third = (KeyTurn("a", turns) for _ in range(3))
    waiting = asyncio.create_task(second.wait())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    second.release()
    async with asyncio.timeout(30):
        await third.wait()
    first.release()
    first.release()
    third.release()
    assert len(turns) == 0


@given(keys=st.lists(st.sampled_from("abc"), max_size=20), order=st.randoms(use_true_random=False))
def test_released_turns_leave_no_state(keys: list[str], order: random.Random) -> None:
    """In whatever order they are released."""
    turns: dict[Hashable, KeyTurn] = {}
    taken = [KeyTurn(key, turns) for key in keys]
    order.shuffle(taken)
    for turn in taken:
        turn.release()
    assert len(turns) == 0
