"""Answers as lines that a person reads: what was asked for first, then where it stands, then what went otherwise."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC
from typing import Final
from urllib.parse import unquote

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.research_dtos import Citation, ResearchResponse, SourceRef, Verdict
from modules.llm_platform.domain.dtos.sent import Sent
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchResponse, WebSearchResultItem
from modules.llm_platform.presentation.cli.console import Line, Style

LONGEST_QUOTE = 300  # characters; the whole one stands in --json
NO_MODEL = (
    "No language model is configured, so these are quotes from your sources. "
    "For a written answer set LLM_API_KEY and LLM_MODEL, or KIMI_API_KEY, "
    "or LLM_KIND=ollama with LLM_BASE_URL and LLM_MODEL."
)
NO_MODEL_OFFLINE = (
    "Offline the language models that are configured are not asked, so these are quotes from your sources. "
    "For a written answer set LLM_KIND=ollama with LLM_BASE_URL and LLM_MODEL."
)
MODEL_FAILED = "No model wrote this answer: these are quotes from your sources."
AGAIN = "What its sources do not say is marked here:"
QUOTED = "quoted word for word"
EXTRACTIVE = "extractive"  # the writer that quotes

DOCUMENT = "doc:"  # begins the address of a document; the rest is its path, escaped as in a URL

_LINE_END = re.compile(r"[\r\n\t]")
_CODE = re.compile(r"^[a-z]+(?:_[a-z]+)+: ")  # that of the error, for programs
_MARKERS = re.compile(r"(?:[^\w\s\[]{0,4}(?:[ \t,;]*\[\d{1,9}\])+)?")  # a stop may stand before them
_BLANK_LINE = re.compile(r"\n[ \t]*\n")
_MARKUP = re.compile(r"[&\\`*_\[<~]")
UNSUPPORTED = "**✘ unsupported**"

MARKS: dict[Verdict, tuple[str, Style]] = {
    "supported": ("✔", "green"),
    "partial": ("~", "yellow"),
    "unsupported": ("✘", "red"),
    "unchecked": ("?", "dim"),
}


def render_results(response: WebSearchResponse) -> Iterator[Line]:
    """The results of a search."""
    if not response.results:
        yield Line("Nothing was found.")
    for number, item in enumerate(response.results, 1):
        yield from _result(number, item)
    yield from _notes(response.correction, response.degraded)
    yield Line()
    yield Line(f"{plural(len(response.results), 'result')} from {response.provider or 'nobody'}", "dim")


def with_unsupported_marked(response: ResearchResponse) -> str:
    """The answer's Markdown with a mark behind each citation whose source does not say the sentence.

    `synthesis` itself is never changed: the offsets of the citations point into it.
    """
    by_sentence: dict[tuple[int, int], list[Citation]] = {}
    for citation in response.citations:
        by_sentence.setdefault((citation.start, citation.end), []).append(citation)
    places: set[int] = set()
    for (start, end), citations in by_sentence.items():
        failed = [each.source_index for each in citations if each.verdict == "unsupported"]
        last = _MARKERS.match(response.synthesis, end).end()  # type: ignore[union-attr]  # matches nothing too
        alone = len(failed) == len(citations)
        places |= {last} if failed and alone else {_behind(response.synthesis, start, last, each) for each in failed}
    text, done = "", 0
    for place in sorted(places):
        text += f"{response.synthesis[done:place]} {UNSUPPORTED}"
        done = place
    return text + response.synthesis[done:]


def blocks_with_marks(marked: str) -> str:
    """The paragraphs of a marked answer that hold a mark; nothing where none does."""
    return "\n\n".join(block for block in _BLANK_LINE.split(marked) if UNSUPPORTED in block)


def _behind(synthesis: str, start: int, end: int, number: int) -> int:
    """Where the marker of this source ends; the sentence's own end where it has none of this form."""
    marker = f"[{number}]"
    at = synthesis.rfind(marker, start, end)
    return end if at < 0 else at + len(marker)


