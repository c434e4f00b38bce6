"""Unmodified client packages of other systems with a real server over HTTP.

Each program of tests/clients runs in a separate environment (scripts/client_environments.sh). scripts/client_table.py
writes the passed checks into docs/reference/compatible-apis.md.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from scripts.client_table import CLIENTS, CLIENTS_DIR, ENVIRONMENTS, NODE, ROOT, Client, record
from tests.support.chat_server import DONE, chunk, completion, usage_chunk
from tests.support.forked_command import forked
from tests.support.loopback_upstream import Exchange, json_reply, reply, serving
from tests.support.patient_command import CHECK_LIMITS, patient
from tests.support.server_process import SERVE, START_S, until

pytestmark = [pytest.mark.services, pytest.mark.asyncio(loop_scope="module")]

KEY = "a-long-enough-key"
PROGRAM_S = 600.0  # imports of litellm take minutes on a busy machine, and aider is started three times
SENTENCE = "asyncio is a library to write concurrent code using the async/await syntax."
FOUND: dict[str, Any] = {  # all keys of a real SearXNG
    "query": "q",
    "results": [
        {
            "title": "asyncio",
            "url": "https://example.org/asyncio",
            "content": SENTENCE,
            "engine": "wikipedia",
            "engines": ["wikipedia"],
            "category": "general",
            "score": 1.0,
            "positions": [1],
            "template": "default.html",
            "parsed_url": ["https", "example.org", "/asyncio", "", "", ""],
            "publishedDate": None,
            "thumbnail": "",
        }
    ],
    "answers": [],
    "corrections": [],
    "infoboxes": [],
    "suggestions": [],
    "unresponsive_engines": [],
}
PAGE = (
    f"<html><head><title>asyncio</title></head><body><nav><a href='/page/tasks'>Tasks</a><a href='/page/private'>P</a></nav>"
    f"<main><h1>asyncio</h1><p>{SENTENCE}</p></main></body></html>"
)
TUTORIAL = "/page/tutorial"
LONG_PAGE = PAGE.replace(
    "</main>", f"<p>{'It runs coroutines in an event loop. ' * 10}</p></main>"
)  # clients drop short results
ROBOTS = b"User-agent: *\nDisallow: /page/private"
WRITTEN = f"{SENTENCE.removesuffix('.')} [1]."
# The answer that checks.py expects for a question with these words.
PAGE_WORD, LATE_ERROR, BUSY_ONCE = "tutorial", "The service fails late.", "The service is busy once."
LATE_S = 5.0  # the head of a stream is sent before
busy: set[str] = set()  # conversations that were once refused
FIELDS_OF_DSPY = "Respond with the corresponding output fields"  # their names follow
VALUES_OF_DSPY = {"next_tool_name": "today", "next_tool_args": "{}"}
WHOLE_FILE = "into notes.md"
NOTE_PATH = re.compile(r"/[\w/.-]+/note\.md")
OWN_PRICES = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}  # without it, it asks GitHub three times with pauses
NO_LIMITS = {"RATE_LIMIT_PER_MINUTE": "0", "RATE_LIMIT_GLOBAL_PER_HOUR": "0"}
LIMITED = ("RATE_LIMIT_PER_MINUTE", "RATE_LIMIT_BURST", "RATE_LIMIT_READS_PER_MINUTE", "RATE_LIMIT_READS_BURST")
LIMITS = dict.fromkeys(LIMITED, "1")


async def upstream(exchange: Exchange) -> None:
    """Serve a SearXNG, a language model and a page."""
    if exchange.path.startswith("/page"):
        text = LONG_PAGE if exchange.path == TUTORIAL else PAGE
        await reply(200, text.encode(), "content-type: text/html")(exchange)
    elif exchange.path == "/robots.txt":
        await reply(200, ROBOTS, "content-type: text/plain")(exchange)
    elif not exchange.path.endswith("/chat/completions"):
        await json_reply(found(exchange))(exchange)
    else:
        await write(exchange)


def found(exchange: Exchange) -> dict[str, Any]:
    """Return the results. A query with the word of the page finds the page, which a client may read too."""
    if PAGE_WORD not in exchange.path and PAGE_WORD not in exchange.body.decode():
        return FOUND
    return {**FOUND, "results": [{**FOUND["results"][0], "url": f"http://{exchange.headers['host']}{TUTORIAL}"}]}


async def write(exchange: Exchange) -> None:
    """The language model calls each offered tool once, fills a schema, and otherwise writes the sentence in the
    requested format.
    """
    body = exchange.json
    said = json.dumps(body["messages"])
    if LATE_ERROR in said:
        await asyncio.sleep(LATE_S)
        await reply(401)(exchange)
        return
    if BUSY_ONCE in said and said not in busy:
        busy.add(said)
        await reply(429, b"", "retry-after: 1")(exchange)
        return
    text, finish, message = WRITTEN, "stop", {}
    if FIELDS_OF_DSPY in said:
        fields = re.findall(r"\[\[ ## (\w+) ## \]\]", said.rpartition(FIELDS_OF_DSPY)[2])
        text = "\n\n".join(f"[[ ## {name} ## ]]\n{VALUES_OF_DSPY.get(name, WRITTEN)}" for name in fields)
    elif WHOLE_FILE in said:
        text = f"notes.md\n```\n{SENTENCE}\n```\n"
    if body.get("tools") and body["messages"][-1]["role"] != "tool":
        functions = {tool["function"]["name"]: tool["function"] for tool in body["tools"]}
        function = functions.get("Read") or body["tools"][0]["function"]
        arguments = dict.fromkeys(function["parameters"].get("required", ()), "What is Python asyncio?")
        if path := NOTE_PATH.search(said):
            arguments = {"file_path": path[0]}
        called = {"name": function["name"], "arguments": json.dumps(arguments)}
        text, finish = "", "tool_calls"
        message = {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": called}]}
    elif body.get("response_format"):
        text = json.dumps({"answer": WRITTEN})
    if body.get("stream"):
        events = (chunk(text[:30], **message), chunk(text[30:]), chunk(finish=finish), usage_chunk(11, 9), DONE)
        await reply(200, b"".join(events), "content-type: text/event-stream")(exchange)
    else:
        usage = {"prompt_tokens": 11, "completion_tokens": 9}
        await reply(200, completion(text, finish, usage, **message), "content-type: application/json")(exchange)


@asynccontextmanager
async def served(folder: Path, upstream_url: str, **settings: str) -> AsyncIterator[str]:
    """Yield the address of a server process that searches documents, or what the settings name."""
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
        "ANTHROPIC_MODELS": '{"claude-*": "openai/fake-1"}',
        "LLM_PLATFORM_DATA_DIR": str(folder),
        **settings,
    }
    log = folder / "server.log"
    async with forked(SERVE, env, log, patient(CHECK_LIMITS)):
        found = await until(lambda: re.search(r"http://127\.0\.0\.1:\d+", log.read_text()), START_S)
        yield found[0]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def variables(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[dict[str, str]]:
    """Return the variables of the programs while four servers run."""
    folder = tmp_path_factory.mktemp("served")
    async with AsyncExitStack() as stack:
        url = (await stack.enter_async_context(serving(upstream))).url
        keys = {"LLM_PLATFORM_API_KEYS": KEY, "SEARCH_PROVIDERS": "searxng", "SEARXNG_URL": url}
        yield {
            "CHECKED_KEY": KEY,
            "CHECKED_PAGE_URL": f"{url}/page",
            "CHECKED_URL": await stack.enter_async_context(served(folder / "keys", url, **keys, **NO_LIMITS)),
            "CHECKED_OPEN_URL": await stack.enter_async_context(served(folder / "open", url, **NO_LIMITS)),
            "CHECKED_USUAL_URL": await stack.enter_async_context(served(folder / "usual", url, **keys)),
            "CHECKED_LIMITED_URL": await stack.enter_async_context(served(folder / "few", url, **keys, **LIMITS)),
        }


def prepare(environment: str) -> None:
    """Create the environment if it is missing."""
    subprocess.run(
        ["bash", "scripts/client_environments.sh", environment],
        cwd=ROOT,
        check=True,
        env={**os.environ, "PYTHON": sys.executable},
    )


async def run(client: Client, variables: dict[str, str]) -> dict[str, str]:
    """Run the program and return the fault of each check, or an empty text."""
    environment = ENVIRONMENTS / client.environment
    folder, interpreter = CLIENTS_DIR, environment / "bin/python" if client.environment else Path(sys.executable)
    if client.environment == NODE:  # a module finds packages in its folder
        folder, interpreter = environment, environment / "bin/node"
        for file in (client.file, CLIENTS_DIR / "checks.mjs"):
            shutil.copy(file, folder)
    ours = (
        "PYTHON",
        "LLM_",
        "SEARX",
        "TAVILY",
        "OPENAI",
        "ANTHROPIC",
        "PERPLEXITY",
        "PPLX",
        "RETRIEVER",
        "LANG",
        "COV_",
    )
    env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    process = await asyncio.create_subprocess_exec(
        interpreter,
        client.file.name,
        cwd=folder,
        env={**env, **OWN_PRICES, **variables},
        stdout=asyncio.subprocess.PIPE,
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
    """Every check of the program passes with only the address changed."""
    if client.environment:
        await asyncio.to_thread(prepare, client.environment)
    results = await run(client, variables)
    assert tuple(results) == client.checks
    record(client, results)
    assert not any(results.values()), "\n".join(f"{name}: {error}" for name, error in results.items() if error)
