"""Render answers as lines of text: the answer first, then its sources and citations, then notes."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final
from urllib.parse import unquote

from modules.llm_platform.domain.citations.show.sentence_evidence import (
    SentenceVerdict,
    decide_shown_verdict,
    list_sentence_evidence,
    render_evidence_line,
)
from modules.llm_platform.domain.dtos.answer_dtos import ResearchMetadata, ResearchResponse
from modules.llm_platform.domain.dtos.citation_dtos import Citation
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.evidence_dtos import StopReason
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.report_dtos import ReportEstimate
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.dtos.sent import Sent
from modules.llm_platform.domain.dtos.source_dtos import SourceRef
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchResponse
from modules.llm_platform.domain.ports.synthesizer import EXTRACTIVE
from modules.llm_platform.domain.text.counts import format_count
from modules.llm_platform.domain.text.language import get_language_name, get_primary_subtag
from modules.llm_platform.domain.text.messages import get_messages
from modules.llm_platform.domain.text.sentences import QUESTION_MARKS
from modules.llm_platform.presentation.cli.console import Line, Style
from modules.llm_platform.presentation.verification_text import ABSENT, CONTRADICTED, FINDINGS

TERMINAL_QUOTE_CHARS: Final = 300  # Longer quotes are cut. --json has the whole quote.
MAX_HOST_COLUMNS: Final = 60  # A longer host widens its own line only.
BYTE_UNITS: Final = ("B", "kB", "MB", "GB", "TB")
KILO: Final = 1000  # The factor between two units.
DOCUMENT_SCHEME: Final = "doc:"  # The scheme of a document's URL. The rest of the URL is the path, percent-encoded.
WITHOUT_MODEL: Final = "without a language model"
MARKED_NOTICE: Final = "Sentences that their sources do not support are marked here:"
FOUND = ", source found by the platform"
NO_TEXT: Final = "the text of {source} is not stored"
OTHER_LANGUAGE: Final = "{source} is in another language, so the sentence was not compared with it"
GO_DEEPER: Final = "For a deeper search, add --depth deep."
NOTHING_FOUND: Final = "Nothing was found."
NOTHING_SENT: Final = "Nothing was sent to any host."
NOTHING_SENT_NOW: Final = "Nothing was sent for this answer: it came from the cache or the store."
NOT_RECORDED: Final = "Nothing is recorded."
NO_EMBEDDER: Final = "none"  # The note about this component is a sentence of its own, without the component's name.
MARKS: Final[Mapping[SentenceVerdict, tuple[str, Style]]] = {
    "supported": ("✔", "green"),
    "partial": ("~", "yellow"),
    "absent": ("○", "yellow"),
    "unsupported": ("✘", "red"),
    "unchecked": ("?", "dim"),
    "quoted": ("❝", ""),
}

_LINE_BREAK = re.compile(r"[\r\n\t]")
_ERROR_CODE = re.compile(r"^[a-z]+(?:_[a-z]+)*: ")
_MARKERS = re.compile(r"(?:[^\w\s\[]{0,4}(?:[ \t,;]*\[\d{1,9}\])+)?")  # The punctuation before markers is included.
_BLANK_LINE = re.compile(r"\n[ \t]*\n")
_MARKUP = re.compile(r"[&\\`*_\[<~]")


def render_results(response: WebSearchResponse) -> Iterator[Line]:
    if not response.results:
        yield Line(NOTHING_FOUND)
    for number, item in enumerate(response.results, 1):
        # Search engines write the time 00:00:00 if they know only the day.
        published = (item.published_date or "").partition("T00:00:00")[0]
        details = " · ".join(part for part in (item.site_name, published) if part)
        yield Line(f"{number}. {shorten(item.title)}", "bold")
        yield Line(f"   {display_url(item.url)}", "dim")
        if details:
            yield Line(f"   {shorten(details)}", "dim")
        if item.text:
            yield Line(f"   {shorten(item.text)}")
    yield from _note_lines(describe_degradations(response.degraded, response.correction))
    yield Line()
    yield Line(f"{format_count(len(response.results), 'result')} from {response.provider or 'no provider'}", "dim")


def mark_unsupported(response: ResearchResponse) -> str:
    """Return the Markdown of the answer with a mark after each unsupported citation: contradicted, or not found.

    `synthesis` itself does not change, because the offsets of the citations refer to it.
    """
    by_sentence: dict[tuple[int, int], list[Citation]] = {}
    for citation in response.citations:
        by_sentence.setdefault((citation.start, citation.end), []).append(citation)
    marks: dict[int, str] = {}
    for (start, end), citations in by_sentence.items():
        unsupported = [citation for citation in citations if citation.verdict == "unsupported"]
        markers_end = _MARKERS.match(response.synthesis, end).end()  # type: ignore[union-attr]  # The pattern matches an empty text.
        is_whole = len(unsupported) == len(citations)
        for citation in sorted(unsupported, key=lambda citation: citation.finding == "contradicts"):
            marker_end = _find_marker_end(response.synthesis, start, markers_end, citation.source_index)
            marks[markers_end if is_whole else marker_end] = (
                CONTRADICTED if citation.finding == "contradicts" else ABSENT
            )
    marked, done = "", 0
    for position in sorted(marks):
        marked += f"{response.synthesis[done:position]} {marks[position]}"
        done = position
    return marked + response.synthesis[done:]


def select_marked_blocks(marked: str) -> str:
    return "\n\n".join(block for block in _BLANK_LINE.split(marked) if CONTRADICTED in block or ABSENT in block)


def _find_marker_end(synthesis: str, start: int, end: int, source_index: int) -> int:
    """Return the position after the marker of this source, or `end` if the sentence has no such marker."""
    marker = f"[{source_index}]"
    found = synthesis.rfind(marker, start, end)
    return end if found < 0 else found + len(marker)


def render_plain_text(markdown: str) -> str:
    """Return the visible text of a sentence of Markdown, without entities, escapes, emphasis and link targets."""
    if not _MARKUP.search(markdown):
        return markdown
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).disable(["image", "html_inline"])
    return "".join(
        f"`{token.content}`" if token.type == "code_inline" else token.content or " " * (token.type == "softbreak")
        for inline in parser.parseInline(markdown)
        for token in inline.children or ()
    )


def render_sources(response: ResearchResponse, missing_model_note: str | None = None) -> Iterator[Line]:
    """Yield the lines below an answer: sources, the evidence line with the citations, notes, and what the answer took.

    `missing_model_note` is the note that no language model is configured, or None.
    """
    sources: list[Line] = []
    for source in response.sources:
        title = f"[{source.index}] {shorten(source.title)}{note_language(source, response)}"
        sources += Line(title), Line(f"    {display_url(source.url)}", "dim")
    yield from _render_section("Sources", sources)
    evidence = render_evidence_line(list_sentence_evidence(response))
    citations = [Line(evidence)] if evidence else []
    for citation in response.citations:
        mark, style = MARKS[decide_shown_verdict(citation, response.metadata.synthesizer)]
        text = f"{mark} {describe_verdict(citation, response)}  {_quote_text(citation, response)}"
        citations.append(Line(text, style, citation.quote_url))
    yield from _render_section("Citations", citations)
    notes = describe_degradations(response.degraded, response.metadata.correction)
    yield from _note_lines(
        [*notes, *_depth_notes(response), *store_notes(response), *_quote_notes(response, missing_model_note)]
    )
    yield Line()
    yield Line(describe_cost(response), "dim")


def note_language(source: SourceRef, response: ResearchResponse) -> str:
    """Return ` (German)` if source and answer are in different languages, otherwise an empty string."""
    is_foreign = source.language not in (None, get_primary_subtag(response.metadata.language))
    return f" ({get_language_name(source.language)})" if source.language and is_foreign else ""


def render_heading(page: Page) -> Iterator[Line]:
    """Yield the lines above the text of a page: its title and address."""
    yield Line(shorten(page.title), "bold")
    yield Line(display_url(page.url), "dim")
    yield Line()


def render_footer(page: Page) -> Iterator[Line]:
    """Yield the lines below the text of a page: a note if something is missing, and which reader read it."""
    yield Line()
    if page.warning:
        yield Line(f"Note: {shorten(page.warning)}", "yellow")
    yield Line(describe_page(page), "dim")


def describe_page(page: Page) -> str:
    published = f" · published {shorten(page.published)}" if page.published else ""
    return f"{len(page.text)} characters of {page.media_type}, read by {page.reader}{published}"


# The text after the number of rounds says why there was no further one.
STOP_REASONS: Final[Mapping[StopReason, str]] = {
    "answered": "nothing more was missing",
    "nothing_new": "then nothing new was found",
    "no_gain": "the last one found nothing useful",
    "rounds": "the maximum",
    "time": "stopped for lack of time",
    "budget": "stopped by the budget",
    "refused": "stopped after a provider refused a query",
    "asked": "stopped at your request",
}


def describe_cost(response: ResearchResponse) -> str:
    meta = response.metadata
    providers = f" ({', '.join(meta.providers)})" if meta.providers else ""
    parts = [
        f"{meta.latency_ms / 1000:.1f} s",
        *([format_count(meta.searches, "search", "searches") + providers] if meta.searches else []),
        *(
            [f"{format_count(meta.rounds, 'further round')}, {STOP_REASONS[meta.stopped]}"]
            if meta.rounds and meta.stopped
            else []
        ),
        _name_writer(response) + (" (from the cache)" if meta.cache_hit else ""),
    ]
    if meta.truncated_tokens:
        parts.append(f"{format_count(meta.truncated_tokens, 'token')} of the sources left out for length")
    if meta.llm_calls:
        parts.append(f"{format_count(meta.tokens_used, 'token')}, {_format_cost(meta)}")
    return " · ".join(parts)


def _format_cost(meta: ResearchMetadata) -> str:
    if meta.cost_usd is None:
        return "cost not known: a call was cut off" if meta.is_cost_cut_off else "price not known"
    return f"${meta.cost_usd:.4f}" if meta.cost_usd else "no cost"


def _name_writer(response: ResearchResponse) -> str:
    """Return who wrote the answer, in words; where nothing was found there is nothing to quote."""
    synthesizer = response.metadata.synthesizer
    if synthesizer != EXTRACTIVE:
        return f"written by {synthesizer}"
    return f"made of quotes, {WITHOUT_MODEL}" if response.sources else WITHOUT_MODEL


def estimate_line(estimate: ReportEstimate, more: int, request: ResearchRequest) -> str:
    """Return in one line what a report takes at most within the limits of the request.

    `more` is the number of sub-questions beyond those for which the estimate was made.
    """
    amounts = estimate.with_more(more)
    calls = round(_limit(amounts.llm_calls, request.max_llm_calls))
    parts = [format_count(amounts.searches, "search", "searches"), format_count(amounts.pages, "page")]
    if calls:
        cost = request.max_cost_usd if amounts.cost_usd is None else _limit(amounts.cost_usd, request.max_cost_usd)
        parts += [
            f"{format_count(calls, 'call')} of language models",
            format_count(amounts.tokens, "token"),
            "price not known" if cost is None else f"${cost:.2f}" if cost else "no cost",
        ]
    parts.append(f"{_limit(estimate.max_seconds, request.max_seconds) / 60:.0f} min")
    return f"At most: {' · '.join(parts)}"


def _limit(amount: float, limit: float | None) -> float:
    return amount if limit is None else min(amount, limit)


def _depth_notes(response: ResearchResponse) -> Iterator[str]:
    """Yield a note with the option that asks for a deeper search, if the text offers one by the name of the field."""
    if get_messages(response.metadata.language).go_deeper in response.synthesis:
        yield GO_DEEPER


def store_notes(response: ResearchResponse) -> Iterator[str]:
    """Yield a note that says when a stored answer was finished and how to get a new one. Other answers have none."""
    if finished := response.metadata.stored_at:
        when = f"{finished.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
        yield f"This report is from the store, finished {when}; for a new one, add --fresh."


def describe_degradations(degraded: Iterable[Degraded], correction: str | None = None) -> list[str]:
    """Return the provider's spelling correction, and a note for each deviation from the request. No note is repeated."""
    mark = "" if correction and correction[-1] in QUESTION_MARKS else "?"
    notes = [f"Did you mean “{correction}”{mark}"] if correction else []
    for degradation in degraded:
        until = f" (until {degradation.until:%H:%M} UTC)" if degradation.until else ""
        component = "" if degradation.component == NO_EMBEDDER else f"{degradation.component}: "
        notes.append(f"{component}{_ERROR_CODE.sub('', degradation.reason)}{until}")
    return list(dict.fromkeys(notes))


