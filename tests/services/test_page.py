"""The page at / in a real Chromium: questions, steps, answers with their quotes, plans, keys and accessibility."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import httpx2
import pytest
from playwright.async_api import Browser, Route, expect
from tests.services.browser import HEIGHT, OFFLINE, QUESTION, WIDTHS, becomes, forward_until, serving_page, visiting
from tests.services.page_answers import citation, response
from tests.support.server_process import FORKED, served, until

pytestmark = [pytest.mark.services, pytest.mark.asyncio(loop_scope="session")]

INJECTIONS = Path(__file__).parents[1] / "security" / "injection_pages"
WITHOUT_MODEL = {"synthesizer": "extractive"}
KEY = "a-long-random-word"
ELEMENTS = "p br h1 h2 h3 h4 h5 h6 ul ol li blockquote pre code em strong s hr a table thead tbody tr th td div"
FOUND = "[...document.querySelectorAll('.answer *')].map(each => each.closest('.cite, .kept, .copy') ? 'p' : each.localName)"
HREFS = "[...document.querySelectorAll('main a')].map(each => each.getAttribute('href'))"
SOURCE_ELEMENTS = "mark, strong, p, pre, ul, li, span, table, thead, tbody, tr, th, td, .scroller, button"
MADE_ATTRIBUTES = "class dir tabindex role align aria-hidden aria-label type"  # of elements created by the page
SOURCE_ATTRIBUTES = "[...document.querySelectorAll('.source-text *')].flatMap(each => each.getAttributeNames())"
OPENER = "[...document.querySelectorAll('.answer a')].every(each => each.rel.includes('noopener'))"


class TestAnswers:
    async def test_ask_read_and_open_a_quote(self, browser: Browser, own_base: str) -> None:
        """Steps and answer appear.

        A citation opens the source's text at the highlighted quote, with its verdict in words.
        """
        async with visiting(browser, own_base) as visit:
            page = visit.page
            await visit.ask()
            await visit.answered()
            await expect(page.locator(".answer")).to_contain_text("asked only when the one before it failed")
            await page.click(".steps summary")
            assert "Searches: 1" in await page.inner_text(".steps")
            await page.locator(".cite").first.click()
            dialog = page.get_by_role("dialog")
            await expect(dialog.locator("mark")).to_have_text(
                "The next search provider is asked only when the one before it failed with an error."
            )
            await expect(dialog.locator("mark")).to_be_in_viewport()
            await expect(dialog.locator(".badge.quoted")).to_have_text("quoted word for word")
            await page.keyboard.press("Escape")
            await expect(page.locator(".cite").first).to_be_focused()
            await page.get_by_role("tab", name="Sources (2)").click()
            await expect(page.locator(".source-list > li")).to_have_count(2)
            await page.keyboard.press("ArrowRight")
            await expect(page.get_by_role("tabpanel")).to_contain_text("Nothing left this machine.")
            assert (visit.errors, visit.foreign) == ([], [])

    async def test_verdicts_and_offsets_beyond_the_basic_plane(self, browser: Browser, base: str) -> None:
        """Offsets count code points, so an emoji before a statement or a quote shifts nothing.

        Each verdict has its word.
        """
        text = "🦉🦉 Owls sleep by day [1]. They never hunt [1]. They see red [1]."
        first = response(text)
        content = first["raw_results"][0]["content"]
        first["citations"] = [
            citation(text, "🦉🦉 Owls sleep by day", content, "The owl 🦉 sleeps by day.", "supported"),
            citation(text, "They never hunt", content, "It hunts at night.", "unsupported"),
            citation(text, "They see red", content, "The owl", "partial"),
        ]
        async with visiting(browser, base) as visit:
            await visit.play(first)
            await visit.ask()
            await visit.answered()
            words, marks, statements = [], [], []
            for cite in await visit.page.locator(".cite").all():
                await cite.click()
                words.append(await visit.page.inner_text("#quote .badge"))
                marks.append(await visit.page.inner_text("#quote mark"))
                statements.append(await visit.page.inner_text("#quote blockquote"))
                await visit.page.keyboard.press("Escape")
        assert words == ["supported", "not found in the page", "partly supported"]
        assert marks == ["The owl 🦉 sleeps by day.", "It hunts at night.", "The owl"]
        assert statements == ["🦉🦉 Owls sleep by day", "They never hunt", "They see red"]

    async def test_a_reset_takes_the_text_back(self, browser: Browser, base: str) -> None:
        """Tokens before a reset are removed. The notes say that a limit was reached, and what failed."""
        degraded = [
            {"component": "write", "reason": "budget: 1 call left out", "until": None},
            {"component": "searxng/google", "reason": "blocked: captcha", "until": "2030-01-01T00:00:00Z"},
        ]
        answer = response(
            "Second.",
            degraded=degraded,
            metadata={
                "sent_to": [{"host": "api.example.org", "kind": "query", "requests": 2, "bytes": 2048, "via": None}]
            },
        )
        events = [{"type": "started"}, {"type": "token", "text": "First."}, {"type": "reset", "reason": "x"}]
        async with visiting(browser, base) as visit:
            await visit.play(answer, *events, {"type": "token", "text": "Second."})
            await visit.ask()
            await visit.answered()
            assert (await visit.page.inner_text(".answer")).strip() == "Second."
            await visit.page.locator(".notes > summary").click()
            notes = await visit.page.inner_text(".notices ul")
            assert re.search(r"A limit ended the work early.*Failed, or did less.*google.*until", notes, re.DOTALL)
            await visit.page.get_by_role("tab", name="What left this machine").click()
            await expect(visit.page.get_by_role("row", name="api.example.org question 2 2 kB")).to_be_visible()

    async def test_cells_of_a_table_keep_their_alignment(self, browser: Browser, base: str) -> None:
        """Columns of numbers are right-aligned on the page and in the file, a list keeps its start number, and the
        console has no message.
        """
        table = "| Pump | Power | Price |\n|:---|---:|:---:|\n| A | 12.5 | 900 |\n\n7. Seventh\n"
        async with visiting(browser, base) as visit:
            page = visit.page
            await visit.play(response(table), {"type": "token", "text": table})
            await visit.ask()
            await visit.answered()
            aligned = "[...document.querySelectorAll('.answer td')].map(each => getComputedStyle(each).textAlign)"
            assert await page.evaluate(aligned) == ["left", "right", "center"]
            assert await page.get_attribute(".answer ol", "start") == "7"
            await page.get_by_text("Export").click()
            async with page.expect_download() as download:
                await page.get_by_role("button", name="HTML").click()
            assert '<td align="right">12.5' in (await (await download.value).path()).read_text(encoding="utf-8")
            assert visit.errors == []

    async def test_a_cached_answer_shows_what_was_sent_when_it_was_made(self, browser: Browser, base: str) -> None:
        """Nothing is sent now, and the host that received the question earlier is named.

        Without a record the page says so.
        """
        sent = {"host": "api.example.org", "kind": "query", "requests": 2, "bytes": 2048, "via": None}
        for recorded, said in (([sent], "api.example.org"), ([], "Nothing is recorded.")):
            async with visiting(browser, base) as visit:
                await visit.play(response("Owls sleep.", metadata={"cache_hit": True, "cached_sent_to": recorded}))
                await visit.ask()
                await visit.answered()
                await visit.page.get_by_role("tab", name="What left this machine").click()
                panel = visit.page.get_by_role("tabpanel")
                await expect(panel).to_contain_text("Nothing left this machine for this answer: it came from the cache")
                await expect(panel).to_contain_text(said)

    async def test_cancel_stops_the_research_on_the_server(self, browser: Browser, tmp_path: Path) -> None:
        """Cancel ends the running request to the search engine."""
        async with served(FORKED, tmp_path) as server:
            base = str(server.client.base_url).rstrip("/")
            async with visiting(browser, base) as visit:
                await visit.page.fill("#query", "What is asyncio?")
                await visit.page.keyboard.press("Enter")
                await until(lambda: server.upstream.busy == 1)
                await visit.page.wait_for_url("**/#research/*")
                await visit.page.get_by_role("button", name="Cancel").click()
                await expect(visit.page.get_by_role("alert")).to_contain_text("cancelled")
                await until(lambda: server.upstream.busy == 0)

    async def test_an_error_is_shown(self, browser: Browser, tmp_path: Path) -> None:
        """The server's message is shown, and the question can be asked again."""
        async with serving_page(tmp_path, SEARXNG_URL="http://127.0.0.1:9") as base, visiting(browser, base) as visit:
            await visit.page.fill("#query", "What is asyncio?")
            await visit.page.keyboard.press("Enter")
            await expect(visit.page.get_by_role("alert").filter(has_text=re.compile("."))).to_be_visible()
            await expect(visit.page.get_by_role("button", name="Try again")).to_be_focused()


