"""How Brave is asked, and what is made of its pages, quota headers and errors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from tests.loopback_upstream import (
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
)
from modules.llm_platform.infrastructure.adapters.brave_web_search import BraveWebSearchAdapter, QuotaWindow, quota_of
from modules.llm_platform.infrastructure.http.client import make_client
from shared.exceptions import AppException

KEY = "BSA-0123456789"


@asynccontextmanager
async def brave(handler: Handler) -> AsyncIterator[tuple[BraveWebSearchAdapter, Loopback]]:
    async with serving(handler) as upstream, make_client(upstream.url) as client:
        yield BraveWebSearchAdapter(KEY, upstream.url, client=client), upstream


async def found(handler: Handler, **wishes: Any) -> WebSearchResponse:
    async with brave(handler) as (adapter, _):
        return await adapter.search(WebSearchRequest(**{"query": "python asyncio", **wishes}))


async def requests(handler: Handler, **wishes: Any) -> list[tuple[str, dict[str, str]]]:
    """The path and parameters of each request that a search sent."""
    async with brave(handler) as (adapter, upstream):
        await adapter.search(WebSearchRequest(**{"query": "python asyncio", **wishes}))
    urls = [urlsplit(exchange.path) for exchange in upstream.requests]
    return [(url.path, dict(parse_qsl(url.query))) for url in urls]


async def sent(**wishes: Any) -> dict[str, str]:
    return (await requests(recorded("brave/nothing_found"), **wishes))[0][1]


async def by_kind(exchange: Exchange) -> None:
    await recorded("brave/news" if "/news/" in exchange.path else "brave/web_last_page")(exchange)


class TestTheRequest:
    async def test_what_is_sent(self) -> None:
        """GET with the key in its header and nowhere else; texts without markup."""
        async with brave(recorded("brave/web")) as (adapter, upstream):
            await adapter.search(WebSearchRequest(query="python asyncio", count=3, language="en-GB"))
        (request,) = upstream.requests
        url = urlsplit(request.path)
        assert (request.method, url.path) == ("GET", "/res/v1/web/search")
        assert request.headers["x-subscription-token"] == KEY
        assert dict(parse_qsl(url.query)) == {
            "q": "python asyncio", "count": "3", "offset": "0", "search_lang": "en-gb", "country": "GB",
            "extra_snippets": "true", "text_decorations": "false", "result_filter": "web",
        }  # fmt: skip

    @pytest.mark.parametrize(
        ("wishes", "freshness"),
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
    async def test_freshness_in_its_words(self, wishes: dict[str, Any], freshness: str | None) -> None:
        """Spans and ranges of days as Brave writes them; `freshness` wins over `time_range`."""
        assert (await sent(**wishes)).get("freshness") == freshness

    async def test_a_wrong_freshness_is_the_callers_mistake(self) -> None:
        """It is refused before anything is sent."""
        async with brave(recorded("brave/web")) as (adapter, upstream):
            with pytest.raises(WebSearchRequestError, match="freshness"):
                await adapter.search(WebSearchRequest(query="x", freshness="lately"))
        assert not upstream.requests

    @pytest.mark.parametrize(
        ("language", "code", "country"),
        [
            ("de", "de", "ALL"), ("de-AT", "de", "AT"), ("ja", "jp", "ALL"), ("zh-TW", "zh-hant", "TW"),
            ("pt-PT", "pt-pt", "PT"), ("la", None, "ALL"),
        ],
    )  # fmt: skip
    async def test_language_and_country(self, language: str, code: str | None, country: str) -> None:
        """The language in Brave's codes, the territory as its country; a language that it lacks is said."""
        parameters = await sent(language=language)
        assert (parameters.get("search_lang"), parameters["country"]) == (code, country)
        answer = await found(recorded("brave/nothing_found"), language=language)
        assert any("language" in entry.reason for entry in answer.degraded) == (code is None)

    async def test_domains(self) -> None:
        """Wanted and barred sites are operators, and no other site passes, whatever the engine makes of them."""
        parameters = await sent(domains=("python.org", "pytest.example", "-a.example"))
        assert parameters["q"] == "python asyncio site:python.org OR site:pytest.example -site:a.example"
        answer = await found(recorded("brave/web"), domains=("python.org",))
        assert answer.results == ()

    async def test_long_queries_are_cut_and_said(self) -> None:
        """Brave refuses more than 400 characters or 50 words."""
        answer_parameters = await sent(query=" ".join(["word"] * 60))
        assert len(answer_parameters["q"].split()) == 50
        assert len((await sent(query="a" * 250 + " " + "b" * 240))["q"]) <= 400
        answer = await found(recorded("brave/nothing_found"), query=" ".join(["word"] * 60))
        assert "the query was cut" in answer.degraded[0].reason

    async def test_news_are_asked_at_their_own_address(self) -> None:
        """News alone, or web and news side by side, the best of each first."""
        assert [path for path, _ in await requests(by_kind, sources=("news",))] == ["/res/v1/news/search"]
        both = await found(by_kind, sources=("web", "news"))
        assert [item.title for item in both.results] == ["Asyncio, part 4", "Python news 1", "Python news 2"]

    async def test_what_it_cannot_do_is_said(self) -> None:
        """Engines and papers."""
        answer = await found(recorded("brave/web"), sources=("web", "academic"), engines=("google",))
        assert [entry.reason.partition(":")[0] for entry in answer.degraded] == [
            "has no search of its own for academic",
            "cannot choose engines",
        ]


