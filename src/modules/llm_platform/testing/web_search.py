"""A scripted web search provider, and the contract that every provider keeps.

    class TestMine(WebSearchProviderContract):
        @pytest.fixture
        def provider(self): ...            # finds two results or more for `findable`

The tests are coroutines: run them with pytest-asyncio in auto mode, or mark the subclass.
"""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from modules.llm_platform.domain import exceptions
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse, WebSearchResultItem
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.domain.privacy.egress_log import record_sent
from modules.llm_platform.domain.search.freshness import freshness_window
from modules.llm_platform.testing import waiting
from shared.exceptions import AppException

WEB_SEARCH_ERRORS: Final = (
    exceptions.WebSearchRequestError,
    exceptions.WebSearchConfigError,
    exceptions.WebSearchConnectionError,
    exceptions.WebSearchError,
)

NOT_LOGGED: Final = "the egress log must have the query of a search, and nothing else"
TOO_FEW_RESULTS: Final = "the fixture `findable` must find at least two results"

Outcome: TypeAlias = Sequence[WebSearchResultItem] | WebSearchResponse | AppException


def result_item(number: int, topic: str = "result") -> WebSearchResultItem:
    """Return a made-up hit: the same number and topic always give the same one."""
    return WebSearchResultItem(
        title=f"{topic.capitalize()} {number}",
        url=f"https://example.org/{re.sub(r'[^a-z0-9]+', '-', topic.lower())}/{number}",
        snippet=f"What page {number} says about {topic}.",
        source="fake",
    )


class FakeWebSearch(IWebSearchProvider):
    """A provider that answers from a script, without a network.

    - `script` is one outcome for all queries, or a mapping from query to outcome: results, a whole response, or an error to
      raise.
    - `otherwise` is the outcome of a query that the mapping does not have.
    - `delay_s` is the time in seconds before an outcome, for all queries or by query.
    - `requests` has all requests in their order.
    - `running` is the number of running searches.
    """

    def __init__(
        self,
        script: Mapping[str, Outcome] | Outcome = (),
        *,
        otherwise: Outcome = (),
        delay_s: float | Mapping[str, float] = 0.0,
        name: str = "fake",
    ) -> None:
        self.name = name
        self.requests: list[WebSearchRequest] = []
        self.running = 0
        self._script = script if isinstance(script, Mapping) else {}
        self._otherwise = otherwise if isinstance(script, Mapping) else script
        self._delay_s = delay_s

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        self.requests.append(request)
        self.running += 1
        try:
            delays = self._delay_s
            await asyncio.sleep(delays.get(request.query, 0.0) if isinstance(delays, Mapping) else delays)
        finally:
            self.running -= 1
        freshness_window(request)
        return self._answer(request, self._script.get(request.query, self._otherwise))

    def _answer(self, request: WebSearchRequest, outcome: Outcome) -> WebSearchResponse:
        if isinstance(outcome, AppException):
            raise outcome
        if isinstance(outcome, WebSearchResponse):
            return outcome
        return WebSearchResponse(query=request.query, results=tuple(outcome[: request.count]), provider=self.name)


class SearchCase(NamedTuple):
    """A provider and a request for it."""

    provider: IWebSearchProvider
    request: WebSearchRequest


class SlowSearch(NamedTuple):
    """A provider whose upstream does not respond. `busy()` returns the number of open connections."""

    provider: IWebSearchProvider
    busy: Callable[[], int]


