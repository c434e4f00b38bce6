"""Tavily fulfils the contract of the port, with answers written after its reference."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from tests.contracts.search_row_contract import KeyedSearchContract
from tests.support.cases import for_each
from tests.support.loopback_upstream import Handler, json_reply

from modules.llm_platform.domain.exceptions import WebSearchBlockedError
from modules.llm_platform.infrastructure.search.tavily import TavilyWebSearchAdapter

KEY = "tvly-0123456789"
FOUND = {
    "query": "python asyncio",
    "follow_up_questions": None,
    "answer": None,
    "images": [],
    "results": [
        {
            "url": "https://docs.python.org/3/library/asyncio.html",
            "title": "asyncio — Asynchronous I/O",
            "content": "asyncio is a library to write concurrent code.",
            "score": 0.91,
            "raw_content": None,
            "published_date": "Tue, 31 Mar 2026 10:00:00 GMT",
        },
        {
            "url": "https://realpython.com/async-io/",
            "title": "Async IO",
            "content": "",
            "score": 0.8,
            "raw_content": None,
        },
    ],
    "response_time": 1.09,
    "request_id": "123e4567-e89b-12d3-a456-426614174111",
}


class TestTavily(KeyedSearchContract):
    found = "python asyncio"
    answers = (json_reply(FOUND), json_reply({**FOUND, "results": []}))

    def adapter(self, url: str, client: httpx2.AsyncClient) -> TavilyWebSearchAdapter:
        return TavilyWebSearchAdapter(KEY, url, client=client)

    @staticmethod
    def one(url: str) -> Any:
        return {"results": [{"title": "One", "url": url, "content": "", "score": 1}]}

    async def test_the_request_is_tavilys(self) -> None:
        """The request is a POST with a bearer key. An age limit becomes a span or two dates."""
        request = await self.sent(count=3, domains=("python.org", "-a.example"), time_range="week")
        assert (request.method, request.path) == ("POST", "/search")
        assert request.headers["authorization"] == f"Bearer {KEY}"
        assert request.json == {
            "query": "python",
            "topic": "general",
            "search_depth": "basic",
            "max_results": 3,
            "time_range": "week",
            "include_domains": ["python.org"],
            "exclude_domains": ["a.example"],
        }
        body = (await self.sent(sources=("news",), freshness="2026-01-01..2026-01-31", count=30)).json
        assert body["max_results"] == 20
        assert (body["topic"], body["start_date"], body["end_date"]) == ("news", "2026-01-01", "2026-01-31")
        assert "time_range" not in body

    async def test_an_answer_is_read(self) -> None:
        """The date of a news item becomes ISO 8601."""
        first, second = (await self.outcome(self.answers[0])).results
        assert (first.snippet, first.score) == ("asyncio is a library to write concurrent code.", 0.91)
        assert (first.published_date, second.published_date) == ("2026-03-31T10:00:00+00:00", None)

    @for_each("handler", [json_reply({"detail": {"error": "exceeds"}}, status=status) for status in (432, 433)])
    async def test_a_used_up_plan_is_a_limit(self, handler: Handler) -> None:
        """Tavily has two special statuses for this, after which the next provider is used."""
        with pytest.raises(WebSearchBlockedError, match="raise it"):
            await self.outcome(handler)

    @for_each(
        ("fields", "words"),
        [
            ({"page": 2}, "first page"),
            ({"count": 30}, "at most 20"),
            ({"engines": ("google",)}, "engines"),
            ({"sources": ("academic",)}, "academic"),
            ({"query": "word " * 99 + "last"}, "cut"),
        ],
    )
    async def test_unsupported_parts_are_listed(self, fields: dict[str, Any], words: str) -> None:
        """The search is sent without them."""
        (entry,) = (await self.outcome(self.answers[0], **fields)).degraded
        assert (entry.component, words in entry.reason) == ("tavily", True)

    async def test_a_long_query_is_cut_between_words(self) -> None:
        """At the 400 characters that Tavily accepts."""
        query = (await self.sent(query="seven22 " * 60)).json["query"]
        assert (len(query) <= 400, query.endswith("seven22")) == (True, True)
