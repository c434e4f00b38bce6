"""Converts HTML, PDF, Word documents, EPUB books and notebooks to text, as a child process that can be killed.

A page nested ten thousand deep or a broken PDF blocks the interpreter for minutes, and some PDFs and archives unpack to
gigabytes. The script imports nothing else of this package, so that it starts fast.

The arguments are the limits of CPU time and of time for one document, in seconds.

Each input line is a JSON object, `{"html": text}` or a format and a file such as `{"pdf": path}`, or `{"pdf": {"base64": …}}`
for a file that is on no disk. Each output line is
`{"title", "text", "note"}`, for `linked_page` with "hyperlinks", or `{"error": message}`.

Over 500 lines: a script without imports from the package is one file.
"""

import base64
import contextlib
import io
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

CPU_SECONDS = 10.0  # for one document; on a busy machine it takes a multiple of that by the clock
WALL_SECONDS = 60.0  # for one document; only one that waits, and computes nothing, takes that long
MEMORY_BYTES = 1 << 30
MAX_PAGES = 2000
MAX_CHARS = 5_000_000
MAX_UNPACKED_BYTES = 100_000_000  # of all that is read from one archive
MAX_CHAPTERS = 5000  # of a book
MAX_NOTEBOOK_BYTES = 50_000_000  # mostly images, which are not read
MIN_MAIN_SHARE = 0.5  # of a file's text; a main content with less was detected wrongly
MIN_ARTICLE_SHARE = 0.05  # of a page's text; an article with less was detected wrongly, as on an index page
MAX_ARTICLE_HTML_CHARS = 2_000_000  # a longer page is not searched for its article
MIN_LINE_SHARE = 0.5  # of the three-word runs of a line, that the article must have
MIN_LINE_WORDS = 4  # of a line that can begin or end the article; shorter ones occur in menus too
MAX_BLOCKS = 500  # code blocks, lists of definitions and tables of a page
MAX_LINKS = 1000  # of a page
MAX_IMAGES = 50  # of a page
MAX_HREF_CHARS = 2000
MAX_LINK_TEXT_CHARS = 200

