"""Searches with SearXNG: form, pages, second searches, and unusual answers."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from tests.support.cases import for_each
from tests.support.loopback_upstream import Exchange, Handler, Loopback, in_turn, json_reply, reply, serving, silence

from modules.llm_platform.domain.dtos.web_search_dtos import VerbatimWebSearchRequest, WebSearchRequest
from modules.llm_platform.domain.exceptions import (
    WebSearchBlockedError,
    WebSearchConfigError,
    WebSearchError,
    WebSearchRequestError,
)
from modules.llm_platform.infrastructure.http.client import make_client
from modules.llm_platform.infrastructure.search.searxng.web_search import SEARXNG_PAGES, SearXNGWebSearchAdapter
from shared.exceptions import AppException

CAPTCHA = [["google", "Suspended: CAPTCHA"], ["bing", "CAPTCHA"]]
MIXED = [["google", "Suspended: CAPTCHA"], ["bing", "timeout"]]
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def row(number: int, **fields: Any) -> dict[str, Any]:
    return {
        "url": f"https://example.org/{number}",
        "title": f"Page {number}",
        "content": f"Text {number}",
        "engine": "google",
        "engines": ["google"],
        "score": 1.0 / number,
        **fields,
    }


def page(first: int, count: int, **fields: Any) -> Handler:
    return json_reply({"results": [row(number) for number in range(first, first + count)], **fields})


def blocked(engines: list[list[str]], *headers: str) -> Handler:
    return json_reply({"results": [], "unresponsive_engines": engines}, *headers)


@asynccontextmanager
async def instance(handler: Handler, **options: Any) -> AsyncIterator[tuple[SearXNGWebSearchAdapter, Loopback]]:
    async with serving(handler) as upstream, make_client(upstream.url) as client:
        yield SearXNGWebSearchAdapter(upstream.url, client=client, **options), upstream


def request_for(**fields: Any) -> WebSearchRequest:
    return WebSearchRequest(**{"query": "cats", **fields})


async def test_the_request_passes_the_bot_detection() -> None:
    """A POST with a form and the headers of a browser."""
    async with instance(page(1, 3)) as (adapter, upstream):
        await adapter.search(request_for(query="cats & <dogs>", language="pt-BR"))
    (request,) = upstream.requests
    assert (request.method, request.path) == ("POST", "/search")
    assert request.form == {
        "q": "cats & <dogs>",
        "format": "json",
        "language": "pt-BR",
        "safesearch": "0",
        "engines": "google,bing,duckduckgo",
        "pageno": "1",
    }
    assert "text/html" in request.headers["accept"]
    assert "application/json" in request.headers["accept"]
    assert request.headers["accept-language"].startswith("en")
    assert "gzip" in request.headers["accept-encoding"]
    assert request.headers["user-agent"].startswith("llm-platform")
    assert "authorization" not in request.headers


async def test_an_instance_may_be_below_a_path() -> None:
    """With or without a slash at the end."""
    async with serving(page(1, 1)) as upstream, make_client(upstream.url) as client:
        await SearXNGWebSearchAdapter(f"{upstream.url}/searx/", client=client).search(request_for())
    assert upstream.requests[0].path == "/searx/search"


async def test_credentials_come_from_settings_or_address() -> None:
    """They are part of no result."""
    expected = "Basic " + b64encode("me:pä ss".encode()).decode()
    async with instance(page(1, 1), username="me", password="pä ss") as (adapter, upstream):
        await adapter.search(request_for())
        assert upstream.requests[-1].headers["authorization"] == expected
        inner = upstream.url.replace("http://", "http://me:p%C3%A4%20ss@")
        upstream.handler = json_reply({"results": [], "answers": ["42"]})
        async with make_client(inner) as client:
            answer = await SearXNGWebSearchAdapter(inner, client=client).search(request_for())
        assert upstream.requests[-1].headers["authorization"] == expected
    assert answer.results[0].url == f"{upstream.url}/search?q=cats"


@pytest.mark.parametrize("inner", [False, True], ids=["settings", "address"])
async def test_refused_credentials_are_a_config_error(inner: bool) -> None:
    """The message says to check them."""
    async with serving(reply(401)) as upstream:
        url = upstream.url.replace("http://", "http://me:wrong-password@") if inner else upstream.url
        options = {} if inner else {"username": "me", "password": "wrong-password"}
        async with make_client(url) as client:
            adapter = SearXNGWebSearchAdapter(url, client=client, **options)
            with pytest.raises(WebSearchConfigError, match=r"does not accept .* \(401\): check") as caught:
                await adapter.search(request_for())
    assert "wrong-password" not in caught.value.message


async def test_missing_credentials_are_a_config_error() -> None:
    """The message says to set them."""
    async with instance(reply(401)) as (adapter, _):
        with pytest.raises(WebSearchConfigError, match=r"requires a user name and password .*: set SEARXNG_USERNAME"):
            await adapter.search(request_for())


async def test_pages_are_requested_until_the_count_is_reached() -> None:
    """SearXNG has no limit parameter."""
    async with instance(in_turn(page(1, 10), page(11, 10), page(21, 10))) as (adapter, upstream):
        answer = await adapter.search(request_for(count=25))
    assert [item.title for item in answer.results] == [f"Page {number}" for number in range(1, 26)]
    assert [request.form["pageno"] for request in upstream.requests] == ["1", "2", "3"]


@for_each(("count", "size", "requests"), [(10, 10, 1), (10, 3, 1), (50, 9, 1), (30, 30, 1), (50, 10, SEARXNG_PAGES)])
async def test_no_page_more_than_needed_is_requested(count: int, size: int, requests: int) -> None:
    """A page that is not full is the last one."""
    async with instance(in_turn(*(page(first, size) for first in range(1, 1000, size)))) as (adapter, upstream):
        await adapter.search(request_for(count=count))
    assert len(upstream.requests) == requests


async def test_a_repeated_page_is_the_last() -> None:
    """Engines without paging return the first page again."""
    async with instance(page(1, 10)) as (adapter, upstream):
        answer = await adapter.search(request_for(count=50))
    assert [request.form["pageno"] for request in upstream.requests] == ["1", "2"]
    assert len(answer.results) == 10


@for_each(
    ("query", "language", "sent"),
    [
        ("пароль учётной записи пользователя", None, "ru"),
        ("Was ist eine Ereignisschleife und wie funktioniert sie?", None, "de"),
        ("asyncio", None, "all"),
        ("Was ist eine Ereignisschleife?", "en-US", "en-US"),
    ],
)
async def test_the_language_of_the_query_is_sent(query: str, language: str | None, sent: str) -> None:
    """If the request has none; `all` if it is unclear."""
    async with instance(page(1, 1)) as (adapter, upstream):
        await adapter.search(request_for(query=query, language=language))
    assert upstream.requests[0].form["language"] == sent


async def test_long_texts_are_cut() -> None:
    """Titles and snippets."""
    row = {"title": "t" * 1_000_000, "url": "https://example.org/1", "content": "long words " * 100_000}
    async with instance(json_reply({"results": [row]})) as (adapter, _):
        (item,) = (await adapter.search(request_for())).results
    assert (len(item.title), len(item.snippet)) == (1000, 20_000)


async def test_pages_of_the_request_do_not_overlap() -> None:
    """Page 3 of twenty results begins where page 2 ended."""
    async with instance(page(1, 10)) as (adapter, upstream):
        await adapter.search(request_for(page=3))
        await adapter.search(request_for(page=3, count=20))
    assert [request.form["pageno"] for request in upstream.requests] == ["3", "5", "6"]


async def test_a_failed_page_keeps_the_earlier_ones() -> None:
    """With an entry in `degraded`."""
    async with instance(in_turn(page(1, 10), reply(502))) as (adapter, _):
        answer = await adapter.search(request_for(count=20))
    assert len(answer.results) == 10
    assert [entry.component for entry in answer.degraded] == ["searxng/page 2"]


async def test_a_blocked_search_is_repeated_without_engine_names() -> None:
    """Once, with the category of the kind; the blocked engines are listed."""
    async with instance(in_turn(blocked(CAPTCHA), page(1, 3))) as (adapter, upstream):
        answer = await adapter.search(request_for(sources=("news",)))
    first, second = (request.form for request in upstream.requests)
    assert first["engines"] == "google news,bing news"
    assert "engines" not in second
    assert second["categories"] == "news"
    assert len(answer.results) == 3
    assert [entry.component for entry in answer.degraded] == ["searxng/google", "searxng/bing"]


@for_each(
    ("engines", "wait"),
    [
        (CAPTCHA, 3600),
        (MIXED, 5),
        ([["google", "Suspended: CAPTCHA"], ["bing", "too many requests"]], 180),
        ([["google", "CAPTCHA"], ["bing", "Suspended: access denied"]], 180),
    ],
)
async def test_all_engines_blocked_is_an_error_with_a_wait(engines: list[list[str]], wait: float) -> None:
    """Until the first engine may be available again."""
    async with instance(blocked(engines)) as (adapter, upstream):
        with pytest.raises(WebSearchBlockedError, match="google: captcha") as caught:
            await adapter.search(request_for())
    assert caught.value.retry_after_s == pytest.approx(wait, abs=1)
    assert len(upstream.requests) == 2


@for_each(
    ("words", "known_s"),
    [
        ("too many requests", 180),
        ("timeout", 5),
        ("HTTP connection error", 5),
        ("CAPTCHA", None),  # an hour, a week (reCAPTCHA) or 15 days (Cloudflare): the message does not say
        ("access denied", None),  # 3 minutes, or a day for Cloudflare's firewall
        ("parsing error", None),  # the engine is not left alone at all
        ("unexpected crash", None),
        ("Suspended: too many requests", None),  # it began earlier, the beginning is unknown
    ],
)
async def test_until_is_set_only_for_fixed_suspensions(words: str, known_s: float | None) -> None:
    """Those whose beginning was observed."""
    fields = {"unresponsive_engines": [["bing", words]]}
    async with instance(page(1, 1, **fields), now=lambda: NOW) as (adapter, _):
        (entry,) = (await adapter.search(request_for())).degraded
    assert entry.until == (None if known_s is None else NOW + timedelta(seconds=known_s))


async def test_until_stays_the_same_during_a_suspension() -> None:
    """ "Suspended: …" refers to the observed beginning."""
    times = [NOW]
    messages = ["too many requests", "Suspended: too many requests", "Suspended: too many requests"]
    handlers = [page(1, 1, unresponsive_engines=[["bing", words]]) for words in messages]
    untils = []
    async with instance(in_turn(*handlers), now=lambda: times[-1]) as (adapter, _):
        for later_s in (0, 60, 200):
            times.append(NOW + timedelta(seconds=later_s))
            untils.append((await adapter.search(request_for())).degraded[0].until)
    assert untils == [NOW + timedelta(seconds=180), NOW + timedelta(seconds=180), None]


@pytest.mark.parametrize("location", ["/", "http://{host}/"])
async def test_the_redirect_of_the_bot_detection_is_a_block(location: str) -> None:
    """The limiter sends suspicious clients to the start page."""

    async def handle(exchange: Exchange) -> None:
        where = location.format(host=exchange.headers["host"])
        await reply(302, b"", f"Location: {where}", "Cache-Control: no-store, max-age=0")(exchange)

    async with instance(handle) as (adapter, _):
        with pytest.raises(WebSearchBlockedError, match=r"bot detection .* server\.limiter to false") as caught:
            await adapter.search(request_for())
    assert caught.value.retry_after_s == 600
    assert not caught.value.engines_only


async def test_the_redirect_of_the_bot_detection_below_a_path() -> None:
    """The start page of an instance under a prefix is its prefix."""
    async with serving(reply(302, b"", "Location: /searx/")) as upstream, make_client(upstream.url) as client:
        with pytest.raises(WebSearchBlockedError):
            await SearXNGWebSearchAdapter(f"{upstream.url}/searx", client=client).search(request_for())


@for_each(
    ("status", "location"),
    [
        (302, "/login"),
        (301, "/"),
        (302, "https://search.example.org/"),
        (302, "/?next=/search"),
        (308, "/search/"),
        (302, ""),
    ],
)
async def test_any_other_redirect_is_a_config_error(status: int, location: str) -> None:
    """A login page or a move."""
    async with instance(reply(status, b"", f"Location: {location}")) as (adapter, _):
        with pytest.raises(WebSearchConfigError, match="redirects to another address"):
            await adapter.search(request_for())


async def test_a_429_of_the_limiter_has_the_wait_of_its_window() -> None:
    """20 s, then 10 minutes, until a search succeeds."""
    times = [0.0]
    refusal = reply(429, b"Too Many Requests", "Content-Type: text/html")
    waits = []
    async with instance(refusal, clock=lambda: times[-1]) as (adapter, upstream):
        for now in (0.0, 1.0, 21.0):
            times.append(now)
            with pytest.raises(WebSearchBlockedError, match="limiter") as caught:
                await adapter.search(request_for())
            waits.append(caught.value.retry_after_s)
        upstream.handler = page(1, 1)
        await adapter.search(request_for())
        upstream.handler = in_turn(refusal, reply(429, b"", "Retry-After: 7"))
        for _ in range(2):
            with pytest.raises(WebSearchBlockedError) as caught:
                await adapter.search(request_for())
            waits.append(caught.value.retry_after_s)
    assert waits == [20, 20, 600, 20, 7]


@for_each(
    ("body", "header", "wait"),
    [(b"", "X: y", None), (b"IP is on BLOCKLIST", "X: y", None), (b"Too Many Requests", "Retry-After: 0", 0.0)],
)
async def test_any_other_429_has_its_own_wait(body: bytes, header: str, wait: float | None) -> None:
    """Of a proxy or an address list; Retry-After wins."""
    async with instance(reply(429, body, header)) as (adapter, _):
        with pytest.raises(WebSearchBlockedError) as caught:
            await adapter.search(request_for())
    assert caught.value.retry_after_s == wait


async def test_unreachable_engines_are_a_fault_of_the_network() -> None:
    """The message says to check it."""
    unreached = [
        ["google", "HTTP connection error"],
        ["bing", "Suspended: HTTP connection error"],
        ["brave", "timeout"],
    ]
    async with instance(blocked(unreached)) as (adapter, _):
        with pytest.raises(WebSearchBlockedError, match="instance's connection to the internet") as caught:
            await adapter.search(request_for())
    assert caught.value.retry_after_s == pytest.approx(5, abs=1)


async def test_a_failed_second_search_raises_the_first_error() -> None:
    """All engines are blocked."""
    async with instance(in_turn(blocked(CAPTCHA), reply(500))) as (adapter, _):
        with pytest.raises(WebSearchBlockedError):
            await adapter.search(request_for())


async def test_no_results_and_failures_without_timing_are_a_block() -> None:
    """A proxy may remove Server-Timing."""
    header = "Server-Timing: total;dur=4.2, render;dur=0, load_0_google;dur=3"
    async with instance(blocked(MIXED, header)) as (adapter, _):
        with pytest.raises(WebSearchBlockedError):
            await adapter.search(request_for())
    async with instance(blocked(MIXED, f"{header}, total_0_duckduckgo;dur=3")) as (adapter, _):
        assert (await adapter.search(request_for())).results == ()


async def test_one_deadline_covers_the_complete_search() -> None:
    """The second search does not extend the deadline."""
    async with instance(in_turn(blocked(CAPTCHA), silence), timeout=0.2) as (adapter, _):
        with pytest.raises(WebSearchBlockedError):
            await adapter.search(request_for())


async def test_a_verbatim_request_is_sent_unchanged() -> None:
    """One page, no default engines; `raw` is SearXNG's answer."""
    sent = {"query": "!gon cats", "results": [row(1)] * 30, "number_of_results": 7, "extra": [None, {"a": 1.5}]}
    async with instance(json_reply(sent)) as (adapter, upstream):
        answer = await adapter.search(VerbatimWebSearchRequest(query="!gon cats", count=50, page=2))
    assert upstream.requests[0].form == {
        "q": "!gon cats",
        "format": "json",
        "language": "all",
        "safesearch": "0",
        "pageno": "2",
    }
    assert answer.raw == sent
    assert answer.total_matches == 7
    assert len(upstream.requests) == 1


