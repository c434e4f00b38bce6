"""The program that turns HTML, PDF, Word documents, EPUB books and notebooks into text, in a process that can be killed.

A page nested ten thousand deep or a broken PDF keeps its parser busy for minutes without letting go of the
interpreter, and some PDFs and archives unpack to gigabytes. Run as a script, it imports nothing of ours and so starts in
the time of its parser.

One JSON object a line: `{"html": text}`, or a format and a path such as `{"pdf": path}`, in; `{"title", "text", "note"}` or
`{"error": words}` out.

Over 500 lines: as a script that imports nothing of ours it is one file.
"""

from __future__ import annotations

import contextlib
import json
import posixpath
import re
import signal
import sys
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from html import escape
from typing import IO, Any
from urllib.parse import unquote
from xml.parsers import expat

PARSE_SECONDS = 10  # for one document
MEMORY_BYTES = 1 << 30
MAX_PAGES = 2000
MAX_CHARS = 5_000_000
MAX_UNPACKED_BYTES = 100_000_000  # of all that is read from one archive
MAX_CHAPTERS = 5000  # of a book
MAX_NOTEBOOK_BYTES = 50_000_000  # most of it pictures, which are not read
ENOUGH_OF_THE_PAGE = 0.5  # of all words: with less, the guess at the main content has missed it

_NEEDS_EXTRA = 'reading it needs: pip install "llm-platform[documents]"'
_HIDDEN = "[hidden],[aria-hidden=true],template,noscript,script,style,svg,iframe,object,select,dialog:not([open])"
_FURNITURE = (
    "nav,footer,aside,[role=navigation],[role=search],[role=contentinfo],.headerlink,button"
    ",.navheader,.navfooter,.nosearch,td.icon,.toc,#toc,#TOC,.toctree-wrapper"  # what DocBook, Sphinx and wikis call it
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
    r"(?<![-\w])(?:max-)?(?:height|width)\s*:\s*[01](?:\.0+)?(?:px|em|rem|%)?\s*(?:!important\s*)?(?:;|$)",
    re.IGNORECASE,
)
_CUT_OFF = re.compile(r"overflow(?:-[xy])?\s*:\s*(?:hidden|clip)", re.IGNORECASE)
_COLOUR = re.compile(r"(?<![-\w])color\s*:\s*([^;!]{1,60})", re.IGNORECASE)
_GROUND = re.compile(r"(?<![-\w])background(?:-color)?\s*:\s*([^;!]{1,60})", re.IGNORECASE)
_CSS_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_PLAIN_SELECTOR = re.compile(r"[\w\s.#>+~*=\"'\[\]-]{1,200}")
_WHOLE_PAGE = frozenset(("", "*", "html", "body", "main", "html body"))  # hidden until a script has run
MAX_CSS_CHARS = 300_000
MAX_HIDING_RULES = 200
MAX_TABLES = 200  # of a page
MAX_ROWS = 500  # of a table
_GENERATED_TITLE = re.compile(r"^(?:Microsoft Word|untitled|PowerPoint)|\.(?:docx?|odt|tex|dvi|indd|pptx?|rtf)$", re.I)
_BROKEN_WORD = re.compile(r"(?<=[^\W\d_])[-\u00ad]\n(?=[a-zà-ÿа-яё])")
_BLANK_LINES = re.compile(r"\n[ \t]*\n(?:[ \t]*\n)+")
_HEADING_TAG = re.compile(r"<h([1-6])(?:\s[^<>]{0,1000})?>", re.IGNORECASE)
_CODE_TAG = re.compile(r"<pre(?:\s[^<>]{0,1000})?>", re.IGNORECASE)
_HEADING_STYLE = re.compile(r"(?:heading ([1-6])|Title|title)")
_CODE_END = re.compile(r"</pre\s{0,10}>", re.IGNORECASE)
_CODE_BLOCK = re.compile(r"(<pre(?:\s[^<>]{0,1000})?>.*?</pre\s{0,10}>)", re.IGNORECASE | re.DOTALL)
_CODE_SPAN = re.compile(r"<(code|kbd|samp|tt)((?:\s[^<>]{0,1000})?)>([^`]{1,300}?)</\1\s{0,10}>", re.IGNORECASE)
_TERM_TAG = re.compile(r"<dd(?:\s[^<>]{0,1000})?>(?:\s*<p(?:\s[^<>]{0,1000})?>)?", re.IGNORECASE)
_EXPLAINED = re.compile(r"\s*\n\s*:[ ]+(?=\S)")
WORD_GAP = -150  # thousandths of the font's size; letters are moved by less, and a narrow line's blanks are wider
SURE_GAP = -1000  # no font has a wider blank
EDGE_LINES = 2  # at the top and the bottom of a page, where its head and number stand
MIN_REPEATS = 3  # pages on which a line stands at the edge
_DOT_LEADERS = re.compile(r"(?:\.[ \t]?){5,}|(?:\.[ \t]+){2,}\d+[ \t]*\Z")
_NUMBER = re.compile(r"\d+")
_PAGE_NUMBER = re.compile(r"\A\s*(\d{1,4})\b(?![.\d])|(?<![.\d])\b(\d{1,4})\s*\Z")
_SECTION = re.compile(
    r"^(?:Chapter |Appendix )?(\d+|[A-Z])((?:\.\d+){1,4})\.?[ \t]+(?=\S)([^\n]{2,80})(?<![.:;,])$", re.MULTILINE
)
_TERM = re.compile(
    r"(?<=[.:\n])\n(-{1,2}[A-Za-z][\w-]*(?: [a-z][\w-]*)?|[a-z_][\w-]*|[A-Z][A-Z_]{3,})[\n ](?=[A-Z][a-z]* ?[a-z])"
)  # a sentence begins with no small letter: what stands before one is explained by it
_CAPITALS = re.compile(r"^(?:CHAPTER[ \n]\w+\n)?(?=[^\n]*[A-Z]{4} )([A-Z][A-Z0-9 ,'’&/-]{6,79})$", re.MULTILINE)
_ENDED = re.compile(r"[.!?:;][\"'”’)\]]*\Z")

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
    _set_tables(tree)
    return {"title": " ".join((title or "").split()), "text": _main_text(tree)[:MAX_CHARS], "note": None}


