"""The platform in a FastAPI application that uvicorn serves, mounted as an application or included as routes."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from fastapi import Depends, FastAPI, HTTPException
from fastapi.testclient import TestClient
from tests.docs.pages import ROOT, files_in
from tests.support.forked_command import PIPE, UVICORN, ForkedPython

from modules.llm_platform import (
    IWebSearchProvider,
    LLMPlatform,
    Settings,
    SettingsError,
    build_platform,
    create_app,
    research_router,
)
from modules.llm_platform.testing import FakeWebSearch, result_item

TIMEOUT_S = 120.0
PAGE = "docs/howto/mount-in-your-app.md"
FOLDER = ROOT / "docs" / "explanation"  # a small one: each platform reads it
QUESTION = {"query": "When is the next search provider asked?"}
PROBLEM = "application/problem+json"


@asynccontextmanager
async def serving(host: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    """Serve the host with uvicorn on a free port, as its owner would configure it."""
    config = uvicorn.Config(host, port=0, log_config=None, lifespan="on")
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    async with asyncio.timeout(TIMEOUT_S):
        while not server.started:
            await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=TIMEOUT_S) as client:
            yield client
        assert config.http_protocol_class.__module__.startswith("uvicorn.")
        assert {signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)} == {server.handle_exit}
    finally:
        server.should_exit = True
        await asyncio.wait_for(task, TIMEOUT_S)


def documents(folder: Path, **settings: Any) -> Settings:
    return Settings.without_environment(
        DOCUMENTS_DIR=FOLDER, LLM_PLATFORM_DATA_DIR=folder, LLM_PLATFORM_OFFLINE=True, **settings
    )


async def answers_everywhere(client: httpx2.AsyncClient, prefix: str) -> None:
    """Check JSON, an event stream, searches, and errors whose instance is the full path."""
    answered = await client.post(f"{prefix}/research", json=QUESTION)
    assert answered.status_code == 200, answered.text
    assert answered.json()["citations"][0]["verdict"] == "supported"

    streamed = await client.post(f"{prefix}/research", json={**QUESTION, "stream": True})
    assert streamed.headers["content-type"].startswith("text/event-stream")
    names = re.findall(r"^event: (\w+)", streamed.text, re.M)
    assert (names[0], names[-1]) == ("started", "done")

    found = await client.post(f"{prefix}/search", json={"q": "search provider"})
    assert found.json()["results"]
    found = await client.post(f"{prefix}/llm-platform/web-search", json={"query": "search provider", "count": 2})
    assert len(found.json()["results"]) == 2

    refused = await client.post(f"{prefix}/research", json={"query": ""})
    assert (refused.status_code, refused.headers["content-type"]) == (422, PROBLEM)
    assert refused.json()["instance"] == f"{prefix}/research"
    missing = await client.get(f"{prefix}/research/nothing/sources/0")
    assert (missing.status_code, missing.headers["content-type"]) == (422, PROBLEM)


def logging_state() -> dict[str, tuple[int, int]]:
    names = ["", "uvicorn", "uvicorn.error", "uvicorn.access", "modules.llm_platform", "mcp"]
    return {name: (logging.getLogger(name).level, len(logging.getLogger(name).handlers)) for name in names}


async def test_a_mounted_application_answers_and_closes_with_the_host(tmp_path: Path) -> None:
    """A mounted application needs only the mount.

    The platform opens at the first request and closes when the host shuts down. Signals, the protocol class and loggers
    stay the host's.
    """
    before = logging_state()
    mounted = create_app(documents(tmp_path))
    host = FastAPI()
    host.mount("/llm", mounted)
    host.add_api_route("/own", lambda: "own")
    async with serving(host) as client:
        await answers_everywhere(client, "/llm")
        assert (await client.get("/own")).json() == "own"
        assert (await client.get("/llm/ready")).status_code == 200
        assert (await client.get("/llm/page/main.js")).status_code == 200
        described = await client.get("/llm/docs/openapi.json")
        assert described.json()["servers"] == [{"url": "/llm"}]
        chat = {"model": "research-shallow", "messages": [{"role": "user", "content": QUESTION["query"]}]}
        assert (await client.post("/llm/v1/chat/completions", json=chat)).status_code == 200
        unknown = await client.get("/llm/no-such-route")
        assert (unknown.status_code, unknown.headers["content-type"]) == (404, PROBLEM)
        assert unknown.json()["detail"].endswith(" see /llm/openapi.json.")
        index = (await client.get("/llm/")).json()
        assert (index["openapi"], index["routes"][0]) == ("/llm/openapi.json", "POST /llm/research")
        assert mounted.state.server.platform is not None
    assert mounted.state.server.platform is None
    assert logging_state() == before


async def test_a_host_with_a_lifespan_enters_that_of_the_mounted_application(tmp_path: Path) -> None:
    """A host with a lifespan can open the platform before the first request and close it before its own lifespan ends."""
    mounted = create_app(documents(tmp_path))
    seen: list[bool] = []

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with mounted.router.lifespan_context(mounted):
            seen.append(mounted.state.server.platform is not None)
            yield
        seen.append(mounted.state.server.platform is None)

    host = FastAPI(lifespan=lifespan)
    host.mount("/llm", mounted)
    async with serving(host) as client:
        await answers_everywhere(client, "/llm")
    assert seen == [True, True]


async def test_two_mounts_of_one_host_are_two_platforms(tmp_path: Path) -> None:
    """Concurrent first requests open each application once. The settings of one mount do not affect the other."""
    host = FastAPI()
    key = "a-long-random-word-of-a-test"
    host.mount("/open", create_app(documents(tmp_path / "open")))
    host.mount("/closed", create_app(documents(tmp_path / "closed", LLM_PLATFORM_API_KEYS=(key,))))
    async with serving(host) as client:
        first = await asyncio.gather(*(client.post("/open/research", json=QUESTION) for _ in range(4)))
        assert [answer.status_code for answer in first] == [200] * 4
        assert (await client.post("/closed/research", json=QUESTION)).status_code == 401
        assert (await client.get("/closed/health")).status_code == 200
        headers = {"Authorization": f"Bearer {key}"}
        assert (await client.post("/closed/research", json=QUESTION, headers=headers)).status_code == 200


def test_a_mounted_application_opens_again_in_another_event_loop(tmp_path: Path) -> None:
    """A test client without `with` uses a new event loop for each request."""
    host = FastAPI()
    host.mount("/llm", create_app(documents(tmp_path, ALLOWED_HOSTS=("testserver",))))
    client = TestClient(host)
    for _ in range(2):
        assert client.post("/llm/research", json=QUESTION).status_code == 200
    with TestClient(host) as entered:
        assert entered.post("/llm/research", json=QUESTION).status_code == 200


def test_a_wrong_setting_is_an_error_of_create_app() -> None:
    """A wrong setting stops the host from starting."""
    with pytest.raises(SettingsError, match="SEARCH_PROVIDERS"):
        create_app(Settings.without_environment(SEARCH_PROVIDERS=("nobody",)))


async def test_included_routes_answer_on_the_hosts_platform(tmp_path: Path) -> None:
    """Included routes work under any prefix, appear in the host's OpenAPI document, and support background runs."""
    before = logging_state()
    platform = build_platform(documents(tmp_path))

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with platform:
            yield

    host = FastAPI(lifespan=lifespan)
    host.include_router(research_router(platform), prefix="/api")
    async with serving(host) as client:
        await answers_everywhere(client, "/api")
        described = (await client.get("/openapi.json")).json()["paths"]
        assert {"/api/research", "/api/search", "/api/llm-platform/web-search"} <= set(described)
        assert not any("head" in operations for operations in described.values())
        for path in ("/api/research/options", "/api/research", "/api/search?q=search+provider", "/api/research/none"):
            get, head = [await client.request(method, path) for method in ("GET", "HEAD")]
            assert (head.status_code, head.headers["content-type"]) == (get.status_code, get.headers["content-type"])
            assert head.content == b""
        queued = await client.post("/api/research", json={**QUESTION, "background": True})
        assert queued.status_code == 202, queued.text
        assert queued.headers["location"] == f"/api/research/{queued.json()['id']}"
        events = await client.get(f"{queued.headers['location']}/events", headers={"Accept": "text/event-stream"})
        assert json.loads(events.text.rstrip().rpartition("data: ")[2])["type"] == "done"
    assert logging_state() == before


