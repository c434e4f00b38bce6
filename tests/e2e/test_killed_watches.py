"""Watched questions with real processes that are killed.

No run is executed twice, no notice is lost, and each notice keeps its id.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from tests.support.forked_command import forked
from tests.support.loopback_upstream import Loopback, serving
from tests.support.patient_command import patient
from tests.support.server_process import ServerProcess
from tests.support.watched_page import CHANGED, NEW_TOLL, QUESTION, SECRET, TOLL, World

PATIENCE_S = 120.0
KILLS = 5
EXPECTED_RUNS = 2
# The worker polls often. The tests expire leases by hand, which would otherwise take 15 to 120 seconds.
SOON = patient(
    {
        "modules.llm_platform.application.services.watch_worker": {
            "FIRST_LOOK_S": 0.05,
            "LAST_LOOK_S": 0.05,
            "BUSY_POLL_S": 0.05,
            "POLL_S": 0.1,
        }
    }
)


@dataclass
class Server:
    process: ServerProcess
    client: httpx2.AsyncClient

    async def call(self, method: str, path: str, **body: Any) -> Any:
        answer = await self.client.request(method, path, json=body or None)
        assert answer.is_success, answer.text
        return answer.json()

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()

    async def wait_for_runs(self, watch_id: str, runs: int) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_S):
            while (watch := await self.call("GET", f"/watches/{watch_id}"))["runs"] < runs:
                await asyncio.sleep(0.05)
        return dict(watch)


@asynccontextmanager
async def server(host: Loopback, data: Path) -> AsyncIterator[Server]:
    data.mkdir(exist_ok=True)
    log = data / f"server-{len(list(data.glob('server-*.log')))}.log"
    address = host.url.removeprefix("http://")
    env = {
        **os.environ,
        "LLM_PLATFORM_DATA_DIR": str(data),
        "LLM_PLATFORM_PORT": "0",
        "RATE_LIMIT_PER_MINUTE": "0",
        "RATE_LIMIT_GLOBAL_PER_HOUR": "0",
        "READER_ALLOWED_HOSTS": address,
        "READERS": "direct",
        "WEBHOOK_ALLOWED_HOSTS": address,
        "WEBHOOK_SECRET": SECRET,
        "DRAIN_TIMEOUT_S": "1",
    }
    async with forked(("serve",), env, log, SOON) as process:
        async with asyncio.timeout(PATIENCE_S):
            while not (found := re.search(r"http://127\.0\.0\.1:\d+", log.read_text())):
                await asyncio.sleep(0.05)
        async with httpx2.AsyncClient(base_url=found[0], timeout=PATIENCE_S) as client:
            yield Server(process, client)


def change(data: Path, file: str, statement: str) -> None:
    with closing(sqlite3.connect(data / file, timeout=PATIENCE_S)) as connection, connection:
        connection.execute(statement)


def end_leases(data: Path) -> None:
    """Expire the leases and claims of a killed server now."""
    change(data, "researches.sqlite3", "UPDATE research_job SET lease_until = 0")
    change(data, "watches.sqlite3", "UPDATE watch SET lease_until = 0")
    change(data, "watches.sqlite3", "UPDATE watch_notice SET due_at = 0 WHERE status = 'pending'")


def count_jobs(data: Path) -> int:
    with closing(sqlite3.connect(data / "researches.sqlite3", timeout=PATIENCE_S)) as connection:
        return int(connection.execute("SELECT count(*) FROM research_job").fetchone()[0])


async def add(first: Server, host: Loopback) -> str:
    request = {
        "query": QUESTION,
        "every_s": 86_400,
        "urls": [f"{host.url}/bridge"],
        "webhook": f"{host.url}/hook",
    }
    return str((await first.call("POST", "/watches", **request))["id"])


async def test_a_server_killed_during_a_run_leaves_it_to_the_next(tmp_path: Path) -> None:
    """The next server continues the same run and reports its change once."""
    world = World()
    async with serving(world.handle) as host:
        async with server(host, tmp_path) as first:
            watch_id = await add(first, host)
            await first.wait_for_runs(watch_id, 1)
            world.html, world.is_silent = CHANGED, True
            await first.call("POST", f"/watches/{watch_id}/run")
            await asyncio.wait_for(world.reached.wait(), PATIENCE_S)
            await first.kill()
        end_leases(tmp_path)
        world.is_silent = False
        async with server(host, tmp_path) as second:
            await second.wait_for_runs(watch_id, EXPECTED_RUNS)
            [found] = (await second.call("GET", f"/watches/{watch_id}/changes"))["changes"]
            assert (found["was"]["quote"], found["now"]["quote"]) == (TOLL, NEW_TOLL)
            async with asyncio.timeout(PATIENCE_S):
                while not world.told:
                    await asyncio.sleep(0.05)
        assert count_jobs(tmp_path) == EXPECTED_RUNS
        assert world.ids == {f"msg_{watch_id}.2": 1}


async def test_a_server_killed_during_delivery_sends_the_same_id_again(tmp_path: Path) -> None:
    """A notice without a response is sent again with the same id, because the receiver may have taken it."""
    world = World()
    async with serving(world.handle) as host:
        async with server(host, tmp_path) as first:
            watch_id = await add(first, host)
            await first.wait_for_runs(watch_id, 1)
            world.html, world.is_deaf = CHANGED, True
            await first.call("POST", f"/watches/{watch_id}/run")
            await asyncio.wait_for(world.reached.wait(), PATIENCE_S)
            await first.kill()
        end_leases(tmp_path)
        world.is_deaf = False
        async with server(host, tmp_path) as second:
            async with asyncio.timeout(PATIENCE_S):
                while (await second.call("GET", f"/watches/{watch_id}"))["undelivered"] or len(world.told) < 2:
                    await asyncio.sleep(0.05)
        assert world.ids == {f"msg_{watch_id}.2": 2}
        assert world.told[0] == world.told[1]


async def test_servers_killed_at_any_moment_run_once_and_lose_no_notice(tmp_path: Path) -> None:
    """Whenever the servers are killed, each watch run is one background run, and each change is stored once and
    delivered at least once under one id.
    """
    chance = random.Random(7)
    world = World()
    async with serving(world.handle) as host:
        async with server(host, tmp_path) as first:
            watch_id = await add(first, host)
            await first.wait_for_runs(watch_id, 1)
        runs = 1
        for number in range(KILLS):
            world.html = CHANGED if number % 2 == 0 else World().html
            async with server(host, tmp_path) as killed:
                await killed.call("POST", f"/watches/{watch_id}/run")
                await asyncio.sleep(chance.uniform(0.0, 0.6))
                await killed.kill()
            end_leases(tmp_path)
            change(tmp_path, "researches.sqlite3", "UPDATE research_job SET unclean_ends = 0")
            async with server(host, tmp_path) as next_one:
                runs += 1
                await next_one.wait_for_runs(watch_id, runs)
        async with server(host, tmp_path) as last:
            async with asyncio.timeout(PATIENCE_S):
                while len(world.ids) < KILLS:
                    await asyncio.sleep(0.05)
            found = (await last.call("GET", f"/watches/{watch_id}/changes?limit=100"))["changes"]
    assert [one["run"] for one in found] == list(range(KILLS + 1, 1, -1))
    assert count_jobs(tmp_path) == KILLS + 1
    assert set(world.ids) == {f"msg_{watch_id}.{run}" for run in range(2, KILLS + 2)}
