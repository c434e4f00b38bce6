"""A report's account: who is let through, what is counted, and what a refusal says."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from modules.llm_platform.application.research.budget import UNSAID_MAX_TOKENS, Budget, BudgetedLLM
from modules.llm_platform.domain.dtos.llm_dtos import LLMRequest, LLMResponse, LLMStreamPart, Spending, Usage
from modules.llm_platform.domain.dtos.report_dtos import LLMStage
from modules.llm_platform.domain.dtos.research_dtos import Source
from modules.llm_platform.domain.exceptions import (
    LLMBudgetError,
    LLMConnectionError,
    LLMException,
    LLMTimeoutError,
    PriceUnknownError,
)
from modules.llm_platform.domain.ports.llm import ILLMProvider, IWarmUp
from modules.llm_platform.infrastructure.adapters.llm_synthesizer import LLMSynthesizer
from modules.llm_platform.testing.llm import Death, FakeLLM, collect, question

LONG_S = 100.0
DOLLARS_A_TOKEN = 0.001


def price(prompt_tokens: int, completion_tokens: int) -> float:
    return (prompt_tokens + completion_tokens) * DOLLARS_A_TOKEN


def budget(
    calls: int | None = None, dollars: float | None = None, seconds: float = LONG_S, *, keep_nothing: bool = True
) -> Budget:
    """An account that keeps nothing for stages to come, unless it shall."""
    deadline = asyncio.get_running_loop().time() + seconds
    made = Budget(max_llm_calls=calls, max_cost_usd=dollars, deadline=deadline, price=price)
    if keep_nothing:
        made.expect("rank", 0)
        made.expect("write", 0)
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
    async def test_what_a_call_cost_is_counted(self, streamed: bool) -> None:
        """All tries of it, with their tokens."""
        account = budget()
        answer = await whole(BudgetedLLM(FakeLLM(["Yes."]), account, "plan"), streamed)
        assert account.spent == answer.spent
        assert account.left_out == {}

    async def test_a_failed_call_counts_too(self, streamed: bool) -> None:
        """With what the error says that it cost; the error is passed on as it is."""
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
        with pytest.raises(LLMBudgetError, match="max_llm_calls of 2 leaves none for summarize") as caught:
            await whole(llm, streamed)
        assert caught.value.spent == Spending()
        assert len(fake.requests) == 2
        assert account.left_out == {"summarize": 1}

    async def test_none_at_all(self, streamed: bool) -> None:
        """0 is a limit: nobody is asked, not even to write."""
        fake = FakeLLM()
        with pytest.raises(LLMBudgetError, match="max_llm_calls of 0"):
            await whole(BudgetedLLM(fake, budget(calls=0), "write"), streamed)
        assert fake.requests == []

    async def test_tries_are_bounded_by_what_is_left(self, streamed: bool) -> None:
        """Retries and failover are calls: the request says how many it may take; a stage's own wish for fewer counts."""
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
        with pytest.raises(LLMBudgetError, match=r"max_cost_usd of 0\.5 does not reach for queries"):
            await whole(llm, streamed, too_long)
        await whole(llm, streamed, fits)
        assert len(fake.requests) == 1

    async def test_an_answer_without_a_bound_gets_one(self, streamed: bool) -> None:
        """Where dollars are limited no answer may be as long as it likes."""
        fake = FakeLLM()
        await whole(BudgetedLLM(fake, budget(dollars=1000), "plan"), streamed)
        assert fake.requests[0].max_tokens == UNSAID_MAX_TOKENS

    async def test_a_model_that_counts_nothing_is_counted(self, streamed: bool) -> None:
        """Somebody's own model may leave out what it spent: its call was one, at our price."""
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
        with pytest.raises(LLMTimeoutError, match="max_seconds leaves for plan") as caught:
            await whole(BudgetedLLM(slow, account, "plan"), streamed)
        assert caught.value.spent.calls == 1
        assert account.spent.calls == 1
        assert account.spent.prompt_tokens > 0
        assert slow.running == 0
        with pytest.raises(
            LLMBudgetError, match="max_seconds leaves no time for plan: raise it, or RESEARCH_TIMEOUT_S"
        ):
            await whole(BudgetedLLM(slow, account, "plan"), streamed)
        assert account.left_out == {"plan": 1}
        assert (await whole(BudgetedLLM(FakeLLM(), account, "write"), streamed)).content

    async def test_a_cancelled_call_counts_as_one(self, streamed: bool) -> None:
        """It may have been answered: nobody will ever tell."""
        account = budget(calls=1)
        call = asyncio.create_task(whole(BudgetedLLM(FakeLLM(delay_s=LONG_S), account, "plan"), streamed))
        await asyncio.sleep(0.01)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert account.spent.calls == 1
        with pytest.raises(LLMBudgetError):
            await whole(BudgetedLLM(FakeLLM(), account, "plan"), streamed)