_NEEDS_EXTRA = 'reading it needs: pip install "llm-platform[documents]"'
_HIDDEN = "[hidden],[aria-hidden=true],template,noscript,script,style,svg,iframe,object,select,dialog:not([open])"
_BOILERPLATE = (
    "nav,footer,aside,[role=navigation],[role=search],[role=contentinfo],.headerlink,button"
    ",.navheader,.navfooter,.nosearch,td.icon,.toc,#toc,#TOC,.toctree-wrapper"  # of DocBook, Sphinx and wikis
)
_MAIN = ("main", "[role=main]", "article")
_LAYOUT = "table,pre,ul,ol,dl,h1,h2,h3,h4"  # inside a table they show that it is page layout
_INVISIBLE_STYLE = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|opacity\s*:\s*0*\.?0+(?![.\d]*[1-9])"
    r"|font-size\s*:\s*0*\.?0+(?![.\d]*[1-9])|(?:left|right|top|bottom|text-indent|margin-\w+)\s*:\s*-\d{3,}"
    r"|clip\s*:\s*rect|clip-path\s*:\s*inset\(\s*(?:50|100)%|font-size\s*:\s*0*1(?:\.0+)?px|(?<![-\w])color\s*:\s*transparent"
    r"|transform\s*:[^;]{0,100}scale[XY]?\(\s*0*\.?0*\s*[,)]|content-visibility\s*:\s*hidden|mso-hide",
    re.IGNORECASE,
)
_ZERO_SIZE = re.compile(
    r"(?<![-\w])(?:max-)?(?:height|width)\s*:\s*[01](?:\.0+)?(?:px|em|rem|%)?\s*(?:!important\s*)?(?:;|$)",
    re.IGNORECASE,
)
_OVERFLOW_HIDDEN = re.compile(r"overflow(?:-[xy])?\s*:\s*(?:hidden|clip)", re.IGNORECASE)
_COLOUR = re.compile(r"(?<![-\w])color\s*:\s*([^;!]{1,60})", re.IGNORECASE)
_BACKGROUND = re.compile(r"(?<![-\w])background(?:-color)?\s*:\s*([^;!]{1,60})", re.IGNORECASE)
_CSS_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_PLAIN_SELECTOR = re.compile(r"[\w\s.#>+~*=\"'\[\]-]{1,200}")
_PAGE_SELECTORS = frozenset(("", "*", "html", "body", "main", "html body"))  # some pages are hidden until a script ran
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
_DEFINITION_TAG = re.compile(r"<dd(?:\s[^<>]{0,1000})?>(?:\s*<p(?:\s[^<>]{0,1000})?>)?", re.IGNORECASE)
_DEFINITION = re.compile(r"\s*\n\s*:[ ]+(?=\S)")
_TERM_TAG = re.compile(r"<dt(?:\s[^<>]{0,1000})?>", re.IGNORECASE)
_TERM_MARK = "\ue000"  # before a defined term, until the text is complete
_TERM_START = re.compile(rf"\s*\n\s*{_TERM_MARK}\s*")
_TERMS_TOGETHER = re.compile(rf"^({_TERM_MARK}[^\n]*)\n\n(?={_TERM_MARK})", re.MULTILINE)
_WORD = re.compile(r"\w+")
WORD_GAP = -150  # thousandths of the font size: kerning is narrower, a blank is wider
CERTAIN_GAP = -1000  # wider than any font's blank
EDGE_LINES = 2  # at the top and bottom of a page, with its header and number
MIN_REPEATS = 3  # pages with the same line at the edge
_DOT_LEADERS = re.compile(r"(?:\.[ \t]?){5,}|(?:\.[ \t]+){2,}\d+[ \t]*\Z")
_NUMBER = re.compile(r"\d+")
_PAGE_NUMBER = re.compile(r"\A\s*(\d{1,4})\b(?![.\d])|(?<![.\d])\b(\d{1,4})\s*\Z")
_SECTION = re.compile(
    r"^(?:Chapter |Appendix )?(\d+|[A-Z])((?:\.\d+){1,4})\.?[ \t]+(?=\S)([^\n]{2,80})(?<![.:;,])$", re.MULTILINE
)
_TERM = re.compile(
    r"(?<=[.:\n])\n(-{1,2}[A-Za-z][\w-]*(?: [a-z][\w-]*)?|[a-z_][\w-]*|[A-Z][A-Z_]{3,})[\n ](?=[A-Z][a-z]* ?[a-z])"
)  # an option or a name on a line of its own, then a sentence that explains it
_CAPITALS = re.compile(r"^(?:CHAPTER[ \n]\w+\n)?(?=[^\n]*[A-Z]{4} )([A-Z][A-Z0-9 ,'’&/-]{6,79})$", re.MULTILINE)
_ENDED = re.compile(r"[.!?:;][\"'”’)\]]*\Z")

Answer = dict[str, Any]
File = str | dict[str, str]  # a path, or the content as base64


def html_text(html: str) -> Answer:
    """The visible main content of a file, with headings as `#` and fenced code."""
    return _visible_text(html, _main_text)


def page_text(html: str) -> Answer:
    """The visible article of a page on the web, without its menus, teasers and notices; written as in `html_text`."""
    return _visible_text(html, _article_text)


def linked_page_text(html: str) -> Answer:
    """As `page_text`, with `hyperlinks`: what the whole page links to, its menus included."""
    return _visible_text(html, _article_text, _hyperlinks)


def _visible_text(
    html: str, text_of: Callable[[Any], str], hyperlinks_of: Callable[[Any], Answer] | None = None
) -> Answer:
    try:
        from resiliparse.parse.html import HTMLTree

        tree = HTMLTree.parse(_with_structure(html))
        title = tree.title
        if tree.body is None:
            return {"title": title, "text": "", "note": None}
        more = {} if hyperlinks_of is None else {"hyperlinks": hyperlinks_of(tree)}
        _remove_hidden(tree)
        _set_tables(tree)
        return {"title": " ".join((title or "").split()), "text": text_of(tree)[:MAX_CHARS], "note": None, **more}
    except ImportError:
        return {"error": _NEEDS_EXTRA}


