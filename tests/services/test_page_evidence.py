"""The evidence strip and the receipts of the page at /, in a real Chromium.

They show which sentences of an answer are supported.
"""

from __future__ import annotations

import json
import re
from typing import Any, Literal

import pytest
from playwright.async_api import Browser, Page, expect
from tests.services.browser import Visit, becomes, visiting
from tests.services.page_answers import QUOTE, SEND, SOURCES, begin, citation, end, long_answer, response

pytestmark = [pytest.mark.services, pytest.mark.asyncio(loop_scope="session")]

TEXT = (
    "Owls 🦉 sleep by day [1]. They supplied 9 percent of the calls [1]. They hunt at noon, when it is warm [1]. "
    "Nobody knows why they hoot. They may see red light [1]."
)
UNCITED = "Nobody knows why they hoot."
CONTENT = "😀 Owls sleep by day. They supplied 4 percent of the calls. Owls hunt at night."
STATEMENTS = (
    ("Owls 🦉 sleep by day", "Owls sleep by day.", "supported"),
    ("They supplied 9 percent of the calls", "They supplied 4 percent of the calls.", "unsupported"),
    ("They hunt at noon, when it is warm", "Owls hunt at night.", "partial"),
    ("They may see red light", "Owls sleep by day.", "unchecked"),
)
QUOTES = " ".join(f"Owls hunt at night {number}." for number in range(4))
CELLS = "[...document.querySelectorAll('.strip-band .cell')].map(cell => cell.dataset.verdict ?? 'grey')"
VERDICTS = ["supported", "unsupported", "partial", "uncited", "unchecked"]


def span(text: str, words: str) -> dict[str, int]:
    return {"start": text.index(words), "end": text.index(words) + len(words)}


def answer(**fields: Any) -> dict[str, Any]:
    """Return an answer with a sentence for each verdict.

    The check names the words of the second one that its source contradicts.
    """
    made = response(TEXT, metadata={"uncited_sentences": 1, "uncited": [span(TEXT, UNCITED)]}, **fields)
    made["raw_results"][0]["content"] = CONTENT
    made["citations"] = [citation(TEXT, statement, CONTENT, quote, verdict) for statement, quote, verdict in STATEMENTS]
    made["citations"][1]["difference"] = {"claimed": span(TEXT, "9"), "found": span(CONTENT, "4"), "kind": "number"}
    return made


async def show(visit: Visit, made: dict[str, Any]) -> None:
    await visit.play(made)
    await visit.ask()
    await visit.answered()


async def export(page: Page, *names: str) -> dict[str, str]:
    """Return the files of the answer's menu by their names."""
    files: dict[str, str] = {}
    for name in names:
        await page.locator(".tools .menu > summary").click()
        async with page.expect_download() as download:
            await page.get_by_role("button", name=name, exact=True).click()
        files[name] = (await (await download.value).path()).read_text(encoding="utf-8")
        await page.keyboard.press("Escape")
    return files


