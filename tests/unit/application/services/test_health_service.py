"""One report for all who ask, soon, and never a hanging one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.support.cases import for_each
from tests.support.clock import Clock
from tests.support.turns import run_ready_tasks
from tests.support.virtual_time import in_virtual_time

from modules.llm_platform.application.services.health_service import (
    CHECK_FAILED,
    DEADLINE_S,
    NOT_CHECKED,
    REPORT_TTL_S,
    HealthService,
)
from modules.llm_platform.domain.exceptions import WebSearchConfigError
from modules.llm_platform.domain.ports.health import CircuitState


class Probe:
    """Says `word`, raises `error`, or hangs; counts how often it was asked."""

    def __init__(
        self, word: str = "fine", error: Exception | None = None, hangs: bool = False, deaf: bool = False
    ) -> None:
        self.name = "probe"
        self.word, self.error, self.hangs, self.deaf = word, error, hangs, deaf
        self.asked = 0
        self.let_go = asyncio.Event()

    async def ping(self) -> str:
        self.asked += 1
        while self.hangs and not self.let_go.is_set():
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                if not self.deaf:
                    raise
        if self.error is not None:
            raise self.error
        return self.word


DOWN = WebSearchConfigError("SearXNG refuses JSON: enable it in search.formats")


@for_each(
    ("search", "llms", "status", "searxng", "kimi"),
    [
        ({"searxng": Probe()}, {"kimi": Probe()}, "healthy", True, True),
        ({"searxng": Probe()}, {}, "healthy", True, False),
        ({"searxng": Probe(error=DOWN)}, {"kimi": Probe()}, "unhealthy", False, True),
        ({"searxng": Probe(error=DOWN), "ddgs": object()}, {}, "degraded", False, False),
        ({"searxng": Probe(), "bocha": Probe(error=DOWN)}, {}, "degraded", True, False),
        ({"searxng": Probe()}, {"kimi": Probe(error=DOWN)}, "degraded", True, False),
        ({"ddgs": object()}, {"kimi": object()}, "healthy", False, True),
        ({"documents": object()}, {"openai": object()}, "healthy", False, False),
        ({}, {"kimi": Probe()}, "unhealthy", False, True),
    ],
)
async def test_the_verdict(
    search: dict[str, Any], llms: dict[str, Any], status: str, searxng: bool, kimi: bool
) -> None:
    """unhealthy: no search is possible. degraded: a configured component fails. Unconfigured components do not count."""
    report = await HealthService(search, llms).check()
    assert (report.status, report.searxng_connected, report.kimi_coding_available) == (status, searxng, kimi)
    assert {name: component.kind for name, component in report.components.items()} == {
        **dict.fromkeys(search, "search"),
        **dict.fromkeys(llms, "llm"),
    }


async def test_the_names_that_the_flags_speak_of() -> None:
    """The operator's own names count if the wiring maps them."""
    search = {"one": Probe(error=DOWN), "two": Probe()}
    service = HealthService(search, {"mine": Probe()}, searxng=["one", "two"], kimi=["mine"])
    report = await service.check()
    assert report.searxng_connected
    assert report.kimi_coding_available


async def test_component_details() -> None:
    """A healthy component has its message, a failed one the cause and the remedy, a skipped one says so, and a defect
    has no detail.
    """
    search = {
        "well": Probe("12 engines"),
        "down": Probe(error=DOWN),
        "paid": object(),
        "odd": Probe(error=ValueError("inner")),
    }
    components = (await HealthService(search, {}).check()).components
    assert {name: (component.status, component.detail) for name, component in components.items()} == {
        "well": ("healthy", "12 engines"),
        "down": ("unhealthy", DOWN.message),
        "paid": ("unknown", NOT_CHECKED),
        "odd": ("unhealthy", CHECK_FAILED),
    }
    assert all(component.checked_at.utcoffset() is not None for component in components.values())


