"""The error of a stream of events, as its last event."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeVar

from modules.llm_platform.application.research.events import Failed
from shared.exceptions import AppException

Event = TypeVar("Event")


async def end_with_failed(
    events: AsyncGenerator[Event, None], request_id: str, *, instance: str
) -> AsyncGenerator[Event | Failed, None]:
    """Yield the events; an error after the first one becomes the event Failed. An error before it is raised."""
    has_begun = False
    async with aclosing(events):
        try:
            async for event in events:
                has_begun = True
                yield event
        except AppException as error:
            if not has_begun:
                raise
            yield Failed(request_id=request_id, problem=error.problem(instance=instance, request_id=request_id))
