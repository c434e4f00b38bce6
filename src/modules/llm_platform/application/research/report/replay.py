"""Stored reports: how they are keyed, stored, and replayed event for event without a network (docs/reference/http.md)."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final, TypeVar, assert_never

from pydantic import BaseModel, ValidationError, field_validator

from modules.llm_platform.application.research import events as research_events
from modules.llm_platform.application.research.plan import SUB_QUESTIONS_VERSION, is_query
from modules.llm_platform.application.research.report.checkpoint_store import CheckpointStore
from modules.llm_platform.application.research.report.queries import QUERIES_VERSION
from modules.llm_platform.application.research.report.rank import RANK_VERSION
from modules.llm_platform.application.research.report.run import ReportTools
from modules.llm_platform.application.research.report.sources import MAX_SOURCE_CHARS
from modules.llm_platform.application.research.report.summarize import SUMMARY_VERSION
from modules.llm_platform.application.research.response import related_questions
from modules.llm_platform.application.research.search import MAX_RESULT_CHARS, MAX_TITLE_CHARS
from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.citations.model_verdicts import within_limits
from modules.llm_platform.domain.dtos import research_dtos as dtos
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT
from modules.llm_platform.domain.dtos.report_dtos import LLMStage
from modules.llm_platform.domain.dtos.sent import merge_sent
from modules.llm_platform.domain.dtos.store_dtos import EndsTopic
from modules.llm_platform.domain.markdown.sanitizer import sanitize
from modules.llm_platform.domain.research.store_key import store_key
from modules.llm_platform.domain.untrusted.untrusted_text import without_controls
from modules.llm_platform.domain.urls.canonical_url import is_openable

# A stored report may have been imported from another machine, so a replay applies the same rules as a new report.
# They change nothing in a report that was made here.

MAX_EVENTS: Final = 50_000
MAX_SOURCES: Final = 100
MAX_RAW_RESULTS: Final = 5000
MAX_TEXT_CHARS: Final = 1_000_000  # longest answer
MAX_LABEL_CHARS: Final = 2000  # longest reason, name, correction or other text that MAX_CHARS does not list
MAX_CHARS: Final = {
    "title": MAX_TITLE_CHARS, "snippet": research_events.MAX_SNIPPET_CHARS, "content": MAX_RESULT_CHARS,
    "text": MAX_SOURCE_CHARS,
}  # keyed by field
ADDRESSES: Final = frozenset({"url"})  # they are dropped if they cannot be opened
QUOTED: Final = frozenset({"text", "content"})
MAX_NOTES: Final = 500
MAX_UNCITED: Final = 5000

Model = TypeVar("Model", bound=BaseModel)


def replay_events(
    events: Sequence[research_events.ResearchEvent],
    sources: Sequence[dtos.Source],
    request: dtos.ResearchRequest,
    language: str,
) -> tuple[tuple[research_events.ResearchEvent, ...], tuple[dtos.Source, ...]] | None:
    """Return the sanitized events and sources of a stored report; None when it exceeds the limits above.

    Removes addresses that a source must not have and sanitizes the text. When that changes the text, or a quote is not in
    its source, the citations are verified again.
    """
    done = events[-1]
    text_chars = sum(len(event.text) for event in events if isinstance(event, research_events.Token))
    too_many = len(events) > MAX_EVENTS or len(sources) > MAX_SOURCES
    if too_many or text_chars > MAX_TEXT_CHARS or not isinstance(done, research_events.Done):
        return None
    openable = tuple(
        _shortened(source)
        for source in {source.index: source for source in sources}.values()
        if is_openable(source.url)
    )
    replayed = [kept for event in events[:-1] if (kept := _event(event, openable, request)) is not None]
    events, text = _sanitised(replayed, openable)
    answer = _answer(done.response, text, openable, request, language)
    return (*events, done.model_copy(update={"response": answer})), openable


def _sanitised(
    replayed: Sequence[research_events.ResearchEvent], sources: Sequence[dtos.Source]
) -> tuple[tuple[research_events.ResearchEvent, ...], str]:
    """Return the events, and the text since the last reset. A text that the sanitizer changes becomes a single token."""
    events: list[research_events.ResearchEvent] = []
    text = ""
    parts = _between_resets(replayed)
    for part in parts:
        written = "".join(event.text for event in part if isinstance(event, research_events.Token))
        text = sanitize(written, sources)
        is_cut_off = part is not parts[-1] and text.startswith(
            written
        )  # the sanitizer only closed what was open at the end
        events.extend(part if text == written or is_cut_off else _merge_tokens(part, text))
    return tuple(events), text


def _between_resets(replayed: Sequence[research_events.ResearchEvent]) -> list[list[research_events.ResearchEvent]]:
    parts: list[list[research_events.ResearchEvent]] = [[]]
    for event in replayed:
        if isinstance(event, research_events.Reset):
            parts.append([])
        parts[-1].append(event)
    return parts


def _merge_tokens(part: Iterable[research_events.ResearchEvent], text: str) -> Iterator[research_events.ResearchEvent]:
    for event in part:
        if not isinstance(event, research_events.Token):
            yield event
        elif text:
            yield event.model_copy(update={"text": text})
            text = ""


def _event(
    event: research_events.ResearchEvent, sources: Sequence[dtos.Source], request: dtos.ResearchRequest
) -> research_events.ResearchEvent | None:
    """Return the sanitized event.

    None for an event that the replay makes itself, and for one with an address that no result may have.
    """
    match event:
        case research_events.Planned():
            return event.model_copy(update={"questions": _questions(event.questions, request)})
        case research_events.Searched():
            results = tuple(_shortened(result) for result in event.results[:MAX_RAW_RESULTS] if is_openable(result.url))
            return _shortened(event).model_copy(update={"results": results})
        case research_events.Ranked():
            kept = tuple(_shortened(result) for result in event.kept if is_openable(result.url))
            return _shortened(event).model_copy(update={"kept": kept})
        case research_events.Read() | research_events.Summarized():
            return event if is_openable(event.url) or event.url in request.urls else None
        case research_events.SourcesNumbered():
            return research_events.SourcesNumbered.of(event.request_id, sources)
        case research_events.Token():
            return event  # the whole text is sanitized behind this
        case research_events.Reset() | research_events.ModelProgressed():
            return _shortened(event)
        case research_events.Started() | research_events.Done() | research_events.Failed():
            return None  # the replay makes the first and the last event itself
        case research_events.Verified():
            return None  # the last event has the citations
        case _:
            assert_never(event)


def _answer(
    replayed: dtos.ResearchResponse, text: str, sources: tuple[dtos.Source, ...], request: dtos.ResearchRequest, language: str
) -> dtos.ResearchResponse:
    cited = frozenset(source.index for source in replayed.sources)
    meta, citations = replayed.metadata, replayed.citations
    uncited, uncited_sentences = meta.uncited[:MAX_UNCITED], meta.uncited_sentences
    if (
        text != replayed.synthesis
        or not _are_valid(citations, text, sources)
        or not all(0 <= span.start <= span.end <= len(text) for span in uncited)
        or not within_limits(citations, text, language)
    ):
        checked = CitationChecker(sources, language).check(text)
        cited, citations = checked.cited, checked.citations
        uncited = tuple(dtos.TextSpan(start=start, end=end) for start, end in checked.uncited)
        uncited_sentences = len(uncited)
    checked_metadata = {
        "plan": _questions(meta.plan, request),
        "files": (),
        "related_questions": related_questions(meta.related_questions, language, (request.query,)),
        "uncited": uncited,
        "uncited_sentences": uncited_sentences,
        "providers": tuple(name[:MAX_LABEL_CHARS] for name in meta.providers[:MAX_NOTES]),
    }
    return replayed.model_copy(
        update={
            "query": request.query,
            "depth": "report",
            "synthesis": text,
            "output": None,  # made for each request
            "sources": tuple(dtos.SourceRef.of(source) for source in sources if source.index in cited),
            "citations": citations,
            "raw_results": None if replayed.raw_results is None else _raw_results(replayed.raw_results),
            "degraded": tuple(map(_shortened, replayed.degraded[:MAX_NOTES])),
            "metadata": _shortened(meta).model_copy(update=checked_metadata),
        }
    )


def _are_valid(citations: Sequence[dtos.Citation], text: str, sources: Sequence[dtos.Source]) -> bool:
    """Return whether each citation names a source, a range of the text, and a quote that is in the source at its offsets."""
    texts = {source.index: source.text for source in sources}
    return all(
        citation.source_index in texts
        and 0 <= citation.start <= citation.end <= len(text)
        and all(0 <= cell.start <= cell.end <= len(text) for cell in citation.cells)
        and 0 <= citation.quote_start <= citation.quote_end
        and texts[citation.source_index][citation.quote_start : citation.quote_end] == citation.quote
        for citation in citations
    )


def _shortened(value: Model) -> Model:
    """Return the value with its texts within the limits and labels without control characters; addresses stay whole.

    A text that quotes point into keeps its characters.
    """
    texts = {name: text for name, text in value if isinstance(text, str) and name not in ADDRESSES}
    cut = {name: text[: MAX_CHARS.get(name, MAX_LABEL_CHARS)] for name, text in texts.items()}
    cut |= {name: without_controls(text) for name, text in cut.items() if name not in QUOTED}
    return value.model_copy(update=cut) if cut != texts else value


def _raw_results(raw: Sequence[dtos.RawResult]) -> tuple[dtos.RawResult, ...]:
    return tuple(_shortened(result) for result in raw[:MAX_RAW_RESULTS] if is_openable(result.url))


def _questions(questions: Iterable[str], request: dtos.ResearchRequest) -> tuple[str, ...]:
    written = (request.query, *(request.plan or ()))
    return tuple(question for question in questions if is_query(question, written))[:dtos.MAX_PLAN_QUESTIONS]


STAGES: tuple[LLMStage, ...] = ("plan", "queries", "rank", "summarize", "write")
PROMPT_VERSIONS = f"{SUB_QUESTIONS_VERSION}.{QUERIES_VERSION}.{RANK_VERSION}.{SUMMARY_VERSION}"
# Request fields that do not change the report. Limits: a report that a limit cut short is not stored.
# The output is made of the finished report. A follow-up question is part of the key as it was understood.
EXCLUDED_FIELDS = {
    "omit_raw", "fresh", "depth", "max_llm_calls", "max_cost_usd", "max_seconds", "previous_id", "history", "output_schema",
    "files",
}


class StoredReport(EndsTopic, frozen=True):
    """All events of a report, and the texts that its quotes point into.

    `asked` is the `request_key`, by which a report is found offline.
    """

    asked: str
    finished_at: datetime
    events: tuple[research_events.AnyEvent, ...]
    sources: tuple[dtos.Source, ...]

    @field_validator("events")
    @classmethod
    def _ends(cls, events: tuple[research_events.ResearchEvent, ...]) -> tuple[research_events.ResearchEvent, ...]:
        """Reject imported entries without a response at the end."""
        if not events or not isinstance(events[-1], research_events.Done):
            raise ValueError("must end with done")
        return events

    @property
    def plan(self) -> tuple[str, ...]:
        return self._response.metadata.plan

    def replayed_events(self, request_id: str) -> Iterator[research_events.ResearchEvent]:
        """Return all events but the last, under another request id."""
        return (event.model_copy(update={"request_id": request_id}) for event in self.events[:-1])

    @property
    def replayed_response(self) -> dtos.ResearchResponse:
        """The response with `stored_at`, and with zero for everything that the replay did not spend."""
        response = self._response
        metadata = response.metadata.model_copy(
            update={
                "cache_hit": True,
                "stored_at": self.finished_at,
                **NOTHING_SPENT.metadata(),
                "searches": 0,
                "sent_to": (),
                "cached_sent_to": merge_sent((*response.metadata.cached_sent_to, *response.metadata.sent_to)),
            }
        )
        return response.model_copy(update={"metadata": metadata})

    def sanitized_response(self) -> dtos.ResearchResponse | None:
        """Return the response for readers who know the report by its topic; None if it exceeds the limits."""
        response = self._response
        try:
            request = dtos.ResearchRequest(query=response.query, depth="report")
        except ValidationError:  # an imported report may hold anything
            return None
        replayed = replay_events(self.events, self.sources, request, response.metadata.language)
        if replayed is None:
            return None
        return self.model_copy(update={"events": replayed[0]}).replayed_response

    @property
    def _response(self) -> dtos.ResearchResponse:
        done = self.events[-1]
        if not isinstance(done, research_events.Done):
            raise AssertionError("the validator rejects other last events")
        return done.response


class FinishedMark(EndsTopic, frozen=True):
    """Records that a report of the topic finished but is not stored, because it uses documents, which may change."""

    finished_at: datetime


class OwnedReport(BaseModel, frozen=True):
    """The `report_key` of the report of a topic that an owner asked for last."""

    report: str


def owner_entry_key(owner: str) -> str:
    """Return the key of the OwnedReport of this owner, which does not reveal who it is."""
    return store_key(version="owner", model="", language="", owner=owner)


async def store_owner(checkpoints: CheckpointStore, owner: str, key: str) -> None:
    """Store that this owner asked for the stored report with this `report_key`."""
    position, owned = owner_entry_key(owner), OwnedReport(report=key)
    if await checkpoints.get("answers", position, OwnedReport) != owned:
        await checkpoints.put("answers", position, owned)


async def find_stored_report(
    checkpoints: CheckpointStore, key: str, request: dtos.ResearchRequest, language: str, *, offline: bool
) -> StoredReport | None:
    """Return the stored report of this request by the same models, engines and prompts (`report_key`), sanitized.

    Offline, the latest report of the same request by any of them.
    """
    found = await checkpoints.get("answers", key, StoredReport)
    if found is None and offline:
        asked = request_key(request, language)
        candidates = [
            report
            for report in await checkpoints.values("answers", StoredReport)
            if report.asked == asked and request.plan in (None, report.plan)
        ]
        found = max(candidates, key=lambda report: report.finished_at, default=None)
    return found and await asyncio.to_thread(_sanitized_report, found, request, language)


def _sanitized_report(found: StoredReport, request: dtos.ResearchRequest, language: str) -> StoredReport | None:
    sanitized = replay_events(found.events, found.sources, request, language)
    if sanitized is None:
        return None
    events, sources = sanitized
    return found.model_copy(update={"events": events, "sources": sources})


async def store_report(
    checkpoints: CheckpointStore, key: str, request: dtos.ResearchRequest, language: str, *,
    events: tuple[research_events.ResearchEvent, ...], sources: tuple[dtos.Source, ...],
) -> None:
    """Store the report under its `report_key`."""
    candidates = StoredReport(
        asked=request_key(request, language), finished_at=datetime.now(UTC), events=events, sources=sources
    )
    await checkpoints.put("answers", key, candidates)


async def mark_finished(checkpoints: CheckpointStore, key: str) -> None:
    """Store a mark that the report with this `report_key` finished, without its response."""
    await checkpoints.put(
        "answers", checkpoints.key("", "", candidates=key), FinishedMark(finished_at=datetime.now(UTC))
    )


def request_key(request: dtos.ResearchRequest, language: str) -> str:
    """Return the key of the request alone, without its plan and without models, engines and prompts."""
    asked = {name: value for name, value in _identity(request).items() if name != "plan"}
    return store_key(version="", model="", language=language, request=asked)


def report_key(
    checkpoints: CheckpointStore, tools: ReportTools, request: dtos.ResearchRequest, earlier: Sequence[dtos.Source] = ()
) -> str:
    """Return the key of the request and of everything that shapes the report: models, engines, prompts, options, and the
    `earlier` sources that a follow-up question reuses.
    """
    options = tools.options
    writer = tools.writer(tools.llms.get("write"), options.context_tokens)
    judge = tools.judge(tools.llms.get("judge")) if tools.judge else None
    by = [tools.label(part) for part in ("search", "read", *STAGES, *(("judge",) if judge else ()))]
    versions = [PROMPT_VERSIONS, writer.report_version, *([judge.version] if judge else ())]
    return checkpoints.key(
        "|".join(versions), "|".join(by), request=_identity(request),
        made=(options.pages, options.query_languages, options.results_per_search, options.max_tokens),
        **({"earlier": [(source.url, source.title, source.text) for source in earlier]} if earlier else {}),
    )


def _identity(request: dtos.ResearchRequest) -> dict[str, object]:
    # Fields that an endpoint adds to the request, such as `stream`, are left out too.
    parts = set(dtos.ResearchRequest.model_fields) - EXCLUDED_FIELDS
    is_requested = request.model_dump(mode="json", include=parts, exclude_none=True)
    # With `urls`, a search runs only when the request sets `sources`. Without `urls` the field changes nothing, so a command
    # that sets it and an HTTP client that does not find each other's report.
    return is_requested | ({"searched": "sources" in request.model_fields_set} if request.urls else {})
