"""The events of a task, as an iterator."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, TypeVar

from modules.llm_platform.domain.concurrency.task_group import cancel_and_wait

Event = TypeVar("Event")


async def emitted_events(
    run: Callable[[Callable[[Event], None]], Coroutine[Any, Any, None]],
) -> AsyncGenerator[Event, None]:
    """Yield what `run` emits in a task of its own, then raise its error if it failed.

    The run never waits for the reader: events that are not taken yet wait in memory. Closing the iterator cancels the run and
    waits for its end.
    """
    events: asyncio.Queue[Event | None] = asyncio.Queue()
    task = asyncio.create_task(run(events.put_nowait))
    task.add_done_callback(lambda _: events.put_nowait(None))
    try:
        while (event := await events.get()) is not None:
            yield event
        task.result()
    finally:
        await cancel_and_wait(task)
