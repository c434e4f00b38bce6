"""Reading an answer on the page at /, in a real Chromium: its sources, the verdicts of its sentences, tables and code."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, Route, expect
from tests.services.browser import FONTS, Visit, becomes, chromium_with_font, serving_page, started, visiting
from tests.services.page_answers import QUOTE, SEND, STREAM, citation, response
from tests.support.chat_server import ChatServer, chunk, stream

pytestmark = [pytest.mark.services, pytest.mark.asyncio(loop_scope="session")]

TWO_SOURCES = [
    {"index": 1, "title": "A source", "url": "https://example.org/a"},
    {"index": 2, "title": "<b>Another</b>", "url": "https://www.other.test/b"},
]
FOUND = {
    "type": "searched",
    "query": "q",
    "provider": "x",
    "count": 2,
    "cached": False,
    "results": [{"url": TWO_SOURCES[1]["url"], "title": "", "snippet": "Owls <i>see</i>.", "published": "2024-05-02"}],
}
NUMBERED = {"type": "sources", "sources": TWO_SOURCES}


async def store_answer(page: Page, made: dict[str, object]) -> None:
    """Let the server of the page have a stored answer with the id `abc`."""
    job = {"query": "q", "depth": "deep", "response": made}
    thread = {"id": "abc", "title": "q", "researches": [{"id": "abc"}]}
    await page.route("**/research/threads/abc", lambda route: route.fulfill(json=thread))
    await page.route("**/research/abc", lambda route: route.fulfill(json=job))


class TestSourceCards:
    async def test_sources_are_shown_before_the_first_word(self, browser: Browser, base: str) -> None:
        """The event `sources` shows a card for each source with host, date and snippet as text, before any word is
        written.
        """
        body = "".join(f"data: {json.dumps({'request_id': 'r', **event})}\n\n" for event in (FOUND, NUMBERED))
        async with visiting(browser, base) as visit:
            page = visit.page
            await visit.keep_none()
            await page.route("**/research", lambda route: route.fulfill(content_type="text/event-stream", body=body))
            await visit.ask()
            cards = page.locator(".source-card")
            await expect(cards).to_have_count(2)
            await expect(cards.nth(1)).to_contain_text("other.test")
            for text in ("<b>Another</b>", "Owls <i>see</i>.", "May 2, 2024"):
                await expect(cards.nth(1)).to_contain_text(text)
            assert await page.locator(".source-card :is(b, i, img)").count() == 0
            assert visit.foreign == []

    async def test_a_date_is_the_same_day_everywhere(self, browser: Browser, base: str) -> None:
        """The date of a source has no time, so no time zone changes the day."""
        async with visiting(browser, base, timezone_id="America/New_York") as visit:
            await visit.play(response("Owls sleep."), FOUND, NUMBERED)
            await visit.ask()
            await visit.answered()
            await expect(visit.page.locator(".source-card").nth(1)).to_contain_text("May 2, 2024")

    @pytest.mark.parametrize(
        ("locale", "language", "name"), [("en-US", "fr", "French"), ("de-DE", "fr", "Französisch"), ("en-US", "en", "")]
    )
    async def test_a_source_in_another_language_says_which(
        self, browser: Browser, base: str, locale: str, language: str, name: str
    ) -> None:
        """A card names the source's language, in the language of the page, if it differs from the answer's."""
        answer = response("The owl sleeps by day [1].")
        answer["sources"] = [{**answer["sources"][0], "language": language}]
        async with visiting(browser, base, locale=locale) as visit:
            await visit.play(answer)
            await visit.ask()
            await visit.answered()
            facts = visit.page.locator(".source-card .source-facts").first
            await expect(facts).to_have_text(name)

    async def test_a_card_that_is_not_cited_says_so_and_opens_its_text(self, browser: Browser, base: str) -> None:
        """The answer keeps the cards of all sources. An uncited source has no verdict."""
        text = "The owl sleeps by day [1]."
        answer = response(text)
        content = answer["raw_results"][0]["content"]
        answer["raw_results"].append({"title": "Another", "url": TWO_SOURCES[1]["url"], "content": "Owls see."})
        answer["citations"] = [citation(text, "The owl sleeps by day", content, "The owl", "supported")]
        async with visiting(browser, base, 390) as visit:
            page = visit.page
            await visit.play(answer, FOUND, NUMBERED, {"type": "token", "text": text})
            await visit.ask()
            await visit.answered()
            await expect(page.locator(".source-card").first).not_to_contain_text("not cited")
            await expect(page.locator(".source-card.uncited")).to_contain_text("not cited")
            await page.click(".source-row")
            await page.get_by_role("button", name="<b>Another</b>").click()
            await expect(page.locator(".source-text")).to_have_text("Owls see.")
            await expect(page.locator("#quote .verdict")).to_have_count(0)
            assert await visit.violations() == []
            await page.keyboard.press("Escape")
            assert await visit.violations() == []
            assert await visit.overflow() <= 0

    @pytest.mark.parametrize("is_on", [True, False])
    async def test_icons_come_only_from_the_server(self, browser: Browser, base: str, is_on: bool) -> None:
        """If the operator allows icons, each site is requested once, a missing icon is replaced by a letter, and the
        ledger lists it. Otherwise nothing is requested.
        """
        gif = base64.b64decode("R0lGODlhAQABAIAAAP8AAP///ywAAAAAAQABAAACAkQBADs=")
        answer = response("Owls sleep by day [1].", sources=[*TWO_SOURCES, {**TWO_SOURCES[0], "index": 3}])

        async def icon(route: Route) -> None:
            has_icon = "/sources/1/" in route.request.url
            await route.fulfill(
                status=200 if has_icon else 404, content_type="image/gif", body=gif if has_icon else b""
            )

        async def options(route: Route) -> None:
            await route.fulfill(json={**await (await route.fetch()).json(), "favicons": is_on})

        async with visiting(browser, base) as visit:
            page = visit.page
            await page.route("**/research/r/sources/*/icon", icon)
            await page.route("**/research/options", options)
            await page.reload()
            await started(page)
            await visit.play(answer)
            await visit.ask()
            await visit.answered()
            await expect(page.locator(".source-card img.site-icon")).to_have_count(2 if is_on else 0)
            await expect(page.locator(".source-card .letter")).to_have_count(1 if is_on else 3)
            if is_on:
                width = "(icon => icon.decode().then(() => icon.naturalWidth))(document.querySelector('.site-icon'))"
                assert await page.evaluate(width) == 1
            await page.get_by_role("tab", name="What left this machine").click()
            ledger = page.locator(".ledger")
            yes, no = "asked these sites for their icons: example.org, other.test", "Nothing left this machine"
            await expect(ledger).to_contain_text(yes if is_on else no, use_inner_text=True)
            await expect(ledger).not_to_contain_text(no if is_on else yes, use_inner_text=True)
            assert len([request for request in visit.seen if request.endswith("/icon")]) == (2 if is_on else 0)
            assert visit.foreign == []

    async def test_no_answer_shows_the_closest_passages(self, browser: Browser, base: str) -> None:
        """Without citations, the closest passages are below the text, and a button asks with more depth."""
        text = "The sources do not answer this."
        async with visiting(browser, base) as visit:
            page = visit.page
            await visit.play(response(text, sources=[]), FOUND, NUMBERED, {"type": "token", "text": text})
            await visit.ask()
            await visit.answered()
            await expect(page.get_by_role("heading", name="The nearest passages")).to_be_visible()
            await expect(page.locator(".source-snippet").first).to_contain_text("The owl 🦉 sleeps by day.")
            async with page.expect_request("**/research") as sent:
                await page.get_by_role("button", name="Ask deeper").click()
            body = (await sent.value).post_data_json
            assert (body["depth"], body["sources"]) == ("deep", ["documents"])

    async def test_a_stored_report_has_full_cards(self, browser: Browser, base: str) -> None:
        """After a reload each card has the cited passage and the date of the page. The steps of the run are kept."""
        text = "Owls hunt at night [1]. They see red [2]."
        made = response(text, depth="report", sources=TWO_SOURCES, metadata={"searches": 3, "pages_read": 2})
        passage = "It hunts at night."
        found = citation(text, "Owls hunt at night", made["raw_results"][0]["content"], passage, "supported")
        made["citations"] = [found]
        made["raw_results"] = [
            {"title": "Another", "url": TWO_SOURCES[1]["url"], "content": "Owls see.", "published": "2024-05-02"},
            {"title": "A source", "url": TWO_SOURCES[0]["url"], "content": "Menu Home Login", "published": None},
        ]
        async with visiting(browser, base) as visit:
            await visit.play_stored(made)
            times = {"created_at": "2026-01-01T00:00:00Z", "finished_at": "2026-01-01T00:01:00Z"}
            job = {"query": "q", "depth": "report", "response": made, **times}
            await visit.page.route("**/research/abc", lambda route: route.fulfill(json=job))
            await visit.page.goto(f"{base}/#research/abc")
            await visit.answered()
            cards = visit.page.locator(".source-card")
            await expect(cards.nth(0)).to_contain_text(passage)
            await expect(cards.nth(0)).not_to_contain_text("Menu")
            await expect(cards.nth(1)).to_contain_text("Owls see.")
            await expect(cards.nth(1)).to_contain_text("May 2, 2024")
            await expect(visit.page.locator(".steps summary")).to_contain_text("Searches: 3 · Pages read: 2")


LINES = """name => [...CSS.highlights.get(name)].filter(each => each.startContainer.isConnected).map(each => {
    const range = new Range();
    range.setStart(each.startContainer, each.startOffset);
    range.setEnd(each.endContainer, each.endOffset);
    return range.toString();
})"""


class TestVerdictsInTheText:
    TEXT = (
        "**Owls** sleep [by day](https://example.org/x) [1]. They never hunt [1]. "
        "Nobody knows why they hoot 🦉. They see red [1]. 1 of them is blind."
    )
    UNCITED = "1 of them is blind."
    STATEMENTS = (
        ("**Owls** sleep [by day](https://example.org/x)", "partial"),
        ("They never hunt", "unsupported"),
        ("They see red", "supported"),
    )

    def answer(self, **fields: Any) -> dict[str, Any]:
        start = self.TEXT.index(self.UNCITED)
        uncited = [{"start": start, "end": start + len(self.UNCITED)}]
        made = response(self.TEXT, metadata={"uncited_sentences": 1, "uncited": uncited})
        content = made["raw_results"][0]["content"]
        made["citations"] = [
            {**citation(self.TEXT, statement, content, "It hunts at night.", verdict), **fields}
            for statement, verdict in self.STATEMENTS
        ]
        return made

    async def test_doubtful_sentences_are_underlined(self, browser: Browser, base: str) -> None:
        """Partial and unsupported sentences are underlined, and `uncited` ones are dotted.

        Markdown, emoji and markers shift no line, and the page does not search for sentences itself.
        """
        async with visiting(browser, base) as visit:
            page = visit.page
            await visit.play(self.answer(), {"type": "token", "text": self.TEXT})
            await visit.ask()
            await visit.answered()
            drawn = {
                kind: await page.evaluate(LINES, f"sentence-{kind}") for kind in ("partial", "unsupported", "uncited")
            }
            assert drawn == {
                "partial": ["Owls sleep by day"],
                "unsupported": ["They never hunt"],
                "uncited": ["1 of them is blind."],
            }
            assert await page.locator(".cite.supported svg").count() == 0
            assert await page.locator(".cite:is(.partial, .unsupported) svg").count() == 2
            background = "getComputedStyle(document.querySelector('.cite.supported')).backgroundColor"
            assert await page.evaluate(background) == "rgba(0, 0, 0, 0)"

    async def test_a_sentence_that_one_source_supports_is_not_underlined(self, browser: Browser, base: str) -> None:
        """A second source that does not support the sentence has a sign at its own marker."""
        made = self.answer()
        (good,) = [citation for citation in made["citations"] if citation["verdict"] == "supported"]
        made["citations"].append({**good, "verdict": "unsupported", "source_index": 2})
        async with visiting(browser, base) as visit:
            await visit.play(made, {"type": "token", "text": self.TEXT})
            await visit.ask()
            await visit.answered()
            assert await visit.page.evaluate(LINES, "sentence-unsupported") == ["They never hunt"]

    async def test_a_marker_and_its_full_stop_are_never_alone_on_a_line(self, browser: Browser, base: str) -> None:
        """At any width, the word before a marker, the full stop between them, and the marker are on one line."""
        text = " ".join("Statements of every length about owls end with a marker [1]." for _ in range(12))
        lines = """[...document.querySelectorAll('.kept')].every(kept => kept.getClientRects().length === 1
            && /^\\w+\\. \\[1\\]$/.test(kept.textContent))"""
        async with visiting(browser, base, 390) as visit:
            await visit.play(response(text))
            await visit.ask()
            await visit.answered()
            assert await visit.page.locator(".kept").count() == 12
            for width in range(320, 640, 16):
                await visit.page.set_viewport_size({"width": width, "height": 800})
                assert await visit.page.evaluate(lines), width

    @pytest.mark.parametrize(
        "sentence",
        [
            "热泵在寒冷的冬天仍然可以工作并且其提供的大部分热量来自室外空气而不是来自电力",
            "ヒートポンプは寒い冬でも動作し続け供給する熱の大部分は外気から取り入れられます",
            "ปั๊มความร้อนยังคงทำงานในฤดูหนาวที่หนาวเย็นและความร้อนส่วนใหญ่มาจากอากาศภายนอก",
        ],
        ids=["han", "kana", "thai"],
    )
    async def test_scripts_without_spaces_break_before_a_marker(
        self, browser: Browser, base: str, sentence: str
    ) -> None:
        """On a phone no sentence and no marker of Han, Kana or Thai text overflows the screen."""
        text = "".join(f"{sentence}[1]。{sentence}[1][2]。" for _ in range(4))
        ends = "[...document.querySelectorAll('.cite')].map(marker => marker.getBoundingClientRect().right)"
        async with visiting(browser, base, 390) as visit:
            await visit.play(response(text, sources=TWO_SOURCES))
            await visit.ask()
            await visit.answered()
            assert await visit.page.locator(".cite").count() == 12
            for width in range(320, 640, 32):
                await visit.page.set_viewport_size({"width": width, "height": 800})
                assert await visit.overflow() <= 0, width
                assert max(await visit.page.evaluate(ends)) <= width, width

    async def test_a_selection_has_the_markers_as_text(self, browser: Browser, base: str) -> None:
        """A number and its marker stay separate in copied text and in `innerText`, which readers and translators use:
        "2.74 [1]" and not "2.741". Copied HTML has no class of the page, whose styles hide the text.
        """
        text = "The index rose to 2.74 [1] and fell [2]."
        copy = """() => {
            getSelection().selectAllChildren(document.querySelector('.answer'));
            const found = {};
            const heard = ({clipboardData}) => {
                for (const type of clipboardData.types) found[type] = clipboardData.getData(type);
            };
            window.addEventListener('copy', heard, {once: true});
            document.execCommand('copy');
            return found;
        }"""
        async with visiting(browser, base) as visit:
            await visit.play(response(text, sources=TWO_SOURCES))
            await visit.ask()
            await visit.answered()
            shown = "The index rose to 2.74 [1] and fell. [2]"
            assert (await visit.page.evaluate("document.querySelector('.answer').innerText")).strip() == shown
            copied = await visit.page.evaluate(copy)
            assert copied["text/plain"].strip() == shown
            assert copied["text/html"].strip() == f"<p>{shown}</p>"

    async def test_a_doubted_sentence_has_one_line_of_the_worst_verdict(self, browser: Browser, base: str) -> None:
        """Two sources with partial and no support draw one line under the sentence."""
        made = self.answer()
        (partly,) = [citation for citation in made["citations"] if citation["verdict"] == "partial"]
        made["citations"].append({**partly, "verdict": "unsupported", "source_index": 2})
        async with visiting(browser, base) as visit:
            await visit.play(made, {"type": "token", "text": self.TEXT})
            await visit.ask()
            await visit.answered()
            assert await visit.page.evaluate(LINES, "sentence-unsupported") == ["Owls sleep by day", "They never hunt"]
            assert await visit.page.evaluate(LINES, "sentence-partial") == []

    async def test_signs_of_neighbouring_markers_do_not_overlap(self, browser: Browser, base: str) -> None:
        """Of several markers after a sentence, no sign of doubt covers the next number."""
        text = "Owls sleep by day [1] [2] [1]."
        answer = response(text, sources=TWO_SOURCES)
        content = answer["raw_results"][0]["content"]
        one = citation(text, "Owls sleep by day", content, "The owl", "unsupported")
        answer["citations"] = [one, {**one, "source_index": 2}]
        boxes = "(of => [...document.querySelectorAll(`.cite${of}`)].map(each => each.getBoundingClientRect()))"
        async with visiting(browser, base) as visit:
            await visit.play(answer)
            await visit.ask()
            await visit.answered()
            gaps = f"{boxes}(' .icon').slice(0, 2).map((sign, place) => {boxes}('')[place + 1].x - sign.right)"
            assert min(await visit.page.evaluate(gaps)) > -2

    async def test_hover_and_tab_show_a_card_and_escape_hides_it(self, browser: Browser, base: str) -> None:
        """The card has the title, the quote, the verdict and the address of the quote.

        The pointer may move into it, and Enter opens the text.
        """
        async with visiting(browser, base) as visit:
            page = visit.page
            await visit.play(self.answer(quote_url="https://example.org/a#:~:text=It%20hunts"))
            await visit.ask()
            await visit.answered()
            card = page.locator(".cite-card")
            await page.mouse.move(5, 5)
            await page.locator(".cite").nth(1).hover()
            for text in ("A source", "not found in the page", "It hunts at night."):
                await expect(card).to_contain_text(text)
            link = card.get_by_role("link", name="Open the page at the quote")
            assert await link.get_attribute("href") == "https://example.org/a#:~:text=It%20hunts"
            await link.hover()
            await page.wait_for_timeout(600)  # longer than a card stays open after the pointer has left
            await expect(card).to_be_visible()
            assert await visit.violations() == []
            await page.keyboard.press("Escape")
            await expect(card).to_be_hidden()
            await page.locator(".cite").first.focus()
            await page.keyboard.press("Tab")
            await expect(card).to_contain_text("not found in the page")
            await page.keyboard.press("Enter")
            await expect(card).to_be_hidden()
            await expect(page.locator("#quote mark")).to_have_text("It hunts at night.")

    async def test_a_tap_shows_the_card_and_its_button_the_text(self, browser: Browser, base: str) -> None:
        """On a touch screen the card comes first and fits the window.

        A tap elsewhere closes it, and the target is 24 pixels high.
        """
        async with visiting(browser, base, 390, has_touch=True, is_mobile=True) as visit:
            page = visit.page
            await visit.play(self.answer())
            await visit.ask()
            await visit.answered()
            target = "cite => ['width', 'height'].map(side => parseFloat(getComputedStyle(cite, '::after')[side]))"
            assert min(await page.locator(".cite").first.evaluate(target)) >= 24
            card = page.locator(".cite-card")
            await page.locator(".cite").first.tap()
            await expect(card).to_contain_text("partly supported")
            box = await card.bounding_box()
            assert box is not None
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 390
            await page.locator("#result-title").tap()
            await expect(card).to_be_hidden()
            await page.locator(".cite").first.tap()
            await card.get_by_role("button", name="Show in the source").tap()
            await expect(page.locator("#quote")).to_be_visible()

    @pytest.mark.parametrize(
        ("fields", "content", "said"),
        [
            (
                {"verdict": "unchecked", "checked_against": "snippet", "quote": ""},
                "x",
                "not found in the search excerpt",
            ),
            ({"verdict": "unchecked", "checked_against": "page"}, "x", "not compared: another language"),
            (
                {"verdict": "unchecked", "checked_against": "page", "quote": ""},
                "",
                "not compared: no text of the source",
            ),
            ({"verdict": "unsupported", "checked_against": "snippet"}, "x", "the excerpt says otherwise"),
            ({"verdict": "unsupported", "checked_against": "document"}, "x", "not found in the document"),
            ({"verdict": "unsupported", "checked_by": "model"}, "x", "contradicted"),
        ],
    )
    async def test_verdicts_say_what_was_compared(
        self, browser: Browser, base: str, fields: dict[str, Any], content: str, said: str
    ) -> None:
        """A verdict names what was compared: a page, a document, an excerpt, another language, or nothing."""
        answer = self.answer(**fields)
        answer["raw_results"][0]["content"] = content
        async with visiting(browser, base) as visit:
            await visit.play(answer)
            await visit.ask()
            await visit.answered()
            label = await visit.page.locator(".cite").first.get_attribute("aria-label")
            assert label == f"Source 1, {said}: show the quote"
            await visit.page.locator(".cite").first.click()
            await expect(visit.page.locator("#quote .badge")).to_have_text(said)

    async def test_each_cell_of_a_table_shows_its_verdict(self, browser: Browser, base: str) -> None:
        """The sign and the line are at the cell that the source contradicts.

        The number of the row is plain, and its text lists the cells. A cell that another source supports is not marked.
        """
        text = "🦉\n\n| Pump | Power | Noise | Price |\n|---|---:|---|---|\n| A | **12.5 W** | low | 40 € [1][2] |\n"

        def row(source: int, *verdicts: str) -> dict[str, Any]:
            positions = [(text.index(cell), cell) for cell in ("**12.5 W**", "low", "40 €")]
            cells = [
                {"start": start, "end": start + len(cell), "verdict": verdict}
                for (start, cell), verdict in zip(positions, verdicts, strict=True)
            ]
            content = answer["raw_results"][0]["content"]
            whole = citation(text, "A | **12.5 W** | low | 40 €", content, "The owl", "unsupported")
            return {**whole, "source_index": source, "checked_against": "page", "cells": cells}

        answer = response(text, sources=TWO_SOURCES)
        answer["raw_results"].append({"title": "Another", "url": TWO_SOURCES[1]["url"], "content": "Owls see."})
        answer["citations"] = [
            row(1, "unsupported", "unsupported", "unchecked"),
            row(2, "unsupported", "supported", "unsupported"),
        ]
        async with visiting(browser, base) as visit:
            page = visit.page
            await visit.play(answer)
            await visit.ask()
            await visit.answered()
            assert await page.evaluate(LINES, "sentence-unsupported") == ["12.5 W"]
            cells = page.locator(".answer td")
            assert [await cells.nth(n).locator(".cell").count() for n in range(4)] == [0, 1, 0, 1]
            label = await cells.nth(1).locator(".cell").get_attribute("aria-label")
            assert label == "Source 1, not found in the page: show the quote"
            assert await cells.nth(3).locator(".cell.unchecked").count() == 1
            assert await page.locator(".cite.by-cell svg").count() == 0
            assert await visit.violations() == []
            await cells.nth(1).locator(".cell").click()
            await expect(page.locator("#quote blockquote")).to_have_text("12.5 W")
            await page.keyboard.press("Escape")
            await page.locator(".cite.by-cell").first.click()
            await expect(page.locator("#quote .verdict")).to_contain_text("cell by cell")
            await expect(page.locator("#quote .cells li")).to_have_count(3)
            await expect(page.locator("#quote .cells li").nth(1)).to_contain_text("not found in the page")
            assert await visit.violations() == []

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    async def test_the_signs_of_a_table_are_drawn_whole(self, browser: Browser, base: str, scheme: str) -> None:
        """Nothing crosses the sign of a false cell, and the number of its row has the sign's colour."""
        rows = [[f"M{row}", *(f"{row}{column} W" for column in range(4))] for row in range(1, 9)]
        false = {(1, 1): "unsupported", (3, 3): "partial", (6, 4): "unsupported"}
        text, citations = f"| {' | '.join('ABCDE')} |\n|{'---|' * 5}\n", []
        for number, row in enumerate(rows):
            start, line, cells = len(text) + 2, " | ".join(row), []
            for column, cell in enumerate(row):
                place = start + line.index(cell)
                cells.append(
                    {"start": place, "end": place + len(cell), "verdict": false.get((number, column), "supported")}
                )
            verdict = next((cell["verdict"] for cell in cells if cell["verdict"] != "supported"), "supported")
            span = {"start": start, "end": start + len(line), "source_index": 1}
            citations.append({**QUOTE, **span, "checked_against": "page", "verdict": verdict, "cells": cells})
            text += f"| {line} [1] |\n"
        async with visiting(browser, base, scheme=scheme) as visit:
            page = visit.page
            await visit.play(response(text, citations=citations))
            await visit.ask()
            await visit.answered()
            await expect(page.locator(".cite.cell")).to_have_count(3)
            crossing = "sign => getComputedStyle(sign, '::before').backgroundColor"
            for sign in await page.locator(".cite.cell").all():
                assert await sign.evaluate(crossing) == "rgba(0, 0, 0, 0)"
            colours = """[...document.querySelectorAll('.answer tr:has(.cite.cell)')].map(row => new Set(
                [...row.querySelectorAll('.cite')].map(sign => getComputedStyle(sign).color)).size)"""
            assert await page.evaluate(colours) == [1, 1, 1]
            assert await visit.violations() == []


