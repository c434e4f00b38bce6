"""What all players are pointed at, in this process: the frozen web with its SearXNG, the counted model, and a wall to the rest.

- Pages are served by host name: `http://git.docs.test:PORT/…`. arena/shim gives the names of the arena the address of loopback.
- `/search?q=…` on loopback answers in SearXNG's JSON, or with its HTML.
- The model's port passes calls of OpenAI's protocol on, with temperature 0 and a seed, one at a time, and counts them. Embeddings
  are made here, with the static vectors of the platform, so that every player has the same.
- The wall is an HTTP proxy that refuses everything and notes the host.
"""

from __future__ import annotations

import asyncio
import contextlib
import html
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web
from arena.search import SearchEngine
from arena.web import FrozenPage, FrozenWeb

MAX_RESULTS: Final = 10  # on a page of results, as SearXNG's engines give
SEED: Final = 7
MAX_TOKENS: Final = 1200  # of one call: a small model that repeats itself would not end
MODEL_TIMEOUT_S: Final = 900
UNREACHABLE: Final = 502  # the status of a call that the model's server did not answer
EMBEDDING_BATCH: Final = 128
LOOPBACK: Final = "127.0.0.1"
FRONT_PAGE: Final = "<!doctype html><html><head><title>SearXNG</title></head><body>\n"
SERVICE_HOSTS: Final = frozenset({LOOPBACK, "localhost"})

Embed = Callable[[list[str]], Awaitable[list[list[float]]]]


@dataclass
class Log:
    """What one run asked for. `shown` are the pages that it saw among the results, `fetched` those that it opened."""

    calls: list[dict[str, Any]] = field(default_factory=list)
    embeddings: int = 0
    searches: int = 0
    shown: set[str] = field(default_factory=set)
    fetched: set[str] = field(default_factory=set)
    missing: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Ports:
    pages: int = 8790
    model: int = 8791
    wall: int = 8792


