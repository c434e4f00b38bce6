"""Answers as lines that a person reads: what was asked for first, then where it stands, then what went otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.research_dtos import Citation, ResearchResponse, SourceRef, Verdict
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchResponse, WebSearchResultItem
from modules.llm_platform.presentation.cli.console import Line, Style

LONGEST_QUOTE = 300  # characters; the whole one stands in --json
NO_MODEL = (
    "No language model is configured, so these are quotes from your sources. "
    "For a written answer set LLM_API_KEY and LLM_MODEL, or KIMI_API_KEY, "
    "or LLM_KIND=ollama with LLM_BASE_URL and LLM_MODEL."
)

MARKS: dict[Verdict, tuple[str, Style]] = {
    "supported": ("✔", "green"),
    "partial": ("~", "yellow"),
    "unsupported": ("✘", "red"),
    "unchecked": ("?", "dim"),
}


def found(response: WebSearchResponse) -> Iterator[Line]:
    """The results of a search."""
    if not response.results:
        yield Line("Nothing was found.")
    for number, item in enumerate(response.results, 1):
        yield from _result(number, item)
    yield from _notes(response.correction, response.degraded)
    yield Line()
    yield Line(f"{_many(len(response.results), 'result')} from {response.provider or 'nobody'}", "dim")


def beneath(response: ResearchResponse, *, model: bool) -> Iterator[Line]:
    """All that stands below an answer: sources, quotes with their verdicts, notes, what it took."""
    yield from _sources(response.sources)
    yield from _quotes(response)
    yield from _notes(response.metadata.correction, response.degraded, () if model else (NO_MODEL,))
    yield Line()
    yield Line(took(response), "dim")


def took(response: ResearchResponse) -> str:
    """What an answer took, in one line."""
    meta = response.metadata
    parts = [
        f"{meta.latency_ms / 1000:.1f} s",
        _many(meta.searches, "search", "searches") + (f" ({', '.join(meta.providers)})" if meta.providers else ""),
        f"written by {meta.synthesizer}" + (" (from the cache)" if meta.cache_hit else ""),
    ]
    if meta.llm_calls:
        cost = "price not known" if meta.cost_usd is None else f"${meta.cost_usd:.4f}"
        parts.append(f"{meta.tokens_used} tokens, {cost}")
    return " · ".join(parts)


def notes(correction: str | None, degraded: Iterable[Degraded]) -> list[str]:
    """What went otherwise than asked, each thing once."""
    said = [f"Did you mean “{correction}”?"] if correction else []
    return said + list(dict.fromkeys(_trouble(each) for each in degraded))


def shortened(text: str, limit: int = LONGEST_QUOTE) -> str:
    """The text on one line, cut between words."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[:limit].rsplit(' ', 1)[0]} …"


def _result(number: int, item: WebSearchResultItem) -> Iterator[Line]:
    beside = " · ".join(part for part in (item.site_name, item.published_date) if part)
    yield Line(f"{number}. {shortened(item.title)}", "bold")
    yield Line(f"   {item.url}", "dim")
    if beside:
        yield Line(f"   {shortened(beside)}", "dim")
    if item.text:
        yield Line(f"   {shortened(item.text)}")


def _sources(sources: Iterable[SourceRef]) -> Iterator[Line]:
    for position, source in enumerate(sources):
        if not position:
            yield Line()
            yield Line("Sources", "bold")
        yield Line(f"[{source.index}] {shortened(source.title)}")
        yield Line(f"    {source.url}", "dim")


def _quotes(response: ResearchResponse) -> Iterator[Line]:
    for position, citation in enumerate(response.citations):
        if not position:
            yield Line()
            yield Line("Citations", "bold")
        mark, style = MARKS[citation.verdict]
        yield Line(f"{mark} {citation.verdict} {citation.score:.2f}  {_quoted(citation, response.synthesis)}", style)


def _quoted(citation: Citation, synthesis: str) -> str:
    if citation.quote:
        return f"“{shortened(citation.quote)}” — [{citation.source_index}]"
    return f"[{citation.source_index}] does not say: “{shortened(synthesis[citation.start : citation.end])}”"


def _notes(correction: str | None, degraded: Iterable[Degraded], more: Iterable[str] = ()) -> Iterator[Line]:
    for position, note in enumerate([*notes(correction, degraded), *more]):
        if not position:
            yield Line()
        yield Line(f"Note: {shortened(note)}", "yellow")


def _trouble(degraded: Degraded) -> str:
    until = f" (until {degraded.until:%H:%M} UTC)" if degraded.until else ""
    return f"{degraded.component}: {degraded.reason}{until}"


def _many(count: int, one: str, more: str | None = None) -> str:
    return f"{count} {one if count == 1 else more or one + 's'}"
