"""Jina's search fulfils the contract of the port, with answers written after its reference and its public server code."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from tests.contracts.search_row_contract import KeyedSearchContract
from tests.support.cases import for_each
from tests.support.loopback_upstream import Handler, json_reply

from modules.llm_platform.domain.exceptions import WebSearchBlockedError, WebSearchError
from modules.llm_platform.infrastructure.search.jina import JinaWebSearchAdapter
from shared.exceptions import AppException

KEY = "jina_0123456789"
FOUND = {
    "code": 200,
    "status": 20000,
    "data": [
        {
            "title": "asyncio — Asynchronous I/O",
            "url": "https://docs.python.org/3/library/asyncio.html",
            "description": "asyncio is a library to write concurrent code.",
            "date": "Mar 31, 2026",
            "content": "",
            "usage": {"tokens": 1000},
        },
        {"title": "Async IO", "url": "https://realpython.com/async-io/", "description": "", "content": ""},
    ],
    "meta": {"usage": {"tokens": 10000}},
}
NOTHING = {
    "code": 422,
    "name": "AssertionFailureError",
    "status": 42206,
    "message": "No search results available for query zzqxvjk",
}


class TestJina(KeyedSearchContract):
    found = "python asyncio"
    answers = (json_reply(FOUND), json_reply(NOTHING, status=422))

    def adapter(self, url: str, client: httpx2.AsyncClient) -> JinaWebSearchAdapter:
        return JinaWebSearchAdapter(KEY, url, client=client)

    @staticmethod
    def one(url: str) -> Any:
        return {"data": [{"title": "One", "url": url, "description": ""}]}

    async def test_the_request_is_jinas(self) -> None:
        """The request is a JSON POST with a bearer key, without page contents.

        Domains become operators, and a language becomes `hl` and `gl`.
        """
        request = await self.sent(count=30, page=2, domains=("python.org",), language="de-AT", sources=("news",))
        assert (request.method, request.path, request.headers["authorization"]) == ("POST", "/", f"Bearer {KEY}")
        assert (request.headers["x-respond-with"], request.headers["accept"]) == ("no-content", "application/json")
        assert request.json == {
            "q": "python site:python.org",
            "type": "news",
            "num": 20,
            "page": 2,
            "hl": "de",
            "gl": "at",
        }

    async def test_an_answer_is_read(self) -> None:
        """An absolute date becomes ISO 8601."""
        first, second = (await self.outcome(self.answers[0])).results
        assert (first.snippet, first.published_date) == ("asyncio is a library to write concurrent code.", "2026-03-31")
        assert (second.title, second.published_date) == ("Async IO", None)

    @for_each(
        ("handler", "expected", "words"),
        [
            (json_reply({"code": 402, "status": 40203}, status=402), WebSearchBlockedError, "top it up"),
            (json_reply({"code": 422, "message": "No content"}, status=422), WebSearchError, "422"),
            (json_reply({"code": 200, "data": None}), WebSearchError, "without results"),
        ],
    )
    async def test_refusals(self, handler: Handler, expected: type[AppException], words: str) -> None:
        """A 422 is an empty result only if its text says so."""
        with pytest.raises(AppException, match=words) as caught:
            await self.outcome(handler)
        assert type(caught.value) is expected

    @for_each(
        ("fields", "words"),
        [
            ({"count": 30}, "at most 20"),
            ({"time_range": "week"}, "age"),
            ({"engines": ("google",)}, "engines"),
            ({"sources": ("academic",)}, "academic"),
        ],
    )
    async def test_unsupported_parts_are_listed(self, fields: dict[str, Any], words: str) -> None:
        """The search is sent without them."""
        (entry,) = (await self.outcome(self.answers[0], **fields)).degraded
        assert (entry.component, words in entry.reason) == ("jina", True)