class TestReports:
    async def test_plan_is_edited_and_the_report_survives_the_page(self, browser: Browser, own_base: str) -> None:
        """Sub-questions can be changed, added, moved and removed.

        The report continues without the page and is listed in the history.
        """
        async with visiting(browser, own_base) as visit:
            page = visit.page
            await visit.ask(depth="report")
            inputs = page.locator(".plan-list textarea")
            await expect(inputs).to_have_count(2)
            await page.get_by_role("button", name="Add a sub-question").click()
            await page.keyboard.type("What does a breaker do?")
            await page.get_by_role("button", name="Move sub-question 3 up").press("Enter")
            await page.get_by_role("button", name="Remove sub-question 1").click()
            await inputs.nth(1).fill("When is a statement partial?")
            await page.get_by_role("button", name="Start the report").click()
            await page.wait_for_url("**/#research/*")
            address = page.url
        async with visiting(browser, own_base) as visit:
            page = visit.page
            await page.goto(address)
            await visit.answered()
            async with httpx2.AsyncClient(base_url=own_base) as client:
                job = (await client.get(f"/research/{address.rpartition('/')[2]}")).json()
            assert job["request"]["plan"] == ["What does a breaker do?", "When is a statement partial?"]
            await expect(page.locator(".answer h2").first).to_have_text("What does a breaker do?")
            await page.locator(".cite").first.click()
            await expect(page.locator("#quote mark")).to_be_in_viewport()
            await page.keyboard.press("Escape")
            await page.get_by_role("link", name="New question").click()
            await page.get_by_role("link", name=QUESTION).click()
            await visit.answered()
            assert (visit.errors, visit.foreign) == ([], [])

    async def test_cancel_of_a_background_research(self, browser: Browser, tmp_path: Path) -> None:
        """Cancel ends the research in the store, not only on the page."""
        async with served(FORKED, tmp_path) as server:
            base = str(server.client.base_url).rstrip("/")
            async with visiting(browser, base) as visit:
                await visit.choose("report", "web")
                await visit.page.fill("#query", "What is asyncio?")
                await visit.page.press("#query", "Enter")
                await visit.page.get_by_role("button", name="Start the report").click()
                await until(lambda: server.upstream.busy > 0)
                await visit.page.wait_for_url("**/#research/*")
                await visit.page.get_by_role("button", name="Cancel").click()
                await expect(visit.page.get_by_role("alert").filter(has_text="cancelled")).to_be_visible()
                listed = (await server.client.get("/research")).json()["researches"]
                assert [job["status"] for job in listed] == ["cancelled"]
                await until(lambda: server.upstream.busy == 0)

    async def test_a_broken_connection_is_resumed(self, browser: Browser, base: str) -> None:
        """After a broken connection the page requests the events after the last one, and shows each step once."""
        asked: list[str | None] = []
        search = {"type": "searched", "query": "q", "provider": "x", "count": 0, "cached": False, "results": []}
        events = [
            {"type": "started"},
            search,
            search,
            {"type": "done", "response": response("Owls sleep.", depth="report")},
        ]
        lines = [f"id: {n}\ndata: {json.dumps({'request_id': 'r', **event})}\n\n" for n, event in enumerate(events, 1)]

        async def break_first(route: Route) -> None:
            asked.append(route.request.headers.get("last-event-id"))
            body = ": keep-alive\n\n" + "".join(lines[:2] if len(asked) == 1 else lines[2:])
            await route.fulfill(content_type="text/event-stream", body=body)

        async with visiting(browser, base) as visit:
            await visit.play({})
            await visit.page.route("**/events", break_first)
            await visit.ask(depth="report")
            await visit.page.get_by_role("button", name="Start the report").click()
            await visit.answered()
            await visit.page.click(".steps summary")
            await expect(visit.page.locator(".step").filter(has_text="Searches: 2")).to_be_visible()
        assert asked == [None, "2"]

    async def test_a_follow_up_is_sent_with_the_id_of_the_answer(self, browser: Browser, base: str) -> None:
        """It uses the same sources, and the page does not load the API description first."""
        async with visiting(browser, base) as visit:
            page = visit.page
            await visit.play(response("Owls sleep."))
            await visit.ask()
            await visit.answered()
            field = page.get_by_label("Ask a follow-up question")
            await field.fill("And at night?")
            async with page.expect_request("**/research") as sent:
                await field.press("Enter")
            body = (await sent.value).post_data_json
            assert (body["previous_id"], body["query"], body["sources"]) == ("r", "And at night?", ["documents"])
            assert [request for request in visit.seen if "openapi" in request] == []

    async def test_a_follow_up_is_answered(self, browser: Browser, own_base: str) -> None:
        """The server accepts the id of the page.

        The second answer is below the first, at the top of the window, with the understood question.
        """
        async with visiting(browser, own_base) as visit:
            await visit.ask()
            await visit.answered()
            await visit.page.get_by_label("Ask a follow-up question").fill("And when is it partial?")
            async with visit.page.expect_request("**/research") as sent:
                await visit.page.keyboard.press("Enter")
            assert (await sent.value).post_data_json["previous_id"]
            second = visit.page.locator(".turn").nth(1)
            await expect(second.get_by_role("heading", name="And when is it partial?")).to_be_focused()
            await visit.answered(2)
            await expect(second.locator(".understood")).to_contain_text("Understood as:")
            top = "document.querySelectorAll('.turn')[1].getBoundingClientRect().top"
            await becomes(visit.page, f"0 <= {top} && {top} < {HEIGHT / 10}")  # reading begins there
            await expect(visit.page.locator("#result-title")).to_have_text(QUESTION)
            await visit.answered(1)
            await expect(visit.page.locator(".follow-up")).to_have_count(1)
            assert visit.errors == []


