"""Debian's Chromium, driven by Playwright, before a server process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from shutil import which
from typing import Any

from playwright.async_api import Browser, Page, Request, async_playwright
from tests.server_process import until

ROOT = Path(__file__).parents[2]
AXE = ROOT / "build" / "axe-core" / "axe.min.js"
WIDTHS = (360, 768, 1280)  # a phone, a tablet, a desktop
HEIGHT = 800
QUESTION = "When is the next search provider asked, and when is a cited sentence unsupported?"
OFFLINE = ("--documents", str(ROOT / "docs"), "--offline")


@asynccontextmanager
async def serving_page(folder: Path, *arguments: str, **settings: str) -> AsyncIterator[str]:
    """The address of `llm-platform serve` with these arguments and settings."""
    limits = {"RATE_LIMIT_PER_MINUTE": "0", "RATE_LIMIT_GLOBAL_PER_HOUR": "0", "LLM_PLATFORM_DATA_DIR": str(folder)}
    environment = {**os.environ, **limits, **settings}
    command = [sys.executable, "-m", "modules.llm_platform", "serve", "--port", "0", *arguments]
    log = folder / "server.log"
    with log.open("w") as file:
        process = await asyncio.create_subprocess_exec(*command, env=environment, stderr=file)
    try:
        yield (await until(lambda: re.search(r"http://127\.0\.0\.1:\d+", log.read_text())))[0]
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    path = which("chromium")
    assert path is not None, "chromium is not installed: run `make test-services`"
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium refuses to start as root with it
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=sandbox)
        try:
            yield browser
        finally:
            await browser.close()


class Visit:
    """A page of a browser, and what went wrong or out on it: messages of the console, requests to other servers."""

    def __init__(self, page: Page, base: str) -> None:
        self.page = page
        self.base = base
        self.errors: list[str] = []
        self.foreign: list[str] = []
        self.seen: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        page.on("request", self._look)

    def _look(self, request: Request) -> None:
        self.seen.append(f"{request.method} {request.url.removeprefix(self.base)}")
        if not request.url.startswith((self.base, "data:", f"blob:{self.base}")):
            self.foreign.append(request.url)

    async def ask(self, query: str = QUESTION, depth: str = "shallow") -> None:
        """Ask with the documents as the only source; for a report this makes the plan."""
        await self.page.check(f"[name=depth][value={depth}]", force=True)
        for source in ("web", "news", "academic", "documents"):
            await self.page.set_checked(f"[name=sources][value={source}]", source == "documents", force=True)
        await self.page.fill("#query", query)
        await self.page.press("#query", "Enter")

    async def answered(self) -> None:
        await self.page.wait_for_selector("[role=tablist]")

    async def play(self, response: Mapping[str, Any], *before: Mapping[str, Any]) -> None:
        """Let the server's next answer be this one, whatever is asked."""
        events = [*before, {"type": "done", "response": response}]
        body = "".join(
            f"id: {n}\ndata: {json.dumps({'request_id': 'r', **event})}\n\n" for n, event in enumerate(events, 1)
        )
        await self.page.route("**/research", lambda route: route.fulfill(content_type="text/event-stream", body=body))

    async def violations(self) -> list[str]:
        """What axe finds, each with the elements."""
        if not await self.page.evaluate("'axe' in window"):
            assert AXE.is_file(), "axe is not there: run `make test-services`"
            await self.page.evaluate(AXE.read_text(encoding="utf-8"))
        found = await self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [f"{each['id']}: {[node['target'] for node in each['nodes']]}" for each in found["violations"]]

    async def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        return int(await self.page.evaluate("document.documentElement.scrollWidth - innerWidth"))


@asynccontextmanager
async def visiting(
    browser: Browser, base: str, width: int = 1280, scheme: Any = "light", *, height: int = HEIGHT, **options: Any
) -> AsyncIterator[Visit]:
    """The page at /, with a language of en-US unless `locale` says another one."""
    options.setdefault("locale", "en-US")
    context = await browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce", **options
    )
    try:
        visit = Visit(await context.new_page(), base)
        await visit.page.goto(f"{base}/")
        await visit.page.wait_for_selector("#hint:not(:empty)")
        await visit.page.wait_for_load_state("networkidle")  # it has asked which sources the server has
        yield visit
    finally:
        await context.close()
