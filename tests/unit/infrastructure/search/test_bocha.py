"""Requests to Bocha, and its envelopes, nulls and codes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.support.cases import for_each
from tests.support.loopback_upstream import Handler, Loopback, json_reply, recorded, recording, reply, serving

from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.exceptions import (
    WebSearchBlockedError,
    WebSearchConfigError,
    WebSearchError,
    WebSearchRequestError,
    WebSearchUnavailableError,
)
from modules.llm_platform.infrastructure.http.client import make_client
from modules.llm_platform.infrastructure.search.bocha import BochaWebSearchAdapter
from shared.exceptions import AppException

KEY = "sk-bocha-0123456789"


@asynccontextmanager
async def bocha(handler: Handler) -> AsyncIterator[tuple[BochaWebSearchAdapter, Loopback]]:
    async with serving(handler) as upstream, make_client(upstream.url) as client:
        yield BochaWebSearchAdapter(KEY, upstream.url, client=client), upstream


async def found(handler: Handler, **fields: Any) -> WebSearchResponse:
    async with bocha(handler) as (adapter, _):
        return await adapter.search(WebSearchRequest(**{"query": "阿里巴巴 ESG", **fields}))


async def sent(**fields: Any) -> Any:
    async with bocha(recorded("bocha/nothing_found")) as (adapter, upstream):
        await adapter.search(WebSearchRequest(**{"query": "阿里巴巴 ESG", **fields}))
    return upstream.requests[0].json


async def test_the_request_has_only_bochas_fields() -> None:
    """POST to its one path with a bearer key."""
    async with bocha(recorded("bocha/wrapped")) as (adapter, upstream):
        await adapter.search(WebSearchRequest(query="阿里巴巴 ESG", count=3, summary=False))
    (request,) = upstream.requests
    assert (request.method, request.path) == ("POST", "/v1/web-search")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["content-type"] == "application/json"
    assert request.json == {"query": "阿里巴巴 ESG", "freshness": "noLimit", "summary": False, "count": 3}


@for_each(
    ("fields", "freshness"),
    [
        ({}, "noLimit"),
        ({"freshness": "oneWeek"}, "oneWeek"),
        ({"freshness": "2024-01-01..2024-02-01"}, "2024-01-01..2024-02-01"),
        ({"time_range": "month"}, "oneMonth"),
        ({"time_range": "day", "freshness": "noLimit"}, "noLimit"),
    ],
)
async def test_freshness_is_sent_unchanged(fields: dict[str, Any], freshness: str) -> None:
    """Without one, a time range becomes a freshness."""
    assert (await sent(**fields))["freshness"] == freshness


async def test_domains_are_sent_as_include_and_exclude() -> None:
    """Each list is joined by a bar."""
    body = await sent(domains=("python.org", "-a.example", "pytest.example", "-b.example"))
    assert (body["include"], body["exclude"]) == ("python.org|pytest.example", "a.example|b.example")
    many = await sent(domains=("python.org",) * 21)  # Bocha takes 20: the results are filtered
    assert (many.get("include"), many.get("exclude")) == (None, None)


async def test_an_answer_in_an_envelope_is_read() -> None:
    """Nulls become empty or None; dates keep their zone; the crawler's date is not used."""
    answer = await found(recorded("bocha/wrapped"))
    first, _, third = answer.results
    assert first.title == "阿里巴巴 ESG 报告 1"
    assert first.url == "https://news.example.cn/esg/1"
    assert first.snippet == "摘要 1：减排目标。"
    assert first.summary == "阿里巴巴在 2024 年的 ESG 报告第 1 部分中说明了减排目标和进展。"
    assert (first.site_name, first.published_date, first.source) == ("例新闻", "2024-07-22T00:00:00+08:00", "bocha")
    assert (third.summary, third.site_name, third.published_date) == (None, None, None)
    assert (answer.total_matches, answer.provider, answer.degraded) == (8912791, "bocha", ())
    assert answer.raw == recording("bocha/wrapped")


async def test_an_answer_without_an_envelope_is_the_same() -> None:
    """The results are equal."""
    bare, wrapped = await found(recorded("bocha/bare")), await found(recorded("bocha/wrapped"))
    assert bare.results == wrapped.results
    assert bare.total_matches == 3


