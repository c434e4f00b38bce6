"""The words of the page at /, in a real Chromium: languages, directions, theme, errors and notes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from playwright.async_api import Browser, Locator, expect
from tests.services.browser import Visit, until_titles_known, visiting
from tests.services.page_answers import citation, response

pytestmark = [pytest.mark.services, pytest.mark.asyncio(loop_scope="session")]

HEBREW = """הינשוף ישן ביום [1]. The owl hunts.

An English paragraph.

- ראשון: `owl.sleep()`
- An English item.

| מין | Hours |
|---|---|
| אוח | 9 |

```
print(owl)
```
"""
ENGLISH = "The owl sleeps [1].\n\nהינשוף ישן ביום.\n\n- one\n- שניים."
# Where the first letter of an element is, as the fraction of `.answer` to its left.
FIRST_LETTER = """element => {
  const text = document.createTreeWalker(element, NodeFilter.SHOW_TEXT).nextNode();
  const range = document.createRange();
  range.setStart(text, 0);
  range.setEnd(text, 1);
  const [letter, box] = [range.getBoundingClientRect(), document.querySelector(".answer").getBoundingClientRect()];
  return (letter.left + letter.width / 2 - box.left) / box.width;
}"""


async def answered(visit: Visit, synthesis: str, language: str) -> None:
    """Show an answer with one citation."""
    answer = response(synthesis, metadata={"language": language, "uncited_sentences": 1})
    content = answer["raw_results"][0]["content"]
    answer["citations"] = [citation(synthesis, synthesis.partition(" [")[0], content, "It hunts at night.", "partial")]
    await visit.play(answer)
    await visit.ask()
    await visit.answered()


async def side(visit: Visit, selector: str) -> str:
    """Return the closer side of the window."""
    box = await visit.page.locator(selector).bounding_box()
    size = visit.page.viewport_size
    assert box is not None
    assert size is not None
    return "left" if box["x"] < size["width"] - box["x"] - box["width"] else "right"


class TestDirections:
    @pytest.mark.parametrize("width", [390, 1440])
    @pytest.mark.parametrize(("locale", "title"), [("ar-EG", "ماذا تريد أن تعرف؟"), ("he-IL", "מה תרצו לדעת?")])
    async def test_page_from_right_to_left_is_mirrored(
        self, browser: Browser, base: str, locale: str, title: str, width: int
    ) -> None:
        """Threads and logo are on the right, a quote opens on the left, and nothing is wider than the window."""
        async with visiting(browser, base, width, locale=locale) as visit:
            page = visit.page
            await expect(page.locator("html")).to_have_attribute("dir", "rtl")
            await expect(page.locator("#ask-title")).to_have_text(title)
            assert await side(visit, ".brand") == "right"
            assert await visit.violations() == []
            await answered(visit, HEBREW, "he")
            assert (await visit.violations(), await visit.overflow()) == ([], 0)
            if width == 390:
                await page.click("#open-threads")
                assert await side(visit, "#drawer") == "right"
                await page.keyboard.press("Escape")
            else:
                assert await side(visit, "#sidebar") == "right"
            await page.locator(".cite").first.click()
            await expect(page.locator("#quote mark")).to_be_visible()
            if width > 390:
                assert await side(visit, "#quote") == "left"
            assert (await visit.violations(), await visit.overflow()) == ([], 0)
            assert (visit.errors, visit.foreign) == ([], [])

    @pytest.mark.parametrize(
        ("locale", "text", "hebrew", "english"),
        [("en-US", HEBREW, 0, 1), ("en-US", ENGLISH, 1, 0), ("he-IL", ENGLISH, 1, 0)],
    )
    async def test_each_paragraph_has_its_own_direction(
        self, browser: Browser, base: str, locale: str, text: str, hebrew: int, english: int
    ) -> None:
        """A Hebrew paragraph begins on the right and an English one on the left, whatever surrounds them."""
        async with visiting(browser, base, locale=locale) as visit:
            await answered(visit, text, "he" if text == HEBREW else "en")
            paragraphs = visit.page.locator(".answer > p")
            assert await paragraphs.nth(hebrew).evaluate(FIRST_LETTER) > 0.9
            assert await paragraphs.nth(english).evaluate(FIRST_LETTER) < 0.1

    async def test_lists_tables_and_code_stay_readable(self, browser: Browser, base: str) -> None:
        """In a Hebrew answer, bullets are on the right, columns run from the right, and code from the left."""
        async with visiting(browser, base) as visit:
            page = visit.page
            await answered(visit, HEBREW, "he")
            assert await page.locator(".answer li").nth(1).evaluate(FIRST_LETTER) > 0.5
            assert await page.locator(".answer th").nth(0).evaluate(FIRST_LETTER) > 0.9
            assert await page.locator(".answer pre").evaluate(FIRST_LETTER) < 0.1
            for code in await page.locator(".answer code").all():
                assert await code.evaluate("element => getComputedStyle(element).direction") == "ltr"

    async def test_a_box_has_the_direction_of_its_text(self, browser: Browser, base: str) -> None:
        """An empty box has the direction of the page, and a filled one the direction of its text."""
        async with visiting(browser, base, locale="he-IL") as visit:
            box = visit.page.locator("#query")
            for text, direction in (("", "rtl"), ("When does the owl sleep?", "ltr"), ("מתי ישן הינשוף?", "rtl")):
                await box.fill(text)
                await expect(box).to_have_css("direction", direction)

    async def test_a_currency_sign_stays_next_to_its_letters(self, browser: Browser, base: str) -> None:
        """`US$` in a right-to-left column does not become `$US`."""
        async with visiting(browser, base, 390, locale="ar") as visit:
            await answered(visit, ENGLISH, "en")
            await visit.page.click("#tab-2")
            await expect(visit.page.locator(".facts")).to_contain_text("\u20660.00\u00a0US$\u2069")
            assert (await visit.violations(), await visit.overflow()) == ([], 0)

    async def test_an_example_is_sent_without_direction_marks(self, browser: Browser, base: str) -> None:
        """The title in an example is isolated on the page, but the question that is sent is plain text."""
        await until_titles_known(base)
        async with visiting(browser, base, locale="he") as visit:
            page = visit.page
            await visit.play(response(ENGLISH))
            example = page.locator(".examples button").first
            await expect(example).to_contain_text("\u2068")
            async with page.expect_request("**/research") as sent:
                await example.click()
            question = (await sent.value).post_data_json["query"]
            assert "מה" in question
            assert not {"\u2066", "\u2068", "\u2069"} & set(question)

    @pytest.mark.parametrize(("locale", "key"), [("en-US", "ArrowRight"), ("ar", "ArrowLeft")])
    async def test_arrow_keys_follow_the_direction(self, browser: Browser, base: str, locale: str, key: str) -> None:
        """The arrow key in the direction of the next tab selects it."""
        async with visiting(browser, base, locale=locale) as visit:
            await answered(visit, ENGLISH, "en")
            await visit.page.focus("#tab-0")
            await visit.page.keyboard.press(key)
            await expect(visit.page.locator("#tab-1")).to_be_focused()


class TestTranslations:
    async def test_a_missing_text_is_shown_in_english(self, browser: Browser, base: str) -> None:
        """An untranslated text is marked as English and runs from left to right."""
        async with visiting(browser, base) as visit:
            page = visit.page
            script = 'export default {"Ask": "לשאול", "Settings": "הגדרות"};'
            await page.route("**/lang/he.js", lambda route: route.fulfill(content_type="text/javascript", body=script))
            await page.select_option("#language", "he")
            await expect(page.locator("#ask-title")).to_have_attribute("lang", "en")
            await expect(page.locator("#ask-title")).to_have_text("\u2066What would you like to know?\u2069")
            await expect(page.locator("#submit")).to_have_text("לשאול")
            await expect(page.locator("#submit")).not_to_have_attribute("lang", re.compile(""))
            await expect(page.locator(".threads h2 > [lang=en]")).to_have_text("\u2066Threads\u2069")
            await expect(page.locator(".preferences summary [lang=en]")).to_have_count(0)
            assert await visit.violations() == []
            await page.select_option("#language", "en")
            await expect(page.locator("#ask-title")).to_have_text("What would you like to know?")
            await expect(page.locator("#ask-title")).not_to_have_attribute("lang", re.compile(""))

    async def test_without_its_catalogue_the_page_is_english(self, browser: Browser, base: str) -> None:
        """If a catalogue cannot be loaded, only its texts are in English."""
        async with visiting(browser, base) as visit:
            page = visit.page
            await page.route("**/lang/*", lambda route: route.abort())
            await page.evaluate("localStorage.setItem('llm-platform.language', 'ar')")
            await page.reload()
            await expect(page.locator("#form .options-button")).to_contain_text("Quick")
            await expect(page.locator("#ask-title")).to_have_attribute("lang", "en")
            await answered(visit, ENGLISH, "en")


class TestTheme:
    GROUND = "getComputedStyle(document.body).backgroundColor"
    LIGHT, DARK = "rgb(251, 251, 250)", "rgb(22, 22, 24)"

    @pytest.mark.parametrize("system", ["light", "dark"])
    async def test_switch(self, browser: Browser, base: str, system: str) -> None:
        """The button changes from the system's theme to light and dark and back. The choice is kept after a reload."""
        async with visiting(browser, base, scheme=system) as visit:
            page = visit.page
            own = self.DARK if system == "dark" else self.LIGHT
            button = page.get_by_role("button", name="Theme: ")
            for name, ground in (("as the system", own), ("light", self.LIGHT), ("dark", self.DARK)):
                await expect(button).to_have_accessible_name(f"Theme: {name}")
                assert await page.evaluate(self.GROUND) == ground
                assert await visit.violations() == []
                await page.reload()
                await expect(button).to_have_accessible_name(f"Theme: {name}")
                assert await page.evaluate(self.GROUND) == ground
                await button.click()
            await expect(button).to_have_accessible_name("Theme: as the system")

    async def test_first_paint_has_theme_and_direction(self, browser: Browser, base: str) -> None:
        """The chosen theme and direction apply before any module runs, without a flash."""
        async with visiting(browser, base) as visit:
            page = visit.page
            await page.evaluate("localStorage.setItem('llm-platform.theme', 'dark')")
            await page.evaluate("localStorage.setItem('llm-platform.language', 'he')")
            await page.route("**/main.js", lambda route: route.abort())
            await page.reload()
            assert await page.evaluate(self.GROUND) == self.DARK
            assert await page.evaluate("document.documentElement.dir") == "rtl"

    async def test_paper_is_light(self, browser: Browser, base: str) -> None:
        """A dark page is printed black on white."""
        async with visiting(browser, base) as visit:
            await visit.page.evaluate("document.documentElement.dataset.theme = 'dark'")
            await visit.page.emulate_media(media="print")
            assert await visit.page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
            assert await visit.page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light"


