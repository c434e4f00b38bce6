"""Requests to Brave, and its pages, quota headers and errors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.support.cases import for_each
from tests.support.loopback_upstream import (
    Exchange,
    Handler,
    Loopback,
    in_turn,
    json_reply,
    recorded,
    recording,
    reply,
    serving,
)

from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.exceptions import (
    WebSearchBlockedError,
    WebSearchConfigError,
    WebSearchError,
    WebSearchRequestError,
    WebSearchUnavailableError,
)
from modules.llm_platform.infrastructure.http.client import make_client
from modules.llm_platform.infrastructure.search.brave import BraveWebSearchAdapter, QuotaWindow, read_quota
from shared.exceptions import AppException

KEY = "BSA-0123456789"


@asynccontextmanager
async def brave(handler: Handler) -> AsyncIterator[tuple[BraveWebSearchAdapter, Loopback]]:
    async with serving(handler) as upstream, make_client(upstream.url) as client:
        yield BraveWebSearchAdapter(KEY, upstream.url, client=client), upstream


async def found(handler: Handler, **fields: Any) -> WebSearchResponse:
    async with brave(handler) as (adapter, _):
        return await adapter.search(WebSearchRequest(**{"query": "python asyncio", **fields}))


async def requests(handler: Handler, **fields: Any) -> list[tuple[str, dict[str, str]]]:
    """Return the path and parameters of each request that a search sent."""
    async with brave(handler) as (adapter, upstream):
        await adapter.search(WebSearchRequest(**{"query": "python asyncio", **fields}))
    return [(exchange.path.partition("?")[0], exchange.parameters) for exchange in upstream.requests]


async def sent(**fields: Any) -> dict[str, str]:
    return (await requests(recorded("brave/nothing_found"), **fields))[0][1]


async def by_kind(exchange: Exchange) -> None:
    await recorded("brave/news" if "/news/" in exchange.path else "brave/web_last_page")(exchange)


class TestTheRequest:
    async def test_the_request_has_braves_parameters(self) -> None:
        """GET with the key in its header only; no markup in the texts."""
        async with brave(recorded("brave/web")) as (adapter, upstream):
            await adapter.search(WebSearchRequest(query="python asyncio", count=3, language="en-GB"))
        (request,) = upstream.requests
        assert (request.method, request.path.partition("?")[0]) == ("GET", "/res/v1/web/search")
        assert request.headers["x-subscription-token"] == KEY
        assert request.parameters == {
            "q": "python asyncio",
            "count": "3",
            "offset": "0",
            "search_lang": "en-gb",
            "country": "GB",
            "extra_snippets": "true",
            "text_decorations": "false",
            "result_filter": "web",
        }

    @for_each(
        ("fields", "freshness"),
        [
            ({}, None),
            ({"freshness": "noLimit"}, None),
            ({"freshness": "oneDay"}, "pd"),
            ({"time_range": "week"}, "pw"),
            ({"freshness": "oneMonth"}, "pm"),
            ({"freshness": "oneYear", "time_range": "day"}, "py"),
            ({"freshness": "2026-01-01..2026-02-01"}, "2026-01-01to2026-02-01"),
            ({"freshness": "2026-01-01"}, "2026-01-01to2026-01-01"),
        ],
    )
    async def test_freshness_is_sent_in_braves_form(self, fields: dict[str, Any], freshness: str | None) -> None:
        """Time ranges and ranges of days; `freshness` wins over `time_range`."""
        assert (await sent(**fields)).get("freshness") == freshness

    async def test_a_wrong_freshness_is_a_request_error(self) -> None:
        """Nothing is sent."""
        async with brave(recorded("brave/web")) as (adapter, upstream):
            with pytest.raises(WebSearchRequestError, match="freshness"):
                await adapter.search(WebSearchRequest(query="x", freshness="lately"))
        assert not upstream.requests

    @for_each(
        ("language", "code", "country"),
        [
            ("de", "de", "ALL"),
            ("de-AT", "de", "AT"),
            ("ja", "jp", "ALL"),
            ("zh-TW", "zh-hant", "TW"),
            ("pt-PT", "pt-pt", "PT"),
            ("la", None, "ALL"),
        ],
    )
    async def test_language_and_country_are_sent(self, language: str, code: str | None, country: str) -> None:
        """In Brave's codes; an unknown language is listed in `degraded`."""
        parameters = await sent(language=language)
        assert (parameters.get("search_lang"), parameters["country"]) == (code, country)
        answer = await found(recorded("brave/nothing_found"), language=language)
        assert any("language" in entry.reason for entry in answer.degraded) == (code is None)

    async def test_domains_are_operators_and_a_filter(self) -> None:
        """Results of other sites are dropped."""
        parameters = await sent(domains=("python.org", "pytest.example", "-a.example"))
        assert parameters["q"] == "python asyncio site:python.org OR site:pytest.example -site:a.example"
        answer = await found(recorded("brave/web"), domains=("python.org",))
        assert answer.results == ()

    async def test_long_queries_are_cut_and_listed(self) -> None:
        """Brave accepts 400 characters and 50 words."""
        answer_parameters = await sent(query=" ".join(["word"] * 60))
        assert len(answer_parameters["q"].split()) == 50
        assert len((await sent(query="a" * 250 + " " + "b" * 240))["q"]) <= 400
        answer = await found(recorded("brave/nothing_found"), query=" ".join(["word"] * 60))
        assert "the query was cut" in answer.degraded[0].reason

    async def test_news_have_their_own_address(self) -> None:
        """Alone, or interleaved with results of the web."""
        assert [path for path, _ in await requests(by_kind, sources=("news",))] == ["/res/v1/news/search"]
        both = await found(by_kind, sources=("web", "news"))
        assert [item.title for item in both.results] == ["Asyncio, part 4", "Python news 1", "Python news 2"]

    async def test_unsupported_parts_are_listed(self) -> None:
        """Engines and papers."""
        answer = await found(recorded("brave/web"), sources=("web", "academic"), engines=("google",))
        assert [entry.reason.partition(":")[0] for entry in answer.degraded] == [
            "has no search of its own for academic",
            "cannot choose engines",
        ]


