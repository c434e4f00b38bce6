"""Server processes with more research runs than allowed, with clients that disconnect, and after SIGTERM."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import httpx2
import pytest
from tests.support.server_process import (
    FORKED,
    FORKED_SERVERS,
    SERVERS,
    STREAM,
    TIMEOUT_S,
    Served,
    events_of,
    served,
    until,
)


async def test_more_researches_than_allowed_are_refused(tmp_path: Path) -> None:
    """With two slots, two research runs execute, two wait, and the others get 503, streamed or not.

    The probes answer meanwhile.
    """
    async with served(FORKED, tmp_path, MAX_CONCURRENT_RESEARCHES="2") as server:
        await fill_the_slots(server)
        server.search.gate.clear()
        server.upstream.requests.clear()
        answers = await fill_the_slots(server, **STREAM)
        assert {events_of(answer)[-1]["type"] for answer in answers if answer.status_code == 200} == {"done"}


async def fill_the_slots(server: Served, **headers: str) -> list[httpx2.Response]:
    """Return the answers to twelve requests, of which two run, two wait and eight are refused."""
    running = [server.research(number, **headers) for number in range(2)]
    await until(lambda: len(server.upstream.requests) == 2)
    others = [server.research(number, **headers) for number in range(2, 12)]
    await until(lambda: sum(task.done() for task in others) == 8)
    for task in [task for task in others if task.done()]:
        refused = task.result()
        assert (refused.status_code, refused.json()["code"], refused.json()["retryable"]) == (503, "overloaded", True)
        assert int(refused.headers["retry-after"]) >= 1
    assert (await server.client.get("/ready")).status_code == 200
    assert (await server.client.get("/health")).status_code == 200
    searches = [request for request in server.upstream.requests if request.path.startswith("/search")]
    assert len(searches) <= 3  # /health makes one request
    server.search.gate.set()
    answers = await asyncio.gather(*running, *others)
    assert sorted(answer.status_code for answer in answers) == [200] * 4 + [503] * 8
    return answers


@pytest.mark.parametrize("kind", FORKED_SERVERS)
async def test_client_that_leaves_stops_its_research(tmp_path: Path, kind: str) -> None:
    """A disconnect cancels the upstream call and frees the slot for the next client, with and without a stream."""
    async with served(kind, tmp_path, MAX_CONCURRENT_RESEARCHES="1") as server:
        for number in range(6):
            leaving = server.research(number, **(STREAM if number % 2 else {}))
            await until(lambda: server.upstream.busy == 1)
            leaving.cancel()
            await until(lambda: server.upstream.busy == 0)
        assert len(server.upstream.requests) == 6
        server.search.gate.set()
        assert (await server.research(9)).status_code == 200


@pytest.mark.parametrize("kind", SERVERS)
async def test_running_requests_finish_after_sigterm(tmp_path: Path, kind: str) -> None:
    """After SIGTERM, /ready and new requests return 503 at once. Running requests finish, and the process exits with 0."""
    async with served(kind, tmp_path, DRAIN_TIMEOUT_S=str(TIMEOUT_S)) as server:
        plain, streamed = server.research(1), server.research(2, **STREAM)
        await until(lambda: server.upstream.busy == 2)
        server.process.send_signal(signal.SIGTERM)
        for _ in range(200):
            if (ready := await server.client.get("/ready")).status_code == 503:
                break
        assert (ready.status_code, ready.json()["code"]) == (503, "not_serving")
        assert (await server.research(3)).status_code == 503
        await asyncio.sleep(0.5)  # by now uvicorn's own shutdown would have closed the sockets
        assert (await server.client.get("/ready")).status_code == 503
        server.search.gate.set()
        assert (await plain).status_code == 200
        assert events_of(await streamed)[-1]["type"] == "done"
        assert await server.ended() == 0


async def test_all_processes_of_a_server_drain(tmp_path: Path) -> None:
    """With `uvicorn --workers 2`, running requests of both processes finish, and the server exits with 0."""
    async with served("workers", tmp_path, DRAIN_TIMEOUT_S=str(TIMEOUT_S)) as server:
        await until_ready(server)
        researches = [server.research(number) for number in range(8)]
        await until(lambda: server.upstream.busy == 8)
        server.process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.5)  # by now uvicorn's own shutdown would have cancelled the requests
        server.search.gate.set()
        assert [(await research).status_code for research in researches] == [200] * 8
        assert await server.ended() == 0


async def until_ready(server: Served) -> None:
    """Wait until the worker processes answer. They start after the address is logged."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            try:
                await server.client.get("/ready")
            except httpx2.TransportError:
                await asyncio.sleep(0.1)
            else:
                return


@pytest.mark.parametrize("kind", FORKED_SERVERS)
async def test_requests_that_cannot_finish_end_with_an_error(tmp_path: Path, kind: str) -> None:
    """After the drain timeout a stream ends with `failed` and a plain request with 503. The process exits with 0."""
    async with served(kind, tmp_path, DRAIN_TIMEOUT_S="0.3") as server:
        plain, streamed = server.research(1), server.research(2, **STREAM)
        await until(lambda: server.upstream.busy == 2)
        server.process.send_signal(signal.SIGTERM)
        refused, events = await plain, events_of(await streamed)
        assert (refused.status_code, refused.json()["code"], "retry-after" in refused.headers) == (
            503,
            "not_serving",
            True,
        )
        assert (events[0]["type"], events[-1]["type"]) == ("started", "failed")
        assert (events[-1]["problem"]["code"], events[-1]["problem"]["retryable"]) == ("not_serving", True)
        assert await server.ended() == 0
        assert server.upstream.busy == 0


@pytest.mark.parametrize("kind", FORKED_SERVERS)
async def test_second_sigterm_ends_the_drain(tmp_path: Path, kind: str) -> None:
    """A second SIGTERM ends the drain of an hour. The stream still ends with `failed`, and the log has no traceback."""
    async with served(kind, tmp_path, DRAIN_TIMEOUT_S="3600") as server:
        streamed = server.research(1, **STREAM)
        await until(lambda: server.upstream.busy == 1)
        server.process.send_signal(signal.SIGTERM)
        for _ in range(200):
            if (await server.client.get("/ready")).status_code == 503:
                break
        server.process.send_signal(signal.SIGTERM)
        assert events_of(await streamed)[-1]["type"] == "failed"
        assert await server.ended() == 0
        assert "Traceback" not in server.log.read_text()