class TestSideBySide:
    async def test_calls_side_by_side_pass_no_limit(self) -> None:
        """Twenty ask at once, five are let through, the others are told, and it is exactly five that are paid for."""
        account, fake = budget(calls=5), FakeLLM(delay_s=0.01)
        llm = BudgetedLLM(fake, account, "summarize")
        outcomes = await asyncio.gather(*(llm.generate(question()) for _ in range(20)), return_exceptions=True)
        assert sum(isinstance(outcome, LLMResponse) for outcome in outcomes) == 5
        assert account.spent.calls == 5
        assert account.left_out == {"summarize": 15}

    async def test_who_may_fit_waits_for_the_others(self) -> None:
        """Reserved is the longest answer, taken are three words: those who wait get what is given back."""
        account, fake = budget(dollars=1.0), FakeLLM(["Three short words."], delay_s=0.01)
        llm = BudgetedLLM(fake, account, "summarize")
        asked = question().model_copy(update={"max_tokens": 450})
        answers = await asyncio.gather(*(llm.generate(asked) for _ in range(8)))
        assert len(answers) == 8
        assert account.spent.cost_usd is not None
        assert account.spent.cost_usd <= 1.0
        assert account.left_out == {}

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

    async def test_the_text_is_kept_while_others_ask(self) -> None:
        """Many summaries at once leave the call that writes, though it comes last."""
        account = budget(calls=4, keep_nothing=False)
        account.expect("rank", 0)
        summaries = BudgetedLLM(FakeLLM(delay_s=0.005), account, "summarize")
        outcomes = await asyncio.gather(*(summaries.generate(question()) for _ in range(6)), return_exceptions=True)
        assert sum(isinstance(outcome, LLMBudgetError) for outcome in outcomes) == 3
        assert (await BudgetedLLM(FakeLLM(["The text."]), account, "write").generate(question())).content == "The text."


class TestStreams:
    async def test_words_that_came_are_counted_when_it_is_broken_off(self) -> None:
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
        """Counts what the model says."""
        account = budget()
        with pytest.raises(LLMException) as caught:
            await collect(BudgetedLLM(FakeLLM([Death("some words")]), account, "write"), question())
        assert account.spent == caught.value.spent

    async def test_the_readers_own_time_is_not_the_models(self) -> None:
        """Only waiting for the model is ended; who reads slowly gets every word that comes in time."""
        account = budget(seconds=0.5)
        llm = BudgetedLLM(FakeLLM(["abcdefgh"], chunk_chars=4), account, "write")
        parts = []
        async for part in llm.stream(question()):
            parts.append(part)
            await asyncio.sleep(0.05)
        assert len(parts) == 3

    async def test_one_that_ends_without_an_answer_counts(self) -> None:
        """Whatever came is one call."""

        class Mute(FakeLLM):
            async def stream(self, request: LLMRequest) -> AsyncIterator[LLMStreamPart]:
                for part in ():
                    yield part

        account = budget()
        assert await collect(BudgetedLLM(Mute(), account, "write"), question()) == []
        assert account.spent.calls == 1


