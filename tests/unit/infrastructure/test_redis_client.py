"""The Redis client with a small server in this process: circuit breaker, status, and secrets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from tests.fakes.tracing import tracing
from tests.support.cases import for_each
from tests.support.clock import Clock

from modules.llm_platform.infrastructure import redis_client
from modules.llm_platform.infrastructure.redis_client import ForeignValueError, RedisClient, RedisUnavailableError

PASSWORD = "a-secret-password"
A_WHILE_S = 60.0  # a loopback server answers within it, on any machine


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """On a machine that stalls for half a second a server that answers must not count as silent."""
    if "silent" not in request.node.name:
        monkeypatch.setattr(redis_client, "REDIS_TIMEOUT_S", A_WHILE_S)
        monkeypatch.setattr(redis_client, "CALL_TIMEOUT_S", A_WHILE_S)


class Server:
    """Answers every command with `answer(command)`; None: no answer at all. `connections` counts them."""

    def __init__(self, answer: Callable[[bytes], bytes | None]) -> None:
        self.answer = answer
        self.connections = 0
        self.writers: list[asyncio.StreamWriter] = []
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        try:
            while head := await reader.readline():
                words = []
                for _ in range(int(head[1:])):
                    length = int((await reader.readline())[1:])
                    words.append((await reader.readexactly(length + 2))[:-2])
                if (reply := b"+OK\r\n" if words[0] == b"CLIENT" else self.answer(words[0])) is not None:
                    writer.write(reply)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def running(server: Server) -> AsyncIterator[Server]:
    listener = await asyncio.start_server(server.serve, "127.0.0.1", server.port)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        for writer in server.writers:
            writer.close()
        await listener.wait_closed()


@asynccontextmanager
async def connected(server: Server, clock: Clock | None = None) -> AsyncIterator[RedisClient]:
    client = RedisClient(f"redis://:{PASSWORD}@127.0.0.1:{server.port}/0", clock=clock or Clock())
    try:
        yield client
    finally:
        await client.aclose()


def simple(reply: bytes) -> Callable[[bytes], bytes]:
    return lambda command: b"+OK\r\n" if command in (b"AUTH", b"SELECT") else reply


async def test_nothing_is_connected_before_the_first_call() -> None:
    """A new client has sent nothing and knows nothing; a call connects it."""
    async with running(Server(simple(b"$5\r\nvalue\r\n"))) as server, connected(server) as client:
        assert (server.connections, client.status.connected, client.status.away_since) == (0, False, None)
        assert await client.call("TEST", lambda redis: redis.get("key")) == b"value"
        assert (server.connections, client.status.connected) == (1, True)


async def test_calls_are_spans() -> None:
    """Each has the name that its caller gives it; none contains the key, the value or the address."""
    server = Server(simple(b"$5\r\nvalue\r\n"))
    with tracing() as ended:
        async with running(server), connected(server) as client:
            await client.call("GET", lambda redis: redis.get("a-key"))
            await client.ping()
        async with connected(server) as client:
            with pytest.raises(RedisUnavailableError):
                await client.call("DEL", lambda redis: redis.delete("a-key"))
    assert [span.name for span in ended] == ["redis GET", "redis SET", "redis DEL"]
    assert [span.attributes["llm_platform.result"] for span in ended] == ["ok", "ok", "ConnectionError"]
    assert not {"a-key", "value", str(server.port)} & {
        str(value) for span in ended for value in span.attributes.values()
    }


async def test_calls_fail_at_once_after_a_failure_until_the_cooldown_ends() -> None:
    """Within the cooldown no connection is attempted; after it a call tries again, and a success closes the circuit."""
    clock, server = Clock(), Server(simple(b"+OK\r\n"))
    async with running(server):
        pass  # now the port is closed
    async with connected(server, clock) as client:
        with pytest.raises(RedisUnavailableError, match="cannot be reached"):
            await client.call("TEST", lambda redis: redis.get("key"))
        away_since = client.status.away_since
        async with running(server):
            with pytest.raises(RedisUnavailableError):
                await client.call("TEST", lambda redis: redis.get("key"))
            assert server.connections == 0
            clock.now += 10
            assert await client.call("TEST", lambda redis: redis.get("key")) == b"OK"
            assert away_since is not None
            assert (client.status.connected, client.status.away_since) == (True, None)


async def test_one_call_tries_after_the_cooldown() -> None:
    """Of many calls at once after the cooldown, one is sent; the others fail at once."""
    clock, sent = Clock(), []

    def answer(command: bytes) -> bytes | None:
        if command != b"GET":
            return b"+OK\r\n"
        sent.append(command)
        return b"-LOADING Redis is loading the dataset in memory\r\n"

    async with running(Server(answer)) as server, connected(server, clock) as client:
        with pytest.raises(RedisUnavailableError, match="is loading its data"):
            await client.call("TEST", lambda redis: redis.get("key"))
        clock.now += 10
        results = await asyncio.gather(
            *(client.call("TEST", lambda redis: redis.get("key")) for _ in range(20)), return_exceptions=True
        )
        assert all(isinstance(result, RedisUnavailableError) for result in results)
        assert len(sent) == 2


async def test_silent_server_counts_as_away() -> None:
    """A server that accepts and never answers costs a bounded time, once."""
    async with running(Server(lambda command: None)) as server, connected(server) as client:
        async with asyncio.timeout(A_WHILE_S):
            with pytest.raises(RedisUnavailableError, match="does not answer"):
                await client.call("TEST", lambda redis: redis.get("key"))


@for_each(
    ("reply", "message"),
    [
        (b"-NOAUTH Authentication required.\r\n", "check REDIS_URL"),
        (b"-NOPERM this user has no permissions\r\n", "access control list"),
        (b"-READONLY You can't write against a read only replica.\r\n", "read-only replica"),
        (b"-OOM command not allowed when used memory > 'maxmemory'.\r\n", "out of memory"),
        (b"-ERR something that a hostile server says\r\n", "refuses a command"),
        (b"nonsense\r\n", "cannot be reached"),
    ],
)
async def test_refusal_is_explained_without_the_servers_words(reply: bytes, message: str) -> None:
    """Each refusal is an unavailable Redis with a cause and a remedy, without the server's text."""
    async with running(Server(simple(reply))) as server, connected(server) as client:
        with pytest.raises(RedisUnavailableError, match=message) as caught:
            await client.ping()
        assert "hostile" not in str(caught.value)
        assert "nonsense" not in str(caught.value)


