"""The contract of a search provider that has a row in `SEARCH_PROVIDERS`."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import Any, get_args

import httpx2
import pytest
from tests.support.cases import for_each
from tests.support.loopback_upstream import (
    Exchange,
    Handler,
    by_query,
    hang_up,
    in_turn,
    json_reply,
    reply,
    serving,
    silence,
)

from modules.llm_platform.domain import exceptions
from modules.llm_platform.domain.dtos.web_search_dtos import SourceKind, WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.infrastructure.http.client import make_client
from modules.llm_platform.infrastructure.search.from_settings.providers import find_spec
from modules.llm_platform.testing.web_search import SearchCase, SlowSearch, WebSearchProviderContract
from shared.exceptions import AppException

NOBODY_LISTENS = "http://127.0.0.1:9"  # the discard port
ADDRESS = "https://docs.python.org/3/"
# All field names that services use for the title, the texts, the date and the score of a result.
TEXTS = ("title", "name", "snippet", "summary", "description", "content", "highlights", "extra_snippets")
SITES = ("siteName", "source", "publicationInfo", "profile", "meta_url")
DATES = ("date", "datePublished", "publishedDate", "published_date", "page_age", "year")


class SearchRowContract(WebSearchProviderContract):
    """The contract of the port, and the agreement of the adapter with its row.

    The fixtures are those of the port's contract.
    """

    @pytest.mark.parametrize("kind", get_args(SourceKind))
    async def test_adapter_supports_the_sources_of_its_row(
        self, provider: IWebSearchProvider, findable: WebSearchRequest, kind: SourceKind
    ) -> None:
        """An adapter reports an unsupported source in `degraded` exactly if its row does not have it."""
        spec = find_spec(provider.name)
        assert spec is not None, f"{provider.name} has no row in SEARCH_PROVIDERS"
        answer = await provider.search(findable.with_(sources=(kind,)))
        is_reported = any(kind in degradation.reason for degradation in answer.degraded)
        assert is_reported == (kind not in spec.source_kinds), (
            f"source_kinds of {provider.name} in SEARCH_PROVIDERS and `degraded` of its adapter disagree about {kind}"
        )


class HttpSearchContract(WebSearchProviderContract, ABC):
    """The contract of an adapter for an HTTP interface. A subclass builds the adapter for an address."""

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
    """The same contract with the answers of a subclass: one with at least two results, and one without."""

    answers: tuple[Handler, Handler]

    @pytest.fixture
    async def provider(self) -> AsyncIterator[IWebSearchProvider]:
        answers = dict(zip((self.found, self.not_found), self.answers, strict=True))
        async with serving(by_query(answers)) as upstream, make_client(upstream.url) as client:
            yield self.adapter(upstream.url, client)


class KeyedSearchContract(AnsweredSearchContract):
    """The same contract for a service with an API key. `one(url)` is an answer with a single result at that URL."""

    @staticmethod
    @abstractmethod
    def one(url: str) -> Any:
        """Return the JSON of an answer with one undated result at this URL."""

    async def outcome(self, handler: Handler, **fields: Any) -> WebSearchResponse:
        async with serving(handler) as upstream, make_client(upstream.url) as client:
            return await self.adapter(upstream.url, client).search(WebSearchRequest(**{"query": "python", **fields}))

    async def sent(self, **fields: Any) -> Exchange:
        """Return the request that a search sends."""
        async with serving(self.answers[0]) as upstream, make_client(upstream.url) as client:
            await self.adapter(upstream.url, client).search(WebSearchRequest(**{"query": "python", **fields}))
        return upstream.requests[0]

    @for_each(
        ("handler", "expected"),
        [
            (reply(401), exceptions.WebSearchConfigError),
            (reply(402), exceptions.WebSearchBlockedError),
            (reply(429), exceptions.WebSearchBlockedError),
            (reply(500), exceptions.WebSearchUnavailableError),
            (reply(503), exceptions.WebSearchUnavailableError),
            (reply(301, b"", "Location: http://127.0.0.1:9/"), exceptions.WebSearchConfigError),
            (reply(200, b"<html>"), exceptions.WebSearchError),
            (reply(200, b"[]"), exceptions.WebSearchError),
            (json_reply({"type": "ErrorResponse", "error": {"code": "INTERNAL"}}), exceptions.WebSearchError),
            (json_reply({"message": "Unauthorized.", "statusCode": 403}), exceptions.WebSearchError),
            (hang_up, exceptions.WebSearchConnectionError),
        ],
    )
    async def test_statuses_become_errors(self, handler: Handler, expected: type[AppException]) -> None:
        """A failed search raises the error of its status, and never returns an empty list.

        A refused key names its setting.
        """
        with pytest.raises(AppException) as caught:
            await self.outcome(handler)
        assert type(caught.value) is expected
        if expected is exceptions.WebSearchConfigError and "401" in caught.value.message:
            assert re.search(r"check [A-Z]+_API_KEY", caught.value.message)

    async def test_a_kind_that_fails_after_another_is_listed(self) -> None:
        """The results of the first kind are kept, because they are paid for and a retry would fail again."""
        handler = in_turn(json_reply(self.one(ADDRESS)), reply(429, b"{}"))
        async with serving(handler) as upstream, make_client(upstream.url) as client:
            adapter = self.adapter(upstream.url, client)
            first, *others = adapter.kinds  # type: ignore[attr-defined]
            answer = await adapter.search(WebSearchRequest(query="python", sources=(first, *others[:1])))
        assert [item.url for item in answer.results] == [ADDRESS]
        assert [entry.reason.partition(" failed:")[0] for entry in answer.degraded] == others[:1]

    async def test_a_wait_is_passed_on(self) -> None:
        """Retry-After of a refusal is passed on to the caller."""
        with pytest.raises(exceptions.WebSearchBlockedError) as caught:
            await self.outcome(reply(429, b"{}", "Retry-After: 7"))
        assert caught.value.retry_after_s == 7

    async def test_a_missing_key_fails_at_the_call(self) -> None:
        """The error names the setting, and nothing is sent. An invalid request is reported first."""
        async with serving(self.answers[0]) as upstream, make_client(upstream.url) as client:
            adapter = type(self.adapter(upstream.url, client))("  ", upstream.url, client=client)  # type: ignore[call-arg]
            with pytest.raises(exceptions.WebSearchConfigError, match=r"set [A-Z]+_API_KEY"):
                await adapter.search(WebSearchRequest(query="python"))
            with pytest.raises(exceptions.WebSearchRequestError):
                await adapter.search(WebSearchRequest(query="python", freshness="sometimes"))
        assert upstream.requests == []

    @for_each("field", [{"page": 2}, {"language": "de"}, {"time_range": "week"}])
    async def test_a_field_is_sent_or_reported(self, field: dict[str, Any]) -> None:
        """A field of the request that does not change the service's request is reported in `degraded`."""
        english = {"query": "How does the event loop of Python work?"}
        without, sent = await self.sent(**english), await self.sent(**english, **field)
        is_sent = (sent.path, sent.body) != (without.path, without.body)
        assert is_sent or (await self.outcome(self.answers[0], **english, **field)).degraded, (
            f"{field} is neither sent nor reported: set has_pages, takes_language or takes_freshness to False"
        )

    async def test_results_of_other_sites_are_dropped(self) -> None:
        """The adapter filters the results, whatever the service does with the domains."""
        one = json_reply(self.one("https://docs.python.org/3/"))
        assert len((await self.outcome(one, domains=("python.org",))).results) == 1
        assert (await self.outcome(one, domains=("-python.org",))).results == ()

    @for_each("url", ["javascript:alert(1)", "https://a.example/x y", "", None, 7, ["https://a.example/"]])
    async def test_unusable_addresses_are_dropped(self, url: Any) -> None:
        """A result without a web URL is dropped."""
        assert (await self.outcome(json_reply(self.one(url)))).results == ()

    @for_each("value", [7, True, None, {"name": 7, "hostname": 7}, ["text", 7], {"text": "text"}])
    async def test_fields_of_a_wrong_type_are_left_out(self, value: Any) -> None:
        """The result is kept, because its address is enough."""
        fields = dict.fromkeys((*TEXTS, *SITES, *DATES, "score"), value)
        answer = await self.outcome(json_reply(_fill(self.one(ADDRESS), fields)), time_range="year")
        assert [item.url for item in answer.results] == [ADDRESS]

    @for_each(
        "date",
        [
            "Tue, 31 Mar 99999999999999999999 10:00:00 GMT",
            "Tue, 31 Mar 2026 10:00:00 +99999999999999999999",
            "Mar 31, 0000",
            "2026-13-45",
        ],
    )
    async def test_a_date_that_does_not_exist_is_left_out(self, date: str) -> None:
        """The result is kept without the date."""
        answer = await self.outcome(json_reply(_fill(self.one(ADDRESS), dict.fromkeys(DATES, date))), time_range="year")
        assert [item.url for item in answer.results] == [ADDRESS]


def _fill(answer: Any, fields: dict[str, Any]) -> Any:
    """Return the answer with these fields in the object that has the address."""
    if isinstance(answer, list):
        return [_fill(value, fields) for value in answer]
    if not isinstance(answer, dict):
        return answer
    filled = {name: _fill(value, fields) for name, value in answer.items()}
    return {**filled, **fields} if ADDRESS in answer.values() else filled
