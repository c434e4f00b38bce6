"""The tracer of OpenTelemetry's SDK and the fake fulfil the contract of the port."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.fakes.tracing import PARENT, EndedSpan, MemoryTracer, ReadSpans, TracerContract

from modules.llm_platform.domain.ports.tracing import ITracer
from modules.llm_platform.domain.telemetry.spans import REQUEST_SPAN
from modules.llm_platform.infrastructure.telemetry.otel_tracer import OtelTracer


def read_span(span: ReadableSpan) -> EndedSpan:
    """Return what the contract reads, of a span of the SDK."""
    return EndedSpan(
        span.name,
        f"{span.context.trace_id:032x}",
        f"{span.context.span_id:016x}",
        f"{span.parent.span_id:016x}" if span.parent else "",
        dict(span.attributes or {}),
        [f"{link.context.span_id:016x}" for link in span.links],
    )


class TestOtelTracer(TracerContract):
    @pytest.fixture
    def exporter(self) -> InMemorySpanExporter:
        return InMemorySpanExporter()

    @pytest.fixture
    async def tracer(self, exporter: InMemorySpanExporter) -> AsyncIterator[ITracer]:
        tracer = OtelTracer("test", "1", SimpleSpanProcessor(exporter))
        yield tracer
        await tracer.aclose()

    @pytest.fixture
    def ended(self, exporter: InMemorySpanExporter) -> ReadSpans:
        return lambda: [read_span(span) for span in exporter.get_finished_spans()]


class TestMemoryTracer(TracerContract):
    @pytest.fixture
    def tracer(self) -> MemoryTracer:
        return MemoryTracer()

    @pytest.fixture
    def ended(self, tracer: MemoryTracer) -> ReadSpans:
        return lambda: tracer.ended


@pytest.mark.parametrize("name", ["traceparent", "tracestate"])
async def test_an_untrusted_trace_header_is_limited(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """The header is forwarded to upstreams, which refuse long heads. A long header is dropped without a log line."""
    sent = {
        "traceparent": PARENT,
        "tracestate": "known=1",
        name: ",".join(f"k{number}={'v' * 200}" for number in range(30)),
    }
    tracer = OtelTracer("test", "1")
    headers = tracer.start(REQUEST_SPAN, "GET", sent).headers()
    await tracer.aclose()
    assert sum(map(len, headers.values())) < 200
    assert ("known=1" in headers.values(), caplog.text) == (False, "")
