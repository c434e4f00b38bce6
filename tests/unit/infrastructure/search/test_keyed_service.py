"""What all search services with an API key share."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx2
import pytest
from tests.support.cases import for_each
from tests.support.loopback_upstream import json_reply, reply, serving

from modules.llm_platform.domain.dtos.freshness import Freshness
from modules.llm_platform.domain.dtos.sent import SentKind
from modules.llm_platform.domain.dtos.web_search_dtos import SourceKind, WebSearchRequest
from modules.llm_platform.domain.exceptions import WebSearchConfigError
from modules.llm_platform.infrastructure.http.client import Reply, Upstream
from modules.llm_platform.infrastructure.http.errors import Rule
from modules.llm_platform.infrastructure.http.untrusted_json import read_dict
from modules.llm_platform.infrastructure.search import keyed_service as keyed
from modules.llm_platform.infrastructure.search.exa import ExaWebSearchAdapter


@for_each(
    ("written", "iso"),
    [
        ("2026-03-31", "2026-03-31"),
        ("2026-03-31T10:00:00.000Z", "2026-03-31T10:00:00.000Z"),
        ("Mar 31, 2026", "2026-03-31"),
        ("March 1, 2026", "2026-03-01"),
        ("Tue, 31 Mar 2026 10:00:00 GMT", "2026-03-31T10:00:00+00:00"),
        ("Feb 31, 2026", None),
        ("Tue, 31", None),
        ("Tue, 31 Mar 99999999999999999999 10:00:00 GMT", None),
        ("2 weeks ago", None),
        ("", None),
        (None, None),
        (20260331, None),
    ],
)
def test_dates_of_results_become_iso(written: Any, iso: str | None) -> None:
    """Three ways of writing a date are read; any other one is no date, since a relative one is inexact."""
    assert keyed.make_iso_date(written) == iso


@for_each(
    ("language", "territory"),
    [("de-AT", "AT"), ("zh-Hant-TW", "TW"), ("zh-Hant", None), ("es-419", None), ("de", None), (None, None)],
)
def test_a_territory_of_a_language_tag(language: str | None, territory: str | None) -> None:
    """Two letters at its end."""
    assert keyed.get_territory(language) == territory


@for_each(
    ("sources", "searched"),
    [
        (("web",), ["web"]),
        (("news",), ["news"]),
        (("news", "web"), ["web", "news"]),
        (("academic", "news"), ["news", "academic"]),
        (("documents",), ["web"]),
        (("documents", "news"), ["web", "news"]),
    ],
)
def test_a_kind_that_a_service_lacks_is_searched_on_the_web(sources: Any, searched: list[str]) -> None:
    """Each other source kind is searched once, as a web search."""
    request = WebSearchRequest(query="python", sources=sources)
    assert list(ExaWebSearchAdapter("key")._choose_kinds(request)) == searched


class KeyInTheAddress(keyed.KeyedWebSearch):
    """A service that takes its key as a parameter of a GET."""

    name = "mojeek"
    label = "Mojeek"
    key_headers = ()
    key_parameter = "api_key"

    async def find(self, kind: SourceKind, request: WebSearchRequest, window: Freshness | None) -> keyed.FoundResults:
        return keyed.FoundResults(raw=self.read_answer(await self.get("/search", {"q": request.query})))


async def test_a_key_may_be_a_parameter_of_the_address() -> None:
    """It is sent with every GET, and no error shows it."""
    async with serving(json_reply({})) as upstream:
        await KeyInTheAddress("key-0123456789", upstream.url).search(WebSearchRequest(query="tea & milk"))
    assert upstream.requests[0].parameters == {"q": "tea & milk", "api_key": "key-0123456789"}
    async with serving(reply(401)) as upstream:
        with pytest.raises(WebSearchConfigError, match="check MOJEEK_API_KEY") as caught:
            await KeyInTheAddress("key-0123456789", upstream.url).search(WebSearchRequest(query="tea"))
    assert "key-0123456789" not in str(caught.value)


class ManyRequests(KeyInTheAddress):
    """A service that is asked three times for one search."""

    async def find(self, kind: SourceKind, request: WebSearchRequest, window: Freshness | None) -> keyed.FoundResults:
        for _ in range(3):
            answer = self.read_answer(await self.get("/search", {}))
        return keyed.FoundResults(raw=answer)


async def test_the_timeout_is_that_of_the_whole_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many requests it takes: each of them ends at the same moment."""
    ends: list[float | None] = []

    async def get(self: Upstream, path: str, deadline: float | None = None, *, sent_kind: SentKind | None) -> Reply:
        ends.append(deadline)
        return Reply(200, httpx2.Headers(), b"{}")

    monkeypatch.setattr(Upstream, "get", get)
    began = asyncio.get_running_loop().time()
    await ManyRequests("key-0123456789", "http://127.0.0.1:9", timeout=5).search(WebSearchRequest(query="python"))
    assert len(ends) == 3
    assert len(set(ends)) == 1
    assert ends[0] is not None
    assert ends[0] >= began + 5


class ErrorWithStatus200(KeyInTheAddress):
    """A service that reports a wrong key in the body of a successful reply."""

    def find_reported_error(self, answer: Mapping[str, Any]) -> Rule | None:
        is_wrong_key = read_dict(answer.get("response")).get("status") == "Invalid API key"
        return Rule("config", "does not accept the key: check MOJEEK_API_KEY") if is_wrong_key else None


async def test_an_error_with_status_200_is_an_error() -> None:
    """A wrong key is never an empty list of results, and a result about wrong keys is no error."""
    async with serving(json_reply({"response": {"status": "Invalid API key"}})) as server:
        adapter = ErrorWithStatus200("secret-0123456789", server.url)
        with pytest.raises(WebSearchConfigError, match="MOJEEK_API_KEY"):
            await adapter.search(WebSearchRequest(query="python"))
    async with serving(json_reply({"response": {"status": "OK", "results": [{"title": "Invalid API key"}]}})) as server:
        assert await ErrorWithStatus200("secret-0123456789", server.url).search(WebSearchRequest(query="python"))
