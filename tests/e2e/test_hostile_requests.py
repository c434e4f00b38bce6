"""Hostile requests to a real server process get the right status, in time and without an echo."""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.attack_smuggling import FIRST, REFUSALS, attacks, attempt, fault, refused_attacks
from benchmarks.attacked_server import SERVE, attacked_server
from tests.e2e import hostile_doors
from tests.e2e.hostile_requests import GROUPS, HEAD, MARK, Case
from tests.support.forked_command import COMMAND_LINE, ForkedPython

from modules.llm_platform.presentation.rest.compat.table import DIALECT_OF_PREFIX
from modules.llm_platform.presentation.rest.http.access import get_first_segment

START_S = 180.0
ANSWER_S = 10.0 + 20.0  # ten seconds is the limit for an answer, and the rest allows for a busy machine
SECRET = {"WEBHOOK_SECRET": "whsec_" + "QUJD" * 8}
NO_LIMITS = {"RATE_LIMIT_PER_MINUTE": "0", "RATE_LIMIT_GLOBAL_PER_HOUR": "0"}
LONGEST_REFUSAL = 4096  # bytes
PROBLEM = {"type", "title", "status", "detail", "instance", "code", "retryable", "request_id"}


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Start `llm-platform serve` over a folder without an API key, and yield its port."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "sails.md").write_text("# Solar sails\n\nSolar sails are pushed by light.\n")
    settings = {
        "DOCUMENTS_DIR": str(folder),
        "LLM_PLATFORM_OFFLINE": "true",
        "LLM_PLATFORM_PORT": "0",
        **NO_LIMITS,
        **SECRET,
    }
    settings["EMBEDDER"] = "none"
    settings["LLM_PLATFORM_DATA_DIR"] = str(tmp_path_factory.mktemp("data"))
    log = (folder.parent / "served.log").open("w+")
    server = ForkedPython(COMMAND_LINE, "serve", env={**os.environ, **settings}, stderr=log)
    try:
        yield _port(server, Path(log.name))
    finally:
        server.terminate()
        server.wait(START_S)
        log.close()


def _port(server: ForkedPython, log: Path) -> int:
    until = time.monotonic() + START_S
    while time.monotonic() < until and server.poll() is None:
        if found := re.search(r"http://127\.0\.0\.1:(\d+)", log.read_text()):
            return int(found[1])
        time.sleep(0.05)
    raise AssertionError(f"the server did not start: {log.read_text()}")


