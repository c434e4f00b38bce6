"""Stop working for a caller who has hung up."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Self, cast

from starlette.types import Receive

from modules.llm_platform.presentation.rest.errors import ClientGoneError


class WhileConnected:
    """`async with WhileConnected(receive):` cancels its block when the caller hangs up, and raises ClientGoneError.

    Nothing else may read `receive` meanwhile, and the block must end before the last piece of the answer is sent, since
    servers tell "hung up" and "all sent" with the same message. Works as `asyncio.timeout` does.
    """

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._gone = False

    async def __aenter__(self) -> Self:
        self._task = cast("asyncio.Task[Any]", asyncio.current_task())  # a coroutine always runs in one
        self._cancelling = self._task.cancelling()
        self._watcher = asyncio.create_task(self._watch())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watcher.cancel()
        if self._gone and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise ClientGoneError from error

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone = True
        self._task.cancel()
