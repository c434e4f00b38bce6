"""Background runs on one PostgreSQL: any server may execute them, and another server continues the runs of a killed
one.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from tests.e2e.test_background_researches import END_LEASES, PATIENCE_S, server, settled
from tests.services.postgres_server import PostgresServer, opened
from tests.support.loopback_upstream import serving
from tests.support.patient_command import REDIS_LIMITS, patient
from tests.support.redis_server import RedisServer
from tests.support.report_upstream import Upstream
from tests.support.server_process import asleep

from modules.llm_platform.container import build_platform
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.infrastructure.stores.database import migrations
from modules.llm_platform.infrastructure.stores.database.migrations import migrate
from modules.llm_platform.infrastructure.stores.research_jobs.postgres import PostgresResearchJobStore
from shared.config import Settings

pytestmark = pytest.mark.services


async def test_killed_server_and_another_one(postgres: PostgresServer, url: str, tmp_path: Path) -> None:
    """After kill -9 of the server that runs a report, another server with a separate folder finishes it.

    No answered request is repeated, and the events continue there.
    """
    upstream = Upstream(silent_from=14)
    async with (
        serving(upstream.handle) as loopback,
        server(loopback, tmp_path / "one", DATABASE_URL=url) as one,
        server(loopback, tmp_path / "two", DATABASE_URL=url, MAX_BACKGROUND_RESEARCHES="0") as front,
    ):
        name = await front.submit()  # it executes no runs itself
        await asyncio.wait_for(upstream.reached.wait(), PATIENCE_S)
        await asleep(one.process)
        seen = await settled(front, name)
        async with server(loopback, tmp_path / "three", DATABASE_URL=url) as other:
            await one.kill()
            postgres.execute(url, END_LEASES.format("llm_platform."))
            upstream.silent_from, upstream.reached = 10_000, asyncio.Event()
            rest = await front.events(name, after=seen[-1]["number"])
            kinds = [event["type"] for event in rest if event["type"] != "model_progress"]  # every 5 s until the kill
            assert (kinds[0], kinds[-1]) == ("reset", "done")
            assert [event["number"] for event in seen + rest] == list(range(1, len(seen + rest) + 1))
            state = await other.state(name)
            assert (state["status"], state["attempts"]) == ("done", 2)
            assert await front.state(name) == state
            assert not {name: count for name, count in upstream.answered.items() if count > 1}


async def test_researches_are_distributed(url: str, tmp_path: Path) -> None:
    """Each of two servers answers for the other, and each research runs once."""
    upstream = Upstream()
    async with (
        serving(upstream.handle) as loopback,
        server(loopback, tmp_path / "one", DATABASE_URL=url) as one,
        server(loopback, tmp_path / "two", DATABASE_URL=url) as two,
    ):
        names = [await one.submit(query=f"What is heat pump number {n}?", depth="shallow") for n in range(8)]
        ends = await asyncio.gather(*((one, two)[n % 2].events(name) for n, name in enumerate(names)))
        for events in ends:
            kinds = [event["type"] for event in events]
            assert (kinds.count("started"), kinds.count("reset"), kinds[-1]) == (1, 0, "done")


async def test_equal_reports_at_two_servers_are_made_once(url: str, tmp_path: Path) -> None:
    """With Redis, too, one report is made, whichever server begins.

    All clients get its text, and no stage is paid for twice.
    """
    upstream = Upstream()
    body = {"query": "What is made once?", "depth": "report"}
    with RedisServer(tmp_path) as redis:
        shared = {"DATABASE_URL": url, "REDIS_URL": redis.url, "RATE_LIMIT_PER_MINUTE": "0"}
        async with (
            serving(upstream.handle) as loopback,
            server(loopback, tmp_path / "one", patient(REDIS_LIMITS), **shared) as one,
            server(loopback, tmp_path / "two", patient(REDIS_LIMITS), **shared) as two,
        ):
            clients = [one.client, two.client] * 4
            answers = await asyncio.gather(*(client.post("/research", json=body) for client in clients))
    assert [answer.status_code for answer in answers] == [200] * len(clients)
    assert len({answer.json()["synthesis"] for answer in answers}) == 1
    calls = {name: count for name, count in upstream.answered.items() if name.partition(" ")[0] not in ("read", "page")}
    assert calls
    assert set(calls.values()) == {1}, calls


async def test_interrupted_research_continues_at_once(url: str, tmp_path: Path) -> None:
    """A stopping server releases its runs, and another one executes them."""
    upstream = Upstream()
    async with (
        serving(upstream.handle) as loopback,
        server(loopback, tmp_path / "one", DATABASE_URL=url, SEARXNG_TIMEOUT_S=str(PATIENCE_S)) as one,
    ):
        upstream.silent_from = upstream.seen
        name = await one.submit(query="What is interrupted?", depth="shallow")
        await asyncio.wait_for(upstream.reached.wait(), PATIENCE_S)
        upstream.silent_from, upstream.reached = 10_000, asyncio.Event()
        async with server(loopback, tmp_path / "two", DATABASE_URL=url) as two:
            assert await one.stop() == 0
            last = (await two.events(name))[-1]
            assert last["type"] == "done", last


async def test_a_submit_takes_one_statement(postgres: PostgresServer, url: str, tmp_path: Path) -> None:
    """A client waits for the submit, so one statement stores and returns the research, whatever the number of
    connections.
    """
    name = url.rpartition("/")[2]
    postgres.execute("postgres", f"ALTER DATABASE {name} SET log_statement = 'all'")
    settings = Settings(DATABASE_URL=url, LLM_PLATFORM_DATA_DIR=tmp_path, MAX_BACKGROUND_RESEARCHES=0)
    request = ResearchRequest(query="What is a round trip?")
    async with build_platform(settings) as platform:
        await platform.research_jobs.submit(request)  # opens the connections
        before = len(statements(postgres))
        queued = await platform.research_jobs.submit(request)
        sent = [statement for statement in statements(postgres)[before:] if "llm_platform.research_job" in statement]
        assert queued == await platform.research_jobs.get(queued.id)
    assert len(sent) == 1, sent


def statements(postgres: PostgresServer) -> list[str]:
    """Return the statements that the server has received."""
    entries = re.split(r"\n(?!\t)", postgres.log.read_text("utf-8", "replace"))  # a statement goes on after a tab
    return [entry for entry in entries if "LOG:  statement:" in entry or "LOG:  execute " in entry]


async def test_researches_of_the_previous_version_are_run(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A research run that was queued before the migration is claimed after it."""
    url = postgres.new_database()
    with monkeypatch.context() as before:
        before.setattr(migrations, "LATEST", 3)
        await migrate(url)
    request = ResearchRequest(query="What is old?").model_dump_json()
    columns = "INSERT INTO llm_platform.research_job (owner, id, label, request, created_at) VALUES"
    postgres.execute(url, f"{columns} ('', 'a', '', '{request}', 0)")
    assert (await migrate(url))[0] == 3
    async with opened(url) as database:
        job = await PostgresResearchJobStore(database, 1.0).claim("x", 60.0)
    assert job is not None
    assert (job.id, job.request.query, job.traceparent) == ("a", "What is old?", "")
