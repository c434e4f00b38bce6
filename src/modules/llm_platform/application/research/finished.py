"""A report that ended, as the store keeps it: told again event for event, without a network (interface.md, "Events")."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated

from pydantic import ConfigDict, Field, field_validator

from modules.llm_platform.application.research.events import Done, ResearchEvent
from modules.llm_platform.application.research.plan import PLAN_VERSION
from modules.llm_platform.application.research.queries import QUERIES_VERSION
from modules.llm_platform.application.research.rank import RANK_VERSION
from modules.llm_platform.application.research.report_run import ReportTools
from modules.llm_platform.application.research.retold import retold
from modules.llm_platform.application.research.shelf import Shelf
from modules.llm_platform.application.research.summarize import SUMMARY_VERSION
from modules.llm_platform.domain.dtos.report_dtos import LLMStage
from modules.llm_platform.domain.dtos.research_dtos import ResearchRequest, ResearchResponse, Source
from modules.llm_platform.domain.dtos.store_dtos import EndsTopic
from modules.llm_platform.domain.store_key import store_key

STAGES: tuple[LLMStage, ...] = ("plan", "queries", "rank", "summarize", "write")
PROMPTS = f"{PLAN_VERSION}.{QUERIES_VERSION}.{RANK_VERSION}.{SUMMARY_VERSION}"
# Of a request, what changes how the answer is given, not what it is. Limits: a report that left something out is not kept.
NO_PART = {"omit_raw", "fresh", "depth", "max_llm_calls", "max_cost_usd", "max_seconds"}


class FinishedReport(EndsTopic):
    """What a report told from its first event to its last, and the texts that its quotes point into.

    `asked` is the key of the request alone, whatever its plan: offline, when nobody can be asked, it is what counts.
    """

    model_config = ConfigDict(frozen=True)

    asked: str
    finished_at: datetime
    events: tuple[Annotated[ResearchEvent, Field(discriminator="type")], ...]
    sources: tuple[Source, ...]

    @field_validator("events")
    @classmethod
    def _ends(cls, events: tuple[ResearchEvent, ...]) -> tuple[ResearchEvent, ...]:
        """What was carried here from elsewhere may be anything; without an answer at its end it is no report."""
        if not events or not isinstance(events[-1], Done):
            raise ValueError("must end with done")
        return events

    @property
    def plan(self) -> tuple[str, ...]:
        """Its sub-questions, be they the model's or a person's."""
        return self._response.metadata.plan

    def told_again(self, request_id: str) -> Iterator[ResearchEvent]:
        """The same events but the last, under another id."""
        return (event.model_copy(update={"request_id": request_id}) for event in self.events[:-1])

    @property
    def answer_again(self) -> ResearchResponse:
        """The answer, which says when it was made, and that this time nothing was spent."""
        response = self._response
        metadata = response.metadata.model_copy(
            update={
                "cache_hit": True,
                "stored_at": self.finished_at,
                "tokens_used": 0,
                "cost_usd": 0.0,
                "searches": 0,
                "llm_calls": 0,
                "sent_to": (),
            }
        )
        return response.model_copy(update={"metadata": metadata})

    @property
    def _response(self) -> ResearchResponse:
        done = self.events[-1]
        if not isinstance(done, Done):
            raise AssertionError("the validator lets nothing else through")
        return done.response


class FinishedMark(EndsTopic):
    """Says that a report of the topic ended whose answer is not stored, since it rests on documents, which may change."""

    model_config = ConfigDict(frozen=True)

    finished_at: datetime


async def find_finished(
    shelf: Shelf, key: str, request: ResearchRequest, language: str, *, offline: bool
) -> FinishedReport | None:
    """The report that was made of this request by the same models, engines and prompts (`report_key`); offline, by
    whomever. It may have come from anywhere: what may not be told of it is gone.
    """
    found = await shelf.get("answers", key, FinishedReport)
    if found is None and offline:
        asked = asked_key(request, language)
        finished = [
            each
            for each in await shelf.values("answers", FinishedReport)
            if each.asked == asked and request.plan in (None, each.plan)
        ]
        found = max(finished, key=lambda each: each.finished_at, default=None)
    return found and await asyncio.to_thread(_harmless, found, request, language)


def _harmless(found: FinishedReport, request: ResearchRequest, language: str) -> FinishedReport | None:
    may_be_told = retold(found.events, found.sources, request, language)
    if may_be_told is None:
        return None
    events, sources = may_be_told
    return found.model_copy(update={"events": events, "sources": sources})


async def keep_finished(
    shelf: Shelf, key: str, request: ResearchRequest, language: str, *,
    events: tuple[ResearchEvent, ...], sources: tuple[Source, ...],
) -> None:  # fmt: skip
    """Put the report into the store, under its `report_key`."""
    finished = FinishedReport(
        asked=asked_key(request, language), finished_at=datetime.now(UTC), events=events, sources=sources
    )
    await shelf.put("answers", key, finished)


async def mark_finished(shelf: Shelf, key: str) -> None:
    """Say in the store that the report with this `report_key` ended, without its answer."""
    await shelf.put("answers", shelf.key("", "", finished=key), FinishedMark(finished_at=datetime.now(UTC)))


def asked_key(request: ResearchRequest, language: str) -> str:
    """What was asked for, whoever answers."""
    asked = {name: value for name, value in _asked(request).items() if name != "plan"}
    return store_key(version="", model="", language=language, request=asked)


def report_key(shelf: Shelf, tools: ReportTools, request: ResearchRequest) -> str:
    """What was asked for, and all that has a part in the answer."""
    options = tools.options
    writer = tools.writer(tools.llms.get("write"), options.context_tokens)
    judge = tools.judge(tools.llms.get("judge")) if tools.judge else None
    by = [tools.label(part) for part in ("search", "read", *STAGES, *(("judge",) if judge else ()))]
    versions = [PROMPTS, writer.version, *([judge.version] if judge else ())]
    return shelf.key(
        "|".join(versions), "|".join(by), request=_asked(request),
        made=(options.pages, options.queries_per_language, options.query_languages, options.results_per_search,
              options.max_tokens),
    )  # fmt: skip


def _asked(request: ResearchRequest) -> dict[str, object]:
    # A door's own fields, such as whether the answer is streamed, have no part in it either.
    parts = set(ResearchRequest.model_fields) - NO_PART
    given = request.model_dump(mode="json", include=parts, exclude_none=True)
    # Addresses alone, or beside a search: that depends on whether sources were asked for. Without addresses it is no matter:
    # a command names its sources and a client over HTTP leaves them out, and each finds the report of the other.
    return given | ({"searched": "sources" in request.model_fields_set} if request.urls else {})
