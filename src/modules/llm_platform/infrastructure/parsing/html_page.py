"""Read the text and the links of an HTML page or file."""

import re
from collections.abc import Callable, Iterator
from html import escape
from typing import Any

from modules.llm_platform.infrastructure.parsing.answer import MAX_CHARS, NEEDS_EXTRA, Answer
from modules.llm_platform.infrastructure.parsing.article import ARTICLE_HTML_CHARS, find_article, remove_repeats
from modules.llm_platform.infrastructure.parsing.exponents import EXPONENT, raise_exponent
from modules.llm_platform.infrastructure.parsing.html_limits import (
    HTML_DEPTH,
    MAX_TAGS,
    TooDeepError,
    TooManyElementsError,
    limit_html,
)
from modules.llm_platform.infrastructure.parsing.nodes import (
    TERM_MARK,
    count_chars,
    find_elements,
    parse,
    remove,
    render_plain_text,
)

MIN_MAIN_SHARE = 0.5  # A main content with a smaller share of a file's text was detected wrongly.
MIN_LINKED_SHARE = 0.5  # What is left out of a file is menus if this share of it is links.
MIN_PAGE_CHARS = 200  # A page with less text is read again with its `noscript` and its surroundings.
MAX_REREAD_HTML_CHARS = 1_000_000  # The trees of both readings are in memory together.
MIN_PAGE_WORDS = 200  # The second reading counts only with as many words.
MAX_LINKS = 1000  # Links of a page.
MAX_IMAGES = 50  # Images of a page.
MAX_HREF_CHARS = 2000
MAX_LINK_TEXT_CHARS = 200
MAX_CSS_CHARS = 300_000
MAX_HIDING_RULES = 200
MAX_TABLES = 200  # Tables of a page.
MAX_PANELS = 200  # Panels of a page that a button opens.
MAX_COMMENTS = 500  # Comments of a page.
MAX_AUTHOR_CHARS = 80
MAX_ROWS = 5000  # Rows of a table; a longer one stays as it is.
MAX_SPREAD_CELLS = 10_000  # Cells of a page that stand for a cell of several rows or columns.
MAX_REPEATED_CHARS = 200  # A longer text of a cell of several rows is in the first of them.
MAX_SPAN_DIGITS = 4