# Contrast of the colours of code with the background of a block, as defined by WCAG.
# Ranges of removed text draw nothing. The page deletes them with the next block of code.
COLOURED = "[...CSS.highlights.get('code-keyword') ?? []].filter(each => each.startContainer.isConnected).length"
CONTRASTS = """() => {
    const channels = colour => colour.match(/[\\d.]+/g).slice(0, 3).map(each => each / 255)
        .map(each => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
    const light = colour => channels(colour).reduce((sum, each, place) => sum + each * [0.2126, 0.7152, 0.0722][place], 0.05);
    const ground = light(getComputedStyle(document.querySelector('pre')).backgroundColor);
    const code = document.querySelector('pre code');
    return ['comment', 'string', 'number', 'keyword']
        .map(kind => light(getComputedStyle(code, `::highlight(code-${kind})`).color))
        .map(each => Math.max(each, ground) / Math.min(each, ground));
}"""


class TestLongTexts:
    async def test_code_is_copied_and_a_table_scrolls_by_whole_words(self, browser: Browser, base: str) -> None:
        """Each block of code has a copy button.

        Words in a narrow table are not split, and the table scrolls instead of the page.
        """
        heads = " | ".join(f"Heading{n}" for n in range(8))
        text = f"```\nowl = 'hoot'\n```\n\n| {heads} |\n|{'---|' * 8}\n| {' | '.join(['12345'] * 8)} |\n"
        async with visiting(browser, base, 390, permissions=["clipboard-read", "clipboard-write"]) as visit:
            page = visit.page
            await visit.play(response(text))
            await visit.ask()
            await visit.answered()
            await page.locator(".code").get_by_role("button", name="Copy").click()
            await expect(page.locator("#status")).to_have_text("Copied")  # the button shows this for two seconds
            assert await page.evaluate("navigator.clipboard.readText()") == "owl = 'hoot'\n"
            scrolls = "each => each.scrollWidth > each.clientWidth"
            assert await page.locator(".answer .scroller").evaluate(scrolls)
            heights = "[...document.querySelectorAll('.answer th')].map(each => each.offsetHeight)"
            assert max(await page.evaluate(heights)) < 60
            assert await visit.overflow() <= 0

    async def test_the_contents_stay_in_view(self, browser: Browser, base: str) -> None:
        """The table of contents of a long text is sticky. An entry scrolls to its heading without changing the address."""
        text = "\n\n".join(f"## Part {n}\n\n" + "Owls sleep by day and hunt at night. " * 40 for n in range(6))
        async with visiting(browser, base) as visit:
            page = visit.page
            await visit.play(response(text))
            await visit.ask()
            await visit.answered()
            address = page.url
            await page.locator(".contents summary").click()
            await page.locator(".contents").get_by_role("button", name="Part 4").click()
            await expect(page.get_by_role("heading", name="Part 4")).to_be_in_viewport()
            await expect(page.get_by_role("heading", name="Part 4")).to_be_focused()
            await expect(page.locator(".contents summary")).to_be_in_viewport()
            assert page.url == address
            assert await visit.violations() == []

    async def test_a_source_is_shown_as_text_with_headings(self, browser: Browser, base: str) -> None:
        """The quote is marked in a text without Markdown syntax, and 2**3 is unchanged."""
        content = "# Owls\n\nOwls **hunt** by [ear](https://example.org/x). 2**3 is 8.\n\n## Food\nMice.\n"
        text = "Owls hunt by ear [1]."
        answer = response(text)
        answer["raw_results"][0]["content"] = content
        quote = "Owls **hunt** by [ear](https://example.org/x)."
        answer["citations"] = [citation(text, "Owls hunt by ear", content, quote, "supported")]
        async with visiting(browser, base) as visit:
            await visit.play(answer)
            await visit.ask()
            await visit.answered()
            await visit.page.locator(".cite").click()
            await expect(visit.page.locator("#quote mark")).to_have_text("Owls hunt by ear.")
            assert await visit.page.locator(".source-heading").all_inner_texts() == ["Owls", "Food"]
            assert "2**3 is 8." in await visit.page.inner_text(".source-text")

    async def test_lines_and_directions_of_a_source(self, browser: Browser, base: str) -> None:
        """Lines broken by an editor are joined to a paragraph, short lines are kept, and each paragraph has its own
        direction.
        """
        broken = "Owls sleep by day in hollow trees, in barns and below the roofs of old\nhouses. They hunt at night."
        content = f"{broken}\n\nregion,units\nNorth,1200\n\nالبومة تنام نهارًا.\n"
        text = "They hunt at night [1]."
        answer = response(text)
        answer["raw_results"][0]["content"] = content
        answer["citations"] = [citation(text, "They hunt at night", content, "They hunt at night.", "supported")]
        async with visiting(browser, base) as visit:
            await visit.play(answer)
            await visit.ask()
            await visit.answered()
            await visit.page.locator(".cite").click()
            shown = visit.page.locator(".source-text p")
            await expect(shown).to_have_count(3)
            assert "old houses" in await shown.nth(0).inner_text()
            assert await shown.nth(1).inner_text() == "region,units\nNorth,1200"
            directions = await shown.evaluate_all("all => all.map(each => getComputedStyle(each).direction)")
            assert directions == ["ltr", "ltr", "rtl"]

    async def test_quotes_and_snippets_show_no_table_syntax(self, browser: Browser, base: str) -> None:
        """A table row is shown as its cells in the cards of sources and citations, and in the list of sources."""
        content = "| Owl | Length |\n|:--|---:|\n| Eagle owl | **70** cm |\n| Barn owl | 35 cm |\n"
        text = "Eagle owls have 70 cm [1]."
        answer = response(text)
        answer["raw_results"][0]["content"] = content
        quote = content.rstrip()
        answer["citations"] = [citation(text, "Eagle owls have 70 cm", content, quote, "supported")]
        rows = ["Owl · Length", "Eagle owl · 70 cm", "Barn owl · 35 cm"]
        async with visiting(browser, base) as visit:
            page = visit.page
            await visit.play(answer)
            await visit.ask()
            await visit.answered()
            await expect(page.locator(".source-snippet")).to_have_text(" ".join(rows))
            await page.mouse.move(5, 5)
            await page.locator(".cite").hover()
            await expect(page.locator(".cite-card blockquote")).to_be_visible()
            assert (await page.locator(".cite-card blockquote").inner_text()).split("\n") == rows
            await page.click("#tab-1")
            await expect(page.locator(".quotes q")).to_be_visible()
            assert (await page.locator(".quotes q").inner_text()).strip("“”").split("\n") == rows

    async def test_a_passage_that_is_only_quoted(self, browser: Browser, base: str) -> None:
        """Below "the sources do not answer this" the closest passages are quotes, which are not labelled as unchecked.

        Each is found in its source. Text that is not in the source stays unchecked.
        """
        text = (
            "The sources do not answer this.\n\nClosest passages:\n\n- The owl 🦉 sleeps by day [1].\n- Foxes swim [1]."
        )
        async with visiting(browser, base) as visit:
            page = visit.page
            await visit.play(response(text))
            await visit.ask()
            await visit.answered()
            names = await page.locator(".cite").evaluate_all("all => all.map(each => each.getAttribute('aria-label'))")
            assert names == ["Source 1, quoted word for word: show the quote", "Source 1, not checked: show the quote"]
            await expect(page.locator(".cite").first.locator("svg")).to_have_count(0)
            await page.locator(".cite").first.click()
            await expect(page.locator("#quote mark")).to_have_text("The owl 🦉 sleeps by day")
            await expect(page.locator("#quote")).not_to_contain_text("could not be compared")
            assert await visit.violations() == []

    async def test_a_copy_is_recognised_by_its_field(self, browser: Browser, base: str) -> None:
        """The server says whether the source contains a sentence verbatim. The page compares neither words nor scores."""
        text = "The owl sleeps by day [1]."
        for is_verbatim, told in ((True, "The source says this word for word."), (False, "The source says this.")):
            answer = response(text)
            content = answer["raw_results"][0]["content"]
            answer["citations"] = [
                {**citation(text, text[:-5], content, "The owl", "supported"), "is_verbatim": is_verbatim}
            ]
            async with visiting(browser, base) as visit:
                await visit.play(answer)
                await visit.ask()
                await visit.answered()
                await visit.page.locator(".cite").click()
                await expect(visit.page.locator("#quote .verdict p").first).to_contain_text(told)

    async def test_a_long_word_is_not_cut(self, browser: Browser, base: str) -> None:
        """A word longer than the panel of the quote is broken."""
        text = f"Owls live in {'Donaudampfschiff' * 20} [1]."
        answer = response(text)
        content = answer["raw_results"][0]["content"]
        answer["citations"] = [citation(text, text[:-5], content, "The owl", "unsupported")]
        async with visiting(browser, base) as visit:
            await visit.play(answer)
            await visit.ask()
            await visit.answered()
            await visit.page.locator(".cite").click()
            assert (
                await visit.page.evaluate(
                    "(quote => quote.scrollWidth - quote.clientWidth)(document.querySelector('#quote'))"
                )
                <= 0
            )

    async def test_buttons_beside_a_long_question_stay_on_one_line(self, browser: Browser, base: str) -> None:
        """ "Stop and keep" replaces "Cancel" without breaking into a column of words."""
        async with visiting(browser, base) as visit:
            page = visit.page
            await page.evaluate(STREAM)
            await visit.keep_none()
            await visit.ask(
                "What is known about owls, their food, their sleep, their hunting and their young in winter? " * 2
            )
            height = "document.querySelector('.cancel').offsetHeight"
            await page.wait_for_selector(".cancel")
            before = await page.evaluate(height)
            await page.evaluate(SEND, {"type": "token", "text": "Owls sleep."})
            await expect(page.locator(".cancel")).to_have_text("Stop and keep")
            assert await page.evaluate(height) == before

    async def test_an_answer_without_sources_has_no_note_about_quotes(self, browser: Browser, base: str) -> None:
        """The note about an extractive answer is shown only if the answer has sources."""
        async with visiting(browser, base) as visit:
            notes = visit.page.locator(".notes > summary")
            await visit.play(
                response("Nothing was found.", sources=[], raw_results=[], metadata={"synthesizer": "extractive"})
            )
            await visit.ask()
            await visit.answered()
            await expect(notes).to_have_count(0)
        async with visiting(browser, base) as visit:
            await visit.play(response("The owl sleeps by day [1].", metadata={"synthesizer": "extractive"}))
            await visit.ask()
            await visit.answered()
            await expect(visit.page.locator(".notes > summary")).to_have_text(
                re.compile(r"^\s*No language model wrote this")
            )

    async def test_a_long_time_is_shown_in_minutes(self, browser: Browser, base: str) -> None:
        """421 seconds are shown as minutes and seconds."""
        async with visiting(browser, base) as visit:
            await visit.play(response("It hunts [1].", metadata={"latency_ms": 421_000}))
            await visit.ask()
            await visit.answered()
            await expect(visit.page.locator(".facts, .steps").first).to_contain_text("7 min 1 sec")

    async def test_lists_and_tables_of_a_source_are_shown_as_such(self, browser: Browser, base: str) -> None:
        """Lists, tables and code of a stored text become elements that contain only text nodes, and the quote is marked
        in its cells.
        """
        content = (
            "Owls 🦉 of | Europe\n\n| Owl | Length <b> |\n|:--|---:|\n| Eagle owl | **70** cm |\n| Barn \\| owl | 35 cm |\n\n"
            "- hunt at night\n  - by <i>ear</i>\n2. sleep\n\n```\n| not | a table |\n```\nThe end.\n"
        )
        text = "Eagle owls have 70 cm [1]."
        answer = response(text)
        answer["raw_results"][0]["content"] = content
        quote = "| Eagle owl | **70** cm |"
        answer["citations"] = [citation(text, "Eagle owls have 70 cm", content, quote, "supported")]
        async with visiting(browser, base, 390) as visit:
            page = visit.page
            await visit.play(answer)
            await visit.ask()
            await visit.answered()
            await page.locator(".cite").click()
            shown = page.locator(".source-text")
            await expect(shown.locator("mark")).to_have_text(["Eagle owl", "70 cm"])
            await expect(shown.locator("th")).to_have_text(["Owl", "Length <b>"])
            await expect(shown.locator("td")).to_have_text(["Eagle owl", "70 cm", "Barn \\| owl", "35 cm"])
            assert await shown.locator("td").nth(1).get_attribute("align") == "right"
            await expect(shown.locator("li")).to_have_text(["• hunt at night", "• by <i>ear</i>", "2. sleep"])
            await expect(shown.locator("pre")).to_have_text("| not | a table |")
            await expect(shown.locator("p")).to_have_text(["Owls 🦉 of | Europe", "The end."])
            assert await shown.locator("b, i").count() == 0
            assert await visit.violations() == []
            assert await visit.overflow() <= 0

    async def test_a_very_long_source_is_opened_at_the_quote(self, browser: Browser, base: str) -> None:
        """Of a million characters, the part around the quote is shown, and the rest on demand."""
        line = "Owls 🦉 sleep by day and hunt at night.\n\n"
        content = "# First\n" + line * 12_000 + "They see red light poorly.\n\n" + line * 12_000 + "# Last\n"
        text = "Owls see red light poorly [1]."
        answer = response(text)
        answer["raw_results"][0]["content"] = content
        answer["citations"] = [
            citation(text, "Owls see red light poorly", content, "They see red light poorly.", "supported")
        ]
        async with visiting(browser, base) as visit:
            page = visit.page
            await visit.play(answer)
            await visit.ask()
            await visit.answered()
            await page.locator(".cite").click()
            await expect(page.locator("#quote mark")).to_be_in_viewport()
            assert len(await page.inner_text(".source-text")) < 100_000
            more = page.locator(".source-text").get_by_role("button", name="Show more")
            assert await more.count() == 2
            before = len(await page.inner_text(".source-text"))
            await more.first.click()
            assert len(await page.inner_text(".source-text")) > before + 30_000

    async def test_code_is_coloured(self, browser: Browser, base: str) -> None:
        """Comments, strings, numbers and keywords of a named language are coloured with enough contrast in both themes.

        The text gets no elements, and code of an unknown language is plain.
        """
        code = 'def hoot(n=1_0):  # "soft"\n    return """a\nb""" * n  # if'
        others = "```brainfuck\nif 1\n```\n\n```\nif 1 'x'\n```\n\n1. List:\n\n   ```sql\n   select 'a'\n   ```\n"
        text = f"```python\n{code}\n```\n\n{others}"
        for scheme in ("light", "dark"):
            async with visiting(browser, base, scheme=scheme) as visit:
                page = visit.page
                await visit.play(response(text), {"type": "token", "text": text})
                await visit.ask()
                await visit.answered()
                await becomes(page, COLOURED, 3)
                kinds = ("comment", "string", "number", "keyword")
                assert {kind: sorted(await page.evaluate(LINES, f"code-{kind}")) for kind in kinds} == {
                    "comment": ['# "soft"', "# if"],
                    "string": ['"""a\nb"""', "'a'"],
                    "number": ["1_0"],
                    "keyword": ["def", "return", "select"],
                }
                assert await page.locator("pre code *").count() == 0
                assert await page.locator("pre code").first.text_content() == f"{code}\n"
                assert min(await page.evaluate(CONTRASTS)) >= 4.5
                assert await visit.violations() == []


