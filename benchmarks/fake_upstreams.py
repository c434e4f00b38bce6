"""Fake upstreams with fixed delays: SearXNG, Bocha and an OpenAI-compatible model in one process, on loopback.

    python benchmarks/fake_upstreams.py --port 0            prints the address, runs until it is terminated

Delays in milliseconds: POST /_ctl/latency {"search": 300, "first_token": 200, "token": 2}. Every request is logged with
its beginning and end on the monotonic clock: GET /_ctl/log, POST /_ctl/reset. Plain asyncio, so that the fake costs
little beside what is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import random
import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

RESULTS = 10
ANSWER_TOKENS = 400
TOKENS_A_CHUNK = 4
CHARS_A_TOKEN = 4
LATENCY_MS = {"search": 300.0, "first_token": 200.0, "token": 2.0}

SENTENCES = (
    "A survey of {n} sites found that {topic} improved the median result by {p} percent over {y} years.",
    "Most of the cost of {topic} is spent before the first prototype is switched on.",
    "Reviewers compared {n} approaches to {topic} and ranked them by how well they could be repeated.",
    "Early figures for {topic} were taken under favourable conditions and seldom confirmed elsewhere.",
    "The budget for {topic} rose to {n} million in 20{y}, roughly {p} percent more than before.",
    "Unlike older methods, {topic} needs no central coordinator, which removes a frequent cause of failure.",
    "Operators report an availability of {p} percent for {topic} during the last winter.",
    "It is still open what {topic} costs over its whole life; a study with {n} partners is under way.",
)


def prose(topic: str, seed: str, sentences: int, cited: bool = False) -> str:
    """The same text for the same arguments, in every process."""
    chance = random.Random(f"{topic}|{seed}")
    out = []
    for number in range(sentences):
        text = chance.choice(SENTENCES).format(
            topic=topic, n=chance.randint(3, 90), p=chance.randint(4, 97), y=chance.randint(10, 25)
        )
        out.append(f"{text[:-1]} [{number % 5 + 1}]." if cited else text)
    return " ".join(out)


@functools.lru_cache(4096)
def hits(query: str) -> tuple[dict[str, Any], ...]:
    """Ten results; the first and the third are the same pages for all queries that share their first two words."""
    out = []
    for rank in range(RESULTS):
        topic = " ".join(query.split()[:2]) if rank in (0, 2) else query
        name = "-".join(topic.lower().split())
        url, text = f"https://example.org/{name}/{rank}", prose(topic, str(rank), 2)
        out.append({"title": f"{topic}, part {rank}", "url": url, "text": text})
    return tuple(out)


@functools.lru_cache(4096)
def searxng(query: str) -> bytes:
    results = [
        {
            "title": hit["title"], "url": hit["url"], "content": hit["text"], "publishedDate": "2026-03-04T00:00:00",
            "engine": "google", "engines": ["google", "bing"], "category": "general", "positions": [rank + 1],
            "score": 3.0 / (rank + 1), "template": "default.html", "thumbnail": "", "img_src": "", "priority": "",
        }
        for rank, hit in enumerate(hits(query))
    ]  # fmt: skip
    answer = {"query": query, "results": results, "answers": [], "corrections": [], "infoboxes": [], "suggestions": []}
    return json.dumps({**answer, "unresponsive_engines": []}).encode()


@functools.lru_cache(4096)
def bocha(query: str) -> bytes:
    pages = [{"name": h["title"], "url": h["url"], "snippet": h["text"], "summary": h["text"]} for h in hits(query)]
    data = {"queryContext": {"originalQuery": query}, "webPages": {"totalEstimatedMatches": len(pages), "value": pages}}
    return json.dumps({"code": 200, "log_id": "fake", "msg": None, "data": data}).encode()


@functools.lru_cache(4096)
def completion(prompt: str) -> str:
    """A plan where the prompt asks for lines, else an answer with markers; the topic is what the prompt ends with."""
    topic = " ".join(prompt.strip().splitlines()[-1].removeprefix("Question:").split()[:6]).strip("?. ")
    if "one per line" in prompt:
        return "\n".join(f"Question: {topic} {side}" for side in ("background", "results in practice", "limits"))
    return prose(topic, "answer", 60, cited=True)[: ANSWER_TOKENS * CHARS_A_TOKEN]


class Fake:
    """What the upstreams answer, and what they were asked."""

    def __init__(self) -> None:
        self.latency = dict(LATENCY_MS)
        self.log: list[dict[str, Any]] = []

    async def answer(self, connection: Connection, path: str, body: bytes) -> None:
        if path.startswith("/_ctl/"):
            connection.send_json(self._control(path.removeprefix("/_ctl/"), body))
            return
        began = time.monotonic()
        entry: dict[str, Any] = {"path": urlsplit(path).path, "t0": began}
        self.log.append(entry)
        try:
            await self._serve(connection, path, body, began)
        finally:
            entry["t1"] = time.monotonic()

    def _control(self, command: str, body: bytes) -> Any:
        if command == "latency":
            self.latency.update(json.loads(body))
        elif command == "reset":
            self.log.clear()
        return self.log if command == "log" else self.latency

    async def _serve(self, connection: Connection, path: str, body: bytes, began: float) -> None:
        url = urlsplit(path)
        if url.path == "/search":
            await self._until(began, "search")
            connection.send(searxng(parse_qs(body.decode() or url.query)["q"][0]))
        elif url.path == "/v1/web-search":
            await self._until(began, "search")
            connection.send(bocha(json.loads(body)["query"]))
        elif url.path == "/v1/chat/completions":
            await self._chat(connection, json.loads(body), began)
        else:
            connection.send(b"{}", status="404 Not Found")

    async def _chat(self, connection: Connection, request: dict[str, Any], began: float) -> None:
        prompt = "\n".join(message["content"] for message in request["messages"])
        text = completion(prompt)
        tokens = len(text) // CHARS_A_TOKEN
        usage = {"prompt_tokens": len(prompt) // CHARS_A_TOKEN, "completion_tokens": tokens, "total_tokens": 0}
        head = {"id": "fake", "created": 0, "model": request["model"]}
        if not request.get("stream"):
            await self._until(began, "first_token", tokens * self.latency["token"])
            choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
            connection.send_json({**head, "object": "chat.completion", "choices": [choice], "usage": usage})
            return
        await self._until(began, "first_token")
        connection.begin_stream()
        step = TOKENS_A_CHUNK * CHARS_A_TOKEN
        for at in range(0, len(text), step):
            last = at + step >= len(text)
            choice = {"index": 0, "finish_reason": "stop" if last else None, "delta": {"content": text[at : at + step]}}
            chunk = {**head, "object": "chat.completion.chunk", "choices": [choice], "usage": usage if last else None}
            connection.send_chunk(b"data: " + json.dumps(chunk).encode() + b"\n\n")
            await self._until(began, "first_token", (at + step) / CHARS_A_TOKEN * self.latency["token"])
        connection.send_chunk(b"data: [DONE]\n\n")
        connection.end_stream()

    async def _until(self, began: float, kind: str, more_ms: float = 0.0) -> None:
        wait = began + (self.latency[kind] + more_ms) / 1000 - time.monotonic()
        if wait > 0:
            await asyncio.sleep(wait)


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

    def send(self, body: bytes, status: str = "200 OK") -> None:
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
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
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=0)
    asyncio.run(serve(parser.parse_args().port))
