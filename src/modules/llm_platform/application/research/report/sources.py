"""What a report is written from, under its numbers, and what it lists as found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from modules.llm_platform.application.research.report.read import OpenPage
from modules.llm_platform.application.research.search import MAX_TITLE_CHARS
from modules.llm_platform.domain.canonical_url import canonical_url
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.report_dtos import RankedCandidate
from modules.llm_platform.domain.dtos.research_dtos import RawResult, Source
from modules.llm_platform.domain.text.tokens import count_tokens

MAX_SOURCE_CHARS = 100_000  # of a page: what an answer can quote, and what is held for it
SAMPLE_CHARS = 4000  # of what is cut off, by which its tokens are estimated
MAX_NAME_CHARS = 60  # of a title, where it names what was cut
GIVEN_CHARS = 500  # of a page that no search found, where the results are listed
NO_PAGE = "no page could be read: written from what the search results say"
CUT_PAGE = "page_cut: the report knows the first {chars} characters of this page"


@dataclass(frozen=True, slots=True)
class ReportSources:
    """The numbered sources, best first. `documents` are the addresses of one's own files among them, `cut_tokens` what of
    the pages found no room, about.
    """

    sources: tuple[Source, ...]
    documents: frozenset[str] = frozenset()
    cut_tokens: int = 0
    degraded: tuple[Degraded, ...] = ()


def from_pages(pages: Sequence[OpenPage]) -> ReportSources:
    """The pages, as long as what is held of a page may be."""
    cut = [each.page for each in pages if len(each.page.text) > MAX_SOURCE_CHARS]
    reason = CUT_PAGE.format(chars=MAX_SOURCE_CHARS)
    return ReportSources(
        sources=tuple(_of_page(number, each) for number, each in enumerate(pages, 1)),
        documents=frozenset(each.wanted.url for each in pages if each.is_document),
        cut_tokens=sum(_tokens_cut(page.text) for page in cut),
        degraded=tuple(Degraded(component=f"source/{page.title[:MAX_NAME_CHARS]}", reason=reason) for page in cut),
    )


def from_results(best: Sequence[RankedCandidate], count: int, documents: str) -> ReportSources:
    """Where no page could be read: what the search engines say of the best results. Those of the source named `documents`
    are files.
    """
    items = [each.candidate.item for each in best if each.candidate.item.text][:count]
    sources = tuple(
        Source(index=number, title=item.title, url=item.url, text=item.text, published=item.published_date)
        for number, item in enumerate(items, 1)
    )
    files = frozenset(item.url for item in items if item.source == documents or item.url.startswith("doc:"))
    return ReportSources(sources, files, degraded=(Degraded(component="read", reason=NO_PAGE),) if best else ())


def raw_results(best: Sequence[RankedCandidate], material: ReportSources) -> tuple[RawResult, ...]:
    """What was found: first what became a source, by its number, then the rest, best first."""
    by_address = {canonical_url(each.candidate.item.url): each for each in best}
    read = [_raw_source(each, by_address.pop(canonical_url(each.url), None), material) for each in material.sources]
    rest = [_raw_result(each, each.candidate.item.text) for each in by_address.values()]
    return (*read, *rest)


def _of_page(number: int, opened: OpenPage) -> Source:
    page, wanted = opened.page, opened.wanted
    title, text = (page.title or wanted.title)[:MAX_TITLE_CHARS], page.text[:MAX_SOURCE_CHARS]
    return Source(index=number, title=title, url=wanted.url, text=text, published=page.published)


def _tokens_cut(text: str) -> int:
    """About how many tokens stand behind what is held; a few megabytes are not counted word by word."""
    cut = len(text) - MAX_SOURCE_CHARS
    sample = text[MAX_SOURCE_CHARS : MAX_SOURCE_CHARS + SAMPLE_CHARS]
    return round(count_tokens(sample) * cut / len(sample))


def _raw_source(source: Source, found: RankedCandidate | None, material: ReportSources) -> RawResult:
    """A source as it was found. Of a document its whole text: there is no address where it could be looked up."""
    if found is None:
        text = source.text[:GIVEN_CHARS]
        return RawResult(title=source.title, url=source.url, content=text, published=source.published)
    return _raw_result(found, source.text if source.url in material.documents else found.candidate.item.text)


def _raw_result(found: RankedCandidate, text: str) -> RawResult:
    raw = RawResult.of(found.candidate.item)
    return raw.model_copy(update={"score": found.score.value, "content": text})