async def with_models(visit: Visit, models: list[str]) -> None:
    """Let the server offer these models."""

    async def answer(route: Route) -> None:
        has = await (await route.fetch()).json()
        await route.fulfill(json={**has, "models": models})

    await visit.page.route("**/research/options", answer)
    await visit.page.reload()
    await started(visit.page)


class TestZoom:
    @pytest.mark.parametrize(
        ("width", "height", "font"),
        [(720, 450, "100%"), (195, 422, "100%"), (1440, 900, "200%"), (390, 844, "200%")],
        ids=["page at 1440", "page at 390", "text at 1440", "text at 390"],
    )
    async def test_nothing_is_lost_at_200_percent(
        self, browser: Browser, base: str, width: int, height: int, font: str
    ) -> None:
        """At twice the size of the page or of its text, form, answer, sources and quote scroll only vertically."""
        parts = "\n\n".join(f"## A heading of part {n}\n\nOwls sleep by day [1]." for n in range(5))
        table = "| Pump name | Power in kilowatts |\n|---|---:|\n| Alpha | 12.5 |\n"
        text = f"{parts}\n\n```python\n{'owl = 1; ' * 30}\n```\n\n{table}"
        made = response(text, degraded=[{"component": "search", "reason": "timeout", "until": None}])
        content = made["raw_results"][0]["content"]
        made["citations"] = [citation(text, "Owls sleep by day", content, "It hunts at night.", "unsupported")]
        async with visiting(
            browser, base, width, height=height, device_scale_factor=2 if font == "100%" else 1
        ) as visit:
            page = visit.page
            await page.evaluate("size => { document.documentElement.style.fontSize = size }", font)
            assert await visit.overflow() <= 0
            await visit.play(made, FOUND, NUMBERED, {"type": "token", "text": text})
            await visit.ask()
            await visit.answered()
            assert await visit.overflow() <= 0
            await page.locator(".contents summary").click()
            await expect(page.locator(".contents").get_by_role("button", name="part 4")).to_be_visible()
            await page.keyboard.press("Escape")
            await page.get_by_role("tab", name="Sources").click()
            assert await visit.overflow() <= 0
            await page.get_by_role("button", name="Show in the source").click()
            await expect(page.locator("#quote mark")).to_be_visible()
            assert await page.locator("#quote").evaluate("each => each.scrollWidth <= each.clientWidth")
            assert await visit.overflow() <= 0


