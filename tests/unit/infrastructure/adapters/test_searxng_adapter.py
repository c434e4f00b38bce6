"""How SearXNG is asked: the form, pages, second tries, and what is made of odd answers."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from tests.loopback_upstream import Exchange, Handler, Loopback, in_turn, json_reply, reply, serving, silence

from modules.llm_platform.domain.dtos.web_search_dtos import VerbatimWebSearchRequest, WebSearchRequest
from modules.llm_platform.domain.exceptions import (
    WebSearchBlockedError,
    WebSearchConfigError,
    WebSearchError,
    WebSearchRequestError,
)
from modules.llm_platform.infrastructure.adapters.searxng_web_search import MAX_PAGES, SearXNGWebSearchAdapter
from modules.llm_platform.infrastructure.http.client import make_client
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


def ask(**wishes: Any) -> WebSearchRequest:
    return WebSearchRequest(**{"query": "cats", **wishes})


async def test_one_post_that_its_bot_detection_accepts() -> None:
    """POST with a form, and headers like a reader of web pages: GETs for JSON are rationed, bare clients refused."""
    async with instance(page(1, 3)) as (adapter, upstream):
        await adapter.search(ask(query="cats & <dogs>", language="pt-BR"))
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


async def test_an_address_below_a_path() -> None:
    """An instance may live under a prefix, with or without a slash at the end."""
    async with serving(page(1, 1)) as upstream, make_client(upstream.url) as client:
        await SearXNGWebSearchAdapter(f"{upstream.url}/searx/", client=client).search(ask())
    assert upstream.requests[0].path == "/searx/search"


async def test_credentials_of_settings_or_of_the_address() -> None:
    """Basic auth from either; those of the address show in no result."""
    expected = "Basic " + b64encode("me:pä ss".encode()).decode()
    async with instance(page(1, 1), username="me", password="pä ss") as (adapter, upstream):
        await adapter.search(ask())
        assert upstream.requests[-1].headers["authorization"] == expected
        inner = upstream.url.replace("http://", "http://me:p%C3%A4%20ss@")
        upstream.handler = json_reply({"results": [], "answers": ["42"]})
        async with make_client(inner) as client:
            answer = await SearXNGWebSearchAdapter(inner, client=client).search(ask())
        assert upstream.requests[-1].headers["authorization"] == expected
    assert answer.results[0].url == f"{upstream.url}/search?q=cats"


@pytest.mark.parametrize("inner", [False, True], ids=["settings", "address"])
async def test_credentials_that_are_refused_are_to_be_checked(inner: bool) -> None:
    """Who has set them is not told to set them."""
    async with serving(reply(401)) as upstream:
        url = upstream.url.replace("http://", "http://me:wrong-password@") if inner else upstream.url
        options = {} if inner else {"username": "me", "password": "wrong-password"}
        async with make_client(url) as client:
            adapter = SearXNGWebSearchAdapter(url, client=client, **options)
            with pytest.raises(WebSearchConfigError, match=r"does not accept .* \(401\): check") as caught:
                await adapter.search(ask())
    assert "wrong-password" not in caught.value.message


async def test_credentials_that_are_missing_are_to_be_set() -> None:
    """The other half: the instance wants some."""
    async with instance(reply(401)) as (adapter, _):
        with pytest.raises(WebSearchConfigError, match=r"wants a user name and password .*: set SEARXNG_USERNAME"):
            await adapter.search(ask())


async def test_more_pages_until_there_are_enough() -> None:
    """There is no limit parameter: full pages are followed by the next one, results are cut to the number asked for."""
    async with instance(in_turn(page(1, 10), page(11, 10), page(21, 10))) as (adapter, upstream):
        answer = await adapter.search(ask(count=25))
    assert [item.title for item in answer.results] == [f"Page {number}" for number in range(1, 26)]
    assert [request.form["pageno"] for request in upstream.requests] == ["1", "2", "3"]


@pytest.mark.parametrize(("count", "size", "asked"), [(10, 10, 1), (10, 3, 1), (50, 9, 1), (30, 30, 1), (50, 10, MAX_PAGES)])
async def test_no_more_pages_than_needed(count: int, size: int, asked: int) -> None:
    """Enough results, or a page that is not full, end it."""
    async with instance(in_turn(*(page(first, size) for first in range(1, 1000, size)))) as (adapter, upstream):
        await adapter.search(ask(count=count))
    assert len(upstream.requests) == asked


async def test_a_page_that_brings_nothing_new_is_the_last() -> None:
    """An instance whose engines know no pages gives the first one again: it is not asked five times for it."""
    async with instance(page(1, 10)) as (adapter, upstream):
        answer = await adapter.search(ask(count=50))
    assert [request.form["pageno"] for request in upstream.requests] == ["1", "2"]
    assert len(answer.results) == 10


@pytest.mark.parametrize(
    ("query", "wished", "asked_for"),
    [
        ("пароль учётной записи пользователя", None, "ru"),
        ("Was ist eine Ereignisschleife und wie funktioniert sie?", None, "de"),
        ("asyncio", None, "all"),
        ("Was ist eine Ereignisschleife?", "en-US", "en-US"),
    ],
)
async def test_the_language_of_the_query_is_asked_for(query: str, wished: str | None, asked_for: str) -> None:
    """Without a wish the query's own language counts; unsure, all languages do."""
    async with instance(page(1, 1)) as (adapter, upstream):
        await adapter.search(ask(query=query, language=wished))
    assert upstream.requests[0].form["language"] == asked_for


