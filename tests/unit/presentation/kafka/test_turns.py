"""Turns: those of one key go in order, others do not wait for them."""

from __future__ import annotations

import asyncio
import random

from hypothesis import given
from hypothesis import strategies as st

from modules.llm_platform.presentation.kafka.worker.request import KeyOrder


async def test_those_of_one_key_go_in_order() -> None:
    """However long each takes to come."""
    turns, gone, order = KeyOrder(), [], random.Random(3)
    delays = [order.random() / 200 for _ in range(30)]

    async def go(number: int, delay_s: float) -> None:
        turn = mine[number]
        await asyncio.sleep(delay_s)
        await turn.comes()
        gone.append(number)
        turn.passes()

    mine = [turns.take("a") for _ in delays]
    await asyncio.gather(*(go(number, delay_s) for number, delay_s in enumerate(delays)))
    assert gone == list(range(30))
    assert len(turns) == 0


async def test_other_keys_do_not_wait() -> None:
    """A turn of another key comes at once."""
    turns = KeyOrder()
    turns.take("a")
    async with asyncio.timeout(30):
        await turns.take("b").comes()


async def test_one_that_gives_up_lets_the_next_go() -> None:
    """Also when it was cancelled while it waited."""
    turns = KeyOrder()
    first, second, third = (turns.take("a") for _ in range(3))
    waiting = asyncio.create_task(second.comes())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    second.passes()
    async with asyncio.timeout(30):
        await third.comes()
    first.passes()
    first.passes()
    third.passes()
    assert len(turns) == 0


@given(keys=st.lists(st.sampled_from("abc"), max_size=20), order=st.randoms(use_true_random=False))
def test_no_row_is_left_over(keys: list[str], order: random.Random) -> None:
    """Whoever passes when: at the end nobody is remembered."""
    turns = KeyOrder()
    taken = [turns.take(key) for key in keys]
    order.shuffle(taken)
    for turn in taken:
        turn.passes()
    assert len(turns) == 0
