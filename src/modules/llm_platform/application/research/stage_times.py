"""Measure a research run by its events: its result, its duration, the time of each stage, and its span."""

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

from modules.llm_platform.application.research.events import Done, ResearchEvent
from modules.llm_platform.application.research.run import EmitEvent
from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.ports.metrics import IMetrics
from modules.llm_platform.domain.ports.tracing import NO_SPAN, traced
from modules.llm_platform.domain.telemetry.metrics import (
    RESEARCH_DURATION,
    RESEARCH_PAGES,
    RESEARCHES,
    STAGE_DURATION,
    result_label,
)
from modules.llm_platform.domain.telemetry.spans import CACHE, COST, DEGRADED, DEPTH, REQUEST_ID, RESEARCH_SPAN, SOURCES

# Maps an event type to the stage that the first such event ends, in the order of the stages. The stages of a report overlap:
# "read" covers ranking, reading and summaries, from the first ranked results to the numbered sources.
_ENDS: Final[Mapping[str, str]] = {"planned": "plan", "sources": "search"}
_ENDS_OF_REPORT: Final[Mapping[str, str]] = {"planned": "plan", "ranked": "search", "sources": "read"}


class StageTimes:
    """Context manager around one research run. `emit` records the time of each event and passes the event on.

    The stage `write` ends with the last token. The stage `verify` ends with the call of `end_verification`, or with the answer
    (Done) without such a call. The stage `output` follows if the answer has an output. A run without tokens has none of these
    three stages. The stages of a replayed report are not measured.
    """

    __slots__ = ("_began", "_depth", "_emit", "_ended", "_ends", "_last_token", "_metrics", "_traced", "_verified")

    def __init__(self, depth: str, metrics: IMetrics, emit: EmitEvent) -> None:
        self._depth = depth
        self._metrics = metrics
        self._emit = emit
        self._traced = traced(RESEARCH_SPAN, f"research {depth}")
        self._ends = dict(_ENDS_OF_REPORT if depth == "report" else _ENDS)
        self._ended: list[tuple[str, float]] = []  # stage and time of its end
        self._last_token: float | None = None
        self._verified: float | None = None

    def __enter__(self) -> Self:
        self._began = time.perf_counter()
        self._traced.__enter__().span.set(DEPTH, self._depth)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._metrics.count(RESEARCHES, self._depth, result_label(error))
        if error is None:
            self._metrics.observe(RESEARCH_DURATION, time.perf_counter() - self._began, self._depth)
        self._traced.__exit__(kind, error, trace)

    def end_verification(self) -> None:
        """Record the time at which the answer is complete except for its output."""
        self._verified = time.perf_counter()

    def emit(self, event: ResearchEvent) -> None:
        if event.type == "token":
            self._last_token = time.perf_counter()
        elif stage := self._ends.pop(event.type, None):
            self._ended.append((stage, time.perf_counter()))
        elif isinstance(event, Done):
            self._describe(event.response)
            if event.response.metadata.stored_at is None:
                self._observe(time.perf_counter(), has_output=event.response.output is not None)
                metadata = event.response.metadata
                self._metrics.count(RESEARCH_PAGES, self._depth, "read", by=metadata.pages_read)
                self._metrics.count(RESEARCH_PAGES, self._depth, "cited", by=metadata.pages_cited)
        self._emit(event)

    def _describe(self, response: ResearchResponse) -> None:
        span, metadata = self._traced.span, response.metadata
        if span is NO_SPAN:
            return
        span.set(REQUEST_ID, metadata.request_id)
        span.set(CACHE, "hit" if metadata.cache_hit else "miss")
        span.set(SOURCES, len(response.sources))
        span.set(DEGRADED, len(response.degraded))
        if metadata.cost_usd is not None:
            span.set(COST, metadata.cost_usd)

    def _observe(self, now: float, *, has_output: bool) -> None:
        if self._last_token is not None:
            self._ended += [("write", self._last_token), ("verify", self._verified or now)]
            self._ended += [("output", now)] if has_output else []
        began = self._began
        for stage, ended in self._ended:
            self._metrics.observe(STAGE_DURATION, max(0.0, ended - began), self._depth, stage)
            began = ended
