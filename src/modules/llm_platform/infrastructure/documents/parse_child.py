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
from typing import IO, Any

PARSE_SECONDS = 10  # for one document
MEMORY_BYTES = 1 << 30
MAX_PAGES = 2000
MAX_CHARS = 5_000_000
ENOUGH_OF_THE_PAGE = 0.5  # of all words: with less, the guess at the main content has missed it

_NEEDS_EXTRA = 'reading it needs: pip install "llm-platform[documents]"'
_HIDDEN = "[hidden],[aria-hidden=true],template,noscript,script,style,svg,iframe,object,select,dialog:not([open])"
_FURNITURE = "nav,footer,aside,[role=navigation],[role=search],[role=contentinfo],.headerlink,button"
_MAIN = ("main", "[role=main]", "article")
_INVISIBLE_STYLE = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|opacity\s*:\s*0*\.?0+(?![.\d]*[1-9])"
    r"|font-size\s*:\s*0*\.?0+(?![.\d]*[1-9])|(?:left|right|top|bottom|text-indent|margin-\w+)\s*:\s*-\d{3,}"
    r"|clip\s*:\s*rect|clip-path\s*:\s*inset\(\s*(?:50|100)%",
    re.IGNORECASE,
)
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
    styled = tree.body.query_selector_all("[style]")
    hidden = [node for node in styled if _INVISIBLE_STYLE.search(node.getattr("style") or "")]
    for node in (*hidden, *tree.body.query_selector_all(f"{_HIDDEN},{_FURNITURE}")):
        if node.parent is not None:
            node.parent.remove_child(node)


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
