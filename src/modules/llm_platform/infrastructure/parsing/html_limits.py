"""Limits on pages that would take a parser gigabytes or minutes, and on trees that would take minutes to read."""

import re
from collections import Counter
from typing import Any

HTML_DEPTH = 512  # elements within each other; Chrome nests no deeper either. Pages of the web rarely reach 60
MAX_TAGS = 300_000  # elements, comments and ends together; each takes about 500 bytes in the parsers' trees
MAX_UNSEEN_TAGS = 8000  # a page of at most this many tags is parsed unchecked, in at most 1.5 s
MAX_ALIKE = 3  # formatting elements of equal attributes that a parser repeats, which HTML calls the Noah's Ark clause
MAX_COMPARED_CHARS = 200  # a longer tag is like no other
MAX_LOOK_BACK = 64  # open elements that are compared with an end tag: a tag takes the same time whatever is open
MAX_ATTRIBUTES = 100  # attributes matched at once: each takes 100 bytes until the tag ends

# As in HTML's section on tokenization. All of it matches: no attribute is looked at twice, whatever follows it.
_WS = r"\t\n\f\r "
_TAG = re.compile(rf"<(?:(/?)([a-zA-Z][^{_WS}/>]*)|!--|[!?/])")
_ATTRIBUTE = (
    rf"[^{_WS}/>][^{_WS}/>=]*"
    rf"""(?:[{_WS}]*=[{_WS}]*(?:"[^"]*(?:"|\Z)|'[^']*(?:'|\Z)|[^{_WS}>"'][^{_WS}>]*)?)?"""
)
_ATTRIBUTES = re.compile(rf"(?:[{_WS}]+|{_ATTRIBUTE}|/(?!>)){{0,{MAX_ATTRIBUTES}}}(/?>)?")
_COMMENT_END = re.compile(r"--!?>")
_TOO_DEEP = " > ".join(["*"] * (HTML_DEPTH + 3))  # html and body are above them


def _split_names(names: str) -> frozenset[str]:
    return frozenset(names.split())


_VOID = _split_names(
    "area base basefont bgsound br col embed frame hr image img input keygen link meta param source track wbr"
)
# Elements whose content has no tags. PLAINTEXT has no end.
_RAW_TEXT = {
    name: re.compile(rf"</{name}(?=[{_WS}/>])", re.ASCII | re.IGNORECASE)
    for name in ("script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes", "plaintext")
}
_SCRIPT_MARK = re.compile(rf"<!(?=--)|-->|<(/?)script(?=[{_WS}/>])", re.ASCII | re.IGNORECASE)
_TABLE_PARTS = _split_names("caption colgroup table tbody td tfoot th thead tr")
_SPECIAL = _TABLE_PARTS | _split_names(
    "address article aside blockquote body button center dd details dir div dl dt fieldset figcaption figure footer form"
    " h1 h2 h3 h4 h5 h6 head header hgroup html li main menu nav noscript object ol p pre section select summary template ul"
)
_SCOPES = _split_names("applet caption foreignobject marquee object table td template th")
_TABLE_SCOPES = _split_names("table template")
_MARKERS = _split_names("applet caption marquee object td template th")
_P_SCOPES = _SCOPES | {"button"}
_BLOCKS = _SPECIAL - _TABLE_PARTS - _split_names("body button head html noscript object select template") | {"table"}
_PARAGRAPH = _split_names("p")
_FORMATTING = _split_names("b big code em font i nobr s small strike strong tt u")
_FOREIGN_ROOTS = _split_names("svg math")
_IMPLIED_ENDS = _split_names("dd dt form li optgroup option p")  # these end with a form
_ROWS = frozenset(("tbody", "thead", "tfoot"))
_CELLS = frozenset(("td", "th"))
_ENDED_BY = {
    "a": frozenset("a"),
    "li": frozenset(("li",)),
    "option": frozenset(("option",)),
    "dt": frozenset(("dt", "dd")),
    "dd": frozenset(("dt", "dd")),
    "td": _CELLS,
    "th": _CELLS,
    "tr": _CELLS | {"tr"},
    **dict.fromkeys(_ROWS, _ROWS | _CELLS | {"tr"}),
}  # elements that end without an end tag when this one begins
_STOPS = {name: _SPECIAL - ended - {"p", "div", "address"} for name, ended in _ENDED_BY.items()}


class TooDeepError(Exception):
    """The elements of a page are nested too deeply."""


class TooManyElementsError(Exception):
    """The tree of a page has more than MAX_TAGS elements, which may be more than the page has tags."""


def check_tree(document: Any) -> None:
    """Raise TooManyElementsError or TooDeepError for a tree of resiliparse that has more than MAX_TAGS or is beyond HTML_DEPTH.

    What parses is fast, and what reads the tree afterwards is not: hiding one of 2,500 nested lists took a minute.
    """
    count = len(document.query_selector_all("*"))
    if count > MAX_TAGS:
        raise TooManyElementsError
    if count > HTML_DEPTH and document.query_selector(_TOO_DEEP) is not None:
        raise TooDeepError