class TestThreads:
    async def test_a_thread_survives_reload_restart_and_another_browser(self, browser: Browser, tmp_path: Path) -> None:
        """Quick questions have an address, too.

        A reload, a new server process and a browser without a history show the thread with all turns, steps and quotes,
        and it can be continued.
        """
        async with serving_page(tmp_path, *OFFLINE) as base, visiting(browser, base) as visit:
            page = visit.page
            await visit.ask()
            await visit.answered()
            await page.get_by_label("Ask a follow-up question").fill("And when is it partial?")
            await page.keyboard.press("Enter")
            await visit.answered(2)
            fragment = page.url.removeprefix(base)
            await page.reload()
            await visit.answered(2)
            await expect(page.locator(".understood").nth(1)).to_contain_text("And when is it partial?")
            assert len([request for request in visit.seen if request == "POST /research"]) == 2
            assert visit.errors == []
        async with serving_page(tmp_path, *OFFLINE) as base, visiting(browser, base) as visit:
            page = visit.page
            await page.goto(f"{base}{fragment}")
            await visit.answered(2)
            steps = page.locator(".turn").first.locator(".steps")
            await expect(steps.locator(".steps-list")).to_be_hidden()
            await steps.locator("summary").click()
            await expect(steps).to_contain_text("Searches: 1")
            await expect(steps).to_contain_text(QUESTION)
            await page.locator(".turn").first.locator(".cite").first.click()
            await expect(page.locator("#quote mark")).to_be_in_viewport()
            await page.keyboard.press("Escape")
            await page.get_by_label("Ask a follow-up question").fill("And what is checked?")
            async with page.expect_request("**/research") as sent:
                await page.keyboard.press("Enter")
            assert (await sent.value).post_data_json["previous_id"] == fragment.rpartition("/")[2]
            await visit.answered(3)
            assert page.url != f"{base}{fragment}"
            await page.go_back()
            await expect(page.locator("#query")).to_be_visible()
            await page.go_forward()
            await visit.answered(3)
            assert (visit.errors, visit.foreign) == ([], [])

    async def test_a_running_answer_continues_without_the_page(self, browser: Browser, tmp_path: Path) -> None:
        """A new question does not end the running answer.

        The list shows that it runs, and its address shows it again and can cancel it.
        """
        async with served(FORKED, tmp_path) as server:
            base = str(server.client.base_url).rstrip("/")
            async with visiting(browser, base) as visit:
                page = visit.page
                await page.fill("#query", "What is asyncio?")
                await page.keyboard.press("Enter")
                await until(lambda: server.upstream.busy == 1)
                await page.wait_for_url("**/#research/*")
                await page.get_by_role("link", name="New question").click()
                await expect(page.locator(".threads li").filter(has_text="running")).to_be_visible()
                await page.reload()
                await page.get_by_role("link", name="What is asyncio?").click()
                await page.get_by_role("button", name="Cancel").click()
                await expect(page.locator("#result").get_by_role("alert")).to_contain_text("cancelled")
                await until(lambda: server.upstream.busy == 0)
                await expect(page.locator(".running")).to_have_count(0)

    async def test_threads_are_found_renamed_and_deleted(self, browser: Browser, own_base: str) -> None:
        """Threads are found by the words of any question. Escape changes nothing.

        A deleted thread is removed from the server, and from the page if shown.
        """
        async with visiting(browser, own_base) as visit:
            page, names = visit.page, ("When is a statement partial?", "What is a dead letter topic?")
            for name in names:
                await page.goto(f"{own_base}/#")
                await visit.ask(name)
                await visit.answered()
            links = page.locator(".threads li > a")
            await expect(links).to_have_text(list(reversed(names)))
            await expect(page.locator(".threads h3")).to_have_text(["Today"])
            await page.get_by_label("Search in threads").fill("PARTIAL")
            await expect(links).to_have_text([names[0]])
            await page.get_by_role("button", name=f"Rename {names[0]}").press("Enter")
            await page.keyboard.press("Escape")
            await page.get_by_role("button", name=f"Rename {names[0]}").press("Enter")
            await page.get_by_label("Title of the thread").fill("<b>Verdicts</b>")
            await page.keyboard.press("Enter")
            await expect(links).to_have_text(["<b>Verdicts</b>"])
            await page.get_by_label("Search in threads").fill("")
            await expect(links).to_have_text([names[1], "<b>Verdicts</b>"])
            shown = page.url.rpartition("/")[2]
            await page.get_by_role("button", name=f"Delete {names[1]}").press("Enter")
            await page.get_by_role("button", name="Delete", exact=True).click()
            await expect(links).to_have_text(["<b>Verdicts</b>"])
            await expect(page.locator("#query")).to_be_visible()
            async with httpx2.AsyncClient(base_url=own_base) as client:
                assert (await client.get(f"/research/{shown}")).status_code == 404
            assert visit.errors == []

    async def test_a_reader_who_keeps_no_threads_leaves_none(self, browser: Browser, own_base: str) -> None:
        """With the switch off nothing is stored, also after a reload. Follow-up questions still work."""
        async with visiting(browser, own_base) as visit:
            page = visit.page
            await page.click(".preferences summary")
            await page.get_by_label("Keep my threads on this server").uncheck()
            await page.reload()
            await visit.ask()
            await visit.answered()
            await page.get_by_label("Ask a follow-up question").fill("And when is it partial?")
            await page.keyboard.press("Enter")
            await visit.answered(2)
            assert page.url.endswith("#answer")
            await expect(page.get_by_text("There are no threads yet.")).to_be_visible()
            async with httpx2.AsyncClient(base_url=own_base) as client:
                assert (await client.get("/research")).json()["researches"] == []

    async def test_the_drawer_of_a_small_screen(self, browser: Browser, own_base: str) -> None:
        """It opens from the top of the page, a thread closes it, and Escape gives the focus back."""
        async with visiting(browser, own_base, 390) as visit:
            page = visit.page
            await visit.ask()
            await visit.answered()
            opener = page.get_by_role("button", name="Threads", exact=True)
            await opener.press("Enter")
            await expect(page.get_by_role("dialog").get_by_label("Search in threads")).to_be_focused()
            await page.keyboard.press("Escape")
            await expect(opener).to_be_focused()
            await page.goto(f"{own_base}/#")
            await visit.open_threads()
            await page.get_by_role("dialog").get_by_role("link", name=QUESTION).click()
            await expect(page.get_by_role("dialog")).to_have_count(0)
            await visit.answered()
            assert visit.errors == []


