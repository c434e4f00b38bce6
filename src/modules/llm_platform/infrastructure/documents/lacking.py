"""What documents of one's own cannot do of a search request."""

from __future__ import annotations

from collections.abc import Iterator

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest
from modules.llm_platform.domain.freshness import window


def lacking_of(request: WebSearchRequest, name: str) -> Iterator[Degraded]:
    """A word about each thing that is left out. Raises WebSearchRequestError for a freshness that nobody knows."""
    if window(request) is not None:
        yield Degraded(component=name, reason="documents are not searched by date: freshness was left out")
    if request.engines:
        yield Degraded(component=name, reason="documents have no engines to choose from")
    if request.domains:
        yield Degraded(component=name, reason="documents belong to no site: domains were left out")
    for kind in ("news", "academic"):
        if kind in request.sources:
            yield Degraded(component=name, reason=f"documents were searched instead of {kind}")
