"""Fake upstreams with fixed delays: SearXNG, Bocha, pages, a page reader and an OpenAI-compatible model, on loopback.

    python benchmarks/fake_upstreams.py --port 0            prints the address, runs until it is terminated

Delays in milliseconds: POST /_ctl/latency {"search": 300, "first_token": 200, "token": 2, "reader": 400, "page": 400}; with
"jitter": 0.6 each is 0.4 to 1.6 times that, by what is asked alone, so that the same request waits as long in every run.
"page_jitter" is that of pages. Faults: POST /_ctl/faults {"share": 0.1} spoils one in ten: 429, 500, a reset, no answer,
or half of a JSON text. Pages: POST /_ctl/pages {"hosts": true, "refused": [8], "hung": [9], "cited": 10} gives each rank of the
results a host of its own, answers those ranks with 403 or never, and has the model cite so many sources. Every request is
logged with its beginning and end on the monotonic clock, those to the model with the stage and the tokens: GET /_ctl/log, POST
/_ctl/reset. Plain asyncio, so that the fake costs little beside what is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import sys
import time
import zlib
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.fake_content import HOST_GROUPS, RESULTS, bocha, html_page, read_page, searxng
from benchmarks.fake_model import CHARS_A_TOKEN, answer

TOKENS_A_CHUNK = 4
VECTOR = [0.5] * 64
LATENCY_MS = {"search": 300.0, "first_token": 200.0, "token": 2.0, "reader": 400.0, "page": 400.0}
LATENCY_MS |= {"jitter": 0.0, "page_jitter": 0.0}
READER, PAGE = "/r/", "/page/"
# Linux: all of 127.0.0.0/8 is this machine.
PAGE_HOSTS = tuple(f"127.0.{group}.{rank + 1}" for group in range(1, HOST_GROUPS + 1) for rank in range(RESULTS))
PAGES = {"hosts": False, "refused": [], "hung": [], "cited": 5}
FAULTS = ("429 Too Many Requests", "500 Internal Server Error", "reset", "hang", "bad JSON")
HANG_S = 3600.0  # the client gives up before
MAX_LOG = 100_000  # entries; the log of a long run begins anew
_ORIGIN = re.compile(r"http://127\.0\.0\.1:\d+")


class Fake:
    """What the upstreams answer, and what they were asked."""

    def __init__(self) -> None:
        self.origin = "http://127.0.0.1"
        self.latency = dict(LATENCY_MS)
        self.log: list[dict[str, Any]] = []
        self.fault_share = 0.0
        self.pages: dict[str, Any] = dict(PAGES)
        self._chance = random.Random(1)

    async def answer(self, connection: Connection, path: str, body: bytes) -> None:
        if path.startswith("/_ctl/"):
            connection.send_json(self._control(path.removeprefix("/_ctl/"), body))
            return
        entry: dict[str, Any] = {"path": urlsplit(path).path, "t0": time.monotonic()}
        if len(self.log) >= MAX_LOG:
            self.log.clear()
        self.log.append(entry)
        try:
            if self.fault_share and self._chance.random() < self.fault_share:
                await self._spoil(connection, self._chance.choice(FAULTS))
            else:
                await self._serve(connection, path, body, entry)
        finally:
            entry["t1"] = time.monotonic()

    async def _spoil(self, connection: Connection, fault: str) -> None:
        if fault == "reset":
            connection.transport.abort()
        elif fault == "hang":
            await asyncio.sleep(HANG_S)
        elif fault == "bad JSON":
            connection.send(b'{"results": [{"url": "http')
        else:
            connection.send(b"{}", status=fault)

    def _control(self, command: str, body: bytes) -> Any:
        if command == "latency":
            self.latency.update(json.loads(body))
        elif command == "faults":
            self.fault_share = json.loads(body)["share"]
        elif command == "pages":
            self.pages = PAGES | json.loads(body)
        elif command == "reset":
            self.log.clear()
        return self.log if command == "log" else self.latency

    async def _serve(self, connection: Connection, path: str, body: bytes, entry: dict[str, Any]) -> None:
        url = urlsplit(path)
        wait = _Wait(self.latency, entry["t0"])
        if url.path == "/search":
            query = parse_qs(body.decode() or url.query).get("q", [""])[0]
            if not query:  # a check of the format: SearXNG asks no engine
                connection.send(b'{"error": "No query"}', status="400 Bad Request")
                return
            await wait.over("search", query)
            origin = self.origin.replace("127.0.0.1", "127.0.{}.{}") if self.pages["hosts"] else self.origin
            connection.send(searxng(query, origin))
        elif url.path == "/v1/web-search":
            query = json.loads(body)["query"]
            await wait.over("search", query)
            connection.send(bocha(query, self.origin))
        elif url.path.startswith(READER):
            page = unquote(path.removeprefix(READER))
            await wait.over("reader", page)
            connection.send(read_page(page), kind="text/plain; charset=utf-8")
        elif url.path.startswith(PAGE):
            await self._page(connection, url.path, wait)
        elif url.path == "/v1/chat/completions":
            await self._chat(connection, json.loads(body), wait, entry)
        elif url.path == "/v1/embeddings":
            texts = json.loads(body)["input"]
            connection.send_json({"data": [{"index": at, "embedding": VECTOR} for at in range(len(texts))]})
        else:
            connection.send(b"{}", status="404 Not Found")

    async def _page(self, connection: Connection, path: str, wait: _Wait) -> None:
        rank = int(path.rpartition("/")[2])
        if rank in self.pages["hung"]:
            await asyncio.sleep(HANG_S)
        await wait.over("page", path)
        status = "403 Forbidden" if rank in self.pages["refused"] else "200 OK"
        connection.send(html_page(path), status, "text/html; charset=utf-8")

    async def _chat(self, connection: Connection, request: dict[str, Any], wait: _Wait, entry: dict[str, Any]) -> None:
        prompt = "\n".join(message["content"] for message in request["messages"])
        said = answer(prompt, self.pages["cited"])
        limit = request.get("max_completion_tokens") or request.get("max_tokens")
        text = said.text[: limit * CHARS_A_TOKEN] if limit else said.text
        tokens = -(-len(text) // CHARS_A_TOKEN)
        asked = -(-len(prompt) // CHARS_A_TOKEN)
        entry.update(kind=said.kind, tokens_in=asked, tokens_out=tokens)
        usage = {"prompt_tokens": asked, "completion_tokens": tokens, "total_tokens": asked + tokens}
        head = {"id": "fake", "created": 0, "model": request["model"]}
        if not request.get("stream"):
            await wait.over("first_token", prompt, tokens)
            choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
            connection.send_json({**head, "object": "chat.completion", "choices": [choice], "usage": usage})
            return
        await wait.over("first_token", prompt)
        connection.begin_stream()
        step = TOKENS_A_CHUNK * CHARS_A_TOKEN
        for at in range(0, len(text), step):
            last = at + step >= len(text)
            choice = {"index": 0, "finish_reason": "stop" if last else None, "delta": {"content": text[at : at + step]}}
            chunk = {**head, "object": "chat.completion.chunk", "choices": [choice], "usage": usage if last else None}
            connection.send_chunk(b"data: " + json.dumps(chunk).encode() + b"\n\n")
            await wait.over("first_token", prompt, (at + step) / CHARS_A_TOKEN)
        connection.send_chunk(b"data: [DONE]\n\n")
        connection.end_stream()


class _Wait:
    """The delays of one request, counted from its beginning."""

    def __init__(self, latency: dict[str, float], began: float) -> None:
        self._latency, self._began, self._factor = latency, began, 0.0

    async def over(self, kind: str, asked: str, tokens: float = 0.0) -> None:
        """Until the delay of its kind and of so many tokens is over."""
        ms = self._latency[kind] + tokens * self._latency["token"]
        wait = self._began + ms * self._stretched(kind, asked) / 1000 - time.monotonic()
        if wait > 0:
            await asyncio.sleep(wait)

    def _stretched(self, kind: str, asked: str) -> float:
        """By what is asked, without the port, which differs from run to run."""
        if not self._factor:
            jitter = self._latency["page_jitter" if kind == "page" else "jitter"]
            chance = random.Random(zlib.crc32(f"{kind}|{_ORIGIN.sub('', asked)}".encode())) if jitter else None
            self._factor = 1 + jitter * (chance.random() * 2 - 1) if chance else 1.0
        return self._factor


class Connection(asyncio.Protocol):
    """Just enough HTTP/1.1: kept alive, one request at a time, bodies with a Content-Length."""

    def __init__(self, fake: Fake) -> None:
        self.fake = fake
        self.buffer = b""
        self.work: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        if self.work:
            self.work.cancel()

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, found, rest = self.buffer.partition(b"\r\n\r\n")
        if not found:
            return
        lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        length = int(headers.get("content-length", 0))
        if len(rest) < length:
            return
        self.buffer = rest[length:]
        self.work = asyncio.ensure_future(self.fake.answer(self, lines[0].split(" ")[1], rest[:length]))

    def send_json(self, value: Any) -> None:
        self.send(json.dumps(value).encode())

    def send(self, body: bytes, status: str = "200 OK", kind: str = "application/json") -> None:
        head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        self.transport.write(head.encode() + body)

    def begin_stream(self) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
        self.transport.write(head + b"Transfer-Encoding: chunked\r\n\r\n")

    def send_chunk(self, data: bytes) -> None:
        self.transport.write(b"%x\r\n%b\r\n" % (len(data), data))

    def end_stream(self) -> None:
        self.transport.write(b"0\r\n\r\n")


async def serve(port: int) -> None:
    fake = Fake()
    server = await asyncio.get_running_loop().create_server(lambda: Connection(fake), "127.0.0.1", port)
    port = server.sockets[0].getsockname()[1]
    fake.origin = f"http://127.0.0.1:{port}"
    if sys.platform == "linux":
        await asyncio.get_running_loop().create_server(lambda: Connection(fake), PAGE_HOSTS, port)
    print(fake.origin, flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=0)
    asyncio.run(serve(parser.parse_args().port))
