"""Plans that a person accepted: kept by question and language, whichever model had proposed them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel
from tests.support.report_world import QUESTION, ReportModel, Web, World, some_pages, store

from modules.llm_platform.application.research.report.run import ReportOptions
from modules.llm_platform.domain.dtos.report_dtos import AcceptedPlan, PlanRequest
from modules.llm_platform.domain.dtos.web_search_dtos import MAX_QUERY_CHARS
from modules.llm_platform.domain.research.store_key import make_topic
from modules.llm_platform.infrastructure.stores.research_runs.disk import NoResearchStore

ASKED = PlanRequest(query=QUESTION)
OWN = ("How loud is a heat pump?", "Who repairs one?")


async def test_accepted_plan_survives_a_crash(tmp_path: Path) -> None:
    """Another process with another model uses the accepted sub-questions and their date."""
    first = World(Web(some_pages()), ReportModel(), store(tmp_path)).service()
    assert await first.accepted_plan(ASKED) is None
    await first.accept_plan(ASKED, OWN)
    later = World(Web(some_pages()), None, store(tmp_path)).service()
    plan = await later.accepted_plan(ASKED)
    assert plan is not None
    assert (plan.query, plan.questions) == (QUESTION, OWN)
    assert plan.accepted_at.tzinfo


async def test_the_last_one_counts(tmp_path: Path) -> None:
    """A person may change their mind."""
    service = World(Web(some_pages()), ReportModel(), store(tmp_path)).service()
    await service.accept_plan(ASKED, OWN)
    await service.accept_plan(ASKED, OWN[:1])
    plan = await service.accepted_plan(ASKED)
    assert plan is not None
    assert plan.questions == OWN[:1]


@pytest.mark.parametrize("other", [{"language": "de"}, {"query": "What do heat pumps cost?"}])
async def test_another_question_has_a_plan_of_its_own(other: dict[str, str], tmp_path: Path) -> None:
    """The same question in another language has a separate plan, too."""
    service = World(Web(some_pages()), ReportModel(), store(tmp_path)).service()
    await service.accept_plan(ASKED, OWN)
    assert await service.accepted_plan(ASKED.model_copy(update=other)) is None


async def test_the_platforms_own_plan_is_not_replaced(tmp_path: Path) -> None:
    """Over HTTP and with --yes, no plan of another user is used."""
    world = World(Web(some_pages()), ReportModel(), store(tmp_path))
    service = world.service()
    await service.accept_plan(ASKED, OWN)
    assert not set((await service.plan(ASKED)).questions) & set(OWN)
    await world.events()
    assert not [query for query in world.web.searched if "loud" in query]


async def test_a_store_that_keeps_nothing_remembers_nothing() -> None:
    """STORE_TTL_DAYS=0: the person is asked each time."""
    service = World(Web(some_pages()), ReportModel(), NoResearchStore()).service()
    await service.accept_plan(ASKED, OWN)
    assert await service.accepted_plan(ASKED) is None


@pytest.mark.parametrize("questions", [(), ("no",), ("What is it?",) * 11, ("x" * (MAX_QUERY_CHARS + 1),)])
async def test_invalid_imported_plan_is_ignored(questions: tuple[str, ...], tmp_path: Path) -> None:
    """A plan with none, too many, too short or too long sub-questions was not accepted by a user."""

    class Carried(BaseModel):
        query: str = QUESTION
        questions: tuple[str, ...]
        accepted_at: str = "2026-11-20T12:00:00Z"

    kept = store(tmp_path)
    service = World(Web(some_pages()), ReportModel(), kept).service()
    await service.accept_plan(ASKED, OWN)
    topic = make_topic(QUESTION)
    (entry,) = await kept.entries(topic.name)
    assert await kept.get(topic, "search_queries", entry.key, AcceptedPlan)
    await kept.put(topic, "search_queries", entry.key, Carried(questions=questions))
    assert await service.accepted_plan(ASKED) is None


async def test_a_plan_of_another_size_is_not_reused(tmp_path: Path) -> None:
    """The model is asked again after the number of sub-questions has changed, and the plan has as many."""
    world = World(Web(some_pages()), ReportModel(), store(tmp_path))
    assert len((await world.service().plan(ASKED)).questions) == 3
    smaller = World(Web(some_pages()), ReportModel(), store(tmp_path), ReportOptions(sub_questions=2))
    assert len((await smaller.service().plan(ASKED)).questions) == 2
    assert smaller.calls()["plan"] == 1