async def test_texts_beyond_measure_are_cut() -> None:
    """A megabyte in a title or text is no snippet: what an answer quotes from stays small enough to be read in time."""
    row = {"title": "t" * 1_000_000, "url": "https://example.org/1", "content": "long words " * 100_000}
    async with instance(json_reply({"results": [row]})) as (adapter, _):
        (item,) = (await adapter.search(ask())).results
    assert (len(item.title), len(item.snippet)) == (1000, 20_000)


async def test_our_pages_do_not_overlap() -> None:
    """Page 3 of twenty results begins where page 2 ended."""
    async with instance(page(1, 10)) as (adapter, upstream):
        await adapter.search(ask(page=3))
        await adapter.search(ask(page=3, count=20))
    assert [request.form["pageno"] for request in upstream.requests] == ["3", "5", "6"]


async def test_a_second_page_that_fails_costs_only_itself() -> None:
    """What the first page found is an answer; the failure is told."""
    async with instance(in_turn(page(1, 10), reply(502))) as (adapter, _):
        answer = await adapter.search(ask(count=20))
    assert len(answer.results) == 10
    assert [entry.component for entry in answer.degraded] == ["searxng/page 2"]


async def test_results_that_pages_repeat_are_given_once() -> None:
    """The same address counts once."""
    async with instance(page(1, 10)) as (adapter, _):
        assert len((await adapter.search(ask(count=20))).results) == 10


async def test_all_blocked_is_tried_once_without_our_list() -> None:
    """The instance's own choice of the same kind of source is asked once, and both are told."""
    async with instance(in_turn(blocked(CAPTCHA), page(1, 3))) as (adapter, upstream):
        answer = await adapter.search(ask(sources=("news",)))
    first, second = (request.form for request in upstream.requests)
    assert first["engines"] == "google news,bing news"
    assert "engines" not in second
    assert second["categories"] == "news"
    assert len(answer.results) == 3
    assert [entry.component for entry in answer.degraded] == ["searxng/google", "searxng/bing"]


@pytest.mark.parametrize(
    ("engines", "wait"),
    [
        (CAPTCHA, 3600),
        (MIXED, 5),
        ([["google", "Suspended: CAPTCHA"], ["bing", "too many requests"]], 180),
        ([["google", "CAPTCHA"], ["bing", "Suspended: access denied"]], 180),
    ],
)
async def test_all_blocked_is_an_error_that_names_a_time(engines: list[list[str]], wait: float) -> None:
    """Nobody could look: an error with Retry-After, which is when the first of them can be asked again at the earliest."""
    async with instance(blocked(engines)) as (adapter, upstream):
        with pytest.raises(WebSearchBlockedError, match="google: captcha") as caught:
            await adapter.search(ask())
    assert caught.value.retry_after_s == pytest.approx(wait, abs=1)
    assert len(upstream.requests) == 2