def limit_html(html: str) -> tuple[str, str | None]:
    """Return the page up to MAX_TAGS, and a note if that is not all of it. Raises TooDeepError beyond HTML_DEPTH.

    A parser takes quadratic time for deep trees. With at most MAX_UNSEEN_TAGS tags this is fast, so only `check_tree` checks
    such a page. The depth is an estimate that follows the rules of HTML for tags that end others. The page is read in one pass,
    in linear time.
    """
    if html.count("<") <= MAX_UNSEEN_TAGS:
        return html, None
    elements = _OpenElements()
    at = 0
    for _ in range(MAX_TAGS):
        tag = _TAG.search(html, at)
        if tag is None:
            return html, None
        at = tag.end()
        if tag[2] is None:
            at = _find_comment_end(html, tag[0], at, is_foreign=elements.is_foreign)
            continue
        name = tag[2].lower() if tag[2].isascii() else tag[2]  # HTML lowers no other letters: the Kelvin sign is no `k`
        start, (at, ends_itself) = at, _find_tag_end(html, at)
        if tag[1]:
            elements.end(name)
        elif elements.is_foreign or name in _FOREIGN_ROOTS:
            if not ends_itself:
                elements.start(name, "")
        elif name not in _VOID:
            elements.start(name, html[start:at] if at - start <= MAX_COMPARED_CHARS else str(at))
            if name in _RAW_TEXT and elements.is_raw_text(name):
                elements.end(name)
                at = _find_raw_text_end(html, name, at)
    return html[:at], f"only its first {MAX_TAGS:,} tags were read"


def _find_tag_end(html: str, at: int) -> tuple[int, bool]:
    """Return the end of a tag whose attributes begin here, and whether it ends its own element, as in SVG."""
    if html.startswith(">", at):
        return at + 1, False
    while True:
        attributes = _ATTRIBUTES.match(html, at)
        if attributes is None or attributes.end() == at:  # the page ends within the tag
            return len(html), False
        at = attributes.end()
        if attributes[1]:
            return at, attributes[1] == "/>"


def _find_comment_end(html: str, opening: str, at: int, *, is_foreign: bool) -> int:
    """Return the end of a comment. `<!-->`, `<!--->` and `<!x>` are whole comments. SVG has CDATA."""
    if opening == "<!--" and not html.startswith((">", "->"), at):
        end = _COMMENT_END.search(html, at)
        return end.end() if end else len(html)
    mark = "]]>" if is_foreign and html.startswith("[CDATA[", at) else ">"
    end_at = html.find(mark, at)
    return end_at + len(mark) if end_at >= 0 else len(html)


def _find_raw_text_end(html: str, name: str, at: int) -> int:
    """Return the end of an element whose content has no tags, after its end tag."""
    if name == "plaintext":
        return len(html)
    end = _find_script_end(html, at) if name == "script" else _RAW_TEXT[name].search(html, at)
    return _find_tag_end(html, end.end())[0] if end else len(html)


def _find_script_end(html: str, at: int) -> re.Match[str] | None:
    """Return the end tag of a script. Within `<!--` a script may hold another one, whose end tag is part of it."""
    is_comment = is_inner = False
    for mark in _SCRIPT_MARK.finditer(html, at):
        if mark[0] == "<!":
            is_comment = True
        elif mark[0] == "-->":
            is_comment = is_inner = False
        elif not mark[1]:
            is_inner = is_comment
        elif is_inner:
            is_inner = False
        else:
            return mark
    return None


class _OpenElements:
    """The elements that are open at some place of a page, roughly as a parser has them."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._counts: Counter[str] = Counter()
        self._alike: dict[str, Counter[str]] = {}  # formatting by name and attributes, since the last end of one
        self._unclosed = 0  # formatting that no end tag has closed: a parser repeats it in each paragraph that follows

    @property
    def is_foreign(self) -> bool:
        """Return whether the tag is within SVG or MathML, where `/>` ends an element."""
        count = self._counts
        return count["svg"] + count["math"] > count["foreignobject"] + count["desc"] + count["annotation-xml"]

    def is_raw_text(self, name: str) -> bool:
        """Return whether the content of `script` or `style` is text here.

        In SVG it may have elements. A list of options ignores all such tags but `textarea`.
        """
        count = self._counts
        return not (count["svg"] or count["math"] or (count["select"] and name != "textarea"))

    def start(self, name: str, attributes: str) -> None:
        if name in _TABLE_PARTS and not (self._counts["table"] or self._counts["template"]) and name != "table":
            return  # outside of a table they are ignored, with what they would end
        if self._counts["p"] and name in _BLOCKS:
            self._close(_PARAGRAPH, _P_SCOPES)
        if name in _ENDED_BY and (name != "option" or self._names[-1:] == ["option"]):
            self._close(_ENDED_BY[name], _STOPS[name])
        self._names.append(name)
        self._counts[name] += 1
        if name in _FORMATTING:
            alike = self._alike.setdefault(name, Counter())
            alike[attributes] += 1
            self._unclosed += alike[attributes] <= MAX_ALIKE
        if len(self._names) > HTML_DEPTH or self._unclosed > HTML_DEPTH:
            raise TooDeepError

    def end(self, name: str) -> None:
        if name in _FORMATTING:
            self._unclosed = max(0, self._unclosed - 1)
            self._alike.pop(name, None)
        if not self._counts[name] or (name == "form" and self._names[-1] not in _IMPLIED_ENDS):
            return  # what a form holds stays open, and stays within it
        stops = _TABLE_SCOPES if name in _TABLE_PARTS else _SCOPES if name in _SPECIAL else _SPECIAL
        self._close(frozenset((name,)), stops)

    def _close(self, ended: frozenset[str], stops: frozenset[str]) -> None:
        """End the outermost of `ended` that is found below one of `stops`, and all within it."""
        found = None
        for position in range(len(self._names) - 1, max(-1, len(self._names) - 1 - MAX_LOOK_BACK), -1):
            if self._names[position] in ended:
                found = position
                if len(ended) == 1:
                    break
            elif self._names[position] in stops:
                break
        if found is not None:
            closed = self._names[found:]
            self._counts.subtract(closed)
            if not _MARKERS.isdisjoint(closed):  # formatting ends with its cell
                self._alike.clear()
                self._unclosed = max(0, self._unclosed - sum(name in _FORMATTING for name in closed))
            del self._names[found:]
