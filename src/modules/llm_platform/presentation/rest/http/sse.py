"""Server-sent events (docs/reference/http.md): `id:` counts up, `event:` is the type, `data:` is JSON."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, Generic, Protocol, Self, TypeVar

from fastapi import Request, Response
from starlette.types import Receive, Scope, Send

from modules.llm_platform.application.research.events import Done, Failed, ResearchEvent
from modules.llm_platform.domain.concurrency.task_group import cancel_and_wait
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.dtos.research_job_dtos import JobEvent
from modules.llm_platform.presentation.rest.http.access import HEADERS
from modules.llm_platform.presentation.rest.http.disconnect import CancelOnDisconnect
from modules.llm_platform.presentation.rest.http.ignored_fields import tell_in_last_event
from modules.llm_platform.presentation.rest.http.middleware import STREAM_ERROR_HANDLER
from modules.llm_platform.presentation.rest.http.problems import REQUEST_ID, make_problem
from modules.llm_platform.presentation.rest.http.request_scope import (
    ANSWER,
    ERROR,
    get_caller_id,
    get_server_state,
    get_services,
    request_id,
)
from shared.exceptions import AppException

MEDIA_TYPE = "text/event-stream"
HEARTBEAT_S = 15.0  # proxies close a stream without data
FIRST_EVENT_S = 2.0  # a service refuses a call, or says that it is busy, sooner than that
HEARTBEAT = b": still here\n\n"
RecordRun = Callable[[Sequence[ResearchEvent]], Awaitable[Degraded | None]]  # None: stored, or nothing is to be stored


class Event(Protocol):
    """An object with a type that can be serialized to JSON."""

    @property
    def type(self) -> str: ...

    def model_dump_json(self) -> str: ...


def encode_frame(number: int, event: Event) -> bytes:
    return f"id: {number}\nevent: {event.type}\ndata: {event.model_dump_json()}\n\n".encode()


StreamedEvent = TypeVar("StreamedEvent", bound=Event)
EncodedEvent = TypeVar("EncodedEvent", contravariant=True)


class EventEncoder(Protocol[EncodedEvent]):
    """Turns events of a run into the parts of a response, or b"" for an event that is not sent."""

    def encode(self, event: EncodedEvent) -> bytes: ...

    def fail(self, error: AppException, scope: Scope) -> bytes:
        """Return the part that tells the client of an error after the response began."""
        ...


class NumberedEvents:
    """Sends each event under its type, with an `id:` that counts up."""

    def __init__(self) -> None:
        self._sent = 0

    def encode(self, event: Event) -> bytes:
        self._sent += 1
        return encode_frame(self._sent, event)

    def fail(self, error: AppException, scope: Scope) -> bytes:
        return self.encode(Failed(request_id=scope[REQUEST_ID], problem=make_problem(error, scope)))


def accepts_event_stream(request: Request, stream: bool) -> bool:
    """Return whether `stream` is true in the body or the Accept header names event streams."""
    return stream or MEDIA_TYPE.encode() in request.scope[HEADERS].get(b"accept", b"").lower()


def make_numbered_frame(event: JobEvent) -> bytes:
    return encode_frame(event.number, event)


def _no_part(error: AppException, scope: Scope) -> bytes:
    return b""


class DrivenEvents(Generic[StreamedEvent]):
    """The events of a generator, which one task runs to its end.

    So the wait for the first event can be given up without ending the generator, and the generator keeps its context.
    """

    def __init__(self, events: AsyncGenerator[StreamedEvent, None]) -> None:
        # Holds at most an answer that a slow client has not read.
        self._events: asyncio.Queue[StreamedEvent | None] = asyncio.Queue()
        self._task = asyncio.create_task(self._drive(events))
        self._task.add_done_callback(lambda _: self._events.put_nowait(None))

    async def first(self, seconds: float) -> StreamedEvent | None:
        """Return the first event, or None if it does not come in time. Raises the error before it."""
        try:
            async with asyncio.timeout(seconds):
                return await anext(self)
        except TimeoutError:
            return None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamedEvent:
        event = await self._events.get()
        if event is None:
            self._task.result()
            raise StopAsyncIteration
        return event

    async def aclose(self) -> None:
        await cancel_and_wait(self._task)

    async def _drive(self, events: AsyncGenerator[StreamedEvent, None]) -> None:
        async with aclosing(events):
            async for event in events:
                self._events.put_nowait(event)


class EventStream(Response):
    """Sends events as they arrive. Closes their generator when it ends, fails, or the client disconnects.

    `head` is sent before the first event, unless it is b"". Stored events have their own numbers, as `Last-Event-ID` of a later
    request. GuardMiddleware turns an error into the last part, as `fail` says. Without it the stream just ends: clients
    connect again and continue after the last event.
    """

    media_type = MEDIA_TYPE

    def __init__(
        self,
        events: AsyncGenerator[Any, None] | DrivenEvents[Any],
        encode: Callable[[Any], bytes] = make_numbered_frame,
        head: bytes = HEARTBEAT,
        fail: Callable[[AppException, Scope], bytes] = _no_part,
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._events = events
        self._encode = encode
        self._head = head
        self._fail = fail

    @classmethod
    async def start(
        cls,
        request: Request,
        events: AsyncGenerator[StreamedEvent, None],
        encoder: EventEncoder[StreamedEvent] | None = None,
    ) -> Self:
        """Wait for the first event, so that an error before it is an ordinary HTTP error."""
        encoder = encoder or NumberedEvents()
        async with CancelOnDisconnect(request.receive):
            return cls(events, encoder.encode, encoder.encode(await anext(events)), encoder.fail)

    @classmethod
    async def start_soon(
        cls,
        request: Request,
        events: AsyncGenerator[StreamedEvent, None],
        encoder: EventEncoder[StreamedEvent],
    ) -> Self:
        """Start as `start` does, within FIRST_EVENT_S. Then the head goes out, with a sign of life every HEARTBEAT_S, and
        an error is a part of the stream: clients and proxies give up on a model that reads for minutes before its first
        word.
        """
        driven = DrivenEvents(events)
        try:
            async with CancelOnDisconnect(request.receive):
                first = await driven.first(FIRST_EVENT_S)
        except BaseException:  # a cancellation too must end the work that was started
            await driven.aclose()
            raise
        return cls(driven, encoder.encode, HEARTBEAT if first is None else encoder.encode(first), encoder.fail)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def fail(error: AppException) -> None:
            await _send_part(send, self._fail(error, scope))
            await _send_part(send, b"", is_last=True)

        async with aclosing(self._events):
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            scope[STREAM_ERROR_HANDLER] = fail
            async with CancelOnDisconnect(receive), _heartbeat(send):
                await _send_part(send, self._head)
                async for event in self._events:
                    if isinstance(event, Failed):
                        scope[ERROR] = event.problem.get("code")
                    elif event.type == "done":
                        scope[ANSWER] = getattr(event, "response", None)
                    await _send_part(send, self._encode(event))
        await _send_part(send, b"", is_last=True)


async def stream_research(
    request: Request,
    question: ResearchRequest,
    encoder: EventEncoder[ResearchEvent] | None = None,
    record: RecordRun | None = None,
    owner: str | None = None,
) -> EventStream:
    """Return the events of a research run as they happen. The research occupies a slot and stops if the client disconnects.

    - `record` gets all events of a run that has an answer, before the last one is sent, because a client may fetch the run at
      once. The entry that it returns is added to the `degraded` of the answer.
    - `owner` is the caller, by default the caller of the request.
    """
    events = get_services(request).research.stream(
        question,
        request_id=request_id(request),
        owner=get_caller_id(request) if owner is None else owner,
        is_stored=record is not None,
    )
    events = tell_in_last_event(request, events)
    if record is not None:
        events = _record_events(events, record)
    state = get_server_state(request)
    if question.files:
        events = state.runs_over_files.admit(events)
    return await EventStream.start(request, state.researches.admit(events), encoder)


async def _record_events(
    events: AsyncGenerator[ResearchEvent, None], record: RecordRun
) -> AsyncGenerator[ResearchEvent, None]:
    seen: list[ResearchEvent] = []
    async with aclosing(events):
        async for event in events:
            seen.append(event)
            if isinstance(event, Done) and (not_stored := await record(seen)):
                event = event.model_copy(update={"response": event.response.with_degraded(not_stored)})
            yield event


async def _send_part(send: Send, body: bytes, *, is_last: bool = False) -> None:
    if body or is_last:
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