async def test_invalid_pages_are_dropped() -> None:
    """Those without a usable address; the others keep their valid fields."""
    answer = await found(recorded("bocha/odd_pages"))
    assert [(item.title, item.url, item.snippet) for item in answer.results] == [
        ("news.example.cn", "https://news.example.cn/only-url", ""),
        ("two words", "https://news.example.cn/esg/4", ""),
    ]
    assert answer.total_matches is None


@for_each("pages", [None, {}, {"value": None}, {"value": []}, {"value": "none"}])
async def test_an_answer_without_pages_is_empty(pages: Any) -> None:
    """It is no error."""
    envelope = {"code": 200, "data": {"_type": "SearchResponse", "webPages": pages}}
    assert (await found(json_reply(envelope))).results == ()


async def test_results_are_cut_to_the_count() -> None:
    """Further ones are dropped."""
    assert len((await found(recorded("bocha/wrapped"), count=2)).results) == 2


@for_each(
    ("handler", "expected", "words"),
    [
        (recorded("bocha/no_balance_in_200"), WebSearchBlockedError, "balance"),
        (recorded("bocha/data_null"), WebSearchError, "without a search result"),
        (recorded("bocha/bad_key_401"), WebSearchConfigError, "BOCHA_API_KEY"),
        (json_reply({"code": "400", "message": "Missing parameter query"}), WebSearchError, "400"),
        (json_reply({"code": 401, "message": "no"}), WebSearchConfigError, "BOCHA_API_KEY"),
        (json_reply({"code": "429", "message": "slow down"}), WebSearchBlockedError, "refuses more requests"),
        (json_reply({"code": 500, "data": {"webPages": {}}}), WebSearchUnavailableError, "500"),
        (json_reply({"code": None, "data": {"webPages": {}}}), WebSearchError, "unreadable code"),
        (json_reply({"code": True}), WebSearchError, "unreadable code"),
        (json_reply({"code": 200}), WebSearchError, "without a search result"),
        (json_reply({"code": 200, "data": [1]}), WebSearchError, "without a search result"),
        (json_reply({}), WebSearchError, "without a search result"),
        (reply(403, b"{}"), WebSearchBlockedError, "balance"),
        (reply(404), WebSearchConfigError, "BOCHA_BASE_URL"),
    ],
)
async def test_statuses_and_codes_are_errors(handler: Handler, expected: type[AppException], words: str) -> None:
    """A code inside HTTP 200 counts as that status; an answer without data is an error."""
    with pytest.raises(AppException) as caught:
        await found(handler)
    assert type(caught.value) is expected
    assert words in caught.value.message


@pytest.mark.parametrize("key", ["", "  "])
async def test_an_unusable_key_fails_at_the_call(key: str) -> None:
    """The error names the setting, nothing is sent; a wrong request is reported first."""
    async with serving(recorded("bocha/wrapped")) as upstream, make_client(upstream.url) as client:
        adapter = BochaWebSearchAdapter(key, upstream.url, client=client)
        with pytest.raises(WebSearchConfigError, match="BOCHA_API_KEY"):
            await adapter.search(WebSearchRequest(query="q"))
        with pytest.raises(WebSearchRequestError):
            await adapter.search(WebSearchRequest(query="q", freshness="sometimes"))
    assert upstream.requests == []


@for_each(
    ("fields", "words"),
    [
        ({"page": 2}, "first page"),
        ({"engines": ("google",)}, "engines"),
        ({"sources": ("web", "news", "academic")}, "news, academic"),
        ({"query": "What is the capital of France and where is it?", "language": "de"}, "language of the query"),
    ],
)
async def test_unsupported_parts_are_listed(fields: dict[str, Any], words: str) -> None:
    """The search is sent without them."""
    answer = await found(recorded("bocha/wrapped"), **fields)
    assert len(answer.results) == 3
    (entry,) = answer.degraded
    assert entry.component == "bocha"
    assert words in entry.reason


async def test_the_language_of_the_query_is_supported() -> None:
    """Bocha answers in the language of the query."""
    assert (await found(recorded("bocha/wrapped"), query="阿里巴巴的环境报告", language="zh-CN")).degraded == ()
