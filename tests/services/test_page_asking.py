"""The question box of the page at / in a real Chromium: long texts, choices, files, examples, plans, keyboard and
touch.
"""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.async_api import Browser, Page, expect
from tests.services.browser import OFFLINE, QUESTION, Visit, becomes, open_panel, serving_page, started, visiting
from tests.services.page_answers import response

from modules.llm_platform.domain.dtos.web_search_dtos import MAX_QUERY_CHARS

pytestmark = [pytest.mark.services, pytest.mark.asyncio(loop_scope="session")]

KEY = "a-long-random-word"
ASKED = "When is a cited sentence unsupported?"
LONG = "We read answers of several engines and want to know how far they can be trusted. " * 9 + ASKED + " Many thanks!"
PLAN = {"query": QUESTION, "language": "en", "questions": ["What is a solar sail?"], "planner": "m", "degraded": []}
OPTIONS = {
    "depths": ["shallow", "deep", "report"],
    "sources": ["web", "news", "documents"],
    "default_sources": ["web"],
    "models": ["one/small", "two/large"],
    "max_query_chars": MAX_QUERY_CHARS,
    "max_context_chars": 32000,
    "max_instruction_chars": 2000,
    "max_domains": 300,
    "max_urls": 20,
    "max_files": 2,
    "max_file_bytes": 1000,
    "background": True,
    "document_titles": [],
    "favicons": False,
}
QUOLL = {"name": "a.md", "content": base64.b64encode(b"A quoll weighs 900 g.").decode()}
HOSTILE_NAME = '<img src="x" onerror="alert(1)">\u202efdp.md'
DROP = """(names) => {
  const transfer = new DataTransfer();
  for (const name of names) transfer.items.add(new File(["A quoll weighs 900 g."], name));
  for (const type of ["dragenter", "dragover", "drop"])
    document.querySelector("#form").dispatchEvent(new DragEvent(type, { dataTransfer: transfer, bubbles: true }));
}"""
KEPT_RUNS = """new Promise((resolve) => {
  const opening = indexedDB.open("llm-platform");
  opening.onsuccess = () => {
    const found = opening.result;
    const count = found.objectStoreNames.contains("files") && found.transaction("files").objectStore("files").count();
    if (count) count.onsuccess = () => { found.close(); resolve(count.result); };
    else { found.close(); indexedDB.deleteDatabase("llm-platform").onsuccess = () => resolve(0); }
  };
})"""
KEPT = "localStorage.getItem('llm-platform.form')"


async def offer(visit: Visit, **changes: Any) -> None:
    """Let the server offer other choices, and plan without a model."""
    await visit.page.route("**/research/options", lambda route: route.fulfill(json={**OPTIONS, **changes}))
    await visit.page.route("**/research/plan", lambda route: route.fulfill(json=PLAN))
    await visit.page.reload()
    await started(visit.page)


def chips(page: Page) -> Any:
    return page.locator("#form .chosen bdi")


async def sent(page: Page, path: str = "research") -> Any:
    """Return the request that Enter in the box sends."""
    async with page.expect_request(f"**/{path}") as request:
        await page.press("#query", "Enter")
    return (await request.value).post_data_json


