"""A proxy in front of a broker that changes two kinds of replies. A Metadata reply loses its brokers, and an OffsetFetch reply
becomes NOT_COORDINATOR. A broker replies like this when it shuts down or moves.
https://kafka.apache.org/protocol.html#protocol_messages
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

METADATA, OFFSET_FETCH = 3, 9  # API keys
# The first flexible version of each request: lengths of arrays and strings are varints.
FLEXIBLE = {METADATA: 9, OFFSET_FETCH: 6}
OF_GROUPS = 8  # the first OffsetFetch version that asks for several groups
EMPTY = b"\x01"  # an empty array
NO_TAGS = b"\x00"
NO_THROTTLE = bytes(4)
NOT_COORDINATOR = struct.pack(">h", 16)


class BrokerProxy:
    """Listens on `port`, talks to `upstream`.

    - `hides`: whether Metadata replies name no broker.
    - `refuses`: how many of the next OffsetFetch replies are NOT_COORDINATOR.
    """

    def __init__(self, port: int, upstream: int) -> None:
        self._port, self._upstream = port, upstream
        self.hides = False
        self.refuses = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        connections: set[asyncio.Task[None]] = set()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connections.add(asyncio.ensure_future(self._serve(reader, writer)))

        server = await asyncio.start_server(accept, "127.0.0.1", self._port)
        try:
            yield
        finally:
            server.close()
            for connection in connections:
                connection.cancel()
            await asyncio.gather(*connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with closing(writer):
            with suppress(OSError, asyncio.IncompleteReadError):
                there, back = await asyncio.open_connection("127.0.0.1", self._upstream)
                async with closing(back):
                    await self._exchange(reader, writer, there, back)

    async def _exchange(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        there: asyncio.StreamReader,
        back: asyncio.StreamWriter,
    ) -> None:
        """Forward requests to the broker and replies to the client until either side disconnects."""
        asked: dict[int, bytes] = {}  # Metadata and OffsetFetch requests by their correlation ids
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._forward(reader, back, asked))
                tasks.create_task(self._answer(there, writer, asked))
        except* (OSError, asyncio.IncompleteReadError):
            pass

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: dict[int, bytes]
    ) -> None:
        while True:
            request = await _read(reader)
            api, version, correlation = struct.unpack_from(">hhi", request)
            if api in FLEXIBLE:
                assert version >= FLEXIBLE[api]
                asked[correlation] = request
            await _write(writer, request)

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: dict[int, bytes]
    ) -> None:
        while True:
            reply = await _read(reader)
            (correlation,) = struct.unpack_from(">i", reply)
            if correlation in asked:
                reply = self._changed(asked.pop(correlation), reply)
            await _write(writer, reply)

    def _changed(self, request: bytes, reply: bytes) -> bytes:
        api, version = struct.unpack_from(">hh", request)
        if api == METADATA and self.hides:
            return without_brokers(reply)
        if api == OFFSET_FETCH and self.refuses:
            self.refuses -= 1
            return refused(version, reply)
        return reply


@asynccontextmanager
async def closing(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    """Close a connection after the block, even when the block is cancelled."""
    try:
        yield
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def without_brokers(reply: bytes) -> bytes:
    """Return a Metadata reply without its brokers."""
    start = end = 4 + 1 + 4  # correlation id, no tags, throttle time
    count, end = _varint(reply, end)
    for _ in range(count - 1):
        end += 4  # id
        host, end = _varint(reply, end)
        end += host - 1 + 4  # host name and port
        rack, end = _varint(reply, end)
        end += max(rack - 1, 0) + 1  # rack and no tags
    return reply[:start] + EMPTY + reply[end:]


def refused(version: int, reply: bytes) -> bytes:
    """Return an OffsetFetch reply with NOT_COORDINATOR and no offsets."""
    head = reply[:4] + NO_TAGS + NO_THROTTLE
    if version < OF_GROUPS:
        return head + EMPTY + NOT_COORDINATOR + NO_TAGS
    at = len(head)
    _, start = _varint(reply, at)  # the array of groups has one item
    length, end = _varint(reply, start)
    name = reply[start : end + length - 1]
    return head + b"\x02" + name + EMPTY + NOT_COORDINATOR + NO_TAGS + NO_TAGS


def _varint(reply: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while reply[at] & 0x80:
        value |= (reply[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | reply[at] << shift, at + 1


async def _read(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


async def _write(writer: asyncio.StreamWriter, reply: bytes) -> None:
    writer.write(struct.pack(">i", len(reply)) + reply)
    await writer.drain()
