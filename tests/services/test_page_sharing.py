"""What readers export from the page at / and keep on it, in a real Chromium: threads, images, pins, settings."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import httpx2
import pytest
from playwright.async_api import Browser, Page, Request, Route, expect
from tests.services.browser import OFFLINE, QUESTION, Visit, becomes, serving_page, started, visiting
from tests.services.page_answers import begin, citation, end, keep, response

from modules.llm_platform.domain.dtos.web_search_dtos import MAX_QUERY_CHARS

pytestmark = [pytest.mark.services, pytest.mark.asyncio(loop_scope="session")]

OPTIONS = {
    "depths": ["shallow"], "sources": ["documents"], "default_sources": ["documents"], "models": ["m/x"],
    "max_query_chars": MAX_QUERY_CHARS, "max_context_chars": 32000, "max_files": 2, "max_file_bytes": 1000, "background": True,
    "document_titles": [], "favicons": False,
}  # fmt: skip
SVG = "{http://www.w3.org/2000/svg}"
TEXT = "Most heat comes from outside [1]. The heater supplied 9 percent [1]."
SOURCE = "Most heat comes from outside. The heater supplied 4 percent."
CONTENT = "😀 The owl 🦉 sleeps by day. It hunts at night."
BOXES = "[...document.querySelectorAll('text')].map(text => text.getBBox()).map(({x, width}) => [x, width])"
LONG_QUESTIONS = {
    "chinese": "热泵在寒冷的冬天" * 12, "arabic": "هل تعمل المضخات الحرارية في الشتاء البارد؟ " * 6, "one word": "x" * 400,
}  # fmt: skip
HIDE = "Object.defineProperty(document, 'hidden', {value: true, configurable: true})"
SHOW = "delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))"
NOTIFY = """window.notified = [];
window.Notification = class extends EventTarget {
    static permission = PERMISSION;
    static requestPermission() { return Promise.resolve(PERMISSION); }
    constructor(title, {body}) { super(); window.notified.push([title, body]); }
    close() {}
};
0"""


def turn(number: int) -> dict[str, Any]:
    """Return an answer of a thread. The first answer misquotes its source."""
    statement = f"Owls sleep at noon {number}"
    made = response(f"{statement} [1].", query=f"Question {number}?", metadata={"request_id": f"r{number}"})
    made["sources"] = [{"index": 1, "title": f"Source {number}", "url": f"https://example.org/{number}"}]
    made["citations"] = [citation(made["synthesis"], statement, CONTENT, "The owl 🦉 sleeps by day.", "unsupported")]
    return made


def replies(value: dict[str, Any]) -> Callable[[Route], Awaitable[None]]:
    """Return a handler that responds with this JSON."""

    async def reply(route: Route) -> None:
        await route.fulfill(json=value)

    return reply


async def open_thread(visit: Visit, count: int, turn_of: Callable[[int], dict[str, Any]] = turn) -> None:
    """Show a stored thread with this many answers. The page loads the last ten."""
    researches = [{"id": f"r{n}", "status": "done", "query": f"Question {n}?", "depth": "deep"} for n in range(count)]
    thread = {"id": "r0", "title": "Owls: a thread", "researches": researches}
    for n in range(count):
        times = {"created_at": "2026-01-01T00:00:00Z", "finished_at": "2026-01-01T00:00:06Z"}
        job = {"query": f"Question {n}?", "depth": "deep", "response": turn_of(n), **times}
        await visit.page.route(f"**/research/r{n}", replies(job))
        await visit.page.route(f"**/research/threads/r{n}", replies(thread))
    await visit.page.goto(f"{visit.base}/#research/r{count - 1}")
    await visit.answered(min(count, 10))


async def saved(page: Page, name: str) -> str:
    """Return the file that the menu of the last answer exports for the whole thread."""
    menu = page.locator(".turn").last.locator(".tools .menu")
    if await menu.get_attribute("open") is None:
        await menu.locator("summary").click()
    async with page.expect_download() as download:
        await menu.get_by_role("group", name="The whole thread").get_by_role("button", name=name, exact=True).click()
    return (await (await download.value).path()).read_text(encoding="utf-8")


class TestThreadFiles:
    async def test_a_whole_thread_is_exported(self, browser: Browser, base: str) -> None:
        """Each format contains all questions in order, including those that the page has not loaded.

        Sources have their own numbers and ids.
        """
        async with visiting(browser, base) as visit:
            await open_thread(visit, 12)
            files = {name: await saved(visit.page, name) for name in ("Markdown", "HTML", "JSON", "CSL-JSON", "BibTeX")}
            assert visit.errors == []
        questions = [f"Question {n}?" for n in range(12)]
        assert [line[2:] for line in files["Markdown"].splitlines() if line.startswith("# ")] == questions
        found = json.loads(files["JSON"])
        assert (found["title"], [answer["query"] for answer in found["answers"]]) == ("Owls: a thread", questions)
        assert [question for question in questions if f"<h1>{question}</h1>" in files["HTML"]] == questions
        assert files["HTML"].count('id="source-12-1"') == files["HTML"].count('href="#source-12-1"') == 1
        assert [item["URL"] for item in json.loads(files["CSL-JSON"])] == [
            f"https://example.org/{n}" for n in range(12)
        ]
        assert files["BibTeX"].count("@online{") == len(set(files["BibTeX"].split("@online{"))) - 1 == 12

    async def test_a_file_names_the_page_of_a_pdf(self, browser: Browser, base: str) -> None:
        """The page is after the source number, at the quote, and in a note of bibliography entries, for supporting
        quotes.
        """

        def of_pdf(number: int) -> dict[str, Any]:
            made, url, page = turn(number), "https://example.org/a.pdf", 15 - number
            made["sources"][0]["url"] = url
            [cited] = made["citations"]
            made["citations"] = [{**cited, "verdict": "supported", "page": page, "quote_url": f"{url}#page={page}"}]
            return made

        async with visiting(browser, base) as visit:
            await open_thread(visit, 2, of_pdf)
            files = {name: await saved(visit.page, name) for name in ("Markdown", "HTML", "CSL-JSON", "BibTeX")}
            assert visit.errors == []
        assert "[1] · p. 15: **" in files["Markdown"]
        assert "sleeps by day.](<https://example.org/a.pdf#page=14>)" in files["Markdown"]
        assert 'href="https://example.org/a.pdf#page=15"' in files["HTML"]
        assert [item["note"] for item in json.loads(files["CSL-JSON"])] == ["pp. 14, 15"]
        assert "note = {pp. 14, 15}," in files["BibTeX"]

    async def test_a_whole_thread_is_copied(self, browser: Browser, base: str) -> None:
        """Text and HTML contain each question with its answer and verdicts."""
        async with visiting(browser, base, permissions=["clipboard-read", "clipboard-write"]) as visit:
            await open_thread(visit, 2)
            page = visit.page
            await page.locator(".turn").last.locator(".tools .menu > summary").click()
            await page.get_by_role("group", name="The whole thread").get_by_role("button", name="Copy").click()
            await expect(page.locator("#status")).to_have_text("Copied")
            copied = await page.evaluate("navigator.clipboard.readText()")
            places = [copied.index(part) for part in ("Question 0?", "noon 0 [1 ✕]", "Question 1?", "noon 1 [1 ✕]")]
            assert places == sorted(places)
            assert visit.errors == []

    async def test_a_single_answer_has_no_group(self, browser: Browser, base: str) -> None:
        """The menu of a thread with one answer only has the files of the answer."""
        async with visiting(browser, base) as visit:
            await open_thread(visit, 1)
            await visit.page.locator(".tools .menu > summary").click()
            await expect(visit.page.get_by_role("button", name="Markdown")).to_have_count(1)
            await expect(visit.page.get_by_role("group", name="The whole thread")).to_be_hidden()

    async def test_a_missing_answer_is_reported(self, browser: Browser, base: str) -> None:
        """If the server refuses an answer of the thread, the menu names it, and no file is saved."""
        async with visiting(browser, base) as visit:
            await open_thread(visit, 12)
            refused = {"code": "not_found", "detail": "gone"}
            await visit.page.route("**/research/r0", lambda route: route.fulfill(status=404, json=refused))
            await visit.page.locator(".turn").last.locator(".tools .menu > summary").click()
            group = visit.page.get_by_role("group", name="The whole thread")
            await group.get_by_role("button", name="Markdown").click()
            await expect(group.get_by_role("status")).to_contain_text("gone")


class TestPicture:
    @pytest.mark.parametrize("kind", ["PNG", "SVG"])
    async def test_an_answer_as_a_picture(self, browser: Browser, base: str, kind: str) -> None:
        """The image has the question, the strip and the worst doubt with the source's words.

        It is made in the page without a request.
        """
        made = response(TEXT, query="Do heat pumps <b>work</b> in winter?")
        made["raw_results"][0]["content"] = SOURCE
        made["citations"] = [
            citation(TEXT, "Most heat comes from outside", SOURCE, "Most heat comes from outside.", "supported"),
            citation(TEXT, "The heater supplied 9 percent", SOURCE, "The heater supplied 4 percent.", "unsupported"),
        ]
        claimed, found = TEXT.index("9"), SOURCE.index("4")
        made["citations"][1]["difference"] = {
            "claimed": {"start": claimed, "end": claimed + 1}, "found": {"start": found, "end": found + 1}, "kind": "number",
        }  # fmt: skip
        async with visiting(browser, base) as visit:
            page = visit.page
            await visit.play(made)
            await visit.ask()
            await visit.answered()
            await page.locator(".tools .menu > summary").click()
            seen = len(visit.seen)
            async with page.expect_download() as download:
                await page.get_by_role("button", name=f"Picture ({kind})").click()
            content = (await (await download.value).path()).read_bytes()
            local = ("GET /page/", "GET data:", "GET blob:")
            asked = [request for request in visit.seen[seen:] if not request.startswith(local)]
            assert (asked, visit.errors, visit.foreign) == ([], [], [])
        if kind == "PNG":
            assert content[:8] == b"\x89PNG\r\n\x1a\n"
            assert [int.from_bytes(content[start : start + 4], "big") for start in (16, 20)] == [2400, 1260]
            return
        svg = ElementTree.fromstring(content)
        words = [" ".join("".join(text.itertext()).split()) for text in svg.iter(f"{SVG}text")]
        assert words[:2] == ["Do heat pumps <b>work</b> in winter?", "1 of 2 hold"]
        assert words[2:4] == ["example.org · the source says otherwise", "The heater supplied 9 4 percent"]
        struck = [text.text for text in svg.iter(f"{SVG}tspan") if text.get("text-decoration") == "line-through"]
        assert struck == ["9"]
        colours = [box.get("fill") for box in svg.iter(f"{SVG}rect")]
        assert colours.count("#176639") == 1
        assert colours.count("#d0342c") == 2  # the cell, and the line at the receipt

    @pytest.mark.parametrize("query", LONG_QUESTIONS.values(), ids=LONG_QUESTIONS.keys())
    async def test_a_long_question_stays_within_the_picture(self, browser: Browser, base: str, query: str) -> None:
        """No line is wider than the image, also in scripts without spaces and from right to left."""
        async with visiting(browser, base) as visit:
            page = visit.page
            await visit.play(response("Owls sleep by day [1].", query=query[:MAX_QUERY_CHARS]))
            await visit.ask()
            await visit.answered()
            await page.locator(".tools .menu > summary").click()
            async with page.expect_download() as download:
                await page.get_by_role("button", name="Picture (SVG)").click()
            svg = (await (await download.value).path()).read_text(encoding="utf-8")
            image = await page.context.new_page()
            await image.set_content(svg)
            boxes = await image.evaluate(BOXES)
        assert len(boxes) > 3
        assert all(start >= 0 and start + width <= 1200 for start, width in boxes)


class TestPaper:
    async def test_it_prints_like_a_document(self, browser: Browser, base: str) -> None:
        """Answer, sources and sent data are printed below each other with headings, and each further answer begins a
        page.
        """
        async with visiting(browser, base) as visit:
            await open_thread(visit, 2)
            await visit.page.emulate_media(media="print")
            title = "getComputedStyle(document.querySelectorAll('.panel')[1], '::before').content"
            assert await visit.page.evaluate(title) == '"Sources"'
            last = visit.page.locator(".turn").last
            assert await last.evaluate("turn => getComputedStyle(turn).breakBefore") == "page"
            for hidden in (".thread-next", ".actions", ".receipts", ".edit"):
                await expect(visit.page.locator(hidden).first).to_be_hidden()
            await expect(last.locator(".source-list")).to_be_visible()
            origin = last.locator(".on-paper")  # the date of the run, not of printing
            await expect(origin).to_have_text(re.compile(r"Jan 1, 2026, .* · http://127\.0\.0\.1:\d+/#research/"))
            await expect(origin).to_be_visible()
            await visit.page.emulate_media(media="screen")
            await expect(origin).to_be_hidden()


FORMULAS = r"""Energy is $E = mc^2$ [1], or \(\frac{a_1}{b}\). It costs $5 and $6, or $5-$6.

