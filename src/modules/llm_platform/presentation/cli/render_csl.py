"""The sources of an answer as CSL-JSON 1.0, which Zotero, Pandoc and LaTeX tools read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from modules.llm_platform.domain.dtos.research_dtos import RawResult, ResearchResponse, SourceRef
from modules.llm_platform.domain.text.language import detect
from modules.llm_platform.presentation.cli.render_json import dumped

WEB_PAGE: Final = "webpage"  # whatever nobody can tell
DOCUMENT: Final = (
    "document"  # a file, of the reader's own or on the web, or what has a DOI: that says no more of its kind
)
PREPRINT: Final = "article"  # CSL's word for what is made public, but not by a journal
DOI_HOSTS: Final = frozenset({"doi.org", "dx.doi.org", "www.doi.org"})
ARXIV_HOSTS: Final = frozenset({"arxiv.org", "www.arxiv.org", "export.arxiv.org"})
DOCUMENTS: Final = "documents"
_DAY = re.compile(r"(\d{4})-(\d{2})-(\d{2})(?!\d)", re.ASCII)  # how each form of ISO 8601 with a day begins
_DOI = re.compile(r"/(10\.\d{4,9}/\S+)", re.ASCII)  # the path of an address of the DOI system
_ARXIV_PATH = re.compile(
    r"/(?:abs|pdf|html)/(?:\d{4}\.\d{4,5}|[a-z-]+(?:\.[A-Z]{2})?/\d{7})(?:v\d+)?(?:\.pdf)?", re.ASCII
)
_MONTH_OR_YEAR = re.compile(r"(\d{4})(?:-(\d{2}))?", re.ASCII)


def csl_json(response: ResearchResponse, accessed: date | None = None) -> str:
    """One item for each source that the answer cites, under the number that it has there: `source-3`.

    `accessed` is the day on which the sources were looked at; by default that on which a stored report was finished,
    else today. When a page was published and what language it is in stands there where it is known.
    """
    stored = response.metadata.stored_at
    day = accessed or (stored.date() if stored else datetime.now(UTC).date())
    found = {result.url: result for result in response.raw_results or ()}
    return dumped([dict(_item(source, found.get(source.url), day)) for source in response.sources])


def _item(source: SourceRef, result: RawResult | None, accessed: date) -> Iterator[tuple[str, Any]]:
    yield "id", f"source-{source.index}"
    yield "type", _type(source, result)
    yield "title", " ".join(source.title.split()) or source.url
    yield "URL", source.url
    if doi := _doi(source.url):
        yield "DOI", doi
    yield "accessed", _date(accessed.year, accessed.month, accessed.day)
    if result is None:
        return
    if issued := _issued(result.published):
        yield "issued", issued
    if language := detect(f"{result.title}\n{result.content}"):
        yield "language", language


def _type(source: SourceRef, result: RawResult | None) -> str:
    """What the source is for certain: by where its address leads, or who found it, never by what it says of itself."""
    if source.url.startswith("doc:") or (result is not None and result.source == DOCUMENTS):
        return DOCUMENT
    host, path = _parts(source.url)
    if host in ARXIV_HOSTS and _ARXIV_PATH.fullmatch(path):
        return PREPRINT
    return DOCUMENT if _doi(source.url) or path.lower().endswith(".pdf") else WEB_PAGE


def _doi(url: str) -> str | None:
    host, path = _parts(url)
    found = _DOI.fullmatch(unquote(path)) if host in DOI_HOSTS else None
    return found[1] if found else None


def _parts(url: str) -> tuple[str, str]:
    """Host and path of an address; empty where it is none."""
    try:
        parts = urlsplit(url)
        return parts.hostname or "", parts.path
    except ValueError:  # unbalanced brackets
        return "", ""


def _issued(published: str | None) -> dict[str, Any] | None:
    """A date as CSL has it, as exact as it was told; None for what is no date of ISO 8601, such as "yesterday"."""
    told = (published or "").strip()
    found = _DAY.match(told) or _MONTH_OR_YEAR.fullmatch(told)
    if found is None:
        return None
    parts = [int(part) for part in found.groups() if part]
    try:
        date(*[*parts, 1, 1][:3])
    except ValueError:
        return None
    return _date(*parts)


def _date(*parts: int) -> dict[str, Any]:
    return {"date-parts": [list(parts)]}
