"""The box for the next question of a thread is visible from the first word of an answer, and hides no text."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, Page, expect
from tests.services import page_answers
from tests.services.browser import WIDTHS, Visit, becomes, open_panel, visiting

pytestmark = [pytest.mark.services, pytest.mark.asyncio(loop_scope="session")]

RECT = "document.querySelector('.follow-up').getBoundingClientRect().toJSON()"
EDGE_PX = 24  # between the box and the lower edge of the window
SMALL = [(720, 450), (195, 422), (320, 256)]  # 1440 and 390 at 200 %, 1280 at 400 %


async def box(page: Page) -> dict[str, float]:
    found: dict[str, float] = await page.evaluate(RECT)
    return found


async def begin(visit: Visit) -> None:
    await page_answers.begin(visit)
    await visit.page.wait_for_selector(".follow-up")


async def fail(visit: Visit) -> None:
    problem = {"title": "Failed", "status": 502, "code": "synthesis_failed", "detail": "x"}
    await visit.page.evaluate(page_answers.SEND, {"type": "failed", "problem": problem})
    await visit.page.get_by_role("button", name="Try again").wait_for()


class TestDockedBox:
    @pytest.mark.parametrize("width", WIDTHS)
    async def test_the_box_keeps_its_position_during_an_answer(self, browser: Browser, base: str, width: int) -> None:
        """It is at the lower edge from the beginning, for a short and a long text, at its top, middle and end."""
        answer = page_answers.long_answer(6, 10)
        async with visiting(browser, base, width) as visit:
            page = visit.page
            await begin(visit)
            places = [await box(page)]
            for part in (answer["synthesis"][:200], answer["synthesis"][200:]):
                await page_answers.write(visit, part)
                places.append(await box(page))
            for target in ("1e6", "innerHeight", "0"):
                await page.evaluate(f"scrollTo(0, {target})")
                places.append(await box(page))
            await page_answers.end(visit, answer)
            places.append(await box(page))
            assert max(abs(place[side] - places[0][side]) for place in places for side in ("top", "bottom")) <= 1, (
                places
            )
            assert 0 <= page.viewport_size["height"] - places[0]["bottom"] <= EDGE_PX  # type: ignore[index]
            assert await visit.overflow() <= 0

    async def test_a_question_is_held_until_the_answer_is_there(self, browser: Browser, base: str) -> None:
        """The box says that it waits. Editing the question takes it back, and it is sent once."""
        answer = page_answers.long_answer(1, 2)
        async with visiting(browser, base) as visit:
            page = visit.page
            await begin(visit)
            note = page.locator("#follow-up-note")
            await page.fill("#follow-up", "And by day?")
            await page.press("#follow-up", "Enter")
            await expect(note).to_have_text("This question will be sent when the current answer is complete.")
            await expect(page.locator("#status")).to_have_text(
                "This question will be sent when the current answer is complete."
            )
            await page.fill("#follow-up", "And by day or at dusk?")
            await expect(note).to_have_text("")
            await page.press("#follow-up", "Enter")
            await expect(page.locator(".turn")).to_have_count(1)
            await page_answers.write(visit, answer["synthesis"])
            await page.evaluate("window.first = window.send")
            await page.evaluate(page_answers.STREAM)  # of the next run
            await page.evaluate(page_answers.SEND.replace("send", "first"), {"type": "done", "response": answer})
            await expect(page.locator(".turn-title").nth(1)).to_have_text("And by day or at dusk?")
            await expect(page.locator(".turn")).to_have_count(2)

    async def test_what_is_written_stays_when_the_answer_fails(self, browser: Browser, base: str) -> None:
        """If the answer fails nothing is sent, and the failed question returns to the box only if the box is empty."""
        async with visiting(browser, base) as visit:
            await begin(visit)
            await visit.page.fill("#follow-up", "And by day?")
            await visit.page.press("#follow-up", "Enter")
            await fail(visit)
            await expect(visit.page.locator("#follow-up-note")).to_have_text("")
            await expect(visit.page.locator("#follow-up")).to_have_value("And by day?")
            await expect(visit.page.locator("#follow-up")).to_be_focused()
            await expect(visit.page.locator(".turn")).to_have_count(1)

    @pytest.mark.parametrize(("width", "height"), SMALL)
    async def test_it_covers_no_text_in_a_low_window(
        self, browser: Browser, base: str, width: int, height: int
    ) -> None:
        """In a low window, as at a zoom of 200 %, the box is below the text, and moves to the edge only during typing."""
        answer = page_answers.long_answer(2, 10)
        async with visiting(browser, base, width, height=height) as visit:
            page = visit.page
            await begin(visit)
            await page_answers.write(visit, answer["synthesis"])
            await page_answers.end(visit, answer)
            await page.evaluate("scrollTo(0, 200)")
            assert (await box(page))["top"] >= height
            await page.locator("#follow-up").focus()
            await becomes(page, f"document.querySelector('.follow-up').getBoundingClientRect().bottom <= {height}")
            assert await visit.overflow() <= 0

    @pytest.mark.parametrize("width", [390, 1280])
    async def test_the_focus_is_never_hidden_by_the_box(self, browser: Browser, base: str, width: int) -> None:
        """Page keys and Tab never move to a marker or a button under the box."""
        answer = page_answers.long_answer(3, 10)
        focused = "document.activeElement.getBoundingClientRect().bottom"
        async with visiting(browser, base, width) as visit:
            page = visit.page
            await begin(visit)
            await page_answers.write(visit, answer["synthesis"])
            await page_answers.end(visit, answer)
            for key in ["j"] * 12 + ["Tab"] * 30:
                last = await page.evaluate("document.activeElement.outerHTML.slice(0, 200) + scrollY")
                await page.keyboard.press(key)
                if key == "j":
                    await becomes(page, "document.activeElement.matches('.cite')")
                if await page.evaluate("document.activeElement.closest('.follow-up') !== null"):
                    break
                assert await page.evaluate(focused) <= (await box(page))["top"], last

    async def test_a_keyboard_on_the_screen_lifts_it(self, browser: Browser, base: str) -> None:
        """If the keyboard covers the page without resizing its window, the box is above the keyboard."""
        answer = page_answers.long_answer(3, 10)
        async with visiting(browser, base, 390) as visit:
            page = visit.page
            await begin(visit)
            await page_answers.write(visit, answer["synthesis"])
            lower = (await box(page))["bottom"]
            covered = (
                "height => { Object.defineProperty(visualViewport, 'height', {get: () => height, configurable: true});"
                " visualViewport.dispatchEvent(new Event('resize')); }"
            )
            await page.evaluate(covered, 500)
            assert (await box(page))["bottom"] == lower - 300
            await page.evaluate(covered, 800)
            assert (await box(page))["bottom"] == lower

    @pytest.mark.parametrize("width", WIDTHS)
    async def test_what_opens_from_it_is_in_view(self, browser: Browser, base: str, width: int) -> None:
        """The panel of choices opens inside the window. A plan may be longer, and scrolls with the page."""
        answer = page_answers.long_answer(3, 10)
        questions = [f"Question {number} about owls?" for number in range(10)]
        plan = {"query": "q", "language": "en", "questions": questions, "planner": "m", "degraded": []}
        panel = "document.querySelector('.options-panel:popover-open').getBoundingClientRect()"
        async with visiting(browser, base, width) as visit:
            page = visit.page
            await page.route("**/research/plan", lambda route: route.fulfill(json=plan))
            await begin(visit)
            await page_answers.write(visit, answer["synthesis"])
            await page_answers.end(visit, answer)
            await open_panel(page, ".follow-up")
            assert await page.evaluate(f"(({{top, bottom}}) => top >= 0 && bottom <= innerHeight)({panel})")
            await page.check(".follow-up [name=depth][value=report]", force=True)
            await page.keyboard.press("Escape")
            await page.fill("#follow-up", "What do owls eat?")
            await page.press("#follow-up", "Enter")
            first = page.locator(".follow-up .plan-list textarea").first
            await first.wait_for()
            await first.scroll_into_view_if_needed()
            await becomes(page, "document.querySelector('.plan-list textarea').getBoundingClientRect().top >= 0")
            assert await page.locator(".thread-next").evaluate("each => getComputedStyle(each).position") == "static"

    async def test_no_violation_while_it_waits(self, browser: Browser, base: str) -> None:
        """axe finds nothing while the box waits or shows the waiting question."""
        async with visiting(browser, base, 390) as visit:
            await begin(visit)
            await page_answers.write(visit, "Owls hunt at night. " * 100)
            assert await visit.violations() == []
            await visit.page.fill("#follow-up", "And by day?")
            await visit.page.locator(".follow-up").get_by_role("button", name="Ask", exact=True).click()
            await visit.page.get_by_text(
                "This question will be sent when the current answer is complete."
            ).first.wait_for()
            assert await visit.violations() == []
