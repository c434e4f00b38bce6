"""Identical calls at the same time are one call of the service."""

from __future__ import annotations

import asyncio

import pytest
from tests.fakes.llm_contract import question
from tests.fakes.synthesizer import FakeSynthesizer
from tests.support.guards import guarded_search

from modules.llm_platform.application.research.write.shared_synthesizer import SharedSynthesizer
from modules.llm_platform.domain.concurrency.deadline import current_deadline, deadline_at
from modules.llm_platform.domain.dtos.answer_dtos import Synthesis, SynthesisPart, SynthesisToken
from modules.llm_platform.domain.dtos.llm_dtos import Spending
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.exceptions import WebSearchConnectionError
from modules.llm_platform.domain.ports.synthesizer import SynthesisRequest
from modules.llm_platform.infrastructure.models.single_flight import SingleFlightLLM
from modules.llm_platform.infrastructure.search.web_search_chain import WebSearchChain
from modules.llm_platform.testing import FakeLLM, FakeWebSearch, result_item

CALLERS = 500
REQUEST = WebSearchRequest(query="lighthouses")
SOURCE = Source(index=1, title="Pumps", url="https://example.org/p", text="A pump moves water.")
ORDER = SynthesisRequest("What?", (SOURCE,), "en")


class GatedSearch(FakeWebSearch):
    """Answers when the test opens the gate."""

    def __init__(self, outcome: object = None) -> None:
        super().__init__(outcome or [result_item(1)])  # type: ignore[arg-type]
        self.gate = asyncio.Event()
        self.open_calls = 0

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        self.open_calls += 1
        try:
            await self.gate.wait()
            return await super().search(request)
        finally:
            self.open_calls -= 1


async def started(*tasks: asyncio.Task[object]) -> None:
    """Let the tasks run until they wait."""
    for _ in range(5):
        await asyncio.sleep(0)


def searching(policy: WebSearchChain, count: int) -> list[asyncio.Task[WebSearchResponse]]:
    return [asyncio.create_task(policy.search(REQUEST)) for _ in range(count)]


class TestSearches:
    async def test_identical_searches_are_one_call(self) -> None:
        """500 callers, one request; all but the first are marked as cached, so that searches are counted once."""
        fake = GatedSearch()
        policy = guarded_search(fake)
        tasks = searching(policy, CALLERS)
        await started()
        fake.gate.set()
        answers = await asyncio.gather(*tasks)
        assert len(fake.requests) == 1
        assert [answer.cached for answer in answers] == [False] + [True] * (CALLERS - 1)
        assert all(answer.results == answers[0].results for answer in answers)

    async def test_different_searches_are_different_calls(self) -> None:
        """Every field of the request counts."""
        fake = FakeWebSearch([result_item(1)], delay_s=0.01)
        policy = guarded_search(fake)
        await asyncio.gather(*(policy.search(REQUEST.with_(page=page)) for page in (1, 2, 3)))
        assert len(fake.requests) == 3

    async def test_nothing_is_cached(self) -> None:
        """A search after the end of another one is a new call."""
        fake = FakeWebSearch([result_item(1)])
        policy = guarded_search(fake)
        assert not (await policy.search(REQUEST)).cached
        assert not (await policy.search(REQUEST)).cached
        assert len(fake.requests) == 2

    async def test_a_cancelled_first_caller_does_not_fail_the_rest(self) -> None:
        """The call continues for the other callers."""
        fake = GatedSearch()
        first, *others = searching(guarded_search(fake), 10)
        await started()
        first.cancel()
        await asyncio.wait([first])
        assert first.cancelled()
        fake.gate.set()
        assert all(answer.results for answer in await asyncio.gather(*others))
        assert len(fake.requests) == 1

    async def test_the_call_ends_with_its_last_caller(self) -> None:
        """Without callers the call is cancelled before the last caller returns. The next caller starts a new call."""
        fake = GatedSearch()
        policy = guarded_search(fake)
        tasks = searching(policy, 10)
        await started()
        for task in tasks[1:]:
            task.cancel()
        await started()
        assert fake.open_calls == 1
        tasks[0].cancel()
        await asyncio.wait(tasks)
        assert fake.open_calls == 0
        fake.gate.set()
        assert (await policy.search(REQUEST)).results

    async def test_an_error_goes_to_all_and_is_not_cached(self) -> None:
        """Each caller gets a separate error object, and the next search is a new call."""
        fake = GatedSearch(WebSearchConnectionError("down", retry_after_s=3))
        policy = guarded_search(fake)
        tasks = searching(policy, 10)
        await started()
        fake.gate.set()
        errors = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(error, WebSearchConnectionError) for error in errors)
        assert {(error.message, error.retry_after_s) for error in errors} == {("down", 3)}  # type: ignore[union-attr]
        assert len({id(error) for error in errors}) == 10
        assert len(fake.requests) == 1
        with pytest.raises(WebSearchConnectionError):
            await policy.search(REQUEST)
        assert len(fake.requests) == 2

    async def test_a_shared_call_has_the_latest_deadline(self) -> None:
        """The latest deadline of all callers applies, so that the first caller's deadline does not fail the others."""
        seen: list[float] = []

        class Deadlines(GatedSearch):
            async def search(self, request: WebSearchRequest) -> WebSearchResponse:
                answer = await super().search(request)
                seen.append(current_deadline())
                return answer

        async def search_until(when: float) -> None:
            async with deadline_at(when):
                await policy.search(REQUEST)

        fake = Deadlines()
        policy = guarded_search(fake)
        now = asyncio.get_running_loop().time()
        tasks = [asyncio.create_task(search_until(now + seconds)) for seconds in (20, 60, 40)]
        await started()
        fake.gate.set()
        await asyncio.gather(*tasks)
        assert seen == [now + 60]


async def read_stream(policy: SharedSynthesizer) -> list[SynthesisPart]:
    return [part async for part in policy.stream(ORDER)]


@pytest.mark.parametrize("streamed", [False, True])
async def test_identical_syntheses_are_written_and_paid_once(streamed: bool) -> None:
    """500 callers, one call of the writer; the others are marked as cached and spend nothing."""
    spent = Spending(calls=1, prompt_tokens=10, cost_usd=0.5)
    writer = FakeSynthesizer("Water [1].", spent=spent, delay_s=0.01)
    policy = SharedSynthesizer(writer)
    if streamed:
        streams = await asyncio.gather(*(read_stream(policy) for _ in range(CALLERS)))
        answers = [parts[-1] for parts in streams]
        texts = {"".join(part.text for part in parts if isinstance(part, SynthesisToken)) for parts in streams}
    else:
        answers = list(await asyncio.gather(*(policy.synthesize(ORDER) for _ in range(CALLERS))))
        texts = {answer.text for answer in answers if isinstance(answer, Synthesis)}
    assert len(writer.calls) == 1
    assert len(texts) == 1
    costs = [answer.spent.calls for answer in answers if isinstance(answer, Synthesis)]
    assert sum(costs) == 1
    assert len(costs) == CALLERS


async def test_identical_plans_are_one_call() -> None:
    """Those that join spend nothing."""
    llm = FakeLLM(["one\ntwo"], delay_s=0.01)
    policy = SingleFlightLLM(llm)
    answers = await asyncio.gather(*(policy.generate(question()) for _ in range(CALLERS)))
    assert len(llm.requests) == 1
    assert sum(answer.spent.calls for answer in answers) == 1
