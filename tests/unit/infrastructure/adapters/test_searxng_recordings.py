"""The true answers of a real SearXNG become the right results, degradations and errors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.loopback_upstream import recorded, recording, serving

from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.exceptions import (
    WebSearchBlockedError,
    WebSearchConfigError,
    WebSearchError,
    WebSearchRequestError,
)
from modules.llm_platform.infrastructure.adapters.searxng_web_search import SearXNGWebSearchAdapter
from modules.llm_platform.infrastructure.http.client import make_client
from shared.exceptions import AppException


@asynccontextmanager
async def instance(name: str) -> AsyncIterator[SearXNGWebSearchAdapter]:
    async with serving(recorded(f"searxng/{name}")) as upstream, make_client(upstream.url) as client:
        yield SearXNGWebSearchAdapter(upstream.url, client=client)


async def found(name: str, **wishes: Any) -> WebSearchResponse:
    async with instance(name) as adapter:
        return await adapter.search(WebSearchRequest(query="as recorded", **wishes))


async def test_results_as_they_came() -> None:
    """Every field of a plain result arrives: title, address, text, host, engine, and the score as it was given."""
    answer = await found("01_general_merged_suggestions")
    rows = recording("searxng/01_general_merged_suggestions")["results"]
    assert [item.url for item in answer.results] == [row["url"] for row in rows[:10]]
    first = answer.results[0]
    assert (first.title, first.snippet, first.source, first.score) == (
        rows[0]["title"],
        rows[0]["content"],
        "bing",
        6.0,
    )
    assert first.site_name == "docs.example.org"
    assert first.published_date is None
    assert first.summary is None
    assert answer.provider == "searxng"
    assert answer.suggestions == ("asyncio.runner", "asyncio.run", "asyncio.get_event_loop")
    assert answer.correction is None
    assert answer.total_matches is None
    assert answer.raw == recording("searxng/01_general_merged_suggestions")


async def test_an_engine_that_failed_is_named_with_its_time() -> None:
    """`unresponsive_engines` become degraded entries; a suspended engine is back after three minutes."""
    before = datetime.now(UTC)
    (entry,) = (await found("01_general_merged_suggestions")).degraded
    assert (entry.component, entry.reason) == ("searxng/qwant", "too many requests")
    assert entry.until is not None
    assert 170 < (entry.until - before).total_seconds() < 200


async def test_every_kind_of_failure_has_its_word() -> None:
    """Seven engines broken in seven ways: reasons in our words, a time only where it is known."""
    answer = await found("09_unresponsive_all_kinds", engines=("marginalia", "mojeek", "brave"))
    told = {entry.component.removeprefix("searxng/"): entry for entry in answer.degraded}
    assert {name: entry.reason for name, entry in told.items()} == {
        "brave": "answered with an error",
        "mojeek": "timeout",
        "qwant": "too many requests",
        "startpage": "captcha",
        "swisscows": "not reachable",
        "yahoo": "access denied",
        "yep": "its answer could not be read",
    }
    assert told["qwant"].until is None  # suspended earlier, nobody knows when
    assert {name for name, entry in told.items() if entry.until} == {"brave", "mojeek", "swisscows"}
    assert len(answer.results) == 10


async def test_an_infobox_comes_first() -> None:
    """It is a source like any other, under its own address."""
    answer = await found("03_infobox")
    box = answer.results[0]
    assert (box.title, box.url, box.source) == ("tcp(7)", "https://en.wiki.example.org/wiki/tcp(7)", "wikipedia")
    assert box.snippet.startswith("This is an implementation of the TCP protocol")
    assert len(answer.results) == 10


async def test_a_direct_answer_comes_first() -> None:
    """Without an address of its own it stands under the instance's page for the query."""
    answer = (await found("14_answer_plugin")).results[0]
    assert answer.snippet.startswith("sha256 hash digest: 47dd56c2")
    assert answer.url.startswith("http://127.0.0.1:")
    assert answer.url.endswith("/search?q=as+recorded")
    assert answer.title == "Answer by plugin: hash_plugin"