class TestNothingIsLost:
    async def test_the_skip_link_keeps_the_page(self, browser: Browser, tmp_path: Path) -> None:
        """The link only moves the focus. A running research continues, and the address still names it."""
        async with served(FORKED, tmp_path) as server:
            base = str(server.client.base_url).rstrip("/")
            async with visiting(browser, base) as visit:
                page = visit.page
                await page.fill("#query", "What is asyncio?")
                await page.keyboard.press("Enter")
                await until(lambda: server.upstream.busy == 1)
                await page.wait_for_url("**/#research/*")
                await page.get_by_role("link", name="Skip to the content").press("Enter")
                await expect(page.locator("#main")).to_be_focused()
                await expect(page.get_by_role("button", name="Cancel")).to_be_visible()
                assert "#research/" in page.url
                assert server.upstream.busy == 1

    async def test_an_unknown_research_starts_no_other_one(self, browser: Browser, base: str) -> None:
        """The page says that the research does not exist, and offers a new question. No request is posted."""
        async with visiting(browser, base) as visit:
            page = visit.page
            await page.goto(f"{base}/#research/doesnotexist")
            await expect(page.get_by_role("alert").filter(has_text=re.compile("."))).to_be_visible()
            await expect(page.get_by_role("button", name="Try again")).to_have_count(0)
            await page.locator(".tools").get_by_role("link", name="New question").click()
            await expect(page.locator("#query")).to_be_focused()
            assert [request for request in visit.seen if request.startswith("POST")] == []

    async def test_a_lost_server_is_reported_and_the_report_is_found_again(
        self, browser: Browser, own_base: str
    ) -> None:
        """The page reports the lost connection, and Cancel reports that the server is unavailable.

        The page keeps requesting the running report, starts no other one, and shows it when the server is back.
        """
        async with visiting(browser, own_base) as visit:
            page = visit.page
            await page.clock.install()
            await page.route("**/events", lambda route: route.abort())
            await visit.ask(depth="report")
            await page.get_by_role("button", name="Start the report").click()
            alert = page.locator("#result").get_by_role("alert")
            await expect(alert).to_contain_text("Trying again")
            await page.route("**/research/*", lambda route: route.abort())
            await page.get_by_role("button", name="Cancel").click()
            await expect(alert).to_contain_text("cannot be reached")
            await forward_until(page, alert.filter(has_text="Trying again"), 10_000)
            await page.unroute("**/research/*")
            await page.unroute("**/events")
            await forward_until(page, page.locator(".turn .actions"), 10_000)
            await visit.answered()
            assert [request for request in visit.seen if request == "POST /research"] == ["POST /research"]

    async def test_a_silent_server_is_lost(self, browser: Browser, tmp_path: Path) -> None:
        """A server sends a comment every 15 s.

        If it sends nothing, the page stops waiting for a quick question, says so, and keeps trying.
        """
        async with served(FORKED, tmp_path) as server:
            base = str(server.client.base_url).rstrip("/")
            async with visiting(browser, base) as visit:
                page = visit.page
                await page.clock.install()
                await page.fill("#query", "What is asyncio?")
                async with page.expect_response("**/events"):
                    await page.keyboard.press("Enter")
                await page.wait_for_url("**/#research/*")
                await until(lambda: server.upstream.busy == 1)
                server.process.send_signal(signal.SIGSTOP)
                try:
                    alert = page.locator("#result").get_by_role("alert")
                    await forward_until(page, alert.filter(has_text="Trying again"), 50_000)
                    asked = len(visit.seen)
                    await page.clock.fast_forward(50_000)
                    await until(lambda: len(visit.seen) > asked)
                finally:
                    server.process.send_signal(signal.SIGCONT)

    async def test_a_quote_says_why_the_text_is_missing(self, browser: Browser, base: str) -> None:
        """An unavailable server is not a missing text. When it is back, opening the quote again shows the text.

        Only a 404 means "not stored".
        """
        async with visiting(browser, base) as visit:
            page = visit.page
            await visit.play(response("It hunts [1].", depth="report", raw_results=None))
            await visit.ask()
            await visit.answered()
            reactions = [
                (lambda route: route.abort(), "cannot be reached"),
                (lambda route: route.fulfill(status=503, json={"detail": "The store is away."}), "The store is away."),
                (lambda route: route.fulfill(json={"text": "It hunts at night."}), "It hunts at night."),
            ]
            for reaction, said in reactions:
                await page.unroute("**/sources/1")
                await page.route("**/sources/1", reaction)
                await page.locator(".cite").click()
                await expect(page.locator(".source-text")).to_contain_text(said)
                await expect(page.locator("#quote")).not_to_contain_text("not stored any more")
                await page.keyboard.press("Escape")

    async def test_escape_closes_the_export_menu(self, browser: Browser, own_base: str) -> None:
        """Escape closes the menu and returns the focus to its button. Moving the focus elsewhere also closes it."""
        async with visiting(browser, own_base) as visit:
            page = visit.page
            await visit.ask()
            await visit.answered()
            opener, item = page.locator(".tools .menu summary"), page.get_by_role("button", name="Markdown")
            await opener.press("Enter")
            await page.keyboard.press("Tab")
            await expect(item).to_be_focused()
            await page.keyboard.press("Escape")
            await expect(item).to_be_hidden()
            await expect(opener).to_be_focused()
            await opener.press("Enter")
            await expect(item).to_be_visible()
            await page.get_by_role("tab", name="Answer").focus()
            await expect(item).to_be_hidden()


