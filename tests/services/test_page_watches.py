"""Watched questions on the page at /, in a real Chromium: the bell, and both quotes of a change."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect
from tests.services.browser import WIDTHS, serving_page, visiting
from tests.support.watched_page import HOURS, NEW_TOLL, QUESTION, TOLL

pytestmark = [pytest.mark.services, pytest.mark.asyncio(loop_scope="session")]

RELOADS = 200  # of the page, each for half a second or more
HOSTILE = '<img src=x onerror="window.hacked=1">'


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Path:
    document = tmp_path_factory.mktemp("documents") / "bridge.md"
    document.write_text(f"# Harbour bridge\n\n{TOLL}\n\n{HOURS}\n")
    return document


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def base(document: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    arguments = ("--documents", str(document.parent), "--offline")
    async with serving_page(tmp_path_factory.mktemp("server"), *arguments) as address:
        yield address


async def test_the_bell_watches_and_the_list_shows_both_quotes(browser: Browser, base: str, document: Path) -> None:
    """One table shows both quotes with their dates.

    The values are marked, and quotes are shown as text, whatever they contain.
    """
    async with visiting(browser, base) as visit:
        page = visit.page
        await visit.open()
        await visit.ask(QUESTION)
        await visit.answered()
        await page.get_by_role("button", name="Watch", exact=True).click()
        await page.get_by_role("link", name="Watched each day").click()
        card = page.locator(".watch-card")
        await expect(card.locator("h2")).to_have_text(QUESTION)
        await expect(card).to_contain_text("No change yet")
        await expect(card).to_contain_text("Runs: 0")
        for _ in range(RELOADS):
            await page.reload()
            await expect(card).to_contain_text("Runs:")
            if "Runs: 1" in await card.inner_text():
                break
            await page.wait_for_timeout(200)
        document.write_text(f"# Harbour bridge\n\n{NEW_TOLL}\n\n{HOURS} {HOSTILE}\n")
        asked = 0
        for _ in range(RELOADS):
            if f"Runs: {asked + 1}" in await card.inner_text():  # that run may have read the folder before the change
                await card.get_by_role("button", name="Ask now").click()
                await expect(card).to_contain_text("Run requested.")
                asked += 1
            await page.reload()
            await expect(card).to_contain_text("Runs:")
            if await card.locator("table").count():
                break
            await page.wait_for_timeout(200)
        table = card.locator("table.change")
        await expect(table.locator("caption")).to_contain_text("Changed: The toll on the harbour bridge is … euros")
        before, now = await table.locator("blockquote").all()
        await expect(before).to_have_text(TOLL)
        await expect(now).to_have_text(NEW_TOLL)
        assert await table.locator("mark").all_inner_texts() == ["12", "14"]
        for width in WIDTHS:
            await page.set_viewport_size({"width": width, "height": 800})
            left, right = await before.bounding_box(), await now.bounding_box()
            assert left is not None
            assert right is not None
            assert left["y"] == right["y"]
            assert left["x"] + left["width"] <= right["x"]
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert await page.evaluate("window.hacked") is None
        await card.get_by_role("button", name="Delete").click()
        await expect(card).to_have_count(0)
        await page.reload()
        await expect(page.locator(".watches")).to_contain_text("You are not watching any questions yet.")
        assert visit.foreign == []
