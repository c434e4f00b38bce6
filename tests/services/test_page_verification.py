"""The part of the page at / that verifies a text of another author, in a real Chromium."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Route, expect
from tests.services.browser import OFFLINE, WIDTHS, Visit, becomes, serving_page, visiting

pytestmark = [pytest.mark.services, pytest.mark.asyncio(loop_scope="session")]

PAGES = {
    "/bridge": "<title>The bridge</title>"
    "<p>The bridge was opened in 1973. Its main span is 1074 metres long. It has six lanes.</p>",
    "/pumps": "<title>Heat pumps</title><p>The back-up heater supplied 4 percent of the delivered heat in the study.</p>",
}
HOSTILE = (
    '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script> '
    "<b>Bold</b> words are [a link](javascript:window.hacked=1) and ![an image](https://evil.test/x.png)."
)
NOTICE = ".turn-row .notice"
CELLS = "[...document.querySelectorAll('.strip-band .cell')].map(cell => cell.dataset.verdict)"
MARKERS = "[...document.querySelectorAll('.answer .cite')].map(cite => [cite.dataset.number, cite.classList[1]])"
# In the browser: the next stream of a verification gets the events of `send(event)`.
STREAM = """(fetched => {
    let stream;
    const body = new ReadableStream({start: controller => { stream = controller; }});
    window.send = event => stream.enqueue(new TextEncoder().encode(`data: ${JSON.stringify(event)}\\n\\n`));
    window.fetch = (url, options) => {
        if (String(url) !== 'verify') return fetched(url, options);
        options.signal.addEventListener('abort', () => { window.isCancelled = true; });
        return Promise.resolve(new Response(body, {headers: {'Content-Type': 'text/event-stream'}}));
    };
})(window.fetch)
"""


class Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        found = PAGES.get(self.path)
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write((found or "gone").encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def pages() -> Iterator[str]:
    """Yield the address of a site on this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def reading(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """Yield the address of a server that may read pages of this machine."""
    folder: Path = tmp_path_factory.mktemp("verification")
    async with serving_page(folder, *OFFLINE[:2], READER_ALLOWED_HOSTS="127.0.0.1") as base:
        yield base


def text(pages: str) -> str:
    return f"""The bridge was opened in 1973 [1]. Its main span is 1380 metres long [1].
It has six lanes ([the site]({pages}/bridge)). Everybody likes walking there on Sundays.

- In the study the back-up heater supplied **9 percent** of the delivered heat [2].
- Noise stays below 35 dB [3].

{HOSTILE}

References
[1] The bridge. {pages}/bridge
[2] Heat pumps. {pages}/pumps
[3] Noise. {pages}/gone
"""


async def check(visit: Visit, pasted: str) -> None:
    await visit.page.click("#to-check")
    await visit.page.fill("#check-text", pasted)
    await visit.page.click(".check-form [type=submit]")


async def checked(visit: Visit) -> None:
    await visit.page.wait_for_selector(".actions .copy")


def verified(**fields: Any) -> dict[str, Any]:
    """Return a verified text without sentences in the server's format."""
    counts = {"sentences": 0, "supported": 0, "uncited": 0, "sources": 0, "read": 0}
    metadata = {
        "latency_ms": 5,
        "language": "en",
        "request_id": "r",
        "tokens_used": 0,
        "cost_usd": 0,
        "llm_calls": 0,
        "searches": 0,
        "sent_to": [],
        "cached_sent_to": [],
    }
    return {"sentences": [], "sources": [], "counts": counts, "degraded": [], "metadata": metadata, **fields}


async def answer_with(visit: Visit, *events: dict[str, Any]) -> None:
    body = "".join(f"data: {json.dumps({'request_id': 'r', **event})}\n\n" for event in events)

    async def take(route: Route) -> None:
        await route.fulfill(content_type="text/event-stream", body=body)

    await visit.page.route("**/verify", take)


class TestReading:
    async def test_verdicts_of_a_pasted_text(self, browser: Browser, reading: str, pages: str) -> None:
        """The text has a strip, markers, receipts and states of sources, like an answer.

        A link gets a marker after its sentence.
        """
        async with visiting(browser, reading) as visit:
            page = visit.page
            await check(visit, text(pages))
            await checked(visit)
            cells = ["supported", "unsupported", "supported", "uncited", "unsupported", "unchecked", "uncited"]
            await becomes(page, CELLS, cells)
            markers = [
                ["1", "supported"],
                ["1", "unsupported"],
                ["1", "supported"],
                ["2", "unsupported"],
                ["3", "unchecked"],
            ]
            await becomes(page, MARKERS, markers)
            await expect(page.locator(".receipt").first.locator("del")).to_have_text("1380")
            await expect(page.locator(".receipt").first.locator("ins")).to_have_text("1074")
            await expect(page.locator(".kicker")).to_have_text("2 of 3 sources read")
            await page.click("#check-tab-1")
            await expect(page.locator(".source-list > li").nth(2)).to_contain_text("There is no such page.")
            assert await visit.violations() == []
            assert visit.foreign == []

    async def test_a_checked_text_survives_a_reload(self, browser: Browser, reading: str, pages: str) -> None:
        """Its verdicts are kept without a second check. An unchecked text is kept, too. *Delete* removes it."""
        async with visiting(browser, reading) as visit:
            page = visit.page
            await check(visit, text(pages))
            await checked(visit)
            cells = await page.evaluate(CELLS)
            asked: list[str] = []
            page.on(
                "request", lambda request: asked.append(request.method) if request.url.endswith("/verify") else None
            )
            await page.reload()
            await checked(visit)
            await becomes(page, CELLS, cells)
            await expect(page.locator(".receipt").first.locator("ins")).to_have_text("1074")
            assert asked == []
            await page.get_by_role("button", name="Change the text").click()
            await page.fill("#check-text", "Another text [1].")
            await page.reload()
            await expect(page.locator("#check-text")).to_have_value("Another text [1].")
            await page.click(".check-form [type=submit]")
            await checked(visit)
            await page.locator(".tools").get_by_role("button", name="Delete").click()
            await expect(page.locator("#check-text")).to_have_value("")
            await page.reload()
            await expect(page.locator("#check-text")).to_have_value("")
            assert await page.evaluate("sessionStorage.length") == 0
            assert visit.errors == []

    async def test_markup_is_shown_as_text(self, browser: Browser, reading: str, pages: str) -> None:
        """Markup in the text is shown as text, without elements, scripts, images or executable addresses."""
        async with visiting(browser, reading) as visit:
            await check(visit, text(pages))
            await checked(visit)
            found = "document.querySelectorAll('.answer :is(img, script, b, iframe, style)').length"
            assert await visit.page.evaluate(found) == 0
            links = "[...document.querySelectorAll('.answer a')].map(link => link.href).filter(url => !url.startsWith('http'))"
            assert await visit.page.evaluate(links) == []
            assert await visit.page.evaluate("window.hacked") is None
            await expect(visit.page.locator(".answer")).to_contain_text("<script>window.hacked=1</script>")
            assert visit.foreign == visit.errors == []

    async def test_lines_and_lists_of_sources_are_kept(self, browser: Browser, reading: str, pages: str) -> None:
        """Line breaks are kept, and the number of a list entry is not a marker with a verdict."""
        async with visiting(browser, reading) as visit:
            await check(visit, text(pages))
            await checked(visit)
            shown = await visit.page.locator(".answer p").last.inner_text()
            assert shown.splitlines()[:2] == ["References", f"[1] The bridge. {pages}/bridge"]

    async def test_keyboard_alone(self, browser: Browser, reading: str, pages: str) -> None:
        """The keyboard is enough to paste, check with Ctrl+Enter, go to the next citation and its quote, and return to
        the text.
        """
        async with visiting(browser, reading) as visit:
            page = visit.page
            await page.locator("#to-check").focus()
            await page.keyboard.press("Enter")
            await expect(page.locator("#check-text")).to_be_focused()
            await page.keyboard.insert_text(text(pages))
            await page.keyboard.press("Control+Enter")
            await checked(visit)
            await expect(page.locator("#result-title")).to_be_focused()
            for place in (0, 1):
                await page.keyboard.press("j")
                await expect(page.locator(".answer .cite").nth(place)).to_be_focused()
            await page.keyboard.press("Enter")
            await expect(page.locator("#quote .source-text mark.found")).to_have_text("1074")
            await page.keyboard.press("Escape")
            await page.get_by_role("button", name="Change the text").press("Enter")
            await expect(page.locator("#check-text")).to_be_focused()
            await expect(page.locator("#check-text")).to_have_value(text(pages))

    @pytest.mark.parametrize("width", WIDTHS)
    async def test_the_page_fits_the_window(self, browser: Browser, reading: str, pages: str, width: int) -> None:
        """Neither the form nor the result is wider than the window, and axe finds nothing."""
        async with visiting(browser, reading, width, "dark", locale="ar") as visit:
            await visit.page.click("#to-check")
            await visit.page.wait_for_selector("#check-text")
            assert await visit.violations() == []
            assert await visit.overflow() <= 0
            await check(visit, text(pages))
            await checked(visit)
            assert await visit.violations() == []
            assert await visit.overflow() <= 0

    async def test_a_result_outlives_a_visit_of_another_part(self, browser: Browser, reading: str, pages: str) -> None:
        """The result is still there after a visit of the form for questions, and in another language after a change of
        language.
        """
        async with visiting(browser, reading) as visit:
            page = visit.page
            await check(visit, text(pages))
            await checked(visit)
            await page.click("#to-new")
            await expect(page.locator("#query")).to_be_visible()
            await page.click("#to-check")
            await becomes(page, "document.querySelectorAll('.answer .cite').length", 5)
            await page.select_option("#language", "de")
            await expect(page.locator("#result-title")).to_have_text("Text prüfen")
            await expect(page.locator(".kicker")).to_have_text("2 von 3 Quellen gelesen")
            await becomes(page, "document.querySelectorAll('.answer .cite').length", 5)

    async def test_export_and_copy(self, browser: Browser, reading: str, pages: str) -> None:
        """JSON is the server's. Markdown and the clipboard have the verdicts."""
        async with visiting(browser, reading, permissions=["clipboard-read", "clipboard-write"]) as visit:
            page = visit.page
            await check(visit, text(pages))
            await checked(visit)
            files = {}
            for name in ("JSON", "Markdown"):
                await page.locator(".tools summary").click()
                async with page.expect_download() as download:
                    await page.get_by_role("button", name=name, exact=True).click()
                files[name] = (await (await download.value).path()).read_text(encoding="utf-8")
                await page.keyboard.press("Escape")
            assert json.loads(files["JSON"])["counts"]["sources"] == 3
            assert "Its main span is 1380 metres long [1]: **the source says otherwise**" in files["Markdown"]
            await page.locator(".actions .copy").click()
            await expect(page.locator(".actions .copy")).to_have_text("Copied")
            assert "1380 metres long [1 ✕]" in await page.evaluate("navigator.clipboard.readText()")


class TestStream:
    async def test_verdicts_appear_with_their_pages(self, browser: Browser, base: str) -> None:
        """A sentence gets its verdict while other sources are still being read, and their markers and cells wait.

        Cancel keeps it.
        """
        pasted = "The bridge was opened in 1973 [1]. The tower is made of steel [2]."
        first = {
            "start": 0,
            "end": 29,
            "verdict": "supported",
            "is_cited": True,
            "citations": [
                {
                    "start": 0,
                    "end": 29,
                    "source_index": 1,
                    "quote": "opened in 1973",
                    "quote_start": 0,
                    "quote_end": 14,
                    "verdict": "supported",
                    "score": 1,
                    "checked_by": "words",
                }
            ],
        }
        sources = [{"index": n, "title": f"Source {n}", "url": f"https://example.org/{n}"} for n in (1, 2)]
        async with visiting(browser, base) as visit:
            page = visit.page
            await page.evaluate(STREAM)
            await check(visit, pasted)
            send = "event => window.send({request_id: 'r', ...event})"
            await page.evaluate(send, {"type": "sources", "sources": sources, "sentences": 2})
            await page.evaluate(send, {"type": "read", "url": sources[0]["url"], "status": "read", "chars": 9})
            await page.evaluate(send, {"type": "sentence", "sentence": first})
            await becomes(page, MARKERS, [["1", "supported"], ["2", "pending"]])
            await becomes(page, CELLS, ["supported", "pending"])
            await expect(page.locator(".kicker")).to_have_text("1 of 2 sources read")
            await page.get_by_role("button", name="Cancel").click()
            await expect(page.locator(NOTICE)).to_contain_text("so far stays here.")
            await becomes(page, "window.isCancelled")
            await expect(page.locator(".answer .cite.supported")).to_have_count(1)
            await expect(page.get_by_role("button", name="Try again")).to_be_visible()

    async def test_a_failure_says_what_to_do(self, browser: Browser, base: str) -> None:
        """An error in the stream, or an end without a result, is explained in plain words with a next step."""
        problem = {
            "status": 422,
            "code": "verification",
            "detail": "The text has 3001 sentences",
            "title": "Verification",
        }
        async with visiting(browser, base) as visit:
            await answer_with(visit, {"type": "failed", "problem": problem})
            await check(visit, "Water boils [1].")
            await expect(visit.page.locator(NOTICE)).to_contain_text("The text cannot be verified")
            await visit.page.unroute("**/verify")
            await answer_with(visit, {"type": "started"})
            await visit.page.get_by_role("button", name="Try again").click()
            await expect(visit.page.locator(NOTICE)).to_contain_text("The server cannot be reached. Try again.")
            await visit.page.get_by_role("button", name="Change the text").click()
            await expect(visit.page.locator("#check-text")).to_have_value("Water boils [1].")

    async def test_an_invalid_text_is_not_sent(self, browser: Browser, base: str) -> None:
        """A text without words and a text that is too long are refused before sending, with the reason at the box."""
        async with visiting(browser, base) as visit:
            await check(visit, " [] ")
            await expect(visit.page.locator("#check-error")).to_have_text("Paste a text first.")
            await visit.page.evaluate("document.querySelector('#check-text').value = 'a'.repeat(100_001)")
            await visit.page.click(".check-form [type=submit]")
            await expect(visit.page.locator("#check-error")).to_contain_text("this is 1 too long")
            assert not [request for request in visit.seen if "/verify" in request and request.startswith("POST")]

    async def test_a_text_without_sources(self, browser: Browser, base: str) -> None:
        """The page says that there are no sources, and what would help."""
        async with visiting(browser, base) as visit:
            await answer_with(visit, {"type": "done", "response": verified()})
            await check(visit, "Water boils.")
            await expect(visit.page.locator(NOTICE)).to_contain_text("This text cites no readable sources.")

    async def test_brackets_do_not_stop_the_page(self, browser: Browser, base: str) -> None:
        """A text of brackets, markers and asterisks is shown, and the page still responds."""
        async with visiting(browser, base) as visit:
            await answer_with(visit, {"type": "done", "response": verified()})
            for sign in ("[", "[1](", "*a_", "> "):
                await check(visit, "word " + (sign * 100_000)[:99_000])
                await checked(visit)
                await visit.page.get_by_role("button", name="Change the text").click()
            assert visit.errors == []