def plain_text(markdown: str) -> str:
    """What a reader of rendered Markdown sees of one sentence, on one line: no entities, escapes, emphasis or targets."""
    if not _MARKUP.search(markdown):
        return markdown
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).disable(["image", "html_inline"])
    return "".join(
        f"`{token.content}`" if token.type == "code_inline" else token.content or " " * (token.type == "softbreak")
        for inline in parser.parseInline(markdown)
        for token in inline.children or ()
    )


def render_sources(response: ResearchResponse, without_model: str | None = None) -> Iterator[Line]:
    """All that stands below an answer: sources, quotes with their verdicts, notes, what it took.

    `without_model` is what is said where no language model is configured.
    """
    yield from _sources(response.sources)
    yield from _quotes(response)
    more = (*render_store_notes(response), *_on_the_writer(response, without_model))
    yield from _notes(response.metadata.correction, response.degraded, more)
    yield Line()
    yield Line(render_duration(response), "dim")


def render_heading(page: Page) -> Iterator[Line]:
    """What stands above the text of a page: its title and address."""
    yield Line(shortened(page.title), "bold")
    yield Line(readable(page.url), "dim")
    yield Line()


def render_footer(page: Page) -> Iterator[Line]:
    """What stands below the text of a page: what is missing, who read it."""
    yield Line()
    if page.warning:
        yield Line(f"Note: {shortened(page.warning)}", "yellow")
    yield Line(render_metadata(page), "dim")


def render_metadata(page: Page) -> str:
    """Who read a page, and what there is of it, in one line."""
    dated = f" · published {shortened(page.published)}" if page.published else ""
    return f"{len(page.text)} characters of {page.media_type}, read by {page.reader}{dated}"


def render_duration(response: ResearchResponse) -> str:
    """What an answer took, in one line."""
    meta = response.metadata
    searches = plural(meta.searches, "search", "searches") + (
        f" ({', '.join(meta.providers)})" if meta.providers else ""
    )
    parts = [
        f"{meta.latency_ms / 1000:.1f} s",
        *([searches] if meta.searches else []),
        f"written by {meta.synthesizer}" + (" (from the cache)" if meta.cache_hit else ""),
    ]
    if meta.truncated_tokens:
        parts.append(f"{plural(meta.truncated_tokens, 'token')} of the sources found no room")
    if meta.llm_calls:
        parts.append(f"{plural(meta.tokens_used, 'token')}, {_price(meta.cost_usd)}")
    return " · ".join(parts)


def render_store_notes(response: ResearchResponse) -> Iterator[str]:
    """When an answer that came out of the store was finished, and how to have a new one."""
    if finished := response.metadata.stored_at:
        yield f"This is from the store, finished {finished.astimezone(UTC):%Y-%m-%d %H:%M} UTC; --fresh researches anew."


def _price(cost_usd: float | None) -> str:
    if cost_usd is None:
        return "price not known"
    return f"${cost_usd:.4f}" if cost_usd else "no cost"


def _on_the_writer(response: ResearchResponse, without_model: str | None) -> Iterator[str]:
    """Why the answer is made of quotes, where somebody may have expected more; one of the store may be a model's still."""
    if response.metadata.stored_at and response.metadata.synthesizer != EXTRACTIVE:
        return
    if without_model is not None:
        yield without_model
    elif response.metadata.synthesizer == EXTRACTIVE and response.sources:
        yield MODEL_FAILED


def readable(url: str) -> str:
    """An address for people: a document's with its file name as it is written, another as it can be opened."""
    return _LINE_END.sub(" ", unquote(url, errors="replace")) if url.startswith(DOCUMENT) else url


def notes(correction: str | None, degraded: Iterable[Degraded]) -> list[str]:
    """What went otherwise than asked, each thing once."""
    said = [f"Did you mean “{correction}”?"] if correction else []
    return said + list(dict.fromkeys(_trouble(each) for each in degraded))


