"""The contract of a search provider that has a row in `SEARCH_PROVIDERS` of wiring/search.py."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import get_args

import httpx2
import pytest
from tests.loopback_upstream import Handler, by_query, serving, silence

from modules.llm_platform.domain.dtos.web_search_dtos import SourceKind, WebSearchRequest
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.infrastructure.http.client import make_client
from modules.llm_platform.testing.web_search import SearchCase, SlowSearch, WebSearchProviderContract
from modules.llm_platform.wiring.search import spec_of

NOBODY_LISTENS = "http://127.0.0.1:9"  # the discard port


class SearchRowContract(WebSearchProviderContract):
    """The contract of the port, and the agreement of the adapter with its row. The fixtures are those of the port's."""

    @pytest.mark.parametrize("kind", get_args(SourceKind))
    async def test_adapter_supports_the_sources_of_its_row(
        self, provider: IWebSearchProvider, findable: WebSearchRequest, kind: SourceKind
    ) -> None:
        """An adapter reports an unsupported source in `degraded` exactly if its row does not have it."""
        spec = spec_of(provider.name)
        assert spec is not None, f"{provider.name} has no row in SEARCH_PROVIDERS of wiring/search.py"
        answer = await provider.search(findable.with_(sources=(kind,)))
        is_reported = any(kind in each.reason for each in answer.degraded)
        assert is_reported == (kind not in spec.source_kinds), (
            f"source_kinds of {provider.name} in wiring/search.py and `degraded` of its adapter disagree about {kind}"
        )


class HttpSearchContract(WebSearchProviderContract, ABC):
    """Of an adapter for an HTTP interface. A subclass makes one for an address."""

    found, not_found = "", "zzqxvjk wqqzzt"  # queries with and without results

    @abstractmethod
    def adapter(self, url: str, client: httpx2.AsyncClient) -> IWebSearchProvider:
        """Return the adapter for this address."""

    @pytest.fixture
    def findable(self) -> WebSearchRequest:
        return WebSearchRequest(query=self.found)

    @pytest.fixture
    def nothing_to_find(self, provider: IWebSearchProvider) -> SearchCase:
        return SearchCase(provider, WebSearchRequest(query=self.not_found))

    @pytest.fixture
    async def unreachable(self) -> AsyncIterator[SearchCase]:
        async with make_client(NOBODY_LISTENS) as client:
            yield SearchCase(self.adapter(NOBODY_LISTENS, client), WebSearchRequest(query="anything"))

    @pytest.fixture
    async def slow(self) -> AsyncIterator[SlowSearch]:
        async with serving(silence) as upstream, make_client(upstream.url) as client:
            yield SlowSearch(self.adapter(upstream.url, client), lambda: upstream.busy)


class AnsweredSearchContract(HttpSearchContract, SearchRowContract):
    """The same, over the answers that a subclass names: one with two results or more, and one without."""

    answers: tuple[Handler, Handler]

    @pytest.fixture
    async def provider(self) -> AsyncIterator[IWebSearchProvider]:
        answers = dict(zip((self.found, self.not_found), self.answers, strict=True))
        async with serving(by_query(answers)) as upstream, make_client(upstream.url) as client:
            yield self.adapter(upstream.url, client)
