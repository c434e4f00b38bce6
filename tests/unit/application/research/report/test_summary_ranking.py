"""Summaries are ranked only if more pages are read than a report uses. The ranking has a separate time limit."""

from __future__ import annotations

import asyncio

import pytest
from tests.fakes.llm_contract import question
from tests.support.report_world import ReportModel, Web, World, some_pages, stage_of

from modules.llm_platform.application.research import budget
from modules.llm_platform.application.research.budget import Budget
from modules.llm_platform.application.research.budgeted_llm import BudgetedLLM
from modules.llm_platform.application.research.events import Done
from modules.llm_platform.application.research.report.run import ReportOptions
from modules.llm_platform.domain.dtos.llm_dtos import LLMRequest, LLMResponse
from modules.llm_platform.domain.exceptions import LLMBudgetError
from modules.llm_platform.testing.llm import FakeLLM


async def test_call_may_end_with_another_phase_than_its_stage() -> None:
    """When the time for ranking results is over, a call for one is refused; one for ranking summaries is made."""
    now = asyncio.get_running_loop().time
    began = iter((now() - 60.0,))  # of a hundred seconds: results are ranked in the first half
    budget = Budget(
        max_llm_calls=None, max_cost_usd=None, deadline=now() + 40.0, price=None, clock=lambda: next(began, now())
    )
    with pytest.raises(LLMBudgetError, match="no time is left for rank"):
        await BudgetedLLM(FakeLLM(), budget, "rank").generate(question())
    assert (await BudgetedLLM(FakeLLM(), budget, "rank", "rank_summaries").generate(question())).content


async def test_summaries_are_ranked_after_the_ranking_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight pages were read and the results' time is up: the model still says which five are written from."""

    class SlowReader(ReportModel):
        async def generate(self, request: LLMRequest) -> LLMResponse:
            if stage_of(request) == "summarize":
                monkeypatch.setitem(budget.PHASE_ENDS, "rank", 0.0)  # type: ignore[arg-type]  # a dictionary underneath
            return await super().generate(request)

    model = SlowReader(marks=lambda title: 9 if "Hotel" in title else 4)
    done = (await World(Web(some_pages()), model, options=ReportOptions(pages=8)).events())[-1]
    assert isinstance(done, Done)
    assert model.asked.index("summarize") < len(model.asked) - 1 - model.asked[::-1].index("rank")
    assert not [entry for entry in done.response.degraded if "budget" in entry.reason]
    assert done.response.raw_results is not None
    assert "Hotel" in done.response.raw_results[0].title
