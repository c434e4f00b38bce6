"""A proxy in front of a broker that can take the brokers out of its replies to Metadata requests, as a broker that shuts down
does. https://kafka.apache.org/protocol.html#The_Messages_Metadata
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

METADATA = 3  # its number among the requests
FLEXIBLE = 9  # version from which arrays and strings have lengths of variable size
NO_BROKERS = b"\x01"  # an array of none


class MetadataProxy:
    """Listens on `port`, talks to `upstream`. `hides`: whether replies name no broker; `hidden`: how many did so."""

    def __init__(self, port: int, upstream: int) -> None:
        self._port, self._upstream = port, upstream
        self.hides = False
        self.hidden = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        try:
            yield
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked: set[int] = set()  # correlation ids of Metadata requests
        with suppress(OSError, asyncio.IncompleteReadError):
            there, back = await asyncio.open_connection("127.0.0.1", self._upstream)
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._forward(reader, back, asked))
                    tasks.create_task(self._answer(there, writer, asked))
            except* (OSError, asyncio.IncompleteReadError):
                pass
            finally:
                back.close()
        writer.close()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: set[int]) -> None:
        while True:
            message = await _read(reader)
            api, version, correlation = struct.unpack_from(">hhi", message)
            if api == METADATA:
                assert version >= FLEXIBLE
                asked.add(correlation)
            await _write(writer, message)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: set[int]) -> None:
        while True:
            message = await _read(reader)
            (correlation,) = struct.unpack_from(">i", message)
            if correlation in asked:
                asked.remove(correlation)
                if self.hides:
                    self.hidden += 1
                    message = without_brokers(message)
            await _write(writer, message)


def without_brokers(message: bytes) -> bytes:
    """Return a reply to a Metadata request without its brokers."""
    start = end = 4 + 1 + 4  # correlation id, no tags, throttle time
    count, end = _varint(message, end)
    for _ in range(count - 1):
        end += 4  # id
        host, end = _varint(message, end)
        end += host - 1 + 4  # its name, and the port
        rack, end = _varint(message, end)
        end += max(rack - 1, 0) + 1  # and no tags
    return message[:start] + NO_BROKERS + message[end:]


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while message[at] & 0x80:
        value |= (message[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | message[at] << shift, at + 1


async def _read(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


async def _write(writer: asyncio.StreamWriter, message: bytes) -> None:
    writer.write(struct.pack(">i", len(message)) + message)
    await writer.drain()
