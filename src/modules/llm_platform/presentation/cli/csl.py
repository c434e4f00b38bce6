"""The sources of an answer as CSL-JSON 1.0, which Zotero, Pandoc and LaTeX tools read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any, Final

from modules.llm_platform.domain.dtos.research_dtos import RawResult, ResearchResponse, SourceRef
from modules.llm_platform.domain.language import detect
from modules.llm_platform.presentation.cli.as_json import dumped

WEB_PAGE: Final = "webpage"
_DAY = re.compile(r"(\d{4})-(\d{2})-(\d{2})(?!\d)", re.ASCII)  # how each form of ISO 8601 with a day begins
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
    yield "type", WEB_PAGE
    yield "title", " ".join(source.title.split()) or source.url
    yield "URL", source.url
    yield "accessed", _date(accessed.year, accessed.month, accessed.day)
    if result is None:
        return
    if issued := _issued(result.published):
        yield "issued", issued
    if language := detect(f"{result.title}\n{result.content}"):
        yield "language", language


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
