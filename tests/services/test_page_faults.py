"""The page at / when something is late, lost, silent or done twice: cancels, double clicks, long threads, a lost server."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from playwright.async_api import Browser, Error, Route, expect
from tests.server_process import until
from tests.services.browser import Visit, becomes, visiting
from tests.services.page_answers import citation, response

pytestmark = [pytest.mark.services, pytest.mark.asyncio(loop_scope="session")]

JOB = {"id": "r", "status": "running"}
LISTS = re.compile(r"/research/threads\?")
WATCH = """selector => {
    window.said = [];
    const watched = document.querySelector(selector);
    const changes = {childList: true, characterData: true, subtree: true};
    new MutationObserver(() => said.push(watched.textContent)).observe(watched, changes);
}"""


def held(gate: asyncio.Event, **answer: Any) -> Callable[[Route], Awaitable[None]]:
    """Answer when the gate is open, where the page still waits for it."""

    async def handle(route: Route) -> None:
        await gate.wait()
        with suppress(Error):
            await route.fulfill(**answer)

    return handle


async def asked(visit: Visit, wanted: str, times: int = 1) -> None:
    """So many of these requests have left the page."""
    await until(lambda: visit.seen.count(wanted) >= times)


SIZES = "['partial', 'unsupported', 'uncited'].map(each => CSS.highlights.get(`sentence-${each}`).size)"


class TestLeaving:
    async def test_lines_go_with_their_text(self, browser: Browser, base: str) -> None:
        """The lines under sentences of an answer that is left are forgotten."""
        text = "They never hunt [1]."
        made = response(text)
        made["citations"] = [citation(text, "They never hunt", made["raw_results"][0]["content"], "The owl", "unsupported")]
        async with visiting(browser, base) as visit:
            await visit.play(made)
            await visit.ask()
            await visit.answered()
            assert await visit.page.evaluate(SIZES) == [0, 1, 0]
            await visit.page.get_by_role("link", name="New question").click()
            await expect(visit.page.locator("#query")).to_be_visible()
            await becomes(visit.page, SIZES, [0, 0, 0])

    async def test_what_comes_late_is_not_heard(self, browser: Browser, base: str) -> None:
        """A run that arrives after its view was left says nothing."""
        gate = asyncio.Event()
        thread = {"id": "r", "title": "q", "researches": [JOB]}
        async with visiting(browser, base) as visit:
            page = visit.page
            await page.route("**/research/threads/r", lambda route: route.fulfill(json=thread))
            await page.route("**/research/r", held(gate, json={"id": "r", "status": "queued", "query": "q", "depth": "deep"}))
            await page.goto(f"{base}/#research/r")
            await asked(visit, "GET /research/r")
            await page.evaluate(WATCH, "#status")
            await page.get_by_role("link", name="New question").click()
            await expect(page.locator("#query")).to_be_visible()
            async with page.expect_response("**/research/r"):
                gate.set()
            await page.evaluate("fetch('research/options').then(response => response.text())")
            assert await page.evaluate("said") == []