class TestStrip:
    async def test_one_cell_for_each_sentence(self, browser: Browser, base: str) -> None:
        """Cells are in the order of the text, proportional to the sentences, and followed by the number of supported
        sentences.
        """
        async with visiting(browser, base) as visit:
            await show(visit, answer())
            assert await visit.page.evaluate(CELLS) == VERDICTS
            await expect(visit.page.locator(".strip-count")).to_have_text("1 of 5 hold")
            widths = "[...document.querySelectorAll('.cell')].map(cell => cell.offsetWidth)"
            found = await visit.page.evaluate(widths)
            assert found[1] == max(found)
            assert found[0] == min(found)

    async def test_a_missing_statement_is_no_contradiction(self, browser: Browser, base: str) -> None:
        """It has its own colour and words. A contradiction is red."""
        made = answer()
        made["citations"][1]["finding"] = "contradicts"
        made["citations"][2] |= {"verdict": "unsupported", "finding": "absent"}
        async with visiting(browser, base) as visit:
            await show(visit, made)
            assert await visit.page.evaluate(CELLS) == ["supported", "unsupported", "absent", "uncited", "unchecked"]
            badges = visit.page.locator(".verdict-line .badge")
            assert await badges.all_inner_texts() == ["1 supported", "1 contradicted", "1 not found", "1 not checked"]

    async def test_the_strip_links_to_the_sentences(self, browser: Browser, base: str) -> None:
        """A click or the keys move to a sentence: one tab stop, arrow keys between cells, a name for each cell, and the
        focus on the marker.
        """
        async with visiting(browser, base, 390) as visit:
            page = visit.page
            await show(visit, answer())
            assert await page.locator(".cell[tabindex='0']").count() == 1
            await page.locator(".cell").first.focus()
            await page.keyboard.press("ArrowRight")
            await expect(page.locator(".strip-name")).to_contain_text(
                "the source says otherwise · They supplied 9 percent"
            )
            await page.keyboard.press("Enter")
            await expect(page.locator(".cite").nth(1)).to_be_focused()
            await page.locator(".cell").nth(3).click()
            shown = "[...CSS.highlights.get('sentence-shown')].map(String)"
            await becomes(page, shown, [UNCITED])

    async def test_the_table_has_the_same_content(self, browser: Browser, base: str) -> None:
        """Screen readers can read a table of all sentences with their verdicts and sources."""
        async with visiting(browser, base, 390) as visit:
            page = visit.page
            await show(visit, answer())
            await page.click(".strip-count")
            rows = page.locator(".strip-table tbody tr")
            await expect(rows).to_have_count(len(VERDICTS))
            await expect(rows.nth(1)).to_contain_text("They supplied 9 percent of the calls")
            await expect(rows.nth(3)).to_contain_text("no source")
            coloured = "row => getComputedStyle(row.querySelector('.badge')).color"
            colours = [await rows.nth(row).evaluate(coloured) for row in range(3)]
            assert len(set(colours)) == 3  # like the cells of the strip
            assert await visit.violations() == []
            assert await visit.overflow() <= 0

    async def test_it_grows_with_the_text(self, browser: Browser, base: str) -> None:
        """Grey cells appear with the sentences and get their colours with the verdicts. The text below does not move."""
        made = answer()
        top = "document.querySelector('.answer').getBoundingClientRect().top"
        async with visiting(browser, base) as visit:
            page = visit.page
            await begin(visit)
            before = await page.evaluate(top)
            await page.evaluate(SEND, {"type": "token", "text": TEXT})
            await becomes(page, CELLS, ["grey"] * 5)
            await page.evaluate(SEND, {"type": "verified", "citations": made["citations"], "pending": True})
            await becomes(page, f"{CELLS}.slice(0, 3)", VERDICTS[:3])
            await end(visit, made)
            assert await page.evaluate(CELLS) == VERDICTS
            assert await page.evaluate(top) == before

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    async def test_no_violation(self, browser: Browser, base: str, scheme: str) -> None:
        """axe finds nothing in both themes, with and without receipts."""
        for width in (390, 1440):
            async with visiting(browser, base, width, scheme) as visit:
                await show(visit, answer())
                assert await visit.violations() == []
                assert await visit.overflow() <= 0

    async def test_hundreds_of_sentences_fit(self, browser: Browser, base: str) -> None:
        """An answer of 540 sentences has 540 cells within the column of a phone."""
        async with visiting(browser, base, 390) as visit:
            await show(visit, long_answer())
            assert len(await visit.page.evaluate(CELLS)) == 540
            assert await visit.overflow() <= 0


def quotes(*sources: int, others: int = 0, **fields: Any) -> dict[str, Any]:
    """Return an extractive answer with a quote of each of these sources, and other sentences that are no copies."""
    parts, citations = [], []
    for number, source in enumerate((*sources, *[1] * others)):
        start = sum(map(len, parts))
        parts.append(f"Owls hunt at night {number} [{source}]. ")
        end, is_verbatim = start + parts[-1].index(" ["), number < len(sources)
        cited = {**QUOTE, "start": start, "end": end, "source_index": source, "verdict": "supported"}
        citations.append({**cited, "is_verbatim": is_verbatim})
    raw = [{**source, "content": QUOTES} for source in SOURCES]
    metadata = {"synthesizer": "extractive", **fields.pop("metadata", {})}
    return response(
        "".join(parts), citations=citations, sources=SOURCES[:2], raw_results=raw, metadata=metadata, **fields
    )