class ArenaServer:
    """Serves one run after the other; `begin` starts a new log."""

    def __init__(self, frozen: FrozenWeb, ports: Ports, *, model_url: str, model: str, key: str, embed: Embed) -> None:
        self._web, self._ports = frozen, ports
        self._engine = SearchEngine(frozen.pages)
        self._model_url, self._model, self._key = model_url.rstrip("/"), model, key
        self._embed = embed
        self._one_call = asyncio.Lock()
        self.log = Log()

    def begin(self) -> Log:
        self.log = Log()
        return self.log

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            self._session = await stack.enter_async_context(
                aiohttp.ClientSession(
                    timeout=aiohttp.ClientTimeout(total=MODEL_TIMEOUT_S),
                    # llama.cpp closes the connection after a stream
                    connector=aiohttp.TCPConnector(force_close=True),
                )
            )
            for handler, port in ((self._serve, self._ports.pages), (self._answer, self._ports.model)):
                app = web.Application(client_max_size=1 << 26)
                app.router.add_route("*", "/{path:.*}", handler)
                runner = web.AppRunner(app, handler_cancellation=True, access_log=None)
                await runner.setup()
                stack.push_async_callback(runner.cleanup)
                await web.TCPSite(runner, LOOPBACK, port).start()
            wall = await asyncio.start_server(self._refuse, LOOPBACK, self._ports.wall)
            stack.callback(wall.close)
            yield

    # Pages and search

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        host = request.host.partition(":")[0]
        if host in SERVICE_HOSTS:
            return await self._search(request)
        page = self._web.find(f"{host}{request.path}")
        if page is None:
            if request.path not in ("/robots.txt", "/favicon.ico", "/llms.txt"):
                self.log.missing.append(f"{host}{request.path}")
            return web.Response(status=404, text="There is no such page.")
        self.log.fetched.add(page.place)
        await asyncio.sleep(page.slow_s)
        return await _page(request, page)

    async def _search(self, request: web.Request) -> web.Response:
        given = {**request.query, **(await request.post() if request.method == "POST" else {})}
        query, number = str(given.get("q", "")), int(str(given.get("pageno") or 1))
        if request.path not in ("/", "/search"):
            return web.Response(status=404)
        if not query:
            return web.Response(text=FRONT_PAGE, content_type="text/html")
        self.log.searches += 1
        hits = self._engine.search(query, number * MAX_RESULTS)[(number - 1) * MAX_RESULTS :]
        self.log.shown.update(hit.page.place for hit in hits)
        results = [
            {
                "url": self.address(hit.page),
                "title": hit.page.title,
                "content": hit.snippet,
                "engine": "google",
                "engines": ["google"],
                "category": "general",
                "score": round(1 / rank, 6),
                "positions": [rank],
                "template": "default.html",
                "parsed_url": [*urlsplit(self.address(hit.page)), ""],
                **({"publishedDate": f"{hit.page.date}T00:00:00"} if hit.page.date else {}),
            }
            for rank, hit in enumerate(hits, (number - 1) * MAX_RESULTS + 1)
        ]  # fmt: skip
        if given.get("format") != "json":
            return web.Response(text=FRONT_PAGE + "".join(map(_article, results)), content_type="text/html")
        empty: dict[str, list[Any]] = {"answers": [], "corrections": [], "infoboxes": [], "suggestions": []}
        return web.json_response(
            {"query": query, "number_of_results": len(results), "results": results, **empty, "unresponsive_engines": []}
        )

    def address(self, page: FrozenPage) -> str:
        host, _, path = page.place.partition("/")
        return f"http://{host}:{self._ports.pages}/{path}"

    # The model

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/models"):
            return web.json_response({"object": "list", "data": [{"id": self._model, "object": "model"}]})
        try:
            body = json.loads(await request.read())
        except ValueError:
            return web.json_response({"error": {"message": "no JSON"}}, status=400)
        if request.path.endswith("/embeddings"):
            return await self._make_embeddings(body)
        # A call may come with the prompt's tokens instead of text; no player sends them.
        body |= {"model": self._model, "temperature": 0, "seed": SEED}
        body.pop("top_p", None)
        limits = [body.pop(name) for name in ("max_tokens", "max_completion_tokens") if body.get(name)]
        body["max_tokens"] = min(MAX_TOKENS, *limits, MAX_TOKENS)
        wants_usage = bool((body.get("stream_options") or {}).get("include_usage"))
        if body.get("stream"):
            body["stream_options"] = {"include_usage": True}
        call: dict[str, Any] = {"path": request.path, "messages": body.get("messages", body.get("prompt"))}
        self.log.calls.append(call)
        async with self._one_call:
            began = time.monotonic()
            try:
                return await self._pass_on(request, body, call, wants_usage=wants_usage)
            finally:
                call["seconds"] = round(time.monotonic() - began, 2)

    async def _pass_on(
        self, request: web.Request, body: dict[str, Any], call: dict[str, Any], *, wants_usage: bool
    ) -> web.StreamResponse:
        url = f"{self._model_url}/{request.path.removeprefix('/v1').lstrip('/')}"
        headers = {"Authorization": f"Bearer {self._key}"}
        try:
            async with self._session.post(url, json=body, headers=headers) as answer:
                call["status"] = answer.status
                if answer.status != 200 or not body.get("stream"):
                    text = await answer.text()
                    _note(call, text, is_error=answer.status != 200)
                    return web.Response(text=text, status=answer.status, content_type="application/json")
                response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
                await response.prepare(request)
                written: list[str] = []
                async for line in answer.content:
                    chunk = _chunk(line)
                    if chunk is not None:
                        _add_chunk(call, chunk, written)
                        if not chunk.get("choices") and not wants_usage:
                            continue
                    await response.write(line)
                call["answer"] = "".join(written)
                return response
        except aiohttp.ClientError as error:
            call["status"], call["error"] = UNREACHABLE, type(error).__name__
            return web.json_response(
                {"error": {"message": f"the model failed: {type(error).__name__}"}}, status=UNREACHABLE
            )

    async def _make_embeddings(self, body: dict[str, Any]) -> web.Response:
        given = body.get("input", [])
        texts = [given] if isinstance(given, str) else list(given)
        if not all(isinstance(text, str) for text in texts):
            return web.json_response({"error": {"message": "input must be text"}}, status=400)
        self.log.embeddings += 1
        vectors: list[list[float]] = []
        for start in range(0, len(texts), EMBEDDING_BATCH):
            vectors += await self._embed([text or " " for text in texts[start : start + EMBEDDING_BATCH]])
        data = [{"object": "embedding", "index": n, "embedding": vector} for n, vector in enumerate(vectors)]
        usage = {"prompt_tokens": 0, "total_tokens": 0}
        return web.json_response({"object": "list", "model": body.get("model"), "data": data, "usage": usage})

    # The wall

    async def _refuse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)).decode("latin-1")
            self.log.strangers.append(_target(head.split(" ", 2)[1]))
            writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            await writer.drain()
        writer.close()