def _remove_hidden(tree: Any) -> None:
    styled = _elements(tree.body, "[style]")
    hidden = [node for node in styled if _is_invisible(node.getattr("style") or "")]
    hidden += [node for selector in _hiding_selectors(tree) for node in _matching(tree, selector)]
    for node in (*hidden, *_elements(tree.body, f"{_HIDDEN},{_FURNITURE}")):
        if node.parent is not None:
            node.parent.remove_child(node)


def _set_tables(tree: Any) -> None:
    """Tables whose first row names its columns, as Markdown; one that holds more than words is a page's layout."""
    for table in _elements(tree.body, "table")[:MAX_TABLES]:
        if table.query_selector("table,pre,ul,ol,dl,h1,h2,h3,h4") is not None:
            continue
        rows = [_elements(row, "th,td") for row in _elements(table, "tr")[:MAX_ROWS]]
        if len(rows) < 2 or len(rows[0]) < 2 or any(cell.tag != "th" for cell in rows[0]):
            continue
        shown = [[" ".join(str(cell.text).split()).replace("|", "\\|") for cell in row] for row in rows]
        lines = [f"| {' | '.join(row)} |" for row in (shown[0], ["---"] * len(shown[0]), *shown[1:])]
        table.html = "<p>" + "<br>".join(map(escape, lines)) + "</p>"


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
    """Headings, code and terms keep their meaning in the text, as Markdown writes it; marked here since trees change slowly."""
    html = _HEADING_TAG.sub(lambda tag: tag[0] + "#" * int(tag[1]) + " ", html)
    html = _TERM_TAG.sub(lambda tag: tag[0] + ": ", html)
    pieces = _CODE_BLOCK.split(html)  # every other one is a block of code
    pieces[::2] = [_CODE_SPAN.sub(r"<\1\2>`\3`</\1>", piece) for piece in pieces[::2]]
    return _CODE_END.sub("\n```\n</pre>", _CODE_TAG.sub(lambda tag: tag[0] + "```\n", "".join(pieces)))


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
    return _EXPLAINED.sub("\n: ", _BLANK_LINES.sub("\n\n", str(text)).strip())


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
    note = None
    for number, page in enumerate(reader.pages):
        if number >= MAX_PAGES or sum(map(len, pages)) > MAX_CHARS:
            note = f"only its first {number} pages were read"
            break
        pages.append((page.extract_text(visitor_operand_before=_keep_blanks) or "").strip())
    text = _running_text(pages)
    return {"text": text[:MAX_CHARS], "note": note} if text else {"error": "it holds no text (a scan needs OCR first)"}