class TestPages:
    async def test_more_than_a_page(self) -> None:
        """50 results take three requests of 17; the second page of them begins where the first one ended."""
        assert [(p["count"], p["offset"]) for _, p in await requests(recorded("brave/web"), count=50)] == [
            ("17", "0"), ("17", "1"), ("17", "2"),
        ]  # fmt: skip
        second = await requests(recorded("brave/web"), count=50, page=2)
        assert [p["offset"] for _, p in second] == ["3", "4", "5"]

    async def test_no_page_after_the_last(self) -> None:
        """No request is spent where Brave says that there is no more."""
        assert len(await requests(recorded("brave/web_last_page"), count=50)) == 1

    async def test_a_page_too_far(self) -> None:
        """Brave has ten pages: nothing is sent for the eleventh, and the answer says so."""
        async with brave(recorded("brave/web")) as (adapter, upstream):
            answer = await adapter.search(WebSearchRequest(query="x", page=11))
        assert (upstream.requests, answer.results) == ([], ())
        assert "beyond its page 10" in answer.degraded[0].reason

    async def test_a_later_page_that_fails(self) -> None:
        """What the first pages brought stays, with the reason."""
        answer = await found(in_turn(recorded("brave/web"), reply(500)), count=40)
        assert len(answer.results) == 3
        assert "(500)" in answer.degraded[0].reason


class TestTheAnswer:
    async def test_results(self) -> None:
        """Descriptions are snippets, extra snippets make the summary, `page_age` is the date."""
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

    async def test_a_corrected_query(self) -> None:
        """What Brave searched for instead."""
        assert (await found(recorded("brave/web_last_page"))).correction == "python asyncio"

    async def test_odd_results(self) -> None:
        """Results without a usable address go, the others stay with what they have."""
        answer = await found(recorded("brave/odd_results"))
        assert [(item.title, item.url, item.snippet, item.site_name) for item in answer.results] == [
            ("only.example.org", "https://only.example.org/url", "", None),
            ("two words", "https://docs.example.org/t", "", "docs.example.org"),
        ]

    @pytest.mark.parametrize(
        "body", [{}, {"web": None}, {"web": {"results": None}}, {"web": []}, {"web": {"results": "x"}}]
    )
    async def test_nothing_found(self, body: Any) -> None:
        """An answer without web results is an empty answer."""
        assert (await found(json_reply(body))).results == ()

    async def test_days_outside_of_the_range_go(self) -> None:
        """The range is a hint to the engine; a result of another day does not pass, an undated one does."""
        answer = await found(recorded("brave/web"), freshness="2026-02-01..2026-02-28")
        assert [item.url[-1] for item in answer.results] == ["2", "3"]


