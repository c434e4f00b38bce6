"""Serper fulfils the contract of the port, with answers written after its playground."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from tests.contracts.search_row_contract import KeyedSearchContract
from tests.support.cases import for_each
from tests.support.loopback_upstream import Handler, json_reply

from modules.llm_platform.domain.exceptions import WebSearchBlockedError, WebSearchConfigError, WebSearchError
from modules.llm_platform.infrastructure.search.serper import SerperWebSearchAdapter
from shared.exceptions import AppException

KEY = "serper-0123456789"
FOUND = {
    "searchParameters": {"q": "python asyncio", "type": "search", "engine": "google"},
    "organic": [
        {
            "title": "asyncio — Asynchronous I/O",
            "link": "https://docs.python.org/3/library/asyncio.html",
            "snippet": "asyncio is a library to write concurrent code.",
            "date": "Mar 31, 2026",
            "position": 1,
        },
        {
            "title": "Async IO",
            "link": "https://realpython.com/async-io/",
            "snippet": "",
            "date": "2 weeks ago",
            "position": 2,
        },
    ],
    "news": [
        {
            "title": "Python 3.15",
            "link": "https://news.example/a",
            "snippet": "Out.",
            "date": "3 hours ago",
            "source": "News",
        },
    ],
    "relatedSearches": [{"query": "asyncio tutorial"}],
    "credits": 1,
}
PAPER = {
    "title": "Attention is all you need",
    "link": "https://papers.example/attention",
    "snippet": "… to attend to all positions …",
    "publicationInfo": "A Vaswani, N Shazeer - 2017 - papers.example",
    "year": 2017,
    "citedBy": 1,
}


class TestSerper(KeyedSearchContract):
    found = "python asyncio"
    answers = (json_reply(FOUND), json_reply({"searchParameters": {}, "organic": [], "credits": 1}))

    def adapter(self, url: str, client: httpx2.AsyncClient) -> SerperWebSearchAdapter:
        return SerperWebSearchAdapter(KEY, url, client=client)

    @staticmethod
    def one(url: str) -> Any:
        return {"organic": [{"title": "One", "link": url, "snippet": ""}]}

    async def test_the_request_is_serpers(self) -> None:
        """The key is in a header. Domains become operators of the query, and a language tag becomes `hl` and `gl`."""
        request = await self.sent(count=3, page=2, domains=("python.org", "-a.example"), language="zh-TW")
        assert (request.method, request.path, request.headers["x-api-key"]) == ("POST", "/search", KEY)
        assert request.json == {
            "q": "python site:python.org -site:a.example",
            "num": 3,
            "page": 2,
            "hl": "zh-tw",
            "gl": "tw",
        }

    @for_each(
        ("fields", "tbs"),
        [
            ({}, None),
            ({"time_range": "week"}, "qdr:w"),
            ({"freshness": "oneYear"}, "qdr:y"),
            ({"freshness": "2026-01-09"}, "cdr:1,cd_min:1/9/2026,cd_max:1/9/2026"),
            ({"freshness": "2026-01-09..2026-02-28"}, "cdr:1,cd_min:1/9/2026,cd_max:2/28/2026"),
        ],
    )
    async def test_an_age_limit_is_googles(self, fields: dict[str, Any], tbs: str | None) -> None:
        """The limit becomes Google's age or its range of days in American order."""
        assert (await self.sent(**fields)).json.get("tbs") == tbs

    @for_each(("kind", "path"), [("web", "/search"), ("news", "/news"), ("academic", "/scholar")])
    async def test_each_kind_has_its_own_search(self, kind: str, path: str) -> None:
        """Each kind has its own path."""
        assert (await self.sent(sources=(kind,))).path == path

    async def test_an_answer_is_read(self) -> None:
        """An absolute date becomes ISO 8601, a relative one is left out."""
        first, second = (await self.outcome(self.answers[0])).results
        assert (first.snippet, first.published_date) == ("asyncio is a library to write concurrent code.", "2026-03-31")
        assert second.published_date is None
        (news,) = (await self.outcome(self.answers[0], sources=("news",))).results
        assert (news.title, news.site_name, news.published_date) == ("Python 3.15", "News", None)

    async def test_a_paper_has_its_year(self) -> None:
        """The age of papers cannot be limited."""
        answer = await self.outcome(json_reply({"organic": [PAPER]}), sources=("academic",), time_range="year")
        (paper,) = answer.results
        assert (paper.published_date, paper.site_name) == ("2017", PAPER["publicationInfo"])
        assert [entry.reason for entry in answer.degraded] == ["cannot limit the age of papers"]

    @for_each(
        ("handler", "expected", "words"),
        [
            (
                json_reply({"message": "Not enough credits", "statusCode": 400}, status=400),
                WebSearchBlockedError,
                "top it up",
            ),
            (json_reply({"message": "Missing query parameter", "statusCode": 400}, status=400), WebSearchError, "400"),
            (
                json_reply({"message": "Unauthorized.", "statusCode": 403}, status=403),
                WebSearchConfigError,
                "SERPER_API_KEY",
            ),
        ],
    )
    async def test_refusals(self, handler: Handler, expected: type[AppException], words: str) -> None:
        """An unknown key is a 403, and used-up credits are a 400 with a message."""
        with pytest.raises(AppException, match=words) as caught:
            await self.outcome(handler)
        assert type(caught.value) is expected

    @for_each(
        ("fields", "words"),
        [
            ({"engines": ("bing",)}, "engines"),
            ({"sources": ("documents",)}, "documents"),
            ({"language": "ve"}, "language"),
        ],
    )
    async def test_unsupported_parts_are_listed(self, fields: dict[str, Any], words: str) -> None:
        """The search is sent without them."""
        (entry,) = (await self.outcome(self.answers[0], **fields)).degraded
        assert (entry.component, words in entry.reason) == ("serper", True)
