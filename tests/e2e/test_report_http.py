"""A report over HTTP with `llm-platform serve` as a process: its interfaces, upstream faults, and clients that
disconnect.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from tests.support.forked_command import forked
from tests.support.loopback_upstream import serving
from tests.support.report_upstream import Upstream, environment, report_settings
from tests.support.report_world import SUB_QUESTIONS

from modules.llm_platform.container import build_platform
from modules.llm_platform.presentation.rest.app import create_app
from shared.config import Settings

QUESTION = "How do heat pumps work in cold winters?"
START_S = 120.0
ANSWER_S = 120.0
BUSY_MS = 15_000  # allowance for a slow, busy machine
QUIET_S, QUIET_WITHIN_S = 0.5, 20.0  # longer than any wait for a silent upstream
HANG_SECONDS = 4.0  # max_seconds of a report whose upstreams hang
SECONDS = 60.0  # limit of other requests, also on a busy machine


@asynccontextmanager
async def served(upstream: Upstream, data: Path) -> AsyncIterator[httpx2.AsyncClient]:
    """Yield a client of a new server process that uses `upstream`."""
    async with serving(upstream.handle) as loopback:
        off = {
            "RATE_LIMIT_PER_MINUTE": "0",
            "RATE_LIMIT_GLOBAL_PER_HOUR": "0",
            "LLM_PLATFORM_PORT": "0",
            "CACHE_TTL_S": "0",
        }
        data.mkdir(exist_ok=True)
        log = data / "server.log"
        async with forked(("serve",), {**environment(loopback, data), **off}, log):
            address = await asyncio.wait_for(_address(log), START_S)
            async with httpx2.AsyncClient(base_url=address, timeout=ANSWER_S) as client:
                yield client


@asynccontextmanager
async def served_here(upstream: Upstream, data: Path) -> AsyncIterator[httpx2.AsyncClient]:
    """Yield a client of the application in this process, which starts ten times faster.

    Each application has its own circuit breakers.
    """
    async with serving(upstream.handle) as loopback:
        settings = Settings(
            _env_file=None, CACHE_TTL_S=0, RATE_LIMIT_GLOBAL_PER_HOUR=0, **report_settings(loopback, data)
        )
        app = create_app(build_platform(settings), settings)
        transport = httpx2.ASGITransport(app=app)
        async with (
            app.router.lifespan_context(app),
            httpx2.AsyncClient(transport=transport, base_url="http://localhost", timeout=ANSWER_S) as client,
        ):
            yield client


async def _address(log: Path) -> str:
    while not (found := re.search(r"http://127\.0\.0\.1:\d+", log.read_text())):
        await asyncio.sleep(0.05)
    return found[0]


async def request_report(
    client: httpx2.AsyncClient, query: str, **more: object
) -> tuple[int, dict[str, Any], Mapping[str, str]]:
    answer = await client.post("/research", json={"query": query, "depth": "report", **more})
    return answer.status_code, answer.json(), answer.headers


async def events(client: httpx2.AsyncClient, **body: object) -> list[dict[str, Any]]:
    answer = await client.post("/research", json={"depth": "report", **body}, headers={"Accept": "text/event-stream"})
    return [json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if line.startswith("data: ")]


async def test_every_interface_gives_the_same_report(tmp_path: Path) -> None:
    """Events, their replay, JSON and a form body return the same text.

    The source pages of the quotes are available after each.
    """
    async with served(Upstream(), tmp_path) as client:
        first, again = await events(client, query=QUESTION), await events(client, query=QUESTION)
        # A stored report has no `verified` events, which are the lexical verdicts before the judge is asked.
        assert [event["type"] for event in again] == [event["type"] for event in first if event["type"] != "verified"]
        made, replayed = first[-1]["response"], again[-1]["response"]
        assert made["synthesis"] == "".join(event["text"] for event in first if event["type"] == "token")
        assert replayed["synthesis"] == made["synthesis"]
        assert replayed["metadata"]["stored_at"]
        _, whole, _ = await request_report(client, QUESTION)
        assert whole["citations"] == made["citations"]
        form = await client.post(
            "/research",
            content=json.dumps({"query": QUESTION, "depth": "report"}),
            headers={"Content-Type": "application/x-www-form-urlencoded"},
        )
        assert form.json()["synthesis"] == made["synthesis"]
        for answer in (made, replayed, whole):
            cited = answer["citations"][0]
            url = f"/research/{answer['metadata']['request_id']}/sources/{cited['source_index']}"
            held = (await client.get(url)).json()
            assert held["text"][cited["quote_start"] : cited["quote_end"]] == cited["quote"]
        assert (await client.get(f"/research/{made['metadata']['request_id']}/sources/99")).status_code == 404


async def test_a_plan_is_returned_and_can_be_changed(tmp_path: Path) -> None:
    """POST /research/plan returns sub-questions and the planner. The `plan` of a request is what is searched."""
    async with served(Upstream(), tmp_path) as client:
        plan = (await client.post("/research/plan", json={"query": QUESTION})).json()
        assert plan["questions"] == list(SUB_QUESTIONS)
        assert "@" not in plan["planner"]
        _, answer, _ = await request_report(client, QUESTION, plan=[plan["questions"][1], "Is a heat pump loud?"])
        assert answer["metadata"]["plan"] == [SUB_QUESTIONS[1], "Is a heat pump loud?"]
        status, refused, _ = await request_report(client, QUESTION, max_cost_usd=1.0)
        assert (status, refused["code"]) == (422, "price_unknown")


NO_SEARCH = [
    ("500", 502, "web_search_error"),
    ("403", 503, "web_search_config"),
    ("429", 503, "web_search_blocked"),
    ("garbage", 502, "web_search_error"),
    ("reset", 503, "web_search_connection"),
    ("hang", 503, "timeout"),
]


async def test_failed_searches_fail_the_report(tmp_path: Path) -> None:
    """If every search fails, the provider's error is returned in time as problem+json, or as the last event of a
    stream.
    """
    for number, (fault, status, code) in enumerate(NO_SEARCH):
        upstream = Upstream()
        upstream.faults = {"search": fault}
        async with served_here(upstream, tmp_path / str(number)) as client:
            max_seconds = HANG_SECONDS if fault == "hang" else SECONDS
            got, problem, headers = await request_report(client, QUESTION, max_seconds=max_seconds)
            assert (got, problem["code"]) == (status, code), fault
            assert headers["content-type"] == "application/problem+json"
            assert ("retry-after" in headers) is problem["retryable"]
            told = await events(client, query=QUESTION, max_seconds=max_seconds)
            assert [told[0]["type"], told[-1]["type"]] == ["started", "failed"]
            assert told[-1]["problem"]["code"] == code


ELSEWHERE = [
    *({"model": fault} for fault in ("401", "500", "429", "garbage", "reset", "hang")),
    *({"read": fault, "page": fault} for fault in ("500", "reset", "hang")),
    {"read": "garbage"},
]


async def test_any_other_fault_still_returns_a_cited_report(tmp_path: Path) -> None:
    """Any other fault of a model or a reader returns 200 with citations, and `degraded` names what failed."""
    for number, faults in enumerate(ELSEWHERE):
        upstream = Upstream()
        upstream.faults = faults
        async with served_here(upstream, tmp_path / str(number)) as client:
            max_seconds = HANG_SECONDS if "hang" in faults.values() else SECONDS
            status, answer, _ = await request_report(client, f"{QUESTION} Part {number}", max_seconds=max_seconds)
            assert status == 200, (faults, answer)
            assert answer["citations"], faults
            assert answer["degraded"] or faults == {"read": "garbage"}, faults  # the other reader is used instead
            assert answer["metadata"]["latency_ms"] < max_seconds * 1000 + BUSY_MS


async def test_a_disconnect_stops_the_report(tmp_path: Path) -> None:
    """After a disconnect at any event, no upstream request stays open and none is started."""
    upstream = Upstream()
    async with served(upstream, tmp_path) as client:
        for kind in ("planned", "searched", "read", "token"):
            body = {"query": f"{QUESTION} Until {kind}", "depth": "report", "stream": True}
            async with client.stream("POST", "/research", json=body) as answer:
                async for line in answer.aiter_lines():
                    if line == f"event: {kind}":
                        break
                upstream.silent_from = 0
            await asyncio.wait_for(quiet(upstream), QUIET_WITHIN_S)
            upstream.silent_from = 10_000
            upstream.reached.clear()


async def quiet(upstream: Upstream) -> None:
    """Wait until no request is open and none was started for a while."""
    seen = -1
    while upstream.under_way or upstream.seen != seen:
        seen = upstream.seen
        await asyncio.sleep(QUIET_S)
