"""Readiness and metrics over HTTP, on plain sockets."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from modules.llm_platform.presentation.kafka.worker import http
from modules.llm_platform.presentation.kafka.worker.consumer import ConsumerState
from modules.llm_platform.presentation.kafka.worker.handler import HandlerCounters
from modules.llm_platform.presentation.kafka.worker.http import WorkerHttp, render_metrics
from shared.config import SettingsError

HOST = "127.0.0.1"


class State:
    def __init__(self) -> None:
        self.reasons: list[str] = []


@pytest.fixture
def state() -> State:
    return State()


@pytest.fixture
async def port(state: State) -> AsyncIterator[int]:
    async with WorkerHttp(lambda: state.reasons, lambda: "a_metric 1\n").listening(HOST, 0) as port:
        yield port


async def send(port: int, raw: bytes, *, is_closed: bool = False) -> tuple[int, dict[str, str], bytes]:
    """Return the status (0: no response), headers and body."""
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        writer.write(raw)
        if is_closed:
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


async def test_ready_lists_reasons(port: int, state: State) -> None:
    """200 while requests are answered, else 503 with all reasons."""
    status, _, body = await send(port, get("/ready"))
    assert (status, json.loads(body)) == (200, {"status": "ready", "detail": None, "reasons": []})
    state.reasons = ["no broker can be reached", "the disk is full"]
    status, _, body = await send(port, get("/ready?x=1"))
    assert (status, json.loads(body)) == (
        503,
        {"status": "not ready", "detail": "; ".join(state.reasons), "reasons": state.reasons},
    )
    assert (await send(port, get("/health")))[0] == 200


async def test_metrics_are_prometheus_text(port: int) -> None:
    """Complete, and not cached."""
    status, headers, body = await send(port, get("/metrics"))
    assert (status, body) == (200, b"a_metric 1\n")
    assert headers["content-type"].startswith("text/plain; version=0.0.4")
    assert headers["content-length"] == str(len(body))
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (get("/"), 404),
        (get("/metrics", "POST"), 405),
        (get("/ready", "HEAD"), 200),
        (b"\r\n\r\n", 405),
        (b"\xff\xfe\r\n\r\n", 405),
        (b"GET /ready\r\n\r\n", 200),
        (b"x" * 20_000, 0),
        (b"GET /re", 0),
    ],
)
async def test_invalid_request_gets_an_error_or_nothing(port: int, raw: bytes, status: int) -> None:
    """The next request is answered."""
    answer = await send(port, raw, is_closed=True)
    assert answer[0] == status
    if raw.startswith(b"HEAD"):
        assert answer[2] == b""
    assert (await send(port, get("/ready")))[0] == 200


@pytest.mark.parametrize(
    ("hosts", "status"),
    [
        (["127.0.0.1:9100"], 200),
        (["worker"], 200),
        ([], 200),
        (["evil.test"], 421),
        (["localhost", "evil.test:9100"], 421),
    ],
)
async def test_foreign_host_is_refused_on_loopback(port: int, hosts: list[str], status: int) -> None:
    """Metrics contain costs, so a page must not read them through DNS rebinding."""
    lines = "".join(f"Host: {host}\r\n" for host in hosts)
    for path in ("/metrics", "/ready", "/health"):
        assert (await send(port, f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode()))[0] == status


async def test_slow_request_times_out(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An open connection costs us a few seconds at most."""
    monkeypatch.setattr(http, "REQUEST_TIMEOUT_S", 0.05)
    assert (await send(port, b"GET "))[0] == 0


