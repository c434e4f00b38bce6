"""The pages of PDFs that an answer cites, for formats that name sources and cannot show single citations."""

from collections.abc import Iterable, Mapping, Sequence

from modules.llm_platform.domain.dtos.citation_dtos import SUPPORTING_VERDICTS, Citation
from modules.llm_platform.domain.urls.canonical_url import page_url


def list_cited_pdf_pages(citations: Iterable[Citation]) -> dict[int, tuple[int, ...]]:
    """Return the pages at which supporting quotes begin, keyed by the number of their source, in the order of the text."""
    pages: dict[int, dict[int, None]] = {}
    for citation in sorted(citations, key=lambda citation: citation.start):
        # A quote with another verdict is only the nearest passage.
        if citation.page is not None and citation.verdict in SUPPORTING_VERDICTS:
            pages.setdefault(citation.source_index, {})[citation.page] = None
    return {index: tuple(numbers) for index, numbers in pages.items()}


def add_cited_page(url: str, index: int, pages: Mapping[int, Sequence[int]]) -> str:
    """Return the address of a source with its first cited page, or the address alone if no page is cited."""
    return page_url(url, next(iter(pages.get(index, ())), None))


def format_pages(pages: Iterable[int]) -> str:
    """Return `p. 15`, or `pp. 3, 15` in ascending order; empty without pages."""
    numbers = sorted(set(pages))
    return f"{'p.' if len(numbers) == 1 else 'pp.'} {', '.join(map(str, numbers))}" if numbers else ""