_HIDDEN = "[hidden],[aria-hidden=true],template,noscript,script,style,svg,iframe,object,select,dialog:not([open])"
_BOILERPLATE = (
    "nav,footer,aside,[role=navigation],[role=search],[role=contentinfo],.headerlink,button"
    ",.navheader,.navfooter,.nosearch,td.icon,.toc,#toc,#TOC,.toctree-wrapper"  # DocBook, Sphinx and wikis use these classes.
)
_PAGE_BOILERPLATE = f"{_BOILERPLATE},[class*=related],[id*=related],[class*=recommend]"
_COMMENT = "li.comment,div.comment,article.comment,[itemtype$='schema.org/Comment']"
_COMMENT_AUTHOR = "[itemprop=author],.comment-author .fn,.comment-author,.fn,.author,.username,cite"
_NOSCRIPT = re.compile(r"</?noscript[^<>]{0,200}>", re.IGNORECASE)
_MAIN = ("main", "[role=main]", "article")
_LAYOUT = "table,pre,ul,ol,dl,h1,h2,h3,h4"  # A table that contains one of these is page layout.
# This matches lower-case styles. Each alternative begins with a letter, so that the search is fast.
_INVISIBLE_STYLE = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|opacity\s*:\s*(?:0+(?:\.0*)?|\.0+)(?![.\d])"
    r"|font-size\s*:\s*(?:0+(?:\.0*)?|\.0+)(?![.\d])|left\s*:\s*-\d{3,}|right\s*:\s*-\d{3,}|top\s*:\s*-\d{3,}"
    r"|bottom\s*:\s*-\d{3,}|text-indent\s*:\s*-\d{3,}|margin-\w+\s*:\s*-\d{3,}"
    r"|clip\s*:\s*rect|clip-path\s*:\s*inset\(\s*(?:50|100)%|font-size\s*:\s*0*1(?:\.0+)?px"
    r"|color(?<![-\w]color)\s*:\s*transparent|transform\s*:[^;]{0,100}scale[xy]?\(\s*(?:(?:0+(?:\.0*)?|\.0*)\s*)?[,)]"
    r"|content-visibility\s*:\s*hidden|mso-hide"
)
_ZERO_SIZE = re.compile(
    r"(?<![-\w])(?:max-)?(?:height|width)\s*:\s*[01](?:\.0+)?(?:px|em|rem|%)?\s*(?:!important\s*)?(?:;|$)"
)
_OVERFLOW_HIDDEN = re.compile(r"overflow(?:-[xy])?\s*:\s*(?:hidden|clip)")
_COLOUR = re.compile(r"color(?<![-\w]color)\s*:\s*([^;!]{1,60})")
_BACKGROUND = re.compile(r"background(?<![-\w]background)(?:-color)?\s*:\s*([^;!]{1,60})")
_CSS_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_PLAIN_SELECTOR = re.compile(r"[\w\s.#>+~*=\"'\[\]-]{1,200}")
_PAGE_SELECTORS = frozenset(
    ("", "*", "html", "body", "main", "html body")
)  # Some pages are hidden until a script has run.
# A heading, a term, a definition, or the beginning of code.
_MARKED_TAG = re.compile(
    r"<(?:h([1-6])(?:\s[^<>]{0,1000})?>|(dt)(?:\s[^<>]{0,1000})?>|(dd)(?:\s[^<>]{0,1000})?>(?:\s*<p(?:\s[^<>]{0,1000})?>)?"
    r"|(?:pre|code|kbd|samp|tt)(?=[\s>]))",
    re.IGNORECASE,
)
_RAISED = re.compile(rf"(\d)<sup(?:\s[^<>]{{0,1000}})?>\s{{0,10}}({EXPONENT})\s{{0,10}}</sup\s{{0,10}}>", re.IGNORECASE)
_LABEL_END = re.compile(r"</(?:summary|legend)\s{0,10}>", re.IGNORECASE)  # The text after it is a line of its own.
_CODE_TAG = re.compile(r"<pre(?:\s[^<>]{0,1000})?>", re.IGNORECASE)
_CODE_END = re.compile(r"</pre\s{0,10}>", re.IGNORECASE)
_CODE_BLOCK = re.compile(r"(<pre(?:\s[^<>]{0,1000})?>.*?</pre\s{0,10}>)", re.IGNORECASE | re.DOTALL)
_CODE_SPAN = re.compile(r"<(code|kbd|samp|tt)((?:\s[^<>]{0,1000})?)>([^`]{1,300}?)</\1\s{0,10}>", re.IGNORECASE)


def read_html(html: str) -> Answer:
    """Return the visible main content of a file, with headings as `#` and fenced code."""
    return _read_bounded(html, _read_file)


def read_page(html: str) -> Answer:
    """Return the main content of a page on the web without its menus, teasers and notices, in the form of `read_html`.

    `extraction` is the fraction of the page's visible text that was extracted. If the main content is not found, the
    text has all of it.
    """
    return _read_bounded(html, lambda bounded: _read_page(html, bounded, lambda _: {}))


def read_linked_page(html: str) -> Answer:
    """Return the text as `read_page` does, with the `hyperlinks` of the whole page, its menus included."""
    return _read_bounded(
        html, lambda bounded: _read_page(html, bounded, lambda tree: {"hyperlinks": _read_hyperlinks(tree)})
    )


def read_whole_page(html: str) -> Answer:
    """Return all visible text of a page, its menus and notices included, with `hyperlinks`."""

    def read(bounded: str) -> Answer:
        tree = parse(bounded)
        if tree.body is None:
            return _make_answer(tree, "")
        links = _read_hyperlinks(tree)
        return {**_make_answer(tree, _prepare_page(tree, "")[0]), "extraction": 1.0, "hyperlinks": links}

    return _read_bounded(html, read)


def _read_bounded(html: str, read: Callable[[str], Answer]) -> Answer:
    """Return the answer of `read` for the page with its structure marked as Markdown, cut to the limits of a parser.

    The structure is marked first, because the limits hold for the text that is parsed.
    """
    try:
        bounded, note = limit_html(_mark_structure(html))
        return {**read(bounded), "note": note}
    except ImportError:
        return {"error": NEEDS_EXTRA}
    except TooDeepError:
        return {"error": f"its elements are nested more than {HTML_DEPTH} deep"}
    except TooManyElementsError:
        return {"error": f"a parser makes more than {MAX_TAGS:,} elements of it"}