@for_each(
    ("categories", "engines", "sent"),
    [
        (("news",), (), {"categories": "news"}),
        (("images", "social media"), (), {"categories": "images,social media"}),
        (("news",), ("google",), {"categories": "news", "engines": "google"}),
        ((), (), {}),
    ],
)
async def test_categories_of_a_verbatim_request_are_sent(
    categories: tuple[str, ...], engines: tuple[str, ...], sent: dict[str, str]
) -> None:
    """They select the engines."""
    async with instance(page(1, 1)) as (adapter, upstream):
        await adapter.search(VerbatimWebSearchRequest(query="cats", categories=categories, engines=engines))
    form = upstream.requests[0].form
    assert {name: form[name] for name in ("categories", "engines") if name in form} == sent


@for_each(("safesearch", "sent"), [(None, "1"), (0, "0"), (2, "2")])
async def test_a_verbatim_request_may_set_safesearch(safesearch: int | None, sent: str) -> None:
    """Else the setting is sent."""
    async with instance(page(1, 1), safesearch=1) as (adapter, upstream):
        await adapter.search(VerbatimWebSearchRequest(query="cats", safesearch=safesearch))
    assert upstream.requests[0].form["safesearch"] == sent


async def test_a_kind_without_engines_uses_its_category() -> None:
    """The instance chooses the engines."""
    async with instance(page(1, 1), engines={"news": ()}) as (adapter, upstream):
        await adapter.search(request_for(sources=("news",)))
    assert upstream.requests[0].form["categories"] == "news"


