"""Readiness and figures over HTTP, asked with plain sockets."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator

import pytest

from modules.llm_platform.presentation.kafka.worker import http
from modules.llm_platform.presentation.kafka.worker.http import WorkerHttp
from shared.config import SettingsError

HOST = "127.0.0.1"


class Told:
    def __init__(self) -> None:
        self.why: list[str] = []


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
async def port(told: Told) -> AsyncIterator[int]:
    async with WorkerHttp(lambda: told.why, lambda: "a_figure 1\n").listening(HOST, 0) as port:
        yield port


async def ask(port: int, raw: bytes, *, end: bool = False) -> tuple[int, dict[str, str], bytes]:
    """Status (0: no answer), headers, body."""
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        writer.write(raw)
        if end:
            writer.write_eof()
        async with asyncio.timeout(30):
            answer = await reader.read()
    except ConnectionError:
        answer = b""
    finally:
        writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines[1:])
    return int(lines[0].split()[1]) if head else 0, headers, body


def get(path: str, method: str = "GET") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


async def test_ready_says_why_not(port: int, told: Told) -> None:
    """200 while requests are answered, else 503 with all the reasons."""
    status, _, body = await ask(port, get("/ready"))
    assert (status, json.loads(body)) == (200, {"status": "ready", "detail": None, "reasons": []})
    told.why = ["no broker can be reached", "the disk is full"]
    status, _, body = await ask(port, get("/ready?x=1"))
    assert (status, json.loads(body)) == (
        503, {"status": "not ready", "detail": "; ".join(told.why), "reasons": told.why},
    )  # fmt: skip
    assert (await ask(port, get("/health")))[0] == 200


async def test_the_figures_are_text(port: int) -> None:
    """As Prometheus wants them, whole, and not cached on the way."""
    status, headers, body = await ask(port, get("/metrics"))
    assert (status, body) == (200, b"a_figure 1\n")
    assert headers["content-type"].startswith("text/plain; version=0.0.4")
    assert headers["content-length"] == str(len(body))
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (get("/"), 404), (get("/metrics", "POST"), 405), (get("/ready", "HEAD"), 200), (b"\r\n\r\n", 405),
        (b"\xff\xfe\r\n\r\n", 405), (b"GET /ready\r\n\r\n", 200), (b"x" * 20_000, 0), (b"GET /re", 0),
    ],
)  # fmt: skip
async def test_whatever_is_asked(port: int, raw: bytes, status: int) -> None:
    """Nonsense gets an error or nothing, and the next one is answered."""
    answer = await ask(port, raw, end=True)
    assert answer[0] == status
    if raw.startswith(b"HEAD"):
        assert answer[2] == b""
    assert (await ask(port, get("/ready")))[0] == 200


async def test_who_says_nothing_is_hung_up_on(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An open connection costs us a few seconds at most."""
    monkeypatch.setattr(http, "REQUEST_S", 0.05)
    assert (await ask(port, b"GET "))[0] == 0


async def test_more_than_so_many_at_once_get_nothing(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections that are kept open cannot use up the worker."""
    monkeypatch.setattr(http, "AT_ONCE", 1)
    _, waiting = await asyncio.open_connection(HOST, port)
    await asyncio.sleep(0.05)
    assert (await ask(port, get("/ready")))[0] == 0
    waiting.close()
    await waiting.wait_closed()
    async with asyncio.timeout(30):
        while (await ask(port, get("/ready")))[0] != 200:
            await asyncio.sleep(0.02)


async def test_the_next_free_port_is_taken() -> None:
    """It is the one that answers, and is told; where all that may be tried are taken, it is an error."""
    http = WorkerHttp(list, str)
    async with http.listening(HOST, 0) as first, http.listening(HOST, first, tried=50) as second:
        assert first < second < first + 50
        assert (await ask(second, get("/ready")))[0] == 200
        with pytest.raises(SettingsError, match=rf"WORKER_HTTP_PORT {first} to {second} "):
            async with http.listening(HOST, first, second - first + 1):
                pass


async def test_another_reason_than_a_taken_port_is_told_at_once() -> None:
    """An address that is not this machine's has no free port either."""
    with pytest.raises(SettingsError, match=r"WORKER_HTTP_PORT 9100 of 192\.0\.2\.1"):
        async with WorkerHttp(list, str).listening("192.0.2.1", 9100, tried=50):
            pass


async def test_a_port_that_is_taken_is_an_error() -> None:
    """With the variable's name and an example."""
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        with pytest.raises(SettingsError, match=r"WORKER_HTTP_PORT .* Example: WORKER_HTTP_PORT=9101"):
            async with WorkerHttp(list, str).listening(HOST, taken.getsockname()[1]):
                pass
