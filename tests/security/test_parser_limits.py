"""What a parser's process is allowed to do, and how much memory hostile documents take in it."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from tests.security.hostile_documents import DOCX_BYTES, FILES, PAGES
from tests.security.parser_attacks import watched
from tests.support.cases import for_each

from modules.llm_platform.infrastructure.parsing import html_limits, html_page, limits
from modules.llm_platform.infrastructure.parsing.article import ARTICLE_HTML_CHARS
from modules.llm_platform.infrastructure.parsing.decoding import UnreadableDocument
from modules.llm_platform.infrastructure.parsing.html_limits import (
    HTML_DEPTH,
    TooDeepError,
    TooManyElementsError,
    limit_html,
)
from modules.llm_platform.infrastructure.parsing.nodes import TERM_MARK, parse
from modules.llm_platform.infrastructure.parsing.parser_process import SCRIPT, Parsed, ParserProcess

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the limits are Linux's")

MAX_RESIDENT_MB = 400
MAX_FILE_MB = 80  # documents of this size can be parsed within the time limit
SHARE = 6  # test documents have one part in SHARE of what a parser reads at most
CPU_S = 1.0
NO_ARTICLE = f"<!--{'x' * ARTICLE_HTML_CHARS}-->"  # no article is extracted from a page of this length
PATIENCE_S = 120.0
# A program that drops the same privileges as a parser, and then tries to use them.
CONFINED = """
import importlib.util, os, socket, sys
def bootstrap(path):
    spec = importlib.util.spec_from_file_location("bootstrap", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.import_child()
bootstrap(sys.argv[1])
from modules.llm_platform.infrastructure.parsing.limits import confine
before = os.readlink("/proc/self/ns/net")
confine()
print("namespace" if os.readlink("/proc/self/ns/net") != before else "none")
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[2])), 5).close()
    print("connected")
except OSError:
    print("refused")
try:
    with open(sys.argv[3], "wb", buffering=0) as file:
        file.write(b"a" * 900_000)
        file.write(b"a" * 900_000)
        file.write(b"a" * 900_000)
    print("written")
except OSError:
    print("not written")
"""


class WatchedParser(ParserProcess):
    """Gives access to the process id of its child."""

    @property
    def pid(self) -> int:
        assert self._child is not None
        return self._child.pid

    def status(self, name: str) -> str:
        found = re.search(rf"^{name}:\s+(\S+)", Path(f"/proc/{self.pid}/status").read_text(), re.MULTILINE)
        return found[1] if found else ""


def test_a_parser_inherits_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's environment with its API keys is not passed to the parser, which still finds its libraries."""
    monkeypatch.setenv("LLM_API_KEY", "a-secret-of-the-server")
    with WatchedParser() as parser:
        assert parser.page("<p>Grüße an alle.").text == "Grüße an alle."
        assert b"secret" not in Path(f"/proc/{parser.pid}/environ").read_bytes()


def test_a_parser_gives_up_what_it_does_not_need() -> None:
    """A parser cannot start processes or gain privileges.

    Its writes are limited, it writes no core dump, and the kernel kills it first.
    """
    with WatchedParser() as parser:
        parser.html("<p>text")
        lines = Path(f"/proc/{parser.pid}/limits").read_text().splitlines()
        found = {line[:26].strip(): line[26:].split()[:2] for line in lines}
        for name, most in {
            "Max address space": limits.MEMORY_BYTES,
            "Max core file size": 0,
            "Max processes": 0,
            "Max file size": limits.MAX_WRITTEN_BYTES,
            "Max open files": limits.MAX_OPEN_FILES,
        }.items():
            assert found[name] == [str(most), str(most)], name
        assert parser.status("NoNewPrivs") == "1"
        assert Path(f"/proc/{parser.pid}/oom_score_adj").read_text() == f"{limits.OOM_SCORE}\n"