class TestQuotes:
    """A verbatim copy in an extractive answer is a quote, which may not answer the question."""

    async def test_quotes_have_no_green(self, browser: Browser, base: str) -> None:
        """Strip, table, markers, badges and dialog show quotes in another colour and with their own words."""
        async with visiting(browser, base) as visit:
            page = visit.page
            await show(visit, quotes(1, 2, 1))
            assert await page.evaluate(CELLS) == ["quoted"] * 3
            await expect(page.locator(".strip-count")).to_have_text("3 quotes from 2 sources")
            await page.click(".strip-count")
            await expect(page.locator(".strip-table tbody .badge").first).to_have_text("quoted word for word")
            assert await page.locator(".verdict-line .badge").all_inner_texts() == ["3 quoted word for word"]
            await expect(page.locator(".answer .cite.quoted")).to_have_count(3)
            await page.locator(".answer .cite").first.click()
            await expect(page.locator("#quote .verdict")).to_contain_text("It may say nothing on the question.")
            await expect(page.locator(".turn .supported, #quote .supported")).to_have_count(0)
            assert await visit.violations() == []

    @pytest.mark.parametrize(
        ("locale", "one", "several"),
        [
            ("en", "1 quote from 1 source", "3 quotes from 2 sources"),
            ("de", "1 Zitat aus 1 Quelle", "3 Zitate aus 2 Quellen"),
            ("ru", "1 цитата из 1 источника", "Цитат: 3, источников: 2"),
            ("zh-CN", "1 条引文，来自 1 个来源", "3 条引文，来自 2 个来源"),
            ("he", "ציטוט אחד ממקור אחד", "3 ציטוטים מ־2 מקורות"),
            ("ar", "اقتباس واحد من مصدر واحد", "الاقتباسات: 3، المصادر: 2"),
        ],
    )
    async def test_counts_are_right_in_each_language(
        self, browser: Browser, base: str, locale: str, one: str, several: str
    ) -> None:
        """The words fit one quote and several."""
        for made, line in ((quotes(1), one), (quotes(1, 2, 1), several)):
            async with visiting(browser, base, locale=locale) as visit:
                await show(visit, made)
                await expect(visit.page.locator(".strip-count")).to_have_text(line)

    @pytest.mark.parametrize(
        ("made", "line"), [(quotes(1, 1), "2 quotes from 1 source"), (quotes(1, 2, others=1), "3 of 3 hold")]
    )
    async def test_another_sentence_is_counted_as_before(
        self, browser: Browser, base: str, made: dict[str, Any], line: str
    ) -> None:
        """If one sentence is not a copy, the number of supported sentences is shown."""
        async with visiting(browser, base) as visit:
            await show(visit, made)
            await expect(visit.page.locator(".strip-count")).to_have_text(line)
            verdicts = ["quoted" if each["is_verbatim"] else "supported" for each in made["citations"]]
            assert await visit.page.evaluate(CELLS) == verdicts

    async def test_a_copy_that_a_model_wrote_is_supported(self, browser: Browser, base: str) -> None:
        """The model selected it as a statement of its answer, so it counts as supported."""
        async with visiting(browser, base) as visit:
            await show(visit, quotes(1, 2, metadata={"synthesizer": "m"}))
            assert await visit.page.evaluate(CELLS) == ["supported"] * 2
            await expect(visit.page.locator(".strip-count")).to_have_text("2 of 2 hold")

    async def test_files_mark_quotes_and_json_is_unchanged(self, browser: Browser, base: str) -> None:
        """Markdown and HTML have the counts and words of quotes. JSON has the server's verdict."""
        async with visiting(browser, base) as visit:
            page = visit.page
            await show(visit, quotes(1, 2))
            files = await export(page, "Markdown", "HTML", "JSON")
            assert visit.errors == []
        assert "▁▁ 2 quotes from 2 sources" in files["Markdown"]
        assert "**quoted word for word**" in files["Markdown"]
        assert 'aria-label="2 quotes from 2 sources"><i class="quoted"' in files["HTML"]
        assert {each["verdict"] for each in json.loads(files["JSON"])["citations"]} == {"supported"}

    async def test_a_copy_of_the_answer_begins_with_its_quotes(self, browser: Browser, base: str) -> None:
        """Its markers have no sign."""
        async with visiting(browser, base, permissions=["clipboard-read", "clipboard-write"]) as visit:
            await show(visit, quotes(1))
            await visit.page.locator(".actions").get_by_role("button", name="Copy", exact=True).click()
            await expect(visit.page.locator("#status")).to_have_text("Copied")
            copied = await visit.page.evaluate("navigator.clipboard.readText()")
        assert copied.startswith("1 quote from 1 source\n\nOwls hunt at night 0 [1].")