class TestActions:
    async def test_an_answer_is_copied_with_its_sources(self, browser: Browser, base: str) -> None:
        """The copied text keeps its numbers, and ends with a list of titles and addresses."""
        async with visiting(browser, base, permissions=["clipboard-read", "clipboard-write"]) as visit:
            page = visit.page
            await visit.play(response("Owls sleep by day [1]."))
            await visit.ask()
            await visit.answered()
            await page.locator(".actions").get_by_role("button", name="Copy", exact=True).click()
            await expect(page.locator("#status")).to_have_text("Copied")
            copied = await page.evaluate("navigator.clipboard.readText()")
            assert copied == "Owls sleep by day [1].\n\n[1] A source https://example.org/a"

    async def test_verdicts_are_part_of_a_copied_answer(self, browser: Browser, base: str) -> None:
        """Copied text and HTML begin with the number of supported sentences, and mark each marker of an unsupported
        one.
        """
        text = "Owls `[1]` sleep by day [1]. They hunt at noon [1]. They see red [1]. Nobody knows why."
        start = text.index("Nobody")
        made = response(text, metadata={"uncited": [{"start": start, "end": len(text)}], "uncited_sentences": 1})
        content = made["raw_results"][0]["content"]
        made["citations"] = [
            citation(text, statement, content, "The owl", verdict)
            for statement, verdict in (
                ("Owls `[1]` sleep by day", "supported"),
                ("They hunt at noon", "unsupported"),
                ("They see red", "partial"),
            )
        ]
        read = """async type => {
            const [item] = await navigator.clipboard.read();
            return (await item.getType(type)).text();
        }"""
        async with visiting(browser, base, permissions=["clipboard-read", "clipboard-write"]) as visit:
            page = visit.page
            await visit.play(made)
            await visit.ask()
            await visit.answered()
            await page.locator(".actions").get_by_role("button", name="Copy", exact=True).click()
            await expect(page.locator("#status")).to_have_text("Copied")
            plain, rich = await page.evaluate(read, "text/plain"), await page.evaluate(read, "text/html")
        marked = "Owls `[1]` sleep by day [1]. They hunt at noon [1 ✕]. They see red [1 ◐]."
        assert plain.startswith(f"1 of 4 sentences hold\n\n{marked}")
        assert "1 of 4 sentences hold" in rich
        assert "They hunt at noon. [1 ✕]" in rich
        assert "<code>[1]</code>" in rich
        assert "class=" not in rich

    async def test_the_question_is_asked_again_in_other_ways(self, browser: Browser, base: str) -> None:
        """The question can be repeated with an instruction, with more depth, or as the engine understood it.

        Each sends the request with this field changed.
        """
        made = response("Owls sleep by day [1].", metadata={"correction": "what is an owl"})
        made["citations"] = [
            citation(made["synthesis"], "Owls", made["raw_results"][0]["content"], "The owl", "supported")
        ]
        async with visiting(browser, base) as visit:
            page = visit.page
            await with_models(visit, ["m/x"])
            await visit.play(made)
            await visit.ask("waht is an owl")
            sent = {}
            for number, name in enumerate(("Shorter", "Ask deeper", "what is an owl")):
                await visit.answered(number + 1)
                turn = page.locator(".turn").nth(number)
                if name == "Shorter":
                    await turn.get_by_text("Write again").click()
                async with page.expect_request("**/research") as request:
                    await turn.get_by_role("button", name=name).click()
                sent[name] = (await request.value).post_data_json
        assert sent["Shorter"]["instructions"] == "Shorter."
        assert sent["Ask deeper"]["depth"] == "deep"
        assert sent["what is an owl"]["query"] == "what is an owl"
        assert [(field.get("previous_id"), field["thread_id"]) for field in sent.values()] == [(None, "r")] * 3

    @pytest.mark.parametrize(
        ("models", "writer", "offered"), [([], "m/x", False), (["m/x"], "extractive", True), ([], "extractive", False)]
    )
    async def test_rewriting_needs_a_model(
        self, browser: Browser, base: str, models: list[str], writer: str, offered: bool
    ) -> None:
        """The server's models decide, whoever wrote this answer.

        A failed model may be used again, a removed one may not.
        """
        async with visiting(browser, base) as visit:
            await with_models(visit, models)
            await visit.play(response("Owls sleep by day [1].", metadata={"synthesizer": writer}))
            await visit.ask()
            await visit.answered()
            await expect(visit.page.get_by_text("Write again")).to_be_visible(visible=offered)

    async def test_a_stored_follow_up_is_asked_again_after_what_it_followed(self, browser: Browser, base: str) -> None:
        """The answer itself is no context of the repeated question, which keeps its `previous_id` and joins the thread."""
        made = response("Owls sleep by day [1].", metadata={"request_id": "abc"})
        made["citations"] = [
            citation(made["synthesis"], "Owls", made["raw_results"][0]["content"], "The owl", "supported")
        ]
        asked = {"query": "And by day?", "depth": "shallow", "previous_id": "before", "plan": None}
        job = {"id": "abc", "status": "done", "request": asked, "response": made}
        thread = {"id": "before", "title": "q", "researches": [{"id": "abc"}]}
        async with visiting(browser, base) as visit:
            page = visit.page
            await page.route("**/research/threads/abc", lambda route: route.fulfill(json=thread))
            await page.route("**/research/abc", lambda route: route.fulfill(json=job))
            await page.goto(f"{base}/#research/abc")
            await visit.answered()
            async with page.expect_request("**/research") as request:
                await page.get_by_role("button", name="Ask deeper").click()
            body = (await request.value).post_data_json
        assert body == {**asked, "depth": "deep", "background": True, "thread_id": "abc"}

    async def test_a_related_question_is_asked_in_the_thread(self, browser: Browser, base: str) -> None:
        """A suggested question is a button that asks it as a follow-up of this answer."""
        questions = ["<b>Barn</b> owls at night", "Why do owls hoot?"]
        async with visiting(browser, base, 390) as visit:
            page = visit.page
            await visit.play(response("Owls sleep by day [1].", metadata={"related_questions": questions}))
            await visit.ask()
            await visit.answered()
            assert await page.locator(".related button").all_inner_texts() == questions
            assert await visit.violations() == []
            assert await visit.overflow() <= 0
            async with page.expect_request("**/research") as request:
                await page.get_by_role("button", name="Why do owls hoot?").click()
            body = (await request.value).post_data_json
            assert (body["query"], body["previous_id"], body["sources"]) == ("Why do owls hoot?", "r", ["documents"])
            await visit.answered(2)
            await expect(page.locator(".turn").nth(1)).to_contain_text("Why do owls hoot?")

    async def test_an_export_says_when_and_where(self, browser: Browser, base: str) -> None:
        """The file has the date of the answer, and its address if the server stores it."""
        made = response("Owls sleep by day [1].", metadata={"stored_at": "2026-03-04T12:00:00Z", "request_id": "abc"})
        async with visiting(browser, base) as visit:
            page = visit.page
            await store_answer(page, made)
            await page.goto(f"{base}/#research/abc")
            await visit.answered()
            for kind in ("Markdown", "HTML"):
                await page.get_by_text("Export").click()
                async with page.expect_download() as download:
                    await page.get_by_role("button", name=kind).click()
                text = (await (await download.value).path()).read_text(encoding="utf-8")
                assert "Mar 4, 2026" in text
                assert f"{base}/#research/abc" in text

    async def test_a_stored_answer_is_sealed(self, browser: Browser, base: str) -> None:
        """The file comes from the server; an error is shown below the button, and the menu stays open."""
        made = response("Owls sleep by day [1].", metadata={"request_id": "abc"})
        async with visiting(browser, base) as visit:
            page = visit.page
            await store_answer(page, made)
            refusal = {"code": "seal", "status": 409, "detail": "the texts of the sources are not stored any more"}
            await page.route("**/research/abc/sealed", lambda route: route.fulfill(status=409, json=refusal))
            await page.goto(f"{base}/#research/abc")
            await visit.answered()
            await page.get_by_text("Export").click()
            await page.get_by_role("button", name="Sealed, with its sources").click()
            await expect(page.locator(".menu-items .hint").first).to_contain_text("This answer cannot be sealed")
            await page.unroute("**/research/abc/sealed")
            await page.route(
                "**/research/abc/sealed", lambda route: route.fulfill(body=b"PK", content_type="application/zip")
            )
            async with page.expect_download() as download:
                await page.get_by_role("button", name="Sealed, with its sources").click()
            saved = await download.value
            assert saved.suggested_filename.endswith(".sealed.zip")
            assert (await saved.path()).read_bytes() == b"PK"
            await expect(page.get_by_role("button", name="Sealed, with its sources")).to_be_hidden()
            assert await page.locator(".menu-items > .hint").count() == 0