STORE = """(key) => {
    const thread = { id: "a", title: "A thread" };
    sessionStorage.setItem("llm-platform.key", key);
    sessionStorage.setItem("llm-platform.check", JSON.stringify({ text: "A text [1]." }));
    localStorage.setItem("llm-platform.pinned", JSON.stringify([thread]));
    localStorage.setItem("llm-platform.folders", JSON.stringify([{ name: "Work", threads: [thread] }]));
    localStorage.setItem("llm-platform.theme", "dark");
}"""
STORED = "[...Object.keys(localStorage), ...Object.keys(sessionStorage)].sort()"


class TestSafety:
    async def test_key_is_asked_for_and_stays_in_the_tab(self, browser: Browser, tmp_path: Path) -> None:
        """A wrong key is asked for again. The right key is kept after a reload, but not in another tab."""
        serving = serving_page(tmp_path, *OFFLINE, LLM_PLATFORM_API_KEYS=KEY)
        async with serving as base, visiting(browser, base) as visit:
            page = visit.page
            await page.fill("#query", QUESTION)
            await page.press("#query", "Enter")
            for key in ("wrong", KEY):
                await page.locator("#key-input").fill(key)
                await page.locator("#key").get_by_role("button", name="Continue").click()
            await visit.answered()
            await page.goto(f"{base}/#")
            await page.reload()
            await expect(page.get_by_role("link", name=QUESTION)).to_be_visible()
            other = await page.context.new_page()
            await other.goto(f"{base}/")
            await other.get_by_role("button", name="Enter the API key").click()
            await expect(other.locator("#key-input")).to_be_visible()

    async def test_forgetting_the_key_removes_private_data(self, browser: Browser, tmp_path: Path) -> None:
        """Pinned threads, folders and a checked text are deleted with the key, even if they were never shown."""
        serving = serving_page(tmp_path, *OFFLINE, LLM_PLATFORM_API_KEYS=KEY)
        async with serving as base, visiting(browser, base) as visit:
            page = visit.page
            await page.evaluate(STORE, KEY)
            await page.reload()
            async with page.expect_event("load"):
                await page.click("#forget-key")
            await expect(page.locator("#forget-key")).to_be_hidden()
            assert await page.evaluate(STORED) == ["llm-platform.theme"]

    async def test_no_markup_of_a_page_is_kept(self, browser: Browser, base: str) -> None:
        """Hostile text, titles and quotes create no element, no link other than http, and no request."""
        hostile = [path.read_text(encoding="utf-8") for path in sorted(INJECTIONS.iterdir()) if path.suffix != ".json"]
        hostile += [
            "<img src=x onerror=alert(1)> <svg onload=alert(1)> ![x](https://evil.test/a.png) [x](javascript:alert(1)) [1]",
            "[a][1]\n\n[1]: https://evil.test/ref\n\n<https://evil.test> [x](data:text/html,hi) \ue0000\ue001 [1]",
            "<style>*{background:url(https://evil.test)}</style><form action=//evil.test><button>x</button></form>",
        ]
        async with visiting(browser, base) as visit:
            page = visit.page
            for text in hostile:
                source = {"index": 1, "title": text[:300], "url": "javascript:alert(1)"}
                raw = {"title": text[:300], "url": "javascript:alert(1)", "content": text}
                cited = [citation(text, text[:50], text, text[:200], "supported")]
                answer = response(text, query=text[:400], sources=[source], raw_results=[raw], citations=cited)
                await visit.play(answer, {"type": "sources", "sources": [source]}, {"type": "token", "text": text})
                await visit.ask()
                await visit.answered()
                if await page.locator(".cite").count():
                    await page.locator(".cite").first.click()
                    await expect(page.locator(".source-text")).not_to_be_empty()
                    others = page.locator(f".source-text :not({SOURCE_ELEMENTS})")
                    assert await others.count() == 0, await others.first.evaluate("each => each.outerHTML")
                    assert set(await page.evaluate(SOURCE_ATTRIBUTES)) <= set(MADE_ATTRIBUTES.split())
                    await page.keyboard.press("Escape")
                assert set(await page.evaluate(FOUND)) <= set(ELEMENTS.split())
                links = await page.evaluate(HREFS)
                assert all(re.match(r"(?i)https?://|#|docs$", link) for link in links if link), links
                assert (
                    await page.locator("main :is(img, iframe, script, style, object, embed, video, audio)").count() == 0
                )
                assert await page.evaluate(OPENER)
                assert visit.foreign == []
                assert [error for error in visit.errors if "Failed to load" not in error] == []
                await page.unroute_all()
                await visit.open()


