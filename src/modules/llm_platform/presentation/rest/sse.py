"""An event stream over HTTP (docs/reference/http.md): `id:` counts up, `event:` is the type, `data:` is JSON."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from types import TracebackType
from typing import Any, Protocol, Self, cast

from fastapi import Request, Response
from starlette.types import Receive, Scope, Send

from modules.llm_platform.application.research.events import Failed
from modules.llm_platform.presentation.rest.middleware import HEADERS, LAST_WORD
from modules.llm_platform.presentation.rest.problems import REQUEST_ID, ClientGoneError, problem_object
from shared.exceptions import AppException

# Stop working for a caller who has hung up.


class CancelOnDisconnect:
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


MEDIA_TYPE = "text/event-stream"
PULSE_S = 15.0  # a comment this often keeps proxies from closing a quiet stream
PULSE = b": still here\n\n"
HEAD = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class Event(Protocol):
    """Anything with a type that can be written as JSON."""

    @property
    def type(self) -> str: ...

    def model_dump_json(self) -> str: ...


def streamed_as(*types: str) -> dict[int | str, dict[str, Any]]:
    """The `responses=` of a route that can also answer with events of these types."""
    text = {"type": "string"}
    event = {
        "type": "object",
        "required": ["id", "event", "data"],
        "properties": {"id": text, "event": text, "data": {**text, "contentMediaType": "application/json"}},
    }
    description = f"The answer; as a stream, events of these types (more may come): {', '.join(types)}"
    return {200: {"description": description, "content": {MEDIA_TYPE: {"itemSchema": event}}}}


def frame(number: int, event: Event) -> str:
    """An event as it stands in the stream."""
    return f"id: {number}\nevent: {event.type}\ndata: {event.model_dump_json()}\n\n"


def wants_events(request: Request, stream: bool) -> bool:
    """The body said `stream: true`, or the Accept header names event streams."""
    return stream or MEDIA_TYPE.encode() in request.scope[HEADERS].get(b"accept", b"").lower()


class EventStream(Response):
    """Sends events as they come. The stream is closed when it ends, fails, or the caller hangs up."""

    media_type = MEDIA_TYPE

    def __init__(self, first: Event, rest: AsyncGenerator[Event, None]) -> None:
        super().__init__(headers=HEAD)
        del self.headers["content-length"]
        self._first = first
        self._rest = rest

    @classmethod
    async def begun(cls, request: Request, events: AsyncGenerator[Event, None]) -> Self:
        """The response once the first event is there: an error before it is an ordinary HTTP error."""
        async with CancelOnDisconnect(request.receive):
            return cls(await anext(events), events)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        teller = _EventWriter(scope, send)
        scope[LAST_WORD] = teller.fail  # the guard says it when something happens that nobody expected
        async with aclosing(self._rest), CancelOnDisconnect(receive), _pulse(send):
            await teller.tell(self._first)
            try:
                async for event in self._rest:
                    await teller.tell(event)
            except AppException as error:
                await teller.tell(teller.failed(error))
        await teller.end()


class _EventWriter:
    """Numbers events and sends them."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope = scope
        self._send = send
        self._told = 0

    async def tell(self, event: Event) -> None:
        self._told += 1
        body = frame(self._told, event).encode()
        await self._send({"type": "http.response.body", "body": body, "more_body": True})

    def failed(self, error: AppException) -> Failed:
        """The last event of a stream that cannot go on."""
        return Failed(request_id=self._scope[REQUEST_ID], problem=problem_object(error, self._scope))

    async def fail(self, error: AppException) -> None:
        await self.tell(self.failed(error))
        await self.end()

    async def end(self) -> None:
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})


@asynccontextmanager
async def _pulse(send: Send) -> AsyncIterator[None]:
    async def beat() -> None:
        while True:
            await asyncio.sleep(PULSE_S)
            await send({"type": "http.response.body", "body": PULSE, "more_body": True})

    beating: asyncio.Task[Any] = asyncio.create_task(beat())
    try:
        yield
    finally:
        beating.cancel()