def _quote_notes(response: ResearchResponse, missing_model_note: str | None) -> Iterator[str]:
    """Yield a note that says why the answer consists of quotes, unless its text says so.

    A model may have written a stored answer, even if no model is configured now.
    """
    if response.metadata.stored_at and response.metadata.synthesizer != EXTRACTIVE:
        return
    if missing_model_note is not None:
        yield missing_model_note
    elif response.metadata.synthesizer == EXTRACTIVE and response.sources:
        messages = get_messages(response.metadata.language)
        if messages.model_failed not in response.synthesis and messages.quotes_only not in response.synthesis:
            yield "No model wrote this answer: these are quotes from your sources."


def display_url(url: str) -> str:
    """Return the URL for display. The URL of a document has its path decoded."""
    return _LINE_BREAK.sub(" ", unquote(url, errors="replace")) if url.startswith(DOCUMENT_SCHEME) else url


def shorten(text: str, max_chars: int = TERMINAL_QUOTE_CHARS) -> str:
    """Return the text on one line, cut between words to `max_chars` characters."""
    line = " ".join(text.split())
    return line if len(line) <= max_chars else f"{line[:max_chars].rsplit(' ', 1)[0]} …"


def format_local_minute(when: datetime) -> str:
    """Return the date and time in the time zone of this machine, to the minute."""
    return when.astimezone().strftime("%Y-%m-%d %H:%M")


