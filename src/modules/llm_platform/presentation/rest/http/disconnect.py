"""Cancel the work for a request when its client disconnects."""

import asyncio
from collections.abc import Awaitable
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from fastapi import Request
from starlette.types import Receive

from modules.llm_platform.presentation.rest.http.problems import ClientDisconnectedError
from modules.llm_platform.presentation.rest.http.request_scope import ANSWER

Answer = TypeVar("Answer")


async def run_until_disconnect(request: Request, call: Awaitable[Answer]) -> Answer:
    """Return the answer of a call, which stops if the client disconnects."""
    async with CancelOnDisconnect(request.receive):
        answer = await call
    request.scope[ANSWER] = answer
    return answer


class CancelOnDisconnect:
    """`async with CancelOnDisconnect(receive):` cancels its block and raises ClientDisconnectedError on a disconnect.

    Nothing else may read `receive` in the block. The block must end before the last part of the response is sent, because
    servers send the same message then. Works like `asyncio.timeout`.
    """

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._is_disconnected = False

    async def __aenter__(self) -> Self:
        self._task = cast("asyncio.Task[Any]", asyncio.current_task())  # a coroutine always runs in a task
        self._cancelling = self._task.cancelling()
        self._watcher = asyncio.create_task(self._watch())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watcher.cancel()
        del (
            self._watcher
        )  # its traceback refers to this object, which would keep both until the next garbage collection
        if self._is_disconnected and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise ClientDisconnectedError from error

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._is_disconnected = True
        self._task.cancel()