class WebSearchProviderContract:
    """Subclass it and add these fixtures.

    - `provider` is an IWebSearchProvider.
    - `findable` is a WebSearchRequest with at least two results.
    - `nothing_to_find` is a SearchCase without results.
    - `unreachable` is a SearchCase whose upstream is unreachable.
    - `slow` is a SlowSearch.

    `is_remote` is True if the provider sends queries to another host. Only one that searches in this process sets it to False.
    """

    is_remote: bool = True

    async def test_response_has_results_provider_and_query(
        self, provider: IWebSearchProvider, findable: WebSearchRequest
    ) -> None:
        """Results have a title and a URL; the response names the provider and repeats the query."""
        answer = await provider.search(findable)
        assert len(answer.results) >= 2, TOO_FEW_RESULTS
        assert answer.provider == provider.name
        assert answer.query == findable.query
        assert all(item.title and item.url for item in answer.results)

    async def test_no_results_is_a_response(self, nothing_to_find: SearchCase) -> None:
        """A search without results is a response, not an error."""
        answer = await nothing_to_find.provider.search(nothing_to_find.request)
        assert answer.results == ()
        assert answer.provider == nothing_to_find.provider.name

    async def test_failed_search_is_an_error(self, unreachable: SearchCase) -> None:
        """A failed search is an error with a message, and not a WebSearchRequestError."""
        error = await _error_of(unreachable)
        assert isinstance(error, WEB_SEARCH_ERRORS)
        assert not isinstance(error, exceptions.WebSearchRequestError)
        assert error.message

    async def test_count_limits_the_results_and_keeps_the_best(
        self, provider: IWebSearchProvider, findable: WebSearchRequest
    ) -> None:
        """There are at most `count` results; a smaller count keeps the best ones."""
        several = await provider.search(findable.with_(count=5))
        one = await provider.search(findable.with_(count=1))
        assert len(several.results) >= 2, TOO_FEW_RESULTS
        assert len(several.results) <= 5
        assert [item.url for item in one.results] == [several.results[0].url]

    async def test_result_urls_can_be_opened(self, provider: IWebSearchProvider, findable: WebSearchRequest) -> None:
        """All URLs have the scheme http, https or doc, and no white space."""
        answer = await provider.search(findable)
        assert all(re.fullmatch(r"(?:https?://|doc:)\S+", item.url) for item in answer.results)

    async def test_egress_log_has_each_query(self, provider: IWebSearchProvider, findable: WebSearchRequest) -> None:
        """The egress log of a search names the host that got the query, and the kind of data; nothing for a local provider.

        Readers see it in `sent_to`. An adapter passes `sent_kind="query"` to `Upstream`, or calls `log_sent` itself.
        """
        with record_sent() as egress_log:
            await provider.search(findable)
        sent = egress_log.sent()
        assert all(entry.host for entry in sent)
        assert {entry.kind for entry in sent} == ({"query"} if self.is_remote else set()), NOT_LOGGED

    async def test_searches_can_run_concurrently(
        self, provider: IWebSearchProvider, findable: WebSearchRequest, nothing_to_find: SearchCase
    ) -> None:
        """Concurrent searches return their own responses."""
        requests = [findable, nothing_to_find.request, findable]
        answers = await asyncio.gather(*(provider.search(request) for request in requests))
        assert [answer.query for answer in answers] == [request.query for request in requests]

    async def test_invalid_freshness_is_a_request_error(
        self, provider: IWebSearchProvider, findable: WebSearchRequest
    ) -> None:
        """An invalid freshness is a WebSearchRequestError and never ignored."""
        for wrong in ("sometimes", "", "2026-02-30", "2026-03-02..2026-03-01"):
            error = await _error_of(SearchCase(provider, findable.with_(freshness=wrong)))
            assert isinstance(error, exceptions.WebSearchRequestError), wrong

    async def test_cancelled_search_closes_its_connection(self, slow: SlowSearch, findable: WebSearchRequest) -> None:
        """A cancelled search ends promptly and closes its connection."""
        search = asyncio.create_task(slow.provider.search(findable))
        assert await waiting.becomes_true(lambda: slow.busy() > 0, waiting.START_TIMEOUT_S), (
            "the upstream got no request"
        )
        assert await waiting.is_cancelled_promptly(search)
        assert await waiting.becomes_true(lambda: slow.busy() == 0, waiting.CLOSE_TIMEOUT_S), (
            "the connection is still open"
        )


async def _error_of(case: SearchCase) -> AppException:
    return await waiting.error_of(case.provider.search(case.request), AppException)