class TestProblems:
    OPERATOR = (
        "SearXNG refuses requests by its limiter (429): set server.limiter to false, send `Authorization: Bearer KEY`"
    )

    async def refused(self, visit: Visit, status: int, problem: Mapping[str, Any] | str, **headers: str) -> Locator:
        """Return the notice for a question that the server refuses in this way."""
        body = problem if isinstance(problem, str) else json.dumps(problem)
        await visit.keep_none()
        await visit.page.route("**/research", lambda route: route.fulfill(status=status, body=body, headers=headers))
        await visit.ask()
        return visit.page.locator(".notice")

    @pytest.mark.parametrize(
        ("locale", "sentence", "details"),
        [
            ("en-US", "The search service is busy. Try again in 20 sec.", "Details"),
            ("de", "Der Suchdienst ist ausgelastet. Versuchen Sie es in 20 Sek. noch einmal.", "Einzelheiten"),
            ("he", "שירות החיפוש עמוס. נסו שוב בעוד \u206820 שנ׳\u2069.", "פרטים"),
        ],
    )
    async def test_words_for_readers(
        self, browser: Browser, base: str, locale: str, sentence: str, details: str
    ) -> None:
        """The notice is in the language of the page and says when to try again. The server's message is behind it."""
        problem = {"status": 503, "code": "web_search_blocked", "detail": self.OPERATOR, "retryable": True}
        async with visiting(browser, base, locale=locale) as visit:
            notice = await self.refused(visit, 503, problem, **{"Retry-After": "20"})
            await expect(notice.locator("span").first).to_have_text(sentence)
            await expect(notice.get_by_text(self.OPERATOR)).to_be_hidden()
            await notice.get_by_text(details).click()
            await expect(notice.get_by_text(self.OPERATOR)).to_be_visible()
            assert await visit.violations() == []

    @pytest.mark.parametrize(
        ("status", "problem", "sentence"),
        [
            (504, "<html>Gateway timeout</html>", "The server did not answer in time."),
            (429, "{}", "Too many requests in a short time."),
            (418, {"code": "new", "detail": "x"}, "The server answered with status 418."),
            (500, {"code": "constructor"}, "Something went wrong on the server."),
            (422, {"code": "invalid_request", "errors": [{"loc": ["body", "max_seconds"], "msg": "x", "type": "y"}]},
             "The server does not accept this request. It does not accept: Minutes."),
            (429, {"code": "daily_budget", "retryable": True, "detail": "raise BUDGET_USD_PER_DAY"},
             "Today's budget is used up. Try again later."),
        ],
    )  # fmt: skip
    async def test_unknown_codes_and_fields(
        self, browser: Browser, base: str, status: int, problem: Mapping[str, Any] | str, sentence: str
    ) -> None:
        """An unknown code is described by its status, and a wrong field by its name on the page."""
        async with visiting(browser, base) as visit:
            notice = await self.refused(visit, status, problem)
            await expect(notice.locator("span").first).to_have_text(sentence)

    async def test_a_failure_of_the_run_says_when_to_try_again(self, browser: Browser, base: str) -> None:
        """An error event contains the seconds. For a stored run they have long passed."""
        problem = {"status": 503, "code": "llm_blocked", "detail": "limit", "retryable": True, "retry_after_s": 90}
        failed = {"type": "failed", "request_id": "r", "problem": problem}
        job = {"id": "r", "status": "failed", "request": {"query": "Owls?", "depth": "shallow"}, "problem": problem}
        threads = {"id": "r", "title": "Owls?", "researches": [job]}
        async with visiting(browser, base) as visit:
            page = visit.page
            await visit.play(response("x"))
            body = f"id: 1\ndata: {json.dumps(failed)}\n\n"
            await page.route(
                "**/research/r/events", lambda route: route.fulfill(content_type="text/event-stream", body=body)
            )
            await visit.ask()
            await expect(page.locator(".notice span").first).to_have_text(
                "The language model is busy. Try again in 90 sec."
            )
            await page.route("**/research/r", lambda route: route.fulfill(json=job))
            await page.route("**/research/threads/r", lambda route: route.fulfill(json=threads))
            await page.goto(f"{base}/#research/r")
            await page.reload()
            await expect(page.locator(".notice span").first).to_have_text(
                "The language model is busy. Try again later."
            )

    async def test_lexical_verdicts_are_mentioned_once_with_the_cost_of_the_answer(
        self, browser: Browser, base: str
    ) -> None:
        """Nearly every answer has only lexical verdicts, so this is not a warning.

        A limit that prevented the model is one.
        """
        rest = {"component": "judge", "reason": "incomplete: 2 of 9 citations were not judged", "until": None}
        said = "Not all citations were checked by a language model"
        async with visiting(browser, base) as visit:
            page = visit.page
            await visit.play(response(ENGLISH, degraded=[rest]))
            await visit.ask()
            await visit.answered()
            await expect(page.locator(".notes")).to_have_count(0)
            await page.get_by_role("tab", name="What left this machine").click()
            await expect(page.get_by_text(said)).to_be_visible()
            await expect(page.get_by_text(said)).to_have_count(1)
            await visit.play(response(ENGLISH, degraded=[{**rest, "reason": "budget: 2 citations were not judged"}]))
            await page.goto(f"{base}/#")
            await visit.ask()
            await visit.answered()
            await expect(page.locator(".notes")).to_contain_text("A limit ended the work early")

    async def test_notes_are_one_line(self, browser: Browser, base: str) -> None:
        """Several notes are one line that opens to a list.

        Notes with the same text are merged, with the names of their components.
        """
        degraded = [
            {"component": "searxng/google", "reason": "captcha", "until": None},
            {"component": "searxng/bing", "reason": "too many requests", "until": None},
            {"component": "documents", "reason": "web_search_config: set DOCUMENTS_DIR to a folder", "until": None},
            {"component": "rank", "reason": "budget: 1 call left out", "until": None},
        ]
        answer = response(ENGLISH, degraded=degraded, metadata={"uncited_sentences": 2})
        async with visiting(browser, base, 390) as visit:
            page = visit.page
            await visit.play(answer)
            await visit.ask()
            await visit.answered()
            notes = page.locator(".notes")
            box = await notes.bounding_box()
            assert box is not None
            assert box["height"] < 60
            assert (await visit.violations(), await visit.overflow()) == ([], 0)
            await notes.locator("summary").first.click()
            assert await notes.locator("li").all_inner_texts() == [
                "A limit ended the work early, and something is missing.",
                "Failed, or did less than was asked for: google and bing.",
                "This server has no documents to search.",
                "Sentences without a source: 2.",
            ]
            await expect(notes.get_by_text("DOCUMENTS_DIR")).to_be_hidden()
            await notes.get_by_text("Details").click()
            await expect(
                notes.get_by_text("documents: web_search_config: set DOCUMENTS_DIR to a folder")
            ).to_be_visible()
            assert (await visit.violations(), await visit.overflow()) == ([], 0)


