"""What keeps the page fast and stable, as rules without a clock: parts of long answers, the end of a stream, many
threads. benchmarks/page.py measures the times.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, Route, expect
from tests.services import page_answers
from tests.services.browser import OFFLINE, becomes, serving_page, visiting
from tests.support.server_process import until

from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.dtos.research_job_dtos import JobEvent, NewResearchJob
from modules.llm_platform.infrastructure.stores.research_jobs.sqlite import SqliteResearchJobStore
from modules.llm_platform.presentation.rest.docs_routes import RESEARCH_FOLDER

pytestmark = [pytest.mark.services, pytest.mark.asyncio(loop_scope="session")]

MAX_SHIFT = 0.05
SHIFTS = """
window.shifts = [];
new PerformanceObserver(list => shifts.push(...list.getEntries().filter(each => !each.hadRecentInput).map(each => ({
    value: each.value, time: each.startTime, nodes: each.sources.map(({node, previousRect, currentRect}) =>
        `${node?.className || node?.nodeName} ${previousRect.y} ${currentRect.y}`)}))))
    .observe({type: 'layout-shift', buffered: true})
"""


# A clock on which every step has used its time at the first check, and for each task that changes the text of an answer
# the number of blocks that it changed: observers run at the end of a task.
STEPS = """
let now = 0;
performance.now = () => now += 1000;
window.touched = [];
const blockOf = node => (node.nodeType === 1 ? node : node.parentElement)?.closest('.answer > *');
new MutationObserver(records => {
    const blocks = records.flatMap(({target, addedNodes}) => [target, ...addedNodes].map(blockOf)).filter(Boolean);
    if (blocks.length) touched.push(new Set(blocks).size);
}).observe(document, {childList: true, attributes: true, subtree: true});
"""
BLOCKS = 27 * (1 + 4 + 1)  # headings, paragraphs and tables of the long answer


class TestLongAnswers:
    """A text of 6,000 words with 540 citations.

    If the page checks the time after each block, no task is longer than drawing one block, on any machine.
    benchmarks/page.py measures how long that takes.
    """

    async def test_it_is_written_block_by_block(self, browser: Browser, base: str) -> None:
        """Neither new words nor the verdicts at the end change two blocks in one task."""
        answer = page_answers.long_answer()
        assert len(answer["synthesis"].split()) > 6000
        assert len(answer["citations"]) == 540
        async with visiting(browser, base) as visit:
            await page_answers.begin(visit)
            await visit.page.evaluate(STEPS)
            await page_answers.write(visit, answer["synthesis"], page_answers.SENTENCE)
            await page_answers.end(visit, answer)
            for shown, count in (
                (".answer > *", BLOCKS),
                (".cite", 540),
                (".cite.pending", 0),
                (".cite.unsupported", 54),
            ):
                await expect(visit.page.locator(shown)).to_have_count(count)
            touched = await visit.page.evaluate("touched")
            assert max(touched) == 1
            assert len(touched) >= BLOCKS  # verdicts are added in place, or with a block that is drawn at the end

    async def test_it_is_opened_block_by_block(self, browser: Browser, base: str) -> None:
        """A complete text from the store is drawn in the same way."""
        async with visiting(browser, base) as visit:
            page = visit.page
            await visit.play_stored(page_answers.long_answer())
            await page.evaluate(STEPS)
            await page.evaluate("location.hash = '#research/abc'")
            await visit.answered()
            for shown, count in ((".answer > *", BLOCKS), (".cite", 540), (".cite.partial", 54)):
                await expect(page.locator(shown)).to_have_count(count)
            touched = await page.evaluate("touched")
            assert (max(touched), len(touched) >= BLOCKS) == (1, True)


# Like STEPS, and for each task the number of added table cells or list items. `first` is the first shown row
# of a table.
DRAWN = """
let now = 0;
performance.now = () => now += 1000;
window.counts = [];
new MutationObserver(records => {
    const added = records.flatMap(({addedNodes}) => [...addedNodes]).filter(({nodeType}) => nodeType === 1);
    const count = new Set(added.flatMap(node => [...node.querySelectorAll('td'), ...(node.matches('li') ? [node] : [])])).size;
    if (count) counts.push(count);
    window.first ??= document.querySelector('.answer tbody tr');
}).observe(document, {childList: true, subtree: true});
"""
ROWS, COLUMNS, CELLS_AT_ONCE = 300, 30, 300
ITEMS, ITEMS_AT_ONCE = 2000, 50
LINE = "| " + " | ".join(["value"] * COLUMNS) + " |\n"
TABLE = LINE + "|---" * COLUMNS + "|\n" + "".join(LINE.replace("value", f"{row} [1]", 1) for row in range(ROWS))
LIST = "".join(f"{item}. It is item {item} [1].\n" for item in range(1, ITEMS + 1))


class TestLongTablesAndLists:
    @pytest.mark.parametrize("is_written", [True, False])
    @pytest.mark.parametrize(
        ("text", "all_of_it", "at_once", "one"),
        [
            (TABLE, (".answer td", ROWS * COLUMNS), CELLS_AT_ONCE, ".answer tr:nth-child(200)"),
            (LIST, (".answer ol:only-child > li", ITEMS), ITEMS_AT_ONCE, ".answer li:nth-child(200)"),
        ],
        ids=["table", "list"],
    )
    async def test_it_is_drawn_bit_by_bit(
        self,
        browser: Browser,
        base: str,
        text: str,
        all_of_it: tuple[str, int],
        at_once: int,
        one: str,
        is_written: bool,
    ) -> None:
        """This holds during writing, where existing rows are kept, and on opening. Markers get their verdicts later."""
        async with visiting(browser, base) as visit:
            page = visit.page
            answer = page_answers.response(text, sources=page_answers.SOURCES)
            if is_written:
                await page_answers.begin(visit)
                await page.evaluate(DRAWN)
                await page_answers.write(visit, text, r"\\n")
                await page_answers.end(visit, answer)
                if text is TABLE:
                    assert await page.evaluate("first === document.querySelector('.answer tbody tr')")
            else:
                await visit.play_stored(answer)
                await page.evaluate(DRAWN)
                await page.evaluate("location.hash = '#research/abc'")
                await visit.answered()
            await expect(page.locator(all_of_it[0])).to_have_count(all_of_it[1])
            await expect(page.locator(f"{one} .cite:not(.pending)")).to_have_count(1)
            assert max(await page.evaluate("counts")) <= at_once


NOTED = {
    "degraded": [
        {"component": "search", "reason": "timeout", "until": None},
        {"component": "x", "reason": "failed", "until": None},
    ],
    "metadata": {"uncited_sentences": 2, "correction": "what is an owl", "stored_at": None},
}


class TestStillness:
    @pytest.mark.parametrize("width", [1280, 390])
    async def test_nothing_jumps_from_the_first_word_on(self, browser: Browser, base: str, width: int) -> None:
        """Verdicts, notes, contents and buttons have reserved space, so the text that is being read does not move."""
        answer = page_answers.long_answer(5, 6, **NOTED)
        async with visiting(browser, base, width) as visit:
            await visit.page.evaluate(SHIFTS)
            await page_answers.begin(visit)
            since = await visit.page.evaluate("performance.now()")  # an observer is later informed of earlier changes
            await page_answers.write(visit, answer["synthesis"])
            await page_answers.end(visit, answer)
            shifts = [shift for shift in await visit.page.evaluate("shifts") if shift["time"] >= since]
            assert sum(shift["value"] for shift in shifts) <= MAX_SHIFT, shifts
            for shown in (".contents", ".notes", ".actions"):
                await expect(visit.page.locator(shown)).to_have_count(1)

    async def test_a_reader_in_the_middle_keeps_the_position(self, browser: Browser, base: str) -> None:
        """Neither new words nor the end of the answer move the text of a reader who has scrolled into it."""
        answer = page_answers.long_answer(8, 10, **NOTED)
        position = "document.querySelectorAll('.answer h2')[2].getBoundingClientRect().top"
        half = len(answer["synthesis"]) // 2
        async with visiting(browser, base) as visit:
            await page_answers.begin(visit)
            await page_answers.write(visit, answer["synthesis"][:half])
            await visit.page.locator(".answer h2").nth(4).wait_for()
            await visit.page.evaluate("document.querySelectorAll('.answer h2')[2].scrollIntoView({block: 'center'})")
            before = await visit.page.evaluate(position)
            await page_answers.write(visit, answer["synthesis"][half:])
            await page_answers.end(visit, answer)
            assert abs(await visit.page.evaluate(position) - before) <= 1


def needed() -> set[str]:
    """Return the ends of the addresses of all modules that the page finally loads."""
    script = (RESEARCH_FOLDER / "first_paint.js").read_text(encoding="utf-8")
    lists = re.findall(r"const (?:BOTH|ASKING|READING) = \[(.*?)\];", script, flags=re.DOTALL)
    return {f"/{name}.js" for names in lists for name in re.findall(r'"([^"]+)"', names)}


FILES = """performance.getEntriesByType('resource').filter(each => each.name.includes('/page/'))
    .map(each => [each.name, each.transferSize])"""


class TestFirstPaint:
    async def test_a_stored_answer_is_shown_without_the_form(self, browser: Browser, base: str) -> None:
        """At the address of an answer the form for a question is never shown first, however slowly the modules load."""
        context = await browser.new_context()
        page = await context.new_page()
        await page.route("**/main.js", lambda route: route.abort())
        for address, is_form in (("/", True), ("/#research/abc", False)):
            await page.goto(f"{base}{address}")
            await page.reload()  # a change of the fragment alone loads nothing
            assert await page.locator("#ask").is_visible() == is_form
        await context.close()

    async def test_the_needs_of_an_answer_are_requested_at_once(self, browser: Browser, base: str) -> None:
        """Its modules, its thread and its text are requested before any module is loaded, so there is no longer chain
        of requests.
        """
        async with visiting(browser, base) as visit:
            page = visit.page
            await page.route("**/main.js", lambda route: route.abort())
            await visit.play_stored(page_answers.long_answer(1, 1))
            await page.goto("about:blank")  # the page with the form, which would also send requests, is closed
            visit.seen.clear()
            await page.goto(f"{base}/#research/abc", wait_until="commit")
            for wanted in ("thread.js", "answer.js", "vendor/markdown-it.js", "/research/threads/abc", "/research/abc"):
                await until(lambda end=wanted: any(request.endswith(end) for request in visit.seen))
            await page.unroute("**/main.js")
            asked = len([request for request in visit.seen if request.endswith("/research/abc")])
            await page.reload()
            await visit.answered()
            again = len([request for request in visit.seen if request.endswith("/research/abc")])
            assert again == asked + 1  # a module does not repeat a pending request

    async def test_what_an_answer_does_not_need_is_loaded_later(self, browser: Browser, base: str) -> None:
        """Before the text is shown, neither the form nor the list of threads is loaded, and nothing is requested for
        them.
        """
        arrived = asyncio.Event()

        async def answer_late(route: Route) -> None:
            await arrived.wait()
            await route.fulfill(json={"query": "q", "depth": "deep", "response": page_answers.long_answer(1, 1)})

        async with visiting(browser, base) as visit:
            page = visit.page
            await visit.play_stored({})
            await page.route("**/research/abc", answer_late)
            await page.goto("about:blank")  # the page with the form, which would also send requests, is closed
            visit.seen.clear()
            await page.goto(f"{base}/#research/abc", wait_until="commit")
            await page.wait_for_selector(".turn", state="attached")
            modules = ("form.js", "composer.js", "sidebar.js", "followup.js", "keyboard.js")
            later = (*modules, "/research/options", "/research/threads?limit=30")
            assert [request for request in visit.seen if request.endswith(later)] == []
            arrived.set()
            await visit.answered()
            await until(lambda: {end for end in later for request in visit.seen if request.endswith(end)} == set(later))

    async def test_a_second_visit_loads_no_file_again(self, browser: Browser, base: str) -> None:
        """The address of each file contains the version, so the browser caches it without revalidation."""
        async with visiting(browser, base) as visit:
            missing = f"{sorted(needed())}.filter(name => !({FILES}).some(([file]) => file.endsWith(name)))"
            await becomes(visit.page, missing, [])
            await visit.page.goto("about:blank")
            await visit.page.goto(f"{base}/", wait_until="networkidle")
            files = await visit.page.evaluate(FILES)
            assert len(files) > 15
            assert [name for name, transferred in files if transferred] == []


THREADS = 5000
SCROLLED = 1000  # entries of the list that are reached by scrolling
LISTED = 30  # threads that the page asks for at once
ADDED = """
window.added = [];
new MutationObserver(records => {
    const nodes = records.flatMap(each => [...each.addedNodes]);
    added.push(nodes.filter(each => each.matches?.('li')).length);
}).observe(document.querySelector('.threads'), {childList: true, subtree: true});
"""
SCROLL = """async wanted => {
    const count = () => document.querySelectorAll('.threads li').length;
    for (let shown = count(); shown < wanted; shown = count()) {
        document.getElementById('sidebar').scrollTop = 1e9;
        const until = Date.now() + 120000;
        while (count() === shown && Date.now() < until) await new Promise(resolve => setTimeout(resolve, 20));
        if (count() === shown) return shown;
    }
    return count();
}"""


class TestManyThreads:
    @staticmethod
    async def fill(path: Path) -> None:
        store = SqliteResearchJobStore(path, ttl_days=30)
        try:
            for number in range(THREADS):
                job = NewResearchJob(f"thread-{number}", ResearchRequest(query=f"Question {number} about owls"))
                await store.record(job, [JobEvent(1, "done", "{}")], None, 1.0)
        finally:
            await store.aclose()

    async def test_thousands_of_threads_are_scrolled_and_searched(self, browser: Browser, tmp_path: Path) -> None:
        """Older threads are loaded on scrolling, thirty in a task.

        A change redraws only its entry, and a search finds the oldest.
        """
        await self.fill(tmp_path / "researches.sqlite3")
        async with serving_page(tmp_path, *OFFLINE) as base, visiting(browser, base) as visit:
            page = visit.page
            await page.wait_for_selector(".threads li")
            assert await page.locator(".threads li").count() < 100
            await page.evaluate(ADDED)
            assert await page.evaluate(SCROLL, SCROLLED) >= SCROLLED
            assert max(await page.evaluate("added")) <= LISTED
            assert await page.locator(".preferences").is_visible()
            await page.evaluate("window.kept = [...document.querySelectorAll('.threads li')]")
            await page.get_by_role("link", name="Question 4990 about owls").click()
            await page.wait_for_selector(".threads li.current")
            same = "kept.filter((each, place) => each === document.querySelectorAll('.threads li')[place]).length"
            assert await page.evaluate(same) == await page.evaluate("kept.length - 1")
            await page.get_by_label("Search in threads").fill("question 7 about")
            await expect(page.locator(".threads li a")).to_have_text(["Question 7 about owls"])