@pytest.mark.parametrize("deaf", [False, True])
@in_virtual_time
async def test_hanging_upstreams_do_not_hold_it_up(deaf: bool) -> None:
    """With both upstreams hanging, one of which ignores cancellation, the report is in time and names both."""
    probes = Probe(hangs=True, deaf=deaf), Probe(hangs=True, deaf=deaf)
    service = HealthService({"searxng": probes[0]}, {"kimi": probes[1]}, deadline_s=0.05)
    report = await service.check()
    assert asyncio.get_running_loop().time() == pytest.approx(0.05)
    assert report.status == "unhealthy"
    assert report.components["searxng"].detail == "did not answer within 0.05 s"
    for probe in probes:
        probe.let_go.set()
    await asyncio.sleep(0)
    assert DEADLINE_S < 1


async def test_hanging_probe_is_not_called_twice() -> None:
    """A ping that cannot be stopped does not pile up."""
    clock, probe = Clock(), Probe(hangs=True, deaf=True)
    service = HealthService({"searxng": probe}, {}, clock=clock, deadline_s=0.02)
    for _ in range(3):
        assert (await service.check()).status == "unhealthy"
        clock.now += REPORT_TTL_S
    assert probe.asked == 1
    probe.let_go.set()
    await run_ready_tasks()
    clock.now += REPORT_TTL_S
    assert (await service.check()).status == "healthy"
    assert probe.asked == 2


async def test_report_is_cached_for_ten_seconds() -> None:
    """All who ask within ten seconds get the same report, also those who ask at once."""
    clock, probe = Clock(), Probe()
    service = HealthService({"searxng": probe}, {}, clock=clock)
    await asyncio.gather(*(service.check() for _ in range(20)))
    clock.now += REPORT_TTL_S - 0.1
    await service.check()
    assert probe.asked == 1
    probe.error = DOWN
    clock.now += 0.2
    assert (await service.check()).status == "unhealthy"
    assert probe.asked == 2


async def test_cancelled_caller_does_not_cancel_the_shared_check() -> None:
    """A caller that is cancelled leaves the check running for the others."""
    probe = Probe(hangs=True)
    service = HealthService({"searxng": probe}, {}, deadline_s=5)
    impatient, patient = asyncio.create_task(service.check()), asyncio.create_task(service.check())
    await run_ready_tasks()
    impatient.cancel()
    probe.let_go.set()
    assert (await patient).status == "healthy"
    assert probe.asked == 1


@pytest.mark.parametrize(("error", "status"), [(None, "healthy"), (DOWN, "degraded")])
async def test_failing_store_only_degrades(error: Exception | None, status: str) -> None:
    """A shared store such as Redis is a component; without it the platform answers, so its health is degraded."""
    store = Probe(error=error)
    report = await HealthService({"searxng": Probe()}, {}, stores={"redis": store}).check()
    assert report.status == status
    assert report.components["redis"].status == ("healthy" if error is None else "unhealthy")


async def test_a_store_that_has_nothing_to_say_is_left_out() -> None:
    """Files that can be written are no component; those that cannot are."""
    for probe, expected in ((Probe(word=""), {"searxng"}), (Probe(error=DOWN), {"searxng", "store"})):
        report = await HealthService({"searxng": Probe()}, {}, stores={"store": probe}).check()
        assert set(report.components) == expected


class OpenCircuit:
    state: CircuitState = "open"
    failures = 5


@for_each(("state", "status"), [("open", "unhealthy"), ("half_open", "healthy"), ("closed", "healthy")])
async def test_a_provider_with_an_open_circuit_cannot_answer(state: CircuitState, status: str) -> None:
    """A ping may succeed while searches fail; a model that is not checked for its cost is known to fail too."""
    circuit = OpenCircuit()
    circuit.state = state
    circuits = {"search": {"searxng": circuit}, "llm": {"kimi": circuit}}
    report = await HealthService({"searxng": Probe()}, {"kimi": object()}, circuits=circuits).check()
    assert report.status == status
    assert report.components["searxng"].status == status
    assert (report.components["kimi"].status == "unhealthy") is (state == "open")
    assert ("5 calls failed" in report.components["kimi"].detail) is (state == "open")
    assert report.kimi_coding_available is (state != "open")


async def test_the_error_of_a_check_says_more_than_the_circuit() -> None:
    """It names the remedy."""
    service = HealthService({"searxng": Probe(error=DOWN)}, {}, circuits={"search": {"searxng": OpenCircuit()}})
    assert (await service.check()).components["searxng"].detail == DOWN.message