class TestAccessibility:
    @pytest.mark.parametrize("scheme", ["light", "dark"])
    async def test_no_violation(self, browser: Browser, own_base: str, scheme: str) -> None:
        """axe finds nothing at three widths in the question, plan, answer, tabs, quote and threads, and nothing is cut
        off.
        """
        for width in WIDTHS:
            async with visiting(browser, own_base, width, scheme) as visit:
                page = visit.page
                found = {"question": await visit.violations()}
                await visit.ask(depth="report")
                await page.wait_for_selector(".plan-list")
                await page.click(".limits summary")
                found["plan"] = await visit.violations()
                await page.get_by_role("button", name="Start the report").click()
                await visit.answered()
                await page.click(".steps summary")
                found["answer"] = await visit.violations()
                for number in (1, 2):
                    await page.click(f"#tab-{number}")
                    found[f"tab {number}"] = await visit.violations()
                await page.click("#tab-0")
                await page.locator(".cite").first.click()
                found["quote"] = await visit.violations()
                await page.keyboard.press("Escape")
                await visit.open_threads()
                found["threads"] = await visit.violations()
                for name in ("Rename", "Delete"):
                    await page.get_by_role("button", name=f"{name} {QUESTION}").first.press("Enter")
                    found[name] = await visit.violations()
                    await page.keyboard.press("Escape")
                await page.click(".preferences summary")
                found["preferences"] = await visit.violations()
                assert {part: violations for part, violations in found.items() if violations} == {}
                assert await visit.overflow() <= 0

    async def test_all_verdicts_have_enough_contrast(self, browser: Browser, base: str) -> None:
        """Each verdict has enough contrast in both themes, as a marker, a badge, a dialog and a notice."""
        verdicts = ("supported", "partial", "unsupported", "unchecked")
        text = " ".join(f"Statement {verdict} [1]." for verdict in verdicts)
        answer = response(text, degraded=[{"component": "x", "reason": "y", "until": None}], metadata=WITHOUT_MODEL)
        content = answer["raw_results"][0]["content"]
        answer["citations"] = [
            citation(text, f"Statement {verdict}", content, "The owl", verdict) for verdict in verdicts
        ]
        for scheme in ("light", "dark"):
            async with visiting(browser, base, scheme=scheme) as visit:
                await visit.play(answer)
                await visit.ask()
                await visit.answered()
                for cite in await visit.page.locator(".cite").all():
                    await cite.click()
                    assert await visit.violations() == []
                    await visit.page.keyboard.press("Escape")

    async def test_keyboard_alone(self, browser: Browser, own_base: str) -> None:
        """From the question to a quote and back without a mouse."""
        async with visiting(browser, own_base) as visit:
            page = visit.page
            await expect(page.locator("#query")).to_be_focused()
            await page.keyboard.type(QUESTION)
            await page.keyboard.press("Enter")
            await visit.answered()
            for _ in range(20):
                await page.keyboard.press("Tab")
                if await page.evaluate("document.activeElement.matches('.cite')"):
                    break
            await page.keyboard.press("Enter")
            await expect(page.get_by_role("dialog").locator("mark")).to_be_visible()
            await expect(page.locator("#quote :focus")).to_have_count(1)
            await page.keyboard.press("Escape")
            await expect(page.locator(".cite:focus")).to_have_count(1)

    async def test_status_is_announced_once_for_each_step(self, browser: Browser, base: str) -> None:
        """The live region announces each step and the end once, and not every token."""
        answer = response("Owls sleep by day.")
        search = {"type": "searched", "query": "q", "provider": "x", "count": 0, "cached": False, "results": []}
        sources = {"type": "sources", "sources": answer["sources"]}
        tokens = [{"type": "token", "text": f"{word} "} for word in answer["synthesis"].split()]
        async with visiting(browser, base) as visit:
            await visit.play(answer, {"type": "started"}, search, search, sources, *tokens)
            await visit.page.evaluate(
                "window.said = []; new MutationObserver(() => said.push(document.querySelector('#status').textContent))"
                ".observe(document.querySelector('#status'), {childList: true})"
            )
            await visit.ask()
            await visit.answered()
            await expect(visit.page.locator("#status")).to_have_text("The answer is complete. Sources: 1.")
            said = await visit.page.evaluate("said")
        assert said[-1] == "The answer is complete. Sources: 1."
        assert len(set(said)) == len(said)