@pytest.mark.parametrize(
    ("words", "known_s"),
    [
        ("too many requests", 180),
        ("timeout", 5),
        ("HTTP connection error", 5),
        ("CAPTCHA", None),  # an hour, a week (reCAPTCHA) or 15 days (Cloudflare): the words do not tell
        ("access denied", None),  # 3 minutes, or a day behind Cloudflare's firewall
        ("parsing error", None),  # the engine is not left alone at all
        ("unexpected crash", None),
        ("Suspended: too many requests", None),  # it began earlier, nobody knows when
    ],
)
async def test_until_is_told_only_where_it_is_known(words: str, known_s: float | None) -> None:
    """The time until which SearXNG leaves an engine alone, where the reason has one length and was seen to begin."""
    fields = {"unresponsive_engines": [["bing", words]]}
    async with instance(page(1, 1, **fields), now=lambda: NOW) as (adapter, _):
        (entry,) = (await adapter.search(ask())).degraded
    assert entry.until == (None if known_s is None else NOW + timedelta(seconds=known_s))


async def test_until_stays_the_same_while_the_suspension_lasts() -> None:
    """The second look meets "Suspended: …" and tells the time that was known; after its end nothing is known."""
    times = [NOW]
    looks = ["too many requests", "Suspended: too many requests", "Suspended: too many requests"]
    handlers = [page(1, 1, unresponsive_engines=[["bing", words]]) for words in looks]
    told = []
    async with instance(in_turn(*handlers), now=lambda: times[-1]) as (adapter, _):
        for later_s in (0, 60, 200):
            times.append(NOW + timedelta(seconds=later_s))
            told.append((await adapter.search(ask())).degraded[0].until)
    assert told == [NOW + timedelta(seconds=180), NOW + timedelta(seconds=180), None]


@pytest.mark.parametrize("location", ["/", "http://{host}/"])
async def test_the_redirect_of_the_bot_detection_is_a_refusal(location: str) -> None:
    """SearXNG sends a suspicious client to its start page: the address is right, and time or the operator helps."""

    async def handle(exchange: Exchange) -> None:
        where = location.format(host=exchange.headers["host"])
        await reply(302, b"", f"Location: {where}", "Cache-Control: no-store, max-age=0")(exchange)

    async with instance(handle) as (adapter, _):
        with pytest.raises(WebSearchBlockedError, match=r"bot detection .* server\.limiter to false") as caught:
            await adapter.search(ask())
    assert caught.value.retry_after_s == 600
    assert not caught.value.engines_only


async def test_the_redirect_of_the_bot_detection_below_a_path() -> None:
    """The start page of an instance under a prefix is its prefix."""
    async with serving(reply(302, b"", "Location: /searx/")) as upstream, make_client(upstream.url) as client:
        with pytest.raises(WebSearchBlockedError):
            await SearXNGWebSearchAdapter(f"{upstream.url}/searx", client=client).search(ask())


@pytest.mark.parametrize(
    ("status", "location"),
    [(302, "/login"), (301, "/"), (302, "https://search.example.org/"), (302, "/?next=/search"), (308, "/search/"), (302, "")],
)
async def test_any_other_redirect_is_a_wrong_address(status: int, location: str) -> None:
    """A login page or a move is the operator's to mend."""
    async with instance(reply(status, b"", f"Location: {location}")) as (adapter, _):
        with pytest.raises(WebSearchConfigError, match="redirects to another address"):
            await adapter.search(ask())


async def test_a_refusal_of_the_limiter_lasts_as_long_as_its_window() -> None:
    """A 429 without Retry-After is 20 s; one that still comes when these are over is 10 minutes, until a search passes."""
    times = [0.0]
    refusal = reply(429, b"Too Many Requests", "Content-Type: text/html")
    waits = []
    async with instance(refusal, clock=lambda: times[-1]) as (adapter, upstream):
        for now in (0.0, 1.0, 21.0):
            times.append(now)
            with pytest.raises(WebSearchBlockedError, match="limiter") as caught:
                await adapter.search(ask())
            waits.append(caught.value.retry_after_s)
        upstream.handler = page(1, 1)
        await adapter.search(ask())
        upstream.handler = in_turn(refusal, reply(429, b"", "Retry-After: 7"))
        for _ in range(2):
            with pytest.raises(WebSearchBlockedError) as caught:
                await adapter.search(ask())
            waits.append(caught.value.retry_after_s)
    assert waits == [20, 20, 600, 20, 7]


