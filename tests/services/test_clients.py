"""The real packages of other systems, unchanged, against a real server over HTTP.

Each program of tests/clients runs in an environment of its own (scripts/client_environments.sh). scripts/client_table.py
writes what passed into docs/reference/compatible-apis.md.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from scripts.client_table import CLIENTS, CLIENTS_DIR, ENVIRONMENTS, ROOT, Client, record
from tests.chat_server import DONE, chunk, completion, usage_chunk
from tests.loopback_upstream import Exchange, json_reply, reply, serving
from tests.server_process import SERVERS, until

pytestmark = [pytest.mark.services, pytest.mark.asyncio(loop_scope="module")]

KEY = "a-long-enough-key"
PROGRAM_S = 240.0  # an import of litellm or gpt-researcher takes many seconds
SENTENCE = "asyncio is a library to write concurrent code using the async/await syntax."
FOUND = {  # all keys of a real SearXNG
    "query": "q",
    "results": [
        {
            "title": "asyncio", "url": "https://example.org/asyncio", "content": SENTENCE, "engine": "wikipedia",
            "engines": ["wikipedia"], "category": "general", "score": 1.0, "positions": [1], "template": "default.html",
            "parsed_url": ["https", "example.org", "/asyncio", "", "", ""], "publishedDate": None, "thumbnail": "",
        }
    ],
    "answers": [], "corrections": [], "infoboxes": [], "suggestions": [], "unresponsive_engines": [],
}
PAGE = f"<html><head><title>asyncio</title></head><body><main><h1>asyncio</h1><p>{SENTENCE}</p></main></body></html>"
WRITTEN = f"{SENTENCE.removesuffix('.')} [1]."
NO_LIMITS = {"RATE_LIMIT_PER_MINUTE": "0", "RATE_LIMIT_GLOBAL_PER_HOUR": "0"}
LIMITS = {"RATE_LIMIT_PER_MINUTE": "1", "RATE_LIMIT_BURST": "1"}


async def upstream(exchange: Exchange) -> None:
    """A SearXNG, a language model and a page."""
    if exchange.path.startswith("/page"):
        await reply(200, PAGE.encode(), "content-type: text/html")(exchange)
    elif not exchange.path.endswith("/chat/completions"):
        await json_reply(FOUND)(exchange)
    elif exchange.json.get("stream"):
        events = (chunk(WRITTEN[:30]), chunk(WRITTEN[30:]), chunk(finish="stop"), usage_chunk(11, 9), DONE)
        await reply(200, b"".join(events), "content-type: text/event-stream")(exchange)
    else:
        usage = {"prompt_tokens": 11, "completion_tokens": 9}
        await reply(200, completion(WRITTEN, usage=usage), "content-type: application/json")(exchange)


@asynccontextmanager
async def served(folder: Path, upstream_url: str, **settings: str) -> AsyncIterator[str]:
    """Yield the address of a server process: it searches documents, or what the settings name."""
    folder.mkdir()
    (folder / "documents").mkdir()
    (folder / "documents" / "asyncio.md").write_text(f"# asyncio\n\n{SENTENCE}\n")
    env = {
        **os.environ,
        "DOCUMENTS_DIR": str(folder / "documents"),
        "SEARCH_PROVIDERS": "documents",
        "CACHE_TTL_S": "0",
        "LLM_API_KEY": "model-key",
        "LLM_BASE_URL": f"{upstream_url}/v1",
        "LLM_MODEL": "fake-1",
        "READER_ALLOWED_HOSTS": upstream_url.removeprefix("http://"),
        "READERS": "direct",
        "EMBEDDER": "wordllama",
        "LLM_PLATFORM_DATA_DIR": str(folder),
        **settings,
    }
    log = folder / "server.log"
    with log.open("w") as file:
        process = await asyncio.create_subprocess_exec(sys.executable, *SERVERS["serve"], env=env, stderr=file)
    try:
        found = await until(lambda: re.search(r"http://127\.0\.0\.1:\d+", log.read_text()))
        yield found[0]
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def variables(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[dict[str, str]]:
    """The variables of the programs; three servers run."""
    folder = tmp_path_factory.mktemp("served")
    async with AsyncExitStack() as stack:
        url = (await stack.enter_async_context(serving(upstream))).url
        keys = {"LLM_PLATFORM_API_KEYS": KEY, "SEARCH_PROVIDERS": "searxng", "SEARXNG_URL": url}
        yield {
            "CHECKED_KEY": KEY,
            "CHECKED_PAGE_URL": f"{url}/page",
            "CHECKED_URL": await stack.enter_async_context(served(folder / "keys", url, **keys, **NO_LIMITS)),
            "CHECKED_OPEN_URL": await stack.enter_async_context(served(folder / "open", url, **NO_LIMITS)),
            "CHECKED_LIMITED_URL": await stack.enter_async_context(served(folder / "few", url, **keys, **LIMITS)),
        }


def prepare(environment: str) -> None:
    """Make the environment unless it is there."""
    subprocess.run(
        ["bash", "scripts/client_environments.sh", environment],
        cwd=ROOT, check=True, env={**os.environ, "PYTHON": sys.executable},
    )


async def run(client: Client, variables: dict[str, str]) -> dict[str, str]:
    """Run the program; return what went wrong by check, empty where nothing did."""
    python = ENVIRONMENTS / client.environment / "bin/python" if client.environment else sys.executable
    ours = ("PYTHON", "LLM_", "SEARX", "TAVILY", "OPENAI", "PERPLEXITY", "PPLX", "RETRIEVER", "LANG", "COV_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    process = await asyncio.create_subprocess_exec(
        python, f"{client.program}.py",
        cwd=CLIENTS_DIR, env={**env, **variables}, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, errors = await asyncio.wait_for(process.communicate(), PROGRAM_S)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, errors.decode()
    results: dict[str, str] = json.loads(out.splitlines()[-1])
    return results


@pytest.mark.parametrize("client", CLIENTS, ids=str)
async def test_client_works_unchanged(client: Client, variables: dict[str, str]) -> None:
    """Each check of the program passes: only the address was changed."""
    if client.environment:
        await asyncio.to_thread(prepare, client.environment)
    results = await run(client, variables)
    assert tuple(results) == client.checks
    record(client, results)
    assert not any(results.values()), "\n".join(f"{name}: {error}" for name, error in results.items() if error)