async def test_engines_of_a_verbatim_request_are_not_replaced() -> None:
    """Its answer lists the blocked ones."""
    refused = [["google news", "Suspended: CAPTCHA"]]
    async with instance(in_turn(blocked(refused), page(1, 3))) as (adapter, upstream):
        answer = await adapter.search(VerbatimWebSearchRequest(query="cats", engines=("google news",)))
    assert len(upstream.requests) == 1
    assert answer.results == ()
    assert answer.raw == {"results": [], "unresponsive_engines": refused}
    assert [(entry.component, entry.reason) for entry in answer.degraded] == [("searxng/google news", "captcha")]


async def test_a_blocked_verbatim_request_without_engines_is_an_error() -> None:
    """After one request; another provider may answer."""
    async with instance(in_turn(blocked(CAPTCHA), page(1, 3))) as (adapter, upstream):
        with pytest.raises(WebSearchBlockedError):
            await adapter.search(VerbatimWebSearchRequest(query="cats"))
    assert len(upstream.requests) == 1


async def test_a_verbatim_answer_is_strict_json() -> None:
    """Numbers beyond a float are null."""
    async with instance(reply(200, b'{"results": [], "a": 1e999, "b": NaN, "c": "\\ud800"}')) as (adapter, _):
        answer = await adapter.search(VerbatimWebSearchRequest(query="cats"))
    assert json.dumps(answer.raw, allow_nan=False)
    assert answer.raw == {"results": [], "a": None, "b": None, "c": "\ufffd"}