async def _answer(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        return await _read(reader)
    finally:
        writer.transport.abort()


async def _read(reader: asyncio.StreamReader) -> bytes:
    """Return the first final response of the connection, and skip 100 Continue."""
    while (head := await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100"):
        pass
    length = re.search(rb"content-length: (\d+)", head)
    return head + (await reader.readexactly(int(length[1])) if length else b"")


def _wrong(case: Case, answer: bytes) -> Iterator[str]:
    head, _, body = answer.partition(b"\r\n\r\n")
    status = int(head[9:12])
    if status not in case.status:
        yield f"{status} instead of {case.status}"
    name = re.search(rb"x-request-id: ([^\r]*)", head)
    if name is None:
        yield "no request id"
    elif case.request_id is not None and name[1].decode() != case.request_id:
        yield "another request id"
    if b"set-cookie" in head.lower():
        yield "a header of the sender's"
    is_rpc = case.target == hostile_doors.MCP_PATH and body.startswith(b'{"jsonrpc"')
    if status >= 400 and (is_rpc or get_first_segment(case.target.partition("?")[0]) in DIALECT_OF_PREFIX):
        yield from _wrong_error(head, body)
    elif status >= 400:
        yield from _wrong_problem(status, head, body)


def _wrong_error(head: bytes, body: bytes) -> Iterator[str]:
    """Yield what is wrong with an error of a compatible API or of MCP."""
    error: dict[str, Any] = json.loads(body)
    error.pop("instance", None)
    error.pop("id", None)  # of JSON-RPC, which repeats the id of the request
    if b"content-type: application/json" not in head or len(body) > LONGEST_REFUSAL:
        yield f"no JSON of a decent size: {body[:80]!r}"
    if MARK in json.dumps(error):
        yield "an echo"


def _wrong_problem(status: int, head: bytes, body: bytes) -> Iterator[str]:
    if b"content-type: application/problem+json" not in head or len(body) > LONGEST_REFUSAL:
        yield f"no problem of a decent size: {body[:80]!r}"
        return
    problem: dict[str, Any] = json.loads(body)
    if not problem.keys() >= PROBLEM or problem["status"] != status:
        yield f"an incomplete problem: {sorted(problem)}"
    if status == 422 and not problem["errors"]:
        yield "no word on what is wrong"
    del problem["instance"]  # the path, which the sender knows
    if MARK in json.dumps(problem):
        yield "an echo"


@pytest.mark.parametrize("group", [*GROUPS, *hostile_doors.GROUPS], ids=lambda group: group.__name__)
async def test_hostile_requests_are_answered_correctly(group: Callable[[], Iterator[Case]], port: int) -> None:
    """Every hostile request gets an accepted status in ten seconds and a request id.

    Every refusal is a complete problem document that repeats nothing of the request.
    """
    faults = []
    for case in group():
        async with asyncio.timeout(ANSWER_S):
            answer = await _answer(port, case.bytes())
        faults += [f"{case} ({fault})" for fault in _wrong(case, answer)]
    assert not faults, "\n".join(faults)


def test_there_are_many_cases() -> None:
    """The generator still produces many cases."""
    assert sum(1 for group in GROUPS for _ in group()) > 500
    assert sum(1 for group in hostile_doors.GROUPS for _ in group()) > 1500


async def test_internal_pages_are_never_read(port: int) -> None:
    """No interface reads pages of this machine or of its private network."""
    for target, failed in (("/open-webui/load", "error"), ("/tavily/extract", "failed_results")):
        urls = [*hostile_doors.INSIDE, f"http://127.0.0.1:{port}/health", f"http://localhost:{port}/metrics"]
        case = Case("inside", (200,), target=target, body=json.dumps({"urls": urls[:20]}).encode())
        async with asyncio.timeout(ANSWER_S * 2):
            answer = json.loads((await _answer(port, case.bytes())).partition(b"\r\n\r\n")[2])
        if failed == "error":
            assert [page["page_content"] for page in answer] == [""] * 20
            assert all(page["metadata"]["error"] for page in answer)
        else:
            assert (answer["results"], len(answer[failed])) == ([], 20)


async def test_a_body_after_an_offer_to_upgrade(port: int) -> None:
    """A request with an h2c upgrade offer, as Java's client sends it, has its body read, also if the body arrives in a
    second segment.
    """
    head = f"{HEAD}Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 24\r\n\r\n".encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head)
    await writer.drain()
    await asyncio.sleep(0.05)
    writer.write(b'{"query": "solar sails"}')
    async with asyncio.timeout(ANSWER_S):
        answer = await _read(reader)
    writer.close()
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"pushed by light" in answer


async def test_no_request_is_smuggled(port: int) -> None:
    """No byte of a body is parsed as a request. Ambiguous heads and chunks are refused."""
    tried = list(attacks())
    outcomes = await asyncio.gather(*(asyncio.to_thread(attempt, port, attack) for attack in tried))
    faults = [f"{attack.name}: {fault(attack, outcome)}" for attack, outcome in zip(tried, outcomes, strict=True)]
    assert not [found for found in faults if not found.endswith(": ")]
    assert all(outcome.statuses for outcome in outcomes)


@pytest.mark.parametrize("status", REFUSALS)
async def test_no_request_is_smuggled_after_a_refusal(status: int, tmp_path: Path) -> None:
    """A request without a key or above the rate limit is refused before its body has arrived.

    No byte of the body is then parsed as a request.
    """
    with attacked_server(SERVE, tmp_path, **REFUSALS[status]) as server:
        attempt(server.port, FIRST)
        tried = list(refused_attacks())
        outcomes = await asyncio.gather(*(asyncio.to_thread(attempt, server.port, attack) for attack in tried))
    assert [outcome.statuses for outcome in outcomes] == [(status,)] * len(tried)
    assert not any(outcome.is_smuggled for outcome in outcomes)