async def test_connections_are_limited(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Open connections cannot exhaust the worker."""
    monkeypatch.setattr(http, "MAX_CONNECTIONS", 1)
    _, waiting = await asyncio.open_connection(HOST, port)
    async with asyncio.timeout(30):
        while (await send(port, get("/ready")))[0] != 0:  # until the server has accepted the first connection
            await asyncio.sleep(0.02)
    waiting.close()
    await waiting.wait_closed()
    async with asyncio.timeout(30):
        while (await send(port, get("/ready")))[0] != 200:
            await asyncio.sleep(0.02)


async def test_next_free_port_is_used() -> None:
    """When all allowed ports are taken, it is an error."""
    http = WorkerHttp(list, str)
    async with http.listening(HOST, 0) as first, http.listening(HOST, first, max_ports=50) as second:
        assert first < second < first + 50
        assert (await send(second, get("/ready")))[0] == 200
        with pytest.raises(SettingsError, match=rf"WORKER_HTTP_PORT {first} to {second} "):
            async with http.listening(HOST, first, second - first + 1):
                pass


async def test_other_bind_errors_are_not_retried() -> None:
    """An address of another machine has no free port."""
    with pytest.raises(SettingsError, match=r"WORKER_HTTP_PORT 9100 of 192\.0\.2\.1"):
        async with WorkerHttp(list, str).listening("192.0.2.1", 9100, max_ports=50):
            pass


async def test_taken_port_is_an_error() -> None:
    """With the variable's name and an example."""
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        with pytest.raises(SettingsError, match=r"WORKER_HTTP_PORT .* Example: WORKER_HTTP_PORT=9101"):
            async with WorkerHttp(list, str).listening(HOST, taken.getsockname()[1]):
                pass


PREFIX = "llm_platform_worker_"


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Each sample by its name and labels, as Prometheus would read it."""
    found = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    assert all(sample.name.startswith(PREFIX) for sample in found)
    return {(sample.name.removeprefix(PREFIX), tuple(sorted(sample.labels.items()))): sample.value for sample in found}


def worker(*reasons: str) -> SimpleNamespace:
    state = ConsumerState(2, True)
    lag = {("rag_search_request", 1): 7, ("rag_search_request", 0): 3}
    return SimpleNamespace(
        not_ready=lambda: reasons,
        lag_monitor=SimpleNamespace(lag=lag, stalled={("rag_search_request", 1): 31.0}, age_s=lambda: 1.5),
        scheduler=SimpleNamespace(in_flight=5, waiting=6),
        consumer=SimpleNamespace(state=state, committer=SimpleNamespace(age_s=lambda: 0.25)),
    )


def test_all_metrics_are_exported() -> None:
    """Lag by partition, requests in flight, outcomes by stage and code, the age of uncommitted work."""
    counters = HandlerCounters()
    counters.outcomes["search", "ok"] = 40
    counters.outcomes["answer", "llm_failed"] = 2
    counters.duplicates["search"] = 3
    counters.reused_ids["search"] = 1
    counters.store_waits = 4
    assert samples(render_metrics(worker(), counters)) == {  # type: ignore[arg-type]
        ("ready", ()): 1,
        ("brokers_up", ()): 2,
        ("in_flight", ()): 5,
        ("waiting", ()): 6,
        ("lag", (("partition", "0"), ("topic", "rag_search_request"))): 3,
        ("lag", (("partition", "1"), ("topic", "rag_search_request"))): 7,
        ("lag_age_seconds", ()): 1.5,
        ("stalled_partitions", ()): 1,
        ("commit_age_seconds", ()): 0.25,
        ("outcomes_total", (("code", "llm_failed"), ("stage", "answer"))): 2,
        ("outcomes_total", (("code", "ok"), ("stage", "search"))): 40,
        ("repeated_total", (("stage", "search"),)): 3,
        ("request_id_reused_total", (("stage", "search"),)): 1,
        ("store_waits_total", ()): 4,
    }


def test_each_metric_has_help_and_type() -> None:
    """Once, also without samples."""
    text = render_metrics(worker("stopping"), HandlerCounters())  # type: ignore[arg-type]
    helped = re.findall(r"(?m)^# HELP (\S+) \S.*$", text)
    assert len(helped) == len(set(helped)) == 12
    assert re.findall(r"(?m)^# TYPE (\S+) (?:gauge|counter)$", text) == helped
    assert samples(text)["ready", ()] == 0


def test_counter_is_exact() -> None:
    """Whatever it counters up to."""
    counters = HandlerCounters()
    counters.outcomes["search", "ok"] = 12_345_678
    text = render_metrics(worker(), counters)  # type: ignore[arg-type]
    assert samples(text)["outcomes_total", (("code", "ok"), ("stage", "search"))] == 12_345_678
