"""The public search service: answers, one family of errors, and a log without texts or secrets."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any

import pytest
from tests.support.cases import for_each

from modules.llm_platform.application.services.web_search_service import WebSearchService
from modules.llm_platform.domain.dtos.web_search_dtos import (
    MAX_QUERY_CHARS,
    WebSearchRequest,
    WebSearchResponse,
    WebSearchResultItem,
)
from modules.llm_platform.domain.exceptions import WebSearchBlockedError, WebSearchConnectionError, WebSearchError
from modules.llm_platform.domain.ports.web_search import MAX_CONCURRENT_SEARCHES
from modules.llm_platform.testing.waiting import START_TIMEOUT_S, becomes_true
from modules.llm_platform.testing.web_search import FakeWebSearch, result_item

QUERY = "a private question"
FOUND = [result_item(1), result_item(2)]


class Broken(FakeWebSearch):
    """A provider with a defect."""

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        raise KeyError("results")


def search_request(query: str = QUERY) -> WebSearchRequest:
    return WebSearchRequest(query=query)


async def test_a_search_is_logged_without_its_words(caplog: pytest.LogCaptureFixture) -> None:
    """Provider, duration, number of results and length of the query; never the query."""
    times = iter((1.0, 1.25))
    caplog.set_level(logging.INFO)
    answer = await WebSearchService(FakeWebSearch(FOUND), clock=lambda: next(times)).search(search_request())
    assert list(answer.results) == FOUND
    (record,) = caplog.records
    told = vars(record)
    assert (told["provider"], told["duration_ms"], told["count"], told["query_chars"]) == ("fake", 250.0, 2, len(QUERY))
    assert QUERY not in str(told)


async def test_an_error_is_logged_and_passes_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    """Errors of the family are decided upon already: no traceback, and the very object is raised."""
    error = WebSearchBlockedError(retry_after_s=5)
    with pytest.raises(WebSearchBlockedError) as caught:
        await WebSearchService(FakeWebSearch(error)).search(search_request())
    assert caught.value is error
    (record,) = caplog.records
    assert (record.levelno, vars(record)["error"], record.exc_info) == (logging.WARNING, "web_search_blocked", None)
    assert QUERY not in caplog.text


async def test_a_defect_of_a_provider_is_an_error_of_the_family(caplog: pytest.LogCaptureFixture) -> None:
    """Callers see one family; the cause is chained and in the log."""
    with pytest.raises(WebSearchError) as caught:
        await WebSearchService(Broken()).search(search_request())
    assert isinstance(caught.value.__cause__, KeyError)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert "KeyError" in caplog.text


async def test_a_cancelled_error_of_a_provider_is_an_error() -> None:
    """A CancelledError raised by the provider itself is a defect, and does not cancel the caller."""

    class Cancelled(FakeWebSearch):
        async def search(self, request: WebSearchRequest) -> WebSearchResponse:
            raise asyncio.CancelledError

    service = WebSearchService(Cancelled())
    with pytest.raises(WebSearchError):
        await service.search(search_request())
    [error] = await service.search_multi([search_request()])
    assert isinstance(error, WebSearchError)


@for_each("wrong", [QUERY, None, {"query": QUERY}])
async def test_an_invalid_request_is_refused_with_the_remedy(wrong: Any) -> None:
    """A caller that passes a string is told which type to pass."""
    service = WebSearchService(FakeWebSearch())
    with pytest.raises(TypeError, match=r"pass WebSearchRequest\(query=…\)"):
        await service.search(wrong)
    with pytest.raises(TypeError, match=r"pass WebSearchRequest\(query=…\)"):
        await service.search_multi([search_request(), wrong])


async def test_two_event_loops_cannot_search_at_once() -> None:
    """A second event loop gets an error instead of waiting for ever.

    It can search after the first one's searches have ended.
    """
    provider = FakeWebSearch(FOUND, delay_s={"slow": 60})
    service = WebSearchService(provider)
    first = asyncio.create_task(service.search(search_request("slow")))
    assert await becomes_true(lambda: provider.running == 1, START_TIMEOUT_S)

    def search_in_another_loop() -> WebSearchResponse:
        return asyncio.run(service.search(search_request()))

    with pytest.raises(RuntimeError, match="build one platform for each event loop"):
        await asyncio.to_thread(search_in_another_loop)
    first.cancel()
    with suppress(asyncio.CancelledError):
        await first
    assert len((await asyncio.to_thread(search_in_another_loop)).results) == len(FOUND)


async def test_cancelling_is_no_error() -> None:
    """It passes through, and the provider stops."""
    provider = FakeWebSearch(delay_s=60)
    search = asyncio.create_task(WebSearchService(provider).search(search_request()))
    await asyncio.sleep(0.01)
    search.cancel()
    with pytest.raises(asyncio.CancelledError):
        await search
    assert provider.running == 0


async def test_many_searches_answer_in_order_each_for_itself() -> None:
    """One answer or error for each request; one that fails harms no other, whatever takes longest."""
    script = {"a": FOUND, "b": WebSearchError("no"), "c": FOUND[:1]}
    provider = FakeWebSearch(script, delay_s={"a": 0.05, "c": 0.01})
    first, second, third, fourth = await WebSearchService(provider).search_multi(
        [search_request(q) for q in ("a", "b", "c", "d")]
    )
    assert isinstance(first, WebSearchResponse)
    assert list(first.results) == FOUND
    assert isinstance(second, WebSearchError)
    assert isinstance(third, WebSearchResponse)
    assert third.query == "c"
    assert isinstance(fourth, WebSearchResponse)
    assert fourth.results == ()
    defects = await WebSearchService(Broken()).search_multi([search_request()])
    assert isinstance(defects[0], WebSearchError)
    assert await WebSearchService(provider).search_multi([]) == []


async def test_many_searches_are_bounded() -> None:
    """A few at a time, and all of them in the end."""
    most = 0

    class Counting(FakeWebSearch):
        async def search(self, request: WebSearchRequest) -> WebSearchResponse:
            nonlocal most
            most = max(most, self.running + 1)
            return await super().search(request)

    answers = await WebSearchService(Counting(delay_s=0.005)).search_multi([search_request(str(n)) for n in range(20)])
    assert len(answers) == 20
    assert most == MAX_CONCURRENT_SEARCHES


async def test_cancelling_cancels_all_of_many() -> None:
    """All searches are cancelled."""
    provider = FakeWebSearch(delay_s=60)
    search = asyncio.create_task(WebSearchService(provider).search_multi([search_request("a"), search_request("b")]))
    assert await becomes_true(lambda: provider.running == 2, START_TIMEOUT_S)
    search.cancel()
    with pytest.raises(asyncio.CancelledError):
        await search
    assert provider.running == 0


@pytest.mark.parametrize(("log_queries", "expected"), [(False, None), (True, QUERY)])
async def test_queries_are_logged_only_with_log_queries(
    caplog: pytest.LogCaptureFixture, log_queries: bool, expected: str | None
) -> None:
    """LOG_QUERIES: off, the log knows a query's length alone; on, its text, also of a search that failed."""
    caplog.set_level(logging.INFO)
    for outcome in ([result_item(1)], WebSearchConnectionError("refused")):
        caplog.clear()
        service = WebSearchService(FakeWebSearch(outcome), log_queries=log_queries)
        with suppress(WebSearchConnectionError):
            await service.search(WebSearchRequest(query=QUERY))
        assert [getattr(record, "query", None) for record in caplog.records] == [expected]
        assert (QUERY in repr([vars(record) for record in caplog.records])) is log_queries