def test_a_parser_reaches_no_network(tmp_path: Path) -> None:
    """If the system permits a network namespace, a parser cannot reach even local ports."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        arguments = [str(SCRIPT), str(server.getsockname()[1]), str(tmp_path / "written")]
        command = [sys.executable, "-P", "-c", CONFINED, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    namespace, connection, file = done.stdout.split("\n")[:3]
    assert file == "not written"
    if namespace == "none":
        pytest.skip("no namespace may be made here")
    assert connection == "refused"


@for_each("name", FILES)
def test_no_file_takes_a_gigabyte(name: str) -> None:
    """A file that unpacks to endless repetition ends as text or as an error within 80 MB, and the next file is read."""
    data = FILES[name](DOCX_BYTES // SHARE)
    with WatchedParser(cpu_seconds=CPU_S) as parser:
        parser.html("<p>warm")
        with watched(parser.pid) as usage:
            assert _outcome(lambda: parser.file(name.split()[0], data)) != "its parser crashed"
        assert usage.peak_mb < MAX_FILE_MB
        assert parser.html("<p>next").text == "next"


@for_each("name", PAGES)
def test_no_page_takes_a_gigabyte(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page ends as text or as an error, and the next page is read.

    Memory grows with the number of tags, so a fraction of the tags is enough to show that whole pages stay below 400
    MB. `python -m tests.security.parser_attacks` measures whole pages.
    """
    page = PAGES[name]()
    with monkeypatch.context() as patch:
        patch.setattr(html_limits, "MAX_TAGS", html_limits.MAX_TAGS // SHARE)
        with suppress(TooDeepError):
            page, _ = limit_html(page)
    with WatchedParser(cpu_seconds=CPU_S) as parser:
        parser.page(NO_ARTICLE + "<p>warm")
        warm_mb = int(parser.status("VmHWM")) // 1000
        with watched(parser.pid) as usage:
            assert _outcome(lambda: parser.page(NO_ARTICLE + page)) != "its parser crashed"
        assert warm_mb + (usage.peak_mb - warm_mb) * SHARE < MAX_RESIDENT_MB
        assert parser.html("<p>next").text == "next"


def _outcome(read: Callable[[], Parsed]) -> str:
    try:
        return read().note or "read"
    except UnreadableDocument as error:
        return str(error)


@pytest.fixture
def looks_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the depth of pages with few tags, too, before they are parsed."""
    monkeypatch.setattr(html_limits, "MAX_UNSEEN_TAGS", 0)


@pytest.mark.usefixtures("looks_at_all")
def test_a_page_as_deep_as_browsers_draw_is_read() -> None:
    """Deeper nesting is refused, before and after parsing."""
    inner = "<p>text</p>" * 300
    page = "<div>" * (HTML_DEPTH - 2) + inner
    assert limit_html(page) == (page, None)
    parse(page)
    for read in (limit_html, parse):
        with pytest.raises(TooDeepError):
            read("<div>" + page + "<p><b>")


FLAT = [
    "<p>text", "<li>item", "<a name=x>", "<br>", "<img src=x>", "<dt>term<dd>text", "<tr><td>a<td>b", "<option>a",
    "<p><span>text</p>", "<!--><p>text", "<!-- a --!><p>text", "<p><b>a<i>b</b>c</i></p>", "<!-- <div> -->",
    "<div><p>text</div>",
    "<script>'<div>'</script>", "<p><font size=2>text</p>", "<ul><li><i class='star'/>text</ul>", "<center><b>text</center>",
    "<table><tr><td><b>x</table>", "<svg><path d=x /><g><path/></g></svg>", "<DIV>text</Div>", "<h2><a>x</h2>",
]  # fmt: skip


@for_each("part", FLAT)
@pytest.mark.usefixtures("looks_at_all")
def test_a_long_page_is_not_considered_deep(part: str) -> None:
    """Optional end tags and void elements do not count as nesting."""
    page = "<table><tr><td>" * 3 + part * 2000
    assert limit_html(page) == (page, None)


HARMLESS = ["<select><style></select><div>", "<button><p>"]  # deep only by the estimate
EVASIONS = [
    "<div></x>", "<div></b>", "<p><div></p>", "<!--><div>", "<b><div></b>", "<table><tr><td></b>", "<svg><style><g>",
    "<span><div></span>", "<ul><li>", "<i x=#><p>", "<p><i x=#>",
    # A tag ends outside of quotes, and a quote begins only after an equals sign.
    '<div x="</div>">', "<div x='</div>'>", '<div x = "\n</div>">', '<div x="a>b"y="</div>">', """<p x=a"><div><p x=">""",
    '<b x="1</b>#"><p>', f"<div {'x ' * 300}y='</div>'>", '<p ="></p><div></p y=">">', '<div x="/>"/>',
    # Names end at HTML whitespace, and only A to Z are lower-cased.
    "<br\xa0>", "<lin\u212a>", f"<{'x' * 40}y></{'x' * 40}z>", "<div></div\x0b>", "<br\x0b>",
    # No tags are in titles, text fields, comments of any kind and scripts within comments of scripts.
    "<div><textarea></div></textarea>", "<div><title></div></title>", "<div><iframe></div></iframe>", "<div><xmp></div></xmp>",
    "<div><!x </div>", "<div><?x </div>", "<div></ </div>", "<div><!--!></div>-->", "<div><![CDATA[</div>",
    "<div><script><!--<script></script></div>--></script>", "<div><script></\u017fcript></div></script>",
    "<div><textarea></textarea x='</textarea></div>'>", "<div><select><textarea></div></textarea></select>",
    "<svg><path d=x/>", "<svg><g><![CDATA[></g>]]>",
    # An end tag ends no element that its own rules do not reach.
    "<span><p></span><div></div>", "<option><span>", "<td><div>", "<form><div></form>", "<tr><div></tr>",
]  # fmt: skip


def deep(part: str, times: int) -> str:
    return "".join(part.replace("#", str(number)) for number in range(times))


@for_each("part", EVASIONS)
def test_no_trick_hides_a_deep_tree(part: str) -> None:
    """A page with few tags is parsed, and its deep tree is then refused before any other processing."""
    with pytest.raises((TooDeepError, TooManyElementsError)):
        parse(deep(part, 1500))
    assert "error" in html_page.read_page(deep(part, 1500))


@for_each("part", EVASIONS + HARMLESS)
@pytest.mark.usefixtures("looks_at_all")
def test_no_trick_hides_a_deep_page_of_many_tags(part: str) -> None:
    """A page with many deep tags is refused before it is parsed, because parsing takes quadratic time."""
    with pytest.raises(TooDeepError):
        limit_html(deep(part, 2000))


@for_each("page", [
    deep("<b x=#><p>", 3900), deep("<p><i x=#>", 3900), deep("<i x=#>", 3900) + "<p>x" * 3900,
    f"<p><a {deep('x# ', 9000)}>" + "<div>x</div>" * 3900,
])  # fmt: skip
def test_formatting_repeated_in_each_paragraph_ends_no_parser(page: str) -> None:
    """A parser that runs out of memory reports an error, and reads the next page."""
    with WatchedParser() as parser:
        with pytest.raises(UnreadableDocument) as error:
            parser.page(page)
        assert str(error.value) != "its parser crashed"
        assert parser.html("<p>next").text == "next"


def test_a_tree_of_more_elements_than_are_read_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page has few tags, but a parser repeats the open formatting in each block."""
    monkeypatch.setattr(html_limits, "MAX_TAGS", 3000)
    page = "<p>" + deep("<i x=#>", 60) + "<div>x</div>" * 60
    assert html_page.read_page(page) == {"error": "a parser makes more than 300,000 elements of it"}


def test_the_mark_of_a_term_hides_no_tag() -> None:
    """The reader removes or adds term markers before it counts the tags."""
    assert "deep" in html_page.read_page(f"<{TERM_MARK}div>" * 5000)["error"]


def test_code_without_an_end_takes_linear_time() -> None:
    """The end of the code is searched once, not for each block.

    Quadratic time took minutes, and a parser has ten seconds.
    """
    with WatchedParser() as parser:
        assert parser.html("<!--" + "<pre>" * 8000 + "x" * 4_000_000 + "--><p>text").text == "text"


def test_a_panel_among_thousands_of_comments_takes_linear_time() -> None:
    """A page of 30 kB once took minutes, and a parser has ten seconds."""
    tab = '<button role="tab" aria-controls="panel">Open</button>'
    panel = f'<div><p id="panel" hidden>The panel says this.</p>{"<!-- -->x" * 4000}</div>'
    with WatchedParser() as parser:
        assert parser.page(tab + panel).text.startswith("The panel says this.")


@pytest.mark.usefixtures("looks_at_all")
def test_formatting_of_earlier_cells_hides_none() -> None:
    """A parser repeats up to three equal formatting elements of the current cell, regardless of earlier cells."""
    sets = ["".join(f"<i x={kind}.{number}>" for number in range(300)) for kind in range(4)]
    cells = "".join(f"<td>{formatting}</td>" for formatting in sets * 4)
    with pytest.raises(TooDeepError):
        limit_html(f"<table><tr>{cells}<td>{''.join(sets)}")


@pytest.mark.usefixtures("looks_at_all")
def test_a_page_of_too_many_tags_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page is read up to the limit, and the cut is reported."""
    monkeypatch.setattr(html_limits, "MAX_TAGS", 1000)
    cut, note = limit_html("<p>a</p>" * 1000)
    assert cut.startswith("<p>a</p>" * 499)
    assert note == "only its first 1,000 tags were read"
