"""deploy/nginx/llm-platform.conf in a real nginx with two servers: streams, client addresses, and a stopping server."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from shutil import which

import httpx2
import pytest
from benchmarks.attack_smuggling import FIRST, HIDDEN, KEY, REFUSALS, Attack, attacks, attempt, refused_attacks
from tests.kafka.broker import ROOT, wait_until
from tests.kafka.child_process import free_port
from tests.support.server_process import FORKED, STREAM, TIMEOUT_S, Served, served, until

pytestmark = pytest.mark.services

CLIENTS = 64  # hashed to two servers: all go to one of them in one of many millions of runs
FILLERS_BYTES = (0, 70_000, 300_000, 600_000, 1 << 20, 1 << 20)  # so that a server answers before the body arrives
CONF = ROOT / "deploy" / "nginx" / "llm-platform.conf"
HTTP = """
daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{}}
http {{
    access_log {folder}/access.log;
    client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
    uwsgi_temp_path {folder}; scgi_temp_path {folder};
    include {folder}/default.conf;
}}
"""


def configuration(servers: Sequence[str], port: int, folder: Path) -> str:
    """Return the file with these servers instead of the container names."""
    lines = "".join(f"server {server} max_fails=0;\n" for server in servers)
    text, count = re.subn(r"server api:8000 resolve max_fails=0;", lines, CONF.read_text())
    assert count == 1
    text = text.replace("proxy_read_timeout 45s;", "proxy_read_timeout 5s;")
    text, count = re.subn(r"listen 8080;", f"listen 127.0.0.1:{port};", text)
    assert count == 1
    return text.replace("/var/log/nginx", str(folder))


@asynccontextmanager
async def proxied(folder: Path, servers: Sequence[Served]) -> AsyncIterator[str]:
    port = free_port()
    addresses = [f"{server.client.base_url.host}:{server.client.base_url.port}" for server in servers]
    (folder / "default.conf").write_text(configuration(addresses, port, folder))
    (folder / "nginx.conf").write_text(HTTP.format(folder=folder))
    async with running_nginx(folder, port):
        yield f"http://127.0.0.1:{port}"


@asynccontextmanager
async def running_nginx(folder: Path, port: int) -> AsyncIterator[None]:
    """Run nginx with the folder's `nginx.conf`, which listens on the port."""
    nginx = which("nginx")
    assert nginx is not None, "nginx is not installed: run `make test-services`"
    process = subprocess.Popen([nginx, "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log")])
    try:
        await asyncio.to_thread(wait_until, lambda: _accepts(port), "nginx to listen")
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(TIMEOUT_S)