TOP = "Math.round(document.querySelector('.answer').getBoundingClientRect().top + scrollY)"


class TestProgress:
    async def test_the_line_shows_the_current_phase(self, browser: Browser, base: str) -> None:
        """The phases have one order.

        A page that is read late is added to its own row, while the line says that the answer is being written, and
        shows the duration of the earlier phases.
        """
        past = "localStorage.setItem('llm-platform.durations', JSON.stringify({shallow: [600000]}))"
        read = {"type": "read", "url": "https://example.org/a", "status": "read", "chars": 9}
        ranked = {"type": "ranked", "query": "q", "kept": [{"url": "https://example.org/a", "title": ""}] * 3}
        async with visiting(browser, base) as visit:
            page = visit.page
            await visit.keep_none()
            await page.evaluate(past)
            await page.evaluate(STREAM)
            await visit.ask()
            for event in (FOUND, ranked, read):
                await page.evaluate(SEND, event)
            line = page.locator(".steps summary")
            await expect(line).to_have_text(re.compile(r"Reading 1 of 3 · example\.org · about 10 min left"))
            for event in (
                NUMBERED,
                {"type": "token", "text": "Owls. "},
                read,
                {"type": "summarized", "url": read["url"]},
            ):
                await page.evaluate(SEND, event)
            titles = ("^Searches: 1", "^Results chosen: 3", "^Pages read: 2", "^Pages summarised: 1", "^Writing")
            await expect(page.locator(".step")).to_have_text([re.compile(title) for title in titles])
            await expect(line).to_have_text(re.compile("^Writing the answer"))
            await expect(page.locator(".step.now")).to_have_text("Writing the answer")

    async def test_a_further_round_tells_what_it_does(self, browser: Browser, base: str) -> None:
        """Its searches and pages are below its queries, and are counted separately from the first search."""
        read = {"type": "read", "url": "https://example.org/a", "status": "read", "chars": 9}
        begun = {"type": "round", "number": 1, "of": 2, "open": ["Where?"], "queries": ["Owls height"], "why": "height"}
        async with visiting(browser, base) as visit:
            page = visit.page
            await visit.keep_none()
            await page.evaluate(STREAM)
            await visit.ask()
            for event in (FOUND, read, begun, FOUND, FOUND, read, {**read, "status": "timeout"}):
                await page.evaluate(SEND, event)
            await expect(page.locator(".steps summary")).to_have_text(
                "Further round 1 of 2 · Searches: 2 · Pages read: 1"
            )
            await page.locator(".steps summary").click()
            titles = ("^Searches: 1", "^Pages read: 1", "^Further round 1 of 2\\s*Owls height")
            await expect(page.locator(".step")).to_have_text([re.compile(title) for title in titles])
            await expect(page.locator(".step.now li")).to_have_count(5)


