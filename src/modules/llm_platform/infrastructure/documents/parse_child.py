"""The program that turns HTML and PDF into text, in a process of its own that can be killed.

A page nested ten thousand deep or a broken PDF keeps its parser busy for minutes without letting go of the
interpreter, and some PDFs unpack to gigabytes. Run as a script, it imports nothing of ours and so starts in the time
of its parser.

One JSON object a line: `{"html": text}` or `{"pdf": path}` in, `{"title", "text", "note"}` or `{"error": words}` out.
"""

from __future__ import annotations

import contextlib
import json
import re
import signal
import sys
from collections.abc import Iterator
from typing import IO, Any

PARSE_SECONDS = 10  # for one document
MEMORY_BYTES = 1 << 30
MAX_PAGES = 2000
MAX_CHARS = 5_000_000
ENOUGH_OF_THE_PAGE = 0.5  # of all words: with less, the guess at the main content has missed it

_NEEDS_EXTRA = 'reading it needs: pip install "llm-platform[documents]"'
_HIDDEN = "[hidden],[aria-hidden=true],template,noscript,script,style,svg,iframe,object,select,dialog:not([open])"
_FURNITURE = (
    "nav,footer,aside,[role=navigation],[role=search],[role=contentinfo],.headerlink,button"
    ",.navheader,.navfooter,.nosearch,.toc,#toc,#TOC,.toctree-wrapper"  # what DocBook, Sphinx and wikis call it
)
_MAIN = ("main", "[role=main]", "article")
_INVISIBLE_STYLE = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|opacity\s*:\s*0*\.?0+(?![.\d]*[1-9])"
    r"|font-size\s*:\s*0*\.?0+(?![.\d]*[1-9])|(?:left|right|top|bottom|text-indent|margin-\w+)\s*:\s*-\d{3,}"
    r"|clip\s*:\s*rect|clip-path\s*:\s*inset\(\s*(?:50|100)%|font-size\s*:\s*0*1(?:\.0+)?px|(?<![-\w])color\s*:\s*transparent"
    r"|transform\s*:[^;]{0,100}scale[XY]?\(\s*0*\.?0*\s*[,)]|content-visibility\s*:\s*hidden|mso-hide",
    re.IGNORECASE,
)
_NO_ROOM = re.compile(
    r"(?<![-\w])(?:max-)?(?:height|width)\s*:\s*[01](?:\.0+)?(?:px|em|rem|%)?\s*(?:!important\s*)?(?:;|$)", re.IGNORECASE
)
_CUT_OFF = re.compile(r"overflow(?:-[xy])?\s*:\s*(?:hidden|clip)", re.IGNORECASE)
_COLOUR = re.compile(r"(?<![-\w])color\s*:\s*([^;!]{1,60})", re.IGNORECASE)
_GROUND = re.compile(r"(?<![-\w])background(?:-color)?\s*:\s*([^;!]{1,60})", re.IGNORECASE)
_CSS_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_PLAIN_SELECTOR = re.compile(r"[\w\s.#>+~*=\"'\[\]-]{1,200}")
_WHOLE_PAGE = frozenset(("", "*", "html", "body", "main", "html body"))  # hidden until a script has run
MAX_CSS_CHARS = 300_000
MAX_HIDING_RULES = 200
_GENERATED_TITLE = re.compile(r"^(?:Microsoft Word|untitled|PowerPoint)|\.(?:docx?|odt|tex|dvi|indd|pptx?|rtf)$", re.I)
_BROKEN_WORD = re.compile(r"(?<=[^\W\d_])[-\u00ad]\n(?=[a-zà-ÿа-яё])")
_BLANK_LINES = re.compile(r"\n[ \t]*\n(?:[ \t]*\n)+")
_HEADING_TAG = re.compile(r"<h([1-6])(?:\s[^<>]{0,1000})?>", re.IGNORECASE)
_CODE_TAG = re.compile(r"<pre(?:\s[^<>]{0,1000})?>", re.IGNORECASE)
_CODE_END = re.compile(r"</pre\s{0,10}>", re.IGNORECASE)

Answer = dict[str, str | None]


def html_text(html: str) -> Answer:
    """What a reader of the page sees: its main content, headings as `#` and code fenced, nothing that is hidden."""
    try:
        from resiliparse.parse.html import HTMLTree
    except ImportError:
        return {"error": _NEEDS_EXTRA}
    tree = HTMLTree.parse(_with_structure(html))
    title = tree.title
    if tree.body is None:
        return {"title": title, "text": "", "note": None}
    _remove_hidden(tree)
    return {"title": " ".join((title or "").split()), "text": _main_text(tree)[:MAX_CHARS], "note": None}


def _remove_hidden(tree: Any) -> None:
    styled = _elements(tree.body, "[style]")
    hidden = [node for node in styled if _is_invisible(node.getattr("style") or "")]
    hidden += [node for selector in _hiding_selectors(tree) for node in _matching(tree, selector)]
    for node in (*hidden, *_elements(tree.body, f"{_HIDDEN},{_FURNITURE}")):
        if node.parent is not None:
            node.parent.remove_child(node)


def _elements(parent: Any, selector: str) -> list[Any]:
    """All at once: the parser makes every element of its list anew for each one that is taken singly, which takes half a
    minute for a page of three thousand.
    """
    return list(parent.query_selector_all(selector)[:])