def _article(result: dict[str, Any]) -> str:
    """Return a result as SearXNG's theme `simple` writes it, which some clients read instead of the JSON."""
    url, title, content = (html.escape(result[name]) for name in ("url", "title", "content"))
    return (
        f'<article class="result result-default category-general"><a href="{url}" class="url_header"></a>'
        f'<h3><a href="{url}">{title}</a></h3><p class="content">{content}</p></article>\n'
    )


def _target(address: str) -> str:
    return address.partition("//")[2].partition("/")[0] if "//" in address else address


async def _page(request: web.Request, page: FrozenPage) -> web.StreamResponse:
    match page.broken:
        case "500":
            return web.Response(status=500, text="Internal Server Error")
        case "loop":
            raise web.HTTPFound(request.path)
        case "garbage":
            return web.Response(body=bytes(range(128, 256)) * 200, content_type="text/html", charset="utf-8")
        case "cut":
            response = web.StreamResponse(headers={"Content-Type": "text/html", "Content-Length": "20000"})
            await response.prepare(request)
            await response.write(b"<html><head><title>Strike</title></head><body><p>The str")
            if request.transport:
                request.transport.abort()
            return response
    headers = {}
    if page.date:
        day = time.strptime(page.date, "%Y-%m-%d")
        headers["Last-Modified"] = time.strftime("%a, %d %b %Y 00:00:00 GMT", day)
    return web.Response(text=page.html, content_type="text/html", headers=headers)


def _chunk(line: bytes) -> dict[str, Any] | None:
    text = line.decode("utf-8", "replace").removeprefix("data:").strip()
    if not text.startswith("{"):
        return None
    try:
        chunk: dict[str, Any] = json.loads(text)
    except ValueError:
        return None
    return chunk


def _add_chunk(call: dict[str, Any], chunk: dict[str, Any], written: list[str]) -> None:
    _note_usage(call, chunk.get("usage"))
    for choice in chunk.get("choices") or ():
        text = (choice.get("delta") or {}).get("content") or choice.get("text")
        if text:
            written.append(text)


def _note(call: dict[str, Any], text: str, *, is_error: bool) -> None:
    if is_error:
        call["error"] = text[:2000]
        return
    with contextlib.suppress(ValueError, LookupError, TypeError):
        body = json.loads(text)
        _note_usage(call, body.get("usage"))
        choice = body["choices"][0]
        call["answer"] = (choice.get("message") or choice).get("content", choice.get("text"))


def _note_usage(call: dict[str, Any], usage: dict[str, Any] | None) -> None:
    if usage:
        call["prompt_tokens"] = usage.get("prompt_tokens", 0)
        call["completion_tokens"] = usage.get("completion_tokens", 0)
        call["cached_tokens"] = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