async def test_value_of_another_type_is_not_a_failure() -> None:
    """A key with a list of another program's does not make Redis count as away."""
    reply = b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
    async with running(Server(simple(reply))) as server, connected(server) as client:
        with pytest.raises(ForeignValueError):
            await client.call("TEST", lambda redis: redis.get("key"))
        assert client.status.away_since is None


async def test_password_is_in_no_repr_error_or_log(caplog: pytest.LogCaptureFixture) -> None:
    """The representation, the errors and the log have the address without user name and password."""
    server = Server(simple(b"-ERR\r\n"))
    with caplog.at_level(logging.DEBUG):
        async with running(server), connected(server) as client:
            with pytest.raises(RedisUnavailableError) as caught:
                await client.ping()
            shown = f"{client!r} {caught.value!r} {client.status!r} {vars(client)['address']}"
    logged = " ".join(f"{record.getMessage()} {vars(record)}" for record in caplog.records)
    assert PASSWORD not in shown + logged
    assert f"127.0.0.1:{server.port}" in shown
    assert [record.getMessage() for record in caplog.records if "Redis" in record.getMessage()] == ["Redis is away"]


async def test_a_full_redis_is_read_and_away_for_writes(caplog: pytest.LogCaptureFixture) -> None:
    """Without memory it refuses writes: they fail at once during the cooldown, reads succeed, and nothing says that it is back
    before a write succeeds. The log has one line for each change.
    """
    caplog.set_level(logging.INFO)
    refusal = b"-OOM command not allowed when used memory > 'maxmemory'.\r\n"
    clock, is_full = Clock(), True
    sent: list[bytes] = []

    def reply(command: bytes) -> bytes:
        sent.append(command)
        return refusal if is_full and command == b"SET" else b"+OK\r\n"

    async with running(Server(reply)) as server, connected(server, clock) as client:
        for _ in range(3):
            with pytest.raises(RedisUnavailableError, match="out of memory"):
                await client.call("SET", lambda redis: redis.set("a", "b"))
            assert await client.call("GETRANGE", lambda redis: redis.getrange("a", 0, 9))
        assert client.status.is_full
        assert (sent.count(b"SET"), sent.count(b"GETRANGE")) == (1, 3)
        clock.now += redis_client.REDIS_COOLDOWN_S
        is_full = False
        await client.call("SET", lambda redis: redis.set("a", "b"))
        assert client.status.connected
    messages = [record.message for record in caplog.records if record.name == redis_client.__name__]
    assert messages == ["Redis is away", "Redis is back"]