async def test_redirect_syntax_is_a_request_error() -> None:
    """Nothing is sent."""
    async with instance(page(1, 1)) as (adapter, upstream):
        with pytest.raises(WebSearchRequestError):
            await adapter.search(VerbatimWebSearchRequest(query="cats !!g"))
    assert upstream.requests == []


async def test_a_range_of_dates_is_a_time_range_and_a_filter() -> None:
    """Undated results stay."""
    dates = ["2026-11-10T00:00:00", "2026-11-12T08:00:00+08:00", "2026-11-16 10:00:00", None, "soon"]
    rows = [row(number, publishedDate=date) for number, date in enumerate(dates, 1)]
    async with instance(json_reply({"results": rows}), today=lambda: date(2026, 11, 20)) as (adapter, upstream):
        answer = await adapter.search(request_for(freshness="2026-11-12..2026-11-15"))
    assert upstream.requests[0].form["time_range"] == "month"
    assert [item.title for item in answer.results] == ["Page 2", "Page 4", "Page 5"]
    assert [item.published_date for item in answer.results] == ["2026-11-12T08:00:00+08:00", None, None]


async def test_results_of_other_hosts_are_dropped() -> None:
    """Engines may treat `site:` as a hint."""
    rows = [row(1), row(2, url="https://docs.python.org/3/"), row(3, url="https://evil.example/?python.org")]
    async with instance(json_reply({"results": rows})) as (adapter, _):
        answer = await adapter.search(request_for(domains=("python.org",)))
    assert [item.title for item in answer.results] == ["Page 2"]


