"""The connections to an upstream."""

from __future__ import annotations

import asyncio
import gc
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest
from tests.support.cases import for_each
from tests.support.loopback_upstream import Exchange, json_reply, serving

from modules.llm_platform.infrastructure.http.aiohttp_transport import AiohttpTransport
from modules.llm_platform.infrastructure.http.client import NEVER_SENT, get_body_end, make_client, read_chunks
from modules.llm_platform.testing.waiting import CLOSE_TIMEOUT_S, becomes_true

PEM = Path(__file__).parent / "guarded" / "pages.example.net.pem"
MAX_BUFFERED_BYTES = 1 << 20  # three reads of 256 KiB are usual
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class _Gate:
    """Answers when it is opened."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()

    async def __call__(self, exchange: Exchange) -> None:
        await self.opened.wait()
        await exchange.send(ANSWER)


async def _at_once(client: httpx2.AsyncClient, number: int) -> list[asyncio.Task[httpx2.Response]]:
    return [asyncio.create_task(client.get("/")) for _ in range(number)]


async def test_requests_beyond_the_limit_wait_for_a_connection() -> None:
    """And get it in the order of their arrival."""
    gate, limits = _Gate(), httpx2.Limits(max_connections=2)
    async with serving(gate) as server, make_client(server.url, limits=limits) as client:
        requests = await _at_once(client, 5)
        assert await becomes_true(lambda: server.busy == 2, CLOSE_TIMEOUT_S)
        gate.opened.set()
        await asyncio.gather(*requests)
    assert (server.connections, len(server.requests)) == (2, 5)


async def test_a_request_without_a_connection_times_out() -> None:
    """The error says that nothing was sent. A cancelled request leaves no connection or slot."""
    gate, limits = _Gate(), httpx2.Limits(max_connections=1)
    async with serving(gate) as server, make_client(server.url, limits=limits) as client:
        (running,) = await _at_once(client, 1)
        assert await becomes_true(lambda: server.busy == 1, CLOSE_TIMEOUT_S)
        with pytest.raises(NEVER_SENT):
            await client.get("/", timeout=httpx2.Timeout(None, pool=0.01))
        (waiting,) = await _at_once(client, 1)
        await asyncio.sleep(0)
        waiting.cancel()
        gate.opened.set()
        assert (await running).status_code == 200
        assert (await client.get("/")).status_code == 200


async def _hang_up(exchange: Exchange) -> None:
    raise ConnectionResetError


async def _break_off(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}")
    raise ConnectionResetError


async def _no_http(exchange: Exchange) -> None:
    await exchange.send(b"SSH-2.0-OpenSSH_9.6\r\n")


async def _never(exchange: Exchange) -> None:
    await asyncio.Event().wait()


@for_each("handler", [_hang_up, _break_off, _no_http, _never])
async def test_a_failed_request_leaves_nothing_behind(handler: Callable[[Exchange], Awaitable[None]]) -> None:
    """Its connection is closed and its slot is free."""
    async with serving(handler) as server, make_client(server.url, limits=httpx2.Limits(max_connections=1)) as client:
        for _ in range(3):
            with pytest.raises(httpx2.TransportError):
                await client.get("/", timeout=httpx2.Timeout(5.0, read=0.05 if handler is _never else 5.0))
        server.handler = json_reply({})
        assert (await client.get("/")).status_code == 200


async def test_an_unread_response_does_not_keep_its_connection() -> None:
    """The rest of its body would be read as the next answer."""
    async with serving(json_reply({"a": "b" * 300_000})) as server, make_client(server.url) as client:
        for _ in range(2):
            async with client.stream("GET", "/"):
                pass
    assert server.connections == 2


async def _send_two_answers(exchange: Exchange) -> None:
    await exchange.send(ANSWER + b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nother")


async def test_what_follows_a_response_is_no_answer_to_the_next_request() -> None:
    """A server that sends one answer too many would give each request the answer of the one before."""
    async with serving(_send_two_answers) as server, make_client(server.url) as client:
        assert [(await client.get("/")).text for _ in range(3)] == ["{}"] * 3
    assert server.connections == 3


@pytest.mark.parametrize("in_one_record", [True, False])
async def test_what_follows_a_response_inside_tls_is_no_answer_either(in_one_record: bool) -> None:
    """TLS has read it from the socket, which is no longer readable."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(PEM)
    no_check = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    no_check.check_hostname, no_check.verify_mode = False, ssl.CERT_NONE
    parts = [ANSWER, ANSWER.replace(b"{}", b"no")]

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.writelines([b"".join(parts)] if in_one_record else parts)
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    async with server, httpx2.AsyncClient(transport=AiohttpTransport(no_check, httpx2.Limits())) as client:
        assert [(await client.get(f"https://127.0.0.1:{port}/")).text for _ in range(3)] == ["{}"] * 3


@for_each(
    ("limits", "connections"),
    [
        (httpx2.Limits(max_keepalive_connections=0), 3),
        (httpx2.Limits(keepalive_expiry=0.0), 3),
        (httpx2.Limits(keepalive_expiry=None), 1),
        (httpx2.Limits(max_connections=None), 1),
    ],
)
async def test_idle_connections_are_limited(limits: httpx2.Limits, connections: int) -> None:
    """By their number and their age."""
    async with serving(json_reply({})) as server, make_client(server.url, limits=limits) as client:
        for _ in range(3):
            await client.get("/")
            await asyncio.sleep(0.002)
    assert server.connections == connections


async def test_each_address_has_separate_connections() -> None:
    """A response never comes from another server."""
    async with (
        serving(json_reply({"from": 1})) as one,
        serving(json_reply({"from": 2})) as two,
        make_client() as client,
    ):
        for _ in range(2):
            assert (await client.get(one.url)).json() == {"from": 1}
            assert (await client.get(two.url)).json() == {"from": 2}
    assert (one.connections, two.connections) == (1, 1)