class TestKeyboard:
    async def test_keys_move_and_open(self, browser: Browser, base: str) -> None:
        """`j` and `k` move through the citations and their cards, `/` to the box, `t` to the threads, and `n` to a new
        question.
        """
        text = "Owls sleep by day [1]. They hunt at night [1]."
        async with visiting(browser, base) as visit:
            page = visit.page
            await answered(visit, text, "en")
            await page.locator("#result-title").focus()
            cites = page.locator(".cite")
            for key, position in (("j", 0), ("j", 1), ("j", 1), ("k", 0), ("k", 0)):
                await page.keyboard.press(key)
                await expect(cites.nth(position)).to_be_focused()
                await expect(page.locator(".cite-card")).to_be_visible()
            await page.keyboard.press("Enter")
            await expect(page.locator("#quote")).to_be_visible()
            await page.keyboard.press("t")
            await expect(page.locator("#quote")).to_be_visible()
            await page.keyboard.press("Escape")
            await page.keyboard.press("/")
            await expect(page.locator("#follow-up")).to_be_focused()
            await page.keyboard.press("Escape")
            await page.keyboard.press("t")
            await expect(page.locator("#thread-search")).to_be_focused()
            await page.keyboard.press("Escape")
            await page.keyboard.press("n")
            await expect(page.locator("#query")).to_be_focused()
            assert visit.errors == []

    async def test_keys_are_text_in_a_box(self, browser: Browser, base: str) -> None:
        """During typing, or with Ctrl, Alt or Meta, a letter has no function."""
        async with visiting(browser, base) as visit:
            page = visit.page
            await page.focus("#query")
            await page.keyboard.type("/?djknt")
            await expect(page.locator("#query")).to_have_value("/?djknt")
            await page.keyboard.press("Escape")
            for pressed in ("Control+d", "Alt+d", "Meta+d", "Shift+D"):
                await page.keyboard.press(pressed)
            assert await page.get_attribute("html", "data-theme") is None
            await page.keyboard.press("d")
            await expect(page.locator("html")).to_have_attribute("data-theme", "light")

    async def test_without_latin_letters_the_position_of_a_key_counts(self, browser: Browser, base: str) -> None:
        """On a Russian keyboard the key of `d` gives `в`, and on an Arabic keyboard the key of `?` gives `؟`."""
        async with visiting(browser, base) as visit:
            page = visit.page
            press = "about => document.body.dispatchEvent(new KeyboardEvent('keydown', {...about, bubbles: true}))"
            await page.evaluate(press, {"key": "в", "code": "KeyD"})
            await expect(page.locator("html")).to_have_attribute("data-theme", "light")
            await page.evaluate(press, {"key": "؟", "code": "Slash", "shiftKey": True})
            await expect(page.locator("#keys")).to_be_visible()

    @pytest.mark.parametrize(("locale", "title"), [("en-US", "Keyboard shortcuts"), ("ar", "مفاتيح هذه الصفحة")])
    async def test_map_and_switch(self, browser: Browser, base: str, locale: str, title: str) -> None:
        """`?` and a button show the keys. A switch there and in the settings disables the letters but not the button."""
        async with visiting(browser, base, locale=locale) as visit:
            page = visit.page
            await page.keyboard.press("Escape")  # leave the box
            await page.keyboard.press("?")
            dialog = page.locator("#keys")
            await expect(dialog.get_by_role("heading")).to_have_text(title)
            assert (await visit.violations(), await visit.overflow()) == ([], 0)
            await dialog.get_by_role("checkbox").uncheck()
            assert not await page.locator(".preferences [name=keys]").is_checked()
            await page.keyboard.press("Escape")
            await page.keyboard.press("?")
            await page.keyboard.press("d")
            await expect(dialog).to_be_hidden()
            assert await page.get_attribute("html", "data-theme") is None
            await page.get_by_role("button", name=title).click()
            await expect(dialog).to_be_visible()
