"""A finished report out of the store may have been carried here from elsewhere: what is told of it passes the same rules as
what is made here. Of a report that was made here nothing is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from modules.llm_platform.application.research.answer import reference
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
from modules.llm_platform.application.research.plan import is_query
from modules.llm_platform.application.research.report_sources import MAX_SOURCE_CHARS
from modules.llm_platform.application.research.usable_results import MAX_RESULT_CHARS, MAX_TITLE_CHARS
from modules.llm_platform.domain.answer_text import sanitize
from modules.llm_platform.domain.canonical_url import is_openable
from modules.llm_platform.domain.citations import CitationChecker
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.research_dtos import (
    MAX_PLAN_QUESTIONS,
    Citation,
    RawResult,
    ResearchRequest,
    ResearchResponse,
    Source,
)
from modules.llm_platform.domain.judged_citations import within_limits

MAX_EVENTS: Final = 50_000
MAX_SOURCES: Final = 100
MAX_RAW_RESULTS: Final = 5000
MAX_TEXT_CHARS: Final = 1_000_000  # of the answer
MAX_WORDS_CHARS: Final = 2000  # of a reason, a name, a suggestion
MAX_NOTES: Final = 500


def retold(
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
            return event.model_copy(update={"sources": tuple(map(reference, sources))})
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
            "sources": tuple(reference(each) for each in sources if each.index in cited),
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
    return note.model_copy(update={"component": note.component[:MAX_WORDS_CHARS], "reason": note.reason[:MAX_WORDS_CHARS]})


def _questions(questions: Iterable[str]) -> tuple[str, ...]:
    return tuple(filter(is_query, questions))[:MAX_PLAN_QUESTIONS]