class TestAccount:
    @pytest.mark.parametrize("limit", [0.0, 1.0])
    async def test_dollars_need_prices(self, limit: float) -> None:
        """A limit that could not be kept is refused before anything is spent."""
        with pytest.raises(PriceUnknownError):
            Budget(max_llm_calls=None, max_cost_usd=limit, deadline=LONG_S, price=None)

    async def test_without_a_price_the_cost_is_not_known(self) -> None:
        """A call of which nobody knows what it cost does not count as free."""
        account = Budget(
            max_llm_calls=3, max_cost_usd=None, deadline=asyncio.get_running_loop().time() + 0.2, price=None
        )
        with pytest.raises(LLMTimeoutError):
            await BudgetedLLM(FakeLLM(delay_s=LONG_S), account, "write").generate(question())
        assert account.spent.cost_usd is None

    async def test_what_was_spent_elsewhere_counts(self) -> None:
        """Against the limits as well."""
        account = budget(calls=3)
        account.add(Spending(calls=3, prompt_tokens=10))
        assert account.spent.calls == 3
        with pytest.raises(LLMBudgetError):
            await account.reserve("plan")

    async def test_room_for_a_prompt(self) -> None:
        """How long a prompt may be so that its call fits; the call then fits exactly, and one token more does not."""
        account = budget(dollars=1.0)
        room = account.room("write", 400)
        assert room == 600
        with pytest.raises(LLMBudgetError):
            await account.reserve("write", room + 1, 400)
        await account.reserve("write", room, 400)

    async def test_an_answer_is_shortened_to_what_can_be_paid(self) -> None:
        """Half of the dollars are for it, where that is less than it would take; where nothing is left, hardly a word."""
        assert budget(dollars=1.0).answer_tokens("write", 400) == 400
        assert budget(dollars=1.0).answer_tokens("write", 4000) == 500
        assert budget(dollars=0.0).answer_tokens("write", 4000) == 1
        assert budget().answer_tokens("write", 4000) == 4000
        free = Budget(max_llm_calls=None, max_cost_usd=0.0, deadline=math.inf, price=lambda asked, written: 0.0)
        assert free.answer_tokens("write", 4000) == 4000

    async def test_room_is_kept_from_then_on(self) -> None:
        """What was promised to the text is not given to a summary that asks in between."""
        account = budget(dollars=1.0, keep_nothing=False)
        account.expect("rank", 0)
        room = account.room("write", 400)
        with pytest.raises(LLMBudgetError):
            await account.reserve("summarize", 1, 1)
        assert room == 600
        grant = await account.reserve("write", 500, 400)
        account.settle(grant, Spending(calls=1, cost_usd=0.5))
        await account.reserve("summarize", 400, 100)

    async def test_room_where_nothing_bounds_it(self) -> None:
        """None without a limit in dollars, or where prompts are free; nothing where even the answer is too dear."""
        assert budget().room("write", 400) is None
        assert budget(dollars=0.1).room("write", 400) == 0
        free = Budget(max_llm_calls=None, max_cost_usd=0.0, deadline=math.inf, price=lambda asked, written: 0.0)
        assert free.room("write", 400) is None
        await free.reserve("write", 10_000, 400)

    async def test_phases_end_on_the_clock_of_the_event_loop(self) -> None:
        """The deadline is its time, and the beginning is when the account was opened; the last resort has three seconds."""
        account = budget(seconds=100.0)
        now = asyncio.get_running_loop().time()
        assert account.until("write") == pytest.approx(now + 97, abs=0.1)
        assert account.until("rank") == pytest.approx(now + 50, abs=0.1)

    @pytest.mark.parametrize("stage", ["plan", "write"])
    async def test_a_stage_is_the_model_behind_it(self, stage: LLMStage) -> None:
        """Name and model are passed on, and so is getting ready."""

        class Warm(FakeLLM):
            warmed = False

            async def warm_up(self) -> None:
                self.warmed = True

        warm = Warm(name="kimi", model="k2")
        llm = BudgetedLLM(warm, budget(calls=0), stage)
        assert isinstance(llm, IWarmUp)
        await llm.warm_up()
        await BudgetedLLM(FakeLLM(), budget(calls=0), stage).warm_up()
        assert (llm.name, llm.model, warm.warmed) == ("kimi", "k2", True)


@pytest.mark.parametrize("dollars", [3.0, 5.0, 12.0, 40.0])
async def test_a_text_cut_to_its_room_is_written(dollars: float) -> None:
    """A writer that is given the room as its context makes a prompt that the budget lets through, however small it is."""
    text = "The event loop runs callbacks, one after another, until nothing is left to do. " * 400
    sources = [
        Source(index=number, title="A page", url=f"https://e.test/{number}", text=text) for number in range(1, 6)
    ]
    account = budget(dollars=dollars, keep_nothing=False)
    room = account.room("write", 1000)
    assert room is not None
    fake = FakeLLM(["It runs callbacks [1]."])
    writer = LLMSynthesizer(BudgetedLLM(fake, account, "write"), context_tokens=room + 1000)
    written = await writer.synthesize("What runs?", sources, "en", max_tokens=1000)
    assert written.text
    assert account.left_out == {}
    assert account.spent.calls == 1