def _is_invisible(style: str) -> bool:
    if _INVISIBLE_STYLE.search(style) or (_NO_ROOM.search(style) and _CUT_OFF.search(style)):
        return True
    colour, ground = _COLOUR.search(style), _GROUND.search(style)
    return bool(colour and ground and colour[1].strip().lower() == ground[1].strip().lower())


def _hiding_selectors(tree: Any) -> list[str]:
    """What the page's own style sheets hide. Rules for print and for screens of some size hide nothing here."""
    css = "\n".join(str(style.text) for style in _elements(tree.document, "style"))[:MAX_CSS_CHARS]
    found: list[str] = []
    for selectors, block in _rules(_CSS_COMMENT.sub(" ", css)):
        if _is_invisible(block):
            plain = (" ".join(each.split()) for each in selectors.split(","))
            found += [each for each in plain if each.lower() not in _WHOLE_PAGE and _PLAIN_SELECTOR.fullmatch(each)]
    return found[:MAX_HIDING_RULES]


def _matching(tree: Any, selector: str) -> list[Any]:
    from resiliparse.parse.html import CSSParserException

    try:
        return _elements(tree.body, selector)
    except CSSParserException:  # a style sheet may hold anything, and a browser skips what it does not understand
        return []


def _rules(css: str) -> Iterator[tuple[str, str]]:
    """Selectors and block of each rule that stands in no other block."""
    depth, start, selectors = 0, 0, ""
    for brace in re.finditer(r"[{}]", css):
        text = css[start : brace.start()]
        if brace[0] == "{":
            depth += 1
            selectors = text.rpartition(";")[2] if depth == 1 else selectors
        else:
            if depth == 1 and "@" not in selectors:
                yield selectors, text
            depth = max(depth - 1, 0)
        start = brace.end()


def _with_structure(html: str) -> str:
    """Headings and code keep their meaning in the text, as Markdown writes it; marked here since trees change slowly."""
    html = _HEADING_TAG.sub(lambda tag: tag[0] + "#" * int(tag[1]) + " ", html)
    return _CODE_END.sub("\n```\n</pre>", _CODE_TAG.sub(lambda tag: tag[0] + "```\n", html))


def _main_text(tree: Any) -> str:
    whole = _plain(tree, main_content=False)
    enough = ENOUGH_OF_THE_PAGE * len(whole)
    for selector in _MAIN:
        found = tree.body.query_selector_all(selector)
        if len(found) == 1 and len(text := _plain(found[0].outer_html, main_content=False)) >= enough:
            return text
    main = _plain(tree, main_content=True)
    return main if len(main) >= enough else whole


def _plain(html: Any, *, main_content: bool) -> str:
    from resiliparse.extract.html2text import extract_plain_text

    text = extract_plain_text(html, preserve_formatting=True, main_content=main_content, alt_texts=False)
    return _BLANK_LINES.sub("\n\n", str(text)).strip()


def pdf_text(path: str) -> Answer:
    """The text of a PDF's pages, words put together that were broken at a line's end."""
    try:
        from pypdf import PdfReader
        from pypdf.errors import PyPdfError
    except ImportError:
        return {"error": _NEEDS_EXTRA}
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            reader = PdfReader(file, strict=False)
            if reader.is_encrypted and not reader.decrypt(""):
                return {"error": "it is encrypted: save it without a password"}
            return {"title": _pdf_title(reader), **_pages(reader)}
    except OSError:
        return {"error": "it cannot be opened"}
    except (PyPdfError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError):
        return {"error": "it is not a PDF that can be read"}


def _pages(reader: Any) -> Answer:
    pages: list[str] = []
    for number, page in enumerate(reader.pages):
        if number >= MAX_PAGES or sum(map(len, pages)) > MAX_CHARS:
            return {"text": "\n\n".join(pages)[:MAX_CHARS], "note": f"only its first {number} pages were read"}
        pages.append(_BROKEN_WORD.sub("", page.extract_text() or "").strip())
    text = "\n\n".join(filter(None, pages))
    return {"text": text[:MAX_CHARS], "note": None} if text else {"error": "it holds no text (a scan needs OCR first)"}


def _pdf_title(reader: Any) -> str | None:
    title = " ".join(str(getattr(reader.metadata, "title", None) or "").split())
    return title if title and not _GENERATED_TITLE.search(title) else None


def serve(requests: IO[str], answers: IO[str]) -> None:
    """Answer one line after the other until nobody asks any more."""
    for line in requests:
        request = json.loads(line)
        with _deadline():
            answer = html_text(request["html"]) if "html" in request else pdf_text(request["pdf"])
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


@contextlib.contextmanager
def _deadline() -> Any:
    """End this process when one document takes too long, also when whoever started it has gone."""
    alarm = getattr(signal, "alarm", None)
    if alarm:
        alarm(PARSE_SECONDS + 1)
    yield
    if alarm:
        alarm(0)


def _limit_memory() -> None:
    with contextlib.suppress(ImportError, ValueError, OSError):  # not on Windows, not everywhere on macOS
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


if __name__ == "__main__":
    import logging

    logging.disable()
    _limit_memory()
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        serve(sys.stdin, sys.stdout)
