"""A scripted chat service on loopback that records its requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

Ending = Literal["end", "close", "drop", "hang"]
JSON, EVENTS, HTML = "application/json", "text/event-stream", "text/html; charset=utf-8"
DONE = b"data: [DONE]\n\n"
CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "small"}
WORDS = "An event loop runs callbacks, one after another."


@dataclass(frozen=True)
class Reply:
    """`parts` are sent in order, a number is a pause in seconds; then the body ends, the line drops, or nothing comes.

    An event among the parts is waited for: a connection that is dropped loses what its reader has not read.

    `close`: the body ends, and the connection takes no second request, which the headers do not say (llama.cpp's server).
    One that hangs without parts sends no headers either.
    """

    parts: Sequence[bytes | float | asyncio.Event] = ()
    status: int = 200
    content_type: str = JSON
    headers: dict[str, str] = field(default_factory=dict)
    ending: Ending = "end"


@dataclass(frozen=True)
class Asked:
    method: str
    target: str
    headers: dict[str, str]
    body: dict[str, Any]


class ChatServer:
    """Returns the given replies in turn, and repeats the last one."""

    def __init__(self, *replies: Reply) -> None:
        self.replies: Sequence[Reply] = replies or (answer(),)
        self.asked: list[Asked] = []
        self.connections = 0
        self.sent = 0  # bytes of bodies
        self.gone = asyncio.Event()  # clients that left before their complete answer
        self.url = ""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[ChatServer]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        try:
            yield self
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            ahead = b""
            while True:
                ahead = await self._exchange(ahead, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client has left, or the test is over
        finally:
            writer.close()

    async def _exchange(self, ahead: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        head = ahead + await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")[:-2]
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        content = await reader.readexactly(int(headers.get("content-length", 0)))
        method, target, _ = first.split(" ")
        self.asked.append(Asked(method, target, headers, json.loads(content) if content else {}))
        reply = self.replies[min(len(self.asked), len(self.replies)) - 1]
        sending = asyncio.create_task(self._send(reply, writer))
        watching = asyncio.create_task(reader.read(1))
        await asyncio.wait({sending, watching}, return_when=asyncio.FIRST_COMPLETED)
        if sending.done() and not sending.exception():
            ahead = await watching
            return _gone() if reply.ending == "close" or not ahead else ahead
        sending.cancel()
        watching.cancel()
        self.gone.set()
        return _gone()

    async def _send(self, reply: Reply, writer: asyncio.StreamWriter) -> None:
        if reply.ending == "hang" and not reply.parts:
            await asyncio.sleep(3600)
        extra = "".join(f"{name}: {value}\r\n" for name, value in reply.headers.items())
        head = f"HTTP/1.1 {reply.status} Whatever\r\ncontent-type: {reply.content_type}\r\n{extra}"
        writer.write(f"{head}transfer-encoding: chunked\r\n\r\n".encode())
        for part in reply.parts:
            if part == b"":
                continue  # an empty chunk would end the body
            if isinstance(part, bytes):
                writer.write(b"%x\r\n%s\r\n" % (len(part), part))
                self.sent += len(part)
                await writer.drain()
            elif isinstance(part, asyncio.Event):
                await part.wait()
            else:
                await asyncio.sleep(part)
        if reply.ending == "drop":
            writer.transport.abort()
        elif reply.ending == "hang":
            await asyncio.sleep(3600)
        else:
            writer.write(b"0\r\n\r\n")
            await writer.drain()


def _gone() -> bytes:
    raise ConnectionResetError


def completion(content: Any = WORDS, finish: Any = "stop", usage: Any = None, **message: Any) -> bytes:
    """Return the JSON of a complete answer."""
    choice = {"index": 0, "message": {"role": "assistant", "content": content, **message}, "finish_reason": finish}
    return json.dumps({"id": "c", "object": "chat.completion", "choices": [choice], "usage": usage}).encode()


def chunk(content: Any = None, finish: Any = None, usage: Any = None, **delta: Any) -> bytes:
    """Return one event of a streamed answer."""
    choice = {"index": 0, "delta": {"content": content, **delta}, "finish_reason": finish}
    return b"data: " + json.dumps({**CHUNK, "choices": [choice], "usage": usage}).encode() + b"\n\n"


def usage_chunk(prompt_tokens: int, completion_tokens: int) -> bytes:
    """Return the last event of a stream that was requested with its usage."""
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
    return b"data: " + json.dumps({**CHUNK, "choices": [], "usage": usage}).encode() + b"\n\n"


def answer(body: bytes | None = None, **how: Any) -> Reply:
    """Return a complete answer."""
    return Reply((completion() if body is None else body,), **how)


def stream(*events: bytes | float | asyncio.Event, **how: Any) -> Reply:
    """Return a streamed answer."""
    return Reply(events, content_type=EVENTS, **how)


def spoken(text: str = WORDS) -> Reply:
    """Return a streamed answer as services send it: a few words for each chunk, the finish, the usage, [DONE]."""
    pieces = [chunk(text[i : i + 7]) for i in range(0, len(text), 7)]
    return stream(chunk("", role="assistant"), *pieces, chunk(finish="stop"), usage_chunk(11, 9), DONE)


def error(status: int, body: Any, **headers: str) -> Reply:
    """Return an error answer."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Reply((content,), status=status, headers={name.replace("_", "-"): v for name, v in headers.items()})
