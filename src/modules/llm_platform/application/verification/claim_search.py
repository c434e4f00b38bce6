"""Search for further sources of the sentences that no source supports."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from modules.llm_platform.application.verification.source_reading import ReadSource
from modules.llm_platform.domain.citations.forms.cited_text import CitedSource
from modules.llm_platform.domain.concurrency.deadline import deadline_at
from modules.llm_platform.domain.concurrency.page_allowance import count_fetch
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.web_search_dtos import (
    MAX_QUERY_CHARS,
    SourceKind,
    WebSearchRequest,
    WebSearchResultItem,
)
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.domain.search.request_count import RequestCount
from modules.llm_platform.domain.text.counts import format_count
from modules.llm_platform.domain.urls.canonical_url import canonical_url, is_openable
from shared.exceptions import AppException

MAX_SEARCHES: Final = 10  # searches of the web, one for each unsupported sentence
MAX_DOCUMENT_SEARCHES: Final = 40
RESULTS_PER_SEARCH: Final = 3  # pages that are read for each search
MAX_CONCURRENT_SEARCHES: Final = 3
NOT_SEARCHED: Final = "timeout: {sentences} not searched for in time: split the text, or try again"


class ClaimSearch:
    """The searches for the claims of one text.

    - `kinds` is what is searched: the web, the documents of the operator, or both. Empty means that nothing is searched.
    - `until` is a deadline in event loop time. No search starts after it.
    - `degraded` says which searches failed or were too late.
    """

    def __init__(
        self, provider: IWebSearchProvider, kinds: tuple[SourceKind, ...], language: str, until: float
    ) -> None:
        self._provider, self._language, self._until = provider, language, until
        self.kinds = kinds
        self._count = RequestCount()
        self._late = 0
        self.degraded: list[Degraded] = []

    @property
    def max_claims(self) -> int:
        """The highest number of claims to search for."""
        return MAX_SEARCHES if "web" in self.kinds else MAX_DOCUMENT_SEARCHES

    @property
    def requests(self) -> int:
        """The requests to search providers so far."""
        return self._count.requests

    async def find_results(self, claims: Iterable[str]) -> list[Sequence[WebSearchResultItem]]:
        """Return the results for each claim, best first. They are empty if the search of a claim failed."""
        semaphore = asyncio.Semaphore(MAX_CONCURRENT_SEARCHES)
        results = await asyncio.gather(*(self._search(claim, semaphore) for claim in claims))
        if self._late:
            reason = NOT_SEARCHED.format(sentences=format_count(self._late, "sentence was", "sentences were"))
            self.degraded.append(Degraded(component=self._provider.name, reason=reason))
        return results

    async def _search(self, claim: str, semaphore: asyncio.Semaphore) -> Sequence[WebSearchResultItem]:
        query = " ".join(claim.split())[:MAX_QUERY_CHARS]
        async with semaphore:
            try:
                async with deadline_at(self._until):
                    await asyncio.sleep(0)  # past the deadline, nothing is sent
                    await count_fetch(self._provider.name, is_same_page=True)  # not counted as pages of one host
                    request = WebSearchRequest(query=query, sources=self.kinds, language=self._language)
                    return (await self._count.search(self._provider, request)).results
            except TimeoutError:
                self._late += 1
            except AppException as error:
                self.degraded.append(Degraded.of(self._provider.name, error))
        return ()


def number_new_sources(
    results: Iterable[Sequence[WebSearchResultItem]], sources: Sequence[ReadSource]
) -> list[CitedSource]:
    """Return the first results for each claim that are not in `sources` yet, with the next free numbers."""
    known = {canonical_url(source.shown.url or "") for source in sources}
    number = max((source.index for source in sources), default=0)
    found: list[CitedSource] = []
    for of_claim in results:
        openable = [result for result in of_claim if is_openable(result.url)]
        for result in openable[:RESULTS_PER_SEARCH]:
            if (key := canonical_url(result.url)) not in known:
                known.add(key)
                number += 1
                found.append(CitedSource(number, result.url, result.title))
    return found
