"""What a call that ended without an answer cost is unknown, so the total is unknown too, unless the model is free."""

from __future__ import annotations

import asyncio
import math
from functools import partial

from tests.fakes.citation_judge import FakeCitationJudge
from tests.fakes.synthesizer import FakeSynthesizer
from tests.support.cases import for_each
from tests.support.guards import guarded_model
from tests.support.virtual_time import in_virtual_time
from tests.support.written_answers import FOREVER_S, judge_of, write_answer

from modules.llm_platform.application.research.budget import Budget
from modules.llm_platform.application.research.budgeted_llm import BudgetedLLM
from modules.llm_platform.application.research.check.early_judging import EarlyJudging
from modules.llm_platform.application.research.check.judge import CachedCitationJudge, LLMCitationJudge
from modules.llm_platform.application.research.check.judge_task import ask_judge
from modules.llm_platform.application.research.find.plan import SearchPlanner
from modules.llm_platform.application.research.find.round_queries import RoundModel, ask_model
from modules.llm_platform.application.research.find.rounds import DEEP, FurtherRounds
from modules.llm_platform.application.research.follow_up import FollowUps, apply_follow_up
from modules.llm_platform.application.research.run import Run
from modules.llm_platform.application.research.write.llm_synthesizer import LLMSynthesizer
from modules.llm_platform.application.research.write.shared_synthesizer import SharedSynthesizer
from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.dtos.citation_dtos import CitedClaim, StoredVerdicts
from modules.llm_platform.domain.dtos.llm_dtos import ChatMessage, LLMRequest, Spending
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest, StoredTurns, Turn
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.infrastructure.cache.memory import MemoryCache
from modules.llm_platform.infrastructure.models.llm_router import LLMRouter
from modules.llm_platform.infrastructure.models.single_flight import SingleFlightLLM
from modules.llm_platform.testing import FakeLLM

QUESTION = "How do session tokens expire?"
TEXT = "Session tokens that are stale get purged each night [1]."
SOURCES = (
    Source(index=1, title="Sessions", url="https://docs.test/1", text="Expired session tokens are deleted nightly."),
)
FREE_OR_PAID = for_each(("is_free", "cost_usd"), [(True, 0.0), (False, None)])


def make_late_model(*, is_free: bool) -> FakeLLM:
    model = FakeLLM(delay_s=FOREVER_S)
    model.is_free = is_free
    return model


def make_late_judge(*, is_free: bool) -> FakeCitationJudge:
    judge = FakeCitationJudge(delay_s=FOREVER_S)
    judge.is_free = is_free
    return judge


@FREE_OR_PAID
@in_virtual_time
async def test_a_late_plan(is_free: bool, cost_usd: float | None) -> None:
    request = ResearchRequest(query=QUESTION, depth="deep")
    run = Run(request=request, original_request=request, request_id="r", detected="en")
    planned = await SearchPlanner(make_late_model(is_free=is_free)).plan(run, timeout_s=1.0)
    assert planned.spent == Spending(calls=1, cost_usd=cost_usd, is_cost_cut_off=not is_free)


@FREE_OR_PAID
@in_virtual_time
async def test_late_queries_of_a_round(is_free: bool, cost_usd: float | None) -> None:
    request = LLMRequest(messages=(ChatMessage(role="user", content=QUESTION),))
    answer = await ask_model(make_late_model(is_free=is_free), request)
    assert answer.spent == Spending(calls=1, cost_usd=cost_usd, is_cost_cut_off=not is_free)


@FREE_OR_PAID
@in_virtual_time
async def test_queries_of_a_round_that_an_early_finish_ends(is_free: bool, cost_usd: float | None) -> None:
    request = ResearchRequest(query=QUESTION, depth="deep")
    run = Run(request=request, original_request=request, request_id="r", detected="en")
    model = RoundModel(partial(ask_model, make_late_model(is_free=is_free)), is_free=is_free)
    rounds = FurtherRounds(run, DEEP, math.inf, model)
    await rounds.fill_ledger(["Which port does the session server use?"], SOURCES)
    planning = asyncio.create_task(rounds.plan_next_queries([QUESTION]))
    await asyncio.sleep(0.1)
    run.early_finish.found()
    run.early_finish.ask()
    assert await planning == []
    assert rounds.spent == Spending(calls=1, cost_usd=cost_usd, is_cost_cut_off=not is_free)


