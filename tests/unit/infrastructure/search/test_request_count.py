"""The requests that searches make of their providers: `metadata.searches` of an answer."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from tests.support.guards import cached_search, search_chain

from modules.llm_platform.application.research.find.files import FilesSearch, OpenedFiles
from modules.llm_platform.domain.dtos.web_search_dtos import DOCUMENTS, WebSearchRequest
from modules.llm_platform.domain.exceptions import WebSearchBlockedError, WebSearchConnectionError, WebSearchError
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.domain.search.request_count import RequestCount
from modules.llm_platform.infrastructure.cache.memory import MemoryCache
from modules.llm_platform.infrastructure.limits.upstream_limits import RetryBudget
from modules.llm_platform.testing.web_search import FakeWebSearch, result_item
from shared.exceptions import AppException

REQUEST = WebSearchRequest(query="q")
BOTH = WebSearchRequest(query="q", sources=("web", DOCUMENTS))
FOUND = [result_item(1)]


async def count(provider: IWebSearchProvider, request: WebSearchRequest = REQUEST) -> int:
    requests = RequestCount()
    with suppress(AppException):
        await requests.search(provider, request)
    return requests.requests


async def test_each_provider_that_a_failover_asks_is_a_request() -> None:
    """The last provider counts too, even if it fails."""
    failing = [FakeWebSearch(WebSearchError(), name=name) for name in ("a", "b")]
    assert await count(search_chain(*failing, FakeWebSearch(FOUND, name="c"))) == 3
    assert await count(search_chain(*failing)) == 2


async def test_a_second_try_is_a_request() -> None:
    provider = FakeWebSearch(WebSearchConnectionError("reset"))
    chain = search_chain(provider, retries=RetryBudget(), sleep=lambda _: asyncio.sleep(0))
    assert await count(chain) == len(provider.requests) == 2


async def test_a_provider_that_a_pause_protects_is_not_asked() -> None:
    chain = search_chain(FakeWebSearch(WebSearchBlockedError("wait", retry_after_s=60), name="a"))
    assert await count(chain) == 1
    assert await count(chain) == 0


async def test_only_the_part_that_no_cache_answers_is_a_request() -> None:
    """Documents are not cached, so they are asked again."""
    chain = cached_search(FakeWebSearch(FOUND, name="a"), MemoryCache(9), 60.0)
    assert [await count(chain), await count(chain)] == [1, 0]
    chain._documents = FakeWebSearch([result_item(2)], name=DOCUMENTS)
    assert await count(chain, BOTH) == 1


async def test_a_search_of_several_callers_counts_for_the_first() -> None:
    chain = search_chain(FakeWebSearch(FOUND, delay_s=0.01))
    assert sorted(await asyncio.gather(count(chain), count(chain), count(chain))) == [0, 0, 1]


async def test_a_search_that_is_given_up_was_sent() -> None:
    requests = RequestCount()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await requests.search(search_chain(FakeWebSearch(FOUND, delay_s=60.0)), REQUEST)
    assert requests.requests == 1


async def test_files_are_a_provider_beside_the_others() -> None:
    async def no_beginnings() -> tuple[()]:
        return ()

    files = OpenedFiles(FakeWebSearch(FOUND), no_beginnings, None, ())  # type: ignore[arg-type]
    failing = search_chain(FakeWebSearch(WebSearchError(), name="a"), FakeWebSearch(FOUND, name="b"))
    assert await count(FilesSearch(files, None)) == 1
    assert await count(FilesSearch(files, FakeWebSearch(FOUND))) == 2
    assert await count(FilesSearch(files, failing)) == 3
