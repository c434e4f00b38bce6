"""Routing of searches by source kind."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.guards import search_chain

from modules.llm_platform.domain.dtos.web_search_dtos import SourceKind, WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.exceptions import (
    WebSearchConfigError,
    WebSearchConnectionError,
    WebSearchError,
    WebSearchRequestError,
)
from modules.llm_platform.infrastructure.search.web_search_chain import WebSearchChain
from modules.llm_platform.testing.waiting import START_TIMEOUT_S, becomes_true
from modules.llm_platform.testing.web_search import FakeWebSearch, Outcome, result_item

WEB = [result_item(number, "web") for number in range(1, 7)]
DOCS = [result_item(number, "docs") for number in range(1, 7)]


def search_request(*sources: SourceKind, count: int = 10) -> WebSearchRequest:
    return WebSearchRequest(query="q", sources=sources, count=count)


def pair(web: Outcome = WEB, documents: Outcome = DOCS) -> tuple[WebSearchChain, FakeWebSearch, FakeWebSearch]:
    one, two = FakeWebSearch(web, name="searxng"), FakeWebSearch(documents, name="documents")
    return search_chain(one, documents=two), one, two


async def test_each_kind_is_sent_to_its_provider() -> None:
    """Documents to the folder, the rest to the web; the answer is unchanged."""
    policy, web, documents = pair()
    assert (await policy.search(search_request("web", "news"))).provider == "searxng"
    assert (await policy.search(search_request("documents"))).provider == "documents"
    assert [request.sources for request in web.requests] == [("web", "news")]
    assert [request.sources for request in documents.requests] == [("documents",)]


async def test_both_are_searched_concurrently_and_fused() -> None:
    """Each provider gets its kinds; ranks alternate up to `count`."""
    one = FakeWebSearch(WEB, name="searxng", delay_s=0.3)
    two = FakeWebSearch(DOCS, name="documents", delay_s=0.3)
    search = asyncio.create_task(search_chain(one, documents=two).search(search_request("web", "documents", count=5)))
    assert await becomes_true(lambda: (one.running, two.running) == (1, 1), START_TIMEOUT_S)
    answer = await search
    assert [item.title for item in answer.results] == ["Web 1", "Docs 1", "Web 2", "Docs 2", "Web 3"]
    assert answer.provider == "searxng+documents"
    assert (one.requests[0].sources, two.requests[0].sources) == (("web",), ("documents",))


async def test_a_page_of_both_is_one_result_with_a_higher_rank() -> None:
    """Addresses are compared in their canonical form."""
    shared = WEB[2].model_copy(update={"url": "https://www.example.org/shared/?utm_source=x"})
    other = DOCS[3].model_copy(update={"url": "http://example.org/shared"})
    policy, _, _ = pair([*WEB[:2], shared], [*DOCS[:3], other])
    answer = await policy.search(search_request("web", "documents"))
    assert answer.results[0] in (shared, other)
    assert len(answer.results) == 6


@pytest.mark.parametrize("failing", ["searxng", "documents"])
async def test_a_failed_provider_is_listed(failing: str) -> None:
    """The answer of the other provider is returned."""
    error = WebSearchConnectionError("gone")
    policy, _, _ = pair(error, DOCS) if failing == "searxng" else pair(WEB, error)
    answer = await policy.search(search_request("web", "documents"))
    assert len(answer.results) == 6
    assert [(entry.component, entry.reason) for entry in answer.degraded] == [(failing, "web_search_connection: gone")]


async def test_the_error_of_the_web_is_raised_when_both_fail() -> None:
    """It says more about the question."""
    policy, _, _ = pair(WebSearchConnectionError("web"), WebSearchError("folder"))
    with pytest.raises(WebSearchConnectionError, match="web"):
        await policy.search(search_request("web", "documents"))


async def test_a_request_error_is_raised() -> None:
    """Also if the other provider accepted the request."""
    policy, _, _ = pair(WebSearchRequestError("bad freshness"), DOCS)
    with pytest.raises(WebSearchRequestError):
        await policy.search(search_request("web", "documents"))


async def test_other_exceptions_are_raised() -> None:
    """A bug is not listed in `degraded`."""

    class Broken(FakeWebSearch):
        async def search(self, request: WebSearchRequest) -> WebSearchResponse:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await search_chain(FakeWebSearch(WEB), documents=Broken()).search(search_request("web", "documents"))


async def test_cancelling_stops_both() -> None:
    """Neither provider continues."""
    one, two = FakeWebSearch(WEB, delay_s=60), FakeWebSearch(DOCS, delay_s=60)
    search = asyncio.create_task(search_chain(one, documents=two).search(search_request("web", "documents")))
    await asyncio.sleep(0.01)
    search.cancel()
    with pytest.raises(asyncio.CancelledError):
        await search
    assert (one.running, two.running) == (0, 0)


async def test_missing_documents_are_an_error_or_listed() -> None:
    """If only documents were requested, it is an error. With the web it is an entry in `degraded`."""
    web = FakeWebSearch(WEB, name="searxng")
    policy = search_chain(web)
    with pytest.raises(WebSearchConfigError, match="DOCUMENTS_DIR"):
        await policy.search(search_request("documents"))
    answer = await policy.search(search_request("web", "documents"))
    assert len(answer.results) == 6
    assert [entry.component for entry in answer.degraded] == ["documents"]
    assert "DOCUMENTS_DIR" in answer.degraded[0].reason
    assert web.requests[0].sources == ("web",)


async def test_documents_serve_the_web_without_a_web_provider() -> None:
    """A folder alone answers every search. A kind of sources that the request names and that is missing is listed."""
    documents = FakeWebSearch(DOCS, name="documents")
    policy = search_chain(documents=documents)
    for sources in (("web",), ("web", "documents"), ("news",)):
        answer = await policy.search(search_request(*sources))
        assert answer.provider == "documents"
        assert [entry.component for entry in answer.degraded] == [sources[0]]
        assert "set SEARXNG_URL" in answer.degraded[0].reason
    for request in (search_request("documents"), WebSearchRequest(query="result")):
        answer = await policy.search(request)
        assert (answer.provider, answer.degraded) == ("documents", ())


async def test_no_provider_is_a_config_error() -> None:
    """It names the settings."""
    for sources in (("web",), ("documents",)):
        with pytest.raises(WebSearchConfigError, match="DOCUMENTS_DIR"):
            await search_chain().search(search_request(*sources))


async def test_documents_reached_twice_are_named_once() -> None:
    """By failover and by source kind: one name in `provider`, one result for each document."""
    documents = FakeWebSearch([result_item(1)], name="documents")
    away = FakeWebSearch(WebSearchConnectionError(), name="searxng")
    request = WebSearchRequest(query="result", sources=("web", "documents"))
    answer = await search_chain(away, documents, documents=documents).search(request)
    assert (answer.provider, answer.results) == ("documents", (result_item(1),))
    assert [entry.component for entry in answer.degraded] == ["searxng"]