class TestFiles:
    async def test_exports_have_the_strip_and_the_sources(self, browser: Browser, base: str) -> None:
        """Markdown has a line of block characters, and HTML has cells.

        CSL-JSON and BibTeX list the sources with their dates.
        """
        made = answer()
        made["raw_results"][0]["published"] = "2025-03-01T08:00:00Z"
        async with visiting(browser, base) as visit:
            page = visit.page
            await show(visit, made)
            files = await export(page, "Markdown", "HTML", "CSL-JSON", "BibTeX")
            assert visit.errors == []
        assert "▁█▄░▒ 1 of 5 hold" in files["Markdown"]
        claimed = "They supplied 9 percent of the calls [1]: **the source says otherwise**"
        assert f"{claimed}\n  > They supplied 4 percent of the calls." in files["Markdown"]
        assert "calls [1]: <strong>the source says otherwise</strong><blockquote>" in files["HTML"]
        assert '<i class="unsupported" style="flex-grow: 36;"></i>' in files["HTML"]
        assert json.loads(files["CSL-JSON"]) == [
            {
                "id": "source-1", "type": "webpage", "title": "A source", "URL": "https://example.org/a",
                "issued": {"date-parts": [[2025, 3, 1]]},
            }
        ]  # fmt: skip
        assert files["BibTeX"] == (
            "@online{source1,\n  title = {A source},\n  url = {https://example.org/a},\n  date = {2025-03-01},\n}\n"
        )


class TestSources:
    @pytest.mark.parametrize("media", ["screen", "print"])
    async def test_a_statement_precedes_its_verdict_and_the_quote(
        self, browser: Browser, base: str, media: Literal["screen", "print"]
    ) -> None:
        """ "Not found" directly above a quote would be misleading, because the quote itself is in the source."""
        async with visiting(browser, base) as visit:
            page = visit.page
            await show(visit, answer())
            await page.get_by_role("tab", name="Sources").click()
            await page.emulate_media(media=media)
            shown = await page.locator(".source-list .quotes li").nth(1).inner_text()
            parts = ("supplied 9 percent", "the source says otherwise", "In the source", "supplied 4 percent")
            places = [shown.index(part) for part in parts]
            assert places == sorted(places)
            assert await visit.violations() == []