class TestLanguages:
    @pytest.mark.parametrize("width", [360, 768])
    async def test_the_head_of_the_page_is_one_line(self, browser: Browser, base: str, width: int) -> None:
        """The header has one line in every language, so answers begin at the same height."""
        async with visiting(browser, base, width) as visit:
            languages = await visit.page.eval_on_selector_all(
                "#language option", "options => options.map(({value}) => value)"
            )
            heights = {}
            for language in languages:
                await visit.page.select_option("#language", language)
                await expect(visit.page.locator("html")).to_have_attribute("lang", re.compile(language))
                heights[language] = await visit.page.evaluate("document.querySelector('.top').offsetHeight")
            assert len(heights) == 6
            assert (
                max(heights.values())
                < 2 * await visit.page.evaluate("document.querySelector('.brand').offsetHeight") + 32
            )

    async def test_a_new_question_is_a_button_on_a_phone(self, browser: Browser, base: str) -> None:
        """The button next to an answer is large enough for a finger, and the header has room for its words in every
        language.
        """
        async with visiting(browser, base, 360) as visit:
            page, new = visit.page, visit.page.locator("#to-new")
            await expect(new).to_be_hidden()  # it is what the page shows
            await visit.keep_none()
            await visit.ask()
            await visit.answered()
            cut = "[...document.querySelectorAll('.top nav > *')].filter(each => each.scrollWidth > each.clientWidth).length"
            for language in await page.eval_on_selector_all(
                "#language option", "options => options.map(({value}) => value)"
            ):
                await page.select_option("#language", language)
                await expect(page.locator("html")).to_have_attribute("lang", re.compile(language))
                box = await new.bounding_box()
                assert box is not None
                assert min(box["width"], box["height"]) >= 32
                assert (await page.evaluate(cut), await visit.overflow()) == (0, 0), language
            await new.click()
            await expect(page.locator("#query")).to_be_focused()

    @pytest.mark.parametrize(
        ("locale", "tag", "title"),
        [
            ("de-AT", "de", "Was möchten Sie wissen?"),
            ("ru-RU", "ru", "Что вы хотите узнать?"),
            ("zh-CN", "zh-Hans", "您想了解什么？"),
        ],
    )
    async def test_language_of_the_browser(
        self, browser: Browser, own_base: str, locale: str, tag: str, title: str
    ) -> None:
        """The page uses the browser's language and shows which.

        An answer keeps its own language, and the switch is remembered.
        """
        async with visiting(browser, own_base, 360, locale=locale) as visit:
            page = visit.page
            assert await page.get_attribute("html", "lang") == tag
            await expect(page.locator("#ask-title")).to_have_text(title)
            assert await visit.violations() == []
            await visit.ask()
            await visit.answered()
            assert await page.get_attribute(".answer", "lang") == "en"
            assert await visit.violations() == []
            assert await visit.overflow() <= 0
            await page.select_option("#language", "en")
            await page.reload()
            await expect(page.locator("html")).to_have_attribute("lang", "en")