FIRST_LINE = "document.querySelector('.answer p').getBoundingClientRect().top / innerHeight"
FIRST_SENTENCE = "document.querySelector('.answer .cite').getBoundingClientRect().bottom / innerHeight"


class TestAnswerFirst:
    @pytest.mark.parametrize(
        ("width", "height", "greatest_share"), [(390, 844, 0.45), (820, 1180, 0.25), (1440, 900, 1 / 3)]
    )
    @pytest.mark.parametrize("locale", ["en-US", "ru-RU", "ar"])
    async def test_the_first_word_is_near_the_top(
        self, browser: Browser, base: str, width: int, height: int, greatest_share: float, locale: str
    ) -> None:
        """Title, evidence, steps, parts and sources take a limited share of the screen, and the first sentence of the
        answer ends above the fold.
        """
        metadata = {"uncited_sentences": 1, "searches": 3, "pages_read": 5}
        query = "Do heat pumps keep a house warm in a cold winter?"
        made = response("The owl sleeps by day, and hunts by night [1].", query=query, metadata=metadata)
        async with visiting(browser, base, width, height=height, locale=locale) as visit:
            await visit.play_stored(made)
            job = {"query": query, "depth": "deep", "response": made}
            await visit.page.route("**/research/abc", lambda route: route.fulfill(json=job))
            await visit.page.goto(f"{base}/#research/abc")
            await visit.answered()
            assert await visit.page.evaluate(FIRST_LINE) <= greatest_share
            assert await visit.page.evaluate(FIRST_SENTENCE) <= 0.6
            assert await visit.overflow() <= 0
            row, tabs = visit.page.locator(".source-row"), visit.page.get_by_role("tab").last
            boxes = [await place.bounding_box() or {} for place in (tabs, row)]
            sides = sorted((box["x"], box["x"] + box["width"]) for box in boxes)
            assert (
                sides[0][1] <= sides[1][0] or boxes[0]["y"] + boxes[0]["height"] <= boxes[1]["y"]
            )  # next to each other, or below


