"""The page at / with late, lost, silent or repeated events: cancels, double clicks, long threads, a lost server."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

import pytest
from playwright.async_api import Browser, Error, Route, expect
from tests.services.browser import QUESTION, Visit, becomes, forward_until, visiting
from tests.services.page_answers import citation, response
from tests.support.server_process import until

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
    """Answer when the gate is open, if the page still waits."""

    async def handle(route: Route) -> None:
        await gate.wait()
        with suppress(Error):
            await route.fulfill(**answer)

    return handle


async def asked(visit: Visit, wanted: str, times: int = 1) -> None:
    """Wait until this many of these requests were sent."""
    await until(lambda: visit.seen.count(wanted) >= times)


class TestCancel:
    async def test_cancel_before_the_server_has_sent_the_id(self, browser: Browser, base: str) -> None:
        """The page waits for the id, cancels the run on the server, and then confirms."""
        gate = asyncio.Event()
        async with visiting(browser, base) as visit:
            page = visit.page
            await page.route("**/research", held(gate, status=202, json=JOB))
            await page.route("**/research/r", lambda route: route.fulfill(json={**JOB, "status": "cancelled"}))
            await visit.ask()
            await asked(visit, "POST /research")
            await page.get_by_role("button", name="Cancel", exact=True).click()
            await expect(page.locator(".cancel")).to_have_text("Cancelling…")
            await expect(page.locator("#result").get_by_role("alert")).to_have_count(0)
            gate.set()
            await expect(page.locator("#result").get_by_role("alert")).to_contain_text("cancelled")
            assert [request for request in visit.seen if request.endswith("/research/r")] == ["DELETE /research/r"]

    async def test_cancel_while_waiting_for_a_rate_limit(self, browser: Browser, base: str) -> None:
        """The waiting question is not sent."""
        refusal = {"status": 429, "headers": {"Retry-After": "5"}, "json": {"code": "rate_limited"}}
        async with visiting(browser, base) as visit:
            page = visit.page
            await page.clock.install()
            await page.route("**/research", lambda route: route.fulfill(**refusal))
            async with page.expect_response("**/research"):
                await visit.ask()
            await page.get_by_role("button", name="Cancel", exact=True).click()
            await expect(page.locator("#result").get_by_role("alert")).to_contain_text("cancelled")
            await page.clock.fast_forward(10_000)
            await page.evaluate("fetch('research/options')")  # everything before this has been sent
            assert visit.seen.count("POST /research") == 1

    async def test_cancel_of_a_plan(self, browser: Browser, base: str) -> None:
        """Planning ends, and the question can be changed."""
        gate = asyncio.Event()
        async with visiting(browser, base) as visit:
            page = visit.page
            await page.route("**/research/plan", held(gate))
            await visit.ask(depth="report")
            await page.locator(".plan-place").get_by_role("button", name="Cancel").click()
            await expect(page.locator(".plan-place")).to_be_empty()
            await expect(page.locator("#query")).to_be_focused()
            await expect(page.locator("#submit")).to_be_enabled()
            await expect(page.locator("#query-error")).to_be_empty()
            gate.set()

    async def test_a_plan_of_a_question_that_was_changed_fails_silently(self, browser: Browser, base: str) -> None:
        """The error would appear below another question."""
        gate = asyncio.Event()
        async with visiting(browser, base) as visit:
            page = visit.page
            await page.route("**/research/plan", held(gate, status=500, json={"code": "internal"}))
            await visit.ask(depth="report")
            await asked(visit, "POST /research/plan")
            await page.fill("#query", "Another question?")
            gate.set()
            await expect(page.locator("#submit")).to_be_enabled()
            await expect(page.locator("#query-error")).to_be_empty()


class TestSilence:
    async def test_a_question_that_the_server_does_not_confirm(self, browser: Browser, base: str) -> None:
        """If the server accepts the request and sends nothing, the page stops waiting and tells the reader where to
        look first.
        """
        gate = asyncio.Event()
        async with visiting(browser, base) as visit:
            page = visit.page
            await page.clock.install()
            await page.route("**/research", held(gate))
            await visit.ask()
            await asked(visit, "POST /research")
            alert = page.locator("#result").get_by_role("alert")
            await forward_until(page, alert, 50_000)
            await expect(alert).to_have_text(
                "The server did not confirm your question. Ask again if it is not among your threads."
            )
            await expect(page.get_by_role("button", name="Try again")).to_be_focused()
            gate.set()

    async def test_streams_that_are_closed_at_once(self, browser: Browser, base: str) -> None:
        """If a proxy closes every stream at once, the page retries less and less often, and finally reports the fault."""
        async with visiting(browser, base) as visit:
            page = visit.page
            await page.clock.install()
            await visit.play({})
            await page.route("**/events", lambda route: route.fulfill(content_type="text/event-stream", body=": x\n\n"))
            await visit.ask()
            alert = page.locator("#result").get_by_role("alert")
            await forward_until(page, alert.filter(has_text="Trying again"), 1000)
            await forward_until(page, page.get_by_role("button", name="Try again"), 1000)
            await expect(alert).to_contain_text("cannot be reached")
            assert visit.seen.count("GET /research/r/events") == 6


class TestOnce:
    async def test_a_lost_run_is_looked_for_once(self, browser: Browser, base: str) -> None:
        """Two clicks on "Try again" follow the run once, so its text is not repeated."""
        gate = asyncio.Event()
        async with visiting(browser, base) as visit:
            page = visit.page
            await visit.play(response("Owls sleep."), {"type": "token", "text": "Owls sleep."})
            thread = {"id": "r", "title": "q", "researches": [JOB]}
            await page.route("**/research/threads/r", lambda route: route.fulfill(json=thread))
            await page.route("**/research/r", lambda route: route.abort())
            await page.goto(f"{base}/#research/r")
            again = page.get_by_role("button", name="Try again")
            await expect(again).to_be_visible()
            await page.unroute("**/research/r")
            await page.route("**/research/r", held(gate, json={**JOB, "query": "q", "depth": "deep"}))
            visit.seen.clear()
            await again.dblclick()
            gate.set()
            await expect(page.locator("#result-title")).to_be_focused()
            await visit.answered()
            assert [visit.seen.count(f"GET /research/r{end}") for end in ("", "/events")] == [1, 1]
            await expect(page.locator(".answer")).to_have_text("Owls sleep.")

    @pytest.mark.parametrize("name", ["Why do owls hoot?", "Ask deeper", "Shorter", "what is an owl"])
    async def test_a_double_click_sends_once(self, browser: Browser, base: str, name: str) -> None:
        """A double click on an action of an answer sends one request. The action is enabled again after the new answer.

        The instruction of a new version is shown with it.
        """
        proposed = {"correction": "what is an owl", "related_questions": ["Why do owls hoot?"]}
        made = response("Owls sleep [1].", metadata=proposed)
        made["citations"] = [
            citation(made["synthesis"], "Owls", made["raw_results"][0]["content"], "The owl", "supported")
        ]
        async with visiting(browser, base) as visit:
            page = visit.page
            await visit.play(made)
            options = {
                "depths": ["shallow"],
                "sources": ["documents"],
                "default_sources": ["documents"],
                "models": ["m"],
            }
            await page.route(
                "**/research/options", lambda route: route.fulfill(json={**options, "document_titles": []})
            )
            await page.reload()
            await visit.ask("waht is an owl")
            await visit.answered()
            turn = page.locator(".turn").first
            if name == "Shorter":
                await turn.get_by_text("Write again").click()
            button = turn.get_by_role("button", name=name, include_hidden=True)  # its menu closes
            await button.evaluate("each => { each.click(); each.click(); }")  # the page may scroll between two clicks
            await visit.answered(2)
            await expect(button).to_be_enabled()
            await expect(page.locator(".turn")).to_have_count(2)
            assert visit.seen.count("POST /research") == 2
            await expect(page.locator(".wish")).to_have_text(["Write again: Shorter"] if name == "Shorter" else [])


TURNS = 25
LISTED = {
    "id": "r1",
    "title": "Owls",
    "status": "done",
    "running": 0,
    "turns": TURNS,
    "updated_at": "2026-01-01T00:00:00Z",
}


async def play_thread(visit: Visit, turns: int = TURNS, **changes: Any) -> None:
    """Let the server have one thread with this many turns, named r1 and so on."""

    async def answer(route: Route) -> None:
        number = route.request.url.rpartition("/r")[2]
        made = response(f"Answer {number}.", metadata={"request_id": f"r{number}", **changes})
        await route.fulfill(
            json={"id": f"r{number}", "query": f"Question {number}?", "depth": "deep", "response": made}
        )

    runs = [{"id": f"r{number}", "query": f"Question {number}?", "depth": "deep"} for number in range(1, turns + 1)]
    await visit.page.route(re.compile(r"/research/r\d+$"), answer)
    thread = {**LISTED, "researches": runs}
    await visit.page.route(re.compile(r"/research/threads/r\d+$"), lambda route: route.fulfill(json=thread))
    await visit.page.route(LISTS, lambda route: route.fulfill(json={"threads": [LISTED], "next": None}))


class TestLongThreads:
    async def test_the_end_of_a_stored_thread(self, browser: Browser, base: str) -> None:
        """The thread opens without announcing its answers, and with one request of the list, which marks it as current.

        If the thread is deleted there, the page removes it.
        """
        async with visiting(browser, base) as visit:
            page = visit.page
            await play_thread(visit)
            await page.evaluate(WATCH, "#status")
            visit.seen.clear()
            await page.goto(f"{base}/#research/r{TURNS}")
            await expect(page.locator(".turn .actions")).to_have_count(10)
            await expect(page.locator(".threads li.current")).to_have_count(1)
            await expect(page.locator(".follow-up")).to_be_visible()
            assert await page.evaluate("said") == []
            assert len([request for request in visit.seen if LISTS.search(request)]) == 1
            await page.route(re.compile(r"/research/threads/r1$"), lambda route: route.fulfill(json={}))
            await page.get_by_role("button", name="Delete Owls").press("Enter")
            await page.get_by_role("button", name="Delete", exact=True).click()
            await expect(page.locator("#query")).to_be_visible()

    async def test_earlier_questions_come_ten_at_a_time(self, browser: Browser, base: str) -> None:
        """The button keeps the focus while there are more questions, and then passes it to the first one."""
        async with visiting(browser, base) as visit:
            page = visit.page
            await play_thread(visit)
            await page.goto(f"{base}/#research/r{TURNS}")
            titles, more = page.locator(".turn-title"), page.get_by_role("button", name="Show earlier questions")
            await expect(titles).to_have_count(10)
            await more.press("Enter")
            await expect(titles).to_have_text([f"Question {number}?" for number in range(6, TURNS + 1)])
            await expect(more).to_be_focused()
            await more.press("Enter")
            await expect(titles).to_have_text([f"Question {number}?" for number in range(1, TURNS + 1)])
            await expect(more).to_have_count(0)
            await expect(titles.first).to_be_focused()

    async def test_forty_questions(self, browser: Browser, base: str) -> None:
        """Each question has a heading, and the first one is the page's heading.

        Neither the last nor an earlier answer moves the visible text, and the box is below all of them.
        """
        count = 40
        title = "document.querySelector('#turn-39-title').getBoundingClientRect().top"
        async with visiting(browser, base, 820) as visit:
            page = visit.page
            await play_thread(visit, count)
            await page.goto(f"{base}/#research/r{count}")
            await expect(page.locator(".follow-up")).to_be_visible()
            await expect(page.locator(".turn .actions")).to_have_count(10)
            for shown in (20, 30, 40):
                before = await page.evaluate(title)
                await page.get_by_role("button", name="Show earlier questions").evaluate("each => each.click()")
                await expect(page.locator(".turn .actions")).to_have_count(shown)
                if shown < count:  # the last click moves to the first question
                    assert abs(await page.evaluate(title) - before) <= 1
            await expect(page.get_by_role("heading", level=1)).to_have_count(1)
            await expect(page.locator("h2.turn-title")).to_have_count(count - 1)
            await expect(page.locator(".follow-up")).to_have_count(1)
            box = "document.querySelector('.follow-up').getBoundingClientRect()"
            assert await page.evaluate(f"(({{top, bottom}}) => top > 0 && bottom <= innerHeight)({box})")
            assert await visit.violations() == []


class TestStoredThread:
    async def test_a_refused_run_is_waited_for_and_keeps_its_question(self, browser: Browser, base: str) -> None:
        """The questions of a thread appear at once.

        Only a few of its nine answers are requested together, and a rate limited one is retried at varying intervals. A
        removed answer keeps its question.
        """
        count, under_way, most = 9, 0, 0
        refusals = dict.fromkeys(range(count), 4)
        jobs = [{"id": f"r{number}", "query": f"Question {number}?", "depth": "deep"} for number in range(count)]

        async def run(route: Route) -> None:
            nonlocal under_way, most
            number = int(route.request.url.rpartition("/r")[2])
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0)
            under_way -= 1
            if number == count - 1:
                await route.fulfill(status=404, json={"code": "research_not_found"})
            elif refusals[number]:
                refusals[number] -= 1
                await route.fulfill(status=429, headers={"Retry-After": "1"}, json={"code": "rate_limited"})
            else:
                await route.fulfill(json={**jobs[number], "status": "done", "response": response("Owls sleep.")})

        async with visiting(browser, base) as visit:
            page = visit.page
            await page.clock.install()
            thread = {"id": "r0", "title": "Question 0?", "researches": jobs}
            await page.route("**/research/threads/r0", lambda route: route.fulfill(json=thread))
            await page.route(re.compile(r"/research/r\d$"), run)
            await page.goto(f"{base}/#research/r0")
            await expect(page.locator(".turn-title")).to_have_text([f"Question {number}?" for number in range(count)])
            await forward_until(page, page.locator(".turn:nth-child(8) .actions"), 1000)
            await expect(page.locator(".actions")).to_have_count(count - 1)
            await expect(page.locator(".turn-title").last).to_have_text(f"Question {count - 1}?")
            await expect(page.locator("#follow-up")).to_have_value(f"Question {count - 1}?")
            assert most <= 3

    async def test_a_long_thread_has_a_heading(self, browser: Browser, base: str) -> None:
        """The heading is the title while the first question is not shown."""
        async with visiting(browser, base) as visit:
            await play_thread(visit)
            await visit.page.goto(f"{base}/#research/r{TURNS}")
            await expect(visit.page.locator(".turn-title")).to_have_count(10)
            await expect(visit.page.get_by_role("heading", level=1)).to_have_count(1)
            assert await visit.violations() == []


SIZES = "['partial', 'unsupported', 'uncited'].map(each => CSS.highlights.get(`sentence-${each}`).size)"


class TestLeaving:
    async def test_underlines_are_removed_with_their_text(self, browser: Browser, base: str) -> None:
        """The underlines of an answer that is left are removed."""
        text = "They never hunt [1]."
        made = response(text)
        made["citations"] = [
            citation(text, "They never hunt", made["raw_results"][0]["content"], "The owl", "unsupported")
        ]
        async with visiting(browser, base) as visit:
            await visit.play(made)
            await visit.ask()
            await visit.answered()
            assert await visit.page.evaluate(SIZES) == [0, 1, 0]
            await visit.page.get_by_role("link", name="New question").click()
            await expect(visit.page.locator("#query")).to_be_visible()
            await becomes(visit.page, SIZES, [0, 0, 0])

    async def test_a_late_run_is_not_announced(self, browser: Browser, base: str) -> None:
        """A run that arrives after its view was left is not announced."""
        gate = asyncio.Event()
        thread = {"id": "r", "title": "q", "researches": [JOB]}
        async with visiting(browser, base) as visit:
            page = visit.page
            await page.route("**/research/threads/r", lambda route: route.fulfill(json=thread))
            await page.route(
                "**/research/r", held(gate, json={"id": "r", "status": "queued", "query": "q", "depth": "deep"})
            )
            await page.goto(f"{base}/#research/r")
            await asked(visit, "GET /research/r")
            await page.evaluate(WATCH, "#status")
            await page.get_by_role("link", name="New question").click()
            await expect(page.locator("#query")).to_be_visible()
            async with page.expect_response("**/research/r"):
                gate.set()
            await page.evaluate("fetch('research/options').then(response => response.text())")
            assert await page.evaluate("said") == []


class TestLanguage:
    async def test_a_stored_thread_is_drawn_in_the_new_language(self, browser: Browser, base: str) -> None:
        """Its turns and the box are redrawn, and the focus stays on the language choice."""
        async with visiting(browser, base) as visit:
            page = visit.page
            await play_thread(visit, 2)
            await page.goto(f"{base}/#research/r2")
            await expect(page.get_by_role("tab", name="Sources (1)")).to_have_count(2)
            await page.locator("#language").focus()
            await page.select_option("#language", "de")
            await expect(page.get_by_role("tab", name="Quellen (1)")).to_have_count(2)
            await expect(page.locator("#follow-up")).to_be_visible()
            await expect(page.locator("#language")).to_be_focused()
            assert await page.get_attribute(".turn", "lang") is None

    async def test_another_thread_keeps_its_language(self, browser: Browser, base: str) -> None:
        """Content known only to the page keeps its language and direction."""
        async with visiting(browser, base) as visit:
            await visit.keep_none()
            await visit.play(response("Owls sleep."))
            await visit.ask()
            await visit.answered()
            await visit.page.select_option("#language", "ar")
            turn = visit.page.locator(".turn")
            await expect(turn).to_have_attribute("lang", "en")
            await expect(turn).to_have_attribute("dir", "ltr")
            assert await visit.violations() == []


class TestServerAway:
    async def test_the_list_reports_a_fault_once(self, browser: Browser, base: str) -> None:
        """The list is requested repeatedly during a run, but an unavailable server is reported once."""
        running = {**LISTED, "status": "running", "running": 1}
        async with visiting(browser, base) as visit:
            page = visit.page
            await page.route(LISTS, lambda route: route.fulfill(json={"threads": [running], "next": None}))
            await page.clock.install()
            await page.reload()
            await expect(page.locator(".threads li")).to_have_count(1)
            await page.unroute(LISTS)
            await page.route(LISTS, lambda route: route.abort())
            await page.evaluate(WATCH, ".threads [role=status]")
            visit.seen.clear()
            for times in (1, 2, 3):
                await page.clock.fast_forward(5000)
                await until(lambda n=times: len([request for request in visit.seen if LISTS.search(request)]) >= n)
                await expect(page.locator(".threads [role=status]")).to_contain_text("cannot be reached")
            await page.clock.fast_forward(0)
            assert len(await page.evaluate("said")) == 1

    async def test_a_server_that_comes_back_is_found(self, browser: Browser, base: str) -> None:
        """However long the server was unavailable, the page reconnects and shows the answer, also when the network
        returns.
        """
        async with visiting(browser, base) as visit:
            page = visit.page
            await page.clock.install()
            await visit.play(response("Owls sleep."))
            await page.route("**/events", lambda route: route.abort())
            await visit.ask()
            for times in range(1, 12):
                await until(lambda n=times: visit.seen.count("GET /research/r/events") >= n)
                await expect(page.locator("#result").get_by_role("alert")).to_contain_text("Trying again")
                await page.clock.fast_forward(10_000)
            await page.unroute("**/events")
            await page.evaluate("dispatchEvent(new Event('online'))")
            await visit.answered()
            await expect(page.locator(".answer")).to_have_text("Owls sleep.")

    async def test_a_thread_is_loaded_when_its_server_is_back(self, browser: Browser, base: str) -> None:
        """The page loads the thread when the window gets the focus."""
        async with visiting(browser, base) as visit:
            page = visit.page
            await visit.play_stored(response("Owls sleep."))
            await page.route("**/research/threads/abc", lambda route: route.abort())
            await page.goto(f"{base}/#research/abc")
            await expect(page.get_by_role("button", name="Try again")).to_be_visible()
            thread = {"id": "abc", "title": "q", "researches": [{"id": "abc"}]}
            await page.unroute("**/research/threads/abc")
            await page.route("**/research/threads/abc", lambda route: route.fulfill(json=thread))
            await page.evaluate("dispatchEvent(new Event('focus'))")
            await visit.answered()

    async def test_a_first_question_that_fails_stays_in_a_box(self, browser: Browser, base: str) -> None:
        """It can be changed there and sent again with its files."""
        async with visiting(browser, base) as visit:
            page = visit.page
            await page.route("**/research", lambda route: route.abort())
            file = {"name": "owls.txt", "mimeType": "text/plain", "buffer": b"Owls sleep."}
            await page.set_input_files("#form input[type=file]", file)
            await page.fill("#query", QUESTION)
            await page.press("#query", "Enter")
            await expect(page.locator("#follow-up")).to_have_value(QUESTION)
            await expect(page.locator(".thread-next .files")).to_contain_text("owls.txt")
            await page.fill("#follow-up", "Do owls sleep?")
            async with page.expect_request("**/research") as sent:
                await page.press("#follow-up", "Enter")
            body = (await sent.value).post_data_json
            assert (body["query"], [each["name"] for each in body["files"]]) == ("Do owls sleep?", ["owls.txt"])

    async def test_a_thread_is_looked_for_again(self, browser: Browser, base: str) -> None:
        """The button keeps the focus and shows that it works until the thread is found."""
        gate = asyncio.Event()
        thread = {"id": "abc", "title": "q", "researches": [{"id": "abc"}]}
        async with visiting(browser, base) as visit:
            page = visit.page
            await visit.play_stored(response("Owls sleep."))
            await page.route("**/research/threads/abc", lambda route: route.abort())
            await page.goto(f"{base}/#research/abc")
            again = page.locator("#result .tools button")
            await expect(again).to_have_text("Try again")
            await page.unroute("**/research/threads/abc")
            await page.route("**/research/threads/abc", held(gate, json=thread))
            await again.press("Enter")
            await expect(again).to_have_text("Working…")
            await expect(again).to_be_focused()
            gate.set()
            await visit.answered()
            await expect(page.locator(".turn")).to_have_count(1)
            await expect(page.locator("#result-title")).to_be_focused()

    async def test_an_icon_is_asked_for_again(self, browser: Browser, base: str) -> None:
        """A missing icon is remembered. A failed request is not."""
        statuses = [503, 404, 404]
        asked_for: list[str] = []

        async def icon(route: Route) -> None:
            asked_for.append(route.request.url)
            await route.fulfill(status=statuses[len(asked_for) - 1], json={})

        async def options(route: Route) -> None:
            has: Mapping[str, Any] = await (await route.fetch()).json()
            await route.fulfill(json={**has, "favicons": True})

        async with visiting(browser, base) as visit:
            page = visit.page
            await page.route("**/sources/*/icon", icon)
            await page.route("**/research/options", options)
            await page.reload()
            await visit.play(response("Owls sleep [1]."))
            for times in (1, 2):
                await visit.ask(QUESTION)
                await visit.answered()
                await until(lambda n=times: len(asked_for) == n)
                await page.goto(f"{base}/#")
                await expect(page.locator("#query")).to_be_visible()
            await visit.ask(QUESTION)
            await visit.answered()
            await page.evaluate("fetch('research/options').then(response => response.text())")
            assert len(asked_for) == 2


class TestNarrow:
    async def test_the_logo_leads_to_a_new_question(self, browser: Browser, base: str) -> None:
        """If the link has no room, the logo has its name."""
        async with visiting(browser, base, 390) as visit:
            await visit.play(response("Owls sleep."))
            await visit.ask()
            await visit.answered()
            assert await visit.violations() == []
            await visit.page.get_by_role("link", name="New question").click()
            await expect(visit.page.locator("#query")).to_be_visible()
