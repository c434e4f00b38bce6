"""Callers of one call get its parts, its result or its error; a late caller begins at the beginning."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial
from typing import Any

import pytest

from modules.llm_platform.domain.concurrency.single_flight import SingleFlight, emit_all
from modules.llm_platform.domain.dtos.llm_dtos import Spending
from modules.llm_platform.domain.exceptions import LLMConnectionError

A_WHILE_S = 60.0


class TestStreams:
    async def test_a_late_caller_gets_the_stream_from_its_beginning(self) -> None:
        """It gets the earlier parts at once, and later parts as they arrive."""
        gate = asyncio.Event()
        starts = 0

        async def parts() -> AsyncIterator[int]:
            nonlocal starts
            starts += 1
            yield 1
            yield 2
            await gate.wait()
            yield 3

        flights: SingleFlight[int] = SingleFlight()
        async with aclosing(flights.stream("key", partial(emit_all, parts))) as first:
            assert [await anext(first), await anext(first)] == [(1, False, False), (2, False, False)]
            async with aclosing(flights.stream("key", partial(emit_all, parts))) as second:
                assert [await anext(second), await anext(second)] == [(1, True, True), (2, True, True)]
                gate.set()
                assert [part async for part in second] == [(3, True, False)]
            assert [part async for part in first] == [(3, False, False)]
        assert starts == 1

    async def test_a_reader_that_leaves_does_not_end_the_stream(self) -> None:
        """The first one too."""

        async def parts() -> AsyncIterator[int]:
            for number in range(3):
                await asyncio.sleep(0)
                yield number

        flights: SingleFlight[int] = SingleFlight()
        first, second = flights.stream("key", partial(emit_all, parts)), flights.stream("key", partial(emit_all, parts))
        await anext(first)
        assert await anext(second) == (0, True, True)
        await first.aclose()
        assert [part.value async for part in second] == [1, 2]

    async def test_a_stream_that_breaks_breaks_for_all_after_its_parts(self) -> None:
        """What came before the error is not lost."""

        async def parts() -> AsyncIterator[int]:
            yield 1
            raise LLMConnectionError(spent=Spending(calls=1))

        async def read(flights: SingleFlight[int]) -> tuple[list[int], int]:
            seen: list[int] = []
            try:
                async for part, *_ in flights.stream("key", partial(emit_all, parts)):
                    seen.append(part)
            except LLMConnectionError as error:
                return seen, error.spent.calls
            raise AssertionError("no error")

        flights: SingleFlight[int] = SingleFlight()
        assert await asyncio.gather(*(read(flights) for _ in range(3))) == [([1], 1), ([1], 0), ([1], 0)]


async def test_closing_cancels_running_calls() -> None:
    """The callers get an error that says so."""
    flights: SingleFlight[int] = SingleFlight()
    began = asyncio.Event()

    async def never() -> int:
        began.set()
        await asyncio.Event().wait()
        raise AssertionError("it was to be stopped")

    caller = asyncio.create_task(flights.run("key", never))
    await asyncio.wait_for(began.wait(), A_WHILE_S)
    await asyncio.wait_for(flights.aclose(), A_WHILE_S)
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(caller, A_WHILE_S)


async def test_an_error_is_not_left_to_asyncio() -> None:
    """A caller that is cancelled in the moment in which its call fails takes the error with it: nothing is logged."""
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    gate = asyncio.Event()

    async def failing() -> int:
        await gate.wait()
        raise LLMConnectionError("refused")

    flights: SingleFlight[int] = SingleFlight()
    caller = asyncio.create_task(flights.run("key", failing))
    await asyncio.sleep(0)  # it waits for its call
    await asyncio.sleep(0)  # the call waits for the gate
    gate.set()
    await asyncio.sleep(0)  # the call has failed, and its caller has not gone on
    caller.cancel()
    await asyncio.wait((caller,))
    assert caller.cancelled()
    del caller  # the frames that it ended in hold the call
    gc.collect()
    assert not reported
