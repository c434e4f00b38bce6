"""Places for stages."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from modules.llm_platform.presentation.kafka.worker.request import Slot, Slots


async def test_so_many_at_once_and_first_come_first_served() -> None:
    """Whoever has to wait has not begun, and gets the next place in its order."""
    slots, begun, most = Slots(2), list[int](), 0
    running: set[int] = set()

    async def run(number: int) -> None:
        nonlocal most
        async with mine[number]:
            begun.append(number)
            running.add(number)
            most = max(most, len(running))
            await asyncio.sleep(0)
            running.remove(number)

    mine = [Slot(slots) for _ in range(9)]
    assert not any(slot.begun for slot in mine)
    await asyncio.gather(*(run(number) for number in range(9)))
    assert (begun, most, slots.free) == (list(range(9)), 2, 2)
    assert all(slot.begun for slot in mine)


async def test_an_error_gives_the_place_back() -> None:
    """A stage that breaks does not keep its place."""
    slots = Slots(1)
    try:
        async with Slot(slots):
            raise ValueError
    except ValueError:
        assert slots.free == 1


@given(cancelled=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 6)), max_size=20), count=st.integers(1, 3))
def test_no_place_is_lost(cancelled: list[tuple[int, int]], count: int) -> None:
    """Whoever is cancelled when, also in the moment in which its place comes: at the end all are free again."""

    async def play() -> None:
        slots = Slots(count)

        async def run() -> None:
            async with Slot(slots):
                await asyncio.sleep(0)

        tasks = [asyncio.create_task(run()) for _ in range(10)]
        for step in range(7):
            for number in [number for number, when in cancelled if when == step]:
                tasks[number].cancel()
            await asyncio.sleep(0)
        async with asyncio.timeout(30):
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(each is None or isinstance(each, asyncio.CancelledError) for each in ended)
        assert slots.free == count

    asyncio.run(play())
