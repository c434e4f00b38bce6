"""Looks at a page's tags, without parsing them, so that no parser gets one whose tree takes gigabytes or minutes."""

import re
from collections import Counter

MAX_DEPTH = 512  # elements within each other; Chrome nests no deeper either. Pages of the web rarely reach 60
MAX_TAGS = 300_000  # of elements, comments and ends together; each takes about 500 bytes in the parsers' trees
MAX_ALIKE = 3  # formatting elements of equal attributes that a parser repeats, which HTML calls the Noah's Ark clause
MAX_COMPARED_CHARS = 200  # of a tag; a longer one is like no other
MAX_LOOK_BACK = 64  # open elements that are compared with an end tag: a tag takes the same time whatever is open

_TAG = re.compile(r"<(?:(/?)([a-zA-Z][^\s/>]{0,30})|!--|[!?])")
_COMMENT_END = re.compile(r"--!?>")


def _names(names: str) -> frozenset[str]:
    return frozenset(names.split())


_VOID = _names("area base basefont bgsound br col embed frame hr img input keygen link meta param source track wbr")
_RAW_TEXT = {name: re.compile(rf"</{name}[\s/>]", re.IGNORECASE) for name in ("script", "style")}
_TABLE_PARTS = _names("caption colgroup table tbody td tfoot th thead tr")
_SPECIAL = _TABLE_PARTS | _names(
    "address article aside blockquote body button center dd details dir div dl dt fieldset figcaption figure footer form"
    " h1 h2 h3 h4 h5 h6 head header hgroup html li main menu nav noscript object ol p pre section select summary template ul"
)
_SCOPES = _names("applet caption foreignobject marquee object table td template th")
_TABLE_SCOPES = _names("table template")
_MARKERS = _names("applet caption marquee object td template th")
_P_SCOPES = _SCOPES | {"button"}
_BLOCKS = _SPECIAL - _TABLE_PARTS - _names("body button head html noscript object select template") | {"table"}
_PARAGRAPH = _names("p")
_FORMATTING = _names("b big code em font i nobr s small strike strong tt u")
_FOREIGN_ROOTS = _names("svg math")
_IMPLIED_ENDS = _names("dd dt li optgroup option p")  # these end with the element around them
# Elements of SVG that hold no HTML, and that no HTML parser ends or takes for its own.
_PLAIN_SVG = _names(
    "circle clippath defs ellipse g line lineargradient mask path polygon polyline radialgradient rect stop use"
)
_ROWS = frozenset(("tbody", "thead", "tfoot"))
_CELLS = frozenset(("td", "th"))
_ENDED_BY = {
    "a": frozenset("a"), "li": frozenset(("li",)), "option": frozenset(("option",)),
    "dt": frozenset(("dt", "dd")), "dd": frozenset(("dt", "dd")),
    "td": _CELLS, "th": _CELLS, "tr": _CELLS | {"tr"}, **dict.fromkeys(_ROWS, _ROWS | _CELLS | {"tr"}),
}  # elements that end without an end tag when this one begins
_STOPS = {name: _SPECIAL - ended - {"p", "div", "address"} for name, ended in _ENDED_BY.items()}


class TooDeepError(Exception):
    """The elements of a page are nested too deeply."""


def bounded_html(html: str) -> tuple[str, str | None]:
    """The page up to MAX_TAGS, and a note if that is not all of it. Raises TooDeepError beyond MAX_DEPTH.

    The depth is an estimate that follows the rules of HTML for tags that end others. Where a page breaks them it is rather too
    high than too low. One pass, linear in the page's length.
    """
    if html.count("<") - html.count("</") <= MAX_DEPTH or _is_well_nested(html):  # no deeper than it has start tags
        return html, None
    elements = _OpenElements()
    at = 0
    for _ in range(MAX_TAGS):
        tag = _TAG.search(html, at)
        if tag is None:
            return html, None
        at = tag.end()
        name = (tag[2] or "").lower()
        if not name:
            if tag[0] == "<!--":  # the two dashes may be those of its end: <!--> is a whole comment
                end = _COMMENT_END.search(html, at - 2)
                at = end.end() if end else len(html)
            continue
        if tag[1]:
            elements.end(name)
        elif (elements.is_foreign or name in _FOREIGN_ROOTS) and html[html.find(">", at) - 1] == "/":
            continue
        elif name not in _VOID:
            attributes, is_whole, _ = html[at : at + MAX_COMPARED_CHARS].partition(">")
            elements.start(name, attributes if is_whole else str(at))
            if name in _RAW_TEXT and not elements.keeps_tags:
                end = _RAW_TEXT[name].search(html, at)
                at = end.start() if end else len(html)
    return html[:at], f"only its first {MAX_TAGS:,} tags were read"


