"""Background runs with real processes that are killed, restarted or stopped, and with two servers on one folder."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from tests.support.forked_command import COMMAND_LINE, forked
from tests.support.loopback_upstream import Loopback, serving
from tests.support.patient_command import patient
from tests.support.report_upstream import Upstream, environment
from tests.support.report_world import SUB_QUESTIONS
from tests.support.server_process import ServerProcess, asleep

from modules.llm_platform.domain.concurrency.task_group import cancel_and_wait

QUESTION = "How do heat pumps work in cold winters?"
PATIENCE_S = 120.0
END_LEASES = "UPDATE {}research_job SET lease_until = 0"
# Time in which an attempt may reload stored pages before it writes the text that its caller asked for. The default is 10 s.
FINDS_SOON = {"modules.llm_platform.application.services.research_job_worker": {"EARLY_FINISH_DELAY_S": 5.0}}
SETTINGS = {"LLM_PLATFORM_PORT": "0", "CACHE_TTL_S": "0", "RATE_LIMIT_GLOBAL_PER_HOUR": "0", "DRAIN_TIMEOUT_S": "1"}


@dataclass
class Server:
    """A server process and its HTTP client."""

    process: ServerProcess
    client: httpx2.AsyncClient

    async def submit(self, **body: object) -> str:
        asked = {"query": QUESTION, "depth": "report", "background": True, **body}
        answer = await self.client.post("/research", json=asked)
        assert answer.status_code == 202, answer.text
        assert answer.headers["location"] == f"/research/{answer.json()['id']}"
        return str(answer.json()["id"])

    async def state(self, name: str) -> dict[str, Any]:
        answer = await self.client.get(f"/research/{name}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def events(self, name: str, after: int = 0) -> list[dict[str, Any]]:
        """Return the events with their numbers until the stream ends."""
        answer = await self.client.get(f"/research/{name}/events", headers={"Last-Event-ID": str(after)})
        return decoded(answer.text)

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()

    async def stop(self) -> int:
        self.process.terminate()
        return await asyncio.wait_for(self.process.wait(), PATIENCE_S)


def decoded(text: str) -> list[dict[str, Any]]:
    frames = [frame.splitlines() for frame in text.split("\n\n") if frame.startswith("id: ")]
    return [{**json.loads(lines[2][6:]), "number": int(lines[0][4:])} for lines in frames if len(lines) == 3]


@asynccontextmanager
async def server(loopback: Loopback, data: Path, program: str = COMMAND_LINE, **settings: str) -> AsyncIterator[Server]:
    data.mkdir(exist_ok=True)
    log = data / f"server-{len(list(data.glob('server-*.log')))}.log"
    env = {**environment(loopback, data), **SETTINGS, **settings}
    async with forked(("serve",), env, log, program) as process:
        async with asyncio.timeout(PATIENCE_S):
            while not (found := re.search(r"http://127\.0\.0\.1:\d+", log.read_text())):
                await asyncio.sleep(0.05)
        async with httpx2.AsyncClient(base_url=found[0], timeout=PATIENCE_S) as client:
            yield Server(process, client)


async def read_until_asleep(answer: httpx2.Response, server: Server) -> str:
    """Read an unfinished stream until the server is idle. Waits for at least one part."""
    parts: list[str] = []
    begun = asyncio.Event()

    async def read() -> None:
        async for part in answer.aiter_text():
            parts.append(part)
            begun.set()

    reading = asyncio.create_task(read())
    try:
        await asyncio.wait_for(begun.wait(), PATIENCE_S)
        await asleep(server.process)
    finally:
        await cancel_and_wait(reading)
    return "".join(parts)


async def settled(server: Server, name: str) -> list[dict[str, Any]]:
    """Return the events so far, once the server only waits for its silent upstream. All answers are stored by then."""
    await asleep(server.process)
    async with server.client.stream("GET", f"/research/{name}/events") as answer:
        return decoded(await read_until_asleep(answer, server))


def end_leases(data: Path) -> None:
    """Expire the lease of a killed server now. By itself it expires after 15 seconds."""
    with closing(sqlite3.connect(data / "researches.sqlite3", timeout=PATIENCE_S)) as connection, connection:
        assert connection.execute(END_LEASES.format("")).rowcount == 1


async def test_killed_in_the_middle_of_a_report(tmp_path: Path) -> None:
    """After SIGKILL the next server finishes the report.

    It does not repeat finished work, the event numbers continue, and the answer has its sources.
    """
    upstream = Upstream(silent_from=14)
    async with serving(upstream.handle) as loopback:
        async with server(loopback, tmp_path) as first:
            name = await first.submit()
            await asyncio.wait_for(upstream.reached.wait(), PATIENCE_S)
            seen = await settled(first, name)
            assert (await first.state(name))["status"] == "running"
            await first.kill()
        end_leases(tmp_path)
        answered = upstream.answered.copy()
        assert sum(answered.values()) >= 5
        upstream.silent_from, upstream.reached = 10_000, asyncio.Event()
        async with server(loopback, tmp_path) as second:
            rest = await second.events(name, after=seen[-1]["number"])
            state = await second.state(name)
            assert (state["status"], state["attempts"]) == ("done", 2)
            assert [event["number"] for event in seen + rest] == list(range(1, len(seen + rest) + 1))
            while rest[0]["type"] == "model_progress":  # sent by a pending call between the last read and the kill
                seen.append(rest.pop(0))
            assert (rest[0]["type"], rest[0]["reason"]) == ("reset", "interrupted")
            assert rest[-1]["response"] == state["response"]
            assert state["response"]["metadata"]["plan"] == list(SUB_QUESTIONS)
            tokens = "".join(event["text"] for event in rest if event["type"] == "token")
            assert tokens == state["response"]["synthesis"]
            cited = state["response"]["citations"][0]
            source = (await second.client.get(f"/research/{name}/sources/{cited['source_index']}")).json()
            assert source["text"][cited["quote_start"] : cited["quote_end"]] == cited["quote"]
            repeated = {name: count for name, count in upstream.answered.items() if count > 1}
            assert not repeated
        async with server(loopback, tmp_path) as third:  # the result survives another restart
            assert await third.state(name) == state
            assert await third.events(name, after=seen[-1]["number"]) == rest
            assert (await third.client.get(f"/research/{name}/sources/{cited['source_index']}")).json() == source
            assert await third.stop() == 0


async def test_a_run_that_ended_its_server_twice_is_failed(tmp_path: Path) -> None:
    """A run that was under way in two killed servers is marked failed by the third, with the reason and without another
    call. The server serves other requests.
    """
    upstream = Upstream(silent_from=0)
    async with serving(upstream.handle) as loopback:
        async with server(loopback, tmp_path) as first:
            name = await first.submit(depth="shallow")
            await asyncio.wait_for(upstream.reached.wait(), PATIENCE_S)
            await first.kill()
        end_leases(tmp_path)
        upstream.reached = asyncio.Event()
        async with server(loopback, tmp_path) as second:
            await asyncio.wait_for(upstream.reached.wait(), PATIENCE_S)
            assert (await second.state(name))["attempts"] == 2
            await second.kill()
        end_leases(tmp_path)
        seen, upstream.silent_from, upstream.reached = upstream.seen, 10_000, asyncio.Event()
        async with server(loopback, tmp_path) as third:
            last = (await third.events(name))[-1]
            assert (last["type"], last["problem"]["code"]) == ("failed", "research_interrupted")
            assert "twice" in last["problem"]["detail"]
            state = await third.state(name)
            assert (state["status"], state["attempts"], state["problem"]) == ("failed", 2, last["problem"])
            assert upstream.seen == seen
            assert (await third.client.get("/health")).status_code == 200
            other = await third.submit(depth="shallow")
            assert (await third.events(other))[-1]["type"] == "done"
            assert await third.stop() == 0


async def test_a_report_that_makes_progress_survives_each_kill(tmp_path: Path) -> None:
    """A report that is killed four times, each time after new progress was stored, is finished by the fifth server."""
    upstream = Upstream()
    async with serving(upstream.handle) as loopback:
        name = ""
        for kill in range(4):
            upstream.most_answers, upstream.reached = upstream.answered.total() + 3, asyncio.Event()
            async with server(loopback, tmp_path) as killed:
                name = name or await killed.submit()
                await asyncio.wait_for(upstream.reached.wait(), PATIENCE_S)
                await settled(killed, name)
                assert (await killed.state(name))["attempts"] == kill + 1
                await killed.kill()
            end_leases(tmp_path)
        upstream.most_answers, upstream.reached = 10_000, asyncio.Event()
        async with server(loopback, tmp_path) as last:
            assert (await last.events(name))[-1]["type"] == "done"
            assert (await last.state(name))["attempts"] == 5


async def test_stopped_in_the_middle_of_a_report(tmp_path: Path) -> None:
    """SIGTERM ends the server with exit code 0 and requeues the report.

    The stream of a client ends and can be resumed later.
    """
    upstream = Upstream(silent_from=10)
    async with serving(upstream.handle) as loopback:
        async with server(loopback, tmp_path) as first:
            name = await first.submit()
            await asyncio.wait_for(upstream.reached.wait(), PATIENCE_S)
            following = asyncio.create_task(first.events(name))
            await asyncio.sleep(0.5)
            assert await first.stop() == 0
            seen = await following
        assert seen[-1]["type"] not in ("done", "failed")
        upstream.silent_from, upstream.reached = 10_000, asyncio.Event()
        async with server(loopback, tmp_path) as second:
            rest = await second.events(name, after=seen[-1]["number"])
            assert rest[-1]["type"] == "done"
            assert (await second.state(name))["attempts"] == 1


async def test_finished_early_by_another_server(tmp_path: Path) -> None:
    """A second server on the same folder can finish a report early. The text is written from the pages read so far.

    Finishing an ended or an unknown run is refused.
    """
    upstream = Upstream(silent_pages_from=2)
    async with (
        serving(upstream.handle) as loopback,
        server(loopback, tmp_path) as one,
        server(loopback, tmp_path, MAX_BACKGROUND_RESEARCHES="0") as two,
    ):
        name = await one.submit()
        async with asyncio.timeout(PATIENCE_S):
            while (await two.state(name))["progress"]["summarized"] < 2:
                await asyncio.sleep(0.05)
        asked = await two.client.post(f"/research/{name}/finish")
        assert (asked.status_code, asked.json()["status"]) == (200, "running")
        last = (await two.events(name))[-1]
        assert last["type"] == "done", last
        metadata = last["response"]["metadata"]
        assert (metadata["stopped"], metadata["pages_read"]) == ("asked", 2)
        read = {part.removeprefix("read ") for part in upstream.answered if part.startswith("read ")}
        assert {source["url"] for source in last["response"]["sources"]} <= read
        assert last["response"]["citations"]
        over = await one.client.post(f"/research/{name}/finish")
        assert (over.status_code, over.json()["code"]) == (409, "research_ended")
        unknown = await one.client.post(f"/research/{'0' * 32}/finish")
        assert (unknown.status_code, unknown.json()["code"]) == (404, "research_not_found")


async def test_a_finish_survives_sigkill(tmp_path: Path) -> None:
    """A request to finish early survives SIGKILL. The next server writes from the stored pages without another search."""
    upstream = Upstream(silent_pages_from=2)
    async with serving(upstream.handle) as loopback:
        async with server(loopback, tmp_path, MAX_BACKGROUND_RESEARCHES="0") as idle:
            async with server(loopback, tmp_path) as first:
                name = await first.submit()
                async with asyncio.timeout(PATIENCE_S):
                    while (await first.state(name))["progress"]["summarized"] < 2:
                        await asyncio.sleep(0.05)
                await first.kill()
            end_leases(tmp_path)
            assert (await idle.client.post(f"/research/{name}/finish")).status_code == 200
            searched = {part: count for part, count in upstream.answered.items() if part.startswith("search ")}
            async with server(loopback, tmp_path, patient(FINDS_SOON)) as second:
                last = (await second.events(name))[-1]
                assert last["type"] == "done", last
                metadata = last["response"]["metadata"]
                assert (metadata["stopped"], metadata["pages_read"]) == ("asked", 2)
                assert (await second.state(name))["attempts"] == 2
        assert searched == {part: count for part, count in upstream.answered.items() if part.startswith("search ")}


async def test_two_servers_on_one_folder(tmp_path: Path) -> None:
    """Each run is executed by one of two servers on a folder. Both servers list, stream and cancel all runs."""
    upstream = Upstream()
    async with (
        serving(upstream.handle) as loopback,
        server(loopback, tmp_path) as one,
        server(loopback, tmp_path, MAX_BACKGROUND_RESEARCHES="1") as two,
    ):
        names = [await one.submit(query=f"What is heat pump number {n}?", depth="shallow") for n in range(6)]
        ends = await asyncio.gather(*((one, two)[n % 2].events(name) for n, name in enumerate(names)))
        assert all(events[-1]["type"] == "done" for events in ends)
        assert all([event["type"] for event in events].count("started") == 1 for events in ends)
        listed = (await two.client.get("/research")).json()["researches"]
        assert [job["id"] for job in listed] == names[::-1]
        assert {job["attempts"] for job in listed} == {1}
        upstream.silent_from = 0
        name = await one.submit(query="What is never answered?")
        await asyncio.wait_for(upstream.reached.wait(), PATIENCE_S)
        cancelled = (await two.client.delete(f"/research/{name}")).json()
        assert cancelled["status"] == "cancelled"
        assert (await one.events(name))[-1]["problem"]["code"] == "research_cancelled"
        async with asyncio.timeout(PATIENCE_S):
            while loopback.busy:  # the server that executes the run has stopped it
                await asyncio.sleep(0.1)