async def test_invalid_results_are_dropped() -> None:
    """Nothing fails."""
    rows = [
        {"url": "https://example.org/image", "title": " A\n picture ", "template": "images.html", "img_src": "//x"},
        row(2, url="javascript:alert(1)"),
        row(3, url="https://example.org/a b"),
        row(4, url=None),
        row(5, url=["https://example.org/"]),
        row(6, title=None, content={"a": 1}, engine=7, score="high", publishedDate=20260101),
        row(7, score=True, engines=None),
        None,
        "text",
        [],
    ]
    invalid = {"results": rows, "answers": [None, {"answer": 5}, {"translations": []}, ""], "infoboxes": [None, {}, []]}
    invalid |= {"suggestions": ["", None, "more cats"], "corrections": [{"title": "bats", "url": "?q"}]}
    invalid |= {"unresponsive_engines": [None, [], ["<script>", "<b>odd</b>"], ["google"]], "number_of_results": "many"}
    async with instance(json_reply(invalid)) as (adapter, _):
        answer = await adapter.search(request_for())
    assert [item.title for item in answer.results] == ["A picture", "example.org", "Page 7"]
    nameless = answer.results[1]
    assert (nameless.snippet, nameless.source, nameless.score, nameless.published_date) == ("", None, None, None)
    assert answer.results[2].score is None
    assert (answer.suggestions, answer.correction, answer.total_matches) == (("more cats",), "bats", None)
    assert {(entry.component, entry.reason) for entry in answer.degraded} == {
        ("searxng/an engine", "failed"),
        ("searxng/google", "failed"),
    }