def _hyperlinks(tree: Any) -> Answer:
    """The addresses as they are written. A page or a link whose author says `nofollow` has none."""
    metas = _elements(tree.document, "meta[name]")
    policies = [meta.getattr("content") or "" for meta in metas if (meta.getattr("name") or "").lower() == "robots"]
    anchors = [] if "nofollow" in ",".join(policies).lower() else _elements(tree.document, "a[href]")
    links = [
        [anchor.getattr("href"), " ".join(str(anchor.text).split()).lstrip("# ")[:MAX_LINK_TEXT_CHARS]]
        for anchor in anchors[:MAX_LINKS]
        if "nofollow" not in (anchor.getattr("rel") or "").lower() and len(anchor.getattr("href")) <= MAX_HREF_CHARS
    ]
    images = [image.getattr("src") for image in _elements(tree.document, "img[src]")[:MAX_IMAGES]]
    icons = [link for link in _elements(tree.document, "link[rel]") if "icon" in link.getattr("rel").lower().split()]
    bases = _elements(tree.document, "base[href]")
    return {
        "base": bases[0].getattr("href") if bases else "",
        "links": links,
        "images": [image for image in images if len(image) <= MAX_HREF_CHARS],
        "icon": next((icon.getattr("href") for icon in icons if icon.getattr("href")), ""),
    }


def _remove_hidden(tree: Any) -> None:
    styled = _elements(tree.body, "[style]")
    hidden = [node for node in styled if _is_invisible(node.getattr("style") or "")]
    hidden += [node for selector in _hiding_selectors(tree) for node in _matching(tree, selector)]
    for node in (*hidden, *_elements(tree.body, f"{_HIDDEN},{_BOILERPLATE}")):
        if node.parent is not None:
            node.parent.remove_child(node)


def _set_tables(tree: Any) -> None:
    """Replace tables that have a header row by Markdown; a table with block elements is page layout."""
    for table in _elements(tree.body, "table")[:MAX_TABLES]:
        if table.query_selector(_LAYOUT) is not None:
            continue
        rows = [_elements(row, "th,td") for row in _elements(table, "tr")[:MAX_ROWS]]
        if len(rows) < 2 or len(rows[0]) < 2 or any(cell.tag != "th" for cell in rows[0]):
            continue
        cells = [[" ".join(str(cell.text).split()).replace("|", "\\|") for cell in row] for row in rows]
        lines = [f"| {' | '.join(row)} |" for row in (cells[0], ["---"] * len(cells[0]), *cells[1:])]
        table.html = "<p>" + "<br>".join(map(escape, lines)) + "</p>"


def _elements(parent: Any, selector: str) -> list[Any]:
    """All matches in one slice: iterating the parser's list takes quadratic time, half a minute for 3,000 elements."""
    return list(parent.query_selector_all(selector)[:])


def _is_invisible(style: str) -> bool:
    if _INVISIBLE_STYLE.search(style) or (_ZERO_SIZE.search(style) and _OVERFLOW_HIDDEN.search(style)):
        return True
    colour, background = _COLOUR.search(style), _BACKGROUND.search(style)
    return bool(colour and background and colour[1].strip().lower() == background[1].strip().lower())


def _hiding_selectors(tree: Any) -> list[str]:
    """Selectors that the page's own style sheets hide, except rules for print or some screen sizes."""
    css = "\n".join(str(style.text) for style in _elements(tree.document, "style"))[:MAX_CSS_CHARS]
    found: list[str] = []
    for selectors, block in _rules(_CSS_COMMENT.sub(" ", css)):
        if _is_invisible(block):
            plain = (" ".join(each.split()) for each in selectors.split(","))
            found += [each for each in plain if each.lower() not in _PAGE_SELECTORS and _PLAIN_SELECTOR.fullmatch(each)]
    return found[:MAX_HIDING_RULES]


def _matching(tree: Any, selector: str) -> list[Any]:
    from resiliparse.parse.html import CSSParserException

    try:
        return _elements(tree.body, selector)
    except CSSParserException:  # browsers skip invalid selectors too
        return []


