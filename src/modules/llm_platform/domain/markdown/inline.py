"""Sanitise the text inside a line of untrusted Markdown: links, images, HTML, addresses and citation markers.

The result contains no HTML, and no link, image or `[n]` except for sources. This holds whatever precedes or follows the
result in the line, because it leaves no bracket, backtick or tag open that a later part could close.
"""

import html
import re
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.markdown.addresses import KnownAddresses, format_target, read_address
from modules.llm_platform.domain.markdown.markers import MARKER, parse_numbers

PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")  # the characters that a backslash escapes

# An identifier such as `__new__`, in contrast to emphasis such as `__Note__`.
_NAME = r"__(?:[a-z\d]+(?:_+[a-z\d]+)*|[A-Z\d]+(?:_+[A-Z\d]+)*)__(?!\w)"
NAME = re.compile(_NAME)
_SIGNS = (
    r"!(?=\[)|<(?!<{0,2}(?:[\s\d=-]|\Z))|&(?=[#A-Za-z])|:(?=\S)|//(?=\w)|(?<![A-Za-z0-9])[wW]{3}\.(?=\w)"
    rf"|\.(?=[A-Za-z:\d]{{2,30}}/\w)|(?<![\w\\`])(?={_NAME})"
)
SPECIAL = re.compile(rf"[\\`\[\]【［@]|{_SIGNS}")
MAX_PLAIN_SIGNS = 1000  # signs in one match of `plain_text`, which takes memory for each
_TICKS = re.compile(r"`+")
_CODE = re.compile(r"(?<!`{32})(`+)[^`]+\1")  # the look-behind keeps a long run from being searched again and again
_BRACKET = re.compile(r"[\\`\[\]]")


@lru_cache(maxsize=64)
def compile_plain_text(numbers: tuple[int, ...]) -> re.Pattern[str]:
    """Return a pattern of what needs no sanitising: plain text, simple code and well-formed markers with these numbers.

    It matches most sentences whole. A text with more than MAX_PLAIN_SIGNS signs takes several matches, one after the other.
    """
    known = "|".join(map(str, numbers)) or "(?!)"
    plain = r"[^\\`\[\]【［@!<&:/wW._]*"
    return re.compile(
        rf"{plain}(?:(?:`[^`|\n]+`(?!`)|\[(?:{known})\](?![(:])|(?!{_SIGNS})[!<&:/wW._]){plain}){{0,{MAX_PLAIN_SIGNS}}}"
    )


@dataclass(frozen=True, slots=True)
class CodeSpan:
    """A code span, as offsets in its line.

    - `inside` and `close` delimit the code.
    - `end` is the end of the closing backticks; None if there are none.
    """

    inside: int
    close: int
    end: int | None


class CodeSpans:
    """The code spans of a line. A run of backticks is closed by the next run of the same length."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._runs: dict[int, list[int]] = {}
        if "`" in text:
            for run in _TICKS.finditer(text):
                self._runs.setdefault(run.end() - run.start(), []).append(run.start())

    def read_span(self, at: int) -> CodeSpan:
        inside = _TICKS.match(self._text, at).end()  # type: ignore[union-attr]  # the caller found a backtick at `at`
        length = inside - at
        starts = self._runs.get(length, [])
        position = bisect_left(starts, inside)
        if position == len(starts):
            return CodeSpan(inside, inside, None)
        return CodeSpan(inside, starts[position], starts[position] + length)


def pair_brackets(text: str, code: CodeSpans) -> dict[int, int]:
    """Return the offset of each `[` with the offset of its `]`, without escaped brackets and brackets in code."""
    pairs: dict[int, int] = {}
    open_: list[int] = []
    at = 0
    while (found := _BRACKET.search(text, at)) is not None:
        at = found.end()
        if found[0] == "\\":
            at += text[at : at + 1] in PUNCTUATION
        elif found[0] == "`":
            span = code.read_span(at - 1)
            at = span.end or span.inside
        elif found[0] == "[":
            open_.append(at - 1)
        elif open_:
            pairs[open_.pop()] = at - 1
    return pairs


MAX_PASSES = 4  # A removal joins text, so it is sanitised again. Text that changes more often is an attack.

_TARGET = re.compile(
    r"""\((?:[ \t]*(<[^<>\n]*>|(?=[^\s)])[^\s()]*(?:\([^\s()]*\)[^\s()]*)*))?"""
    r"""(?:[ \t]+(?:"[^"\n]*"|'[^'\n]*'|\([^()\n]*\)))?[ \t]*\)"""
)
_REFERENCE = re.compile(r"\[[^\[\]\n]{0,200}\]")
_ANGLE = re.compile(r"<([A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>`]*|[^\s<>`@]+@[^\s<>`@]+)>")
_ENTITY = re.compile(r"&(?:#\d{1,8}|#[xX][0-9a-fA-F]{1,7}|[A-Za-z][A-Za-z0-9]{1,31});")
_HARMLESS_ENTITIES = frozenset("<>&\"'")  # every renderer shows their entities as text
_ONLY_MARKERS = re.compile(r"[ \t>*+\-0-9.)#]*\Z")
_GAP = re.compile(r"""(?=[.,;:!?)\]"'’”»*_~|…，。、；：？！）」』]*(?:\s|\Z))|(?=[^\x00-\x7f])""")
_STRAIGHT = str.maketrans(
    {"`": "'", "[": "(", "]": ")", "<": "‹", "&": "+", "@": " ", "\\": " ", ":": " ", "/": " ", ".": " "}
)


