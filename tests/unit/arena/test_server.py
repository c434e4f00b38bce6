"""The frozen web as players see it: pages by host, SearXNG's answers, and a model that is counted."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from arena.server import MAX_TOKENS, SEED, ArenaServer, Ports
from arena.web import FrozenWeb, read_given, read_written

SHIM = Path(__file__).resolve().parents[3] / "arena" / "shim"
USAGE = {"prompt_tokens": 11, "completion_tokens": 3}


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


async def embed(texts: list[str]) -> list[list[float]]:
    return [[float(len(text))] for text in texts]


@asynccontextmanager
async def arena() -> AsyncIterator[tuple[ArenaServer, Ports, list[dict[str, Any]]]]:
    """Start an arena in front of a model that keeps what it was asked."""
    asked: list[dict[str, Any]] = []

    async def chat(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        asked.append(body)
        if not body.get("stream"):
            return web.json_response({"choices": [{"message": {"content": "Seven."}}], "usage": USAGE})
        chunks: list[dict[str, Any]] = [
            {"choices": [{"delta": {"content": "Seven."}}]},
            {"choices": [], "usage": USAGE},
        ]
        text = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
        return web.Response(text=text, content_type="text/event-stream")

    app = web.Application()
    app.router.add_post("/v1/chat/completions", chat)
    runner = web.AppRunner(app)
    await runner.setup()
    model_port = free_port()
    await web.TCPSite(runner, "127.0.0.1", model_port).start()
    ports = Ports(free_port(), free_port(), free_port())
    frozen = FrozenWeb(tuple(read_written(ports.pages)))
    url = f"http://127.0.0.1:{model_port}/v1"
    server = ArenaServer(frozen, ports, model_url=url, model="small", key="none", embed=embed)
    try:
        async with server.running():
            yield server, ports, asked
    finally:
        await runner.cleanup()


def test_more_pages_come_from_lines_of_json_and_folders(tmp_path: Path) -> None:
    """A row without a page is left out; each page has a host of its own in `.test`."""
    lines = [
        {"url": "https://example.org/a/b.html", "html": "<title>B</title><p>Bees</p>"},
        {"claim": "https://example.org/empty", "source": ""},
        {"doc_id": "m1", "title": "Mills", "text": "A mill.\nTwo mills."},
    ]
    file = tmp_path / "more.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    assert [(page.place, page.title) for page in read_given(file)] == [
        ("example.org.given.test/a/b.html", "B"),
        ("more.given.test/m1.html", "Mills"),
    ]
    (tmp_path / "My pages").mkdir()
    (tmp_path / "My pages" / "c.html").write_text("<title>C</title>", encoding="utf-8")
    assert [page.place for page in read_given(tmp_path / "My pages")] == ["my-pages.given.test/c.html"]


async def test_search_finds_a_page_and_the_page_is_served() -> None:
    """A result's address leads to its page when the host is looked up on loopback."""
    async with arena() as (server, ports, _), aiohttp.ClientSession() as session:
        base = f"http://127.0.0.1:{ports.pages}"
        async with session.get(f"{base}/search", params={"q": "Quay Bell cast", "format": "json"}) as answer:
            results = (await answer.json())["results"]
        async with session.get(f"{base}/search", params={"q": "Quay Bell cast"}) as answer:
            assert (await answer.text()).count("<article") == len(results)
        bell = next(result for result in results if result["url"].endswith("/quay-bell.html"))
        assert bell["content"].startswith("The Quay Bell rang"), (
            "an excerpt has neither title nor date glued to its first sentence"
        )
        address = f"http://harwick-museum.test:{ports.pages}/collection/quay-bell.html"
        assert address in [result["url"] for result in results]
        headers = {"Host": f"harwick-museum.test:{ports.pages}"}
        async with session.get(f"{base}/collection/quay-bell.html", headers=headers) as answer:
            assert "Abel Thornquist cast it in 1742" in await answer.text()
            assert answer.headers["Last-Modified"] == "Mon, 15 Aug 2022 00:00:00 GMT"
        async with session.get(f"{base}/tram/fares.html", headers={"Host": "harwick-council.test"}) as answer:
            assert answer.status == 500
        async with session.get(f"{base}/nothing.html", headers=headers) as answer:
            assert answer.status == 404
        assert server.log.searches == 2
        assert server.log.fetched == {
            "harwick-museum.test/collection/quay-bell.html",
            "harwick-council.test/tram/fares.html",
        }
        assert server.log.missing == ["harwick-museum.test/nothing.html"]


async def test_the_model_is_asked_without_chance_and_counted() -> None:
    """Temperature, seed and the limit are set whatever a player asks for, and usage is counted with and without a stream."""
    async with arena() as (server, ports, asked), aiohttp.ClientSession() as session:
        url = f"http://127.0.0.1:{ports.model}/v1/chat/completions"
        body = {"model": "other", "temperature": 0.9, "top_p": 0.3, "max_tokens": 9000, "messages": [{"role": "user"}]}
        async with session.post(url, json=body) as answer:
            assert (await answer.json())["choices"][0]["message"]["content"] == "Seven."
        async with session.post(url, json=body | {"stream": True, "max_tokens": 5}) as answer:
            streamed = await answer.text()
        assert "Seven." in streamed
        assert "usage" not in streamed, "a player that does not ask for usage gets no chunk without a choice"
        for sent, limit in zip(asked, (MAX_TOKENS, 5), strict=True):
            assert (sent["model"], sent["temperature"], sent["seed"], sent["max_tokens"]) == ("small", 0, SEED, limit)
            assert "top_p" not in sent
        assert [(call["prompt_tokens"], call["completion_tokens"], call["answer"]) for call in server.log.calls] == [
            (11, 3, "Seven.")
        ] * 2


async def test_embeddings_are_made_here() -> None:
    """Every player has the same vectors; token numbers in place of text are refused."""
    async with arena() as (server, ports, asked), aiohttp.ClientSession() as session:
        url = f"http://127.0.0.1:{ports.model}/v1/embeddings"
        async with session.post(url, json={"input": ["a", "bcd"]}) as answer:
            assert [row["embedding"] for row in (await answer.json())["data"]] == [[1.0], [3.0]]
        async with session.post(url, json={"input": [[1, 2]]}) as answer:
            assert answer.status == 400
        assert server.log.embeddings == 1
        assert asked == []


async def test_the_wall_refuses_and_notes_the_host() -> None:
    """A program that resolves names without Python is still seen."""
    async with arena() as (server, ports, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", ports.wall)
        writer.write(b"CONNECT telemetry.example.org:443 HTTP/1.1\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 403")
        writer.close()
        await writer.wait_closed()
        assert server.log.strangers == ["telemetry.example.org:443"]


def test_the_shim_leads_names_of_the_arena_to_loopback(tmp_path: Path) -> None:
    """Other names are refused and noted; without the setting nothing changes."""
    notes = tmp_path / "strangers.txt"
    code = """
import socket
print(socket.getaddrinfo("git.docs.test", 80)[0][4][0])
try:
    socket.getaddrinfo("example.org", 443)
except OSError:
    print("refused")
"""
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SHIM), "ARENA_STRANGERS": str(notes)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["127.0.0.1", "refused"]
    assert notes.read_text(encoding="utf-8").split() == ["example.org"]
    del env["ARENA_STRANGERS"]
    same = "import socket; print(socket.getaddrinfo.__module__)"
    assert (
        subprocess.run([sys.executable, "-c", same], env=env, capture_output=True, text=True, check=True).stdout
        == "socket\n"
    )