class TestForeignText:
    async def test_bidirectional_controls_and_other_hosts_are_not_shown(self, browser: Browser, base: str) -> None:
        """Bidirectional controls and stacked combining marks in titles are not shown, and a link shows no name before
        its host.
        """
        url = "https://bank.example@example.org/a"
        source = {"index": 1, "title": "report\u202efdp.exe Z" + "\u0301" * 40, "url": url}
        made = response(f"Owls sleep [1]. [Here]({url}).", sources=[source])
        made["raw_results"][0] |= {"title": source["title"], "url": url}
        async with visiting(browser, base) as visit:
            await show(visit, made)
            title = await visit.page.locator(".source-name").text_content()
            assert title == "reportfdp.exe Z" + "\u0301" * 4
            await visit.page.get_by_role("tab", name="Sources").click()
            hrefs = "[...document.querySelectorAll('.answer a, .source-title a')].map(link => link.href)"
            assert await visit.page.evaluate(hrefs) == ["https://example.org/a"] * 2

    async def test_unsafe_characters_are_removed_everywhere(self, browser: Browser, base: str) -> None:
        """Bidirectional controls and excess combining marks are removed in titles, excerpts, questions, answers,
        quotes, the source panel, files and the clipboard.
        """
        bad = "owls \u202e\u2067see Z" + "\u0301" * 40
        content = f"{bad}. It hunts at night."
        source = {"index": 1, "title": bad, "url": "https://example.org/a%E2%80%AEb"}
        paper = {"index": 2, "title": "", "url": "file:///papers/a%E2%80%AEb.pdf"}
        text = f"It hunts {bad} [1]. So it does [2].\r\n\r\n# {bad}\r\n\r\n{bad}"
        asked = {"related_questions": [f"{bad}?"], "understood_question": bad}
        made = response(text, query=bad, sources=[source, paper], metadata=asked)
        made["raw_results"] = [{**source, "snippet": bad, "content": content}, {**paper, "content": content}]
        made["citations"] = [citation(text, f"It hunts {bad}", content, content, "unsupported")]
        shown = """document.title + [...document.querySelectorAll('body *')].map(part => part.textContent
            + [...part.attributes].filter(({name}) => name !== 'href').map(({value}) => value).join(' ')).join(' ')"""
        signs = re.compile(r"[\u202a-\u202e\u2067]|\u0301{5}")
        async with visiting(browser, base, permissions=["clipboard-read", "clipboard-write"]) as visit:
            page = visit.page
            await page.route("**/research/abc/sources/*", lambda route: route.fulfill(json={"text": content}))
            await show(visit, made)
            assert await page.locator(".cite").count() == 2
            await page.locator(".cite").first.click()
            await expect(page.locator("#quote .source-text mark")).to_have_count(1)
            assert signs.findall(await page.evaluate(shown)) == []
            await page.keyboard.press("Escape")
            for name in ("Markdown", "HTML"):
                await page.locator(".tools .menu > summary").click()
                async with page.expect_download() as download:
                    await page.get_by_role("button", name=name, exact=True).click()
                assert signs.findall((await (await download.value).path()).read_text(encoding="utf-8")) == []
                await page.keyboard.press("Escape")
            await page.locator(".actions").get_by_role("button", name="Copy", exact=True).click()
            await expect(page.locator("#status")).to_have_text("Copied")
            assert signs.findall(await page.evaluate("navigator.clipboard.readText()")) == []
            await page.get_by_role("tab", name="Sources").click()
            assert signs.findall(await page.evaluate(shown)) == []
            await page.get_by_role("tab", name="Answer").click()
            await page.get_by_role("button", name="owls").last.click()  # a suggested question
            await expect(page.locator(".turn")).to_have_count(2)
            assert signs.findall(await page.evaluate(shown)) == []

    async def test_the_user_part_of_an_address_is_never_shown(self, browser: Browser, base: str) -> None:
        """The user part of an address is left out in link labels, copies and files."""
        url = "https://name:secret@example.org/a"
        made = response(f"Owls sleep [1]. See <{url}>.", sources=[{"index": 1, "title": url, "url": url}])
        made["raw_results"][0] |= {"title": url, "url": url}
        async with visiting(browser, base) as visit:
            page = visit.page
            await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
            await show(visit, made)
            await page.get_by_role("tab", name="Sources").click()
            links = await page.locator(".answer a, .source-title a").all_text_contents()
            assert links == ["https://example.org/a"] * 2
            await page.get_by_role("tab", name="Answer").click()
            await page.get_by_role("button", name="Copy", exact=True).click()
            await becomes(page, "navigator.clipboard.readText().then(text => text.includes('https://example.org/a'))")
            sources = (await page.evaluate("navigator.clipboard.readText()")).rpartition("[1]")[2]
            assert "secret" not in sources
            for name in ("CSL-JSON", "BibTeX"):
                await page.locator(".tools .menu > summary").click()
                async with page.expect_download() as download:
                    await page.get_by_role("button", name=name, exact=True).click()
                text = (await (await download.value).path()).read_text(encoding="utf-8")
                assert "https://example.org/a" in text
                await page.keyboard.press("Escape")

    async def test_verdicts_are_visible_in_forced_colours(self, browser: Browser, base: str) -> None:
        """In forced colours the strip keeps its colours, cells differ in height, and each marker has a border."""
        async with visiting(browser, base, forced_colors="active") as visit:
            await show(visit, answer())
            cells = """[...document.querySelectorAll('.strip-band .cell')].map(cell => {
                const {backgroundColor, height} = getComputedStyle(cell, '::before');
                return `${backgroundColor} ${height}`;
            })"""
            drawn = await visit.page.evaluate(cells)
            assert len(set(drawn[:3])) == 3
            assert "rgba(0, 0, 0, 0)" not in "".join(drawn[:3])
            borders = "[...document.querySelectorAll('.cite')].map(marker => getComputedStyle(marker).borderColor)"
            ground = await visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert ground not in await visit.page.evaluate(borders)
            assert await visit.violations() == []

    async def test_local_services_are_not_listed_as_sent_data(self, browser: Browser, base: str) -> None:
        """A service at a loopback address is not listed under sent data."""
        row = {"kind": "query", "requests": 1, "bytes": 9, "via": None}
        here = ("127.0.0.1:8080", "localhost", "model.localhost:1", "[::1]:9", "::ffff:127.0.0.1")
        sent = [{**row, "host": host} for host in (*here, "api.example.org")]
        async with visiting(browser, base) as visit:
            await show(visit, response("Owls sleep.", metadata={"sent_to": sent}))
            await visit.page.get_by_role("tab", name="What left this machine").click()
            await expect(visit.page.locator(".ledger tbody tr")).to_have_count(1)
            await expect(visit.page.locator(".ledger tbody th")).to_have_text("api.example.org")

    async def test_a_deep_list_stays_within_the_column(self, browser: Browser, base: str) -> None:
        """On a phone, too."""
        text = "".join(f"{'  ' * depth}- Level {depth}\n" for depth in range(30))
        async with visiting(browser, base, 390) as visit:
            await show(visit, response(text))
            width = "Math.min(...[...document.querySelectorAll('.answer li')].map(item => item.clientWidth))"
            assert await visit.page.evaluate(width) > 150
            assert await visit.overflow() <= 0