@dataclass(slots=True)
class _LineState:
    """The state that one part of a line passes on to the next.

    - `may_end_label` is True while the next `]` could end the label of a link definition.
    - `has_split_code` is True after a code span with a bar. In a table, later backticks pair differently.
    """

    may_end_label: bool = True
    has_split_code: bool = False


def _matches_in_turn(pattern: re.Pattern[str], text: str) -> bool:
    """Return whether the pattern matches the whole text, by one or several matches without a gap."""
    at, end = -1, 0
    while at < end < len(text):
        at = end
        found = pattern.match(text, at)
        end = found.end() if found else at
    return end == len(text)


class InlineCleaner:
    """Sanitises the parts of lines, in order."""

    def __init__(self, sources: Iterable[Source]) -> None:
        sources = tuple(sources)
        self._numbers = tuple(sorted({source.index for source in sources}))
        self._addresses = KnownAddresses(source.url for source in sources)
        self._line = _LineState()
        self._plain = compile_plain_text(self._numbers)
        self.in_table = False  # a bar inside a code span ends the cell of a table

    def clean(self, text: str, *, begins_line: bool) -> str:
        """Return a part of a line sanitised. Parts end before a blank, or after a sentence of a script without blanks."""
        if begins_line:
            self._line = _LineState()
        if not self._line.has_split_code and _matches_in_turn(self._plain, text):
            self._line.may_end_label = self._line.may_end_label and "[" not in text
            return text
        for _ in range(MAX_PASSES):
            current = _Pass(text, begins_line, self._numbers, self._addresses, replace(self._line), self.in_table)
            cleaned = current.run()
            if not current.has_removed or cleaned == text:
                self._line = current.line
                return cleaned
            text = cleaned
        return text.translate(_STRAIGHT)


