"""The true answers of a real SearXNG become the right results, degradations and errors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.support.cases import for_each
from tests.support.loopback_upstream import recorded, recording, serving

from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.exceptions import (
    WebSearchBlockedError,
    WebSearchConfigError,
    WebSearchRequestError,
    WebSearchUnavailableError,
)
from modules.llm_platform.infrastructure.http.client import make_client
from modules.llm_platform.infrastructure.search.searxng.web_search import SearXNGWebSearchAdapter
from shared.exceptions import AppException


@asynccontextmanager
async def instance(name: str) -> AsyncIterator[SearXNGWebSearchAdapter]:
    async with serving(recorded(f"searxng/{name}")) as upstream, make_client(upstream.url) as client:
        yield SearXNGWebSearchAdapter(upstream.url, client=client)


async def found(name: str, **fields: Any) -> WebSearchResponse:
    async with instance(name) as adapter:
        return await adapter.search(WebSearchRequest(query="as recorded", **fields))


async def test_a_result_has_all_fields() -> None:
    """Title, address, text, host, engine and score."""
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


async def test_a_failed_engine_is_listed_with_its_time() -> None:
    """Of its suspension."""
    before = datetime.now(UTC)
    (entry,) = (await found("01_general_merged_suggestions")).degraded
    after = datetime.now(UTC)
    assert (entry.component, entry.reason) == ("searxng/qwant", "too many requests")
    assert entry.until is not None
    assert before + timedelta(seconds=170) < entry.until < after + timedelta(seconds=200)


async def test_every_kind_of_failure_has_a_reason() -> None:
    """A time only where it is known."""
    answer = await found("09_unresponsive_all_kinds", engines=("marginalia", "mojeek", "brave"))
    failures = {entry.component.removeprefix("searxng/"): entry for entry in answer.degraded}
    assert {name: entry.reason for name, entry in failures.items()} == {
        "brave": "answered with an error",
        "mojeek": "timeout",
        "qwant": "too many requests",
        "startpage": "captcha",
        "swisscows": "not reachable",
        "yahoo": "access denied",
        "yep": "its answer could not be read",
    }
    assert failures["qwant"].until is None  # suspended earlier, the beginning is unknown
    assert {name for name, entry in failures.items() if entry.until} == {"brave", "mojeek", "swisscows"}
    assert len(answer.results) == 10


async def test_an_infobox_is_the_first_result() -> None:
    """The infobox has its own address."""
    answer = await found("03_infobox")
    box = answer.results[0]
    assert (box.title, box.url, box.source) == ("tcp(7)", "https://en.wiki.example.org/wiki/tcp(7)", "wikipedia")
    assert box.snippet.startswith("This is an implementation of the TCP protocol")
    assert len(answer.results) == 10


async def test_a_direct_answer_is_the_first_result() -> None:
    """A direct answer without an address has the address of the instance's result page."""
    answer = (await found("14_answer_plugin")).results[0]
    assert answer.snippet.startswith("sha256 hash digest: 47dd56c2")
    assert answer.url.startswith("http://127.0.0.1:")
    assert answer.url.endswith("/search?q=as+recorded")
    assert answer.title == "Answer by plugin: hash_plugin"


async def test_news_have_their_dates() -> None:
    """With the zone."""
    answer = await found("04_news_published", sources=("news",))
    assert answer.results[0].published_date == "2024-05-02T18:30:51+00:00"
    assert answer.degraded == ()


async def test_results_of_other_templates_are_read() -> None:
    """Also in other scripts."""
    assert len((await found("05_science_papers", sources=("academic",), count=20)).results) == 20
    russian = await found("15_russian", language="ru")
    assert any("пароль" in item.snippet.lower() for item in russian.results)


async def test_a_correction_is_returned() -> None:
    """It is not searched for."""
    assert (await found("19_correction")).correction == "asynchronous generator"


async def test_results_without_an_address_are_dropped() -> None:
    """Such as key-value results."""
    answer = await found("18_keyvalue_without_url")
    assert answer.results == ()
    assert all("was not called" in entry.reason for entry in answer.degraded)


async def test_nothing_found_differs_from_all_blocked() -> None:
    """By the engines of the Server-Timing header."""
    answer = await found("10_empty_result")
    assert answer.results == ()
    assert [entry.component for entry in answer.degraded] == ["searxng/qwant"]


async def test_an_unknown_engine_is_listed() -> None:
    """SearXNG replaces it silently."""
    answer = await found("08_engines_unknown_fall_back", engines=("google_news", "bing_news"))
    absent = [entry.component for entry in answer.degraded if "was not called" in entry.reason]
    assert absent == ["searxng/google_news", "searxng/bing_news"]
    assert answer.results


async def test_missing_default_engines_are_listed_only_if_all_are_missing() -> None:
    """An instance may lack some of them."""
    some = await found("07_engines_list")
    assert some.degraded == ()
    none = await found("04_news_published", sources=("academic",))
    assert [entry.component for entry in none.degraded] == ["searxng/google scholar", "searxng/arxiv"]


@for_each(
    ("name", "expected", "words"),
    [
        ("11_missing_q_400", WebSearchRequestError, "query"),
        ("12_bad_pageno_400", WebSearchRequestError, "page"),
        ("16_json_not_enabled_403", WebSearchConfigError, "search.formats: [html, json]"),
        ("17_limiter_429", WebSearchBlockedError, "limiter"),
        ("20_basic_auth_missing_401", WebSearchConfigError, "SEARXNG_USERNAME and SEARXNG_PASSWORD"),
        ("21_bad_gateway_502", WebSearchUnavailableError, "502"),
    ],
)
async def test_each_refusal_has_its_remedy(name: str, expected: type[AppException], words: str) -> None:
    """The message names it."""
    with pytest.raises(AppException) as caught:
        await found(name)
    assert type(caught.value) is expected
    assert words in caught.value.message


async def test_typed_and_legacy_results_are_read() -> None:
    """Each has a title, an address and its engine."""
    answer = await found("06_it_sources", engines=("local docs", "hackernews"), count=20)
    rows = recording("searxng/06_it_sources")["results"]
    assert [item.url for item in answer.results] == [row["url"] for row in rows]
    assert all(item.title and item.source for item in answer.results)
    assert [item.published_date for item in answer.results] == [row.get("publishedDate") or None for row in rows]