def _keep_blanks(operator: bytes, operands: Any, *_: Any) -> None:
    """Some fonts have no blank, and set justified text with gaps narrower than the one that is guessed for them."""
    if operator != b"TJ" or not operands or not isinstance(operands[0], list):
        return
    shown = operands[0]
    for at in range(len(shown) - 2, 0, -1):
        if isinstance(shown[at], (int, float)) and shown[at] <= WORD_GAP:
            shown[at : at + 1] = [SURE_GAP, shown[at] - SURE_GAP]  # forth and back: the same way together


def _running_text(pages: list[str]) -> str:
    """The pages as one text, without heads, page numbers and tables of contents; sections have headings."""
    text = ""
    for lines in _without_edges([page.split("\n") for page in pages]):
        page = "\n".join(line for line in lines if not _DOT_LEADERS.search(line)).strip()
        if page:
            goes_on = text and not _ENDED.search(text)
            text += ("\n" if goes_on else "\n\n") * bool(text) + page
    text = _TERM.sub(r"\n\n\1\n: ", text)
    text = _CAPITALS.sub(r"\n# \1\n", text)
    text = _SECTION.sub(_section, _BROKEN_WORD.sub("", text))
    return _BLANK_LINES.sub("\n\n", text).strip()


def _section(found: re.Match[str]) -> str:
    return f"\n{'#' * (1 + found[2].count('.'))} {found[0]}\n"


def _without_edges(pages: list[list[str]]) -> Iterator[list[str]]:
    """Pages without the lines at their edges that other pages have too, or that hold the number of the page."""
    edges = [{*range(min(EDGE_LINES, len(page))), *range(max(0, len(page) - EDGE_LINES), len(page))} for page in pages]
    repeated: Counter[str] = Counter()
    shifts: Counter[int] = Counter()
    for number, (page, edge) in enumerate(zip(pages, edges, strict=True)):
        repeated.update({_NUMBER.sub("#", page[at]) for at in edge})
        shifts.update({shown - number for at in edge for shown in _numbers(page[at])})
    shift, seen = max(shifts.items(), key=lambda each: each[1], default=(0, 0))
    for number, (page, edge) in enumerate(zip(pages, edges, strict=True)):
        numbered = {at for at in edge if seen >= MIN_REPEATS and number + shift in _numbers(page[at])}
        head = {at for at in edge if repeated[_NUMBER.sub("#", page[at])] >= MIN_REPEATS}
        yield [line for at, line in enumerate(page) if at not in numbered | head]


def _numbers(line: str) -> set[int]:
    """The numbers that a line begins or ends with."""
    return {int(digits) for found in _PAGE_NUMBER.finditer(line) for digits in found.groups() if digits}


def _pdf_title(reader: Any) -> str | None:
    title = " ".join(str(getattr(reader.metadata, "title", None) or "").split())
    return title if title and not _GENERATED_TITLE.search(title) else None


class _TooLargeError(Exception):
    """An archive unpacks to more than is read."""


class _Archive:
    """A zip file whose parts are unpacked within bounds, whatever its directory says about their sizes."""

    def __init__(self, file: zipfile.ZipFile) -> None:
        self._file = file
        self._left = MAX_UNPACKED_BYTES

    def part(self, name: str) -> bytes | None:
        """A part unpacked; None where there is none. Raises _TooLargeError."""
        try:
            with self._file.open(name) as part:
                data = part.read(self._left + 1)
        except KeyError:
            return None
        self._left -= len(data)
        if self._left < 0:
            raise _TooLargeError
        return data


def _unpacked(path: str, read: Callable[[_Archive], Answer], broken: str) -> Answer:
    try:
        with zipfile.ZipFile(path) as file:
            return read(_Archive(file))
    except OSError:
        return {"error": "it cannot be opened"}
    except _TooLargeError:
        return {"error": f"it unpacks to more than {MAX_UNPACKED_BYTES // 1_000_000} MB"}
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, NotImplementedError, RuntimeError):  # RuntimeError: encrypted
        return {"error": broken}


