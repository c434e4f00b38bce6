"""Who is asked for which kind of source."""

from __future__ import annotations

import asyncio

import pytest

from modules.llm_platform.domain.dtos.web_search_dtos import SourceKind, WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.exceptions import (
    WebSearchConfigError,
    WebSearchConnectionError,
    WebSearchError,
    WebSearchRequestError,
)
from modules.llm_platform.infrastructure.policies.failover import FailoverWebSearch
from modules.llm_platform.infrastructure.policies.routing import BySourceWebSearch
from modules.llm_platform.testing.patience import STARTS_WITHIN_S, becomes
from modules.llm_platform.testing.web_search import FakeWebSearch, Outcome, result_item

WEB = [result_item(number, "web") for number in range(1, 7)]
DOCS = [result_item(number, "docs") for number in range(1, 7)]


def ask(*sources: SourceKind, count: int = 10) -> WebSearchRequest:
    return WebSearchRequest(query="q", sources=sources, count=count)


def pair(web: Outcome = WEB, documents: Outcome = DOCS) -> tuple[BySourceWebSearch, FakeWebSearch, FakeWebSearch]:
    one, two = FakeWebSearch(web, name="searxng"), FakeWebSearch(documents, name="documents")
    return BySourceWebSearch(one, two), one, two


async def test_each_kind_goes_where_it_is_served() -> None:
    """Documents to the folder, the rest to the web, untouched."""
    policy, web, documents = pair()
    assert (await policy.search(ask("web", "news"))).provider == "searxng"
    assert (await policy.search(ask("documents"))).provider == "documents"
    assert [request.sources for request in web.requests] == [("web", "news")]
    assert [request.sources for request in documents.requests] == [("documents",)]


async def test_both_are_asked_at_the_same_time_and_fused() -> None:
    """Ranks alternate, each side gets its own kinds, the number asked for is kept."""
    one = FakeWebSearch(WEB, name="searxng", delay_s=0.3)
    two = FakeWebSearch(DOCS, name="documents", delay_s=0.3)
    search = asyncio.create_task(BySourceWebSearch(one, two).search(ask("web", "documents", count=5)))
    assert await becomes(lambda: (one.running, two.running) == (1, 1), STARTS_WITHIN_S)
    answer = await search
    assert [item.title for item in answer.results] == ["Web 1", "Docs 1", "Web 2", "Docs 2", "Web 3"]
    assert answer.provider == "searxng+documents"
    assert (one.requests[0].sources, two.requests[0].sources) == (("web",), ("documents",))


async def test_the_same_page_of_both_is_one_result_and_stands_higher() -> None:
    """Addresses are compared in their canonical form."""
    shared = WEB[2].model_copy(update={"url": "https://www.example.org/shared/?utm_source=x"})
    other = DOCS[3].model_copy(update={"url": "http://example.org/shared"})
    policy, _, _ = pair([*WEB[:2], shared], [*DOCS[:3], other])
    answer = await policy.search(ask("web", "documents"))
    assert answer.results[0] in (shared, other)
    assert len(answer.results) == 6


@pytest.mark.parametrize("failing", ["searxng", "documents"])
async def test_one_side_that_fails_is_told(failing: str) -> None:
    """The other side's answer is an answer."""
    error = WebSearchConnectionError("gone")
    policy, _, _ = pair(error, DOCS) if failing == "searxng" else pair(WEB, error)
    answer = await policy.search(ask("web", "documents"))
    assert len(answer.results) == 6
    assert [(entry.component, entry.reason) for entry in answer.degraded] == [(failing, "web_search_connection: gone")]


async def test_both_fail() -> None:
    """The web's error is raised."""
    policy, _, _ = pair(WebSearchConnectionError("web"), WebSearchError("folder"))
    with pytest.raises(WebSearchConnectionError, match="web"):
        await policy.search(ask("web", "documents"))


async def test_the_callers_mistake_is_raised() -> None:
    """Also when the other side did not notice it."""
    policy, _, _ = pair(WebSearchRequestError("bad freshness"), DOCS)
    with pytest.raises(WebSearchRequestError):
        await policy.search(ask("web", "documents"))


async def test_a_defect_is_not_hidden() -> None:
    """What is no error of ours passes through."""

    class Broken(FakeWebSearch):
        async def search(self, request: WebSearchRequest) -> WebSearchResponse:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await BySourceWebSearch(FakeWebSearch(WEB), Broken()).search(ask("web", "documents"))


async def test_cancelling_stops_both() -> None:
    """Neither goes on in the dark."""
    one, two = FakeWebSearch(WEB, delay_s=60), FakeWebSearch(DOCS, delay_s=60)
    search = asyncio.create_task(BySourceWebSearch(one, two).search(ask("web", "documents")))
    await asyncio.sleep(0.01)
    search.cancel()
    with pytest.raises(asyncio.CancelledError):
        await search
    assert (one.running, two.running) == (0, 0)


async def test_documents_that_are_not_configured() -> None:
    """Alone that is an error that names the setting; beside the web it is told."""
    web = FakeWebSearch(WEB, name="searxng")
    policy = BySourceWebSearch(web, None)
    with pytest.raises(WebSearchConfigError, match="DOCUMENTS_DIR"):
        await policy.search(ask("documents"))
    answer = await policy.search(ask("web", "documents"))
    assert len(answer.results) == 6
    assert [entry.component for entry in answer.degraded] == ["documents"]
    assert "DOCUMENTS_DIR" in answer.degraded[0].reason
    assert web.requests[0].sources == ("web",)


async def test_documents_serve_the_web_where_there_is_none() -> None:
    """A folder alone answers every question."""
    documents = FakeWebSearch(DOCS, name="documents")
    policy = BySourceWebSearch(None, documents)
    for sources in (("web",), ("web", "documents"), ("documents",)):
        assert (await policy.search(ask(*sources))).provider == "documents"


async def test_nothing_is_configured() -> None:
    """The error names what could be set."""
    for sources in (("web",), ("documents",)):
        with pytest.raises(WebSearchConfigError, match="DOCUMENTS_DIR"):
            await BySourceWebSearch(None, None).search(ask(*sources))


async def test_a_web_that_failed_over_to_documents_is_named_once() -> None:
    """Where both sides were answered by the same folder, it stands once in `provider`, and each document once."""
    documents = FakeWebSearch([result_item(1)], name="documents")
    web = FailoverWebSearch([FakeWebSearch(WebSearchConnectionError(), name="searxng"), documents])
    request = WebSearchRequest(query="result", sources=("web", "documents"))
    answer = await BySourceWebSearch(web, documents).search(request)
    assert (answer.provider, answer.results) == ("documents", (result_item(1),))
    assert [entry.component for entry in answer.degraded] == ["searxng"]