def _read_file(bounded: str) -> Answer:
    tree = parse(bounded)
    if tree.body is None:
        return _make_answer(tree, "")
    remove([*_find_hidden(tree), *find_elements(tree.body, _BOILERPLATE)])
    _set_tables(tree)
    return _make_answer(tree, _find_text_of_file(tree, render_plain_text(tree)))


def _read_page(html: str, bounded: str, more_of: Callable[[Any], Answer]) -> Answer:
    tree = parse(bounded)
    if tree.body is None:
        return _make_answer(tree, "")
    more = more_of(tree)
    page, visible_chars = _prepare_page(tree, _PAGE_BOILERPLATE)
    if len(page) < MIN_PAGE_CHARS < len(html) < MAX_REREAD_HTML_CHARS:
        whole = parse(limit_html(_mark_structure(_NOSCRIPT.sub("", html)))[0])
        whole_page, whole_chars = _prepare_page(whole, "")
        if len(whole_page.split()) >= MIN_PAGE_WORDS:
            tree, page, visible_chars = whole, whole_page, whole_chars
    article = find_article(tree, page) if len(html) <= ARTICLE_HTML_CHARS else ""
    text = article or remove_repeats(_find_main_text(tree, page))
    share = min(1.0, count_chars(text) / visible_chars) if visible_chars else 1.0
    return {**_make_answer(tree, text), "extraction": round(share, 2), **more}


def _prepare_page(tree: Any, boilerplate: str) -> tuple[str, int]:
    """Remove hidden elements and `boilerplate` from the tree. Return the text, and the number of all visible characters."""
    _unhide_scripted_parts(tree)
    remove(_find_hidden(tree))
    visible_chars = count_chars(tree.body.text)
    if boilerplate:
        headers = find_elements(tree.body, "body > header,body > div > header,[role=banner]")
        # A header that has the page's own title is part of the article.
        site_headers = [header for header in headers if header.query_selector("h1") is None]
        remove([*site_headers, *find_elements(tree.body, boilerplate)])
    _mark_comments(tree)
    _set_tables(tree)
    return remove_repeats(render_plain_text(tree)), visible_chars


def _make_answer(tree: Any, text: str) -> Answer:
    return {"title": " ".join((tree.title or "").lstrip("# ").split()), "text": text[:MAX_CHARS]}


def _read_hyperlinks(tree: Any) -> Answer:
    """Return the addresses as they are written. Links are left out if the page or the link has `nofollow`."""
    metas = find_elements(tree.document, "meta[name]")
    policies = [meta.getattr("content") or "" for meta in metas if (meta.getattr("name") or "").lower() == "robots"]
    anchors = [] if "nofollow" in ",".join(policies).lower() else find_elements(tree.document, "a[href]")
    links = [
        [anchor.getattr("href"), " ".join(str(anchor.text).split()).lstrip("# ")[:MAX_LINK_TEXT_CHARS]]
        for anchor in anchors[:MAX_LINKS]
        if "nofollow" not in (anchor.getattr("rel") or "").lower() and len(anchor.getattr("href")) <= MAX_HREF_CHARS
    ]
    images = [image.getattr("src") for image in find_elements(tree.document, "img[src]")[:MAX_IMAGES]]
    icons = [
        link for link in find_elements(tree.document, "link[rel]") if "icon" in link.getattr("rel").lower().split()
    ]
    bases = find_elements(tree.document, "base[href]")
    return {
        "base": bases[0].getattr("href") if bases else "",
        "links": links,
        "images": [image for image in images if len(image) <= MAX_HREF_CHARS],
        "icon": next((icon.getattr("href") for icon in icons if icon.getattr("href")), ""),
    }


def _unhide_scripted_parts(tree: Any) -> None:
    """Unhide the parts that a script shows at once, or at a click on a button or a tab.

    React streams parts of a page as `<div hidden id="S:0">`, and its script shows them when they have arrived. Panels that
    `aria-controls` names belong to accordions and tabs.
    """
    shown = find_elements(tree.document, 'main[style],body[style],[hidden][id^="S:"]')
    for control in find_elements(tree.body, "[aria-controls][aria-expanded],[role=tab][aria-controls]")[:MAX_PANELS]:
        panel = tree.document.get_element_by_id(control.getattr("aria-controls") or "")
        if panel is None or control.hasattr("aria-haspopup") or not str(control.text).strip():
            continue
        around = panel.parent  # Libraries hide a panel or the only element around it.
        # `child_nodes` would take time that grows faster than the square of its length.
        shown += [panel, around] if around is not None and around.child_element_count == 1 else [panel]
    for node in shown:
        for attribute in ("hidden", "aria-hidden", "style"):
            if node.hasattr(attribute):
                node.delattr(attribute)