class TestPages:
    async def test_a_large_count_takes_several_requests(self) -> None:
        """50 results take three requests of 17, and the next page begins after them."""
        assert [(p["count"], p["offset"]) for _, p in await requests(recorded("brave/web"), count=50)] == [
            ("17", "0"),
            ("17", "1"),
            ("17", "2"),
        ]
        second = await requests(recorded("brave/web"), count=50, page=2)
        assert [p["offset"] for _, p in second] == ["3", "4", "5"]

    async def test_no_page_is_requested_after_the_last(self) -> None:
        """Brave reports whether there is another one."""
        assert len(await requests(recorded("brave/web_last_page"), count=50)) == 1

    async def test_a_page_beyond_the_last_is_not_requested(self) -> None:
        """Brave has ten pages. The answer reports the limit."""
        async with brave(recorded("brave/web")) as (adapter, upstream):
            answer = await adapter.search(WebSearchRequest(query="x", page=11))
        assert (upstream.requests, answer.results) == ([], ())
        assert "beyond its page 10" in answer.degraded[0].reason

    async def test_a_failed_page_keeps_the_earlier_ones(self) -> None:
        """With the reason in `degraded`."""
        answer = await found(in_turn(recorded("brave/web"), reply(500)), count=40)
        assert len(answer.results) == 3
        assert "(500)" in answer.degraded[0].reason


class TestTheAnswer:
    async def test_results_have_all_fields(self) -> None:
        """Descriptions are snippets, extra snippets the summary, `page_age` the date."""
        answer = await found(recorded("brave/web"))
        first, _, third = answer.results
        assert (first.title, first.url) == ("Asyncio, part 1", "https://docs.example.org/asyncio/1")
        assert first.snippet == "How asyncio runs tasks, part 1."
        assert (
            first.summary
            == "How asyncio runs tasks, part 1.\n\nA task wraps a coroutine.\n\nThe event loop runs one task at a time."
        )
        assert (first.site_name, first.published_date, first.source) == ("Example Docs", "2026-01-11T09:30:00", "brave")
        assert (third.summary, third.site_name, third.published_date) == (None, "docs.example.org", None)
        assert (answer.provider, answer.degraded) == ("brave", ())
        assert answer.raw == recording("brave/web")

    async def test_a_corrected_query_is_returned(self) -> None:
        """The query that Brave searched for."""
        assert (await found(recorded("brave/web_last_page"))).correction == "python asyncio"

    async def test_invalid_results_are_dropped(self) -> None:
        """Those without a usable address; the others keep their valid fields."""
        answer = await found(recorded("brave/odd_results"))
        assert [(item.title, item.url, item.snippet, item.site_name) for item in answer.results] == [
            ("only.example.org", "https://only.example.org/url", "", None),
            ("two words", "https://docs.example.org/t", "", "docs.example.org"),
        ]

    @for_each(
        "body", [{"query": {}}, {"web": None}, {"web": {"results": None}}, {"web": []}, {"web": {"results": "x"}}]
    )
    async def test_an_answer_without_results_is_empty(self, body: Any) -> None:
        """It is no error."""
        assert (await found(json_reply(body))).results == ()

    async def test_results_outside_of_the_range_are_dropped(self) -> None:
        """Undated ones stay."""
        answer = await found(recorded("brave/web"), freshness="2026-02-01..2026-02-28")
        assert [item.url[-1] for item in answer.results] == ["2", "3"]