$$\sum_{i=1}^{n} i = \frac{n(n+1)}{2}$$

- [x] measured
- [ ] **not** measured

```python
x = "$a^2$"
```
"""
HOSTILE_TEX = (
    r"\href{javascript:alert(1)}{x_1}", r"\url{https://evil.test/_}", r"\includegraphics{https://evil.test/a_1.png}",
    r"\def\a{\a\a}\a_1", "{" * 900 + "x_1" + "}" * 900, r"\style{color:red}{x_1}", r"<img src=x onerror=alert(1)>_1",
    r"\class{top}{x_1}", r"\rule{9999em}{9999em}_1", r"\unknown_1",
)  # fmt: skip


class TestFormulas:
    async def test_formulas_tasks_and_names_of_languages(self, browser: Browser, base: str) -> None:
        """TeX becomes MathML that is copied as TeX. Amounts of money and code are unchanged.

        The first formula loads the renderer.
        """
        async with visiting(browser, base) as visit:
            page = visit.page
            await visit.play(response(FORMULAS))
            assert not [request for request in visit.seen if "temml" in request]
            await visit.ask()
            await visit.answered()
            await expect(page.locator(".answer math")).to_have_count(3)
            await expect(page.locator(".answer math[display=block]")).to_have_count(1)
            await expect(page.locator(".answer")).to_contain_text("It costs $5 and $6, or $5-$6.")
            copied = "getSelection().selectAllChildren(document.querySelector('.answer')), getSelection().toString()"
            text = await page.evaluate(copied)
            assert "$E = mc^2$" in text
            assert "mc2" not in text
            await expect(page.get_by_role("img", name="done", exact=True)).to_have_count(1)
            await expect(page.get_by_role("img", name="not done")).to_have_count(1)
            await expect(page.locator(".code-language")).to_have_text("python")
            assert await visit.violations() == []
            assert (visit.errors, visit.foreign) == ([], [])

    async def test_a_formula_loads_and_runs_nothing(self, browser: Browser, base: str) -> None:
        """Links, images, styles, classes and endless macros in a formula have no effect and violate no policy."""
        async with visiting(browser, base) as visit:
            page = visit.page
            await visit.play(response("\n\n".join(f"Formula ${tex}$ here." for tex in (*HOSTILE_TEX, "x_1"))))
            await visit.ask()
            await visit.answered()
            await expect(page.locator(".answer math").last).to_be_visible()
            inside = page.locator(".formula").locator("a, img, [style], [href], [src], .top, script")
            await expect(inside).to_have_count(0)
            assert (visit.errors, visit.foreign) == ([], [])
            assert await visit.overflow() <= 0


class TestMenus:
    async def test_the_export_menu_closes_when_a_file_is_saved(self, browser: Browser, base: str) -> None:
        """The menu closes for one answer and for the whole thread, and its button gets the focus."""
        async with visiting(browser, base) as visit:
            await open_thread(visit, 2)
            menu = visit.page.locator(".turn").last.locator(".tools .menu")
            for whole in (False, True):
                await menu.locator("summary").click()
                group = menu.get_by_role("group", name="The whole thread") if whole else menu
                async with visit.page.expect_download():
                    await group.get_by_role("button", name="Markdown", exact=True).first.click()
                await expect(menu).not_to_have_attribute("open", "")
                await expect(menu.locator("summary")).to_be_focused()

    async def test_sources_are_counted_once(self, browser: Browser, base: str) -> None:
        """The tab shows the count once the answer is complete.

        The row of icons next to it announces it only to screen readers.
        """
        async with visiting(browser, base) as visit:
            await open_thread(visit, 1)
            await expect(visit.page.get_by_role("tab", name="Sources (1)")).to_be_visible()
            box = await visit.page.locator(".source-row").get_by_text("Sources: 1").bounding_box()
            assert box is not None
            assert box["width"] <= 1


class TestThreads:
    async def test_a_deletion_is_asked_for_in_the_whole_width(self, browser: Browser, own_base: str) -> None:
        """The confirmation replaces the entry, and reserves no space for missing buttons."""
        async with visiting(browser, own_base) as visit:
            page = visit.page
            await visit.ask()
            await visit.answered()
            await page.locator(".threads li").first.hover()
            await page.get_by_role("button", name=f"Delete {QUESTION}").click()
            question = page.locator(".entry-form p").first
            await question.hover()
            entry, asked = await page.locator(".threads li").first.bounding_box(), await question.bounding_box()
            assert entry is not None
            assert asked is not None
            assert asked["width"] > 0.9 * entry["width"]

    async def test_a_pin_is_next_to_its_title(self, browser: Browser, own_base: str) -> None:
        """The pin is on the line of the title, above the strip of the answer."""
        async with visiting(browser, own_base) as visit:
            page = visit.page
            await visit.ask()
            await visit.answered()
            await page.get_by_role("button", name=f"Pin {QUESTION}").press("Enter")
            await page.locator("#query, #follow-up").last.focus()
            entry = page.locator(".threads li").first
            await expect(entry.locator(".small-strip")).to_be_visible()
            boxes = [await entry.locator(part).bounding_box() for part in ("a", ".pinned", ".small-strip")]
            title, pin, strip = (box for box in boxes if box)
            assert abs(title["y"] + title["height"] / 2 - pin["y"] - pin["height"] / 2) < title["height"] / 2
            assert strip["y"] >= pin["y"] + pin["height"] / 2

    async def test_on_a_phone_one_button_opens_the_actions_of_a_thread(self, browser: Browser, own_base: str) -> None:
        """On a screen without hover, one button opens the four actions of a thread."""
        phone = {"has_touch": True, "is_mobile": True}
        async with visiting(browser, own_base, 390, **phone) as visit:
            page = visit.page
            await visit.ask()
            await visit.answered()
            await visit.open_threads()
            entry = page.locator(".threads li").first
            await expect(entry.locator("button:visible")).to_have_count(1)
            await entry.get_by_role("button", name=f"More for {QUESTION}").tap()
            await expect(entry.locator("button:visible")).to_have_count(5)
            assert await visit.violations() == []
            await entry.get_by_role("button", name=f"Rename {QUESTION}").tap()
            await expect(page.get_by_label("Title of the thread")).to_be_focused()

    async def test_a_pinned_thread_stays_at_the_top(self, browser: Browser, own_base: str) -> None:
        """It stays at the top after a reload until it is unpinned or deleted.

        Pinning does not move the focus away from the thread.
        """
        async with visiting(browser, own_base) as visit:
            page, names = visit.page, ("When is a statement partial?", "What is a dead letter topic?")
            for name in names:
                await page.goto(f"{own_base}/#")
                await visit.ask(name)
                await visit.answered()
            heads, links = page.locator(".threads h3"), page.locator(".threads li > a")
            await expect(heads).to_have_text(["Today"])
            await page.get_by_role("button", name=f"Pin {names[0]}").press("Enter")
            await expect(heads).to_have_text(["Pinned", "Today"])
            await expect(links.first).to_be_focused()
            await page.reload()
            await expect(links).to_have_text([names[0], names[1]])
            assert await visit.violations() == []
            await page.get_by_role("button", name=f"Unpin {names[0]}").press("Enter")
            await expect(heads).to_have_text(["Today"])
            assert visit.errors == []

    @pytest.mark.parametrize("width", [390, 1280])
    async def test_threads_can_be_grouped_in_folders(self, browser: Browser, own_base: str, width: int) -> None:
        """With the keyboard alone, also on a phone, a thread can be moved to a new folder, and the folder can be
        closed, renamed and deleted without its thread. A thread is in one folder, also after a reload.
        """
        async with visiting(browser, own_base, width) as visit:
            page, names = visit.page, ("When is a statement partial?", "What is a dead letter topic?")
            for name in names:
                await page.goto(f"{own_base}/#")
                await visit.ask(name)
                await visit.answered()
            await visit.open_threads()
            heads, links = page.locator(".threads h3"), page.locator(".threads li > a")

            async def move(folder: str, is_new: bool) -> None:
                await page.get_by_role("button", name=f"Move {names[0]} to a folder").press("Enter")
                select = page.get_by_label(f"Folder of {names[0]}")
                await expect(select).to_be_focused()
                await select.select_option(label="New folder" if is_new else folder)
                if is_new:
                    await page.get_by_label("Name of the folder").fill(folder)
                assert await visit.violations() == []
                await page.get_by_role("button", name="Save").press("Enter")
                await expect(page.get_by_label("Search in threads")).to_be_focused()

            await move("Law", is_new=True)
            await expect(heads).to_have_text(["Law", "Today"])
            await move("Physics", is_new=True)
            await expect(heads).to_have_text(["Law", "Physics", "Today"])
            await expect(page.locator("[data-key='folder Physics'] li > a")).to_have_text([names[0]])
            await expect(links).to_have_count(2)
            await page.get_by_role("button", name="Physics", exact=True).press("Enter")
            await expect(links.first).to_be_hidden()
            assert await visit.violations() == []
            await page.goto(f"{own_base}/#history")
            await page.reload()
            await started(page)
            await expect(page.get_by_role("button", name="Physics", exact=True)).to_have_attribute(
                "aria-expanded", "false"
            )
            await page.get_by_role("button", name="Rename the folder Physics").press("Enter")
            await page.get_by_label("Name of the folder").fill("Optics")
            await page.keyboard.press("Enter")
            await expect(heads).to_have_text(["Law", "Optics", "Today"])
            await page.get_by_role("button", name="Delete the folder Optics").press("Enter")
            await expect(page.get_by_role("button", name="Delete", exact=True)).to_be_focused()
            await page.keyboard.press("Enter")
            await expect(heads).to_have_text(["Law", "Today"])
            await expect(links).to_have_text([names[1], names[0]])
            assert await visit.overflow() <= 0
            assert visit.errors == []

    async def test_a_full_list_of_folders_loses_none(self, browser: Browser, own_base: str) -> None:
        """With the maximal number of folders no new one is offered.

        Unusual names are shown unchanged, and all folders are kept.
        """
        odd = ["../../etc/passwd", "__proto__", "constructor", "<img src=x onerror=alert(1)>"]
        names = sorted(odd + [f"Folder {number:02}" for number in range(50 - len(odd))])
        async with visiting(browser, own_base) as visit:
            page = visit.page
            await visit.ask("What is a dead letter topic?")
            await visit.answered()
            stored = json.dumps([{"name": name, "threads": [{"id": f"t{name}", "title": "T"}]} for name in names])
            await page.evaluate("stored => localStorage.setItem('llm-platform.folders', stored)", stored)
            await page.reload()
            await started(page)
            await visit.open_threads()
            await page.get_by_role("button", name="Move What is a dead letter topic? to a folder").press("Enter")
            select = page.get_by_label("Folder of What is a dead letter topic?")
            assert sorted(await select.locator("option").all_text_contents()) == sorted(["No folder", *names])
            await select.select_option(label="__proto__")
            await page.get_by_role("button", name="Save").press("Enter")
            await expect(page.locator("[data-key='folder __proto__'] li")).to_have_count(2)
            kept = await page.evaluate(
                "JSON.parse(localStorage.getItem('llm-platform.folders')).map(({ name }) => name)"
            )
            assert sorted(kept) == names
            assert visit.errors == []

    async def test_words_of_answers_are_found_and_the_strip_is_below(self, browser: Browser, tmp_path: Path) -> None:
        """The server that stores an answer finds its words, and the list shows how many of its sentences are supported."""
        await keep(tmp_path, ("a", turn(1)), ("b", response("Nothing else is known.")))
        async with serving_page(tmp_path, *OFFLINE) as base, visiting(browser, base) as visit:
            page = visit.page
            await expect(page.locator(".threads li")).to_have_count(2)
            strip = page.get_by_role("img", name="0 of 1 hold")
            await expect(strip.locator(".absent")).to_have_count(1)
            assert await visit.violations() == []
            await page.get_by_label("Search in threads").fill("sleep at NOON")
            await expect(page.locator(".threads li > a")).to_have_count(1)
            await expect(page.locator(".threads li > a")).to_have_attribute("href", "#research/a")
            assert visit.errors == []

    async def test_the_strip_of_quotes_is_grey(self, browser: Browser, tmp_path: Path) -> None:
        """The list distinguishes quotes of an extractive answer from supported sentences."""
        made = turn(1)
        made["metadata"]["synthesizer"] = "extractive"
        made["citations"][0] |= {"verdict": "supported", "is_verbatim": True}
        await keep(tmp_path, ("a", made))
        async with serving_page(tmp_path, *OFFLINE) as base, visiting(browser, base) as visit:
            strip = visit.page.get_by_role("img", name="1 quote from 1 source")
            await expect(strip.locator(".quoted")).to_have_count(1)
            await expect(strip.locator("i")).to_have_count(1)

    async def test_several_are_deleted_at_once(self, browser: Browser, own_base: str) -> None:
        """Only the selected threads are deleted, after a confirmation. Escape cancels and deletes nothing."""
        async with visiting(browser, own_base) as visit:
            page, names = visit.page, ("What is a topic?", "What is a broker?", "What is a group?")
            for name in names:
                await page.goto(f"{own_base}/#")
                await visit.ask(name)
                await visit.answered()
            links = page.locator(".threads li > a")
            await expect(links).to_have_count(3)
            await page.get_by_role("button", name="Select", exact=True).press("Enter")
            await page.get_by_label(f"Select {names[0]}").check()
            await page.get_by_role("button", name="Delete (1)").focus()
            await page.keyboard.press("Escape")
            await expect(page.get_by_role("checkbox", name=names[0])).to_have_count(0)
            await page.get_by_role("button", name="Select", exact=True).press("Enter")
            for name in names[:2]:
                await page.get_by_label(f"Select {name}").check()
            assert await visit.violations() == []
            await page.get_by_role("button", name="Delete (2)").press("Enter")
            await page.get_by_role("button", name="Delete the chosen threads with their answers (2)?").press("Enter")
            await expect(links).to_have_text([names[2]])
            async with httpx2.AsyncClient(base_url=own_base) as client:
                stored = (await client.get("/research/threads")).json()["threads"]
            assert [thread["title"] for thread in stored] == [names[2]]
            assert visit.errors == []


class TestSettings:
    async def test_general_instructions_are_sent_with_every_question(self, browser: Browser, base: str) -> None:
        """They precede the instructions of one question, once, also when an answer is repeated."""
        async with visiting(browser, base) as visit:
            page = visit.page
            posts: list[Request] = []
            page.on("request", lambda request: posts.append(request))
            await page.click(".preferences summary")
            await page.get_by_label("Instructions for every answer").fill("Use metric units.")
            await page.locator("#query").focus()
            await page.route("**/research/options", lambda route: route.fulfill(json=OPTIONS))
            await page.reload()
            await started(page)
            await visit.play(response("Owls sleep by day [1].", metadata={"synthesizer": "m"}))
            await visit.ask()
            await visit.answered()
            await page.get_by_text("Write again").click()
            await page.get_by_role("button", name="Shorter").click()
            await visit.answered(2)
            await expect(page.locator(".wish")).to_have_text("Write again: Shorter")
        sent = [request.post_data_json or {} for request in posts if request.method == "POST"]
        assert [request["instructions"] for request in sent] == ["Use metric units.", "Use metric units.\nShorter."]

    async def test_a_reader_in_another_tab_is_notified_of_an_answer(self, browser: Browser, base: str) -> None:
        """A notification is sent only if the reader has enabled it and the browser allows it.

        The title of the tab always shows the answer until it is seen.
        """
        async with visiting(browser, base) as visit:
            page = visit.page
            await page.evaluate(NOTIFY.replace("PERMISSION", "'granted'"))
            await page.click(".preferences summary")
            await page.get_by_label("Notify me when an answer is ready").check()
            await begin(visit)
            await page.evaluate(HIDE)
            await end(visit, response("Owls sleep by day [1].", query="Which owls?"))
            await becomes(page, "window.notified", [["The answer is ready", "Which owls?"]])
            await becomes(page, "document.title.startsWith('✓ ')")
            await page.evaluate(SHOW)
            await becomes(page, "document.title.startsWith('✓ ')", False)
            assert visit.errors == []

    async def test_a_browser_without_permission_is_reported(self, browser: Browser, base: str) -> None:
        """The switch is turned off again, and the page gives the reason."""
        async with visiting(browser, base) as visit:
            page = visit.page
            await page.evaluate(NOTIFY.replace("PERMISSION", "'denied'"))
            await page.click(".preferences summary")
            switch = page.get_by_label("Notify me when an answer is ready")
            await switch.click()
            await expect(page.locator("#status")).to_have_text("The browser does not allow notifications.")
            await expect(switch).not_to_be_checked()


class TestInstalled:
    async def test_the_browser_reads_the_manifest(self, browser: Browser, base: str) -> None:
        """Chromium finds no error in the manifest, and loads its icon under the page's policy."""
        async with visiting(browser, base) as visit:
            session = await visit.page.context.new_cdp_session(visit.page)
            found = await session.send("Page.getAppManifest")
            assert found["url"] == f"{base}/manifest.webmanifest"
            assert found["errors"] == []
            errors = (await session.send("Page.getInstallabilityErrors"))["installabilityErrors"]
            assert [error for error in errors if error["errorId"] != "in-incognito"] == []
            assert visit.errors == []
