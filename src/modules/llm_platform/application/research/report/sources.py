"""Number the sources of a report, and list the results that it returns."""

from collections.abc import Sequence
from dataclasses import dataclass

from modules.llm_platform.application.research.find.search import MAX_TITLE_CHARS
from modules.llm_platform.application.research.report.read import ReadPage
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.report_dtos import RankedCandidate
from modules.llm_platform.domain.dtos.source_dtos import RawResult, Source, TextKind
from modules.llm_platform.domain.dtos.web_search_dtos import DOCUMENTS, WebSearchResultItem
from modules.llm_platform.domain.research.source_date import choose_source_date
from modules.llm_platform.domain.text.tokens import count_tokens
from modules.llm_platform.domain.urls.canonical_url import canonical_url

MAX_SOURCE_CHARS = 100_000  # longest page that is stored and can be quoted
SAMPLE_CHARS = 4000  # sample of the text that is cut off, for an estimate of its tokens
MAX_NAME_CHARS = 60  # longest title in `degraded`
EXCERPT_CHARS = 500  # shown in raw_results of a page that no search found
NO_PAGE = "no page could be read: written from the search results' own texts"
CUT_PAGE = "page_cut: only the first {chars} characters of this page were used"


@dataclass(frozen=True, slots=True)
class ReportSources:
    """The numbered sources, best first.

    `documents` are the addresses of the operator's own files among them. `cut_tokens` is an estimate of the tokens that were
    cut off.
    """

    sources: tuple[Source, ...]
    documents: frozenset[str] = frozenset()
    cut_tokens: int = 0
    degraded: tuple[Degraded, ...] = ()


def make_sources_from_pages(pages: Sequence[ReadPage], best: Sequence[RankedCandidate]) -> ReportSources:
    """Return the pages as sources, each cut to MAX_SOURCE_CHARS. A page without an ISO date gets the date of its result."""
    items = {canonical_url(ranked.candidate.item.url): ranked.candidate.item for ranked in best}
    cut = [read_page.page for read_page in pages if len(read_page.page.text) > MAX_SOURCE_CHARS]
    reason = CUT_PAGE.format(chars=MAX_SOURCE_CHARS)
    return ReportSources(
        sources=tuple(
            _make_source(number, read_page, items.get(canonical_url(read_page.request.url)))
            for number, read_page in enumerate(pages, 1)
        ),
        documents=frozenset(read_page.request.url for read_page in pages if read_page.is_document),
        cut_tokens=sum(_estimate_cut_tokens(page.text) for page in cut),
        degraded=tuple(Degraded(component=f"source/{page.title[:MAX_NAME_CHARS]}", reason=reason) for page in cut),
    )


def make_sources_from_results(best: Sequence[RankedCandidate], count: int) -> ReportSources:
    """Return the texts of the best search results as sources, for a report whose pages could not be read."""
    items = [ranked.candidate.item for ranked in best if ranked.candidate.item.text][:count]
    sources = tuple(
        Source(
            index=number,
            title=item.title,
            url=item.url,
            text=item.text,
            published=item.published_date,
            text_kind="document" if _is_file(item) else "snippet",
            pages=item.pages,
        )
        for number, item in enumerate(items, 1)
    )
    files = frozenset(item.url for item in items if _is_file(item))
    return ReportSources(sources, files, degraded=(Degraded(component="read", reason=NO_PAGE),) if best else ())


def _is_file(item: WebSearchResultItem) -> bool:
    return item.source == DOCUMENTS or item.url.startswith("doc:")


def list_raw_results(best: Sequence[RankedCandidate], report_sources: ReportSources) -> tuple[RawResult, ...]:
    """Return the sources by number, then all other results, best first."""
    by_address = {canonical_url(ranked.candidate.item.url): ranked for ranked in best}
    read: list[RawResult] = []
    for source in report_sources.sources:
        found = by_address.pop(canonical_url(source.url), None)
        if found is None:
            text = source.text[:EXCERPT_CHARS]
            read.append(RawResult(title=source.title, url=source.url, content=text, published=source.published))
        else:  # a document is returned with its full text, because readers cannot open its address
            is_document = source.url in report_sources.documents
            text = source.text if is_document else found.candidate.item.text
            read.append(_make_raw_result(found, text, source.published))
    items = ((ranked, ranked.candidate.item) for ranked in by_address.values())
    return (*read, *(_make_raw_result(ranked, item.text, item.published_date) for ranked, item in items))


def _make_source(number: int, read: ReadPage, found: WebSearchResultItem | None) -> Source:
    page, request = read.page, read.request
    title, text = (page.title or request.title)[:MAX_TITLE_CHARS], page.text[:MAX_SOURCE_CHARS]
    kind: TextKind = "document" if read.is_document else "page"
    return Source(
        index=number,
        title=title,
        url=request.url,
        text=text,
        published=choose_source_date(page.published, found.published_date if found else None),
        text_kind=kind,
        extraction=page.extraction,
        pages=page.pages,
        read_at=page.read_at,
        media_type=page.media_type,
    )


def _estimate_cut_tokens(text: str) -> int:
    """Estimate the tokens that were cut off from a sample, because counting megabytes takes too long."""
    cut = len(text) - MAX_SOURCE_CHARS
    sample = text[MAX_SOURCE_CHARS : MAX_SOURCE_CHARS + SAMPLE_CHARS]
    return round(count_tokens(sample) * cut / len(sample))


def _make_raw_result(found: RankedCandidate, text: str, published: str | None) -> RawResult:
    raw = RawResult.of(found.candidate.item)
    return raw.model_copy(update={"score": found.score.value, "content": text, "published": published})