def _render_section(heading: str, lines: Iterable[Line]) -> Iterator[Line]:
    """Yield a blank line, the heading and the lines. Without lines, yield nothing."""
    for position, line in enumerate(lines):
        if not position:
            yield Line()
            yield Line(heading, "bold")
        yield line


def _note_lines(notes: Sequence[str]) -> Iterator[Line]:
    if notes:
        yield Line()
    for note in notes:
        yield Line(f"Note: {shorten(note)}", "yellow")


def describe_verdict(citation: Citation, response: ResearchResponse) -> str:
    """Return the verdict of a citation with its score, and whether the platform found the source.

    The word comparison gives the score, so the text has both verdicts if a model gave the final one. A quote of an answer
    without a model has no score.
    """
    if decide_shown_verdict(citation, response.metadata.synthesizer) == "quoted":
        return "quoted word for word"
    found = FOUND if citation.cited_by == "platform" else ""
    verdict = FINDINGS[citation.finding] if citation.finding else citation.verdict
    if citation.checked_by == "words":
        return f"{verdict} {citation.score:.2f}{found}"
    by = "the model" if citation.checked_by == "model" else "meaning"
    return f"{verdict} by {by} (words: {citation.word_verdict} {citation.score:.2f}){found}"


def describe_pages(citation: Citation) -> str:
    """Return text such as `, p. 15` for a quote from a PDF, and an empty text for any other."""
    return "" if citation.page is None else f", p. {citation.page}"


