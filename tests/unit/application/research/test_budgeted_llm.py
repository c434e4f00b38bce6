"""Model calls within a budget: which calls are made, what is counted, and what a refusal says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
from tests.fakes.llm_contract import collect, question
from tests.support.cases import for_each
from tests.support.virtual_time import in_virtual_time

from modules.llm_platform.application.research.budget import Budget
from modules.llm_platform.application.research.budgeted_llm import DEFAULT_MAX_ANSWER_TOKENS, BudgetedLLM
from modules.llm_platform.application.research.write.llm_synthesizer import LLMSynthesizer
from modules.llm_platform.domain.dtos.llm_dtos import LLMRequest, LLMResponse, LLMStreamPart, Spending, Usage
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.exceptions import LLMBudgetError, LLMConnectionError, LLMException, LLMTimeoutError
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.ports.synthesizer import SynthesisRequest
from modules.llm_platform.testing.llm import BrokenStream, FakeLLM

LONG_S = 100.0
DOLLARS_A_TOKEN = 0.001


def price(prompt_tokens: int, completion_tokens: int) -> float:
    return (prompt_tokens + completion_tokens) * DOLLARS_A_TOKEN


def budget(
    calls: int | None = None, dollars: float | None = None, seconds: float = LONG_S, *, keep_nothing: bool = True
) -> Budget:
    """Return a budget that by default reserves nothing for later stages."""
    deadline = asyncio.get_running_loop().time() + seconds
    made = Budget(max_llm_calls=calls, max_cost_usd=dollars, deadline=deadline, price=price)
    if keep_nothing:
        made.expect_calls("rank", 0)
        made.expect_calls("write", 0)
    return made


async def whole(llm: ILLMProvider, streamed: bool, request: LLMRequest | None = None) -> LLMResponse:
    request = request or question()
    if not streamed:
        return await llm.generate(request)
    answer = (await collect(llm, request))[-1]
    assert isinstance(answer, LLMResponse)
    return answer


@pytest.mark.parametrize("streamed", [False, True])
class TestCalls:
    async def test_cost_of_a_call_is_counted(self, streamed: bool) -> None:
        """All tries of it, with their tokens."""
        account = budget()
        answer = await whole(BudgetedLLM(FakeLLM(["Yes."]), account, "plan"), streamed)
        assert account.spent == answer.spent
        assert account.refused_calls == {}

    async def test_a_failed_call_counts_too(self, streamed: bool) -> None:
        """A failed call counts with the cost in its error, and the error is passed on unchanged."""
        account = budget()
        error = LLMConnectionError(spent=Spending(calls=2, prompt_tokens=7))
        with pytest.raises(LLMConnectionError) as caught:
            await whole(BudgetedLLM(FakeLLM([error]), account, "plan"), streamed)
        assert caught.value is error
        assert account.spent == Spending(calls=2, prompt_tokens=7)

    async def test_no_call_beyond_the_limit(self, streamed: bool) -> None:
        """The third of two is refused with the limit's name, costs nothing and is counted as left out."""
        account, fake = budget(calls=2), FakeLLM()
        llm = BudgetedLLM(fake, account, "summarize")
        for _ in range(2):
            await whole(llm, streamed)
        with pytest.raises(LLMBudgetError, match=r"max_llm_calls \(2\) leaves no call for summarize") as caught:
            await whole(llm, streamed)
        assert caught.value.spent == Spending()
        assert len(fake.requests) == 2
        assert account.refused_calls == {"summarize": 1}

    async def test_limit_of_zero_refuses_every_call(self, streamed: bool) -> None:
        """A limit of 0 refuses every call, including writing."""
        fake = FakeLLM()
        with pytest.raises(LLMBudgetError, match=r"max_llm_calls \(0\)"):
            await whole(BudgetedLLM(fake, budget(calls=0), "write"), streamed)
        assert fake.requests == []

    async def test_tries_are_bounded_by_the_calls_left(self, streamed: bool) -> None:
        """Retries and failover count as calls.

        The request says how many attempts it may make, or fewer if the stage wants fewer.
        """
        fake = FakeLLM()
        account = budget(calls=3)
        llm = BudgetedLLM(fake, account, "plan")
        await whole(llm, streamed)
        await whole(llm, streamed, question().model_copy(update={"max_tries": 1}))
        await whole(llm, streamed)
        assert [request.max_tries for request in fake.requests] == [3, 1, 1]

    async def test_without_limits_the_request_is_passed_on_as_it_is(self, streamed: bool) -> None:
        """Nothing is counted before, nothing is changed."""
        fake, asked = FakeLLM(), question()
        await whole(BudgetedLLM(fake, budget(), "plan"), streamed, asked)
        assert fake.requests[0] is asked

    async def test_dollars(self, streamed: bool) -> None:
        """A call that could cost more than is left is refused before it is made, whatever it would have cost."""
        account, fake = budget(dollars=0.5), FakeLLM()
        llm = BudgetedLLM(fake, account, "queries")
        fits, too_long = (question().model_copy(update={"max_tokens": tokens}) for tokens in (400, 500))
        with pytest.raises(LLMBudgetError, match=r"max_cost_usd \(0\.5\) is too low for queries"):
            await whole(llm, streamed, too_long)
        await whole(llm, streamed, fits)
        assert len(fake.requests) == 1

    async def test_an_answer_without_a_bound_gets_one(self, streamed: bool) -> None:
        """Where dollars are limited no answer may be as long as it likes."""
        fake = FakeLLM()
        await whole(BudgetedLLM(fake, budget(dollars=1000), "plan"), streamed)
        assert fake.requests[0].max_tokens == DEFAULT_MAX_ANSWER_TOKENS

    async def test_a_model_that_counts_nothing_is_counted(self, streamed: bool) -> None:
        """A custom model may not report its usage. It counts as one call at our price."""
        answer = LLMResponse(
            content="Yes.", provider="own", model="own", usage=Usage(prompt_tokens=10, completion_tokens=5)
        )
        account = budget(calls=1)
        llm = BudgetedLLM(FakeLLM([answer]), account, "plan")
        await whole(llm, streamed)
        assert account.spent == Spending(calls=1, prompt_tokens=10, completion_tokens=5, cost_usd=price(10, 5))
        with pytest.raises(LLMBudgetError):
            await whole(llm, streamed)

    async def test_the_time_of_a_stage_ends_its_calls(self, streamed: bool) -> None:
        """A call under way is ended when its stage must end, and counts; a later one is refused, with the setting's name."""
        account = budget(seconds=0.4)
        slow = FakeLLM(delay_s=LONG_S)
        with pytest.raises(LLMTimeoutError, match="the time for plan ran out: raise max_seconds") as caught:
            await whole(BudgetedLLM(slow, account, "plan"), streamed)
        assert caught.value.spent.calls == 1
        assert account.spent.calls == 1
        assert account.spent.prompt_tokens > 0
        assert slow.running == 0
        with pytest.raises(LLMBudgetError, match="no time is left for plan: raise max_seconds or RESEARCH_TIMEOUT_S"):
            await whole(BudgetedLLM(slow, account, "plan"), streamed)
        assert account.refused_calls == {"plan": 1}
        assert (await whole(BudgetedLLM(FakeLLM(), account, "write"), streamed)).content

    async def test_a_cancelled_call_counts_as_one(self, streamed: bool) -> None:
        """The call may have been answered, so it counts."""
        account = budget(calls=1)
        call = asyncio.create_task(whole(BudgetedLLM(FakeLLM(delay_s=LONG_S), account, "plan"), streamed))
        await asyncio.sleep(0.01)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert account.spent.calls == 1
        with pytest.raises(LLMBudgetError):
            await whole(BudgetedLLM(FakeLLM(), account, "plan"), streamed)


