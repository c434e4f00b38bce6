"""The port of traces: spans that are declared in `domain.telemetry.spans`, and the span of the running operation.

A request or a message starts a trace through `ITracer`. Everything below it finds the running span in a context variable,
which tasks inherit, and adds children. Without a running span nothing is recorded: that costs one look-up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractContextManager, aclosing, nullcontext
from contextvars import ContextVar, Token
from functools import wraps
from types import TracebackType
from typing import Any, Final, ParamSpec, Self, TypeVar

from modules.llm_platform.domain.telemetry.metrics import DEFECT, OK, result_label
from modules.llm_platform.domain.telemetry.spans import (
    DATABASE_SPAN,
    DB_OPERATION,
    DB_SYSTEM,
    STAGE,
    STAGE_SPAN,
    SpanType,
)

TRACE_HEADERS: Final = ("traceparent", "tracestate")  # W3C Trace Context

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Item = TypeVar("Item")


class ISpan(ABC):
    """One operation. Calls are cheap, synchronous and thread-safe, and raise nothing."""

    def __init__(self, span_type: SpanType, parent: ISpan | None = None) -> None:
        self.span_type = span_type
        self.parent = parent  # the parent within this process

    @property
    @abstractmethod
    def trace_id(self) -> str:
        """The id of the trace: 32 hexadecimal digits."""

    @abstractmethod
    def headers(self) -> Mapping[str, str]:
        """Return the W3C headers that make an operation elsewhere a child of this span."""

    @abstractmethod
    def child(self, span_type: SpanType, name: str) -> ISpan:
        """Start a child."""

    @abstractmethod
    def set(self, attribute: str, value: str | int | float) -> None:
        """Set an attribute, one that `domain.telemetry.spans` declares for the type of this span."""

    @abstractmethod
    def rename(self, name: str) -> None:
        """Replace the name."""

    @abstractmethod
    def end(self, result: str = OK) -> None:
        """End the span. `result` is ok, cancelled, or the code of the error, as in the metrics."""


class ITracer(ABC):
    """Starts traces and exports them."""

    is_enabled = True

    @abstractmethod
    def start(self, span_type: SpanType, name: str, headers: Mapping[str, str], *, link: bool = False) -> ISpan:
        """Start a span below the parent in the W3C `headers`, or a new trace. With `link` it has a link to it too."""

    @abstractmethod
    async def aclose(self) -> None:
        """Export what has ended, for a few seconds at most. A second call does nothing."""


class NoTracer(ITracer):
    """Traces nothing. The default."""

    is_enabled = False

    def start(self, span_type: SpanType, name: str, headers: Mapping[str, str], *, link: bool = False) -> ISpan:
        return NO_SPAN

    async def aclose(self) -> None:
        pass


class _NoSpan(ISpan):
    @property
    def trace_id(self) -> str:
        return ""

    def headers(self) -> Mapping[str, str]:
        return {}

    def child(self, span_type: SpanType, name: str) -> ISpan:
        return self

    def set(self, attribute: str, value: str | int | float) -> None:
        pass

    def rename(self, name: str) -> None:
        pass

    def end(self, result: str = OK) -> None:
        pass


NO_TRACER: Final = NoTracer()
NO_SPAN: Final[ISpan] = _NoSpan(STAGE_SPAN)

CURRENT_SPAN: ContextVar[ISpan | None] = ContextVar("span", default=None)


def current_span() -> ISpan:
    """Return the running span, for a thread that has another context; NO_SPAN without one."""
    return CURRENT_SPAN.get() or NO_SPAN


def current_trace_headers() -> Mapping[str, str]:
    """Return the W3C headers for a request to a configured upstream; empty without a running span."""
    span = CURRENT_SPAN.get()
    return {} if span is None else span.headers()


def current_trace_id() -> str:
    """Return the id of the running trace; empty without one."""
    span = CURRENT_SPAN.get()
    return "" if span is None else span.trace_id


class running:  # noqa: N801  used like a function
    """Context manager: operations of this context, and of tasks started in it, are children of the span."""

    __slots__ = ("_token", "span")

    def __init__(self, span: ISpan) -> None:
        self.span = span

    def __enter__(self) -> ISpan:
        self._token: Token[ISpan | None] = CURRENT_SPAN.set(self.span)
        return self.span

    def __exit__(self, *_error: object) -> None:
        CURRENT_SPAN.reset(self._token)


class traced:  # noqa: N801  used like a function
    """Context manager around one operation, a child of the running span: its span runs inside and ends with its result.

    `runs` False: the span does not run by itself. For generators, which share the context of their caller (`run_within`).
    """

    __slots__ = ("_name", "_runs", "_span_type", "_token", "span")

    def __init__(self, span_type: SpanType, name: str, *, runs: bool = True) -> None:
        self._span_type = span_type
        self._name = name
        self._runs = runs
        self._token: Token[ISpan | None] | None = None
        self.span = NO_SPAN

    def __enter__(self) -> Self:
        parent = CURRENT_SPAN.get()
        if parent is not None:
            if self._span_type is STAGE_SPAN and parent.span_type is STAGE_SPAN and parent.parent is not None:
                parent = parent.parent  # a stage may start tasks of later stages, which outlive it
            self.span = parent.child(self._span_type, self._name)
            if self._runs:
                self._token = CURRENT_SPAN.set(self.span)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None:
            CURRENT_SPAN.reset(self._token)
        if self.span is not NO_SPAN:
            self.span.end(self._result(error))

    def _result(self, error: BaseException | None) -> str:
        return result_label(error)


class DatabaseCall(traced):
    """The span of one call of a database."""

    __slots__ = ("_operation", "_system")

    def __init__(self, system: str, operation: str = "") -> None:
        super().__init__(DATABASE_SPAN, system)
        self._system = system
        self._operation = operation

    def __enter__(self) -> Self:
        super().__enter__()
        if self.span is not NO_SPAN:
            self.span.set(DB_SYSTEM, self._system)
            if self._operation:
                self.name(self._operation)
        return self

    def name(self, operation: str) -> None:
        """Set the operation, such as SELECT: a word that the program chooses, never the text of a statement."""
        self.span.set(DB_OPERATION, operation)
        self.span.rename(f"{self._system} {operation}")

    def _result(self, error: BaseException | None) -> str:
        """Return the code of our errors, and the class of a driver's error, which says more than `internal`."""
        label = super()._result(error)
        return type(error).__name__ if label == DEFECT else label