def _quote_text(citation: Citation, response: ResearchResponse) -> str:
    """Return the quote with its source. For a sentence without support, return the sentence with the nearest quote."""
    quote, source = shorten(citation.quote), f"[{citation.source_index}]{describe_pages(citation)}"
    is_excerpt = citation.verdict == "unchecked" and citation.checked_against == "snippet"
    if quote and citation.verdict != "unsupported" and not is_excerpt:
        return f"“{quote}” — {source}"
    sentence = f"“{shorten(render_plain_text(response.synthesis[citation.start : citation.end]))}”"
    if is_excerpt:
        return f"not in the search excerpt of {source}: {sentence}"
    if citation.verdict == "unchecked":
        return f"{_explain_unchecked(citation.source_index, response).format(source=source)}: {sentence}"
    nearest = f"; nearest there: “{quote}”" if quote else ""
    cited = next((source for source in response.sources if source.index == citation.source_index), None)
    if cited is not None and cited.is_read_in_part:  # The part that was not read may have the support.
        nearest += f" (only {cited.extraction:.0%} of the page's visible text was read)"
    if citation.finding == "contradicts":
        return f"{source} says otherwise: {sentence}{nearest}"
    return f"{source} does not say: {sentence}{nearest}"


def _explain_unchecked(source_index: int, response: ResearchResponse) -> str:
    """Return the text that says why words were not compared. Without raw results, either cause is possible."""
    urls = {source.url for source in response.sources if source.index == source_index}
    texts = [raw.content for raw in response.raw_results or () if raw.url in urls]
    if not texts:
        return "{source} has no stored text or is in another language, so the sentence was not compared with it"
    return OTHER_LANGUAGE if any(texts) else NO_TEXT


def render_egress_log(metadata: ResearchMetadata) -> Iterator[Line]:
    """Yield the lines of `--show-sent`: one for each host and kind of data, the most bytes first.

    Data that was sent earlier, for text from the cache or the store, has a section of its own.
    """
    cached = metadata.cached_sent_to
    is_cached = metadata.cache_hit or bool(cached)
    yield Line()
    yield Line("Sent", "bold")
    yield from _describe_sent(metadata.sent_to, NOTHING_SENT_NOW if is_cached else NOTHING_SENT)
    if is_cached:
        yield Line()
        yield Line("Sent earlier, to produce the cached or stored parts", "bold")
        yield from _describe_sent(cached, NOT_RECORDED)


def _describe_sent(sent: Sequence[Sent], empty_text: str) -> Iterator[Line]:
    if not sent:
        yield Line(empty_text)
        return
    host_width = min(MAX_HOST_COLUMNS, max(len(_name_host(entry)) for entry in sent))
    kind_width = max(len(entry.kind) for entry in sent)
    for entry in sorted(sent, key=lambda entry: (-entry.bytes, entry.host, entry.kind, entry.via or "")):
        amount = f"{format_count(entry.requests, 'request')}, {format_bytes(entry.bytes)}"
        yield Line(f"{_name_host(entry):{host_width}}  {entry.kind:{kind_width}}  {amount}")


def _name_host(entry: Sent) -> str:
    """Return the host, and the proxy if there is one, because it sees the request."""
    return f"{entry.host} via {entry.via}" if entry.via else entry.host


def format_bytes(count: float) -> str:
    """Return a number of bytes with its unit, such as 51.2 kB."""
    for unit in BYTE_UNITS:
        if count < KILO or unit == BYTE_UNITS[-1]:
            break
        count /= KILO
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
