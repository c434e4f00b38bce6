"""The page at / during a report: the estimate, the results for each sub-question, and an early finish."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect
from tests.services.browser import WIDTHS, Visit, serving_page, visiting
from tests.services.page_answers import SEND, STREAM
from tests.support.loopback_upstream import Exchange, serving
from tests.support.report_upstream import Upstream, report_settings
from tests.support.report_world import QUESTION, SUB_QUESTIONS

pytestmark = [pytest.mark.services, pytest.mark.asyncio(loop_scope="session")]

SEARCHED = {"type": "searched", "query": "q", "provider": "x", "count": 1, "cached": False}
FINISH = "Write the answer now"
PLACES = "[...document.querySelectorAll('.finding')].map(each => each.offsetTop + ' ' + each.offsetHeight)"


@dataclass
class PagesLater(Upstream):
    """An upstream that sends pages only after `is_asked` is set."""

    is_asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, exchange: Exchange) -> None:
        if exchange.path.startswith(("/r/", "/pages/")):
            await self.is_asked.wait()
        await super().handle(exchange)


def priced(url: str) -> str:
    """Return the setting of a model with prices for tokens."""
    model = {"name": "priced", "kind": "openai", "base_url": f"{url}/v1", "api_key": "k", "model": "scripted"}
    return json.dumps([{**model, "price_in": 1, "price_out": 4}])


@asynccontextmanager
async def report_running(
    browser: Browser, folder: Path, upstream: Upstream, width: int = 1280, scheme: str = "light"
) -> AsyncIterator[Visit]:
    """Yield the page of a running report, with a model and pages of a loopback server."""
    async with (
        serving(upstream.handle) as loopback,
        serving_page(folder, **report_settings(loopback, folder)) as base,
        visiting(browser, base, width, scheme) as visit,
    ):
        await visit.choose("report", "web")
        await visit.page.fill("#query", QUESTION)
        await visit.page.click("#form button[type=submit]")
        await visit.page.get_by_role("button", name="Start the report").click()
        await visit.page.wait_for_url("**/#research/*")
        yield visit


class TestPlan:
    async def test_the_plan_shows_its_estimate(self, browser: Browser, tmp_path: Path) -> None:
        """The plan shows upper bounds for searches, pages, calls, tokens, dollars and minutes.

        They follow the sub-questions and the limits, and past reports give the time.
        """
        upstream = Upstream()
        async with (
            serving(upstream.handle) as loopback,
            serving_page(tmp_path, **report_settings(loopback, tmp_path), LLM_PROVIDERS=priced(loopback.url)) as base,
            visiting(browser, base) as visit,
        ):
            page, takes = visit.page, visit.page.locator(".takes")
            await page.evaluate(
                "localStorage.setItem('llm-platform.durations', JSON.stringify({report: [90000, 95000]}))"
            )
            await visit.choose("report", "web")
            await page.fill("#query", QUESTION)
            await page.click("#form button[type=submit]")
            await expect(takes).to_contain_text("At most: searches: 11 · pages: 11 · calls of language models: 10")
            await expect(takes).to_contain_text("tokens: ")
            await expect(takes).to_contain_text("$0.")
            await expect(takes).to_contain_text("Your past reports took about 95 sec.")
            await page.get_by_role("button", name="Remove sub-question 1").click()
            await expect(takes).to_contain_text("searches: 10 · pages: 11 · calls of language models: 8")
            await page.get_by_text("Limits", exact=True).click()
            await page.get_by_label("Calls of language models").fill("7")
            await page.get_by_label("Cost in US dollars").fill("0.05")
            await page.get_by_label("Minutes").fill("2")
            await expect(takes).to_contain_text("searches: 10 · pages: 11 · calls of language models: 7")
            await expect(takes).to_contain_text("$0.05")
            await expect(takes).to_contain_text("2 min")
            assert not await visit.violations()
            assert (visit.errors, visit.foreign) == ([], [])


class TestSections:
    @pytest.mark.parametrize("width", WIDTHS)
    async def test_sub_questions_fill_while_they_are_answered(
        self, browser: Browser, tmp_path: Path, width: int
    ) -> None:
        """Each planned sub-question is a heading with its results, its read pages and a passage.

        Nothing moves while they fill, and the text replaces them.
        """
        async with report_running(browser, tmp_path, Upstream(silent_pages_from=2), width) as visit:
            page, findings = visit.page, visit.page.locator(".finding")
            await expect(findings).to_have_count(len(SUB_QUESTIONS))
            places = await page.evaluate(PLACES)
            for place, question in enumerate(SUB_QUESTIONS):
                await expect(findings.nth(place).get_by_role("heading")).to_have_text(question)
                await expect(findings.nth(place)).to_contain_text("results: ")
                await expect(findings.nth(place).locator(".finding-quote")).not_to_be_empty()
            await expect(page.locator(".findings")).to_contain_text("read: ")
            assert await page.evaluate(PLACES) == places
            assert await visit.overflow() <= 0
            assert not await visit.violations()
            if folder := os.environ.get("SCREENSHOTS"):
                for scheme in ("light", "dark"):
                    await page.emulate_media(color_scheme=scheme)
                    await page.screenshot(path=f"{folder}/report-{width}-{scheme}.png")
            await page.get_by_role("button", name=FINISH).click()
            await visit.answered()
            await expect(page.locator(".findings")).to_have_count(0)
            assert (visit.errors, visit.foreign) == ([], [])

    @pytest.mark.parametrize("width", [360, 1280])
    async def test_a_preview_is_relevant_to_its_question(self, browser: Browser, base: str, width: int) -> None:
        """The preview is the sentence of a result with the most words of the question, or nothing.

        A line of many names stays within the column.
        """
        question = "How do heat pumps work in cold winters?"
        menu = {
            "url": "https://menu.example/",
            "title": "Menu",
            "snippet": "We use cookies. All rooms have a view of the sea.",
        }
        text = "About us. A heat pump takes heat from cold air. Order now."
        pump = {"url": "https://pump.example/", "title": "", "snippet": text}
        hosts = [f"https://a-very-long-name-of-a-host-number-{number}.example/" for number in range(4)]
        async with visiting(browser, base, width) as visit:
            page, quote = visit.page, visit.page.locator(".finding-quote")
            await visit.keep_none()
            await page.evaluate(STREAM)
            await visit.ask(depth="deep")
            await page.evaluate(SEND, {"type": "planned", "questions": [question]})
            others = [{**menu, "url": url} for url in hosts]
            await page.evaluate(SEND, {**SEARCHED, "question": question, "results": [menu, *others]})
            await expect(page.locator(".finding-state")).to_contain_text("results: 5")
            await expect(quote).to_be_empty()
            await page.evaluate(SEND, {**SEARCHED, "question": question, "results": [pump]})
            await expect(quote).to_have_text("A heat pump takes heat from cold air.")
            for url in (menu["url"], *hosts):
                await page.evaluate(SEND, {"type": "read", "url": url, "status": "read", "chars": 9})
            await expect(page.locator(".finding-state")).to_contain_text("number-2")
            await expect(quote).to_have_text("A heat pump takes heat from cold air.")
            right = "[...document.querySelectorAll('.finding *')].map(each => each.getBoundingClientRect().right)"
            column = await page.evaluate("document.querySelector('.answer-column').getBoundingClientRect().right")
            assert max(await page.evaluate(right)) <= column + 1
            await expect(page.locator(".steps-list")).to_contain_text("Sub-questions planned: 1")


class TestFinishing:
    async def test_a_report_can_be_finished_early(self, browser: Browser, tmp_path: Path) -> None:
        """A button next to *Cancel* ends the reading of pages.

        The answer uses the pages read so far, and gives the reason.
        """
        async with report_running(browser, tmp_path, Upstream(silent_pages_from=2)) as visit:
            page = visit.page
            await expect(page.locator(".steps-list")).to_contain_text("Pages summarised: 2")
            await page.get_by_role("button", name=FINISH).click()
            await visit.answered()
            await expect(page.get_by_role("button", name=FINISH)).to_have_count(0)
            await expect(page.locator(".notes")).to_contain_text("Written early, at your request.")
            await expect(page.locator(".source-list > li")).to_have_count(2)
            assert (visit.errors, visit.foreign) == ([], [])

    async def test_a_failed_finish_can_be_repeated(self, browser: Browser, tmp_path: Path) -> None:
        """The error is shown while the run continues, until the reader tries again.

        The button is removed when the text is written.
        """
        upstream = PagesLater(silent_pages_from=2)
        async with report_running(browser, tmp_path, upstream) as visit:
            page = visit.page
            await page.route("**/finish", lambda route: route.abort())
            await page.get_by_role("button", name=FINISH).click()
            await expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
            upstream.is_asked.set()
            await expect(page.locator(".steps-list")).to_contain_text("Pages summarised: 2")
            await expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
            await expect(page.get_by_role("button", name=FINISH)).to_be_enabled()
            await page.unroute("**/finish")
            await page.get_by_role("button", name=FINISH).click()
            await visit.answered()
