"""The text and the links of an HTML page or file."""

import re
from collections.abc import Callable, Iterator
from html import escape
from typing import Any

from modules.llm_platform.infrastructure.documents.parsing.answer import BLANK_LINES, MAX_CHARS, NEEDS_EXTRA, Answer
from modules.llm_platform.infrastructure.documents.parsing.html_limits import MAX_DEPTH, TooDeepError, bounded_html
from modules.llm_platform.infrastructure.documents.parsing.limits import OutOfTimeError, cpu_limit

MIN_MAIN_SHARE = 0.5  # of a file's text; a main content with less was detected wrongly
MIN_ARTICLE_SHARE = 0.05  # of a page's text; an article with less was detected wrongly, as on an index page
MAX_ARTICLE_HTML_CHARS = 2_000_000  # a longer page is not searched for its article
ARTICLE_CPU_SECONDS = 1.2  # to find a page's article; after that the page is read without
MIN_LINE_SHARE = 0.5  # of the three-word runs of a line, that the article must have
MIN_LINE_WORDS = 4  # of a line that can begin or end the article; shorter ones occur in menus too
MAX_BLOCKS = 500  # code blocks, lists of definitions and tables of a page
MAX_LINKS = 1000  # of a page
MAX_IMAGES = 50  # of a page
MAX_HREF_CHARS = 2000
MAX_LINK_TEXT_CHARS = 200
MAX_CSS_CHARS = 300_000
MAX_HIDING_RULES = 200
MAX_TABLES = 200  # of a page
MAX_ROWS = 500  # of a table

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
_HEADING_TAG = re.compile(r"<h([1-6])(?:\s[^<>]{0,1000})?>", re.IGNORECASE)
_CODE_TAG = re.compile(r"<pre(?:\s[^<>]{0,1000})?>", re.IGNORECASE)
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

        html, note = bounded_html(html)
        tree = HTMLTree.parse(_with_structure(html))
        title = tree.title
        if tree.body is None:
            return {"title": title, "text": "", "note": note}
        more = {} if hyperlinks_of is None else {"hyperlinks": hyperlinks_of(tree)}
        _remove_hidden(tree)
        _set_tables(tree)
        return {"title": " ".join((title or "").split()), "text": text_of(tree)[:MAX_CHARS], "note": note, **more}
    except ImportError:
        return {"error": NEEDS_EXTRA}
    except TooDeepError:
        return {"error": f"its elements are nested more than {MAX_DEPTH} deep"}


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
        with cpu_limit(ARTICLE_CPU_SECONDS):
            article = trafilatura.extract(html, favor_precision=True, include_comments=False) or ""
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError, OutOfTimeError):
        # A page that it cannot read, or not in time.
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
    return BLANK_LINES.sub("\n\n", "\n".join(reversed(kept))).strip()


def _is_known(line: str, runs: set[tuple[str, ...]]) -> bool:
    words = _word_runs(line, 3) or _word_runs(line, 2) or _word_runs(line, 1)
    return not words or sum(run in runs for run in words) >= MIN_LINE_SHARE * len(words)


def _word_runs(text: str, size: int) -> list[tuple[str, ...]]:
    words = _WORD.findall(text.lower())
    return [tuple(words[at : at + size]) for at in range(len(words) - size + 1)]


def _plain(html: Any, *, main_content: bool) -> str:
    from resiliparse.extract.html2text import extract_plain_text

    plain = extract_plain_text(html, preserve_formatting=True, main_content=main_content, alt_texts=False)
    text = _DEFINITION.sub("\n: ", BLANK_LINES.sub("\n\n", str(plain)).strip())
    if _TERM_MARK in text:  # a term begins a paragraph, unless it shares its definition with the term above it
        text = _TERMS_TOGETHER.sub(r"\1\n", _TERM_START.sub(f"\n\n{_TERM_MARK}", text)).replace(_TERM_MARK, "")
    return text