def _rules(css: str) -> Iterator[tuple[str, str]]:
    """Selectors and block of each top-level rule."""
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
    """Mark headings, code and definitions as Markdown does. In the source, since changing the tree is slow."""
    html = _HEADING_TAG.sub(lambda tag: tag[0] + "#" * int(tag[1]) + " ", html)
    html = _TERM_TAG.sub(lambda tag: tag[0] + _TERM_MARK, html.replace(_TERM_MARK, ""))
    html = _DEFINITION_TAG.sub(lambda tag: tag[0] + ": ", html)
    pieces = _CODE_BLOCK.split(html)  # every second one is a code block
    pieces[::2] = [_CODE_SPAN.sub(r"<\1\2>`\3`</\1>", piece) for piece in pieces[::2]]
    return _CODE_END.sub("\n```\n</pre>", _CODE_TAG.sub(lambda tag: tag[0] + "```\n", "".join(pieces)))


def _main_text(tree: Any) -> str:
    page = _plain(tree, main_content=False)
    min_chars = MIN_MAIN_SHARE * len(page)
    for selector in _MAIN:
        found = tree.body.query_selector_all(selector)
        if len(found) == 1 and len(text := _plain(found[0].outer_html, main_content=False)) >= min_chars:
            return text
    main = _plain(tree, main_content=True)
    return main if len(main) >= min_chars else page


def _article_text(tree: Any) -> str:
    """The lines of the page that trafilatura finds in its article, with the code, definitions and tables between them.

    trafilatura selects and resiliparse writes: the text of trafilatura joins and escapes what quotes must find as it stands.
    """
    import trafilatura

    html = tree.document.html
    if len(html) > MAX_ARTICLE_HTML_CHARS:
        return _main_text(tree)
    try:
        article = trafilatura.extract(html, favor_precision=True, include_comments=False) or ""
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError):  # of a page that it cannot read
        return _main_text(tree)
    page = _plain(tree, main_content=False)
    text = _lines_of_article(page, article, _block_lines(tree))
    return text if len(text) >= MIN_ARTICLE_SHARE * len(page) else _main_text(tree)


def _block_lines(tree: Any) -> set[str]:
    """The lines of definitions, code and tables."""
    blocks = _elements(tree.body, "dl,pre,table")[:MAX_BLOCKS]
    data = [block for block in blocks if block.tag != "table" or block.query_selector(_LAYOUT) is None]
    return {line.strip() for block in data for line in _plain(block.outer_html, main_content=False).split("\n")}


def _lines_of_article(page: str, article: str, blocks: set[str]) -> str:
    runs = {run for size in (1, 2, 3) for run in _word_runs(article, size)}
    lines = page.split("\n")
    is_block = [line.strip() in blocks or line.startswith(("|", "```")) for line in lines]
    is_known = [_is_known(line, runs) for line in lines]
    known = [at for at, line in enumerate(lines) if is_known[at] and len(_WORD.findall(line)) >= MIN_LINE_WORDS]
    if not known:
        return ""
    first, last = known[0], known[-1]
    while first > 0 and (is_block[first - 1] or not lines[first - 1] or lines[first - 1].startswith("#")):
        first -= 1
    while last + 1 < len(lines) and (is_block[last + 1] or not lines[last + 1]):
        last += 1
    kept: list[str] = []
    is_followed = False  # a heading stays if the line behind it does
    for at in range(last, first - 1, -1):
        line = lines[at]
        if not line or is_block[at] or is_known[at] or (is_followed and line.startswith("#")):
            kept.append(line)
        is_followed = bool(kept) and kept[-1] is line if line else is_followed
    return _BLANK_LINES.sub("\n\n", "\n".join(reversed(kept))).strip()


def _is_known(line: str, runs: set[tuple[str, ...]]) -> bool:
    words = _word_runs(line, 3) or _word_runs(line, 2) or _word_runs(line, 1)
    return not words or sum(run in runs for run in words) >= MIN_LINE_SHARE * len(words)


def _word_runs(text: str, size: int) -> list[tuple[str, ...]]:
    words = _WORD.findall(text.lower())
    return [tuple(words[at : at + size]) for at in range(len(words) - size + 1)]


def _plain(html: Any, *, main_content: bool) -> str:
    from resiliparse.extract.html2text import extract_plain_text

    plain = extract_plain_text(html, preserve_formatting=True, main_content=main_content, alt_texts=False)
    text = _DEFINITION.sub("\n: ", _BLANK_LINES.sub("\n\n", str(plain)).strip())
    if _TERM_MARK in text:  # a term begins a paragraph, unless it shares its definition with the term above it
        text = _TERMS_TOGETHER.sub(r"\1\n", _TERM_START.sub(f"\n\n{_TERM_MARK}", text)).replace(_TERM_MARK, "")
    return text


