"""The estimate of a plan is an upper bound of what its report may cost."""

from __future__ import annotations

import pytest
from tests.support.report_world import QUESTION, REWORDED, ReportModel, Web, World, answer_of, some_pages

from modules.llm_platform.application.research.report.run import ReportOptions
from modules.llm_platform.domain.dtos.report_dtos import LLMStage, PlanRequest, ReportEstimate


async def estimated(world: World, **fields: object) -> tuple[ReportEstimate, tuple[str, ...]]:
    plan = await world.service().plan(PlanRequest.model_validate({"query": QUESTION, **fields}))
    assert plan.estimate is not None
    return plan.estimate, plan.questions


GIVEN = [f"https://given{number}.example/" for number in range(7)]


@pytest.mark.parametrize(
    "fields", [{}, {"rounds": 4}, {"rounds": 0}, {"urls": GIVEN}, {"sources": ["web", "documents"]}]
)
@pytest.mark.parametrize("has_model", [True, False])
@pytest.mark.parametrize("section_tokens", [0, 1500])
async def test_a_report_takes_at_most_what_the_plan_says(
    fields: dict[str, object], has_model: bool, section_tokens: int
) -> None:
    """The bound covers searches, pages, calls, tokens and dollars. `fields` are those of the request."""
    model = ReportModel(text=REWORDED) if has_model else None
    world = World(
        Web(some_pages(12)),
        model,
        price=lambda prompt, completion: (prompt + 4 * completion) / 1e6,
        options=ReportOptions(section_tokens=section_tokens),
    )
    estimate, questions = await estimated(world, **fields)
    answer = answer_of(await world.events(plan=questions, **fields))
    taken, at_most = answer.metadata, estimate.at_most
    assert 0 <= taken.searches <= at_most.searches
    assert 0 < taken.pages_read <= at_most.pages
    assert taken.llm_calls <= at_most.llm_calls
    assert taken.tokens_used <= at_most.tokens
    assert (taken.cost_usd or 0.0) <= (at_most.cost_usd or 0.0) or not has_model
    assert (taken.llm_calls > 0) is (at_most.llm_calls > 0) is has_model


async def test_one_more_question_is_told() -> None:
    """`per_question` is the cost of one more sub-question. The time limit is the server's."""
    world = World(Web(some_pages()), ReportModel(), options=ReportOptions(timeout_s=600, query_languages=("en", "de")))
    estimate, _ = await estimated(world)
    assert (estimate.per_question.searches, estimate.per_question.pages) == (2, 0)
    assert estimate.per_question.llm_calls == 3  # its queries, and the ranking of what each search found
    assert estimate.max_seconds == 600


async def test_sections_cost_calls_and_few_tokens() -> None:
    """A prompt of a section has its own passages, and not all pages."""
    whole, _ = await estimated(World(Web(some_pages()), ReportModel(), stages=("write",)))
    world = World(Web(some_pages()), ReportModel(), stages=("write",), options=ReportOptions(section_tokens=1500))
    sections, questions = await estimated(world)
    assert (whole.at_most.llm_calls, sections.at_most.llm_calls) == (1, 1 + len(questions))
    assert sections.at_most.tokens < whole.at_most.tokens


async def test_a_price_that_is_not_known_is_not_guessed() -> None:
    estimate, _ = await estimated(World(Web(some_pages()), ReportModel()))
    assert estimate.at_most.tokens > 0
    assert (estimate.at_most.cost_usd, estimate.per_question.cost_usd) == (None, None)


async def test_addresses_alone_are_not_searched_for() -> None:
    """A report on given pages makes no search and no further round."""
    estimate, _ = await estimated(World(Web(some_pages()), ReportModel()), urls=["https://given.example/"])
    assert estimate.at_most.searches == 0


async def test_summaries_that_choose_no_pages_are_not_ranked() -> None:
    """A report uses up to five pages, and all addresses of its request, so summaries need not be ranked."""
    calls = []
    for pages, urls in ((5, []), (6, []), (6, GIVEN)):
        world = World(Web(some_pages(12)), ReportModel(), options=ReportOptions(pages=pages), stages=("plan", "rank"))
        estimate, _ = await estimated(world, urls=urls, sources=["web"], rounds=0)
        calls.append(estimate.at_most.llm_calls)
    assert (calls[1] - calls[0], calls[2] - calls[0]) == (1, 0)


async def test_stages_without_a_model_take_no_calls() -> None:
    """A slow model only plans, searches and writes. The report is still complete, because no ranking was expected."""
    model = ReportModel(text=REWORDED)
    stages: tuple[LLMStage, ...] = ("plan", "queries", "write", "judge")
    world = World(Web(some_pages(12)), model, options=ReportOptions(pages=8), stages=stages)
    estimate, questions = await estimated(world)
    answer = answer_of(await world.events(plan=questions))
    assert 0 < answer.metadata.llm_calls <= estimate.at_most.llm_calls < 15
    assert {"rank", "summarize"}.isdisjoint(model.asked)
    assert "write" in model.asked
    assert answer.degraded == ()