async def test_texts_of_results_have_no_control_characters() -> None:
    """Terminal control characters and bidirectional overrides are removed. Tabs, line ends and other scripts are kept."""
    found = [
        WebSearchResultItem(
            title="A \x1b[2J\x07\x9b31m\u202eevil\u2066 \x00title", url="https://example.org/1", snippet="one\x1b\n\ttwo",
            site_name="ex\x85ample", summary="\u2069s",
        ),
        WebSearchResultItem(title="می\u200cخواهم Grüße", url="https://example.org/2"),
    ]  # fmt: skip
    first, second = (await WebSearchService(FakeWebSearch(found)).search(search_request())).results
    assert (first.title, first.snippet, first.site_name, first.summary) == (
        "A [2J31mevil title",
        "one\n\ttwo",
        "example",
        "s",
    )
    assert second == found[1]


async def test_every_text_of_a_result_can_be_encoded() -> None:
    """A file provider may return names that are not valid UTF-8 and cannot be encoded as JSON."""
    half = "caf\udce9"
    found = WebSearchResponse(
        query=QUERY,
        provider="fake",
        results=(
            WebSearchResultItem(title=half, url="https://example.org/1", snippet=half, summary=half, source=half),
        ),
        suggestions=(half,),
        correction=half,
    )
    answer = await WebSearchService(FakeWebSearch(found)).search(search_request())
    assert answer.model_dump_json().count("caf?") == 6


async def test_addresses_of_results_have_no_credentials() -> None:
    """A user name or password in an address is left out; an `@` elsewhere stays."""
    addresses = {
        "https://user:pw@example.org/a?b=c@d#e": "https://example.org/a?b=c@d#e",
        "http://user@example.org:8080": "http://example.org:8080",
        "https://:pw@example.org?q=1": "https://example.org?q=1",
        "https://example.org/@user": "https://example.org/@user",
        "doc:notes@home.md": "doc:notes@home.md",
    }
    found = [WebSearchResultItem(title="A page", url=url) for url in addresses]
    answer = await WebSearchService(FakeWebSearch(found)).search(search_request())
    assert [item.url for item in answer.results] == list(addresses.values())


async def test_suggestions_are_few_short_lines() -> None:
    """What engines suggest is bounded and has no control characters."""
    hints = ("one\x1b\n two", *("x" * 9000 for _ in range(99)))
    found = WebSearchResponse(query=QUERY, provider="fake", suggestions=hints, correction="a\u202e\nb")
    answer = await WebSearchService(FakeWebSearch(found)).search(search_request())
    assert (answer.suggestions[0], answer.correction) == ("one two", "a b")
    assert len(answer.suggestions) <= 20
    assert max(map(len, answer.suggestions)) <= MAX_QUERY_CHARS