class _Xml:
    """A walk through an XML document. Names come without namespaces; a document that declares entities is refused, since
    they can unpack to gigabytes or name files of this machine. ValueError for all that is not XML.
    """

    def __init__(self) -> None:
        self._parser = expat.ParserCreate(namespace_separator=" ")
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = lambda name: self.end(_local(name))
        self._parser.CharacterDataHandler = self.text
        self._parser.EntityDeclHandler = _refused

    def read(self, data: bytes | None) -> None:
        try:
            self._parser.Parse(data or b"<none/>", True)
        except expat.ExpatError as error:
            raise ValueError from error

    def _start(self, name: str, given: dict[str, str]) -> None:
        self.start(_local(name), {_local(key): value for key, value in given.items()})

    def start(self, name: str, given: dict[str, str]) -> None:
        """An element begins."""

    def end(self, name: str) -> None:
        """An element ends."""

    def text(self, text: str) -> None:
        """Letters between the tags."""


def _local(name: str) -> str:
    return name.rpartition(" ")[2]


def _refused(*_: Any) -> None:
    raise ValueError


class _Styles(_Xml):
    """Which paragraph styles of a Word document are headings, by their ids; the names are English in every language."""

    def __init__(self) -> None:
        super().__init__()
        self.levels: dict[str, int] = {}
        self._style = ""

    def start(self, name: str, given: dict[str, str]) -> None:
        if name == "style":
            self._style = given.get("styleId", "")
        elif name == "name" and (found := _HEADING_STYLE.fullmatch(given.get("val", ""))):
            self.levels[self._style] = int(found[1] or 1)
        elif name == "outlineLvl" and given.get("val", "").isdigit() and int(given["val"]) < 6:
            self.levels.setdefault(self._style, int(given["val"]) + 1)


class _Paragraphs(_Xml):
    """The text of a Word document: headings as `#`, list items as `-`, the cells of a table's row in one line."""

    def __init__(self, levels: dict[str, int]) -> None:
        super().__init__()
        self.written: list[str] = []
        self._levels = levels
        self._pieces: list[str] = []
        self._cells: list[str] = []
        self._in_text = self._hidden = False
        self._passed = self._tables = 0  # depth in what repeats other text; depth in tables
        self._mark = ""

    def start(self, name: str, given: dict[str, str]) -> None:
        if name in ("Fallback", "txbxContent"):
            self._passed += 1
        elif name == "tbl":
            self._tables += 1
        elif name == "p":
            self._mark = ""
        elif name == "pStyle" and given.get("val") in self._levels:
            self._mark = "#" * self._levels[given["val"]] + " "
        elif name == "numPr":
            self._mark = self._mark or "- "
        elif name == "r":
            self._hidden = False
        elif name == "vanish":
            self._hidden = given.get("val") not in ("0", "false")
        elif name == "t":
            self._in_text = True
        elif name in ("tab", "br", "cr") and not self._passed:
            self._pieces.append(" ")

    def end(self, name: str) -> None:
        if name in ("Fallback", "txbxContent"):
            self._passed -= 1
        elif name == "t":
            self._in_text = False
        elif name == "p" and not self._passed:
            self._end_paragraph()
        elif name == "tr" and self._cells:
            self.written.append(" | ".join(self._cells))
            self._cells = []
        elif name == "tbl":
            self._tables -= 1

    def text(self, text: str) -> None:
        if self._in_text and not self._hidden and not self._passed:
            self._pieces.append(text)

    def _end_paragraph(self) -> None:
        said = " ".join("".join(self._pieces).split())
        self._pieces = []
        if said and self._tables:
            self._cells.append(said)
        elif said:
            self.written.append(self._mark + said)


class _Title(_Xml):
    """The first title of a document's own description."""

    def __init__(self) -> None:
        super().__init__()
        self.title = ""
        self._in_title = False

    def start(self, name: str, given: dict[str, str]) -> None:
        self._in_title = name == "title" and not self.title

    def end(self, name: str) -> None:
        self._in_title = False

    def text(self, text: str) -> None:
        if self._in_title:
            self.title += text