def _find_hidden(tree: Any) -> list[Any]:
    styled = find_elements(tree.body, "[style]")
    hidden = [node for node in styled if _is_invisible(node.getattr("style") or "")]
    hidden += [node for selector in _find_hiding_selectors(tree) for node in _find_matching(tree, selector)]
    return hidden + find_elements(tree.body, _HIDDEN)


def _mark_comments(tree: Any) -> None:
    """Insert a line before each reader's comment that says so, with the author's name if the page has it."""
    for comment in find_elements(tree.body, _COMMENT)[:MAX_COMMENTS]:
        author = comment.query_selector(_COMMENT_AUTHOR)
        name = " ".join(str(author.text).split())[:MAX_AUTHOR_CHARS] if author is not None else ""
        mark = tree.create_element("p")
        mark.text = f"Comment by {name}:" if name else "Comment:"
        comment.insert_before(mark, comment.first_child) if comment.first_child is not None else None


def _set_tables(tree: Any) -> None:
    """Replace tables that have a header row by Markdown, below their caption. A table with block elements is page layout and
    stays.
    """
    spread = _CellSpread()
    for table in find_elements(tree.body, "table")[:MAX_TABLES]:
        if table.query_selector(_LAYOUT) is not None:
            continue
        found = find_elements(table, "tr")
        if not 2 <= len(found) <= MAX_ROWS:
            continue
        rows = [find_elements(row, "th,td") for row in found]
        if len(rows[0]) < 2 or any(cell.tag != "th" for cell in rows[0]):
            continue
        cells = spread.read(rows)
        lines = [f"| {' | '.join(row)} |" for row in (cells[0], ["---"] * len(cells[0]), *cells[1:])]
        caption = table.query_selector("caption")
        title = "" if caption is None else " ".join(str(caption.text).split())
        table.html = f"<p>{escape(title)}</p>" * bool(title) + f"<p>{'<br>'.join(map(escape, lines))}</p>"


class _CellSpread:
    """Reads the cells of a page's tables, each below the name of its column.

    A cell of several rows is in each of them, and one of several columns is followed by empty ones, up to MAX_SPREAD_CELLS.
    """

    def __init__(self) -> None:
        self._left = MAX_SPREAD_CELLS

    def read(self, rows: list[list[Any]]) -> list[list[str]]:
        below: dict[int, tuple[str, int]] = {}  # The text of a column in the rows that follow, and their number.
        return [self._read_row(row, below) for row in rows]

    def _read_row(self, row: list[Any], below: dict[int, tuple[str, int]]) -> list[str]:
        texts: list[str] = []
        for cell in (*row, None):
            while self._left and (column := len(texts)) in below:
                text, count = below.pop(column)
                if count > 1:
                    below[column] = text, count - 1
                texts.append(text)
                self._left -= 1
            if cell is None:
                break
            text = " ".join(str(cell.text).split()).replace("|", "\\|")
            count = _read_span(cell, "rowspan")
            for offset in range(1 + min(_read_span(cell, "colspan") - 1, self._left)):
                shown = "" if offset else text
                if count > 1:
                    below[len(texts)] = shown if len(shown) <= MAX_REPEATED_CHARS else "", count - 1
                texts.append(shown)
                self._left -= offset > 0
        return texts


def _read_span(cell: Any, name: str) -> int:
    value = cell.getattr(name) or ""
    is_number = value.isascii() and value.isdecimal() and len(value) <= MAX_SPAN_DIGITS
    return max(1, int(value)) if is_number else 1


def _is_invisible(style: str) -> bool:
    style = style.lower()
    if _INVISIBLE_STYLE.search(style) or (_OVERFLOW_HIDDEN.search(style) and _ZERO_SIZE.search(style)):
        return True
    background = _BACKGROUND.search(style)
    colour = _COLOUR.search(style) if background else None
    return bool(colour and background and colour[1].strip() == background[1].strip())