_NOT_TRACED: Final = nullcontext()


def database_call(system: str, operation: str = "") -> AbstractContextManager[DatabaseCall | None]:
    """Return a context manager around one call of a database, which gives None without a running span.

    `system` is OpenTelemetry's name of the database, `operation` the name of the command.
    """
    return _NOT_TRACED if CURRENT_SPAN.get() is None else DatabaseCall(system, operation)


def stage(
    name: str,
) -> Callable[[Callable[Parameters, Coroutine[Any, Any, Result]]], Callable[Parameters, Coroutine[Any, Any, Result]]]:
    """Decorate a function so that each call is a span of this stage."""

    def decorate(
        function: Callable[Parameters, Coroutine[Any, Any, Result]],
    ) -> Callable[Parameters, Coroutine[Any, Any, Result]]:
        async def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
            with traced(STAGE_SPAN, name) as operation:
                operation.span.set(STAGE, name)
                return await function(*args, **kwargs)

        @wraps(function)
        def choose(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Coroutine[Any, Any, Result]:
            return function(*args, **kwargs) if CURRENT_SPAN.get() is None else call(*args, **kwargs)

        return choose

    return decorate


async def run_within(span: ISpan, items: AsyncIterator[Item]) -> AsyncGenerator[Item, None]:
    """Yield the items, and close the iterator; the span runs while they are made, and not while the caller uses them."""
    async with aclosing(items) as parts:  # type: ignore[type-var]
        while True:
            with running(span):
                try:
                    item = await anext(parts)
                except StopAsyncIteration:
                    return
            yield item