def _opened(file: File) -> IO[bytes]:
    return open(file, "rb") if isinstance(file, str) else io.BytesIO(base64.b64decode(file["base64"]))  # noqa: PTH123


def pdf_text(file: File) -> Answer:
    """The text of a PDF's pages, with hyphenated words joined."""
    try:
        from pypdf import PdfReader
        from pypdf.errors import PyPdfError
    except ImportError:
        return {"error": _NEEDS_EXTRA}
    try:
        with _opened(file) as opened:
            reader = PdfReader(opened, strict=False)
            if reader.is_encrypted and not reader.decrypt(""):
                return {"error": "it is encrypted: save it without a password"}
            return {"title": _own_title(getattr(reader.metadata, "title", None)), **_pages(reader)}
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
    """Widen the gaps between words. Some fonts have no blank, and their gaps are narrower than pypdf expects."""
    if operator != b"TJ" or not operands or not isinstance(operands[0], list):
        return
    parts = operands[0]
    for at in range(len(parts) - 2, 0, -1):
        if isinstance(parts[at], (int, float)) and parts[at] <= WORD_GAP:
            parts[at : at + 1] = [CERTAIN_GAP, parts[at] - CERTAIN_GAP]  # the sum is unchanged


def _running_text(pages: list[str]) -> str:
    """The pages as one text, without headers, page numbers and tables of contents, and with section headings."""
    text = ""
    for lines in _without_edges([page.split("\n") for page in pages]):
        page = "\n".join(line for line in lines if not _DOT_LEADERS.search(line)).strip()
        if page:
            continues = text and not _ENDED.search(text)
            text += ("\n" if continues else "\n\n") * bool(text) + page
    text = _TERM.sub(r"\n\n\1\n: ", text)
    text = _CAPITALS.sub(r"\n# \1\n", text)
    text = _SECTION.sub(_section, _BROKEN_WORD.sub("", text))
    return _BLANK_LINES.sub("\n\n", text).strip()


def _section(found: re.Match[str]) -> str:
    return f"\n{'#' * (1 + found[2].count('.'))} {found[0]}\n"


def _without_edges(pages: list[list[str]]) -> Iterator[list[str]]:
    """Pages without the edge lines that repeat on other pages or hold the page number."""
    edges = [{*range(min(EDGE_LINES, len(page))), *range(max(0, len(page) - EDGE_LINES), len(page))} for page in pages]
    repeated: Counter[str] = Counter()
    shifts: Counter[int] = Counter()
    for number, (page, edge) in enumerate(zip(pages, edges, strict=True)):
        repeated.update({_NUMBER.sub("#", page[at]) for at in edge})
        shifts.update({printed - number for at in edge for printed in _numbers(page[at])})
    shift, matches = max(shifts.items(), key=lambda each: each[1], default=(0, 0))
    for number, (page, edge) in enumerate(zip(pages, edges, strict=True)):
        numbered = {at for at in edge if matches >= MIN_REPEATS and number + shift in _numbers(page[at])}
        head = {at for at in edge if repeated[_NUMBER.sub("#", page[at])] >= MIN_REPEATS}
        yield [line for at, line in enumerate(page) if at not in numbered | head]


def _numbers(line: str) -> set[int]:
    """The numbers at the beginning and end of a line."""
    return {int(digits) for found in _PAGE_NUMBER.finditer(line) for digits in found.groups() if digits}


def _own_title(title: Any) -> str | None:
    """A document's title, unless a program generated it."""
    title = " ".join(str(title or "").split())
    return title if title and not _GENERATED_TITLE.search(title) else None


class _TooLargeError(Exception):
    """An archive unpacks to more than is read."""


class _Archive:
    """A zip file that unpacks at most MAX_UNPACKED_BYTES, whatever sizes its directory declares."""

    def __init__(self, file: zipfile.ZipFile) -> None:
        self._file = file
        self._left = MAX_UNPACKED_BYTES

    def part(self, name: str) -> bytes | None:
        """The unpacked bytes of a part; None where it is missing. Raises _TooLargeError."""
        try:
            with self._file.open(name) as part:
                data = part.read(self._left + 1)
        except KeyError:
            return None
        self._left -= len(data)
        if self._left < 0:
            raise _TooLargeError
        return data


