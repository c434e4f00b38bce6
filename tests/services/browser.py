"""Debian's Chromium, driven by Playwright, with a separate server process."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from shutil import which
from typing import Any

import httpx2
from playwright.async_api import Browser, Locator, Page, Request, Route, async_playwright, expect
from tests.support.forked_command import forked
from tests.support.server_process import SERVE, START_S, until

ROOT = Path(__file__).parents[2]
# The first installed one is used. The headless shell takes 40 % of the CPU time.
CHROMIUMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
AXE = ROOT / "build" / "axe-core" / "axe.min.js"
WIDTHS = (390, 820, 1440)  # a phone, a tablet, a desktop
HEIGHT = 800
PATIENCE_MS = 120_000  # limit for a state of the page on a slow, busy machine
POLL_S = 0.05
STEP_PAUSE_S = 0.2
QUESTION = "When is the next search provider asked, and when is a cited sentence unsupported?"
OFFLINE = ("--documents", str(ROOT / "docs" / "explanation"), "--offline")  # a server reads all 145 pages in a second
FONTS = ("DejaVu Sans", "Noto Sans")  # a wide and a narrow font: lines break at different words
ONE_FONT = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig><include>/etc/fonts/fonts.conf</include><selectfont>
<rejectfont><pattern><patelt name="scalable"><bool>true</bool></patelt></pattern></rejectfont>
<acceptfont><pattern><patelt name="family"><string>{family}</string></patelt></pattern></acceptfont>
</selectfont></fontconfig>
"""


@asynccontextmanager
async def serving_page(folder: Path, *arguments: str, **settings: str) -> AsyncIterator[str]:
    """Yield the address of `llm-platform serve` with these arguments and settings."""
    limits = {"RATE_LIMIT_PER_MINUTE": "0", "RATE_LIMIT_GLOBAL_PER_HOUR": "0", "LLM_PLATFORM_DATA_DIR": str(folder)}
    environment = {**os.environ, **limits, **settings}
    log = folder / "server.log"
    async with forked((*SERVE, *arguments), environment, log) as process:
        yield (await until(lambda: re.search(r"http://127\.0\.0\.1:\d+", log.read_text()), START_S))[0]
        process.terminate()
        await process.wait()


async def until_titles_known(base: str) -> None:
    """Wait for the titles: a new server is still reading its documents, and offers no examples yet."""
    async with httpx2.AsyncClient(base_url=base) as client, asyncio.timeout(START_S):
        while not (await client.get("/research/options")).json()["document_titles"]:
            await asyncio.sleep(POLL_S)


async def becomes(page: Page, expression: str, wanted: Any = True) -> None:
    """Wait until the browser evaluates the expression to this value.

    `wait_for_function` needs `eval`, which the page's policy forbids.
    """
    found = None
    try:
        async with asyncio.timeout(PATIENCE_MS / 1000):
            while (found := await page.evaluate(expression)) != wanted:
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        raise AssertionError(f"{expression} is {found!r}, and not {wanted!r}") from None


async def started(page: Page) -> None:
    """Wait until the page has requested the sources and threads and handles keys. The keys button is drawn last."""
    await page.wait_for_load_state("networkidle")
    await page.locator("#show-keys svg").wait_for(state="attached")


async def forward_until(page: Page, wanted: Locator, step_ms: int) -> None:
    """Advance the page's fake clock step by step until this is shown, so that the page can work between the steps."""
    async with asyncio.timeout(PATIENCE_MS / 1000):
        while not await wanted.count():
            await page.clock.fast_forward(step_ms)
            await asyncio.sleep(STEP_PAUSE_S)


def chromium_path() -> str:
    """Return the first Chromium that is installed."""
    path = next(filter(None, map(which, CHROMIUMS)), None)
    assert path is not None, f"none of {', '.join(CHROMIUMS)} is installed: run `make test-services`"
    return path


@asynccontextmanager
async def chromium(**variables: str) -> AsyncIterator[Browser]:
    """Yield a browser with additional environment variables."""
    path = chromium_path()
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # without it, Chromium refuses to start as root
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=sandbox, env={**os.environ, **variables})
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def chromium_with_font(family: str, folder: Path) -> AsyncIterator[Browser]:
    """Yield a browser for which only this font is installed. `folder` receives its configuration."""
    configuration = folder / "fonts.conf"
    configuration.write_text(ONE_FONT.format(family=family), encoding="utf-8")
    async with chromium(FONTCONFIG_FILE=str(configuration)) as browser:
        page = await browser.new_page()
        await page.set_content("<p>Text</p>")
        session = await page.context.new_cdp_session(page)
        for domain in ("DOM", "CSS"):
            await session.send(f"{domain}.enable")
        root = await session.send("DOM.getDocument")
        found = await session.send("DOM.querySelector", {"nodeId": root["root"]["nodeId"], "selector": "p"})
        fonts = (await session.send("CSS.getPlatformFontsForNode", found))["fonts"]
        assert [font["familyName"] for font in fonts] == [family], (
            f"{family} is not installed: run `make test-services`"
        )
        await page.close()
        yield browser


