"""The scripted provider does what it is told, and the contract notices a provider that breaks a promise."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.exceptions import WebSearchError
from modules.llm_platform.testing.web_search import (
    FakeWebSearch,
    Looking,
    Outcome,
    Slow,
    WebSearchProviderContract,
    result_item,
)

REQUEST = WebSearchRequest(query="q")
FOUND = [result_item(number) for number in range(1, 5)]


@pytest.mark.parametrize(
    ("script", "expected"),
    [((), []), (FOUND, FOUND), ({"q": FOUND[:1]}, FOUND[:1]), ({"other": FOUND}, [])],
)
async def test_it_answers_by_script(script: Any, expected: list[Any]) -> None:
    """One outcome for all, or one for each query; it remembers what it was asked."""
    fake = FakeWebSearch(script)
    assert list((await fake.search(REQUEST)).results) == expected
    assert fake.requests == [REQUEST]


@pytest.mark.parametrize("outcome", [WebSearchError("down"), {"q": WebSearchError("down")}])
async def test_it_fails_by_script(outcome: Outcome) -> None:
    """Errors are raised; another query is not concerned."""
    fake = FakeWebSearch(outcome, otherwise=FOUND)
    with pytest.raises(WebSearchError, match="down"):
        await fake.search(REQUEST)


async def test_it_gives_a_whole_response_as_it_is() -> None:
    """For tests of what stands around the results."""
    response = WebSearchResponse(query="q", correction="k", provider="else")
    assert await FakeWebSearch(response).search(REQUEST) is response


async def test_it_takes_its_time() -> None:
    """For all queries or for one, and cancelling ends it."""
    fake = FakeWebSearch(FOUND, delay_s={"slow": 60})
    assert (await fake.search(REQUEST)).results
    slow = asyncio.create_task(fake.search(WebSearchRequest(query="slow")))
    await asyncio.sleep(0)
    assert fake.running == 1
    slow.cancel()
    await asyncio.wait([slow])
    assert fake.running == 0


Change = Callable[[WebSearchResponse], WebSearchResponse]


class Lying(FakeWebSearch):
    """Breaks promises: ignores `count` and bad freshness, spoils answers, swallows failures and cancelling."""

    def __init__(self, spoil: Change = lambda answer: answer) -> None:
        super().__init__(FOUND * 3)
        self.spoil = spoil

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        answer = await super().search(request.with_(count=50, freshness=None))
        return self.spoil(answer)


class Deaf(FakeWebSearch):
    """Does not stop when it is cancelled."""

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        self.running = 1
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0.3)
        return WebSearchResponse(query=request.query)


def spoiled(**changes: Any) -> Lying:
    return Lying(lambda answer: answer.model_copy(update=changes))


CONTRACT = WebSearchProviderContract()
BAD_ADDRESS = tuple(item.model_copy(update={"url": "https://example.org/a b"}) for item in FOUND)
BROKEN: dict[str, Callable[[], Any]] = {
    "finds too little": lambda: CONTRACT.test_finding_something_names_who_found_it(spoiled(results=()), REQUEST),
    "hides its name": lambda: CONTRACT.test_finding_something_names_who_found_it(spoiled(provider=""), REQUEST),
    "invents results": lambda: CONTRACT.test_finding_nothing_is_an_answer(Looking(Lying(), REQUEST)),
    "swallows failures": lambda: CONTRACT.test_not_being_able_to_look_is_an_error(Looking(FakeWebSearch(), REQUEST)),
    "ignores count": lambda: CONTRACT.test_at_most_count_best_first(Lying(), REQUEST),
    "bad addresses": lambda: CONTRACT.test_every_address_can_be_opened(spoiled(results=BAD_ADDRESS), REQUEST),
    "mixes answers": lambda: CONTRACT.test_searches_side_by_side_do_not_disturb_each_other(
        spoiled(query="other"), REQUEST, Looking(Lying(), REQUEST)
    ),
    "any freshness": lambda: CONTRACT.test_a_bad_freshness_is_the_callers_mistake(Lying(), REQUEST),
    "deaf": lambda: CONTRACT.test_cancelling_leaves_no_connection_behind(Slow(deaf := Deaf(), lambda: deaf.running), REQUEST),
}


@pytest.mark.parametrize("lie", list(BROKEN))
async def test_the_contract_notices(lie: str) -> None:
    """Each promise that is broken fails its law."""
    with pytest.raises(AssertionError):
        await BROKEN[lie]()
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
        await asyncio.wait([task])