class TestDelegation:
    async def test_name_and_model_are_those_of_the_model(self) -> None:
        """A request can name either."""
        llm = BudgetedLLM(FakeLLM(name="kimi", model="k2"), budget(calls=0), "plan")
        assert (llm.name, llm.model) == ("kimi", "k2")


class TestSideBySide:
    async def test_calls_side_by_side_pass_no_limit(self) -> None:
        """Of twenty concurrent calls exactly five are made and paid for, and the others are refused."""
        account, fake = budget(calls=5), FakeLLM(delay_s=0.01)
        llm = BudgetedLLM(fake, account, "summarize")
        outcomes = await asyncio.gather(*(llm.generate(question()) for _ in range(20)), return_exceptions=True)
        assert sum(isinstance(outcome, LLMResponse) for outcome in outcomes) == 5
        assert account.spent.calls == 5
        assert account.refused_calls == {"summarize": 15}

    async def test_call_that_may_fit_later_waits(self) -> None:
        """The longest answer is reserved, but three words are used, so waiting calls get the released rest."""
        account, fake = budget(dollars=1.0), FakeLLM(["Three short words."], delay_s=0.01)
        llm = BudgetedLLM(fake, account, "summarize")
        asked = question().model_copy(update={"max_tokens": 450})
        answers = await asyncio.gather(*(llm.generate(asked) for _ in range(8)))
        assert len(answers) == 8
        assert account.spent.cost_usd is not None
        assert account.spent.cost_usd <= 1.0
        assert account.refused_calls == {}

    async def test_a_wait_ends_with_the_time_of_the_stage(self) -> None:
        """Nobody waits for another's call longer than it could then be used."""
        account = budget(dollars=1.0, seconds=0.5)
        writing = asyncio.create_task(
            BudgetedLLM(FakeLLM(delay_s=LONG_S), account, "write").generate(
                question().model_copy(update={"max_tokens": 900})
            )
        )
        await asyncio.sleep(0)
        with pytest.raises(LLMBudgetError, match="max_seconds"):
            await BudgetedLLM(FakeLLM(), account, "plan").generate(question().model_copy(update={"max_tokens": 900}))
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)

    async def test_concurrent_summaries_leave_a_call_for_writing(self) -> None:
        """Many concurrent summaries leave the call for writing, although it comes last."""
        account = budget(calls=4, keep_nothing=False)
        account.expect_calls("rank", 0)
        summaries = BudgetedLLM(FakeLLM(delay_s=0.005), account, "summarize")
        outcomes = await asyncio.gather(*(summaries.generate(question()) for _ in range(6)), return_exceptions=True)
        assert sum(isinstance(outcome, LLMBudgetError) for outcome in outcomes) == 3
        assert (await BudgetedLLM(FakeLLM(["The text."]), account, "write").generate(question())).content == "The text."

    async def test_the_cost_of_an_interrupted_call_without_a_price_is_unknown(self) -> None:
        """It does not count as free."""
        deadline = asyncio.get_running_loop().time() + 0.2
        account = Budget(max_llm_calls=3, max_cost_usd=None, deadline=deadline, price=None)
        with pytest.raises(LLMTimeoutError):
            await BudgetedLLM(FakeLLM(delay_s=LONG_S), account, "write").generate(question())
        assert account.spent.cost_usd is None


