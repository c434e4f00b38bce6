"""The call of a tool as its transport passes it on: the caller, its limits, and the end of the connection."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, TypeVar

from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchResponse
from shared.exceptions import AppException

Result = TypeVar("Result")


class Call:
    """One call from the only user of a process, over stdio. HTTP overrides what differs there.

    - `owner` identifies the caller.
    - `request_id` identifies the request.
    - `closed` is set when the client has left. It is None if the process ends with the client.
    - `owns_all_reports` is True if there is a single caller, who may read all stored reports.
    """

    owner: str = ""
    request_id: str | None = None
    closed: asyncio.Event | None = None
    owns_all_reports: bool = True

    async def start(self) -> None:
        """Count the call for the rate limits. Runs in the task of the call. Raises RateLimitedError."""

    async def start_reading(self) -> None:
        """Count a call that searches or reads, as `start` does."""
        await self.start()

    def research_slot(self) -> AbstractAsyncContextManager[None]:
        """Return a slot for one research run. Raises OverloadedError."""
        return nullcontext()

    def answered(self, answer: ResearchResponse | WebSearchResponse) -> None:
        """Receive the answer, for the log."""

    def failed(self, error: AppException) -> None:
        """Receive the error of the call, for the log."""


CallOf = Callable[[Any], Call]  # makes a call from the request of the transport, which is None over stdio


class ClientLeftError(Exception):
    """The client closed the connection before the call ended, so nobody gets its result."""


async def run_call(work: Coroutine[Any, Any, Result], closed: asyncio.Event | None) -> Result:
    """Run the work in a task of its own, until the client leaves or the SDK cancels.

    In a task of its own, because a cancelled scope of anyio raises at every await, also in the clean-up of a research run.
    """
    task = asyncio.create_task(work)
    leaving = asyncio.create_task(closed.wait()) if closed else None
    try:
        await asyncio.wait({task, leaving} if leaving else {task}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientLeftError
        return task.result()
    finally:
        task.cancel()
        if leaving:
            leaving.cancel()