class TestErrors:
    @for_each(
        ("handler", "expected", "words"),
        [
            (recorded("brave/bad_key_422"), WebSearchConfigError, "BRAVE_API_KEY"),
            (recorded("brave/validation_422"), WebSearchError, "422"),
            (reply(401), WebSearchConfigError, "BRAVE_API_KEY"),
            (reply(402), WebSearchBlockedError, "quota"),
            (reply(403), WebSearchConfigError, "plan"),
            (reply(404), WebSearchConfigError, "BRAVE_BASE_URL"),
            (reply(429), WebSearchBlockedError, "refuses more requests"),
            (recorded("brave/quota_429"), WebSearchBlockedError, "quota"),
            (recorded("brave/rate_limited_429"), WebSearchBlockedError, "refuses more requests"),
            (reply(500, b"<html>"), WebSearchUnavailableError, "500"),
            (reply(200, b"[]"), WebSearchError, "other than a JSON object"),
            (reply(422, b'{"error": {"code": ["RATE_LIMITED"]}}'), WebSearchError, "422"),
        ],
    )
    async def test_codes_and_statuses_are_errors(
        self, handler: Handler, expected: type[AppException], words: str
    ) -> None:
        """The code is more specific than the status; nothing that Brave sent is repeated."""
        with pytest.raises(AppException) as caught:
            await found(handler)
        assert type(caught.value) is expected
        assert words in caught.value.message

    async def test_the_wait_is_that_of_the_exhausted_window(self) -> None:
        """A second for a rate limit, longer for a quota; Retry-After wins."""
        with pytest.raises(WebSearchBlockedError) as rate:
            await found(recorded("brave/rate_limited_429"))
        with pytest.raises(WebSearchBlockedError) as quota:
            await found(recorded("brave/quota_429"))
        with pytest.raises(WebSearchBlockedError) as blocked:
            await found(reply(429, b"", "retry-after: 7"))
        waits = [caught.value.retry_after_s for caught in (rate, quota, blocked)]
        assert waits == [1, 50000, 7]

    async def test_a_used_up_quota_is_listed(self) -> None:
        """Before the next search is refused."""
        headers = ("x-ratelimit-limit: 1, 2000", "x-ratelimit-remaining: 0, 0", "x-ratelimit-reset: 1, 900000")
        answer = await found(reply(200, b'{"web": {"results": []}}', "content-type: application/json", *headers))
        assert "used up its quota" in answer.degraded[0].reason

    async def test_extra_snippets_are_left_out_without_a_plan_for_them(self) -> None:
        """From then on."""
        replies = in_turn(recorded("brave/option_not_in_plan"), recorded("brave/web"), recorded("brave/web"))
        async with brave(replies) as (adapter, upstream):
            await adapter.search(WebSearchRequest(query="x"))
            await adapter.search(WebSearchRequest(query="y"))
        assert ["extra_snippets" in exchange.path for exchange in upstream.requests] == [True, False, False]

    @for_each("key", ["", "  ", "k\u00e9y-with-accent", "two\nlines"])
    async def test_an_unusable_key_fails_at_the_call(self, key: str) -> None:
        """The error names the setting, and nothing is sent."""
        async with serving(recorded("brave/web")) as upstream, make_client(upstream.url) as client:
            adapter = BraveWebSearchAdapter(key, upstream.url, client=client)
            with pytest.raises(WebSearchConfigError, match="BRAVE_API_KEY"):
                await adapter.search(WebSearchRequest(query="x"))
        assert not upstream.requests


def test_quota_headers_are_read_by_column() -> None:
    """Headers that are missing, uneven or invalid give no window."""
    good = {"x-ratelimit-limit": "1, 15000", "x-ratelimit-remaining": "0,14523", "x-ratelimit-reset": "1, 1419704"}
    assert read_quota(good) == [QuotaWindow(1, 0, 1), QuotaWindow(15000, 14523, 1419704)]
    for name, value in (("x-ratelimit-limit", "1"), ("x-ratelimit-reset", "1, soon"), ("x-ratelimit-remaining", "")):
        assert read_quota({**good, name: value}) == []