async def test_an_address_of_another_kind_is_refused() -> None:
    """As httpx2 does it."""
    async with make_client() as client:
        with pytest.raises(httpx2.UnsupportedProtocol):
            await client.get("ftp://127.0.0.1/")


async def test_closing_ends_all_connections() -> None:
    """Also those whose request runs."""
    async with serving(_never) as server:
        client = make_client(server.url)
        requests = await _at_once(client, 2)
        assert await becomes_true(lambda: server.busy == 2, CLOSE_TIMEOUT_S)
        await client.aclose()
        results = await asyncio.gather(*requests, return_exceptions=True)
    assert all(isinstance(result, httpx2.TransportError) for result in results)


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"


class _ClosesAfterItsStream:
    """As llama.cpp's server: a complete stream without `Connection: close`, then the end of the connection."""

    def __init__(self) -> None:
        self.answered: set[asyncio.StreamWriter] = set()
        self.partial = b""  # part of a response to a second request of a connection

    async def __call__(self, exchange: Exchange) -> None:
        if exchange.writer in self.answered:  # the request came before the client saw the end of the connection
            await exchange.send(self.partial)
            raise ConnectionResetError
        self.answered.add(exchange.writer)
        await exchange.send(CHUNKED)


def test_each_event_loop_has_separate_connections() -> None:
    """A program may call `asyncio.run` several times with one client.

    The last close also closes connections of earlier loops.
    """
    client = make_client()

    async def ask() -> int:
        async with serving(json_reply({})) as server:
            return (await client.get(server.url)).status_code

    async def ask_and_close() -> int:
        status = await ask()
        await client.aclose()
        return status

    assert [asyncio.run(ask()), asyncio.run(ask()), asyncio.run(ask_and_close())] == [200, 200, 200]
    gc.collect()  # a session that was not closed would warn here


async def test_a_request_on_a_dead_connection_is_sent_again_at_once() -> None:
    """This also applies to a POST, and to several dead idle connections."""
    async with serving(_ClosesAfterItsStream()) as server, make_client(server.url) as client:
        for _ in range(3):
            assert (await client.post("/", content=b"prompt")).text == "{}"
        await asyncio.gather(*(client.post("/") for _ in range(3)))
        for _ in range(3):
            assert (await client.post("/", content=b"prompt")).text == "{}"
        assert {exchange.body for exchange in server.requests} == {b"prompt", b""}


async def test_a_request_on_a_new_connection_is_sent_once() -> None:
    """A failure on a new connection is the service's failure."""
    async with serving(_hang_up) as server, make_client(server.url) as client:
        with pytest.raises(httpx2.RemoteProtocolError):
            await client.post("/", content=b"prompt")
        assert len(server.requests) == 1


async def test_a_response_that_began_is_not_requested_again() -> None:
    """The service has taken the request."""
    server_ends = _ClosesAfterItsStream()
    server_ends.partial = b"HTTP/1.1 200 OK\r\nContent-"
    async with serving(server_ends) as server, make_client(server.url) as client:
        await client.post("/")
        with pytest.raises(httpx2.RemoteProtocolError):
            await client.post("/")
        assert len(server.requests) == 2


async def test_a_service_that_has_gone_since_was_sent_the_request() -> None:
    """The egress log relies on it: the failure of the second connection does not say that nothing was sent."""
    address = asyncio.get_running_loop().create_future()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for response in (CHUNKED, b""):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(response)
        (await address).close()
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    address.set_result(server)
    async with make_client(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}") as client:
        await client.post("/")
        with pytest.raises(httpx2.RemoteProtocolError):
            await client.post("/")


async def test_the_end_of_a_body_is_told_before_it_is_read() -> None:
    """A reader that pauses between two reads does not wait beyond the end, whatever is still to be read."""
    server = serving(json_reply({"a": "b"}))
    async with server as upstream, make_client(upstream.url) as client, client.stream("GET", "/") as response:
        ended = get_body_end(response)
        assert ended is not None
        async with asyncio.timeout(CLOSE_TIMEOUT_S):
            await ended.wait()
        assert b"".join([chunk async for chunk in response.aiter_bytes()]) == b'{"a": "b"}'


async def test_what_arrives_during_a_pause_is_read_at_once() -> None:
    """Bytes are buffered while nobody reads, and one read returns them all."""
    sent = asyncio.Event()

    async def answer(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n.")
        for _ in range(98):
            await asyncio.sleep(0)
            await exchange.send(b".")
        sent.set()
        await exchange.send(b".")

    async with serving(answer) as server, make_client(server.url) as client, client.stream("GET", "/") as response:
        ended, chunks = get_body_end(response), read_chunks(response)
        assert ended is not None
        first = await anext(chunks)
        async with asyncio.timeout(CLOSE_TIMEOUT_S):
            await ended.wait()
        assert first + await anext(chunks) == b"." * 100


async def test_an_endless_body_fills_no_memory_during_a_pause() -> None:
    """Beyond a small buffer the network is not read, so the service must wait for the reader."""
    block, sent = b"." * 65_536, 0

    async def answer(exchange: Exchange) -> None:
        nonlocal sent
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        while True:
            await exchange.send(block)
            sent += len(block)

    async def is_held_up() -> bool:
        before = sent
        await asyncio.sleep(0.05)
        return sent == before

    async with serving(answer) as server, make_client(server.url) as client, client.stream("GET", "/") as response:
        chunks = read_chunks(response)
        await anext(chunks)
        async with asyncio.timeout(CLOSE_TIMEOUT_S):
            while not await is_held_up():
                pass
        assert len(await anext(chunks)) <= MAX_BUFFERED_BYTES
