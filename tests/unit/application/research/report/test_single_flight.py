"""Reports that are asked for while they are being made: paid for once, told to all who asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest
from tests.support.cases import for_each
from tests.support.report_world import QUESTION, ReportModel, Web, World, answer_of, laws_of_events, some_pages

from modules.llm_platform.application.research.events import Failed, ResearchEvent
from modules.llm_platform.application.services.research_service import ResearchService
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest

A_WHILE_S = 60.0  # time limit of each wait, on any machine
NEVER_S = 3600.0


def research_request(**wishes: object) -> ResearchRequest:
    return ResearchRequest.model_validate({"query": QUESTION, "depth": "report", **wishes})


async def events_of(service: ResearchService, name: str, **wishes: object) -> list[ResearchEvent]:
    return [event async for event in service.stream(research_request(**wishes), request_id=name)]


async def begun(service: ResearchService, name: str, **wishes: object) -> AsyncGenerator[ResearchEvent, None]:
    """Return a stream whose report has started, with more than the first event received."""
    stream = service.stream(research_request(**wishes), request_id=name)
    async with asyncio.timeout(A_WHILE_S):
        while (await anext(stream)).type != "planned":
            pass
    return stream


def world(delay_s: float = 0.02) -> World:
    return World(Web(some_pages()), ReportModel(delay_s=delay_s))


def without_names(events: list[ResearchEvent]) -> list[dict[str, object]]:
    return [event.model_dump(exclude={"request_id"}) for event in events[:-1]]


async def test_concurrent_equal_reports_are_paid_for_once() -> None:
    """Both callers get the same events in the same order under their own ids, and the same answer."""
    alone, shared = world(), world()
    await events_of(alone.service(), "alone")
    service = shared.service()
    first, second = await asyncio.gather(events_of(service, "one"), events_of(service, "two"))
    assert shared.calls() == alone.calls()
    assert without_names(first) == without_names(second)
    for events, name in ((first, "one"), (second, "two")):
        laws_of_events(events)
        assert {event.request_id for event in events} == {name} == {answer_of(events).metadata.request_id}
    one, two = (
        answer_of(events).model_dump(exclude={"metadata": {"request_id", "latency_ms"}}) for events in (first, second)
    )
    assert one == two


async def test_late_follower_gets_all_events() -> None:
    """A second caller gets the earlier events at once and in order, and then later events as they occur."""
    shared = world()
    service = shared.service()
    stream = await begun(service, "one")
    second = asyncio.create_task(events_of(service, "two"))
    rest = [event async for event in stream]
    late = await asyncio.wait_for(second, A_WHILE_S)
    assert without_names(late)[-len(rest) + 1 :] == without_names(rest)
    assert [event.type for event in late[:2]] == ["started", "planned"]
    laws_of_events(late)
    assert shared.calls()["write"] == 1


async def test_sources_are_stored_for_both_followers() -> None:
    """Each caller can request the sources of its answer by its own id."""
    service = world().service()
    first, second = await asyncio.gather(events_of(service, "one"), events_of(service, "two"))
    index = answer_of(first).sources[0].index
    assert (await service.get_source("one", index)).text == (await service.get_source("two", index)).text != ""
    assert answer_of(second).sources


async def test_raw_results_are_returned_only_where_requested() -> None:
    """`omit_raw` only affects the response of its own request."""
    service = world().service()
    with_them, without = await asyncio.gather(events_of(service, "one"), events_of(service, "two", omit_raw=True))
    assert answer_of(with_them).raw_results
    assert answer_of(without).raw_results is None


@pytest.mark.parametrize("leaves", ["first", "second"])
async def test_report_continues_when_one_follower_leaves(leaves: str) -> None:
    """A client that goes away stops nothing for the other."""
    shared = world()
    service = shared.service()
    first = await begun(service, "one")
    second = await begun(service, "two")
    gone, stays = (first, second) if leaves == "first" else (second, first)
    await gone.aclose()
    rest = [event async for event in stays]
    assert answer_of(rest).citations
    assert shared.calls()["write"] == 1


async def test_report_is_cancelled_when_all_followers_leave() -> None:
    """The last one that goes away takes the report with it, at once, and the next one begins anew."""
    shared = world(NEVER_S)
    shared.model = ReportModel(delays={"queries": NEVER_S})
    service = shared.service()
    streams = [await begun(service, name) for name in ("one", "two")]
    assert [task for task in asyncio.all_tasks() if "SingleFlight._call" in repr(task)]
    async with asyncio.timeout(A_WHILE_S):
        for stream in streams:
            await stream.aclose()
    assert not [task for task in asyncio.all_tasks() if "SingleFlight._call" in repr(task)]
    shared.model.asked.clear()
    await (await begun(service, "three")).aclose()
    assert shared.model.asked[0] == "plan"


async def test_failure_is_raised_to_all_followers() -> None:
    """Both callers get the error, and nothing is tried twice."""
    shared = World(Web(some_pages(), down=True), ReportModel(delay_s=0.02))
    service = shared.service()
    first, second = await asyncio.gather(events_of(service, "one"), events_of(service, "two"))
    for events in (first, second):
        assert isinstance(events[-1], Failed)
        assert events[-1].problem["code"] == "web_search_connection"
    assert shared.calls()["plan"] == 1
    assert (await events_of(service, "three"))[-1].type == "failed"
    assert shared.calls()["plan"] == 2


@for_each(
    "wishes",
    [
        {"max_llm_calls": 50},
        {"max_seconds": 300.0},
        {"instructions": "Short."},
        {"context": "Oslo"},
        {"fresh": True},
        {"language": "de"},
        {"query": "What do heat pumps cost?"},
        {"plan": ("What is a heat pump?",)},
    ],
)
async def test_different_requests_are_not_shared(wishes: dict[str, object]) -> None:
    """Requests with other limits, instructions, languages or questions are separate runs."""
    shared = world()
    service = shared.service()
    await asyncio.gather(events_of(service, "one"), events_of(service, "two", **wishes))
    assert shared.calls()["write"] == 2


async def test_finished_report_is_not_joined() -> None:
    """Without a store a report asked again is made again."""
    shared = world()
    service = shared.service()
    await events_of(service, "one")
    await events_of(service, "two")
    assert shared.calls()["write"] == 2