def _unpacked(file: File, read: Callable[[_Archive], Answer], broken: str) -> Answer:
    try:
        with _opened(file) as opened, zipfile.ZipFile(opened) as archive:
            return read(_Archive(archive))
    except OSError:
        return {"error": "it cannot be opened"}
    except _TooLargeError:
        return {"error": f"it unpacks to more than {MAX_UNPACKED_BYTES // 1_000_000} MB"}
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, NotImplementedError, RuntimeError):  # RuntimeError: encrypted
        return {"error": broken}


class _Xml:
    """A SAX parser. Names come without namespaces. Raises ValueError for malformed XML and for entity declarations, which can
    expand to gigabytes or name local files.
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

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self.start(_local(name), {_local(key): value for key, value in attributes.items()})

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """An element begins."""

    def end(self, name: str) -> None:
        """An element ends."""

    def text(self, text: str) -> None:
        """Character data."""


def _local(name: str) -> str:
    return name.rpartition(" ")[2]


def _refused(*_: Any) -> None:
    raise ValueError


class _Elements(_Xml):
    """All elements of a small file: name, attributes, and the text behind the start tag."""

    def __init__(self, data: bytes | None) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str], list[str]]] = []
        self.read(data)

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.found.append((name, attributes, []))

    def end(self, name: str) -> None:
        self.found.append(("", {}, []))

    def text(self, text: str) -> None:
        self.found[-1][2].append(text)

    @property
    def title(self) -> str:
        """The first title in a document's metadata."""
        return next((title for name, _, text in self.found if name == "title" and (title := "".join(text))), "")


def _heading_levels(styles: _Elements) -> dict[str, int]:
    """Heading levels of a Word document's paragraph styles by id. Style names are English in every language."""
    levels: dict[str, int] = {}
    style = ""
    for name, attributes, _ in styles.found:
        value = attributes.get("val", "")
        if name == "style":
            style = attributes.get("styleId", "")
        elif name == "name" and (found := _HEADING_STYLE.fullmatch(value)):
            levels[style] = int(found[1] or 1)
        elif name == "outlineLvl" and value.isdigit() and int(value) < 6:
            levels.setdefault(style, int(value) + 1)
    return levels


class _Paragraphs(_Xml):
    """The paragraphs of a Word document: headings as `#`, list items as `-`, a table row as one line."""

    def __init__(self, levels: dict[str, int]) -> None:
        super().__init__()
        self.paragraphs: list[str] = []
        self._levels = levels
        self._pieces: list[str] = []
        self._cells: list[str] = []
        self._in_text = self._hidden = False
        self._skipped = self._tables = 0  # depth in duplicated text; depth in tables
        self._mark = ""

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name in ("Fallback", "txbxContent"):
            self._skipped += 1
        elif name == "tbl":
            self._tables += 1
        elif name == "p":
            self._mark = ""
        elif name == "pStyle" and attributes.get("val") in self._levels:
            self._mark = "#" * self._levels[attributes["val"]] + " "
        elif name == "numPr":
            self._mark = self._mark or "- "
        elif name == "r":
            self._hidden = False
        elif name == "vanish":
            self._hidden = attributes.get("val") not in ("0", "false")
        elif name == "t":
            self._in_text = True
        elif name in ("tab", "br", "cr") and not self._skipped:
            self._pieces.append(" ")

    def end(self, name: str) -> None:
        if name in ("Fallback", "txbxContent"):
            self._skipped -= 1
        elif name == "t":
            self._in_text = False
        elif name == "p" and not self._skipped:
            self._end_paragraph()
        elif name == "tr" and self._cells:
            self.paragraphs.append(" | ".join(self._cells))
            self._cells = []
        elif name == "tbl":
            self._tables -= 1

    def text(self, text: str) -> None:
        if self._in_text and not self._hidden and not self._skipped:
            self._pieces.append(text)

    def _end_paragraph(self) -> None:
        text = " ".join("".join(self._pieces).split())
        self._pieces = []
        if text and self._tables:
            self._cells.append(text)
        elif text:
            self.paragraphs.append(self._mark + text)