def _find_hiding_selectors(tree: Any) -> list[str]:
    """Return the selectors that the page's own style sheets hide, without rules for print or some screen sizes."""
    css = "\n".join(str(style.text) for style in find_elements(tree.document, "style"))[:MAX_CSS_CHARS]
    found: list[str] = []
    for selectors, block in _split_rules(_CSS_COMMENT.sub(" ", css)):
        if _is_invisible(block):
            plain = (" ".join(selector.split()) for selector in selectors.split(","))
            found += [
                selector
                for selector in plain
                if selector.lower() not in _PAGE_SELECTORS and _PLAIN_SELECTOR.fullmatch(selector)
            ]
    return found[:MAX_HIDING_RULES]


def _find_matching(tree: Any, selector: str) -> list[Any]:
    from resiliparse.parse.html import CSSParserException

    try:
        return find_elements(tree.body, selector)
    except CSSParserException:
        # Browsers skip invalid selectors, too.
        return []


def _split_rules(css: str) -> Iterator[tuple[str, str]]:
    """Yield the selectors and the block of each top-level rule."""
    depth, selectors = 0, ""
    *ended, _ = css.split("}")
    for piece in ended:
        first, *blocks = piece.split("{")
        if blocks and not depth:
            selectors = first.rpartition(";")[2]
        depth += len(blocks)
        if depth == 1 and "@" not in selectors:
            yield selectors, blocks[-1] if blocks else first
        depth = max(depth - 1, 0)


def _mark_structure(html: str) -> str:
    """Mark headings, code and definitions as Markdown does, exponents, and the ends of labels.

    The source is changed, because changing the tree is slow.
    """
    has_code = False

    def mark_tag(tag: re.Match[str]) -> str:
        nonlocal has_code
        if tag[1]:
            return tag[0] + "#" * int(tag[1]) + " "
        if tag[2]:
            return tag[0] + TERM_MARK
        if tag[3]:
            return tag[0] + ": "
        has_code = True
        return tag[0]

    html = _MARKED_TAG.sub(mark_tag, html.replace(TERM_MARK, ""))
    html = _RAISED.sub(
        lambda raised: raised[1] + raise_exponent(raised[1], raised[2]), html.replace("&minus;", "\u2212")
    )
    html = _LABEL_END.sub(r"\g<0><br>", html)
    if not has_code:
        return html
    end = max((end.end() for end in _CODE_END.finditer(html)), default=0)
    # After the last end there is no complete block, and the search for one would read all of the rest each time.
    pieces = _CODE_BLOCK.split(html[:end])  # Every second piece is a code block.
    pieces[-1] += html[end:]
    pieces[::2] = [_CODE_SPAN.sub(r"<\1\2>`\3`</\1>", piece) for piece in pieces[::2]]
    return _CODE_END.sub("\n```\n</pre>", _CODE_TAG.sub(lambda tag: tag[0] + "```\n", "".join(pieces)))


def _find_text_of_file(tree: Any, page: str) -> str:
    """Return the main content of a file: the part that its author marks, or else what resiliparse selects.

    The selection is made for pages of the web, and leaves out lists of short items. It only counts if what it leaves out
    consists of links.
    """
    if marked := _find_marked_part(tree, page):
        return marked
    main = render_plain_text(tree, main_content=True)
    kept = {line.strip() for line in main.split("\n")}
    left_out = "".join(line for line in page.split("\n") if line.strip() not in kept)
    chars = count_chars(left_out)
    links = {text for link in find_elements(tree.body, "a") if (text := link.text.strip()) and text in left_out}
    is_of_links = sum(map(count_chars, links)) >= MIN_LINKED_SHARE * chars
    return main if chars and is_of_links and len(main) >= MIN_MAIN_SHARE * len(page) else page


def _find_main_text(tree: Any, page: str) -> str:
    """Return the main content of `page`, the text of `tree`: the part that its author marks, or else resiliparse selects."""
    if marked := _find_marked_part(tree, page):
        return marked
    main = render_plain_text(tree, main_content=True)
    return main if len(main) >= MIN_MAIN_SHARE * len(page) else page


def _find_marked_part(tree: Any, page: str) -> str:
    """Return the text of the only `main` or `article` of a page if it has most of the text; else an empty string."""
    for selector in _MAIN:
        found = tree.body.query_selector_all(selector)
        if len(found) == 1 and len(text := render_plain_text(found[0].outer_html)) >= MIN_MAIN_SHARE * len(page):
            return text
    return ""