class TestTwoTabs:
    async def test_a_tab_shows_what_another_one_asked(self, browser: Browser, base: str) -> None:
        """A tab is updated when it gets the focus."""
        runs = [{"id": "abc", "query": "q", "depth": "deep"}]
        async with visiting(browser, base) as visit:
            page = visit.page
            await visit.play_stored(response("Owls sleep."))
            thread = {"id": "abc", "title": "q", "researches": runs}
            await page.route("**/research/threads/abc", lambda route: route.fulfill(json=thread))
            second = {"query": "And at night?", "depth": "deep", "response": response("They hunt.")}
            await page.route("**/research/def", lambda route: route.fulfill(json=second))
            await page.goto(f"{base}/#research/abc")
            await visit.answered()
            runs.append({"id": "def", "query": "And at night?", "depth": "deep"})
            await page.evaluate("dispatchEvent(new Event('focus'))")
            await expect(page.locator(".turn-title")).to_have_text(["q", "And at night?"])
            await visit.answered(2)


class TestReceipts:
    async def test_a_receipt_is_next_to_its_sentence(self, browser: Browser, base: str) -> None:
        """On a wide screen the margin names the source and strikes out different words.

        On a narrow screen the card does.
        """
        async with visiting(browser, base, 1440) as visit:
            page = visit.page
            await show(visit, answer())
            receipt = page.locator(".receipt")
            await expect(receipt).to_have_count(1)
            await expect(receipt).to_contain_text("example.org")
            await expect(receipt.locator("del")).to_have_text("9")
            await expect(receipt.locator("ins")).to_have_text("4")
            await expect(receipt).to_contain_text("They supplied 9 4 percent of the calls", use_inner_text=True)
            beside = """() => {
                const [line] = CSS.highlights.get('sentence-unsupported');
                const range = new Range();
                range.setStart(line.startContainer, line.startOffset);
                range.setEnd(line.endContainer, line.endOffset);
                const [sentence, receipt] = [range, document.querySelector('.receipt')]
                    .map(part => part.getBoundingClientRect());
                return receipt.left > document.querySelector('.answer').getBoundingClientRect().right
                    && Math.abs(receipt.top - sentence.top) < 12;
            }"""
            await becomes(page, f"({beside})()")
            await page.set_viewport_size({"width": 900, "height": 800})
            await expect(receipt).to_be_hidden()
            await page.locator(".cite").nth(1).hover()
            await expect(page.locator(".cite-card .difference")).to_contain_text("9 4", use_inner_text=True)

    async def test_the_panel_marks_the_words_in_both_texts(self, browser: Browser, base: str) -> None:
        """Both the answer's number and the source's number are marked."""
        async with visiting(browser, base) as visit:
            await show(visit, answer())
            await visit.page.locator(".cite").nth(1).click()
            await expect(visit.page.locator("#quote blockquote mark")).to_have_text("9")
            await expect(visit.page.locator(".source-text mark.found")).to_have_text("4")

    async def test_without_a_difference_there_is_only_a_card(self, browser: Browser, base: str) -> None:
        """If the check only has doubts, there is a card and no receipt."""
        made = answer()
        del made["citations"][1]["difference"]
        async with visiting(browser, base, 1440) as visit:
            await show(visit, made)
            await expect(visit.page.locator(".receipt")).to_have_count(0)
            await expect(visit.page.locator(".receipts")).to_be_hidden()
