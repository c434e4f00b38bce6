"""Server-sent events (docs/reference/http.md): `id:` counts up, `event:` is the type, `data:` is JSON."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, Protocol, Self

from fastapi import Request, Response
from starlette.types import Receive, Scope, Send

from modules.llm_platform.application.research.events import Failed
from modules.llm_platform.domain.dtos.research_dtos import ResearchRequest
from modules.llm_platform.domain.dtos.research_job_dtos import JobEvent
from modules.llm_platform.presentation.rest.http import responses
from modules.llm_platform.presentation.rest.http.access import HEADERS
from modules.llm_platform.presentation.rest.http.middleware import STREAM_ERROR_HANDLER
from modules.llm_platform.presentation.rest.http.problems import REQUEST_ID, problem_object
from shared.exceptions import AppException

MEDIA_TYPE = "text/event-stream"
HEARTBEAT_S = 15.0  # proxies close a stream without data
HEARTBEAT = b": still here\n\n"
RESEARCH_EVENTS = (
    "started", "planned", "searched", "ranked", "read", "summarized", "sources", "token", "reset", "verified", "done",
    "failed",
)
STREAM_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class Event(Protocol):
    """An object with a type that can be serialized to JSON."""

    @property
    def type(self) -> str: ...

    def model_dump_json(self) -> str: ...


def event_stream_response(*types: str) -> dict[int | str, dict[str, Any]]:
    """Return the `responses=` of a route that can also respond with a stream of these event types."""
    text = {"type": "string"}
    event = {
        "type": "object",
        "required": ["id", "event", "data"],
        "properties": {"id": text, "event": text, "data": {**text, "contentMediaType": "application/json"}},
    }
    description = f"The answer; as a stream, events of these types (more may come): {', '.join(types)}"
    return {200: {"description": description, "content": {MEDIA_TYPE: {"itemSchema": event}}}}


def data_stream_response(description: str) -> dict[int | str, dict[str, Any]]:
    """Return the `responses=` of a route whose stream has events with JSON data and, at most, a type."""
    text = {"type": "string"}
    event = {"type": "object", "required": ["data"], "properties": {"event": text, "data": text}}
    return {200: {"description": description, "content": {MEDIA_TYPE: {"itemSchema": event}}}}


def frame(number: int, event: Event) -> bytes:
    """Return one event of the stream."""
    return f"id: {number}\nevent: {event.type}\ndata: {event.model_dump_json()}\n\n".encode()


class EventEncoder(Protocol):
    """Turns the events of a research run into the parts of a response; b"" for an event that is not sent."""

    def encode(self, event: Event) -> bytes: ...

    def fail(self, error: AppException, scope: Scope) -> bytes:
        """Return the part that tells the client of an error after the response began."""
        ...


class NumberedEvents:
    """Each event under its type, with an `id:` that counts up."""

    def __init__(self) -> None:
        self._sent = 0

    def encode(self, event: Event) -> bytes:
        self._sent += 1
        return frame(self._sent, event)

    def fail(self, error: AppException, scope: Scope) -> bytes:
        return self.encode(Failed(request_id=scope[REQUEST_ID], problem=problem_object(error, scope)))


def accepts_event_stream(request: Request, stream: bool) -> bool:
    """Return whether `stream` is true in the body or the Accept header names event streams."""
    return stream or MEDIA_TYPE.encode() in request.scope[HEADERS].get(b"accept", b"").lower()


class EventStream(Response):
    """Sends events as they arrive; closes their generator when it ends, fails, or the client disconnects.

    GuardMiddleware turns an error into the last event, `failed`.
    """

    media_type = MEDIA_TYPE

    def __init__(self, first: Event, rest: AsyncGenerator[Event, None], encoder: EventEncoder) -> None:
        super().__init__(headers=STREAM_HEADERS)
        del self.headers["content-length"]
        self._first = first
        self._rest = rest
        self._encoder = encoder

    @classmethod
    async def start(
        cls, request: Request, events: AsyncGenerator[Event, None], encoder: EventEncoder | None = None
    ) -> Self:
        """Wait for the first event, so that an error before it is an ordinary HTTP error."""
        async with responses.CancelOnDisconnect(request.receive):
            return cls(await anext(events), events, encoder or NumberedEvents())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def fail(error: AppException) -> None:
            await _send_part(send, self._encoder.fail(error, scope))
            await _send_part(send, b"", is_last=True)

        async with aclosing(self._rest):
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            scope[STREAM_ERROR_HANDLER] = fail
            async with responses.CancelOnDisconnect(receive), _heartbeat(send):
                await self._send_event(send, self._first)
                async for event in self._rest:
                    if event.type == "done":
                        scope[responses.ANSWER] = getattr(event, "response", None)
                    elif isinstance(event, Failed):
                        scope[responses.ERROR] = event.problem.get("code")
                    await self._send_event(send, event)
        await _send_part(send, b"", is_last=True)

    async def _send_event(self, send: Send, event: Event) -> None:
        if part := self._encoder.encode(event):
            await _send_part(send, part)


async def stream_research(
    request: Request, question: ResearchRequest, encoder: EventEncoder | None = None
) -> EventStream:
    """Return the events of a research run as they happen. The research occupies a slot and stops if the client disconnects."""
    events = responses.services(request).research.stream(
        question, request_id=responses.request_id(request), owner=responses.caller_id(request)
    )
    return await EventStream.start(request, responses.server_state(request).researches.admitted(events), encoder)


async def _send_part(send: Send, body: bytes, *, is_last: bool = False) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": not is_last})


@asynccontextmanager
async def _heartbeat(send: Send) -> AsyncIterator[None]:
    async def beat() -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            await _send_part(send, HEARTBEAT)

    task: asyncio.Task[Any] = asyncio.create_task(beat())
    try:
        yield
    finally:
        task.cancel()


class ResumableEventStream(Response):
    """Sends stored events under their own numbers, as `Last-Event-ID` of a later request.

    It just ends when the server stops: clients connect again and go on after the last event.
    """

    media_type = MEDIA_TYPE

    def __init__(self, events: AsyncGenerator[JobEvent, None]) -> None:
        super().__init__(headers=STREAM_HEADERS)
        del self.headers["content-length"]
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def end(error: AppException) -> None:
            await _send_part(send, b"", is_last=True)

        async with aclosing(self._events):
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await _send_part(send, HEARTBEAT)  # the head goes out before the first event
            scope[STREAM_ERROR_HANDLER] = end
            async with responses.CancelOnDisconnect(receive), _heartbeat(send):
                async for event in self._events:
                    await _send_part(send, frame(event.number, event))
        await _send_part(send, b"", is_last=True)
