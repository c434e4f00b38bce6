"""The texts of search results, for `fetch` of a result whose page cannot be read."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Final

from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchResultItem
from shared.exceptions import AppException

MAX_FOUND_TEXTS: Final = 2000
MAX_FOUND_CHARS: Final = 2000  # longest text of one result
FOUND_TEXT_S: Final = 3600.0
READER: Final = "search"
WARNING: Final = (
    "The page could not be read ({code}): this is the text of the search result, which is shorter than the page."
)


class FoundTexts:
    """Holds the newest results of searches in memory, for the caller who searched, and for an hour."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._found: OrderedDict[tuple[str, str], tuple[float, Page]] = OrderedDict()

    def remember(self, owner: str, results: Iterable[WebSearchResultItem]) -> None:
        """Remember the results that have a text."""
        now = self._clock()
        for result in results:
            text = result.text.strip()[:MAX_FOUND_CHARS]
            if not text:
                continue
            page = Page(
                url=result.url,
                title=result.title,
                text=text,
                read_at=datetime.now(UTC),
                reader=READER,
                sha256=hashlib.sha256(text.encode()).hexdigest(),
                media_type="text/plain",
                published=result.published_date,
            )
            self._found[owner, result.url] = now, page
            self._found.move_to_end((owner, result.url))
        while len(self._found) > MAX_FOUND_TEXTS:
            self._found.popitem(last=False)

    def find_replacement(self, owner: str, url: str, error: AppException) -> Page | None:
        """Return the text of the result with the address, with a warning that names the error, or None if it is not known."""
        found_at, page = self._found.get((owner, url), (0.0, None))
        if page is None or self._clock() - found_at > FOUND_TEXT_S:
            return None
        return page.model_copy(update={"warning": WARNING.format(code=error.code)})