@FREE_OR_PAID
@in_virtual_time
async def test_a_late_judge(is_free: bool, cost_usd: float | None) -> None:
    judge_task = judge_of(make_late_judge(is_free=is_free), QUESTION, SOURCES, seconds=2.0)
    judged, _ = await ask_judge(judge_task, [CitedClaim(claim=TEXT, quote=SOURCES[0].text)])
    assert judged.spent == Spending(calls=1, cost_usd=cost_usd, is_cost_cut_off=not is_free)


@FREE_OR_PAID
@in_virtual_time
async def test_a_cancelled_early_judgment(is_free: bool, cost_usd: float | None) -> None:
    early = EarlyJudging(judge_of(make_late_judge(is_free=is_free), QUESTION, SOURCES, max_wait_share=0.0))
    citations = CitationChecker(SOURCES, "en").check(TEXT).citations
    early.add((TEXT[citation.start : citation.end], citation) for citation in citations)
    await asyncio.sleep(0.1)
    await early.finish()
    assert early.spent == Spending(calls=1, cost_usd=cost_usd, is_cost_cut_off=not is_free)


@FREE_OR_PAID
@in_virtual_time
async def test_a_late_writer(is_free: bool, cost_usd: float | None) -> None:
    writer = FakeSynthesizer(TEXT, delay_s=60.0)
    writer.is_free = is_free
    draft = await write_answer(writer, SOURCES, has_llm=True, seconds=5.0)
    assert draft.spent == Spending(calls=1, cost_usd=cost_usd, is_cost_cut_off=not is_free)


@for_each(("is_free", "price", "left"), [(True, 0.0, 0.05), (False, 0.01, 0.04)])
@in_virtual_time
async def test_a_late_follow_up_leaves_the_report_its_limit_less_the_highest_price(
    is_free: bool, price: float, left: float
) -> None:
    turns: MemoryCache[StoredTurns] = MemoryCache(10)
    follow_ups = FollowUps(turns, llm=make_late_model(is_free=is_free), price=lambda prompt, answer: price)
    request = ResearchRequest(query="How loud are they?", depth="report", max_cost_usd=0.05, max_llm_calls=5)
    follow_up = await follow_ups.rewrite_question(request, StoredTurns(turns=(Turn(question="What are heat pumps?"),)))
    changed = apply_follow_up(request, follow_up)
    assert follow_up.spent == Spending(calls=1, cost_usd=0.0 if is_free else None, is_cost_cut_off=not is_free)
    assert changed.max_cost_usd is not None
    assert math.isclose(changed.max_cost_usd, left)


@FREE_OR_PAID
async def test_what_wraps_a_model_is_as_free_as_the_model(is_free: bool, cost_usd: float | None) -> None:
    model = make_late_model(is_free=is_free)
    guarded = guarded_model(model)
    budget = Budget(max_llm_calls=None, max_cost_usd=None, deadline=math.inf, price=None)
    verdicts: MemoryCache[StoredVerdicts] = MemoryCache(10)
    judge, writer = LLMCitationJudge(model), LLMSynthesizer(model)
    wrappers = (
        guarded,
        LLMRouter([guarded]),
        SingleFlightLLM(model),
        BudgetedLLM(model, budget, "write"),
        judge,
        CachedCitationJudge(judge, verdicts, 60.0),
        writer,
        SharedSynthesizer(writer),
    )
    assert [wrapper.is_free for wrapper in wrappers] == [is_free] * len(wrappers)


async def test_models_behind_one_name_are_free_only_together() -> None:
    free, paid = FakeLLM(name="free"), FakeLLM(name="paid")
    free.is_free = True
    assert not LLMRouter([guarded_model(free), guarded_model(paid)]).is_free