async def test_a_hosts_dependency_protects_included_routes() -> None:
    """The refusal of a host's dependency is returned unchanged, and no search is made."""
    search = FakeWebSearch([result_item(1, topic="tides")])

    async def refuse() -> None:
        raise HTTPException(status_code=403, detail="members only")

    async with build_platform(Settings.without_environment(), overrides={IWebSearchProvider: search}) as platform:
        host = FastAPI()
        host.include_router(research_router(platform), dependencies=[Depends(refuse)])
        transport = httpx2.ASGITransport(app=host)
        async with httpx2.AsyncClient(transport=transport, base_url="http://api.example.org") as client:
            refused = await client.post("/research", json=QUESTION, headers={"Origin": "https://www.example.org"})
    assert (refused.status_code, refused.json()) == (403, {"detail": "members only"})
    assert search.requests == []


async def test_a_host_decides_about_names_and_origins_of_included_routes() -> None:
    """Included routes do not check Host and Origin, so a host with a public name can do its own checks."""
    search = FakeWebSearch([result_item(1, topic="tides")])
    async with build_platform(Settings.without_environment(), overrides={IWebSearchProvider: search}) as platform:
        assert isinstance(platform, LLMPlatform)
        host = FastAPI()
        host.include_router(research_router(platform))
        transport = httpx2.ASGITransport(app=host)
        async with httpx2.AsyncClient(transport=transport, base_url="http://api.example.org") as client:
            answered = await client.post("/search", json={"q": "tides"}, headers={"Origin": "https://www.example.org"})
    assert answered.status_code == 200, answered.text