@pytest.mark.parametrize(("body", "header", "wait"), [(b"", "X: y", None), (b"IP is on BLOCKLIST", "X: y", None),
                                                      (b"Too Many Requests", "Retry-After: 0", 0.0)])  # fmt: skip
async def test_any_other_429_keeps_its_own_time(body: bytes, header: str, wait: float | None) -> None:
    """A proxy in front of it, or a list of addresses, is not the limiter's window; what Retry-After says counts first."""
    async with instance(reply(429, body, header)) as (adapter, _):
        with pytest.raises(WebSearchBlockedError) as caught:
            await adapter.search(ask())
    assert caught.value.retry_after_s == wait


async def test_an_instance_without_internet_says_what_it_lacks() -> None:
    """None of its engines can be reached: its network is at fault, not the engines, and a few seconds are the wait."""
    unreached = [["google", "HTTP connection error"], ["bing", "Suspended: HTTP connection error"], ["brave", "timeout"]]
    async with instance(blocked(unreached)) as (adapter, _):
        with pytest.raises(WebSearchBlockedError, match="instance's connection to the internet") as caught:
            await adapter.search(ask())
    assert caught.value.retry_after_s == pytest.approx(5, abs=1)


async def test_a_second_try_that_fails_leaves_the_first_error() -> None:
    """What went wrong is that all are blocked."""
    async with instance(in_turn(blocked(CAPTCHA), reply(500))) as (adapter, _):
        with pytest.raises(WebSearchBlockedError):
            await adapter.search(ask())


async def test_without_the_header_silence_with_failures_counts_as_blocked() -> None:
    """Behind a proxy that takes Server-Timing away, nothing found and engines failing is not called an answer."""
    header = "Server-Timing: total;dur=4.2, render;dur=0, load_0_google;dur=3"
    async with instance(blocked(MIXED, header)) as (adapter, _):
        with pytest.raises(WebSearchBlockedError):
            await adapter.search(ask())
    async with instance(blocked(MIXED, f"{header}, total_0_duckduckgo;dur=3")) as (adapter, _):
        assert (await adapter.search(ask())).results == ()


async def test_one_deadline_for_the_whole_search() -> None:
    """A second try does not get a second time."""
    async with instance(in_turn(blocked(CAPTCHA), silence), timeout=0.2) as (adapter, _):
        with pytest.raises(WebSearchBlockedError):
            await adapter.search(ask())


async def test_a_verbatim_request() -> None:
    """Its query goes out as written, without engines of ours, for one page; the answer is there as it was sent."""
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


