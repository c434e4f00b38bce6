"""A report that ended, as the store keeps it: told again event for event, without a network (docs/reference/http.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, Final

from pydantic import ConfigDict, Field, field_validator

from modules.llm_platform.application.research.events import (
    Done,
    Failed,
    Kept,
    Planned,
    Ranked,
    Read,
    ResearchEvent,
    Reset,
    Searched,
    SourcesNumbered,
    Started,
    Summarized,
    Token,
)
from modules.llm_platform.application.research.plan import PLAN_VERSION, is_query
from modules.llm_platform.application.research.report.checkpoint_store import CheckpointStore
from modules.llm_platform.application.research.report.queries import QUERIES_VERSION
from modules.llm_platform.application.research.report.rank import RANK_VERSION
from modules.llm_platform.application.research.report.run import ReportTools
from modules.llm_platform.application.research.report.sources import MAX_SOURCE_CHARS
from modules.llm_platform.application.research.report.summarize import SUMMARY_VERSION
from modules.llm_platform.application.research.response import source_ref
from modules.llm_platform.application.research.search import MAX_RESULT_CHARS, MAX_TITLE_CHARS
from modules.llm_platform.domain.canonical_url import is_openable
from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.citations.judged import within_limits
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.report_dtos import LLMStage
from modules.llm_platform.domain.dtos.research_dtos import (
    MAX_PLAN_QUESTIONS,
    Citation,
    RawResult,
    ResearchRequest,
    ResearchResponse,
    Source,
)
from modules.llm_platform.domain.dtos.store_dtos import EndsTopic
from modules.llm_platform.domain.markdown.sanitizer import sanitize
from modules.llm_platform.domain.store_key import store_key

# A finished report out of the store may have been carried here from elsewhere: what is told of it passes the same rules
# as what is made here. Of a report that was made here nothing is changed.


MAX_EVENTS: Final = 50_000
MAX_SOURCES: Final = 100
MAX_RAW_RESULTS: Final = 5000
MAX_TEXT_CHARS: Final = 1_000_000  # of the answer
MAX_WORDS_CHARS: Final = 2000  # of a reason, a name, a suggestion
MAX_NOTES: Final = 500


def replay_events(
    events: Sequence[ResearchEvent], sources: Sequence[Source], request: ResearchRequest, language: str
) -> tuple[tuple[ResearchEvent, ...], tuple[Source, ...]] | None:
    """The events of a finished report and its sources, as they may be told; None where there is more than one can hold.

    Addresses that no source may bear are gone, the text has passed the sanitiser, and where anything was changed, or a
    quote does not stand in its source, the citations are checked anew.
    """
    done = events[-1]
    text_chars = sum(len(event.text) for event in events if isinstance(event, Token))
    too_many = len(events) > MAX_EVENTS or len(sources) > MAX_SOURCES
    if too_many or text_chars > MAX_TEXT_CHARS or not isinstance(done, Done):
        return None
    good = tuple(_source(each) for each in {each.index: each for each in sources}.values() if is_openable(each.url))
    may_be_named = {*request.urls}.__contains__
    told = [each for event in events[:-1] if (each := _event(event, good, may_be_named)) is not None]
    events, text = _sanitised(told, good)
    answer = _answer(done.response, text, good, request, language)
    return (*events, done.model_copy(update={"response": answer})), good


def _sanitised(told: Sequence[ResearchEvent], sources: Sequence[Source]) -> tuple[tuple[ResearchEvent, ...], str]:
    """The events, and the text since the last reset. A text that the sanitiser changes is told in one piece."""
    events: list[ResearchEvent] = []
    text = ""
    parts = _between_resets(told)
    for part in parts:
        written = "".join(event.text for event in part if isinstance(event, Token))
        text = sanitize(written, sources)
        broken_off = part is not parts[-1] and text.startswith(written)  # only what was open at its end was closed
        events.extend(part if text == written or broken_off else _in_one_piece(part, text))
    return tuple(events), text


def _between_resets(told: Sequence[ResearchEvent]) -> list[list[ResearchEvent]]:
    parts: list[list[ResearchEvent]] = [[]]
    for event in told:
        if isinstance(event, Reset):
            parts.append([])
        parts[-1].append(event)
    return parts


def _in_one_piece(part: Iterable[ResearchEvent], text: str) -> Iterator[ResearchEvent]:
    for event in part:
        if not isinstance(event, Token):
            yield event
        elif text:
            yield event.model_copy(update={"text": text})
            text = ""


def _event(event: ResearchEvent, sources: Sequence[Source], given: Callable[[str], bool]) -> ResearchEvent | None:
    """The event as it may be told; None where it names what no result may be called."""
    match event:
        case Planned():
            return event.model_copy(update={"questions": _questions(event.questions)})
        case Searched():
            short = {"query": event.query[:MAX_WORDS_CHARS], "provider": event.provider[:MAX_WORDS_CHARS]}
            return event.model_copy(update=short)
        case Ranked():
            kept = tuple(_kept(each) for each in event.kept if is_openable(each.url))
            return event.model_copy(update={"kept": kept, "query": event.query[:MAX_WORDS_CHARS]})
        case Read() | Summarized():
            return event if is_openable(event.url) or given(event.url) else None
        case SourcesNumbered():
            return event.model_copy(update={"sources": tuple(map(source_ref, sources))})
        case Started() | Done() | Failed():
            return None  # they stand at the two ends, and once
    return event


def _answer(
    told: ResearchResponse, text: str, sources: tuple[Source, ...], request: ResearchRequest, language: str
) -> ResearchResponse:
    cited = frozenset(each.index for each in told.sources)
    citations = told.citations
    if text != told.synthesis or not _fit(citations, text, sources) or not within_limits(citations, text, language):
        checked = CitationChecker(sources, language).check(text)
        cited, citations = checked.cited, checked.citations
    meta = told.metadata
    words = {
        "plan": _questions(meta.plan),
        "correction": meta.correction and meta.correction[:MAX_WORDS_CHARS],
        "synthesizer": meta.synthesizer[:MAX_WORDS_CHARS],
        "providers": tuple(name[:MAX_WORDS_CHARS] for name in meta.providers[:MAX_NOTES]),
        "topic": meta.topic and meta.topic[:MAX_WORDS_CHARS],
    }
    return told.model_copy(
        update={
            "query": request.query,
            "depth": "report",
            "synthesis": text,
            "sources": tuple(source_ref(each) for each in sources if each.index in cited),
            "citations": citations,
            "raw_results": None if told.raw_results is None else _raw_results(told.raw_results),
            "degraded": tuple(map(_note, told.degraded[:MAX_NOTES])),
            "metadata": meta.model_copy(update=words),
        }
    )


def _fit(citations: Sequence[Citation], text: str, sources: Sequence[Source]) -> bool:
    """Whether each citation names a source, a place in the text, and words that stand where it says."""
    texts = {each.index: each.text for each in sources}
    return all(
        each.source_index in texts
        and 0 <= each.start <= each.end <= len(text)
        and 0 <= each.quote_start <= each.quote_end
        and texts[each.source_index][each.quote_start : each.quote_end] == each.quote
        for each in citations
    )


def _source(source: Source) -> Source:
    short = {"title": source.title[:MAX_TITLE_CHARS], "text": source.text[:MAX_SOURCE_CHARS]}
    published = source.published and source.published[:MAX_WORDS_CHARS]
    return source.model_copy(update={**short, "published": published})


def _kept(kept: Kept) -> Kept:
    return kept.model_copy(update={"title": kept.title[:MAX_TITLE_CHARS]})


def _raw_results(raw: Sequence[RawResult]) -> tuple[RawResult, ...]:
    return tuple(
        each.model_copy(update={"title": each.title[:MAX_TITLE_CHARS], "content": each.content[:MAX_RESULT_CHARS]})
        for each in raw[:MAX_RAW_RESULTS]
        if is_openable(each.url)
    )


def _note(note: Degraded) -> Degraded:
    return note.model_copy(
        update={"component": note.component[:MAX_WORDS_CHARS], "reason": note.reason[:MAX_WORDS_CHARS]}
    )


def _questions(questions: Iterable[str]) -> tuple[str, ...]:
    return tuple(filter(is_query, questions))[:MAX_PLAN_QUESTIONS]


STAGES: tuple[LLMStage, ...] = ("plan", "queries", "rank", "summarize", "write")
PROMPTS = f"{PLAN_VERSION}.{QUERIES_VERSION}.{RANK_VERSION}.{SUMMARY_VERSION}"
# Of a request, what changes how the answer is given, not what it is. Limits: a report that left something out is not kept.
NO_PART = {"omit_raw", "fresh", "depth", "max_llm_calls", "max_cost_usd", "max_seconds"}


class StoredReport(EndsTopic):
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


async def find_stored_report(
    shelf: CheckpointStore, key: str, request: ResearchRequest, language: str, *, offline: bool
) -> StoredReport | None:
    """The report that was made of this request by the same models, engines and prompts (`report_key`); offline, by
    whomever. It may have come from anywhere: what may not be told of it is gone.
    """
    found = await shelf.get("answers", key, StoredReport)
    if found is None and offline:
        asked = request_key(request, language)
        finished = [
            each
            for each in await shelf.values("answers", StoredReport)
            if each.asked == asked and request.plan in (None, each.plan)
        ]
        found = max(finished, key=lambda each: each.finished_at, default=None)
    return found and await asyncio.to_thread(_harmless, found, request, language)


def _harmless(found: StoredReport, request: ResearchRequest, language: str) -> StoredReport | None:
    may_be_told = replay_events(found.events, found.sources, request, language)
    if may_be_told is None:
        return None
    events, sources = may_be_told
    return found.model_copy(update={"events": events, "sources": sources})


async def store_report(
    shelf: CheckpointStore, key: str, request: ResearchRequest, language: str, *,
    events: tuple[ResearchEvent, ...], sources: tuple[Source, ...],
) -> None:  # fmt: skip
    """Put the report into the store, under its `report_key`."""
    finished = StoredReport(
        asked=request_key(request, language), finished_at=datetime.now(UTC), events=events, sources=sources
    )
    await shelf.put("answers", key, finished)


async def mark_finished(shelf: CheckpointStore, key: str) -> None:
    """Say in the store that the report with this `report_key` ended, without its answer."""
    await shelf.put("answers", shelf.key("", "", finished=key), FinishedMark(finished_at=datetime.now(UTC)))


def request_key(request: ResearchRequest, language: str) -> str:
    """What was asked for, whoever answers."""
    asked = {name: value for name, value in _asked(request).items() if name != "plan"}
    return store_key(version="", model="", language=language, request=asked)


def report_key(shelf: CheckpointStore, tools: ReportTools, request: ResearchRequest) -> str:
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
