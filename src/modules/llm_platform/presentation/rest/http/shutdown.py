"""Shutdown: not ready at once, running requests finish in time, the others end with an error, the process exits with 0.

The ASGI server stops only after that, because uvicorn closes its sockets first: a load balancer could not read from /ready
that the server stops. Therefore the application handles SIGTERM and SIGINT itself and passes them on afterwards.
"""

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, Protocol, cast, runtime_checkable

INTERRUPTION_S: Final = 1.0  # time for interrupted requests to send their error

SignalHandler = Callable[[int, FrameType | None], Any]


class RunningRequest:
    """One request. `is_interrupted` is True if it was cancelled because the server stops."""

    __slots__ = ("is_interrupted", "task")

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self.task = task
        self.is_interrupted = False

    def accept_interruption(self) -> bool:
        """Return whether the cancellation came from `interrupt`. If so, the task may continue and send an error."""
        if self.is_interrupted:
            self.task.uncancel()
        return self.is_interrupted


class RunningRequests:
    """The requests that the server is answering, and whether it has begun to stop."""

    def __init__(self) -> None:
        self.is_draining = False
        self.draining = asyncio.Event()  # set when `drain` begins
        self._requests: set[RunningRequest] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    def __len__(self) -> int:
        return len(self._requests)

    def add(self) -> RunningRequest:
        """Add the request that the current task answers."""
        request = RunningRequest(cast("asyncio.Task[Any]", asyncio.current_task()))
        self._requests.add(request)
        self._idle.clear()
        return request

    def remove(self, request: RunningRequest) -> None:
        self._requests.discard(request)
        if not self._requests:
            self._idle.set()

    async def drain(self, timeout_s: float) -> None:
        """Wait until no request is running. After `timeout_s`, interrupt the remaining ones."""
        self.is_draining = True
        self.draining.set()
        if not await self._is_idle_within(timeout_s):
            self.interrupt()
            await self._is_idle_within(INTERRUPTION_S)

    def interrupt(self) -> None:
        """Cancel the running requests. Each sends an error, an event stream as its last event."""
        for request in self._requests:
            if not request.is_interrupted:
                request.is_interrupted = True
                request.task.cancel()

    async def _is_idle_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True


class UvicornConfig(Protocol):
    """The part of uvicorn.Config that is used here."""

    timeout_graceful_shutdown: int | None
    http_protocol_class: type[asyncio.Protocol]


@runtime_checkable
class UvicornServer(Protocol):
    """The part of uvicorn.Server, which owns uvicorn's signal handler, that is used here."""

    should_exit: bool
    force_exit: bool
    config: UvicornConfig


class _SignalHandling:
    def __init__(self, requests: RunningRequests, drain_timeout_s: float) -> None:
        self._requests = requests
        self._drain_timeout_s = drain_timeout_s
        self._loop = asyncio.get_running_loop()
        self._replaced: dict[int, SignalHandler] = {}
        self._stopping: asyncio.Task[None] | None = None
        self._has_signal = False

    def install(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            handler = signal.getsignal(number)
            # Other servers drain by their own rules, and an application in a program or a test leaves its signals alone.
            if callable(handler) and _find_owner(handler) is not None:
                self._replaced[number] = handler
                signal.signal(number, self._on_signal)

    def restore(self) -> None:
        for number, handler in self._replaced.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._requests.is_draining = True
        handler = self._replaced[number]
        server: UvicornServer = handler.__self__  # type: ignore[attr-defined]  # see `install`
        if self._has_signal:
            self._loop.call_soon_threadsafe(self._stop_now, server, number, handler)
        else:
            self._has_signal = True
            self._loop.call_soon_threadsafe(self._begin, server, number, handler)

    def _begin(self, server: UvicornServer, number: int, handler: SignalHandler) -> None:
        self._stopping = asyncio.create_task(self._stop(server, number, handler))

    async def _stop(self, server: UvicornServer, number: int, handler: SignalHandler) -> None:
        await self._requests.drain(self._drain_timeout_s)
        if server.config.timeout_graceful_shutdown is None:  # it would wait for a client that does not read
            server.config.timeout_graceful_shutdown = int(INTERRUPTION_S)
        if number == signal.SIGTERM:
            server.should_exit = True  # its own handler would end the process by the signal instead of with 0
        else:
            handler(number, None)

    def _stop_now(self, server: UvicornServer, number: int, handler: SignalHandler) -> None:
        self._requests.interrupt()
        server.should_exit = server.force_exit = True
        if number == signal.SIGINT:
            handler(number, None)


def find_uvicorn_server() -> UvicornServer | None:
    """Return the uvicorn that runs this process: it is found by its signal handler."""
    return _find_owner(signal.getsignal(signal.SIGTERM))


def _find_owner(handler: object) -> UvicornServer | None:
    owner = getattr(handler, "__self__", None)
    return owner if isinstance(owner, UvicornServer) else None


@contextmanager
def drain_on_signals(requests: RunningRequests, drain_timeout_s: float) -> Iterator[None]:
    """Drain on the first SIGTERM or SIGINT before uvicorn stops. On the second one, stop at once.

    This has no effect outside of the main thread, where signals cannot be handled.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handling = _SignalHandling(requests, drain_timeout_s)
    handling.install()
    try:
        yield
    finally:
        handling.restore()