def shortened(text: str, limit: int = LONGEST_QUOTE) -> str:
    """The text on one line, cut between words."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[:limit].rsplit(' ', 1)[0]} …"


def _result(number: int, item: WebSearchResultItem) -> Iterator[Line]:
    beside = " · ".join(part for part in (item.site_name, _day(item.published_date)) if part)
    yield Line(f"{number}. {shortened(item.title)}", "bold")
    yield Line(f"   {readable(item.url)}", "dim")
    if beside:
        yield Line(f"   {shortened(beside)}", "dim")
    if item.text:
        yield Line(f"   {shortened(item.text)}")


def _day(published: str | None) -> str | None:
    """Without a midnight, which stands for a time that nobody knew."""
    return published.partition("T00:00:00")[0] if published else None


def _sources(sources: Iterable[SourceRef]) -> Iterator[Line]:
    for position, source in enumerate(sources):
        if not position:
            yield Line()
            yield Line("Sources", "bold")
        yield Line(f"[{source.index}] {shortened(source.title)}")
        yield Line(f"    {readable(source.url)}", "dim")


def judgement(citation: Citation, response: ResearchResponse) -> str:
    """The verdict of a citation with its score; of one by a model, what the words said beside it, since the score is theirs.
    An answer made of quotes has nothing to weigh.
    """
    if citation.score == 1.0 and response.metadata.synthesizer == EXTRACTIVE:
        return QUOTED
    if citation.checked_by == "words":
        return f"{citation.verdict} {citation.score:.2f}"
    return f"{citation.verdict} by the model (words: {citation.word_verdict} {citation.score:.2f})"


def _quotes(response: ResearchResponse) -> Iterator[Line]:
    for position, citation in enumerate(response.citations):
        if not position:
            yield Line()
            yield Line("Citations", "bold")
        mark, style = MARKS[citation.verdict]
        yield Line(f"{mark} {judgement(citation, response)}  {_quoted(citation, response.synthesis)}", style)


def _quoted(citation: Citation, synthesis: str) -> str:
    """The quote, or what the answer says where the source does not; beside it the nearest thing that it does say."""
    quote, source = shortened(citation.quote), f"[{citation.source_index}]"
    if quote and citation.verdict != "unsupported":
        return f"“{quote}” — {source}"
    said = f"“{shortened(plain_text(synthesis[citation.start : citation.end]))}”"
    if citation.verdict == "unchecked":
        return f"the text of {source} is not held: {said}"
    return f"{source} does not say: {said}" + (f"; nearest there: “{quote}”" if quote else "")


def _notes(correction: str | None, degraded: Iterable[Degraded], more: Iterable[str] = ()) -> Iterator[Line]:
    for position, note in enumerate([*notes(correction, degraded), *more]):
        if not position:
            yield Line()
        yield Line(f"Note: {shortened(note)}", "yellow")


def _trouble(degraded: Degraded) -> str:
    until = f" (until {degraded.until:%H:%M} UTC)" if degraded.until else ""
    return f"{degraded.component}: {_CODE.sub('', degraded.reason)}{until}"


def plural(count: int, one: str, more: str | None = None) -> str:
    """A count with its noun."""
    return f"{count} {one if count == 1 else more or one + 's'}"


# The ledger of a research as lines that a person reads (`--show-sent`).


HEADING: Final = "Sent"
NOTHING_SENT: Final = "Nothing was sent to any host."
KILO: Final = 1000  # bytes in a kB
LONGEST_HOST: Final = 60  # characters; a longer one moves its own line only


def render_egress_log(sent: Sequence[Sent]) -> Iterator[Line]:
    """A heading, then a line for each host and kind of data, most bytes first."""
    yield Line()
    yield Line(HEADING, "bold")
    if not sent:
        yield Line(NOTHING_SENT)
        return
    width = min(LONGEST_HOST, max(len(_host(entry)) for entry in sent))
    kinds = max(len(entry.kind) for entry in sent)
    for entry in sorted(sent, key=lambda entry: (-entry.bytes, entry.host, entry.kind, entry.via or "")):
        requests = f"{entry.requests} {'request' if entry.requests == 1 else 'requests'}"
        yield Line(f"{_host(entry):{width}}  {entry.kind:{kinds}}  {requests}, {_size(entry.bytes)}")


def _host(entry: Sent) -> str:
    """With the proxy, which hears of it too."""
    return f"{entry.host} via {entry.via}" if entry.via else entry.host


def _size(count: int) -> str:
    if count < KILO:
        return f"{count} B"
    kilobytes = count / KILO
    return f"{kilobytes:.1f} kB" if kilobytes < KILO else f"{kilobytes / KILO:.1f} MB"
