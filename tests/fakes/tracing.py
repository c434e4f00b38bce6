"""A fake of the tracer, and the contract of `ITracer`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from modules.llm_platform.domain.ports.tracing import (
    ISpan,
    ITracer,
    current_trace_headers,
    database_call,
    run_within,
    running,
    stage,
    traced,
)
from modules.llm_platform.domain.telemetry.metrics import OK
from modules.llm_platform.domain.telemetry.spans import REQUEST_SPAN, STAGE_SPAN, UPSTREAM, UPSTREAM_SPAN, SpanType

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TRACE_ID = PARENT.split("-")[1]
_TRACEPARENT = re.compile("00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")


class EndedSpan(NamedTuple):
    """The recorded data of a span. `parent` and `links` are span ids, and `parent` may be ""."""

    name: str
    trace_id: str
    span_id: str
    parent: str
    attributes: Mapping[str, object]
    links: Sequence[str] = ()


class MemoryTracer(ITracer):
    """`ended` has the spans in the order in which they ended."""

    def __init__(self) -> None:
        self.ended: list[EndedSpan] = []
        self._count = 0

    def start(self, span_type: SpanType, name: str, headers: Mapping[str, str], *, link: bool = False) -> ISpan:
        found = _TRACEPARENT.fullmatch(headers.get("traceparent", ""))
        trace_id, parent = found.groups() if found else ("", "")
        links = (parent,) if link and parent else ()
        return _MemorySpan(self, span_type, name, trace_id or f"{self.next_id():032x}", parent, links=links)

    async def aclose(self) -> None:
        pass

    def next_id(self) -> int:
        self._count += 1
        return self._count


class _MemorySpan(ISpan):
    def __init__(
        self,
        tracer: MemoryTracer,
        span_type: SpanType,
        name: str,
        trace_id: str,
        parent_id: str,
        parent: ISpan | None = None,
        links: Sequence[str] = (),
    ) -> None:
        super().__init__(span_type, parent)
        self._tracer, self._name, self._trace_id, self._parent_id, self._links = (
            tracer,
            name,
            trace_id,
            parent_id,
            links,
        )
        self._id = f"{tracer.next_id():016x}"
        self._attributes: dict[str, object] = {}

    @property
    def trace_id(self) -> str:
        return self._trace_id

    def headers(self) -> Mapping[str, str]:
        return {"traceparent": f"00-{self._trace_id}-{self._id}-01"}

    def child(self, span_type: SpanType, name: str) -> ISpan:
        return _MemorySpan(self._tracer, span_type, name, self._trace_id, self._id, self)

    def set(self, attribute: str, value: str | int | float) -> None:
        self._attributes[attribute] = value

    def rename(self, name: str) -> None:
        self._name = name

    def end(self, result: str = OK) -> None:
        attributes = {**self._attributes, "llm_platform.result": result}
        self._tracer.ended.append(
            EndedSpan(self._name, self._trace_id, self._id, self._parent_id, attributes, self._links)
        )


@contextmanager
def tracing() -> Iterator[list[EndedSpan]]:
    """Run the block in a trace, and yield its ended spans without the root span."""
    tracer = MemoryTracer()
    with running(tracer.start(REQUEST_SPAN, "root", {})):
        yield tracer.ended


ReadSpans = Callable[[], Sequence[EndedSpan]]


class TracerContract:
    """Subclass it and add these fixtures.

    `tracer`: an ITracer that samples everything · `ended`: returns its ended spans, in the order of their ends.
    """

    async def test_a_trace_is_continued(self, tracer: ITracer, ended: ReadSpans) -> None:
        """A span with the headers of another process is its child; its own headers name it as the parent."""
        span = tracer.start(REQUEST_SPAN, "GET", {"traceparent": PARENT})
        sent = span.headers()["traceparent"]
        span.rename("GET /search")
        span.end()
        [found] = ended()
        assert (found.name, found.trace_id, found.parent) == ("GET /search", TRACE_ID, PARENT.split("-")[2])
        assert (span.trace_id, sent) == (TRACE_ID, f"00-{TRACE_ID}-{found.span_id}-01")
        assert not found.links

    async def test_a_link_names_the_sender(self, tracer: ITracer, ended: ReadSpans) -> None:
        """With `link` the span of the sender is the parent and a link; without a sender there is neither."""
        tracer.start(REQUEST_SPAN, "linked", {"traceparent": PARENT}, link=True).end()
        tracer.start(REQUEST_SPAN, "alone", {}, link=True).end()
        linked, alone = ended()
        assert list(linked.links) == [PARENT.split("-")[2]]
        assert not alone.links
        assert not alone.parent

    async def test_concurrent_tasks_have_their_own_parents(self, tracer: ITracer, ended: ReadSpans) -> None:
        """An operation is a child of the operation that started its task, whatever runs concurrently."""

        async def search(name: str) -> None:
            with traced(UPSTREAM_SPAN, f"search {name}") as operation:
                operation.span.set(UPSTREAM, name)
                await asyncio.sleep(0)

        async def request(name: str) -> None:
            span = tracer.start(REQUEST_SPAN, name, {})
            with running(span):
                await asyncio.gather(search(f"{name}1"), search(f"{name}2"))
            span.end()

        await asyncio.gather(request("a"), request("b"))
        spans = {span.name: span for span in ended()}
        for name in ("a", "b"):
            for number in (1, 2):
                child = spans[f"search {name}{number}"]
                assert (child.parent, child.trace_id) == (spans[name].span_id, spans[name].trace_id)
                assert child.attributes[UPSTREAM] == f"{name}{number}"
        assert spans["a"].trace_id != spans["b"].trace_id

    async def test_stages_are_children_of_the_research(self, tracer: ITracer, ended: ReadSpans) -> None:
        """A stage that another stage starts is its sibling; an upstream call is a child of the stage."""

        @stage("search")
        async def search() -> None:
            with traced(UPSTREAM_SPAN, "search fake"):
                pass

        @stage("plan")
        async def plan() -> asyncio.Task[None]:
            return asyncio.create_task(search())

        await plan()  # without a trace nothing is recorded
        root = tracer.start(REQUEST_SPAN, "root", {})
        with running(root):
            await (await plan())
        root.end()
        spans = {span.name: span for span in ended()}
        assert spans["plan"].parent == spans["search"].parent == spans["root"].span_id
        assert spans["search fake"].parent == spans["search"].span_id
        assert len(spans) == 4

    async def test_a_stream_span_covers_only_its_own_work(self, tracer: ITracer, ended: ReadSpans) -> None:
        """Work of the stream's reader between two items is not a child of the stream."""
        made: list[str] = []

        async def numbers() -> AsyncGenerator[int, None]:
            for number in range(3):
                made.append(current_trace_headers()["traceparent"])
                yield number

        root = tracer.start(REQUEST_SPAN, "root", {})
        with running(root):
            with traced(UPSTREAM_SPAN, "stream", runs=False) as stream:
                async for _ in run_within(stream.span, numbers()):
                    with traced(STAGE_SPAN, "reader"):
                        pass
            root.end()
        spans = {span.name: span for span in ended()}
        assert spans["reader"].parent == spans["stream"].parent == spans["root"].span_id
        assert {traceparent.split("-")[2] for traceparent in made} == {spans["stream"].span_id}

    async def test_calls_of_databases(self, tracer: ITracer, ended: ReadSpans) -> None:
        """The spans have the name of the system and of the operation. The result of a driver's error is its class."""
        with database_call("redis", "GET"):  # without a trace nothing is recorded
            pass
        root = tracer.start(REQUEST_SPAN, "root", {})
        with running(root):
            with database_call("redis", "GET"):
                pass
            with suppress(ValueError), database_call("postgresql") as call:
                assert call is not None
                call.name("SELECT")
                raise ValueError("a private text")
        found = [(span.name, span.attributes) for span in ended()]
        assert [name for name, _ in found] == ["redis GET", "postgresql SELECT"]
        assert [f"{attributes['db.system.name']} {attributes['db.operation.name']}" for _, attributes in found] == [
            name for name, _ in found
        ]
        assert [attributes["llm_platform.result"] for _, attributes in found] == ["ok", "ValueError"]
        assert "private" not in str(ended())
        root.end()

    async def test_a_failure_is_the_result(self, tracer: ITracer, ended: ReadSpans) -> None:
        """The result of an operation is ok, cancelled or the code of its error, never its message."""
        root = tracer.start(REQUEST_SPAN, "root", {})
        results: tuple[BaseException, ...] = (ValueError("a private text"), asyncio.CancelledError())
        for error in results:
            try:
                with running(root), traced(UPSTREAM_SPAN, "search fake"):
                    raise error
            except (ValueError, asyncio.CancelledError):
                pass
        with running(root), traced(UPSTREAM_SPAN, "search fake"):
            pass
        assert [span.attributes["llm_platform.result"] for span in ended()] == ["internal", "cancelled", "ok"]
        assert "private" not in str(ended())
        root.end()
