"""Exa fulfils the contract of the port, with answers written after its reference."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
from tests.contracts.search_row_contract import KeyedSearchContract
from tests.support.cases import for_each
from tests.support.loopback_upstream import json_reply

from modules.llm_platform.infrastructure.search.exa import ExaWebSearchAdapter

KEY = "exa-0123456789"
FOUND = {
    "requestId": "b5947044c4b78efa9552a7c89b306d95",
    "resolvedSearchType": "neural",
    "results": [
        {
            "id": "https://docs.python.org/3/library/asyncio.html",
            "title": "asyncio — Asynchronous I/O",
            "url": "https://docs.python.org/3/library/asyncio.html",
            "publishedDate": "2026-03-31T00:00:00.000Z",
            "author": None,
            "score": 0.42,
            "highlights": ["asyncio is a library to write concurrent code.", "It uses async/await."],
        },
        {"id": "b", "title": None, "url": "https://realpython.com/async-io/", "publishedDate": "", "highlights": None},
    ],
    "costDollars": {"total": 0.007},
}


class TestExa(KeyedSearchContract):
    found = "python asyncio"
    answers = (json_reply(FOUND), json_reply({"requestId": "c", "results": []}))

    def adapter(self, url: str, client: httpx2.AsyncClient) -> ExaWebSearchAdapter:
        return ExaWebSearchAdapter(KEY, url, client=client)

    @staticmethod
    def one(url: str) -> Any:
        return {"results": [{"title": "One", "url": url, "highlights": []}]}

    async def test_the_request_is_exas(self) -> None:
        """The request is a POST with the key in a header, and has no unnecessary field."""
        request = await self.sent(count=3, domains=("python.org", "-a.example"), language="de-AT")
        assert (request.method, request.path, request.headers["x-api-key"]) == ("POST", "/search", KEY)
        assert request.json == {
            "query": "python",
            "numResults": 3,
            "includeDomains": ["python.org"],
            "excludeDomains": ["a.example"],
            "userLocation": "AT",
            "contents": {"highlights": True},
        }

    @for_each(("kind", "category"), [("web", None), ("news", "news"), ("academic", "publication")])
    async def test_a_kind_of_sources_is_a_category(self, kind: str, category: str | None) -> None:
        """The web has no category."""
        assert (await self.sent(sources=(kind,))).json.get("category") == category

    async def test_an_age_limit_becomes_dates(self) -> None:
        """A range is sent unchanged, and an age becomes a range that ends today."""
        body = (await self.sent(freshness="2026-01-01..2026-01-31")).json
        assert body["startPublishedDate"] == "2026-01-01T00:00:00.000Z"
        assert body["endPublishedDate"] == "2026-01-31T23:59:59.000Z"
        body = (await self.sent(time_range="week")).json
        assert body["startPublishedDate"][:10] in {
            (datetime.now(UTC).date() - timedelta(days=days)).isoformat()
            for days in (7, 8)  # the day may change during the test
        }
        assert "endPublishedDate" not in body

    async def test_an_answer_is_read(self) -> None:
        """The first excerpt is the snippet, and all excerpts together are the summary. Missing fields are None."""
        first, second = (await self.outcome(self.answers[0])).results
        assert (first.snippet, first.score) == ("asyncio is a library to write concurrent code.", 0.42)
        assert first.summary == "asyncio is a library to write concurrent code.\n\nIt uses async/await."
        assert first.published_date == "2026-03-31T00:00:00.000Z"
        assert (second.title, second.snippet, second.published_date) == ("realpython.com", "", None)

    @for_each(
        ("fields", "words"),
        [
            ({"page": 2}, "first page"),
            ({"engines": ("google",)}, "engines"),
            ({"sources": ("documents",)}, "documents"),
        ],
    )
    async def test_unsupported_parts_are_listed(self, fields: dict[str, Any], words: str) -> None:
        """The search is sent without them."""
        (entry,) = (await self.outcome(self.answers[0], **fields)).degraded
        assert (entry.component, words in entry.reason) == ("exa", True)