async def test_fields_of_the_wrong_type_are_ignored() -> None:
    """The answer is empty."""
    shape = dict.fromkeys(("answers", "infoboxes", "suggestions", "corrections", "unresponsive_engines"), 5)
    async with instance(json_reply({"results": {"a": 1}, **shape})) as (adapter, _):
        assert (await adapter.search(request_for())).results == ()


@for_each("body", [{}, {"error": "Rate limit exceeded"}, {"detail": "Not Found"}, {"message": "results"}])
async def test_an_object_without_results_is_an_error(body: Any) -> None:
    """Another program at this address, or an error with status 200, is never an empty list."""
    async with instance(json_reply(body)) as (adapter, _):
        with pytest.raises(WebSearchError, match="SEARXNG_URL"):
            await adapter.search(request_for())


async def test_answers_and_infoboxes_of_all_versions_are_read() -> None:
    """Strings, objects, attributes and links."""
    sent = {
        "answers": ["42", {"answer": "43", "url": "https://example.org/43", "engine": "wolfram"}],
        "infoboxes": [
            {
                "infobox": "Cat",
                "id": "Q146",
                "urls": [{"url": "https://example.org/cat"}],
                "attributes": [{"label": "Legs", "value": "4"}, {"label": "Image"}, None],
            },
            {"infobox": "Lynx", "content": "A cat.", "id": None},
        ],
        "results": [row(1, url="https://example.org/cat"), row(2)],
    }
    async with instance(json_reply(sent)) as (adapter, upstream):
        results = (await adapter.search(request_for())).results
    assert [item.snippet for item in results] == ["42", "43", "Legs: 4", "Text 2"]
    assert [item.url for item in results][:3] == [
        f"{upstream.url}/search?q=cats",
        "https://example.org/43",
        "https://example.org/cat",
    ]


@for_each(
    ("engines", "headers", "not_called"),
    [
        (("google", "yep"), (), []),
        (("yep", "brave"), (), ["searxng/yep", "searxng/brave"]),
        (("google", "yep"), ("Server-Timing: total;dur=4, total_0_google;dur=3",), ["searxng/yep"]),
        (("google", "yep"), ("Server-Timing: total;dur=4, total_0_google;dur=3, total_1_yep;dur=3",), []),
    ],
)
async def test_engines_not_called_are_unknown_without_timing(
    engines: tuple[str, ...], headers: tuple[str, ...], not_called: list[str]
) -> None:
    """One that found nothing messages the same."""
    async with instance(json_reply({"results": [row(1)]}, *headers)) as (adapter, _):
        answer = await adapter.search(request_for(engines=engines))
    assert [entry.component for entry in answer.degraded] == not_called


NO_ENGINE = "Server-Timing: total;dur=0.9, render;dur=0"  # no engine was called
NO_RESULT = json_reply({"results": [], "unresponsive_engines": []}, NO_ENGINE)


@for_each(
    ("fields", "cause"),
    [
        ({"page": 2}, "does not serve page 2, or the instance does not have it; ask for page 1"),
        ({"time_range": "week"}, "does not serve a time range, or .*; leave out the time range"),
        ({"page": 3, "time_range": "week"}, "page 3 or a time range"),
        ({}, r"\(wikipedia\): the instance does not have it; name other engines"),
    ],
)
async def test_no_called_engine_is_a_request_error(fields: dict[str, Any], cause: str) -> None:
    """SearXNG skips engines that do not support the page or time range."""
    async with instance(NO_RESULT) as (adapter, upstream):
        with pytest.raises(WebSearchRequestError, match=cause):
            await adapter.search(request_for(engines=("wikipedia",), **fields))
    assert len(upstream.requests) == 1


async def test_an_engine_that_was_not_called_is_listed() -> None:
    """With the cause."""
    header = f"{NO_ENGINE}, total_0_google;dur=3"
    for rows in ([row(1)], []):
        async with instance(json_reply({"results": rows}, header)) as (adapter, _):
            answer = await adapter.search(request_for(engines=("google", "wikipedia"), page=2))
        (entry,) = answer.degraded
        assert entry.component == "searxng/wikipedia"
        assert entry.reason == "was not called: it does not serve page 2, or the instance does not have it"


