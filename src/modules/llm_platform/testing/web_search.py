"""For those who write or use web search providers: a scripted one, and the promises that every one keeps.

    class TestMine(WebSearchProviderContract):
        @pytest.fixture
        def provider(self): ...            # finds two results or more for `findable`

The tests are coroutines: run them with pytest-asyncio in auto mode, or mark the subclass.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse, WebSearchResultItem
from modules.llm_platform.domain.exceptions import (
    WebSearchConfigError,
    WebSearchConnectionError,
    WebSearchError,
    WebSearchRequestError,
)
from modules.llm_platform.domain.freshness import freshness_window
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.testing.patience import CLOSES_WITHIN_S, RETURNS_WITHIN_S, STARTS_WITHIN_S, becomes
from shared.exceptions import AppException

WEB_SEARCH_ERRORS: Final = (WebSearchRequestError, WebSearchConfigError, WebSearchConnectionError, WebSearchError)

Outcome: TypeAlias = Sequence[WebSearchResultItem] | WebSearchResponse | AppException


def result_item(number: int, topic: str = "result") -> WebSearchResultItem:
    """A made-up hit: the same number and topic always give the same one."""
    return WebSearchResultItem(
        title=f"{topic.capitalize()} {number}",
        url=f"https://example.org/{re.sub(r'[^a-z0-9]+', '-', topic.lower())}/{number}",
        snippet=f"What page {number} says about {topic}.",
        source="fake",
    )


class FakeWebSearch(IWebSearchProvider):
    """A provider that answers from a script, without a network.

    `script` is one outcome for every query, or a mapping from query to outcome: results, a whole response, or an error
    to raise. A query that the mapping lacks gets `otherwise`. `delay_s` (seconds, for all or by query) passes before.
    `requests` holds what was asked, in order; `running` how many searches are under way.
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
            await asyncio.sleep(self._delay_of(request.query))
        finally:
            self.running -= 1
        freshness_window(request)
        return self._answer(request, self._script.get(request.query, self._otherwise))

    def _delay_of(self, query: str) -> float:
        return self._delay_s.get(query, 0.0) if isinstance(self._delay_s, Mapping) else self._delay_s

    def _answer(self, request: WebSearchRequest, outcome: Outcome) -> WebSearchResponse:
        if isinstance(outcome, AppException):
            raise outcome
        if isinstance(outcome, WebSearchResponse):
            return outcome
        return WebSearchResponse(query=request.query, results=tuple(outcome[: request.count]), provider=self.name)


class Looking(NamedTuple):
    """A provider, and a request to try it with."""

    provider: IWebSearchProvider
    request: WebSearchRequest


class Slow(NamedTuple):
    """A provider whose upstream takes the request and stays silent; `busy()` counts the exchanges still open."""

    provider: IWebSearchProvider
    busy: Callable[[], int]


class WebSearchProviderContract:
    """Subclass, give the fixtures, and the port's promises are checked.

    Fixtures to give: `provider` (an IWebSearchProvider), `findable` (a WebSearchRequest for which it has two results or
    more), `nothing_to_find` (Looking), `unreachable` (Looking whose upstream cannot be reached) and `slow` (Slow).
    """

    async def test_finding_something_names_who_found_it(
        self, provider: IWebSearchProvider, findable: WebSearchRequest
    ) -> None:
        """Results carry a title, a URL and the provider's name, and the query comes back as it was asked."""
        answer = await provider.search(findable)
        assert len(answer.results) >= 2
        assert answer.provider == provider.name
        assert answer.query == findable.query
        assert all(item.title and item.url for item in answer.results)

    async def test_finding_nothing_is_an_answer(self, nothing_to_find: Looking) -> None:
        """Empty results mean that the provider looked and found nothing."""
        answer = await nothing_to_find.provider.search(nothing_to_find.request)
        assert answer.results == ()
        assert answer.provider == nothing_to_find.provider.name

    async def test_not_being_able_to_look_is_an_error(self, unreachable: Looking) -> None:
        """A provider that could not look raises a web search error that is not the caller's fault, with words."""
        error = await _error_of(unreachable)
        assert isinstance(error, WEB_SEARCH_ERRORS)
        assert not isinstance(error, WebSearchRequestError)
        assert error.message

    async def test_at_most_count_best_first(self, provider: IWebSearchProvider, findable: WebSearchRequest) -> None:
        """No more than `count` results, and asking for fewer keeps the best ones."""
        several = await provider.search(findable.with_(count=5))
        one = await provider.search(findable.with_(count=1))
        assert 2 <= len(several.results) <= 5
        assert [item.url for item in one.results] == [several.results[0].url]

    async def test_every_address_can_be_opened(self, provider: IWebSearchProvider, findable: WebSearchRequest) -> None:
        """Every URL is http, https or doc, and holds no white space."""
        answer = await provider.search(findable)
        assert all(re.fullmatch(r"(?:https?://|doc:)\S+", item.url) for item in answer.results)

    async def test_searches_side_by_side_do_not_disturb_each_other(
        self, provider: IWebSearchProvider, findable: WebSearchRequest, nothing_to_find: Looking
    ) -> None:
        """Each of several searches at once gets its own answer."""
        wanted = [findable, nothing_to_find.request, findable]
        answers = await asyncio.gather(*(provider.search(request) for request in wanted))
        assert [answer.query for answer in answers] == [request.query for request in wanted]

    async def test_a_bad_freshness_is_the_callers_mistake(
        self, provider: IWebSearchProvider, findable: WebSearchRequest
    ) -> None:
        """A freshness that nobody knows is refused as the caller's mistake, never ignored."""
        for wrong in ("sometimes", "", "2026-02-30", "2026-03-02..2026-03-01"):
            error = await _error_of(Looking(provider, findable.with_(freshness=wrong)))
            assert isinstance(error, WebSearchRequestError), wrong

    async def test_cancelling_leaves_no_connection_behind(self, slow: Slow, findable: WebSearchRequest) -> None:
        """A cancelled search returns at once and closes what it opened."""
        search = asyncio.create_task(slow.provider.search(findable))
        assert await becomes(lambda: slow.busy() > 0, STARTS_WITHIN_S), "the upstream was never asked"
        search.cancel()
        done, _ = await asyncio.wait([search], timeout=RETURNS_WITHIN_S)
        assert done, "a cancelled search must return"
        assert search.cancelled()
        assert await becomes(lambda: slow.busy() == 0, CLOSES_WITHIN_S), "the exchange was left open"


async def _error_of(looking: Looking) -> AppException | None:
    try:
        await looking.provider.search(looking.request)
    except AppException as error:
        return error
    return None
