"""domain/concurrency/caller_turns.py: whose turn it is."""

from __future__ import annotations

import asyncio

import pytest

from modules.llm_platform.domain.concurrency.caller_turns import CallerTurns


def test_callers_take_turns() -> None:
    """However much one asks for, another one has the next free place."""
    turns = CallerTurns(1)
    running, *greedy = [turns.ask("greedy") for _ in range(20)]
    other = turns.ask("other")
    assert running.done()
    turns.give_back("greedy")
    assert greedy[0].done()  # it asked first
    turns.give_back("greedy")
    assert other.done()
    assert not greedy[1].done()
    turns.give_back("other")
    assert greedy[1].done()


def test_a_caller_leaves_room_for_others() -> None:
    """While places are held for long, the first caller gets half of them, and the next one half of the rest at once."""
    turns = CallerTurns(16, keeps_room=True)
    first = [turns.ask("first") for _ in range(70)]
    second = [turns.ask("second") for _ in range(70)]
    assert sum(slot.done() for slot in first) == 8
    assert sum(slot.done() for slot in second) == 4
    assert turns.ask("third").done()


def test_a_caller_without_a_name_is_one() -> None:
    """As in a server without API keys, or on the command line."""
    turns = CallerTurns(1)
    assert turns.ask("").done()
    waiting = turns.ask("")
    turns.give_back("")
    assert waiting.done()


async def test_a_caller_that_leaves_holds_no_place() -> None:
    """Whether it waits or was given its place at the same moment."""
    turns = CallerTurns(1)
    await turns.take("a")
    waiting = asyncio.create_task(turns.take("b"))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    late = asyncio.create_task(turns.take("c"))
    await asyncio.sleep(0)
    turns.give_back("a")  # c has the place, and does not know it yet
    late.cancel()
    with pytest.raises(asyncio.CancelledError):
        await late
    async with turns.turn("d"):
        assert not turns.ask("e").done()
