"""The sources of an answer as CSL-JSON 1.0, which Zotero, Pandoc and LaTeX tools read."""

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from modules.llm_platform.domain.citations.show.source_pages import format_pages, list_cited_pdf_pages
from modules.llm_platform.domain.citations.show.styles import read_date_parts
from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.source_dtos import RawResult, SourceRef
from modules.llm_platform.domain.dtos.web_search_dtos import DOCUMENTS
from modules.llm_platform.domain.text.language import detect_language
from modules.llm_platform.presentation.cli.render.json import write_json
from modules.llm_platform.presentation.cli.render.terminal import DOCUMENT_SCHEME

# Types of CSL
WEB_PAGE: Final = "webpage"
DOCUMENT: Final = "document"  # a file of the user or of the web, or anything with a DOI, which does not tell its type
DOI_HOSTS: Final = frozenset({"doi.org", "dx.doi.org", "www.doi.org"})
ARXIV_HOSTS: Final = frozenset({"arxiv.org", "www.arxiv.org", "export.arxiv.org"})

_DOI_PATH = re.compile(r"/(10\.\d{4,9}/\S+)", re.ASCII)
_ARXIV_PATH = re.compile(
    r"/(?:abs|pdf|html)/(?:\d{4}\.\d{4,5}|[a-z-]+(?:\.[A-Z]{2})?/\d{7})(?:v\d+)?(?:\.pdf)?", re.ASCII
)


def render_csl_json(response: ResearchResponse, accessed: date | None = None) -> str:
    """Return one item for each cited source, with its number in the answer as id: `source-3`.

    `accessed` is the day of access, by default the day on which a stored report was finished, or today. Publication
    date and language are included if known. `note` names the pages of a PDF that the answer cites.
    """
    stored_at = response.metadata.stored_at
    day = accessed or (stored_at.date() if stored_at else datetime.now(UTC).date())
    results = {result.url: result for result in response.raw_results or ()}
    pages = list_cited_pdf_pages(response.citations)
    items = [dict(_list_fields(source, results.get(source.url), day)) for source in response.sources]
    for item, source in zip(items, response.sources, strict=True):
        if cited := format_pages(pages.get(source.index, ())):
            item["note"] = cited  # an item of CSL has no place for the pages of a citation
    return write_json(items)


def _list_fields(source: SourceRef, result: RawResult | None, accessed: date) -> Iterator[tuple[str, Any]]:
    yield "id", f"source-{source.index}"
    yield "type", _choose_type(source, result)
    yield "title", " ".join(source.title.split()) or source.url
    yield "URL", source.url
    if doi := _find_doi(source.url):
        yield "DOI", doi
    yield "accessed", _make_date(accessed.year, accessed.month, accessed.day)
    if result is None:
        return
    if issued := read_date_parts(result.published):
        yield "issued", _make_date(*issued)
    if language := detect_language(f"{result.title}\n{result.content}"):
        yield "language", language


def _choose_type(source: SourceRef, result: RawResult | None) -> str:
    """Return the type that the URL or the search provider shows. The text of the source is not trusted."""
    if source.url.startswith(DOCUMENT_SCHEME) or (result is not None and result.source == DOCUMENTS):
        return DOCUMENT
    host, path = _split_address(source.url)
    if host in ARXIV_HOSTS and _ARXIV_PATH.fullmatch(path):
        return "article"  # a preprint: published, but not by a journal
    return DOCUMENT if _find_doi(source.url) or path.lower().endswith(".pdf") else WEB_PAGE


def _find_doi(url: str) -> str | None:
    host, path = _split_address(url)
    match = _DOI_PATH.fullmatch(unquote(path)) if host in DOI_HOSTS else None
    return match[1] if match else None


def _split_address(url: str) -> tuple[str, str]:
    """Return the host and the path of a URL, both empty if it is invalid."""
    try:
        parts = urlsplit(url)
        return parts.hostname or "", parts.path
    except ValueError:  # unbalanced brackets
        return "", ""


def _make_date(*parts: int) -> dict[str, Any]:
    return {"date-parts": [list(parts)]}
