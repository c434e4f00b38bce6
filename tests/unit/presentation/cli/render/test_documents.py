"""Answers as files: readable, self-contained, and harmless whatever strangers wrote into them."""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from tests.support.cases import for_each
from tests.unit.presentation.cli.fakes import ANSWER, FOUND, MARKED, SENTENCE, piped_console, terminal_console

from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.citation_dtos import Citation, Verdict
from modules.llm_platform.domain.dtos.source_dtos import SourceRef
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchResponse, WebSearchResultItem
from modules.llm_platform.presentation.cli.exit_codes import CommandError
from modules.llm_platform.presentation.cli.output import OutputOptions, get_file_format, replace_file, write_file
from modules.llm_platform.presentation.cli.render.document import (
    research_html,
    research_markdown,
    search_html,
    search_markdown,
)
from modules.llm_platform.presentation.cli.render.json import search_json, write_json, write_model_json
from modules.llm_platform.presentation.cli.render.terminal import ABSENT, mark_unsupported, render_sources

OF_THE_PAGE = frozenset(
    {"html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "ol", "ul", "li", "a", "span"}
)
OF_MARKDOWN = frozenset(
    {"blockquote", "code", "pre", "em", "strong", "br", "hr", "table", "thead", "tbody", "tr", "th", "td"}
)
HARMLESS_TAGS = OF_THE_PAGE | OF_MARKDOWN | {"h3", "h4", "h5", "h6"}


def terminal_text(answer: ResearchResponse) -> str:
    return "\n".join(line.text for line in render_sources(answer))


class Page(HTMLParser):
    """The tags and addresses of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.attributes: set[str] = set()
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]

    def handle_data(self, data: str) -> None:
        self.words += data


def with_synthesis(text: str, *sources: SourceRef) -> ResearchResponse:
    return ANSWER.model_copy(update={"synthesis": text, "sources": sources or ANSWER.sources, "citations": ()})


CAFE = "doc:caf%C3%A9/%D0%BC%D0%B5%D0%BD%D1%8E%20%60%E6%B8%A9%60%0A%FF.md"


def on_screen(answer: ResearchResponse) -> str:
    return "\n".join(line.text for line in render_sources(answer))


class TestFileNames:
    @for_each("show", [research_html, research_markdown, on_screen])
    def test_document_path_is_decoded_for_display(self, show: Callable[[ResearchResponse], str]) -> None:
        """Letters beyond ASCII and blanks are no %D0%B5; a line end within a name breaks no line."""
        source = SourceRef(index=1, title="Menu", url=CAFE)
        assert "doc:café/меню `温` \ufffd.md" in show(with_synthesis("Words. [1]", source))

    def test_json_keeps_the_url(self) -> None:
        """JSON keeps the URL, which can be sent back."""
        source = SourceRef(index=1, title="Menu", url=CAFE)
        assert json.loads(write_model_json(with_synthesis("Words. [1]", source)))["sources"][0]["url"] == CAFE

    @for_each("show", [research_html, research_markdown, on_screen])
    def test_web_url_is_not_decoded(self, show: Callable[[ResearchResponse], str]) -> None:
        """What can be opened is shown as it can be opened."""
        source = SourceRef(index=1, title="Menu", url="https://example.org/caf%C3%A9")
        assert "https://example.org/caf%C3%A9" in show(with_synthesis("Words. [1]", source))

    def test_file_name_with_backticks_stays_code(self) -> None:
        """In Markdown it is fenced by more of them."""
        source = SourceRef(index=1, title="Menu", url="doc:a%60%60b.md")
        assert "- [1] Menu ``` doc:a``b.md ```" in research_markdown(with_synthesis("Words. [1]", source))


class TestHtml:
    def test_html_has_all_parts_of_the_answer(self) -> None:
        """Question, answer, sources with their numbers, quotes with their verdicts, notes."""
        page = Page(research_html(ANSWER))
        marked = "Nobody knows why. [2] ○ not found"
        for part in ("What is asyncio?", marked, "asyncio — docs", "✔ supported 0.93", "captcha", "1.2 s"):
            assert part in page.words
        assert page.links.count("https://docs.example.org/asyncio") == 1
        assert "doc:notes/a.md" in page.words

    def test_html_lists_what_has_numbers_in_order(self) -> None:
        """The sources are a numbered list with their own numbers, and the citations are a bullet list."""
        page = research_html(ANSWER)
        order = [page.index(part) for part in ("<h2>Sources</h2>\n<ol>", "</ol>", "<h2>Citations</h2>\n<ul>", "</ul>")]
        assert order == sorted(order)
        numbers = [f'<li id="source-{source.index}" value="{source.index}">' for source in ANSWER.sources]
        assert len(numbers) > 1
        assert all(page[order[0] : order[1]].count(number) == 1 for number in numbers)
        assert "<h2>Results</h2>\n<ol>" in search_html(_found("A title"))

    def test_a_source_in_another_language_says_which(self) -> None:
        sources = tuple(source.model_copy(update={"language": "fr"}) for source in ANSWER.sources)
        answer = ANSWER.model_copy(update={"sources": sources})
        assert "- [2] Notes `doc:notes/a.md` (French)\n" in research_markdown(answer)
        assert "</a> (French)</li>" in research_html(answer)

    def test_markers_lead_to_their_sources(self) -> None:
        """[1] is a link inside the page; a number that is no source's is text; code is left alone."""
        text = research_html(with_synthesis("Words. [1][2] And [9], and `a[1]`."))
        assert 'Words. <a href="#source-1">[1]</a><a href="#source-2">[2]</a> And [9]' in text
        assert "<code>a[1]</code>" in text
        assert 'id="source-1"' in text

    def test_html_loads_nothing(self) -> None:
        """The file has no external script, image or style sheet, and its policy forbids them."""
        page = research_html(ANSWER)
        assert "default-src &#x27;none&#x27;" in page or "default-src 'none'" in page
        assert not Page(page).tags & {"script", "img", "link", "iframe"}

    @for_each(
        "hostile",
        [
            "<script>alert(1)</script>",
            "<img src=x onerror=alert(1)>",
            "[click](javascript:alert(1))",
            "[click](https://evil.example/)",
            "![pixel](https://evil.example/p.gif)",
            "[1]: javascript:alert(1)\n\n[1]",
            "<https://evil.example/auto>",
            '"><svg onload=alert(1)>',
            "```\n</code></pre><script>alert(1)</script>\n```",
        ],
    )
    def test_hostile_answers_are_escaped(self, hostile: str) -> None:
        """Only the address of a source becomes a link, and no tag of the answer is kept."""
        for text in (
            research_html(with_synthesis(hostile)),
            research_html(_titled(hostile)),
            search_html(_found(hostile)),
        ):
            page = Page(text)
            assert page.tags <= HARMLESS_TAGS
            assert not [name for name in page.attributes if name.startswith("on")]
            assert not [link for link in page.links if "evil" in link or "script" in link]

    @given(st.text(max_size=200))
    def test_any_answer_renders_to_harmless_html(self, text: str) -> None:
        """Whatever the text is, tags and links stay ours."""
        page = Page(research_html(with_synthesis(text)))
        assert page.tags <= HARMLESS_TAGS
        assert set(page.links) <= {"https://docs.example.org/asyncio", "#source-1", "#source-2"}

    def test_link_to_a_source_is_kept(self) -> None:
        """The answer may link to sources that it cites."""
        address = "https://docs.example.org/asyncio"
        assert f'<a href="{address}">here</a>' in research_html(with_synthesis(f"Read [here]({address})."))

    def test_empty_search_has_a_message(self) -> None:
        """A search without results is written as a page with a message."""
        assert "Nothing was found." in search_html(WebSearchResponse(query="x"))


class TestMarkdown:
    def test_markdown_has_all_parts_of_the_answer(self) -> None:
        """Headings, the answer as written, sources as links, quotes below their sentences."""
        text = research_markdown(ANSWER)
        assert text.startswith("# What is asyncio?\n\n▁▆ 1 of 2 hold\n\n" + MARKED)
        assert "- [1] [asyncio — docs](<https://docs.example.org/asyncio>)" in text
        assert "- [2] Notes `doc:notes/a.md`" in text
        assert f"- {SENTENCE} [1]: ✔ supported 0.93\n  > {SENTENCE}" in text
        assert "- searxng/google: captcha" in text

    @pytest.mark.parametrize("show", [research_html, research_markdown])
    def test_verdict_of_a_model_is_labelled(self, show: Callable[[ResearchResponse], str]) -> None:
        """A verdict of a model is labelled, together with the lexical verdict."""
        judged = {"checked_by": "model", "word_verdict": "unsupported", "score": 0.1}
        answer = ANSWER.model_copy(update={"citations": (ANSWER.citations[0].model_copy(update=judged),)})
        assert "supported by the model (words: unsupported 0.10)" in show(answer)

    @for_each("show", [research_html, research_markdown, terminal_text])
    def test_a_source_that_the_platform_found_is_labelled(self, show: Callable[[ResearchResponse], str]) -> None:
        """Citations added by the platform are labelled."""
        found = ANSWER.citations[0].model_copy(update={"cited_by": "platform"})
        assert "source found by the platform" in show(ANSWER.model_copy(update={"citations": (found,)}))
        assert "found by the platform" not in show(ANSWER)

    def test_quote_has_no_score(self) -> None:
        """An answer made of quotes has nothing to weigh, a model's sentence has; JSON keeps verdict and score for both."""
        citation = ANSWER.citations[0].model_copy(update={"score": 1.0, "is_verbatim": True})
        quoted = ANSWER.model_copy(update={"citations": (citation,)})
        model = quoted.metadata.model_copy(update={"synthesizer": "openai"})
        written = quoted.model_copy(update={"metadata": model})
        for show in (
            research_markdown,
            research_html,
            lambda answer: "\n".join(line.text for line in render_sources(answer)),
        ):
            assert "quoted word for word" in show(quoted)
            assert "1.00" not in show(quoted)
            assert "supported 1.00" in show(written)
        assert '"verdict":"supported","score":1.0' in quoted.model_dump_json()

    def test_search_is_a_numbered_list(self) -> None:
        """One item for each result."""
        assert search_markdown(FOUND).startswith("# asyncio\n\n1. [One](<https://example.org/1>)\n   First.\n2. [Two]")
        assert "Nothing was found." in search_markdown(WebSearchResponse(query="x"))

    @given(st.text(alphabet="ab1.[]()<>*_`#|&~\\!+=\n -", min_size=1, max_size=40))
    def test_title_cannot_add_markdown(self, title: str) -> None:
        """A hostile title adds no link, and its text is kept."""
        rendered = MarkdownIt("commonmark").render(search_markdown(_found(title)))
        page = Page(rendered)
        assert set(page.links) <= {"https://example.org/a%20b%3Cc%3E"}
        assert page.tags <= {"h1", "ol", "li", "a", "p"}
        assert html.unescape(rendered).count("script") == 0


class TestJson:
    def test_control_characters_are_escaped_and_round_trip(self) -> None:
        """JSON for a terminal is safe, and says the same."""
        text = write_json({"a": "x\x9b\u202e\x7f\ud800é中"})
        assert not set(text) & set("\x9b\u202e\x7f\ud800")
        assert "é中" in text
        assert json.loads(text) == {"a": "x\x9b\u202e\x7f\ud800é中"}

    def test_search_json_is_that_of_the_http_interface(self) -> None:
        """Command line and server leave out the same fields."""
        from modules.llm_platform.presentation.rest.search_routes import HIDDEN_FIELDS

        assert json.loads(search_json(FOUND)) == json.loads(FOUND.model_dump_json(exclude=HIDDEN_FIELDS))


class TestOutputFile:
    @pytest.mark.parametrize(
        ("name", "kind"),
        [("a.md", "md"), ("a.HTML", "html"), ("a.htm", "html"), ("b.json", "json"), ("a.Sealed.ZIP", "sealed")],
    )
    def test_suffix_selects_the_format(self, name: str, kind: str, tmp_path: Path) -> None:
        """The suffix alone selects the format, without another option."""
        assert get_file_format(tmp_path / name) == kind

    def test_a_format_may_be_of_bytes(self, tmp_path: Path) -> None:
        """An archive is written unchanged, and a text ends with a line break."""
        console = piped_console()[0]
        write_file(console, tmp_path / "a.zip", b"PK\x00\xff")
        write_file(console, tmp_path / "a.md", "text")
        assert [(tmp_path / name).read_bytes() for name in ("a.zip", "a.md")] == [b"PK\x00\xff", b"text\n"]

    def test_folder_is_refused_as_output_file(self, tmp_path: Path) -> None:
        """A name that is taken by a folder is refused before any work."""
        (tmp_path / "a.md").mkdir()
        with pytest.raises(typer.BadParameter, match="is a folder"):
            OutputOptions(file=tmp_path / "a.md").check(piped_console()[0])

    def test_unwritable_folder_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Better known before the answer is paid for."""
        monkeypatch.setattr(os, "access", lambda *_: False)
        with pytest.raises(typer.BadParameter, match="not writable"):
            OutputOptions(file=tmp_path / "a.md").check(piped_console()[0])

    def test_failed_write_keeps_the_old_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """After a failed write the old file is unchanged, and no temporary file is left."""
        target = tmp_path / "a.md"
        replace_file(target, "old")

        def full(_: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(CommandError, match="No space left on device"):
            write_file(piped_console()[0], target, "new")
        assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]

    def test_symbolic_link_is_kept(self, tmp_path: Path) -> None:
        """Writing through a symbolic link replaces the target file."""
        real, link = tmp_path / "real.md", tmp_path / "link.md"
        real.write_text("old")
        link.symlink_to(real)
        replace_file(link, "new \ud800")
        assert link.is_symlink()
        assert real.read_text() == "new ?"

    def test_output_file_has_default_permissions(self, tmp_path: Path) -> None:
        """Not the narrow ones of a temporary file."""
        (tmp_path / "plain").write_text("")
        replace_file(tmp_path / "a.md", "x")
        assert (tmp_path / "a.md").stat().st_mode == (tmp_path / "plain").stat().st_mode

    @pytest.mark.parametrize(("answer", "replaced"), [("y\n", True), ("n\n", False), ("\n", False)])
    def test_existing_file_is_replaced_after_confirmation(self, answer: str, replaced: bool, tmp_path: Path) -> None:
        """Only on a terminal, only without --yes, and no is the default."""
        target = tmp_path / "a.md"
        target.write_text("old")
        console, _, err = terminal_console(answer)
        try:
            OutputOptions(file=target).check(console)
            agreed = True
        except CommandError:
            agreed = False
        assert agreed == replaced
        assert "replace it? [y/N]" in err.getvalue()
        OutputOptions(file=target, prompts_enabled=False).check(console)
        OutputOptions(file=target).check(piped_console()[0])


def _titled(title: str) -> ResearchResponse:
    return with_synthesis("Words. [1]", SourceRef(index=1, title=title, url="javascript:alert(1)"))


def _found(title: str) -> WebSearchResponse:
    item = WebSearchResultItem(title=title, url="https://example.org/a b<c>", snippet=title)
    return WebSearchResponse(query=title, results=(item,))


class TestUnsupported:
    """A sentence that its source does not support is marked in place for people. Programs get the text unchanged."""

    @staticmethod
    def answer(synthesis: str, *verdicts: tuple[str, int, Verdict]) -> ResearchResponse:
        cited = tuple(
            Citation(
                start=(at := synthesis.index(message)),
                end=at + len(message),
                source_index=number,
                verdict=verdict,
                score=0.5,
            )
            for message, number, verdict in verdicts
        )
        return ANSWER.model_copy(update={"synthesis": synthesis, "citations": cited})

    @for_each(
        ("synthesis", "verdicts", "marked"),
        [
            ("It is so [1].", [("It is so", 1, "supported")], "It is so [1]."),
            ("It is so [1].", [("It is so", 1, "partial")], "It is so [1]."),
            ("It is so [1].", [("It is so", 1, "unsupported")], "It is so [1] @."),
            ("It is so. [1] B.", [("It is so.", 1, "unsupported")], "It is so. [1] @ B."),
            (
                "It is so [1][2]. B.",
                [("It is so", 1, "supported"), ("It is so", 2, "unsupported")],
                "It is so [1][2] @. B.",
            ),
            (
                "It is so [1][2]. B.",
                [("It is so", 1, "unsupported"), ("It is so", 2, "partial")],
                "It is so [1] @[2]. B.",
            ),
            (
                "It is so [1][2]. B.",
                [("It is so", 1, "unsupported"), ("It is so", 2, "unsupported")],
                "It is so [1][2] @. B.",
            ),
            ("As [2] says, it is", [("As [2] says, it is", 2, "unsupported")], "As [2] says, it is @"),
            (
                "- a [1]\n- `b` c [2]\n\n| d [1] | e |",
                [("a", 1, "unsupported"), ("`b` c", 2, "unsupported"), ("d", 1, "unsupported")],
                "- a [1] @\n- `b` c [2] @\n\n| d [1] @ | e |",
            ),
            ("本当です。[1] 次。", [("本当です。", 1, "unsupported")], "本当です。[1] @ 次。"),
        ],
    )
    def test_mark_follows_the_unsupported_citation(
        self, synthesis: str, verdicts: list[tuple[str, int, Verdict]], marked: str
    ) -> None:
        """The mark follows the marker of the failing source, or all markers if every source of the sentence fails."""
        answer = self.answer(synthesis, *verdicts)
        assert mark_unsupported(answer) == marked.replace("@", ABSENT)
        assert json.loads(write_model_json(answer))["synthesis"] == synthesis

    def test_html_colours_the_mark(self) -> None:
        """And the marker before it still leads to its source."""
        page = research_html(self.answer("It is so [2].", ("It is so", 2, "unsupported")))
        assert '<a href="#source-2">[2]</a> <strong class="absent">○ not found</strong>.' in page


class TestEscapedOnce:
    """What a source writes as `<name>` is read as `<name>`, wherever it is shown."""

    SAID = "Use git diff [&lt;diff-option>] with `<path>` & **care**"
    READ = "Use git diff [<diff-option>] with `<path>` & care"
    QUOTE = "Use git diff [<diff-option>] with `<path>` & care."

    def answer(self, verdict: Verdict) -> ResearchResponse:
        cited = Citation(start=0, end=len(self.SAID), source_index=1, quote=self.QUOTE, verdict=verdict, score=0.5)
        title = SourceRef(index=1, title="git-diff(1) <manual> A&B", url="doc:git-diff.html")
        return ANSWER.model_copy(
            update={"synthesis": f"{self.SAID} [1].", "sources": (title,), "citations": (cited,), "query": "<a> & <b>?"}
        )

    @for_each("verdict", ["supported", "unsupported", "unchecked"])
    def test_html(self, verdict: Verdict) -> None:
        """In answer, quote, title and citation, every entity is one escaped character, and no entity of the text is
        interpreted.
        """
        page = research_html(self.answer(verdict))
        assert "&amp;lt;" not in page
        words = Page(page).words
        assert words.count(self.READ) >= 2  # the citation and the quote; in the answer the code has its own tag
        assert "git-diff(1) <manual> A&B" in words
        assert "<a> & <b>?" in words

    @for_each("verdict", ["supported", "unsupported", "unchecked"])
    def test_markdown(self, verdict: Verdict) -> None:
        """The file rendered again shows the characters of the source, in the list of citations too."""
        words = Page(MarkdownIt().render(research_markdown(self.answer(verdict)))).words
        assert "&lt;" not in words
        assert words.count(self.READ) == 2  # the citation and the quote
        assert "git-diff(1) <manual> A&B" in words

    @for_each("verdict", ["supported", "unsupported", "unchecked"])
    def test_terminal(self, verdict: Verdict) -> None:
        """Below an answer nothing is Markdown: entities and escapes are resolved."""
        console, out, _ = terminal_console()
        answer = self.answer(verdict)
        console.print_markdown(mark_unsupported(answer))
        console.print_lines(render_sources(answer))
        printed = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()).split())  # lines end between words
        assert "&lt;" not in printed
        assert f"“{self.READ if verdict == 'unsupported' else self.QUOTE}”" in printed