async def test_news_keep_their_dates() -> None:
    """A date with a zone stays as it came."""
    answer = await found("04_news_published", sources=("news",))
    assert answer.results[0].published_date == "2024-05-02T18:30:51+00:00"
    assert answer.degraded == ()


async def test_papers_and_other_languages() -> None:
    """Results of other templates and scripts are read alike."""
    assert len((await found("05_science_papers", sources=("academic",), count=20)).results) == 20
    russian = await found("15_russian", language="ru")
    assert any("пароль" in item.snippet.lower() for item in russian.results)


async def test_a_correction_is_offered() -> None:
    """What was probably meant is told, not searched for."""
    assert (await found("19_correction")).correction == "asynchronous generator"


async def test_results_without_an_address_are_dropped() -> None:
    """A key-value result has none; it is no failure either."""
    answer = await found("18_keyvalue_without_url")
    assert answer.results == ()
    assert all("took no part" in entry.reason for entry in answer.degraded)


async def test_nothing_found_is_told_from_all_blocked() -> None:
    """An engine failed, but the Server-Timing header names others that looked."""
    answer = await found("10_empty_result")
    assert answer.results == ()
    assert [entry.component for entry in answer.degraded] == ["searxng/qwant"]


async def test_an_unknown_engine_is_told() -> None:
    """SearXNG lets its default engines answer without a word: we say who took no part."""
    answer = await found("08_engines_unknown_fall_back", engines=("google_news", "bing_news"))
    absent = [entry.component for entry in answer.degraded if "took no part" in entry.reason]
    assert absent == ["searxng/google_news", "searxng/bing_news"]
    assert answer.results


async def test_engines_of_ours_that_are_missing_are_told_only_when_all_are() -> None:
    """Our list is a wish, which an instance meets as far as it can."""
    some = await found("07_engines_list")
    assert some.degraded == ()
    none = await found("04_news_published", sources=("academic",))
    assert [entry.component for entry in none.degraded] == ["searxng/google scholar", "searxng/arxiv"]


@pytest.mark.parametrize(
    ("name", "expected", "words"),
    [
        ("11_missing_q_400", WebSearchRequestError, "query"),
        ("12_bad_pageno_400", WebSearchRequestError, "page"),
        ("16_json_not_enabled_403", WebSearchConfigError, "search.formats: [html, json]"),
        ("17_limiter_429", WebSearchBlockedError, "limiter"),
        ("20_basic_auth_missing_401", WebSearchConfigError, "SEARXNG_USERNAME and SEARXNG_PASSWORD"),
        ("21_bad_gateway_502", WebSearchError, "502"),
    ],
)
async def test_each_refusal_has_its_remedy(name: str, expected: type[AppException], words: str) -> None:
    """The traps of a real instance: each its own error, whose message says what to do."""
    with pytest.raises(AppException) as caught:
        await found(name)
    assert type(caught.value) is expected
    assert words in caught.value.message


async def test_results_of_every_shape_are_read() -> None:
    """Typed, legacy and foreign templates in one answer: each has a title, an address and its engine; dates have no zone."""
    answer = await found("06_it_sources", engines=("local docs", "hackernews"), count=20)
    rows = recording("searxng/06_it_sources")["results"]
    assert [item.url for item in answer.results] == [row["url"] for row in rows]
    assert all(item.title and item.source for item in answer.results)
    assert [item.published_date for item in answer.results] == [row.get("publishedDate") or None for row in rows]


async def test_a_range_of_dates_is_a_time_range_and_then_a_filter() -> None:
    """What lies outside goes, what bears no date stays."""
    answer = await found("13_news_time_range_year", sources=("news",), freshness="2026-04-01..2026-04-25")
    assert [item.published_date for item in answer.results] == ["2026-04-21T14:49:31+00:00"]
    undated = await found("07_engines_list", freshness="2026-04-01..2026-04-25")
    assert len(undated.results) == 10
