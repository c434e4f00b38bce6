"""Replay a stored report event for event, without a network (docs/reference/http.md)."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar, assert_never

from pydantic import BaseModel

from modules.llm_platform.application.research import events as research_events
from modules.llm_platform.application.research.find.rounds import MAX_ROWS
from modules.llm_platform.application.research.find.search import MAX_RESULT_CHARS, MAX_TITLE_CHARS
from modules.llm_platform.application.research.report.sources import MAX_SOURCE_CHARS
from modules.llm_platform.application.research.response import select_related_questions
from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.citations.compare.model_verdicts import are_within_limits
from modules.llm_platform.domain.dtos.answer_dtos import ResearchMetadata, ResearchResponse
from modules.llm_platform.domain.dtos.citation_dtos import Citation, TextSpan
from modules.llm_platform.domain.dtos.evidence_dtos import EvidenceRow
from modules.llm_platform.domain.dtos.request_dtos import MAX_PLAN_QUESTIONS, ResearchRequest
from modules.llm_platform.domain.dtos.source_dtos import RawResult, Source, SourceRef
from modules.llm_platform.domain.evidence.ledger import MAX_ROW_QUOTES
from modules.llm_platform.domain.markdown.sanitizer import sanitize
from modules.llm_platform.domain.research.question_selector import is_query
from modules.llm_platform.domain.untrusted.untrusted_text import remove_controls
from modules.llm_platform.domain.urls.canonical_url import is_openable

# A stored report may have been imported from another machine, so a replay applies the same rules as a new report.
# They change nothing in a report that was made here.

MAX_EVENTS: Final = 50_000
MAX_SOURCES: Final = 100
MAX_RAW_RESULTS: Final = 5000
MAX_TEXT_CHARS: Final = 1_000_000  # longest answer
MAX_LABEL_CHARS: Final = 2000  # longest reason, name, correction or other text that MAX_CHARS does not list
MAX_CHARS: Final = {
    "title": MAX_TITLE_CHARS,
    "snippet": research_events.MAX_SNIPPET_CHARS,
    "content": MAX_RESULT_CHARS,
    "text": MAX_SOURCE_CHARS,
}  # keyed by field
ADDRESSES: Final = frozenset({"url"})  # they are dropped if they cannot be opened
QUOTED: Final = frozenset({"text", "content"})
MAX_NOTES: Final = 500
MAX_UNCITED: Final = 5000

Model = TypeVar("Model", bound=BaseModel)


def replay_events(
    events: Sequence[research_events.ResearchEvent],
    sources: Sequence[Source],
    request: ResearchRequest,
    language: str,
) -> tuple[tuple[research_events.ResearchEvent, ...], tuple[Source, ...]] | None:
    """Return the sanitized events and sources of a stored report; None if it exceeds the limits above.

    Sources whose address must not be opened are removed, and the text is sanitized. If that changes the text, or a quote is
    not in its source, the citations are verified again.
    """
    done = events[-1]
    text_chars = sum(len(event.text) for event in events if isinstance(event, research_events.Token))
    too_many = len(events) > MAX_EVENTS or len(sources) > MAX_SOURCES
    if too_many or text_chars > MAX_TEXT_CHARS or not isinstance(done, research_events.Done):
        return None
    openable = tuple(
        _shorten(source) for source in {source.index: source for source in sources}.values() if is_openable(source.url)
    )
    replayed = [kept for event in events[:-1] if (kept := _sanitize_event(event, openable, request)) is not None]
    events, text = _sanitize(replayed, openable)
    answer = _make_answer(done.response, text, openable, request, language)
    return (*events, done.model_copy(update={"response": answer})), openable


def _sanitize(
    replayed: Sequence[research_events.ResearchEvent], sources: Sequence[Source]
) -> tuple[tuple[research_events.ResearchEvent, ...], str]:
    """Return the events, and the text since the last reset. A text that the sanitizer changes becomes a single token."""
    events: list[research_events.ResearchEvent] = []
    text = ""
    parts = _split_at_resets(replayed)
    for part in parts:
        written = "".join(event.text for event in part if isinstance(event, research_events.Token))
        text = sanitize(written, sources)
        # Text before a reset may end anywhere, so the sanitizer may close what is open at its end.
        is_cut_off = part is not parts[-1] and text.startswith(written)
        events.extend(part if text == written or is_cut_off else _merge_tokens(part, text))
    return tuple(events), text


def _split_at_resets(replayed: Sequence[research_events.ResearchEvent]) -> list[list[research_events.ResearchEvent]]:
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


def _sanitize_event(
    event: research_events.ResearchEvent, sources: Sequence[Source], request: ResearchRequest
) -> research_events.ResearchEvent | None:
    """Return the sanitized event; None if the replay makes it itself, or if its address must not be opened."""
    match event:
        case research_events.Planned():
            return _shorten(event).model_copy(update={"questions": _list_questions(event.questions, request)})
        case research_events.Searched():
            results = tuple(_shorten(result) for result in event.results[:MAX_RAW_RESULTS] if is_openable(result.url))
            return _shorten(event).model_copy(update={"results": results})
        case research_events.Ranked():
            kept = tuple(_shorten(result) for result in event.kept if is_openable(result.url))
            return _shorten(event).model_copy(update={"kept": kept})
        case research_events.Read() | research_events.Summarized():
            return _shorten(event) if is_openable(event.url) or event.url in request.urls else None
        case research_events.RoundStarted():
            return _shorten(event).model_copy(
                update={
                    "open": _list_questions(event.open, request),
                    "queries": _list_questions(event.queries, request),
                    "evidence": _sanitize_rows(event.evidence),
                }
            )
        case research_events.SourcesNumbered():
            return research_events.SourcesNumbered.of(event.request_id, sources)
        case research_events.Token():
            return event  # the whole text is sanitized after this
        case research_events.Reset() | research_events.ModelProgressed():
            return _shorten(event)
        case research_events.Started() | research_events.Done() | research_events.Failed():
            return None  # the replay makes the first and the last event itself
        case research_events.Verified():
            return None  # the last event has the citations
        case _:
            assert_never(event)


def _make_answer(
    replayed: ResearchResponse,
    text: str,
    sources: tuple[Source, ...],
    request: ResearchRequest,
    language: str,
) -> ResearchResponse:
    checked = _check_citations(replayed, text, sources, language)
    metadata = _sanitize_metadata(replayed.metadata, request, language)
    uncited = {"uncited": checked.uncited, "uncited_sentences": checked.uncited_sentences}
    return replayed.model_copy(
        update={
            "query": request.query,
            "depth": "report",
            "synthesis": text,
            "output": None,  # made for each request
            "sources": tuple(SourceRef.of(source) for source in sources if source.index in checked.cited),
            "citations": checked.citations,
            "evidence": _sanitize_rows(replayed.evidence),
            "raw_results": None if replayed.raw_results is None else _read_raw_results(replayed.raw_results),
            "degraded": tuple(map(_shorten, replayed.degraded[:MAX_NOTES])),
            "metadata": metadata.model_copy(update=uncited),
        }
    )


class _Checked(NamedTuple):
    """The citations of a replayed text, the numbers of the cited sources, and the sentences without a citation."""

    citations: tuple[Citation, ...]
    cited: frozenset[int]
    uncited: tuple[TextSpan, ...]
    uncited_sentences: int


def _check_citations(replayed: ResearchResponse, text: str, sources: tuple[Source, ...], language: str) -> _Checked:
    """Return the stored citations. If they do not fit the text and the sources, verify the text again."""
    citations, uncited = replayed.citations, replayed.metadata.uncited[:MAX_UNCITED]
    if (
        text == replayed.synthesis
        and _are_valid(citations, text, sources)
        and all(0 <= span.start <= span.end <= len(text) for span in uncited)
        and are_within_limits(citations, text, language)
    ):
        cited = frozenset(source.index for source in replayed.sources)
        return _Checked(citations, cited, uncited, replayed.metadata.uncited_sentences)
    checked = CitationChecker(sources, language).check(text)
    spans = tuple(TextSpan(start=start, end=end) for start, end in checked.uncited)
    return _Checked(checked.citations, checked.cited, spans, len(spans))


def _sanitize_metadata(metadata: ResearchMetadata, request: ResearchRequest, language: str) -> ResearchMetadata:
    return _shorten(metadata).model_copy(
        update={
            "plan": _list_questions(metadata.plan, request),
            "open_questions": _list_questions(metadata.open_questions, request),
            "files": (),
            "related_questions": select_related_questions(metadata.related_questions, language, (request.query,)),
            "providers": tuple(name[:MAX_LABEL_CHARS] for name in metadata.providers[:MAX_NOTES]),
        }
    )


def _sanitize_rows(rows: Sequence[EvidenceRow]) -> tuple[EvidenceRow, ...]:
    return tuple(map(_sanitize_row, rows[:MAX_ROWS]))


def _sanitize_row(row: EvidenceRow) -> EvidenceRow:
    openable = [quote for quote in row.quotes[:MAX_NOTES] if is_openable(quote.url)]
    quotes = tuple(map(_shorten, openable[:MAX_ROW_QUOTES]))
    words = tuple(remove_controls(word[:MAX_LABEL_CHARS]) for word in row.words[:MAX_NOTES])
    return _shorten(row).model_copy(update={"quotes": quotes, "words": words})


def _are_valid(citations: Sequence[Citation], text: str, sources: Sequence[Source]) -> bool:
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


def _shorten(value: Model) -> Model:
    """Return the value with its texts cut to the limits and without control characters.

    Addresses are not changed. Texts that quotes point into keep their control characters.
    """
    texts = {name: text for name, text in value if isinstance(text, str) and name not in ADDRESSES}
    cut = {name: text[: MAX_CHARS.get(name, MAX_LABEL_CHARS)] for name, text in texts.items()}
    cut |= {name: remove_controls(text) for name, text in cut.items() if name not in QUOTED}
    return value.model_copy(update=cut) if cut != texts else value


def _read_raw_results(raw: Sequence[RawResult]) -> tuple[RawResult, ...]:
    return tuple(_shorten(result) for result in raw[:MAX_RAW_RESULTS] if is_openable(result.url))


def _list_questions(questions: Iterable[str], request: ResearchRequest) -> tuple[str, ...]:
    written = (request.query, *(request.plan or ()))
    return tuple(question for question in questions if is_query(question, written))[:MAX_PLAN_QUESTIONS]
