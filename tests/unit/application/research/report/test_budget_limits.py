"""A report within a budget: enough is reserved for writing, and the answer names what it lacks."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from tests.support.cases import for_each
from tests.support.report_world import ReportModel, Web, World, answer_of, some_pages, store
from tests.support.virtual_time import in_virtual_time

from modules.llm_platform.application.research.budget import Budget
from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.exceptions import PriceUnknownError


def price(prompt_tokens: int, completion_tokens: int) -> float:
    return (prompt_tokens + 4 * completion_tokens) / 1_000_000


async def limited(model: ReportModel, **limits: object) -> ResearchResponse:
    return answer_of(await World(Web(some_pages()), model, price=price).events(**limits))


@for_each("calls", [0, 1, 2, 3, 5, 8, 10])
async def test_call_limit_is_respected_and_a_report_is_returned(calls: int) -> None:
    """`max_llm_calls` is never exceeded. The report still has citations, and names the stages that were skipped."""
    model = ReportModel()
    answer = await limited(model, max_llm_calls=calls)
    assert len(model.asked) <= calls
    assert answer.metadata.llm_calls == len(model.asked)
    assert answer.citations
    left_out = [entry for entry in answer.degraded if "budget" in entry.reason]
    assert left_out
    if calls:
        assert model.asked[-1] == "write" or "write" in model.asked


async def test_writing_and_ranking_have_priority_over_queries_and_summaries() -> None:
    """With three calls there is a text and a ranking by the model; with one there is a text."""
    three = ReportModel()
    await limited(three, max_llm_calls=3)
    assert "queries" not in three.asked
    assert {"write", "rank"} <= set(three.asked)
    one = ReportModel()
    await limited(one, max_llm_calls=1)
    assert one.asked == ["write"]


async def test_sufficient_limit_leaves_nothing_out() -> None:
    """A limit that is not reached changes nothing and is not mentioned."""
    free, bound = ReportModel(), ReportModel()
    await limited(free)
    answer = await limited(bound, max_llm_calls=len(free.asked) + 3)
    assert sorted(bound.asked) == sorted(free.asked)
    assert not [entry for entry in answer.degraded if "budget" in entry.reason]


async def test_a_budget_without_room_for_a_round_stops_the_rounds() -> None:
    """The call of a round is given up in favour of the text. `stopped` says so, and there is no further search."""
    once, model = Web(some_pages()), ReportModel()
    await World(once, ReportModel()).events(rounds=0, max_llm_calls=3)
    web = Web(some_pages())
    metadata = answer_of(await World(web, model).events(max_llm_calls=3)).metadata
    assert (metadata.rounds, metadata.stopped) == (0, "budget")
    assert sorted(web.searched) == sorted(once.searched)
    assert Counter(model.asked) == Counter(plan=1, rank=1, write=1)


@for_each(("calls", "usd"), [(0, 1.0), (3, 0.0001)])
async def test_the_cost_of_a_round_is_part_of_the_budget(calls: int, usd: float) -> None:
    """No room where calls, or dollars, are all that the stages of higher priority need; room where both are left."""
    tokens, room = (1200, 100), Budget(max_llm_calls=4, max_cost_usd=1.0, deadline=60.0, price=price)
    assert room.can_afford("queries", *tokens)
    tight = Budget(max_llm_calls=calls, max_cost_usd=usd, deadline=60.0, price=price)
    assert not tight.can_afford("queries", *tokens)


@in_virtual_time
async def test_rounds_that_a_time_limit_left_out_are_made_without_it(tmp_path: Path) -> None:
    """A report whose rounds `max_seconds` ended is complete for its request, and not stored for others."""
    slow = ReportModel(delays={"plan": 1.0, "queries": 1.0})
    answer = answer_of(await World(Web(some_pages()), slow, store(tmp_path)).events(max_seconds=10.0))
    assert (answer.metadata.rounds, answer.metadata.stopped, answer.degraded) == (0, "time", ())
    whole = answer_of(await World(Web(some_pages()), ReportModel(), store(tmp_path)).events())
    assert whole.metadata.rounds > 0


async def test_cost_limit_is_respected() -> None:
    """`max_cost_usd`: calls that cannot be paid for are not made, and the model writes the text as long as it is
    affordable.
    """
    dear = await limited(ReportModel(), max_cost_usd=0.03)
    assert dear.metadata.cost_usd is not None
    assert dear.metadata.cost_usd <= 0.03
    assert dear.metadata.synthesizer.startswith("scripted")
    broke = await limited(ReportModel(), max_cost_usd=0.0)
    assert broke.metadata.llm_calls == 0
    assert broke.citations


async def test_cost_limit_requires_prices() -> None:
    """A cost limit without prices is refused with the name of the setting."""
    with pytest.raises(PriceUnknownError, match="LLM_PROVIDERS"):
        await World(Web(some_pages()), ReportModel()).events(max_cost_usd=1.0)


@pytest.mark.parametrize("delay_s", [0.3, 30.0])
@in_virtual_time
async def test_time_limit_is_respected(delay_s: float) -> None:
    """`max_seconds` with a slow model: the answer is ready in time, from what was found so far."""
    answer = await limited(ReportModel(delay_s=delay_s), max_seconds=1.5)
    assert asyncio.get_running_loop().time() < 1.5
    assert answer.citations
    assert answer.degraded
