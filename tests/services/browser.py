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
PATIENCE_MS = 120_000  # of a state of the page, which a busy machine reaches late
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
        await self.choose(depth)
        await self.page.fill("#query", query)
        if await self.page.evaluate("matchMedia('(hover: none) and (pointer: coarse)').matches"):  # Enter is a new line
            await self.page.locator("#form button[type=submit]").tap()
        else:
            await self.page.press("#query", "Enter")

    async def choose(self, depth: str, *sources: str) -> None:
        """Choose a depth, and these sources in the place of the documents, in the panel of the first question."""
        await self.page.click("#form .options-button")
        await self.page.check(f"[name=depth][value={depth}]", force=True)
        for box in await self.page.locator("[name=sources]").all():
            await box.set_checked(await box.get_attribute("value") in (sources or ("documents",)), force=True)
        await self.page.keyboard.press("Escape")

    async def open_threads(self) -> None:
        """Beside the page they are there; on a small screen they are in the drawer."""
        opener = self.page.get_by_role("button", name="Threads", exact=True)
        if await opener.is_visible():
            await opener.click()
        await self.page.wait_for_selector(".threads li")

    async def answered(self, turns: int = 1) -> None:
        """The last of so many turns has its answer."""
        await self.page.wait_for_selector(f".turn:nth-child({turns}) .actions")
        await self.page.wait_for_selector(".follow-up")

    async def keep_none(self) -> None:
        """Let the page's requests end with their connection, as in a browser whose reader keeps nothing."""
        await self.page.evaluate("localStorage.setItem('llm-platform.store', 'false')")

    async def play(self, response: Mapping[str, Any], *before: Mapping[str, Any]) -> None:
        """Let the server's next answer be this one, whatever is asked: a run with the id `r`."""
        events = [*before, {"type": "done", "response": response}]
        body = "".join(
            f"id: {n}\ndata: {json.dumps({'request_id': 'r', **event})}\n\n" for n, event in enumerate(events, 1)
        )
        job = {"id": "r", "status": "running"}
        await self.page.route("**/research", lambda route: route.fulfill(status=202, json=job))
        await self.page.route("**/research/r/events", lambda route: route.fulfill(content_type="text/event-stream", body=body))

    async def play_stored(self, response: Mapping[str, Any]) -> None:
        """Let the server have this answer stored, as `abc`."""
        thread = {"id": "abc", "title": "q", "researches": [{"id": "abc"}]}
        job = {"query": "q", "depth": "deep", "response": response}
        await self.page.route("**/research/threads/abc", lambda route: route.fulfill(json=thread))
        await self.page.route("**/research/abc", lambda route: route.fulfill(json=job))

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
    context.set_default_timeout(PATIENCE_MS)
    try:
        visit = Visit(await context.new_page(), base)
        await visit.page.goto(f"{base}/")
        await visit.page.wait_for_selector("#form .options-button:not(:empty)")
        await visit.page.wait_for_load_state("networkidle")  # it has asked for the sources and the threads of the server
        yield visit
    finally:
        await context.close()