@pytest.mark.parametrize(
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
    """SearXNG chooses engines by them: left out, the general engines would answer a search for news."""
    async with instance(page(1, 1)) as (adapter, upstream):
        await adapter.search(VerbatimWebSearchRequest(query="cats", categories=categories, engines=engines))
    form = upstream.requests[0].form
    assert {name: form[name] for name in ("categories", "engines") if name in form} == sent


@pytest.mark.parametrize(("wished", "sent"), [(None, "1"), (0, "0"), (2, "2")])
async def test_a_verbatim_request_chooses_its_safesearch(wished: int | None, sent: str) -> None:
    """The setting is what is asked for where the request says nothing."""
    async with instance(page(1, 1), safesearch=1) as (adapter, upstream):
        await adapter.search(VerbatimWebSearchRequest(query="cats", safesearch=wished))
    assert upstream.requests[0].form["safesearch"] == sent


async def test_a_kind_without_engines_is_asked_by_its_category() -> None:
    """An empty list of engines leaves the choice to the instance, among those of the kind."""
    async with instance(page(1, 1), engines={"news": ()}) as (adapter, upstream):
        await adapter.search(ask(sources=("news",)))
    assert upstream.requests[0].form["categories"] == "news"


async def test_engines_of_a_verbatim_request_are_replaced_by_no_others() -> None:
    """Its answer is the instance's own: a blocked engine stands in it, and nobody else answers in its place."""
    refused = [["google news", "Suspended: CAPTCHA"]]
    async with instance(in_turn(blocked(refused), page(1, 3))) as (adapter, upstream):
        answer = await adapter.search(VerbatimWebSearchRequest(query="cats", engines=("google news",)))
    assert len(upstream.requests) == 1
    assert answer.results == ()
    assert answer.raw == {"results": [], "unresponsive_engines": refused}
    assert [(entry.component, entry.reason) for entry in answer.degraded] == [("searxng/google news", "captcha")]


async def test_a_verbatim_request_without_engines_that_nobody_can_answer() -> None:
    """Where no engine was named, another provider may answer: it is an error, after one request."""
    async with instance(in_turn(blocked(CAPTCHA), page(1, 3))) as (adapter, upstream):
        with pytest.raises(WebSearchBlockedError):
            await adapter.search(VerbatimWebSearchRequest(query="cats"))
    assert len(upstream.requests) == 1


async def test_a_verbatim_answer_can_always_be_sent_on() -> None:
    """Numbers that no strict JSON holds are null in it."""
    async with instance(reply(200, b'{"results": [], "a": 1e999, "b": NaN, "c": "\\ud800"}')) as (adapter, _):
        answer = await adapter.search(VerbatimWebSearchRequest(query="cats"))
    assert json.dumps(answer.raw, allow_nan=False)
    assert answer.raw == {"results": [], "a": None, "b": None, "c": "\ufffd"}


async def test_redirect_syntax_never_reaches_the_instance() -> None:
    """A verbatim `!!` is refused before anything is sent."""
    async with instance(page(1, 1)) as (adapter, upstream):
        with pytest.raises(WebSearchRequestError):
            await adapter.search(VerbatimWebSearchRequest(query="cats !!g"))
    assert upstream.requests == []


async def test_dates_filter_and_choose_the_range() -> None:
    """A window of dates asks for the smallest range that covers it, then keeps what lies inside or has no date."""
    dates = ["2026-11-10T00:00:00", "2026-11-12T08:00:00+08:00", "2026-11-16 10:00:00", None, "soon"]
    rows = [row(number, publishedDate=each) for number, each in enumerate(dates, 1)]
    async with instance(json_reply({"results": rows}), today=lambda: date(2026, 11, 20)) as (adapter, upstream):
        answer = await adapter.search(ask(freshness="2026-11-12..2026-11-15"))
    assert upstream.requests[0].form["time_range"] == "month"
    assert [item.title for item in answer.results] == ["Page 2", "Page 4", "Page 5"]
    assert [item.published_date for item in answer.results] == ["2026-11-12T08:00:00+08:00", None, None]


async def test_domains_filter_what_engines_take_as_a_hint() -> None:
    """Results of other hosts are dropped."""
    rows = [row(1), row(2, url="https://docs.python.org/3/"), row(3, url="https://evil.example/?python.org")]
    async with instance(json_reply({"results": rows})) as (adapter, _):
        answer = await adapter.search(ask(domains=("python.org",)))
    assert [item.title for item in answer.results] == ["Page 2"]


async def test_odd_results() -> None:
    """Images without text, bad addresses, wrong types and things that are no results: nothing fails, nothing bad is kept."""
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
    odd = {"results": rows, "answers": [None, {"answer": 5}, {"translations": []}, ""], "infoboxes": [None, {}, []]}
    odd |= {"suggestions": ["", None, "more cats"], "corrections": [{"title": "bats", "url": "?q"}]}
    odd |= {"unresponsive_engines": [None, [], ["<script>", "<b>odd</b>"], ["google"]], "number_of_results": "many"}
    async with instance(json_reply(odd)) as (adapter, _):
        answer = await adapter.search(ask())
    assert [item.title for item in answer.results] == ["A picture", "example.org", "Page 7"]
    nameless = answer.results[1]
    assert (nameless.snippet, nameless.source, nameless.score, nameless.published_date) == ("", None, None, None)
    assert answer.results[2].score is None
    assert (answer.suggestions, answer.correction, answer.total_matches) == (("more cats",), "bats", None)
    assert {(entry.component, entry.reason) for entry in answer.degraded} == {
        ("searxng/an engine", "failed"),
        ("searxng/google", "failed"),
    }


async def test_fields_of_the_wrong_shape() -> None:
    """An answer in which nothing has the right type is an empty answer."""
    shape = dict.fromkeys(("answers", "infoboxes", "suggestions", "corrections", "unresponsive_engines"), 5)
    async with instance(json_reply({"results": {"a": 1}, **shape})) as (adapter, _):
        assert (await adapter.search(ask())).results == ()


async def test_answers_and_infoboxes_of_every_age() -> None:
    """Strings of old instances, objects with an address, infoboxes with attributes alone or with links."""
    sent = {
        "answers": ["42", {"answer": "43", "url": "https://example.org/43", "engine": "wolfram"}],
        "infoboxes": [
            {"infobox": "Cat", "id": "Q146", "urls": [{"url": "https://example.org/cat"}], "attributes": [
                {"label": "Legs", "value": "4"}, {"label": "Image"}, None]},
            {"infobox": "Lynx", "content": "A cat.", "id": None},
        ],
        "results": [row(1, url="https://example.org/cat"), row(2)],
    }
    async with instance(json_reply(sent)) as (adapter, upstream):
        results = (await adapter.search(ask())).results
    assert [item.snippet for item in results] == ["42", "43", "Legs: 4", "Text 2"]
    assert [item.url for item in results][:3] == [
        f"{upstream.url}/search?q=cats",
        "https://example.org/43",
        "https://example.org/cat",
    ]


@pytest.mark.parametrize(
    ("asked", "headers", "told"),
    [
        (("google", "yep"), (), []),
        (("yep", "brave"), (), ["searxng/yep", "searxng/brave"]),
        (("google", "yep"), ("Server-Timing: total;dur=4, total_0_google;dur=3",), ["searxng/yep"]),
        (("google", "yep"), ("Server-Timing: total;dur=4, total_0_google;dur=3, total_1_yep;dur=3",), []),
    ],
)
async def test_who_took_no_part_as_far_as_can_be_known(
    asked: tuple[str, ...], headers: tuple[str, ...], told: list[str]
) -> None:
    """Without Server-Timing an engine that found nothing cannot be told from one that does not exist: then we are silent."""
    async with instance(json_reply({"results": [row(1)]}, *headers)) as (adapter, _):
        answer = await adapter.search(ask(engines=asked))
    assert [entry.component for entry in answer.degraded] == told


NOBODY = "Server-Timing: total;dur=0.9, render;dur=0"  # no engine is named: none was asked
NO_RESULT = json_reply({"results": [], "unresponsive_engines": []}, NOBODY)


@pytest.mark.parametrize(
    ("wishes", "cause"),
    [
        ({"page": 2}, "does not serve page 2, or the instance does not have it; ask for page 1"),
        ({"time_range": "week"}, "does not serve a time range, or .*; leave out the time range"),
        ({"page": 3, "time_range": "week"}, "page 3 or a time range"),
        ({}, r"\(wikipedia\): the instance does not have it; name other engines"),
    ],
)
async def test_an_engine_that_was_never_asked_has_not_found_nothing(wishes: dict[str, Any], cause: str) -> None:
    """SearXNG leaves out, without a word, an engine that does not serve the page or time range: then nobody looked."""
    async with instance(NO_RESULT) as (adapter, upstream):
        with pytest.raises(WebSearchRequestError, match=cause):
            await adapter.search(ask(engines=("wikipedia",), **wishes))
    assert len(upstream.requests) == 1


async def test_one_of_two_engines_that_was_never_asked_is_told() -> None:
    """The other one answers, and the answer says who took no part and why."""
    header = f"{NOBODY}, total_0_google;dur=3"
    for rows in ([row(1)], []):
        async with instance(json_reply({"results": rows}, header)) as (adapter, _):
            answer = await adapter.search(ask(engines=("google", "wikipedia"), page=2))
        (entry,) = answer.degraded
        assert entry.component == "searxng/wikipedia"
        assert entry.reason == "took no part: it does not serve page 2, or the instance does not have it"


async def test_a_list_of_ours_that_was_never_asked_gives_way_to_the_instance() -> None:
    """The operator's list does not serve what the caller asks for: the instance's own engines of that kind do."""
    async with instance(in_turn(NO_RESULT, page(1, 2)), engines={"academic": ("arxiv",)}) as (adapter, upstream):
        answer = await adapter.search(ask(sources=("academic",), time_range="week"))
    assert upstream.requests[1].form["categories"] == "science"
    assert len(answer.results) == 2
    assert [entry.component for entry in answer.degraded] == ["searxng/arxiv"]
    assert "does not serve a time range" in answer.degraded[0].reason


async def test_engines_that_looked_and_found_nothing_are_no_fault() -> None:
    """The header names them: nothing was found."""
    async with instance(json_reply({"results": []}, f"{NOBODY}, total_0_wikipedia;dur=3")) as (adapter, _):
        answer = await adapter.search(ask(engines=("wikipedia",), page=2))
    assert (answer.results, answer.degraded) == ((), ())


async def test_a_direct_answer_takes_the_place_of_the_search() -> None:
    """`min 1 2 3` is computed: that no engine was asked is no fault either."""
    async with instance(json_reply({"results": [], "answers": [{"answer": "1"}]}, NOBODY)) as (adapter, _):
        answer = await adapter.search(ask(engines=("wikipedia",)))
    assert [item.snippet for item in answer.results] == ["1"]
    assert answer.degraded == ()


async def test_documents_are_not_its_business() -> None:
    """A kind that it lacks is left out and named."""
    async with instance(page(1, 1)) as (adapter, _):
        answer = await adapter.search(ask(sources=("web", "documents")))
    assert [(entry.component, entry.reason) for entry in answer.degraded] == [("searxng", "does not search documents")]


@pytest.mark.parametrize(
    ("words", "expected", "remedy"),
    [
        ("Invalid value en_US for parameter language", WebSearchRequestError, "language"),
        ("Invalid value x for parameter time_range", WebSearchRequestError, "time_range"),
        ("Invalid value 9 for parameter safesearch", WebSearchConfigError, "SEARXNG_SAFESEARCH"),
        ("Something else entirely", WebSearchError, "400"),
    ],
)
async def test_a_form_that_it_does_not_take(words: str, expected: type[AppException], remedy: str) -> None:
    """Whose mistake a 400 is: the caller's, the operator's, or nobody's that we know."""
    async with instance(json_reply({"error": words}, status=400)) as (adapter, _):
        with pytest.raises(expected, match=remedy):
            await adapter.search(ask())


NO_QUERY = json_reply({"error": "No query"}, status=400)  # what SearXNG with JSON on says to a search without q
NO_JSON = reply(403, b"<html><title>403 Forbidden</title>", "Content-Type: text/html")


async def test_health_costs_no_search() -> None:
    """A search without a query asks no engine: SearXNG refuses it as JSON, which shows that it serves JSON."""
    async with instance(NO_QUERY) as (adapter, upstream):
        assert await adapter.ping() == "reachable"
    (request,) = upstream.requests
    assert (request.method, request.path, request.form) == ("POST", "/search", {"format": "json"})


async def test_health_sees_json_that_is_off() -> None:
    """The instance is up and of no use: /healthz alone would not tell."""
    async with instance(NO_JSON) as (adapter, _):
        with pytest.raises(WebSearchConfigError, match="add json to its settings"):
            await adapter.ping()


async def test_health_spares_the_limiter() -> None:
    """While JSON was seen within a minute /healthz is enough, which the limiter does not count."""
    times = [0.0]

    async def handle(exchange: Exchange) -> None:
        await (reply(200, b"OK", "Content-Type: text/plain") if exchange.path == "/healthz" else NO_QUERY)(exchange)

    async with instance(handle, clock=lambda: times[-1]) as (adapter, upstream):
        for now in (0.0, 10.0, 59.0, 61.0):
            times.append(now)
            await adapter.ping()
    assert [request.path for request in upstream.requests] == ["/search", "/healthz", "/healthz", "/search"]


@pytest.mark.parametrize("healthz", [reply(404), reply(200, b"<html>", "Content-Type: text/html")])
async def test_health_of_an_old_instance_without_healthz(healthz: Handler) -> None:
    """It is asked for a search without a query each time."""
    async with instance(in_turn(NO_QUERY, healthz, NO_QUERY)) as (adapter, _):
        assert [await adapter.ping(), await adapter.ping()] == ["reachable"] * 2


@pytest.mark.parametrize(
    ("refusal", "stands_s"),
    [
        (blocked(CAPTCHA), 3600),
        (blocked([["google", "HTTP connection error"]]), 600),
        (reply(429, b"Too Many Requests"), 20),
        (reply(302, b"", "Location: /"), 600),
    ],
    ids=["engines", "no internet", "limiter", "bot detection"],
)
async def test_what_the_last_search_met_counts(refusal: Handler, stands_s: float) -> None:
    """An instance that refused the last search is not well until the time is over; it is not asked meanwhile."""
    times = [0.0]
    async with instance(refusal, clock=lambda: times[-1]) as (adapter, upstream):
        with pytest.raises(WebSearchBlockedError) as met:
            await adapter.search(ask())
        upstream.handler, sent = NO_QUERY, len(upstream.requests)
        times.append(stands_s - 1)
        with pytest.raises(WebSearchBlockedError) as told:
            await adapter.ping()
        assert told.value.message == met.value.message
        assert len(upstream.requests) == sent
        times.append(stands_s + 1)
        assert await adapter.ping() == "reachable"


async def test_a_search_that_comes_through_makes_it_well() -> None:
    """The last search counts, not an earlier one."""
    async with instance(blocked(CAPTCHA)) as (adapter, upstream):
        with pytest.raises(WebSearchBlockedError):
            await adapter.search(ask())
        upstream.handler = page(1, 1)
        await adapter.search(ask())
        upstream.handler = reply(200, b"OK", "Content-Type: text/plain")
        assert await adapter.ping() == "reachable"


async def test_a_health_check_that_is_refused_is_not_repeated() -> None:
    """Each request prolongs the limiter's window."""
    async with instance(reply(429, b"Too Many Requests")) as (adapter, upstream):
        for _ in range(2):
            with pytest.raises(WebSearchBlockedError, match="limiter"):
                await adapter.ping()
    assert len(upstream.requests) == 1


async def test_a_mistake_of_the_caller_says_nothing_about_the_instance() -> None:
    """A wrong language is no reason to call it unwell."""
    async with instance(json_reply({"error": "Invalid value for parameter language"}, status=400)) as (adapter, upstream):
        with pytest.raises(WebSearchRequestError):
            await adapter.search(ask())
        upstream.handler = NO_QUERY
        assert await adapter.ping() == "reachable"


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        (reply(401), WebSearchConfigError),
        (reply(404), WebSearchConfigError),
        (reply(502), WebSearchError),
        (reply(200, b"<html>", "Content-Type: text/html"), WebSearchError),
        (reply(302, b"", "Location: /login"), WebSearchConfigError),
    ],
)
async def test_bad_health_is_told_with_its_cause(handler: Handler, expected: type[AppException]) -> None:
    """A ping fails with the same errors and remedies as a search."""
    async with instance(handler) as (adapter, _):
        with pytest.raises(expected):
            await adapter.ping()