def docx_text(path: str) -> Answer:
    """The body of a Word document, without notes, comments and what was deleted."""
    return _unpacked(path, _docx, "it is not a Word document that can be read (an encrypted one is not)")


def _docx(archive: _Archive) -> Answer:
    body = archive.part("word/document.xml")
    if body is None:
        return {"error": "it is not a Word document"}
    styles, about = _Styles(), _Title()
    styles.read(archive.part("word/styles.xml"))
    about.read(archive.part("docProps/core.xml"))
    paragraphs = _Paragraphs(styles.levels)
    paragraphs.read(body)
    title = " ".join(about.title.split())
    named = title if title and not _GENERATED_TITLE.search(title) else None
    return {"title": named, **_bounded(paragraphs.written)}


class _Package(_Title):
    """The contents of a book: its title, its files and the order that they are read in."""

    def __init__(self) -> None:
        super().__init__()
        self.order: list[str] = []
        self._files: dict[str, str] = {}

    def start(self, name: str, given: dict[str, str]) -> None:
        super().start(name, given)
        if name == "item" and "html" in given.get("media-type", ""):
            self._files[given.get("id", "")] = given.get("href", "")
        elif name == "itemref" and given.get("idref") in self._files:
            self.order.append(self._files[given["idref"]])


class _Container(_Xml):
    """Where a book says what it holds."""

    def __init__(self) -> None:
        super().__init__()
        self.package = ""

    def start(self, name: str, given: dict[str, str]) -> None:
        if name == "rootfile":
            self.package = self.package or given.get("full-path", "")


def epub_text(path: str) -> Answer:
    """The chapters of a book in their order."""
    return _unpacked(path, _epub, "it is not a book that can be read")


def _epub(archive: _Archive) -> Answer:
    container, package = _Container(), _Package()
    container.read(archive.part("META-INF/container.xml"))
    package.read(archive.part(container.package))
    folder = posixpath.dirname(container.package)
    chapters: list[str] = []
    for href in package.order[:MAX_CHAPTERS]:
        data = archive.part(posixpath.normpath(posixpath.join(folder, unquote(href))))
        answer = html_text((data or b"").decode("utf-8", "replace"))
        if "error" in answer:
            return answer
        chapters.append(answer["text"] or "")
        if sum(map(len, chapters)) > MAX_CHARS:
            break
    return {"title": " ".join(package.title.split()) or None, **_bounded(chapters)}


def notebook_text(path: str) -> Answer:
    """The cells of a notebook: words as written, code fenced. What the code printed is left out."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            data = file.read(MAX_NOTEBOOK_BYTES + 1)
        if len(data) > MAX_NOTEBOOK_BYTES:
            return {"error": f"it is larger than {MAX_NOTEBOOK_BYTES // 1_000_000} MB"}
        told = json.loads(data)
        cells = told.get("cells") or [cell for sheet in told["worksheets"] for cell in sheet["cells"]]
        language = str(told.get("metadata", {}).get("kernelspec", {}).get("language", ""))
        return {"title": None, **_bounded([_cell(cell, language) for cell in cells])}
    except OSError:
        return {"error": "it cannot be opened"}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {"error": "it is not a notebook that can be read"}


def _cell(cell: dict[str, Any], language: str) -> str:
    source = cell.get("source") or cell.get("input") or ""  # `input` before version 4
    text = "".join(source).strip()
    return f"```{language}\n{text}\n```" if text and cell.get("cell_type") == "code" else text


def _bounded(pieces: list[str]) -> Answer:
    text = "\n\n".join(filter(None, pieces))
    cut = f"only its first {MAX_CHARS:,} characters were read" if len(text) > MAX_CHARS else None
    return {"text": text[:MAX_CHARS], "note": cut}


_READERS = {
    "html": html_text, "pdf": pdf_text, "docx": docx_text, "epub": epub_text, "ipynb": notebook_text,
}  # fmt: skip


def serve(requests: IO[str], answers: IO[str]) -> None:
    """Answer one line after the other until nobody asks any more."""
    for line in requests:
        ((kind, given),) = json.loads(line).items()
        with _deadline():
            answer = _READERS[kind](given)
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
