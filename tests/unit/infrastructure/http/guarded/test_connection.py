"""infrastructure/http/guarded/connection.py over real sockets on loopback: TLS checks the name, not the address."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support.loopback_upstream import drip, hang_up, reply, serving, silence

from modules.llm_platform.domain.exceptions import PageConnectionError, PageError
from modules.llm_platform.infrastructure.http.guarded.connection import PinnedConnections
from modules.llm_platform.infrastructure.http.guarded.guard import AllowedHosts, Guard, SystemResolver
from modules.llm_platform.infrastructure.http.guarded.url import parse_address
from modules.llm_platform.infrastructure.pages.fetch import PageRequest, SafeFetcher
from modules.llm_platform.testing.waiting import CANCEL_TIMEOUT_S, CLOSE_TIMEOUT_S, becomes_true

PEM = Path(__file__).with_name("pages.example.net.pem")  # test key and certificate, used nowhere else
WANTED = PageRequest({"text/*", ""})


class Loopback:
    """Every name is this machine."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]


def fetching(tls: ssl.SSLContext | None = None) -> SafeFetcher:
    return SafeFetcher(Guard(Loopback(), AllowedHosts(["127.0.0.0/8"])), PinnedConnections(tls=tls))


@asynccontextmanager
async def tls_server(names: list[str | None]) -> AsyncIterator[int]:
    """A server with the certificate of pages.example.net; `names` are those that were asked for."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)
    context.sni_callback = lambda connection, name, ours: names.append(name)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\ntext")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


async def test_the_certificate_is_that_of_the_name() -> None:
    """The address is dialled, the name is asked for and proved."""
    names: list[str | None] = []
    async with tls_server(names) as port:
        trusting = fetching(ssl.create_default_context(cafile=str(PEM)))
        page = await trusting.get(parse_address(f"https://pages.example.net:{port}/"), WANTED)
    assert page.body == b"text"
    assert names == ["pages.example.net"]


@pytest.mark.parametrize("trusted", [True, False])
async def test_another_name_or_authority_is_refused(trusted: bool) -> None:
    """A certificate for another name or from an unknown authority is refused."""
    host = "other.example.net" if trusted else "pages.example.net"
    async with tls_server([]) as port:
        tls = ssl.create_default_context(cafile=str(PEM)) if trusted else None
        with pytest.raises(PageConnectionError):
            await fetching(tls).get(parse_address(f"https://{host}:{port}/"), WANTED)


async def test_a_page_over_a_real_socket() -> None:
    """The reader ignores proxy variables of the environment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        patch.setenv("ALL_PROXY", "http://127.0.0.1:9")
        async with serving(reply(200, b"text", "Content-Type: text/plain")) as server:
            page = await fetching().get(parse_address(f"{server.url}/a?b"), WANTED)
    assert page.body == b"text"
    assert server.requests[0].path == "/a?b"


async def test_connection_is_refused() -> None:
    """A refused connection is a connection error."""
    with pytest.raises(PageConnectionError):
        await fetching().get(parse_address("http://127.0.0.1:9/"), WANTED)


async def test_a_server_that_hangs_up_at_once() -> None:
    """That is an error of the server."""
    async with serving(hang_up) as server:
        with pytest.raises((PageConnectionError, PageError)):
            await fetching().get(parse_address(server.url), WANTED)


@pytest.mark.parametrize("handler", [silence, drip])
async def test_cancelling_closes_the_socket(handler: object) -> None:
    """It returns at once, and the server, which never ends, sees that it has gone."""
    async with serving(handler) as server:  # type: ignore[arg-type]
        task = asyncio.create_task(fetching().get(parse_address(server.url), PageRequest({"application/json"})))
        while not server.busy:
            await asyncio.sleep(0.005)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=CANCEL_TIMEOUT_S)
        assert done
        assert task.cancelled()
        assert await becomes_true(lambda: not server.busy, CLOSE_TIMEOUT_S)


async def test_the_systems_resolver() -> None:
    """It gives addresses once each, and OSError for what does not exist."""
    resolver = SystemResolver()
    try:
        assert "127.0.0.1" in await resolver.resolve("localhost", 80)
        with pytest.raises(OSError, match="known"):
            await resolver.resolve("nowhere.invalid", 80)
        with pytest.raises(OSError, match="not a name"):
            await resolver.resolve("a" * 64 + ".example", 80)
    finally:
        await resolver.aclose()