def loaded(name: str, *categories: str, enabled: bool = True) -> dict[str, Any]:
    return {"name": name, "categories": list(categories), "enabled": enabled, "paging": True}


CONFIG = json_reply({"engines": [
    loaded("google", "general", "web", enabled=False), loaded("duckduckgo", "general", "web"),
    loaded("brave", "general", "web"), loaded("lingva", "general", "translate"), loaded("reuters", "news"),
    loaded("google news", "news"), loaded("arxiv", "science", "scientific publications"), loaded("pdbe", "science"),
    {"name": "<b>"}, {"name": None}, None, "x",
]})  # fmt: skip


async def test_the_lists_are_held_against_what_the_instance_has() -> None:
    """/config tells which engines are loaded and which of them it asks by itself."""
    lists = {"web": ("google", "duckduckgo"), "news": ("gogle news",), "academic": ("arxiv",)}
    async with instance(CONFIG, engines=lists) as (adapter, upstream):
        web, news, academic = await adapter.engine_lists()
    assert [(request.method, request.path) for request in upstream.requests] == [("GET", "/config")]
    assert (web.setting, web.missing, web.off, web.on) == (
        "SEARXNG_ENGINES_WEB", (), ("google",), ("duckduckgo", "brave"),
    )  # fmt: skip
    assert (news.setting, news.missing, news.off, news.on) == (
        "SEARXNG_ENGINES_NEWS", ("gogle news",), (), ("reuters", "google news"),
    )  # fmt: skip
    assert (academic.missing, academic.off, academic.on) == ((), (), ("arxiv",))


@pytest.mark.parametrize(
    "handler", [reply(403), reply(404), json_reply({}), json_reply({"engines": 5}), json_reply([]), reply(200, b"<html>")]
)
async def test_an_instance_that_does_not_tell_its_engines(handler: Handler) -> None:
    """A proxy may hide /config: that is said as it is, and not as an empty list."""
    async with instance(handler) as (adapter, _):
        with pytest.raises(WebSearchError, match="/config"):
            await adapter.engine_lists()