def _accepts(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


@asynccontextmanager
async def two_servers(folder: Path, **settings: str) -> AsyncIterator[tuple[str, list[Served]]]:
    async with AsyncExitStack() as stack:
        servers = []
        for name in ("one", "two"):
            (folder / name).mkdir()
            servers.append(await stack.enter_async_context(served(FORKED, folder / name, **settings)))
        yield await stack.enter_async_context(proxied(folder, servers)), servers


def client(url: str, address: str = "127.0.0.1") -> httpx2.AsyncClient:
    """Return a client with this loopback address."""
    return httpx2.AsyncClient(
        base_url=url, timeout=TIMEOUT_S, transport=httpx2.AsyncHTTPTransport(local_address=address)
    )


async def test_events_are_not_buffered(tmp_path: Path) -> None:
    """The first event arrives while the search is still running."""
    async with (
        two_servers(tmp_path) as (url, servers),
        client(url) as one,
        one.stream("POST", "/research", json={"query": "What is asyncio?"}, headers=STREAM) as response,
    ):
        lines = response.aiter_lines()
        async with asyncio.timeout(TIMEOUT_S):
            assert await anext(lines)
        for server in servers:
            server.search.gate.set()
        assert "data: " in "\n".join([line async for line in lines])


async def test_limits_count_the_clients_behind_it(tmp_path: Path) -> None:
    """A client cannot change its address by sending the header, and has its own limit."""
    limits = {"TRUSTED_PROXIES": "127.0.0.1", "RATE_LIMIT_PER_MINUTE": "1", "RATE_LIMIT_BURST": "1"}
    async with two_servers(tmp_path, **limits) as (url, servers):
        for server in servers:
            server.search.gate.set()
        async with client(url, "127.0.0.2") as first, client(url, "127.0.0.3") as second:
            answers = [
                (await client.get("/search", params={"q": "x", "format": "json"}, headers={"X-Forwarded-For": forged}))
                for client, forged in ((first, "192.0.2.1"), (first, "192.0.2.2"), (second, "192.0.2.1"))
            ]
        assert [answer.status_code for answer in answers] == [200, 429, 200]


@pytest.mark.parametrize("is_away", [False, True])
async def test_a_query_string_is_in_no_log(tmp_path: Path, is_away: bool) -> None:
    """The query string contains what people search for."""
    async with two_servers(tmp_path) as (url, servers), client(url) as one:
        for server in servers:
            server.search.gate.set()
            if is_away:
                server.process.kill()
                await server.process.wait()
        query = {"q": "confidential"}
        answer = await one.get("/search", params=query)
        assert answer.status_code == (502 if is_away else 200)
    assert "GET /search" in (tmp_path / "access.log").read_text()
    assert not [file for file in tmp_path.rglob("*.log") if "confidential" in file.read_text(errors="replace")]


async def test_a_client_stays_with_its_server(tmp_path: Path) -> None:
    """The sources of an answer are available at the server that made it, for clients with and without a key."""
    async with two_servers(tmp_path) as (url, servers):
        for server in servers:
            server.search.gate.set()
        for number in range(CLIENTS):
            async with client(url) as one:
                headers = {"X-API-Key": f"key-{number}"}
                answer = await one.post("/research", json={"query": "What is asyncio?"}, headers=headers)
                request_id = answer.json()["metadata"]["request_id"]
                source = await one.get(f"/research/{request_id}/sources/1", headers=headers)
                assert source.status_code == 200, source.text
            if number >= 8 and all(server.upstream.requests for server in servers):
                return
        pytest.fail("all clients went to one server")


@pytest.mark.parametrize("outer", ["https", "http"])
async def test_the_search_engine_has_the_scheme_of_the_browser(tmp_path: Path, outer: str) -> None:
    """If TLS ends at an earlier proxy, the OpenSearch address still has the browser's scheme."""
    async with two_servers(tmp_path) as (url, _), client(url) as one:
        answer = await one.get("/opensearch.xml", headers={"X-Forwarded-Proto": outer})
    assert answer.status_code == 200
    assert f'template="{outer}://127.0.0.1' in answer.text


async def test_metrics_are_not_public(tmp_path: Path) -> None:
    """Metrics need no key, so the proxy does not forward them."""
    async with two_servers(tmp_path) as (url, _), client(url) as one:
        assert (await one.get("/metrics")).status_code == 404
        assert (await one.get("/ready")).status_code == 200


async def test_a_server_that_stops_loses_no_request(tmp_path: Path) -> None:
    """A stopping server completes its requests, and the other server gets the new ones."""
    async with two_servers(tmp_path, DRAIN_TIMEOUT_S=str(TIMEOUT_S)) as (url, servers), client(url) as one:
        begun = [
            asyncio.create_task(one.post("/research", json={"query": f"What is {n}?"}, headers={"X-API-Key": f"{n}"}))
            for n in range(CLIENTS)
        ]
        await until(lambda: sum(len(server.upstream.requests) for server in servers) >= CLIENTS)
        assert all(server.upstream.requests for server in servers)
        servers[0].process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(TIMEOUT_S):
            while (await servers[0].client.get("/ready")).status_code == 200:
                await asyncio.sleep(0.02)
        servers[1].search.gate.set()
        later = [
            await one.post("/research", json={"query": "And now?"}, headers={"X-API-Key": f"{n}"}) for n in range(8)
        ]
        assert {answer.status_code for answer in later} == {200}
        servers[0].search.gate.set()
        assert {answer.status_code for answer in await asyncio.gather(*begun)} == {200}
        assert await servers[0].ended() == 0
        after = [
            await one.post("/research", json={"query": "And then?"}, headers={"X-API-Key": f"{n}"}) for n in range(8)
        ]
        assert {answer.status_code for answer in after} == {200}


async def test_no_request_is_smuggled_past_it(tmp_path: Path) -> None:
    """The proxy reuses connections, but no smuggled request reaches a hidden route or another client's response."""
    async with two_servers(tmp_path) as (url, servers):
        for server in servers:
            server.search.gate.set()
        port = int(url.rpartition(":")[2])
        tried = [attack for attack in attacks() if not attack.is_ambiguous]  # nginx decides about those itself
        outcomes = await asyncio.gather(*(asyncio.to_thread(attempt, port, attack) for attack in tried))
        assert not [attack.name for attack, outcome in zip(tried, outcomes, strict=True) if outcome.is_smuggled]
        filler = b"x" * (1 << 20)  # so that a server answers before the body arrives
        next_head = b"POST /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(HIDDEN)
        for _ in range(4):
            body = filler + b"\r\nUpgrade:" + b"x" * 200
            head = b"PUT /health HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
            for sent in (head + body, next_head + HIDDEN, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"):
                outcome = await asyncio.to_thread(attempt, port, Attack("", (sent,)))
                assert not outcome.is_smuggled


@pytest.mark.parametrize("status", REFUSALS)
async def test_no_request_is_smuggled_after_a_refusal(tmp_path: Path, status: int) -> None:
    """This holds for a client without a key and for one above its limit."""
    async with two_servers(tmp_path, **REFUSALS[status], TRUSTED_PROXIES="127.0.0.1") as (url, servers):
        for server in servers:
            server.search.gate.set()
        port = int(url.rpartition(":")[2])
        await asyncio.to_thread(attempt, port, FIRST)
        outcomes = await asyncio.gather(*(asyncio.to_thread(attempt, port, attack) for attack in refused_attacks()))
        assert {outcome.statuses[0] for outcome in outcomes} == {status}
        assert not any(outcome.is_smuggled for outcome in outcomes)


@pytest.mark.parametrize("start", ["PUT /health", "POST /research"])
async def test_another_clients_key_completes_no_request_of_mine(tmp_path: Path, start: str) -> None:
    """A client without a key leaves an incomplete DELETE on the proxy's connection.

    The next client's key never completes it.
    """
    victim = {"X-API-Key": KEY}
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(served(FORKED, tmp_path, LLM_PLATFORM_API_KEYS=KEY))
        server.search.gate.set()
        url = await stack.enter_async_context(proxied(tmp_path, [server]))
        port = int(url.rpartition(":")[2])
        one = await stack.enter_async_context(client(url))
        stored = await one.post("/research", json={"query": "What is asyncio?", "store": True}, headers=victim)
        thread = f"/research/threads/{stored.json()['metadata']['request_id']}"
        # As many bytes as the next head has, and some of its body: a parser skips the ends of lines before a request. What is
        # hidden in that body has a first request, whose answer the proxy takes for the one that it waits for.
        vanishing = b"\r\nUpgrade:" + b"x" * 300
        hidden = b"\r\n" * 250 + HIDDEN + f"DELETE {thread} HTTP/1.1\r\nX-Rest: ".encode()
        for filler_bytes in FILLERS_BYTES:
            for first, body in ((start, b"x" * filler_bytes + vanishing), ("POST /nothing", hidden)):
                head = f"{first} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
                await asyncio.to_thread(attempt, port, Attack("", (head.encode() + body,)))
            answer = await one.get(thread, headers=victim)
            assert answer.status_code == 200
            assert len(answer.json()["researches"]) == 1
        assert (await one.get(thread, headers=victim)).status_code == 200


async def test_a_hanging_server_times_out(tmp_path: Path) -> None:
    """Requests other than JSON research get a 504 after seconds, not after the time limit of a report."""
    async with two_servers(tmp_path) as (url, servers), client(url) as one:
        for server in servers:
            server.process.send_signal(signal.SIGSTOP)
        try:
            answer = await one.get("/health")
            streamed = await one.post("/research", json={"query": "What is asyncio?"}, headers=STREAM)
        finally:
            for server in servers:
                server.process.send_signal(signal.SIGCONT)
        assert [answer.status_code, streamed.status_code] == [504, 504]
