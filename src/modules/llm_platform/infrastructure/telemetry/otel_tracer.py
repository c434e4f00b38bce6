"""Traces with OpenTelemetry's SDK, which reads the standard OTEL_… variables (sampler, resource, batches, exporter)."""

import asyncio
import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Final, TextIO

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
from opentelemetry.trace import Link, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from modules.llm_platform.domain.ports.tracing import ISpan, ITracer
from modules.llm_platform.domain.telemetry.metrics import CANCELLED, OK
from modules.llm_platform.domain.telemetry.spans import ERROR_TYPE, RESULT, SpanType

FLUSH_S: Final = 3.0  # wait at the end; spans that the collector has not accepted by then are lost
UNKNOWN_SERVICE: Final = "unknown_service"  # the SDK's name for a service without OTEL_SERVICE_NAME
# Of traceparent and tracestate. What a stranger sends is passed on to the upstreams; one that refuses headers of 8 KB would
# seem to be down.
MAX_HEADER_CHARS: Final = 512
KINDS: Final = {kind.name.lower(): kind for kind in SpanKind}

_W3C: Final = TraceContextTextMapPropagator()


def make_processors(names: Iterable[str], console: TextIO) -> Iterator[SpanProcessor]:
    """Yield a processor for each exporter: otlp (HTTP), or console."""
    for name in names:
        if name == "console":
            yield BatchSpanProcessor(ConsoleSpanExporter(out=console))
            continue
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        yield BatchSpanProcessor(OTLPSpanExporter())


class OtelTracer(ITracer):
    """A tracer provider of its own: nothing is registered for the process, so two platforms do not share it.

    Spans are exported in batches by a thread. A collector that is away costs the spans, after the queue of the SDK is full.
    """

    def __init__(self, service: str, version: str, *processors: SpanProcessor) -> None:
        resource = Resource.create({SERVICE_VERSION: version})
        if str(resource.attributes.get(SERVICE_NAME, UNKNOWN_SERVICE)).startswith(UNKNOWN_SERVICE):
            resource = resource.merge(Resource({SERVICE_NAME: service}))
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        for processor in processors:
            self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("llm-platform", version)
        self._is_closed = False

    def start(self, span_type: SpanType, name: str, headers: Mapping[str, str], *, link: bool = False) -> ISpan:
        known = {name: value for name, value in headers.items() if len(value) <= MAX_HEADER_CHARS}
        context = _W3C.extract(known, Context()) if known else Context()
        sender = trace.get_current_span(context).get_span_context()
        links = [Link(sender)] if link and sender.is_valid else None
        span = self._tracer.start_span(name, context, KINDS[span_type.kind], links=links)
        return OtelSpan(self._tracer, span, span_type)

    async def aclose(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # a lost batch was reported before
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def shut_down() -> None:
            self._provider.shutdown()
            if not loop.is_closed():
                loop.call_soon_threadsafe(done.set)

        # A daemon thread: one of the pool would keep the process alive while the collector does not answer.
        threading.Thread(target=shut_down, name="otel-shutdown", daemon=True).start()
        try:
            async with asyncio.timeout(FLUSH_S):
                await done.wait()
        except TimeoutError:
            pass


class OtelSpan(ISpan):
    """A span of the SDK. A span that is not sampled stands for all its children, so it makes none."""

    def __init__(
        self, tracer: trace.Tracer, span: trace.Span, span_type: SpanType, parent: ISpan | None = None
    ) -> None:
        super().__init__(span_type, parent)
        self._tracer = tracer
        self._span = span

    @cached_property
    def _context(self) -> Context:
        return trace.set_span_in_context(self._span, Context())

    @property
    def trace_id(self) -> str:
        return trace.format_trace_id(self._span.get_span_context().trace_id)

    def headers(self) -> Mapping[str, str]:
        headers: dict[str, str] = {}
        _W3C.inject(headers, self._context)
        return headers

    def child(self, span_type: SpanType, name: str) -> ISpan:
        span = self._span
        if span.get_span_context().trace_flags.sampled:
            span = self._tracer.start_span(name, self._context, KINDS[span_type.kind])
        return OtelSpan(self._tracer, span, span_type, self)

    def set(self, attribute: str, value: str | int | float) -> None:
        self._span.set_attribute(attribute, value)

    def rename(self, name: str) -> None:
        self._span.update_name(name)

    def end(self, result: str = OK) -> None:
        self._span.set_attribute(RESULT, result)
        if result != OK:
            self._span.set_attribute(ERROR_TYPE, result)
            if result != CANCELLED:
                self._span.set_status(Status(StatusCode.ERROR))
        self._span.end()
