"""The page at / in Chromium: its first paint, and its longest task with a long answer. Prints JSON; started by run.py.

The floor of a paint is what our page shows, as one file of HTML with the same style sheet and without a script. The floor of
a task is a page that puts the HTML of the same answer into its body at once. Floor and page take turns, each visit with an
empty cache. A paint is told in the time that passes, a task in time of the processor.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

from benchmarks.common import median
from benchmarks.watched_http import cpu_ns, running
from playwright.async_api import Browser, Page
from tests.services import page_answers
from tests.services.browser import CHROMIUMS, HEIGHT, chromium, visiting

from modules.llm_platform.presentation.rest.docs_routes import RESEARCH_FOLDER

VISITS = 11
LONG_VISITS = 5
ADDRESSES = {"first": "/", "stored": "/#research/stored"}
SETTLED_MS = 300  # pause after the last request
TRACED = ["toplevel", "disabled-by-default-devtools.timeline"]
LARGEST_PAINT = """new Promise(resolve => new PerformanceObserver(list => resolve(list.getEntries().at(-1).startTime))
    .observe({type: 'largest-contentful-paint', buffered: true}))"""
REQUESTS = "performance.getEntriesByType('resource').length"
HTML = "document.documentElement.outerHTML"
ANSWER_HTML = "document.querySelector('.answer').outerHTML"
APPEND = "html => document.body.insertAdjacentHTML('beforeend', html)"

Figures = dict[str, float]


class StaticPages:
    """Pages by their path, from a server in this process: HTML as it is given, and the page's style sheet."""

    def __init__(self) -> None:
        self.files = {"/page.css": (RESEARCH_FOLDER / "page.css").read_bytes()}

    def add(self, path: str, html: str) -> None:
        """Serve what a page shows, without its scripts and links, with the style sheet."""
        shown = re.sub(r"<script\b.*?</script>|<link\b[^>]*>", "", html, flags=re.DOTALL)
        styled = shown.replace("</head>", '<link rel="stylesheet" href="/page.css"></head>')
        self.files[path] = f"<!doctype html>{styled}".encode()

    @contextmanager
    def served(self) -> Iterator[str]:
        with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self.files)) as server:
            Thread(target=server.serve_forever, daemon=True).start()
            try:
                yield f"http://127.0.0.1:{server.server_port}"
            finally:
                server.shutdown()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, files: dict[str, bytes], *arguments: Any) -> None:
        self.files = files
        super().__init__(*arguments)

    def do_GET(self) -> None:
        content = self.files.get(self.path, b"")
        self.send_response(200 if content else 404)
        self.send_header("Content-Type", "text/css" if self.path.endswith(".css") else "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Write nothing."""


@asynccontextmanager
async def opened(browser: Browser, address: str) -> AsyncIterator[Page]:
    """A page with an empty cache, where nothing is under way any more."""
    context = await browser.new_context(
        viewport={"width": 1280, "height": HEIGHT}, locale="en-US", reduced_motion="reduce"
    )
    try:
        page = await context.new_page()
        await page.goto(address, wait_until="networkidle")
        await page.wait_for_timeout(SETTLED_MS)
        yield page
    finally:
        await context.close()


async def cpu_by_process_s(browser: Browser) -> Figures:
    session = await browser.new_browser_cdp_session()
    found = await session.send("SystemInfo.getProcessInfo")
    await session.detach()
    return {str(process["id"]): process["cpuTime"] for process in found["processInfo"]}


async def painted(browser: Browser, address: str, server_pid: int | None) -> Figures:
    """Return when the largest paint came, and what the visit cost: requests, CPU of the browser and of our server."""
    before, served = await cpu_by_process_s(browser), cpu_ns(server_pid) if server_pid else 0
    async with opened(browser, address) as page:
        after = await cpu_by_process_s(browser)
        paint_ms, requests = await page.evaluate(LARGEST_PAINT), await page.evaluate(REQUESTS)
    browser_ms = 1e3 * sum(spent - before.get(pid, 0.0) for pid, spent in after.items())
    server_ms = (cpu_ns(server_pid) - served) / 1e6 if server_pid else 0.0
    return {"paint_ms": paint_ms, "requests": requests + 1, "browser_cpu_ms": browser_ms, "server_cpu_ms": server_ms}


async def paints(browser: Browser, base: str, pid: int) -> dict[str, dict[str, Figures]]:
    """For each address, the medians of the floor and of our page."""
    floors = StaticPages()
    for name, path in ADDRESSES.items():
        async with opened(browser, base + path) as page:
            floors.add(f"/{name}", await page.evaluate(HTML))
    found: dict[str, dict[str, list[Figures]]] = {name: {"floor": [], "ours": []} for name in ADDRESSES}
    with floors.served() as floor:
        for _ in range(VISITS):
            for name, path in ADDRESSES.items():
                found[name]["floor"].append(await painted(browser, f"{floor}/{name}", None))
                found[name]["ours"].append(await painted(browser, base + path, pid))
    return {name: {side: _medians(visits) for side, visits in sides.items()} for name, sides in found.items()}


def _medians(visits: list[Figures]) -> Figures:
    return {figure: median([visit[figure] for visit in visits]) for figure in visits[0]}


def longest_task_ms(trace: bytes) -> float:
    """Return the time of the processor that the longest task of the page's main thread took."""
    events = json.loads(trace)["traceEvents"]
    threads = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    tasks = [event for event in events if event["name"].endswith("RunTask") and (event["pid"], event["tid"]) in threads]
    return max(float(task.get("tdur", 0)) for task in tasks) / 1000


@asynccontextmanager
async def traced(browser: Browser, page: Page, longest: list[float]) -> AsyncIterator[None]:
    """Add the longest task of this time to the list."""
    await browser.start_tracing(page=page, categories=TRACED)
    yield
    await page.wait_for_timeout(SETTLED_MS)
    longest.append(longest_task_ms(await browser.stop_tracing()))


async def tasks(browser: Browser, base: str, answer: dict[str, Any]) -> Figures:
    """The longest task of a page that gets all of an answer at once, and of ours: written word by word, or opened as stored."""
    longest: dict[str, list[float]] = {"floor": [], "written": [], "opened": []}
    floors = StaticPages()
    floors.add("/", "<html><head></head><body></body></html>")
    with floors.served() as floor:
        for _ in range(LONG_VISITS):
            async with visiting(browser, base) as visit:
                await page_answers.begin(visit)
                async with traced(browser, visit.page, longest["written"]):
                    await page_answers.write(visit, answer["synthesis"])
                    await page_answers.end(visit, answer)
                html = await visit.page.evaluate(ANSWER_HTML)
            async with visiting(browser, base) as visit, traced(browser, visit.page, longest["opened"]):
                await visit.page.evaluate("location.hash = '#research/long'")
                await visit.answered()
            async with opened(browser, f"{floor}/") as page, traced(browser, page, longest["floor"]):
                await page.evaluate(APPEND, html)
    return {name: median(found) for name, found in longest.items()}


async def main() -> None:
    if not any(map(which, CHROMIUMS)):
        print(json.dumps({}))
        return
    answer = page_answers.long_answer()
    with TemporaryDirectory() as folder:
        await page_answers.keep(Path(folder), ("stored", page_answers.long_answer(5, 6)), ("long", answer))
        documents = Path(folder, "documents")
        documents.mkdir()
        (documents / "owls.md").write_text("# Owls\n\nOwls hunt at night.\n")
        settings = {"LLM_PLATFORM_DATA_DIR": folder, "DOCUMENTS_DIR": str(documents)}
        with running("modules.llm_platform.asgi:app", os.environ["FLOOR_UPSTREAM"], **settings) as (pid, port):
            async with chromium() as browser:
                base = f"http://127.0.0.1:{port}"
                figures = {"paints": await paints(browser, base, pid), "tasks": await tasks(browser, base, answer)}
    print(json.dumps(figures))


if __name__ == "__main__":
    asyncio.run(main())