@pytest.mark.parametrize(
    ("name", "prefix", "number"),
    [
        ("mounted.py", "/llm", signal.SIGTERM),
        ("mounted.py", "/llm", signal.SIGINT),
        ("with_lifespan.py", "/llm", signal.SIGTERM),
        ("included.py", "/api", signal.SIGTERM),
    ],
)
async def test_the_programs_of_the_guide_serve_and_shut_down(
    name: str, prefix: str, number: signal.Signals, tmp_path: Path
) -> None:
    """Each program of the guide runs unchanged under `uvicorn`.

    It answers, and a signal ends it like any other uvicorn program.
    """
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    (tmp_path / name).write_text(files_in(PAGE)[name], encoding="utf-8")
    words = (f"{name.removesuffix('.py')}:app", "--port", "0")
    with ForkedPython(UVICORN, *words, cwd=tmp_path, stderr=PIPE) as process:
        assert process.stderr is not None
        lines: list[str] = []
        try:
            async with asyncio.timeout(TIMEOUT_S):
                while not (found := re.search(r"running on (http://\S+)", lines[-1] if lines else "")):
                    line = await asyncio.to_thread(process.stderr.readline)
                    assert line, "".join(lines)
                    lines.append(line)
            async with httpx2.AsyncClient(base_url=found[1], timeout=TIMEOUT_S) as client:
                await answers_everywhere(client, prefix)
            process.send_signal(number)
            _, rest = await asyncio.to_thread(process.communicate, timeout=TIMEOUT_S)
            assert "Application shutdown complete" in rest
            assert "Traceback" not in rest.replace("KeyboardInterrupt", "") or number == signal.SIGINT, rest
            assert process.returncode in (0, -number, 128 + number, 1 if number == signal.SIGINT else 0)
        finally:
            process.kill()