async def open_panel(page: Page, form: str = "#form") -> None:
    """Open the panel of choices, and wait until it has the focus."""
    await page.click(f"{form} .options-button")
    await expect(page.locator(".options-panel:popover-open")).to_be_visible()
    await expect(page.locator(".options-panel :focus")).to_have_count(1)


class Visit:
    """A page in a browser that records console messages and requests to other servers."""

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

    async def open(self) -> None:
        """Load the page, and wait until it is ready for a question."""
        await self.page.goto(f"{self.base}/")
        await self.page.wait_for_selector("#form .options-button:not(:empty)")
        await started(self.page)

    async def ask(self, query: str = QUESTION, depth: str = "shallow") -> None:
        """Ask with the documents as the only source. For a report this creates the plan."""
        await self.choose(depth)
        await self.page.fill("#query", query)
        if await self.page.evaluate("matchMedia('(hover: none) and (pointer: coarse)').matches"):  # Enter is a new line
            await self.page.locator("#form button[type=submit]").tap()
        else:
            await self.page.press("#query", "Enter")

    async def choose(self, depth: str, *sources: str) -> None:
        """Choose a depth in the panel of the first question, and these sources instead of the documents."""
        await open_panel(self.page)
        await self.page.check(f"[name=depth][value={depth}]", force=True)
        for box in await self.page.locator("[name=sources]").all():
            await box.set_checked(await box.get_attribute("value") in (sources or ("documents",)), force=True)
        await self.page.keyboard.press("Escape")

    async def open_threads(self) -> None:
        """Show the threads, which are next to the page, or in the drawer on a small screen."""
        opener = self.page.get_by_role("button", name="Threads", exact=True)
        if await opener.is_visible():
            await opener.click()
        await self.page.wait_for_selector(".threads li")

    async def answered(self, turns: int = 1) -> None:
        """Wait until the last of this many turns has its answer."""
        await self.page.wait_for_selector(f".turn:nth-child({turns}) .actions")
        await self.page.wait_for_selector(".follow-up")

    async def keep_none(self) -> None:
        """Make runs end with their connection, as for a reader who keeps no threads."""
        await self.page.evaluate("localStorage.setItem('llm-platform.store', 'false')")

    async def play(self, response: Mapping[str, Any], *before: Mapping[str, Any]) -> None:
        """Replace the server's next answer, whatever the question, by a run with the id `r`."""
        events = [*before, {"type": "done", "response": response}]
        body = "".join(
            f"id: {n}\ndata: {json.dumps({'request_id': 'r', **event})}\n\n" for n, event in enumerate(events, 1)
        )

        async def take(route: Route) -> None:
            if (route.request.post_data_json or {}).get("stream"):  # it ends with its connection
                await route.fulfill(content_type="text/event-stream", body=body)
            else:
                await route.fulfill(status=202, json={"id": "r", "status": "running"})

        await self.page.route("**/research", take)
        await self.page.route(
            "**/research/r/events", lambda route: route.fulfill(content_type="text/event-stream", body=body)
        )

    async def play_stored(self, response: Mapping[str, Any]) -> None:
        """Let the server return this answer as stored under the id `abc`."""
        thread = {"id": "abc", "title": "q", "researches": [{"id": "abc"}]}
        job = {"query": "q", "depth": "deep", "response": response}
        await self.page.route("**/research/threads/abc", lambda route: route.fulfill(json=thread))
        await self.page.route("**/research/abc", lambda route: route.fulfill(json=job))

    async def violations(self) -> list[str]:
        """Return the violations that axe finds, with their elements."""
        if not await self.page.evaluate("'axe' in window"):
            assert AXE.is_file(), "axe is not there: run `make test-services`"
            await self.page.evaluate(AXE.read_text(encoding="utf-8"))
        found = await self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{violation['id']}: {[node['target'] for node in violation['nodes']]}" for violation in found["violations"]
        ]

    async def overflow(self) -> int:
        """Return by how many pixels the page is wider than the window."""
        return int(await self.page.evaluate("document.documentElement.scrollWidth - innerWidth"))


@asynccontextmanager
async def visiting(
    browser: Browser, base: str, width: int = 1280, scheme: Any = "light", *, height: int = HEIGHT, **options: Any
) -> AsyncIterator[Visit]:
    """Open the page at /, in en-US and UTC unless `locale` and `timezone_id` are given."""
    options = {"locale": "en-US", "timezone_id": "UTC", **options}
    context = await browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce", **options
    )
    context.set_default_timeout(PATIENCE_MS)
    try:
        visit = Visit(await context.new_page(), base)
        await visit.open()
        yield visit
    finally:
        for page in context.pages:  # stop waiting for requests that the test still answers
            await page.unroute_all(behavior="ignoreErrors")
        await context.close()