class TestLongTexts:
    async def test_a_long_text_is_sent_whole(self, browser: Browser, own_base: str) -> None:
        """The server finds the question in the text, as for chat clients, and the text is its context.

        Both are shown, also after a reload.
        """
        async with visiting(browser, own_base) as visit:
            page = visit.page
            await page.fill("#query", LONG)
            await expect(page.locator("#form .counter")).to_have_text(re.compile(r"^\d{3} / 4,000$"))
            await expect(page.locator("#query-note")).to_contain_text("This is longer than a question")
            body = await sent(page)
            assert (body["message"], "query" in body) == (LONG, False)
            for _ in range(2):
                await visit.answered()
                await expect(page.locator("#result-title")).to_have_text(ASKED)
                await page.get_by_text("The whole text", exact=True).click()
                await expect(page.locator(".whole-text p")).to_have_text(LONG)
                await page.reload()
            async with httpx2.AsyncClient(base_url=own_base) as client:
                run = (await client.get(f"/research/{page.url.rpartition('/')[2]}")).json()
            assert (run["request"]["query"], run["request"]["context"]) == (ASKED, LONG)
            assert (visit.errors, visit.foreign) == ([], [])

    async def test_no_text_is_cut(self, browser: Browser, base: str) -> None:
        """The limit is 4,000 code points. A longer text is kept but not sent, and the box shows the excess.

        A short question shows no count.
        """
        async with visiting(browser, base) as visit:
            page = visit.page
            await page.fill("#query", "b" * (MAX_QUERY_CHARS * 4 // 5 - 1))
            await expect(page.locator("#form .counter")).to_have_text("")
            await page.fill("#query", "🦉" * MAX_QUERY_CHARS)
            await expect(page.locator("#form .counter")).to_have_text(f"{MAX_QUERY_CHARS} / {MAX_QUERY_CHARS}")
            await expect(page.locator("#query-note")).to_have_text("")
            await page.fill("#query", "🦉" * 4012)
            await expect(page.locator("#query-error")).to_have_text(re.compile("at most 4,000.*12 too long"))
            await page.press("#query", "Enter")
            assert await page.input_value("#query") == "🦉" * 4012
            await visit.play(response("Owls sleep."))
            await page.fill("#query", "🦉" * 4000)
            await expect(page.locator("#query-error")).to_be_hidden()
            assert (await sent(page))["message"] == "🦉" * 4000
            assert [request for request in visit.seen if request.startswith("POST")] == ["POST /research"]

    async def test_the_server_says_what_is_long(self, browser: Browser, base: str) -> None:
        """The page has no limit of its own. A text that the server considers too long for a question is a message."""
        async with visiting(browser, base) as visit:
            page = visit.page
            await offer(visit, max_query_chars=40)
            await page.fill("#query", "b" * 40)
            await expect(page.locator("#form .counter")).to_have_text("40 / 40")
            await page.fill("#query", "b" * 41)
            await expect(page.locator("#form .counter")).to_have_text("41 / 4,000")
            await visit.play(response("Owls sleep."))
            assert (await sent(page))["message"] == "b" * 41

    async def test_a_long_follow_up(self, browser: Browser, own_base: str) -> None:
        """It follows the answer, and uses the same box."""
        async with visiting(browser, own_base) as visit:
            page = visit.page
            await visit.ask()
            await visit.answered()
            await page.fill("#follow-up", LONG)
            async with page.expect_request("**/research") as request:
                await page.press("#follow-up", "Enter")
            body = (await request.value).post_data_json
            assert body["message"] == LONG
            assert body["previous_id"]
            await visit.answered(2)
            await expect(page.locator(".turn").nth(1).get_by_role("heading", level=2).first).to_have_text(ASKED)


class TestChoices:
    async def test_only_supported_choices_are_offered(self, browser: Browser, base: str) -> None:
        """A server with documents only offers and searches documents. Models can be chosen if there are several."""
        async with visiting(browser, base) as visit:
            page = visit.page
            await expect(page.locator("#form .options-button")).to_have_text(re.compile("Quick · Documents$"))
            await open_panel(page)
            await expect(page.locator("[name=sources]")).to_have_count(1)
            for name in ("Model", "Time", "Sites"):  # the search of documents has neither sites nor dates
                await expect(page.get_by_label(name, exact=True)).to_be_hidden()
            await offer(visit, depths=["shallow", "deep"])
            await open_panel(page)
            await expect(page.get_by_role("radio")).to_have_count(2)
            values = await page.locator("[name=sources]").evaluate_all(
                "boxes => boxes.map(box => [box.value, box.checked])"
            )
            assert values == [["web", True], ["news", False], ["documents", False]]
            await page.get_by_label("Model").select_option("two/large")
            await page.keyboard.press("Escape")
            await visit.play(response("Owls sleep."))
            await page.fill("#query", QUESTION)
            assert await sent(page) == {
                "query": QUESTION,
                "depth": "shallow",
                "sources": ["web"],
                "model": "two/large",
                "background": True,
            }

    async def test_all_choices_are_sent_and_can_be_removed(self, browser: Browser, base: str) -> None:
        """Each choice is a chip below the text and a field of the request. Removing one moves the focus to the next.

        The plan of a report uses them.
        """
        async with visiting(browser, base) as visit:
            page = visit.page
            await offer(visit)
            await visit.play(response("Owls sleep."))
            await open_panel(page)
            await page.check("[value=report]", force=True)
            await page.check("[value=news]", force=True)
            await page.get_by_label("Model").select_option("one/small")
            await page.get_by_label("Answer in").select_option("fr")
            await page.get_by_label("Time").select_option("month")
            await page.get_by_label("Sites").fill("https://Docs.Python.org/3/library, -www.example.com  пример.рф")
            await page.get_by_label("Addresses").fill("https://example.org/a?b=1\nhttp://example.org/c")
            await page.get_by_label("Instructions", exact=True).fill("In two sentences.")
            await page.keyboard.press("Escape")
            await expect(page.locator("#form .options-button")).to_have_text(re.compile("Report · Web, News$"))
            await expect(page.locator("#form [type=submit]")).to_have_text("Make a plan")
            idn = "xn--e1afmkfd.xn--p1ai"
            searched = ["Past month", "docs.python.org", "-example.com", idn, "Addresses: 2"]
            await expect(chips(page)).to_have_text(["one/small", "Français", *searched, "Instructions"])
            await page.get_by_role("button", name="Remove xn--").press("Enter")
            await expect(page.get_by_role("button", name="Remove Addresses: 2")).to_be_focused()
            await page.fill("#query", QUESTION)
            planned = await sent(page, "research/plan")
            assert planned == {
                "query": QUESTION,
                "language": "fr",
                "model": "one/small",
                "sources": ["web", "news"],
                "urls": ["https://example.org/a?b=1", "http://example.org/c"],
            }
            async with page.expect_request("**/research") as request:
                await page.get_by_role("button", name="Start the report").click()
            assert (await request.value).post_data_json == {
                "query": QUESTION,
                "depth": "report",
                "sources": ["web", "news"],
                "language": "fr",
                "model": "one/small",
                "time_range": "month",
                "domains": ["docs.python.org", "-example.com"],
                "instructions": "In two sentences.",
                "urls": ["https://example.org/a?b=1", "http://example.org/c"],
                "plan": PLAN["questions"],
                "background": True,
            }

    async def test_what_is_kept_for_the_next_question(self, browser: Browser, base: str) -> None:
        """Depth, sources, language and model are kept.

        Filters of one search and instructions are not, also not in the browser's storage. After a question is sent, the
        box is empty.
        """
        async with visiting(browser, base) as visit:
            page = visit.page
            await offer(visit)
            await visit.play(response("Owls sleep."))
            await open_panel(page)
            await page.check("[value=deep]", force=True)
            await page.get_by_label("Answer in").select_option("de")
            await page.get_by_label("Time").select_option("day")
            await page.get_by_label("Instructions", exact=True).fill("Short.")
            await page.keyboard.press("Escape")
            await page.fill("#query", QUESTION)
            await page.press("#query", "Enter")
            await visit.answered()
            await page.get_by_role("link", name="New question").click()
            for _ in range(2):
                await expect(chips(page)).to_have_text(["Deutsch"])
                await expect(page.locator("#query")).to_have_value("")
                await expect(page.locator("#form .options-button")).to_have_text(re.compile("Deep · Web$"))
                await page.reload()
            assert set(json.loads(await page.evaluate(KEPT))) == {"depth", "sources", "language", "model"}

    async def test_a_wrong_choice_is_reported_and_not_sent(self, browser: Browser, base: str) -> None:
        """An invalid site or address, too long instructions and missing sources are reported in the panel and when the
        question is sent.
        """
        async with visiting(browser, base) as visit:
            page = visit.page
            await offer(visit)
            await page.fill("#query", QUESTION)
            await open_panel(page)
            await page.check("[value=report]", force=True)
            panel = page.locator(".options-panel")
            wrong = [
                ("Sites", "py*thon", "“py*thon” is not a site"),
                ("Addresses", "ftp://a.b", "“ftp://a.b” is not an address"),
                ("Instructions", "b" * 2001, "at most 2,000 characters: these are 1 too long"),
            ]
            for label, text, said in wrong:
                await panel.get_by_label(label).fill(text)
                await expect(panel.get_by_role("alert")).to_contain_text(said)
                await page.keyboard.press("Escape")
                await page.press("#query", "Enter")
                await expect(page.locator("#query-error")).to_contain_text(said)
                assert await page.input_value("#query") == QUESTION
                await open_panel(page)
                await panel.get_by_label(label).fill("")
            await page.uncheck("[value=web]", force=True)
            await expect(panel.get_by_role("alert")).to_have_text("Choose at least one source.")
            await panel.get_by_label("Addresses").fill("https://example.org")
            await expect(panel.get_by_role("alert")).to_be_hidden()
            await panel.get_by_role("button", name="Reset").click()
            await expect(page.locator("#form .options-button")).to_have_text(re.compile("Quick · Web$"))
            assert [request for request in visit.seen if request.startswith("POST")] == []

    async def test_a_follow_up_chooses_for_itself(self, browser: Browser, base: str) -> None:
        """A follow-up begins with the choices of the last question.

        A report as a follow-up shows its plan below the answer.
        """
        async with visiting(browser, base) as visit:
            page = visit.page
            await offer(visit)
            await visit.play(response("Owls sleep."))
            await open_panel(page)
            await page.get_by_label("Model").select_option("two/large")
            await page.get_by_label("Time").select_option("day")
            await page.fill("#query", QUESTION)
            await page.press("#query", "Enter")
            await visit.answered()
            await expect(page.locator(".follow-up .chosen bdi")).to_have_text(["two/large"])
            await open_panel(page, ".follow-up")
            await page.check("[value=report]", force=True)
            await page.fill("#follow-up", "And at night?")
            async with page.expect_request("**/research/plan") as request:
                await page.press("#follow-up", "Enter")
            assert (await request.value).post_data_json == {
                "query": "And at night?",
                "model": "two/large",
                "previous_id": "r",
                "sources": ["web"],
            }
            await expect(page.locator(".follow-up .plan-list textarea")).to_have_value("What is a solar sail?")
            async with page.expect_request("**/research") as request:
                await page.get_by_role("button", name="Start the report").click()
            body = (await request.value).post_data_json
            assert (body["previous_id"], body["depth"], body["plan"]) == ("r", "report", PLAN["questions"])

    async def test_a_follow_up_that_fails_is_not_lost(self, browser: Browser, base: str) -> None:
        """The question is in the box again and can be changed and sent."""
        async with visiting(browser, base) as visit:
            page = visit.page
            await visit.play(response("Owls sleep."))
            await visit.ask()
            await visit.answered()
            problem = {"detail": "The service is busy.", "code": "overloaded"}
            await page.route("**/research", lambda route: route.fulfill(status=503, json=problem))
            await page.fill("#follow-up", "And at night?")
            await page.press("#follow-up", "Enter")
            await expect(page.get_by_role("button", name="Try again")).to_be_visible()
            await expect(page.locator("#follow-up")).to_have_value("And at night?")

    async def test_a_refused_choice_is_named_as_the_page_calls_it(self, browser: Browser, base: str) -> None:
        """If the server refuses a choice, the message uses the page's name of it, and the question is in its box again."""
        errors = [
            {"loc": ["body", "domains", 0], "msg": "x", "type": "x"},
            {"loc": ["body", "model"], "msg": "x", "type": "x"},
        ]
        problem = {"detail": "x", "code": "invalid_request", "errors": errors}
        async with visiting(browser, base) as visit:
            page = visit.page
            await page.route("**/research", lambda route: route.fulfill(status=422, json=problem))
            await page.fill("#query", QUESTION)
            await page.press("#query", "Enter")
            await expect(page.locator("#result").get_by_role("alert")).to_contain_text("Sites and Model")
            await page.get_by_role("link", name="New question").first.click()
            await expect(page.locator("#query")).to_have_value(QUESTION)

    async def test_a_reader_without_a_key_is_asked_for_it_once(self, browser: Browser, tmp_path: Path) -> None:
        """The box says that the server needs a key, keeps the question, and sends nothing."""
        serving = serving_page(tmp_path, *OFFLINE, LLM_PLATFORM_API_KEYS=KEY)
        async with serving as address, visiting(browser, address) as visit:
            page = visit.page
            await page.fill("#query", QUESTION)
            await page.press("#query", "Enter")
            await page.locator("#key").get_by_role("button", name="Cancel").click()
            await expect(page.locator("#query-error")).to_contain_text("needs an API key")
            await expect(page.locator("#query")).to_have_value(QUESTION)
            assert [request for request in visit.seen if request.startswith("POST")] == []

    async def test_a_server_with_keys_says_so_from_the_start(self, browser: Browser, tmp_path: Path) -> None:
        """The key field is above the box, which names no sources until they are known.

        A wrong key is refused there, and the right key loads sources and threads.
        """
        serving = serving_page(tmp_path, *OFFLINE, LLM_PLATFORM_API_KEYS=KEY)
        async with serving as address, visiting(browser, address) as visit:
            page, field, chosen = visit.page, visit.page.locator("#page-key"), visit.page.locator("#form .options-text")
            await expect(field).to_be_visible()
            await expect(chosen).to_have_text("Quick")
            await expect(page.locator("#intro")).to_have_text("Each sentence is checked against its source.")
            assert await visit.violations() == []
            await field.fill("wrong")
            await field.press("Enter")
            await expect(page.locator(".key-form").get_by_role("alert")).to_have_text(
                "The server did not accept that key."
            )
            await field.fill(KEY)
            await field.press("Enter")
            await expect(field).to_have_count(0)
            await expect(chosen).to_have_text("Quick · Documents")
            await expect(page.locator(".threads")).to_contain_text("There are no threads yet.")
            await page.reload()
            await expect(chosen).to_have_text("Quick · Documents")
            await expect(field).to_have_count(0)

    async def test_a_key_is_asked_for_before_anything_is_chosen(self, browser: Browser, tmp_path: Path) -> None:
        """The sources of a server with keys are known only with a key. The first question then searches them."""
        serving = serving_page(tmp_path, *OFFLINE, LLM_PLATFORM_API_KEYS=KEY)
        async with serving as address, visiting(browser, address) as visit:
            page = visit.page
            await page.click("#form .options-button")
            await page.locator("#key-input").fill(KEY)
            await page.locator("#key").get_by_role("button", name="Continue").click()
            await expect(page.locator("[name=sources]")).to_have_count(1)
            await page.keyboard.press("Escape")
            await page.fill("#query", QUESTION)
            assert (await sent(page))["sources"] == ["documents"]


class TestFiles:
    async def test_files_are_sent_with_one_question_only(self, browser: Browser, base: str) -> None:
        """Chosen or dropped files are shown with their sizes and can be removed.

        They are sent in the foreground, and only the answer is stored.
        """
        async with visiting(browser, base) as visit:
            page = visit.page
            await page.set_input_files("#form [type=file]", {"name": "b.md", "mimeType": "", "buffer": b"x" * 2000})
            await page.evaluate(DROP, ["a.md", "c.md"])
            await expect(page.locator("#form .chosen li")).to_have_text(["b.md2 kB", "a.md21 bytes", "c.md21 bytes"])
            await expect(page.locator("#query-note")).to_contain_text("not stored")
            await page.get_by_role("button", name="Remove b.md").click()
            await page.get_by_role("button", name="Remove c.md").click()
            await expect(chips(page)).to_have_text(["a.md"])
            await visit.play(response("Owls sleep."))
            await page.fill("#query", "How much does a quoll weigh?")
            body = await sent(page)
            assert body == {
                "query": "How much does a quoll weigh?",
                "depth": "shallow",
                "files": [QUOLL],
                "stream": True,
                "store": True,
            }
            assert QUOLL["content"] not in await page.evaluate("JSON.stringify(localStorage)")

    async def test_an_answer_from_a_file(self, browser: Browser, own_base: str) -> None:
        """The answer cites the file and has an address.

        A follow-up question reads the file again, and a question elsewhere does not.
        """
        async with visiting(browser, own_base) as visit:
            page = visit.page
            await page.evaluate(DROP, ["a.md"])
            await expect(page.locator("#form .options-button")).to_have_text(re.compile("Quick · Files$"))
            await page.fill("#query", "How much does a quoll weigh?")
            await page.press("#query", "Enter")
            await visit.answered()
            await expect(page.locator(".answer")).to_contain_text("A quoll weighs 900 g")
            await page.locator(".cite").first.click()
            await expect(page.locator("#quote mark")).to_have_text("A quoll weighs 900 g.")
            await page.keyboard.press("Escape")
            await page.wait_for_url("**/#research/*")
            await expect(page.get_by_role("button", name="Copy the link")).to_be_visible()
            await expect(page.locator(".follow-up .chosen bdi")).to_have_text(["a.md"])
            await page.fill("#follow-up", "And what does it weigh?")
            async with page.expect_request("**/research") as request:
                await page.press("#follow-up", "Enter")
            assert (await request.value).post_data_json["files"] == [QUOLL]
            await visit.answered(2)
            await expect(page.get_by_role("button", name="Ask deeper")).to_have_count(2)
            await page.reload()
            await visit.answered(2)
            await expect(page.get_by_role("button", name="Ask deeper")).to_have_count(
                0
            )  # it would be sent without the file
            await expect(page.locator(".notes").first).to_contain_text("not stored: a.md")
            await expect(page.locator(".answer").first).to_contain_text("A quoll weighs 900 g")
            await page.get_by_role("link", name="New question").click()
            await expect(chips(page)).to_have_count(0)
            assert (visit.errors, visit.foreign) == ([], [])

    async def test_files_are_kept_in_the_browser_on_request(self, browser: Browser, own_base: str) -> None:
        """After a reload a follow-up question reads the files again.

        They are deleted with their thread, or when the option is switched off.
        """
        async with visiting(browser, own_base) as visit:
            page = visit.page
            keep = page.locator("#form").get_by_label("Keep the files of my questions")
            await expect(keep).to_be_hidden()
            await page.evaluate(DROP, ["a.md"])
            await keep.check()
            await expect(page.locator("#query-note")).to_contain_text("kept in this browser alone")
            await page.fill("#query", "How much does a quoll weigh?")
            await page.press("#query", "Enter")
            await visit.answered()
            await becomes(page, KEPT_RUNS, 1)
            await page.reload()
            await visit.answered()
            await expect(page.locator(".follow-up .chosen bdi")).to_have_text(["a.md"])
            await expect(page.get_by_role("button", name="Ask deeper")).to_have_count(1)
            await page.fill("#follow-up", "And what does it weigh?")
            async with page.expect_request("**/research") as request:
                await page.press("#follow-up", "Enter")
            assert (await request.value).post_data_json["files"] == [QUOLL]
            await visit.answered(2)
            await becomes(page, KEPT_RUNS, 2)
            await page.get_by_role("button", name="Delete How much").press("Enter")
            await page.get_by_role("button", name="Delete", exact=True).click()
            await becomes(page, KEPT_RUNS, 0)
            await page.evaluate(DROP, ["a.md"])
            await page.fill("#query", "How much does a quoll weigh?")
            await page.press("#query", "Enter")
            await visit.answered()
            await becomes(page, KEPT_RUNS, 1)
            await page.get_by_text("Settings", exact=True).click()
            await page.locator(".preferences").get_by_label("Keep the files of my questions").uncheck()
            await becomes(page, KEPT_RUNS, 0)
            assert (visit.errors, visit.foreign) == ([], [])

    async def test_a_file_that_is_refused(self, browser: Browser, base: str) -> None:
        """A file without text is refused. The first sentence names it, and the box keeps the question and the files."""
        async with visiting(browser, base) as visit:
            page = visit.page
            await page.evaluate(DROP, ["b.md", "a.pdf"])
            await page.fill("#query", "How much does a quoll weigh?")
            await page.press("#query", "Enter")
            said = page.locator("#result").get_by_role("alert").locator("div > span").first
            await expect(said).to_have_text("“a.pdf” cannot be read: “Details” says why.")
            await page.get_by_role("link", name="New question").first.click()
            await expect(page.locator("#query")).to_have_value("How much does a quoll weigh?")
            await expect(chips(page)).to_have_text(["b.md", "a.pdf"])

    async def test_other_sources_in_addition_to_files(self, browser: Browser, base: str) -> None:
        """Only the files are searched unless the reader adds sources. Without files the usual sources are back."""
        async with visiting(browser, base) as visit:
            page, opener = visit.page, visit.page.locator("#form .options-button")
            await offer(visit)
            await page.evaluate(DROP, ["a.md"])
            await open_panel(page)
            assert await page.locator("[name=sources]:checked").count() == 0
            await page.check("[value=news]", force=True)
            await page.keyboard.press("Escape")
            await expect(opener).to_have_text(re.compile("Quick · Files, News$"))
            await visit.play(response("Owls sleep."))
            await page.fill("#query", QUESTION)
            await page.get_by_role("button", name="Remove a.md").click()
            await expect(opener).to_have_text(re.compile("Quick · Web$"))
            await page.evaluate(DROP, ["a.md"])
            assert (await sent(page))["sources"] == ["news"]

    async def test_a_reader_who_keeps_no_threads_stores_no_answer(self, browser: Browser, base: str) -> None:
        """The answer to a question with a file is not stored either, and can be followed up with what the page knows of
        it.
        """
        async with visiting(browser, base) as visit:
            await visit.keep_none()
            await visit.page.evaluate(DROP, ["a.md"])
            await visit.page.fill("#query", "How much does a quoll weigh?")
            assert "store" not in await sent(visit.page)
            await visit.answered()
            await visit.page.fill("#follow-up", "And what does it weigh?")
            async with visit.page.expect_request("**/research") as request:
                await visit.page.press("#follow-up", "Enter")
            body = (await request.value).post_data_json
            assert ("store" in body, "previous_id" in body) == (False, False)
            assert body["history"][0]["question"] == "How much does a quoll weigh?"
            await visit.answered(2)

    async def test_limits_and_names(self, browser: Browser, base: str) -> None:
        """Files that are too large, empty or too many are named and left out.

        A name is shown as text with its true suffix.
        """
        async with visiting(browser, base) as visit:
            page, field = visit.page, "#form [type=file]"
            await offer(visit)
            too_large = "“large.pdf” is too large: all files together have at most 1 kB."
            refused = (("large.pdf", b"x" * 1001, too_large), ("none.md", b"", "“none.md” is empty."))
            unread = (
                "owl.exe",
                b"x",
                re.compile(r"^“owl\.exe” is not a supported file type\. Supported: \.md, .*\.ipynb\.$"),
            )
            for name, content, said in (*refused, unread):
                await page.set_input_files(field, {"name": name, "mimeType": "", "buffer": content})
                await expect(page.locator("#query-error")).to_have_text(said)
            await expect(chips(page)).to_have_count(0)
            await page.evaluate(DROP, [HOSTILE_NAME, "b" * 300 + ".md", "third.md"])
            await expect(page.locator("#query-error")).to_have_text("At most 2 files.")
            names = await chips(page).all_inner_texts()
            assert names[0] == HOSTILE_NAME.replace("\u202e", "")
            assert re.fullmatch(r"b{90}\.md", names[1])
            assert await page.locator("main img").count() == 0
            assert await visit.overflow() <= 0
            assert (visit.errors, visit.foreign) == ([], [])
            assert await visit.violations() == []


class TestFirstScreen:
    @pytest.mark.parametrize(
        ("locale", "sources", "said"),
        [
            (
                "en-US",
                ["documents"],
                "Answers from the documents of this server. Each sentence is checked against its source.",
            ),
            (
                "de-DE",
                ["web", "news"],
                "Antworten aus dem Web und Nachrichten. Jeder Satz wird mit seiner Quelle verglichen.",
            ),
        ],
    )
    async def test_one_line_describes_the_page(
        self, browser: Browser, base: str, locale: str, sources: list[str], said: str
    ) -> None:
        """One line below the heading says what the server reads, in the language of the page."""
        async with visiting(browser, base, locale=locale) as visit:
            await offer(visit, sources=sources, document_titles=[])
            await expect(visit.page.locator("#intro")).to_have_text(said)

    async def test_examples_of_the_documents(self, browser: Browser, base: str) -> None:
        """The examples ask about titles of the operator's documents, and search them at once.

        A hostile title is shown as text.
        """
        title = "<b>Solar</b> sails"
        async with visiting(browser, base) as visit:
            page = visit.page
            await visit.play(response("Owls sleep."))
            await offer(visit, document_titles=[title])
            async with page.expect_request("**/research") as request:
                await page.get_by_role("button", name=f"What does “{title}” say?").click()
            body = (await request.value).post_data_json
            assert (body["query"], body["sources"]) == (f"What does “{title}” say?", ["documents"])

    async def test_the_documents_are_listed(self, browser: Browser, base: str) -> None:
        """The list has the number of documents, their names, and unreadable ones.

        Hostile names are text, and a click asks about a document.
        """
        listed = {
            "total": 3, "unread": "1 file of a type that is not read: 1 .odt", "reading": None, "keywords_only": False,
            "documents": [{"title": "<b>Owls</b>", "url": "doc:owls.md"}, {"title": "Bats", "url": "doc:bats.md"}],
            "not_read": 2, "partly_read": 0,
            "problems": [{"path": "<i>x</i>.pdf", "reason": "it is encrypted", "is_partly_read": False}],
        }  # fmt: skip
        async with visiting(browser, base) as visit:
            page = visit.page
            await page.route("**/research/documents", lambda route: route.fulfill(json=listed))
            await visit.play(response("Owls sleep."))
            await offer(visit, document_titles=["Bats"])
            section = page.locator(".suggestions .documents")
            await expect(section.locator("summary")).to_have_text("Documents of this server: 3 · not read: 2")
            await section.locator("summary").click()
            await expect(section.locator("li")).to_have_text(
                [
                    "<b>Owls</b>owls.md",
                    "Batsbats.md",
                    "and 1 more",
                    "<i>x</i>.pdf: it is encrypted",
                    "and 1 more",
                    "1 file of a type that is not read: 1 .odt",
                ]
            )
            async with page.expect_request("**/research") as request:
                await section.get_by_role("button", name="<b>Owls</b>").click()
            body = (await request.value).post_data_json
            assert (body["query"], body["sources"]) == ("What does “<b>Owls</b>” say?", ["documents"])

    async def test_examples_of_the_web(self, browser: Browser, base: str) -> None:
        """Without documents, general examples in the language of the page search the web.

        A server without the web offers none.
        """
        async with visiting(browser, base, locale="de-DE") as visit:
            page = visit.page
            await visit.play(response("Owls sleep."))
            await offer(visit, sources=["web"])
            example = page.locator(".examples button").first
            await expect(example).to_have_text("Wie arbeiten Wärmepumpen in einem kalten Winter?")
            async with page.expect_request("**/research") as request:
                await example.click()
            assert (await request.value).post_data_json["sources"] == ["web"]
            await page.goto(f"{base}/#")
            await offer(visit, sources=["documents"])
            await expect(page.locator(".examples")).to_have_count(0)

    async def test_recent_questions(self, browser: Browser, own_base: str) -> None:
        """The newest threads are shown if the list of threads is hidden. A reader who keeps no threads sees none."""
        async with visiting(browser, own_base, 768) as visit:
            page = visit.page
            await visit.ask()
            await visit.answered()
            await page.get_by_role("link", name="New question").click()
            recent = page.locator(".recent").get_by_role("link", name=QUESTION).first
            await expect(recent).to_be_visible()
            await page.set_viewport_size({"width": 1280, "height": 800})
            await expect(recent).to_be_hidden()
            await page.set_viewport_size({"width": 768, "height": 800})
            await recent.click()
            await visit.answered()
            await visit.keep_none()
            await page.goto(f"{own_base}/")
            await started(page)
            await expect(page.locator(".recent")).to_have_count(0)

    async def test_an_address_with_a_question_is_sent_only_on_request(self, browser: Browser, own_base: str) -> None:
        """The address fills the box and sends nothing.

        If the browser allows it, it is sent once, and not again after a reload.
        """
        async with visiting(browser, own_base) as visit:
            page = visit.page
            await page.goto(f"{own_base}/?q=When+is+a+statement+partial%3F")
            await expect(page.locator("#query")).to_have_value("When is a statement partial?")
            await started(page)
            assert [request for request in visit.seen if request.startswith("POST")] == []
            await page.click(".preferences summary")
            await page.get_by_label("Ask immediately when a link contains a question").check()
            await page.goto(f"{own_base}/?q=When+is+a+statement+partial%3F")
            await visit.answered()
            await page.reload()
            await visit.answered()
            assert [request for request in visit.seen if request.startswith("POST")] == ["POST /research"]


class TestKeys:
    async def test_keyboard_alone(self, browser: Browser, base: str) -> None:
        """The panel can be opened, used and closed without a mouse.

        Closing it with Escape or leaving it returns the focus. Shift and Enter make a new line, and Enter sends.
        """
        async with visiting(browser, base) as visit:
            page = visit.page
            await visit.play(response("Owls sleep."))
            await offer(visit)
            opener, panel = page.locator("#form .options-button"), page.locator(".options-panel")
            await expect(page.locator("#query")).to_be_focused()
            await page.keyboard.type("When is a statement")
            await page.keyboard.press("Shift+Enter")
            await page.keyboard.type("partial?")
            await expect(page.locator("#query")).to_have_value("When is a statement\npartial?")
            await page.keyboard.press("Tab")
            await expect(opener).to_be_focused()
            await page.keyboard.press("Enter")
            await expect(page.get_by_role("radio", name="Quick")).to_be_focused()
            assert await opener.get_attribute("aria-expanded") == "true"
            await page.keyboard.press("ArrowRight")
            await page.keyboard.press("Tab")
            await page.keyboard.press("Space")  # no web
            await page.keyboard.press("Tab")
            await page.keyboard.press("Space")  # but the news
            await page.keyboard.press("Escape")
            await expect(opener).to_be_focused()
            await expect(opener).to_have_text(re.compile("Deep · News$"))
            await page.keyboard.press("Enter")
            await expect(panel).to_be_visible()
            await page.keyboard.press("Shift+Tab")
            await page.keyboard.press("Shift+Tab")
            await expect(panel).to_be_hidden()
            body = await sent(page)
            assert (body["query"], body["depth"], body["sources"]) == (
                "When is a statement\npartial?",
                "deep",
                ["news"],
            )

    async def test_on_a_phone_the_button_sends(self, browser: Browser, base: str) -> None:
        """Enter on a touch keyboard is a new line.

        The panel is a sheet at the lower edge, and all of it can be reached.
        """
        async with visiting(browser, base, 390, has_touch=True, is_mobile=True) as visit:
            page = visit.page
            await visit.play(response("Owls sleep."))
            await page.fill("#query", "When is a statement")
            await page.press("#query", "Enter")
            await page.keyboard.type("partial?")
            await page.tap("#form .options-button")
            panel = page.locator(".options-panel:popover-open")
            await expect(panel).to_be_visible()
            box = await panel.bounding_box()
            assert box
            assert (box["x"], round(box["width"]), round(box["y"] + box["height"])) == (0, 390, 800)
            await page.get_by_role("button", name="Done").tap()
            async with page.expect_request("**/research") as request:
                await page.tap("#form [type=submit]")
            assert (await request.value).post_data_json["query"] == "When is a statement\npartial?"
            assert [request for request in visit.seen if request.startswith("POST")] == ["POST /research"]


class TestAccessibility:
    @pytest.mark.parametrize("scheme", ["light", "dark"])
    async def test_no_violation_in_any_state(self, browser: Browser, base: str, scheme: str) -> None:
        """axe finds nothing, and nothing is cut off at three widths, for an empty box, chips and files, a long text,
        the panel and its errors, a plan, and a follow-up.
        """
        for width in (390, 820, 1440):
            async with visiting(browser, base, width, scheme) as visit:
                page, found = visit.page, {}
                await offer(visit, max_file_bytes=10_000)
                await visit.play(response("Owls sleep."))
                found["empty"] = await visit.violations()
                await open_panel(page)
                await page.check("[value=report]", force=True)
                await page.get_by_label("Answer in").select_option("de")
                await page.get_by_label("Sites").fill("python")
                found["panel"] = await visit.violations()
                assert await visit.overflow() <= 0
                await page.get_by_label("Sites").fill("python.org -example.com")
                await page.keyboard.press("Escape")
                await page.evaluate(DROP, ["A report of last year.pdf", "b" * 90 + ".md"])
                await page.fill("#query", "b " * 2100)
                found["too long"] = await visit.violations()
                assert await visit.overflow() <= 0
                await page.fill("#query", LONG)
                await page.press("#query", "Enter")
                await page.wait_for_selector(".plan-list")
                found["plan"] = await visit.violations()
                await page.fill("#query", QUESTION)
                await open_panel(page)
                await page.check("[value=shallow]", force=True)
                await page.keyboard.press("Escape")
                for chip in ("A report of last year.pdf", "b" * 90 + ".md"):
                    await page.get_by_role("button", name=f"Remove {chip}").click()
                await page.press("#query", "Enter")
                await visit.answered()
                await open_panel(page, ".follow-up")
                found["follow-up"] = await visit.violations()
                assert {state: violations for state, violations in found.items() if violations} == {}
                assert await visit.overflow() <= 0


class TestEditing:
    async def test_an_edited_question_replaces_the_last_answer(self, browser: Browser, own_base: str) -> None:
        """With the keyboard alone, the box gets the words and choices of the question, Escape cancels, and Enter
        replaces the answer in its thread, also after a reload.
        """
        async with visiting(browser, own_base) as visit:
            page = visit.page
            await visit.ask(depth="deep")
            await visit.answered()
            first = page.url.rpartition("/")[2]
            edit = page.get_by_role("button", name="Edit the question")
            await edit.press("Enter")
            box = page.locator("#edit-0")
            await expect(box).to_be_focused()
            await expect(box).to_have_value(QUESTION)
            await expect(page.locator(".edit-question .options-button")).to_contain_text("Deep · Documents")
            await expect(page.locator(".edit-question")).to_contain_text("takes the place of this one")
            assert await visit.violations() == []
            await box.press("Escape")
            await expect(edit).to_be_focused()
            await expect(page.locator("#result-title")).to_have_text(QUESTION)
            await edit.press("Enter")
            await box.fill("What is a cited sentence?")
            async with page.expect_request("**/research") as request:
                await box.press("Enter")
            body = (await request.value).post_data_json
            assert (body["query"], body["depth"], body["thread_id"]) == ("What is a cited sentence?", "deep", first)
            for _ in range(2):
                await visit.answered()
                await expect(page.locator(".turn-title")).to_have_text(["What is a cited sentence?"])
                await page.reload()
            assert (visit.errors, visit.foreign) == ([], [])

    async def test_an_earlier_question_is_edited_at_the_end(self, browser: Browser, base: str) -> None:
        """Its answer stays, because later answers follow it. The new question has the same predecessor and choices."""
        asked = {
            "query": "And by day?", "depth": "shallow", "previous_id": "before", "time_range": "day", "domains": ["a.org"],
            "sources": ["web"], "instructions": "Shorter.", "language": "de", "plan": None,
        }  # fmt: skip
        runs = [{"id": run, "query": "And by day?", "depth": "shallow"} for run in ("abc", "def")]
        async with visiting(browser, base) as visit:
            page = visit.page
            await offer(visit)
            await visit.play(response("Owls hunt at night.", metadata={"request_id": "r"}))
            thread = {"id": "abc", "title": "q", "researches": runs}
            await page.route("**/research/threads/abc", lambda route: route.fulfill(json=thread))
            stored = {
                "status": "done",
                "request": asked,
                "response": response("Owls sleep.", metadata={"request_id": "abc"}),
            }
            await page.route(
                re.compile("/research/(abc|def)$"), lambda route: route.fulfill(json={"id": "abc", **stored})
            )
            await page.goto(f"{base}/#research/abc")
            await expect(page.locator(".turn .actions")).to_have_count(2)
            await page.get_by_role("button", name="Edit the question").first.click()
            await expect(page.locator(".edit-question")).to_contain_text("at the end of this thread")
            await page.fill("#edit-0", "And at noon?")
            async with page.expect_request("**/research") as request:
                await page.press("#edit-0", "Enter")
            body = (await request.value).post_data_json
            await visit.answered(3)
            await expect(page.locator(".edit-question")).to_have_count(0)
        kept = {name: value for name, value in asked.items() if value is not None}
        assert body == {**kept, "query": "And at noon?", "background": True, "thread_id": "abc"}


class TestAskingAgain:
    async def test_at_another_depth_or_by_another_model(self, browser: Browser, base: str) -> None:
        """The menu of an answer offers other depths and models of the server, and the new answer is below.

        A report begins with its plan. The quiet row names the writer of an answer.
        """
        made = response("Owls sleep.", metadata={"synthesizer": "one/small"})
        async with visiting(browser, base) as visit:
            page = visit.page
            await offer(visit)
            await visit.play(made)
            await page.fill("#query", QUESTION)
            await page.press("#query", "Enter")
            await visit.answered()
            await expect(page.locator(".writer")).to_have_text("written by one/small")
            menu = page.locator(".turn").first.locator(".actions .menu").last
            for number, (name, changed) in enumerate(
                (("Deep", {"depth": "deep"}), ("with two/large", {"model": "two/large"}))
            ):
                await menu.locator("summary").press("Enter")
                await expect(menu.get_by_role("button")).to_have_text(["Deep", "Report", "with two/large"])
                async with page.expect_request("**/research") as request:
                    await menu.get_by_role("button", name=name).press("Enter")
                body = (await request.value).post_data_json
                assert body.items() >= {"query": QUESTION, "thread_id": "r", **changed}.items()
                await visit.answered(number + 2)
            await menu.locator("summary").press("Enter")
            await menu.get_by_role("button", name="Report").press("Enter")
            await expect(page.locator(".edit-question .plan-list textarea")).to_have_value("What is a solar sail?")
            await expect(page.locator(".edit-question")).to_contain_text("at the end of this thread")
            assert visit.errors == []

    async def test_quotes_are_labelled_as_written_without_a_model(self, browser: Browser, base: str) -> None:
        async with visiting(browser, base) as visit:
            await visit.play(response("Owls sleep.", metadata={"synthesizer": "extractive"}))
            await visit.ask()
            await visit.answered()
            await expect(visit.page.locator(".writer")).to_have_text("made of quotes, without a language model")