class TestStreams:
    async def test_received_tokens_of_an_interrupted_stream_are_counted(self) -> None:
        """A reader who leaves in the middle has had words, which were paid for."""
        account = budget(calls=5)
        llm = BudgetedLLM(FakeLLM(["one two three four five six seven eight"], chunk_chars=8), account, "write")
        async with aclosing(llm.stream(question())) as parts:  # type: ignore[type-var]
            await anext(parts)
            await anext(parts)
        assert account.spent.calls == 1
        assert account.spent.completion_tokens >= 2
        assert account.spent.cost_usd == price(account.spent.prompt_tokens, account.spent.completion_tokens)

    async def test_dying_half_way(self) -> None:
        """A failure in the middle of a stream counts what the model reported."""
        account = budget()
        with pytest.raises(LLMException) as caught:
            await collect(BudgetedLLM(FakeLLM([BrokenStream("some words")]), account, "write"), question())
        assert account.spent == caught.value.spent

    @in_virtual_time
    async def test_slow_reader_gets_every_token_in_time(self) -> None:
        """Only waiting for the model is limited. A slow reader gets every token that arrived in time."""
        account = budget(seconds=0.5)
        llm = BudgetedLLM(FakeLLM(["abcdefgh"], chunk_chars=4), account, "write")
        parts = []
        async for part in llm.stream(question()):
            parts.append(part)
            await asyncio.sleep(0.05)
        assert len(parts) == 3

    @in_virtual_time
    async def test_no_part_is_given_after_the_deadline(self) -> None:
        """Also one that is ready: a reader that was too slow gets a timeout instead."""
        account = budget(seconds=0.2)
        llm = BudgetedLLM(FakeLLM(["abcdefgh"], chunk_chars=4), account, "write")
        async with aclosing(llm.stream(question())) as parts:  # type: ignore[type-var]
            await anext(parts)
            await asyncio.sleep(0.25)
            with pytest.raises(LLMTimeoutError):
                await anext(parts)
        assert account.spent.calls == 1

    async def test_one_that_ends_without_an_answer_counts(self) -> None:
        """Whatever came is one call."""

        class Mute(FakeLLM):
            async def stream(self, request: LLMRequest) -> AsyncIterator[LLMStreamPart]:
                for part in ():
                    yield part

        account = budget()
        assert await collect(BudgetedLLM(Mute(), account, "write"), question()) == []
        assert account.spent.calls == 1


@for_each("dollars", [3.0, 5.0, 12.0, 40.0])
async def test_a_text_cut_to_its_room_is_written(dollars: float) -> None:
    """A writer that is given the room as its context makes a prompt that the budget lets through, however small it is."""
    text = "The event loop runs callbacks, one after another, until nothing is left to do. " * 400
    sources = [
        Source(index=number, title="A page", url=f"https://e.test/{number}", text=text) for number in range(1, 6)
    ]
    account = budget(dollars=dollars, keep_nothing=False)
    room = account.set_aside_prompt_tokens("write", 1000)
    assert room is not None
    fake = FakeLLM(["It runs callbacks [1]."])
    writer = LLMSynthesizer(BudgetedLLM(fake, account, "write"), context_tokens=room + 1000)
    written = await writer.synthesize(SynthesisRequest("What runs?", sources, "en", max_tokens=1000))
    assert written.text
    assert account.refused_calls == {}
    assert account.spent.calls == 1