class TestErrors:
    @pytest.mark.parametrize(
        ("handler", "expected", "words"),
        [
            (recorded("brave/bad_key_422"), WebSearchConfigError, "BRAVE_API_KEY"),
            (recorded("brave/validation_422"), WebSearchError, "422"),
            (reply(401), WebSearchConfigError, "BRAVE_API_KEY"),
            (reply(402), WebSearchBlockedError, "quota"),
            (reply(403), WebSearchConfigError, "plan"),
            (reply(404), WebSearchConfigError, "BRAVE_BASE_URL"),
            (reply(429), WebSearchBlockedError, "too often"),
            (recorded("brave/quota_429"), WebSearchBlockedError, "quota"),
            (recorded("brave/rate_limited_429"), WebSearchBlockedError, "too often"),
            (reply(500, b"<html>"), WebSearchError, "500"),
            (reply(200, b"[]"), WebSearchError, "no JSON object"),
            (reply(422, b'{"error": {"code": ["RATE_LIMITED"]}}'), WebSearchError, "422"),
        ],
    )
    async def test_its_errors(self, handler: Handler, expected: type[AppException], words: str) -> None:
        """Brave's code tells more than its status; nothing that it sent is repeated."""
        with pytest.raises(AppException) as caught:
            await found(handler)
        assert type(caught.value) is expected
        assert words in caught.value.message

    async def test_how_long_to_wait(self) -> None:
        """Until the exhausted window is renewed: a second on a rate limit, longer on a quota; Retry-After wins."""
        with pytest.raises(WebSearchBlockedError) as rate:
            await found(recorded("brave/rate_limited_429"))
        with pytest.raises(WebSearchBlockedError) as quota:
            await found(recorded("brave/quota_429"))
        with pytest.raises(WebSearchBlockedError) as told:
            await found(reply(429, b"", "retry-after: 7"))
        waits = [caught.value.retry_after_s for caught in (rate, quota, told)]
        assert waits == [1, 50000, 7]

    async def test_the_last_search_of_the_month_says_so(self) -> None:
        """The operator learns it from an answer, before a search is refused."""
        headers = ("x-ratelimit-limit: 1, 2000", "x-ratelimit-remaining: 0, 0", "x-ratelimit-reset: 1, 900000")
        answer = await found(reply(200, b'{"web": {"results": []}}', "content-type: application/json", *headers))
        assert "used up its quota" in answer.degraded[0].reason

    async def test_a_plan_without_extra_snippets(self) -> None:
        """They are left out from then on."""
        replies = in_turn(recorded("brave/option_not_in_plan"), recorded("brave/web"), recorded("brave/web"))
        async with brave(replies) as (adapter, upstream):
            await adapter.search(WebSearchRequest(query="x"))
            await adapter.search(WebSearchRequest(query="y"))
        assert ["extra_snippets" in exchange.path for exchange in upstream.requests] == [True, False, False]

    @pytest.mark.parametrize("key", ["", "  ", "k\u00e9y-with-accent", "two\nlines"])
    async def test_a_key_that_is_none_fails_at_the_call(self, key: str) -> None:
        """Building it works; searching names the variable and sends nothing."""
        async with serving(recorded("brave/web")) as upstream, make_client(upstream.url) as client:
            adapter = BraveWebSearchAdapter(key, upstream.url, client=client)
            with pytest.raises(WebSearchConfigError, match="BRAVE_API_KEY"):
                await adapter.search(WebSearchRequest(query="x"))
        assert not upstream.requests


def test_quota_headers() -> None:
    """One window for each column; headers that are missing, uneven or no numbers tell nothing."""
    good = {"x-ratelimit-limit": "1, 15000", "x-ratelimit-remaining": "0,14523", "x-ratelimit-reset": "1, 1419704"}
    assert quota_of(good) == [QuotaWindow(1, 0, 1), QuotaWindow(15000, 14523, 1419704)]
    for name, value in (("x-ratelimit-limit", "1"), ("x-ratelimit-reset", "1, soon"), ("x-ratelimit-remaining", "")):
        assert quota_of({**good, name: value}) == []