def docx_text(file: File) -> Answer:
    """The body of a Word document, without notes, comments and deleted text."""
    return _unpacked(file, _docx, "it is not a Word document that can be read (an encrypted one is not)")


def _docx(archive: _Archive) -> Answer:
    body = archive.part("word/document.xml")
    if body is None:
        return {"error": "it is not a Word document"}
    reader = _Paragraphs(_heading_levels(_Elements(archive.part("word/styles.xml"))))
    title = _own_title(_Elements(archive.part("docProps/core.xml")).title)
    reader.read(body)
    return {"title": title, **_bounded(reader.paragraphs)}


def epub_text(file: File) -> Answer:
    """The chapters of a book in reading order."""
    return _unpacked(file, _epub, "it is not a book that can be read")


def _epub(archive: _Archive) -> Answer:
    container = _Elements(archive.part("META-INF/container.xml"))
    path = next((found["full-path"] for name, found, _ in container.found if name == "rootfile" and "full-path" in found), "")
    folder, package = posixpath.dirname(path), _Elements(archive.part(path))
    chapters: list[str] = []
    for href in _reading_order(package)[:MAX_CHAPTERS]:
        data = archive.part(posixpath.normpath(posixpath.join(folder, unquote(href))))
        answer = html_text((data or b"").decode("utf-8", "replace"))
        if "error" in answer:
            return answer
        chapters.append(answer["text"] or "")
        if sum(map(len, chapters)) > MAX_CHARS:
            break
    return {"title": " ".join(package.title.split()) or None, **_bounded(chapters)}


def _reading_order(package: _Elements) -> list[str]:
    """The paths of a book's files."""
    files: dict[str, str] = {}
    order: list[str] = []
    for name, attributes, _ in package.found:
        if name == "item" and "html" in attributes.get("media-type", ""):
            files[attributes.get("id", "")] = attributes.get("href", "")
        elif name == "itemref" and attributes.get("idref") in files:
            order.append(files[attributes["idref"]])
    return order


def notebook_text(file: File) -> Answer:
    """The cells of a notebook, text as written and code fenced, without outputs."""
    try:
        with _opened(file) as opened:
            data = opened.read(MAX_NOTEBOOK_BYTES + 1)
        if len(data) > MAX_NOTEBOOK_BYTES:
            return {"error": f"it is larger than {MAX_NOTEBOOK_BYTES // 1_000_000} MB"}
        notebook = json.loads(data)
        cells = notebook.get("cells") or [cell for sheet in notebook["worksheets"] for cell in sheet["cells"]]
        language = str(notebook.get("metadata", {}).get("kernelspec", {}).get("language", ""))
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
    "html": html_text, "page": page_text, "linked_page": linked_page_text,
    "pdf": pdf_text, "docx": docx_text, "epub": epub_text, "ipynb": notebook_text,
}


def serve(
    requests: IO[str], answers: IO[str], cpu_seconds: float = CPU_SECONDS, wall_seconds: float = WALL_SECONDS
) -> None:
    """Answer each request line until the input ends."""
    for line in requests:
        ((kind, document),) = json.loads(line).items()
        with _time_limits(cpu_seconds, wall_seconds):
            answer = _READERS[kind](document)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


@contextlib.contextmanager
def _time_limits(cpu_seconds: float, wall_seconds: float) -> Iterator[None]:
    """End this process when a document takes too long, even if the parent has ended.

    SIGPROF comes after CPU time of this process, and unlike the SIGXCPU of RLIMIT_CPU it writes no core dump and starts anew
    with each document. The parent's own limit comes before SIGALRM. Windows has neither.
    """
    if not hasattr(signal, "setitimer"):
        yield
        return
    signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
    signal.setitimer(signal.ITIMER_REAL, wall_seconds + 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


def _limit_memory() -> None:
    with contextlib.suppress(ImportError, ValueError, OSError):  # not on Windows, not everywhere on macOS
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


if __name__ == "__main__":
    import logging

    logging.disable()
    _limit_memory()
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        serve(sys.stdin, sys.stdout, *map(float, sys.argv[1:]))