class TestWhileItIsWritten:
    @pytest.mark.parametrize("font", FONTS)
    @pytest.mark.parametrize("width", [390, 1280])
    async def test_the_text_does_not_move_when_the_answer_ends(
        self, base: str, tmp_path: Path, font: str, width: int
    ) -> None:
        """The tabs are there from the start, one line shows the current step, and grey lines reserve space for the
        first words. This holds in every font, because no row above the text depends on the width of a button.
        """
        text = "The owl sleeps by day [1]."
        kept = [{"url": f"https://example.org/{n}", "title": "x"} for n in range(5)]
        async with chromium_with_font(font, tmp_path) as browser, visiting(browser, base, width) as visit:
            page = visit.page
            await visit.keep_none()
            await page.evaluate(STREAM)
            await visit.ask()
            for event in (
                {"type": "started"},
                {"type": "ranked", "query": "q", "kept": kept},
                {"type": "read", "url": kept[0]["url"], "status": "read", "chars": 9},
            ):
                await page.evaluate(SEND, event)
            await expect(page.locator(".steps summary")).to_have_text("Reading 1 of 5 · example.org")
            await expect(page.locator(".steps-list")).to_be_hidden()
            await expect(page.get_by_role("tab", name="Sources")).to_be_disabled()
            assert (await page.locator(".answer").bounding_box() or {"height": 0})["height"] > 90
            await page.evaluate(SEND, NUMBERED)
            await page.evaluate(SEND, {"type": "model_progress", "phase": "reading", "elapsed_s": 20.1})
            reads = re.compile("Writing the answer · the language model reads, 20 .* so far")
            await expect(page.locator(".steps summary")).to_have_text(reads)
            await page.evaluate(SEND, {"type": "token", "text": text})
            await expect(page.locator(".answer")).to_contain_text("sleeps")
            await expect(page.locator(".steps summary")).to_have_text("Writing the answer")
            top = await page.evaluate(TOP)
            await page.evaluate(SEND, {"type": "done", "response": response(text)})
            await visit.answered()
            assert await page.evaluate(TOP) == top
            await expect(page.get_by_role("tab", name="Sources (1)")).to_be_enabled()

    async def test_a_stopped_text_is_there_after_a_reload(self, browser: Browser, base: str) -> None:
        """The events of a stopped run are stored, so its address shows the text with its sources."""
        time = "2026-01-01T00:00:00Z"
        problem = {"code": "research_cancelled", "status": 409, "title": "Conflict", "detail": "It was cancelled."}
        times = {"created_at": time, "started_at": time, "finished_at": time}
        job = {"id": "r", "status": "cancelled", "problem": problem, **times}
        asked = {"query": "Do owls sleep?", "depth": "shallow"}
        events = [NUMBERED, {"type": "token", "text": "Owls sleep [1]."}, {"type": "failed", "problem": problem}]
        stream = "".join(
            f"id: {n}\ndata: {json.dumps({'request_id': 'r', **event})}\n\n" for n, event in enumerate(events, 1)
        )
        async with visiting(browser, base) as visit:
            page = visit.page
            thread = {"id": "r", "title": "Do owls sleep?", "researches": [{"id": "r"}]}
            await page.route("**/research/threads/r", lambda route: route.fulfill(json=thread))
            await page.route("**/research/r", lambda route: route.fulfill(json={**job, "request": asked}))
            events_of_run = {"content_type": "text/event-stream", "body": stream}
            await page.route("**/research/r/events", lambda route: route.fulfill(**events_of_run))
            await page.goto(f"{base}/#research/r")
            await expect(page.locator("#result").get_by_role("alert")).to_contain_text("citations were not checked")
            await expect(page.locator(".answer")).to_contain_text("Owls sleep")
            await expect(page.locator(".answer .cite")).to_have_count(1)
            await expect(page.locator(".actions").get_by_role("button", name="Copy")).to_be_visible()

    async def test_a_stopped_text_stays(self, browser: Browser, base: str) -> None:
        """The text written before a stop stays on the page, is marked as unchecked, and can be copied."""
        async with visiting(browser, base) as visit:
            page = visit.page
            await visit.keep_none()
            await page.evaluate(STREAM)
            await visit.ask()
            await page.evaluate(SEND, NUMBERED)
            await expect(page.get_by_role("button", name="Cancel")).to_be_visible()
            await page.evaluate(SEND, {"type": "token", "text": "Owls sleep [1]."})
            await page.get_by_role("button", name="Stop and keep").click()
            await expect(page.locator("#result").get_by_role("alert")).to_contain_text("citations were not checked")
            await expect(page.locator(".answer")).to_contain_text("Owls sleep")
            await expect(page.locator(".actions").get_by_role("button", name="Copy")).to_be_visible()
            assert await visit.violations() == []

    async def test_a_stopped_text_has_lexical_verdicts(self, browser: Browser, tmp_path: Path) -> None:
        """The server has the texts of the sources, so a stopped text gets lexical verdicts, at once and after a reload."""
        documents = tmp_path / "documents"
        documents.mkdir()
        (documents / "owls.md").write_text("# Owls\n\nOwls sleep by day. Owls weigh 4 kilos.\n", encoding="utf-8")
        text = "Owls sleep by day [1]. Owls weigh 9 kilos [1]. They hunt at "
        model = ChatServer(stream(*(chunk(f"{word} ") for word in text.split()), ending="hang"))
        arguments = ("--documents", str(documents), "--offline")
        settings = {"LLM_KIND": "vllm", "LLM_MODEL": "m"}
        async with (
            model.running(),
            serving_page(tmp_path, *arguments, **settings, LLM_BASE_URL=model.url) as address,
            visiting(browser, address) as visit,
        ):
            page = visit.page
            await visit.ask("Do owls sleep by day?")
            await expect(page.locator(".answer")).to_contain_text("9 kilos")
            await page.get_by_role("button", name="Stop and keep").click()
            for _ in range(2):
                await expect(page.locator("#result").get_by_role("alert")).to_contain_text("compared by their words")
                await expect(page.locator(".answer .cite.supported")).to_have_count(1)
                await expect(page.locator(".answer .cite.unsupported")).to_have_count(1)
                await expect(page.locator(".strip-count")).to_have_text("1 of 2 hold")
                await page.locator(".cite.unsupported").click()
                await expect(page.locator("#quote .source-text")).to_contain_text("Owls weigh 4 kilos")
                await page.reload()