class _Pass:
    """One pass over one part of a line.

    - `line` is the state of the line, which the pass changes.
    - `has_removed` is True if something was removed, so that the text around it is adjacent now.
    """

    def __init__(
        self,
        text: str,
        begins_line: bool,
        numbers: tuple[int, ...],
        known: KnownAddresses,
        line: _LineState,
        in_table: bool,
    ) -> None:
        self._text = text
        self._begins_line = begins_line
        self._numbers = numbers
        self._known = known
        self.line = line
        self._bars_cut_code = in_table or ("|" in text and "|" in _CODE.sub("", text))
        self._out: list[str] = []
        self._done = 0  # the text before this offset is handled
        self._depth = 0  # the number of literal brackets that are open
        self._line_markers = 0  # the pieces at the beginning of `_out` that are known to be markers of lists and quotes
        # The `]` of each link, with the offset at which to continue, the text to write, and the index of its `[` in `_out`.
        self._closings: dict[int, tuple[int, str, int]] = {}
        self._last_link = -1  # the length of `_out` after the last link
        self._code = CodeSpans(text)
        self._pairs = pair_brackets(text, self._code) if "](" in text or "][" in text else {}
        self.has_removed = False

    def run(self) -> str:
        text, at = self._text, 0
        while (found := SPECIAL.search(text, max(at, self._done))) is not None:
            at = found.start()
            self._handlers[text[at]](self, at)
            if self._done <= at:
                at += 1
        self._copy(len(text))
        return "".join(self._out)

    # --- what is written

    def _copy(self, end: int) -> None:
        """Copy the text up to `end`."""
        if end > self._done:
            self._write(self._text[self._done : end])
            self._done = end

    def _write(self, piece: str) -> None:
        if self._out:
            last, first = self._out[-1][-1:], piece[0]
            if (last == "]" and first in "(:" and (first == "(" or self._colon_defines)) or last == first == "`":
                piece = " " + piece
        self._out.append(piece)

    def _replace(self, at: int, piece: str, end: int) -> None:
        """Copy the text up to `at`, and write `piece` in place of the text up to `end`."""
        self._copy(at)
        if piece:
            self._write(piece)
        self._done = end

    @property
    def _is_line_start(self) -> bool:
        if not self._begins_line:
            return False
        # Each piece is matched once. Pieces that are known to be markers never change again.
        while self._line_markers < len(self._out) and _ONLY_MARKERS.match(self._out[self._line_markers]):
            self._line_markers += 1
        return self._line_markers == len(self._out)

    # --- code

    def _tick(self, at: int) -> None:
        text = self._text
        span = self._code.read_span(at)
        may_be_split = self._bars_cut_code and (self.line.has_split_code or "|" in text[span.inside : span.close])
        if span.end is None or (may_be_split and SPECIAL.search(text, span.inside, span.close)):
            self._replace(at, "'" * (span.inside - at), span.inside)  # code split over two cells would not be code
            return
        self.line.has_split_code = may_be_split
        self._replace(at, text[at : span.end], span.end)

    def _write_code(self, address: str, at: int, end: int) -> None:
        """Write an address or an identifier as code, so that it is neither a link nor emphasis."""
        self._copy(at)
        if self.line.has_split_code:
            self._remove(end)
            return
        if self._out and self._out[-1].endswith("\\"):
            self._write(" ")
        self._replace(at, f"`{address}`", end)

    # --- brackets

    def _open(self, at: int) -> None:
        """Handle a marker, a link, or a literal bracket."""
        marker = MARKER.match(self._text, at)
        if marker is not None and self._mark(at, marker):
            return
        close = self._pairs.get(at)
        if self._text[at] == "[" and close is not None and self._link(at, close, at + 1):
            return
        self._copy(at)
        self.line.may_end_label = self.line.may_end_label and self._is_line_start
        self._depth += 1
        self._copy(at + 1)

    def _close(self, at: int) -> None:
        if at in self._closings:
            self._end_link(at)
            return
        self._copy(at + 1)
        self._colon_defines, self.line.may_end_label = self.line.may_end_label, False
        self._depth -= self._depth > 0

    # True if a colon right after the last `]` would make a link definition of it.
    _colon_defines = False

    def _mark(self, at: int, marker: re.Match[str]) -> bool:
        numbers = parse_numbers(marker[1], self._numbers)
        if numbers is None:
            return False
        target = _TARGET.match(self._text, marker.end())
        end = target.end() if target else marker.end()
        self._copy(at)
        if numbers:
            self._colon_defines, self.line.may_end_label = self.line.may_end_label and self._is_line_start, False
            self._replace(at, "".join(f"[{number}]" for number in numbers), end)
        else:
            self._remove(end)
        return True

    def _remove(self, end: int) -> None:
        """Remove the text up to `end`, and the blank before it if a blank or punctuation follows."""
        self.has_removed = True
        text = self._text
        if self._depth:
            self._out.append("…")  # keeps digits on both sides from becoming a marker
        elif self._is_line_start:
            while text[end : end + 1] in (" ", "\t"):
                end += 1
        elif _GAP.match(text, end):
            while self._out and not self._out[-1].strip(" \t"):
                self._out.pop()
            if self._out:
                self._out[-1] = self._out[-1].rstrip(" \t")
        self._done = end

    # --- links and images

    def _bang(self, at: int) -> None:
        marker = MARKER.match(self._text, at + 1)
        close = self._pairs.get(at + 1)
        if (marker is None or self._text.startswith("(", marker.end())) and close is not None:
            self._link(at, close, at + 2)

    def _link(self, at: int, close: int, inside: int) -> bool:
        """Handle `[text](target)`, `[text][label]` and images: keep the text, and the target of a source."""
        text = self._text
        target = _TARGET.match(text, close + 1)
        if target is not None:
            url = self._known.exact((target[1] or "").strip("<>"))
            ending = f"]({format_target(url)})" if url is not None and close > inside else ""
            self._begin_link(at, inside, keep=bool(ending))
            self._closings[close] = (target.end(), ending, len(self._out) - 1)
            return True
        label = _REFERENCE.match(text, close + 1)
        if label is None or (at and (text[at - 1].isalnum() or text[at - 1] == "]")):
            return False
        self._begin_link(at, inside, keep=False)
        self._closings[close] = (close + 1 if MARKER.match(text, close + 1) else label.end(), "", -1)
        return True

    def _begin_link(self, at: int, inside: int, *, keep: bool) -> None:
        self._copy(at)
        self.has_removed = True
        if keep:
            if self._out and self._out[-1][-1:] == "!":
                self._write(" ")
            self._write("[")
        self._done = inside

    def _end_link(self, at: int) -> None:
        after, ending, opened = self._closings[at]
        self._copy(at)
        if ending and self._out[opened : opened + 1] == ["["]:
            if self._last_link > opened:
                self._out[opened] = ""  # only the inner one of two nested links is a link
            else:
                self._out.append(ending)
                self._last_link = len(self._out)
        self._done = after

    # --- the rest

    def _escape(self, at: int) -> None:
        marker = MARKER.match(self._text, at)
        if marker is not None and self._mark(at, marker):
            return
        following = self._text[at + 1 : at + 2]
        if following == "`":
            self._replace(at, "'", at + 2)
        elif following == "<":
            self._replace(at, "&lt;", at + 2)
        elif following in PUNCTUATION and following:
            self._copy(at + 2)

    def _tag(self, at: int) -> None:
        angle = _ANGLE.match(self._text, at)
        url = self._known.exact(angle[1]) if angle else None
        if angle is None:
            self._replace(at, "&lt;", at + 1)
        elif url is not None:
            self._replace(at, f"<{url}>", angle.end())
        else:
            self._write_code(angle[1], at, angle.end())

    def _name(self, at: int) -> None:
        """Handle an identifier such as `__new__`, which would be rendered as emphasis."""
        name = NAME.match(self._text, at)
        if name is None:
            return
        if self.line.has_split_code:
            self._replace(at, name[0].replace("_", "\\_"), name.end())
        else:
            self._write_code(name[0], at, name.end())

    def _entity(self, at: int) -> None:
        entity = _ENTITY.match(self._text, at)
        if entity is None:
            return
        meant = html.unescape(entity[0])
        if meant in _HARMLESS_ENTITIES or not (meant.isascii() or meant.isdecimal()):
            self._copy(entity.end())
        else:
            self._replace(at, "&amp;", at + 1)

    def _address(self, at: int) -> None:
        span = read_address(self._text, at, self._done)
        if span is None:
            return
        start, end = span
        address = self._text[start:end]
        url = self._known.exact(address) or (self._known.exact(f"https://{address}") if "://" not in address else None)
        if url is not None:
            self._replace(start, url, end)
        else:
            self._write_code(address, start, end)

    _handlers: ClassVar = {
        "\\": _escape,
        "`": _tick,
        "[": _open,
        "【": _open,
        "［": _open,
        "]": _close,
        "!": _bang,
        "<": _tag,
        "&": _entity,
        "@": _address,
        ":": _address,
        "/": _address,
        "w": _address,
        "W": _address,
        ".": _address,
        "_": _name,
    }