def _is_well_nested(html: str) -> bool:
    """Whether each end tag ends the element that began last, of at most MAX_DEPTH: then no parser's tree is deeper.

    More than half of the pages are so, and are looked at in a seventh of the time that the rules of broken pages take.
    """
    names: list[str] = []
    svg_at, at = -1, 0  # the place of the open SVG among the names, and in the page
    search = _TAG.search
    for _ in range(MAX_TAGS):
        tag = search(html, at)
        if tag is None:
            return True
        at = tag.end()
        end, name = tag.groups()
        if not name:
            if tag[0] == "<!--":
                found = _COMMENT_END.search(html, at - 2)
                at = found.end() if found else len(html)
            continue
        name = name.lower()
        if end:
            while names and names[-1] != name and names[-1] in _IMPLIED_ENDS:
                names.pop()
            if not names or names.pop() != name:
                return False
            svg_at = -1 if len(names) == svg_at else svg_at
        elif svg_at >= 0:
            if name not in _PLAIN_SVG:
                return False
            if html[html.find(">", at) - 1] == "/":
                continue
            names.append(name)
        elif name not in _VOID:
            if name in _RAW_TEXT:
                if "select" in names:
                    return False
                found = _RAW_TEXT[name].search(html, at)
                at = found.start() if found else len(html)
            elif name == "svg":
                if html[html.find(">", at) - 1] == "/":
                    continue
                svg_at = len(names)
            names.append(name)
        if len(names) > MAX_DEPTH:
            return False
    return False


class _OpenElements:
    """The elements that are open at some place of a page, roughly as a parser has them."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._counts: Counter[str] = Counter()
        self._alike: dict[str, Counter[str]] = {}  # formatting by name and attributes, since the last end of one
        self._unclosed = 0  # formatting that no end tag has closed: a parser repeats it in each paragraph that follows

    @property
    def is_foreign(self) -> bool:
        """Within SVG or MathML, where `/>` ends an element."""
        count = self._counts
        return count["svg"] + count["math"] > count["foreignobject"] + count["desc"] + count["annotation-xml"]

    @property
    def keeps_tags(self) -> bool:
        """Where `script` and `style` may hold elements, or are ignored."""
        return bool(self._counts["svg"] or self._counts["math"] or self._counts["select"])

    def start(self, name: str, attributes: str) -> None:
        if self._counts["p"] and name in _BLOCKS:
            self._close(_PARAGRAPH, _P_SCOPES)
        if name in _ENDED_BY:
            self._close(_ENDED_BY[name], _STOPS[name])
        self._names.append(name)
        self._counts[name] += 1
        if name in _FORMATTING:
            alike = self._alike.setdefault(name, Counter())
            alike[attributes] += 1
            self._unclosed += alike[attributes] <= MAX_ALIKE
        if len(self._names) > MAX_DEPTH or self._unclosed > MAX_DEPTH:
            raise TooDeepError

    def end(self, name: str) -> None:
        if name in _FORMATTING:
            self._unclosed = max(0, self._unclosed - 1)
            self._alike.pop(name, None)
        if not self._counts[name]:
            return
        stops = _TABLE_SCOPES if name in _TABLE_PARTS else _SCOPES if name in _SPECIAL else _SPECIAL
        self._close(frozenset((name,)), stops)

    def _close(self, ended: frozenset[str], stops: frozenset[str]) -> None:
        """End the outermost of `ended` that is found below one of `stops`, and all within it."""
        found = None
        for place in range(len(self._names) - 1, max(-1, len(self._names) - 1 - MAX_LOOK_BACK), -1):
            if self._names[place] in ended:
                found = place
                if len(ended) == 1:
                    break
            elif self._names[place] in stops:
                break
        if found is not None:
            closed = self._names[found:]
            self._counts.subtract(closed)
            if not _MARKERS.isdisjoint(closed):  # formatting ends with its cell
                self._alike.clear()
                self._unclosed = max(0, self._unclosed - sum(name in _FORMATTING for name in closed))
            del self._names[found:]