async def test_default_engines_that_were_not_called_are_replaced() -> None:
    """By the instance's engines of the kind."""
    async with instance(in_turn(NO_RESULT, page(1, 2)), engines={"academic": ("arxiv",)}) as (adapter, upstream):
        answer = await adapter.search(request_for(sources=("academic",), time_range="week"))
    assert upstream.requests[1].form["categories"] == "science"
    assert len(answer.results) == 2
    assert [entry.component for entry in answer.degraded] == ["searxng/arxiv"]
    assert "does not serve a time range" in answer.degraded[0].reason


async def test_engines_without_results_are_not_listed() -> None:
    """The header names them."""
    async with instance(json_reply({"results": []}, f"{NO_ENGINE}, total_0_wikipedia;dur=3")) as (adapter, _):
        answer = await adapter.search(request_for(engines=("wikipedia",), page=2))
    assert (answer.results, answer.degraded) == ((), ())


async def test_a_direct_answer_without_engines_is_an_answer() -> None:
    """`min 1 2 3` is computed."""
    async with instance(json_reply({"results": [], "answers": [{"answer": "1"}]}, NO_ENGINE)) as (adapter, _):
        answer = await adapter.search(request_for(engines=("wikipedia",)))
    assert [item.snippet for item in answer.results] == ["1"]
    assert answer.degraded == ()


async def test_documents_are_listed_as_unsupported() -> None:
    """The other kinds are searched."""
    async with instance(page(1, 1)) as (adapter, _):
        answer = await adapter.search(request_for(sources=("web", "documents")))
    assert [(entry.component, entry.reason) for entry in answer.degraded] == [("searxng", "does not search documents")]


@for_each(
    ("words", "expected", "remedy"),
    [
        ("Invalid value en_US for parameter language", WebSearchRequestError, "language"),
        ("Invalid value x for parameter time_range", WebSearchRequestError, "time_range"),
        ("Invalid value 9 for parameter safesearch", WebSearchConfigError, "SEARXNG_SAFESEARCH"),
        ("Something else entirely", WebSearchError, "400"),
    ],
)
async def test_a_400_is_an_error_of_request_or_setting(words: str, expected: type[AppException], remedy: str) -> None:
    """By its message."""
    async with instance(json_reply({"error": words}, status=400)) as (adapter, _):
        with pytest.raises(expected, match=remedy):
            await adapter.search(request_for())


NO_QUERY = json_reply({"error": "No query"}, status=400)  # what SearXNG with JSON on says to a search without q
NO_JSON = reply(403, b"<html><title>403 Forbidden</title>", "Content-Type: text/html")


async def test_a_ping_calls_no_engine() -> None:
    """A search without a query shows that JSON is enabled."""
    async with instance(NO_QUERY) as (adapter, upstream):
        assert await adapter.ping() == "reachable"
    (request,) = upstream.requests
    assert (request.method, request.path, request.form) == ("POST", "/search", {"format": "json"})


async def test_a_ping_detects_disabled_json() -> None:
    """/healthz does not."""
    async with instance(NO_JSON) as (adapter, _):
        with pytest.raises(WebSearchConfigError, match="add json to its settings"):
            await adapter.ping()


async def test_a_ping_uses_healthz_after_recent_json() -> None:
    """The limiter does not count it."""
    times = [0.0]

    async def handle(exchange: Exchange) -> None:
        await (reply(200, b"OK", "Content-Type: text/plain") if exchange.path == "/healthz" else NO_QUERY)(exchange)

    async with instance(handle, clock=lambda: times[-1]) as (adapter, upstream):
        for now in (0.0, 10.0, 59.0, 61.0):
            times.append(now)
            await adapter.ping()
    assert [request.path for request in upstream.requests] == ["/search", "/healthz", "/healthz", "/search"]


@pytest.mark.parametrize("healthz", [reply(404), reply(200, b"<html>", "Content-Type: text/html")])
async def test_an_instance_without_healthz_is_searched(healthz: Handler) -> None:
    """Each time."""
    async with instance(in_turn(NO_QUERY, healthz, NO_QUERY)) as (adapter, _):
        assert [await adapter.ping(), await adapter.ping()] == ["reachable"] * 2