class TestExports:
    async def test_files(self, browser: Browser, own_base: str) -> None:
        """Markdown, HTML and JSON contain the answer and its sources. The HTML file needs no script and loads nothing."""
        async with visiting(browser, own_base) as visit:
            page = visit.page
            await visit.ask()
            await visit.answered()
            files = {}
            for kind in ("Markdown", "HTML", "JSON"):
                await page.get_by_text("Export").click()
                async with page.expect_download() as download:
                    await page.get_by_role("button", name=kind, exact=True).click()
                saved = await download.value
                path = await saved.path()
                files[saved.suggested_filename.rpartition(".")[2]] = path.read_text(encoding="utf-8")
        assert all("asked only when the one before it failed" in text for text in files.values())
        assert json.loads(files["json"])["query"] == QUESTION
        assert "## Sources" in files["md"]
        assert "default-src 'none'" in files["html"]
        assert "<script" not in files["html"]

    async def test_print(self, browser: Browser, own_base: str) -> None:
        """The print has the answer, its sources and the sent data, and no controls."""
        async with visiting(browser, own_base) as visit:
            page = visit.page
            await visit.ask()
            await visit.answered()
            await page.emulate_media(media="print")
            for shown in (".answer", ".source-list", ".ledger"):
                await expect(page.locator(shown)).to_be_visible()
            for hidden in (".top", ".tabs", ".tools", ".steps"):
                await expect(page.locator(hidden)).to_be_hidden()
            assert await page.locator(".turn-bar").evaluate("each => getComputedStyle(each).position") == "static"
