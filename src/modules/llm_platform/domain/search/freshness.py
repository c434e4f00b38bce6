"""The age limit of a search. Adapters translate it for their vendor."""

from modules.llm_platform.domain.dtos.freshness import KEYWORDS, Freshness, parse_freshness
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResultItem
from modules.llm_platform.domain.exceptions import WebSearchRequestError
from modules.llm_platform.domain.urls.canonical_url import admits_host, get_host

_SPAN: dict[str, Freshness] = {span: Freshness(recent=span) for span in KEYWORDS.values()}


def freshness_window(request: WebSearchRequest) -> Freshness | None:
    """Return the limit of a request, None for no limit; `freshness` overrides `time_range`.

    Raises WebSearchRequestError for an invalid freshness.
    """
    if request.freshness is None:
        return None if request.time_range is None else _SPAN[request.time_range]
    try:
        return parse_freshness(request.freshness)
    except ValueError as error:
        raise WebSearchRequestError(f"freshness {error}") from error


def is_admitted(item: WebSearchResultItem, request: WebSearchRequest, window: Freshness | None) -> bool:
    """Return whether the item matches domains and dates of the request, which an engine may treat as hints."""
    return admits_host(get_host(item.url), request.domains) and (window is None or window.admits(item.published_date))