@for_each(
    ("refusal", "stands_s"),
    [
        (blocked(CAPTCHA), 3600),
        (blocked([["google", "HTTP connection error"]]), 600),
        (reply(429, b"Too Many Requests"), 20),
        (reply(302, b"", "Location: /"), 600),
    ],
)
async def test_a_ping_reports_the_refusal_of_the_last_search(refusal: Handler, stands_s: float) -> None:
    """Without a request, until its time is over."""
    times = [0.0]
    async with instance(refusal, clock=lambda: times[-1]) as (adapter, upstream):
        with pytest.raises(WebSearchBlockedError) as met:
            await adapter.search(request_for())
        upstream.handler, sent = NO_QUERY, len(upstream.requests)
        times.append(stands_s - 1)
        with pytest.raises(WebSearchBlockedError) as pinged:
            await adapter.ping()
        assert pinged.value.message == met.value.message
        assert len(upstream.requests) == sent
        times.append(stands_s + 1)
        assert await adapter.ping() == "reachable"


async def test_a_successful_search_ends_a_refusal() -> None:
    """Only the last search counts."""
    async with instance(blocked(CAPTCHA)) as (adapter, upstream):
        with pytest.raises(WebSearchBlockedError):
            await adapter.search(request_for())
        upstream.handler = page(1, 1)
        await adapter.search(request_for())
        upstream.handler = reply(200, b"OK", "Content-Type: text/plain")
        assert await adapter.ping() == "reachable"


async def test_a_refused_ping_is_not_repeated() -> None:
    """Each request would prolong the limiter's window."""
    async with instance(reply(429, b"Too Many Requests")) as (adapter, upstream):
        for _ in range(2):
            with pytest.raises(WebSearchBlockedError, match="limiter"):
                await adapter.ping()
    assert len(upstream.requests) == 1


async def test_a_request_error_does_not_affect_the_ping() -> None:
    """The instance may be well."""
    async with instance(json_reply({"error": "Invalid value for parameter language"}, status=400)) as (
        adapter,
        upstream,
    ):
        with pytest.raises(WebSearchRequestError):
            await adapter.search(request_for())
        upstream.handler = NO_QUERY
        assert await adapter.ping() == "reachable"


@for_each(
    ("handler", "expected"),
    [
        (reply(401), WebSearchConfigError),
        (reply(404), WebSearchConfigError),
        (reply(502), WebSearchError),
        (reply(200, b"<html>", "Content-Type: text/html"), WebSearchError),
        (reply(302, b"", "Location: /login"), WebSearchConfigError),
    ],
)
async def test_a_ping_raises_the_errors_of_a_search(handler: Handler, expected: type[AppException]) -> None:
    """With cause and remedy."""
    async with instance(handler) as (adapter, _):
        with pytest.raises(expected):
            await adapter.ping()


def loaded(name: str, *categories: str, enabled: bool = True) -> dict[str, Any]:
    return {"name": name, "categories": list(categories), "enabled": enabled, "paging": True}


CONFIG = json_reply(
    {
        "engines": [
            loaded("google", "general", "web", enabled=False),
            loaded("duckduckgo", "general", "web"),
            loaded("brave", "general", "web"),
            loaded("lingva", "general", "translate"),
            loaded("reuters", "news"),
            loaded("google news", "news"),
            loaded("arxiv", "science", "scientific publications"),
            loaded("pdbe", "science"),
            {"name": "<b>"},
            {"name": None},
            None,
            "x",
        ]
    }
)


async def test_engine_lists_are_compared_with_the_instance() -> None:
    """By /config."""
    lists = {"web": ("google", "duckduckgo"), "news": ("gogle news",), "academic": ("arxiv",)}
    async with instance(CONFIG, engines=lists) as (adapter, upstream):
        web, news, academic = await adapter.engine_lists()
    assert [(request.method, request.path) for request in upstream.requests] == [("GET", "/config")]
    assert (web.setting, web.missing, web.off, web.on) == (
        "SEARXNG_ENGINES_WEB",
        (),
        ("google",),
        ("duckduckgo", "brave"),
    )
    assert (news.setting, news.missing, news.off, news.on) == (
        "SEARXNG_ENGINES_NEWS",
        ("gogle news",),
        (),
        ("reuters", "google news"),
    )
    assert (academic.missing, academic.off, academic.on) == ((), (), ("arxiv",))


@for_each(
    "handler",
    [reply(403), reply(404), json_reply({}), json_reply({"engines": 5}), json_reply([]), reply(200, b"<html>")],
)
async def test_an_unavailable_config_is_an_error(handler: Handler) -> None:
    """Not an empty list."""
    async with instance(handler) as (adapter, _):
        with pytest.raises(WebSearchError, match="/config"):
            await adapter.engine_lists()
