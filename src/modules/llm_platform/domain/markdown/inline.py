"""Sanitise the text inside a line of untrusted Markdown: links, images, HTML, addresses and citation markers.

The result contains no HTML, and no link, image or `[n]` except for sources. This holds whatever precedes or follows the
result in the line, because it leaves no bracket, backtick or tag open that a later part could close.
"""

import html
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.markdown.addresses import KnownAddresses, format_target, read_address
from modules.llm_platform.domain.markdown.code_spans import PUNCTUATION, CodeSpans, pair_brackets
from modules.llm_platform.domain.markdown.markers import MARKER, parse_numbers

MAX_PLAIN_SIGNS = 1000  # signs in one match of `_compile_plain_text`, which takes memory for each
MAX_PASSES = 4  # A removal joins text, so it is sanitised again. Text that changes more often is an attack.

# An identifier such as `__new__`, in contrast to emphasis such as `__Note__`.
_IDENTIFIER_PATTERN = r"__(?:[a-z\d]+(?:_+[a-z\d]+)*|[A-Z\d]+(?:_+[A-Z\d]+)*)__(?!\w)"
_IDENTIFIER = re.compile(_IDENTIFIER_PATTERN)
_SIGNS = (
    r"!(?=\[)|<(?!<{0,2}(?:[\s\d=-]|\Z))|&(?=[#A-Za-z])|:(?=\S)|//(?=\w)|(?<![A-Za-z0-9])[wW]{3}\.(?=\w)"
    rf"|\.(?=[A-Za-z:\d]{{2,30}}/\w)|(?<![\w\\`])(?={_IDENTIFIER_PATTERN})"
)
_SPECIAL = re.compile(rf"[\\`\[\]【［@]|{_SIGNS}")
_CODE = re.compile(r"(?<!`{32})(`+)[^`]+\1")  # the look-behind keeps a long run from being searched again and again
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


@lru_cache(maxsize=64)
def _compile_plain_text(numbers: tuple[int, ...]) -> re.Pattern[str]:
    """Return a pattern of what needs no sanitising: plain text, simple code and well-formed markers with these numbers.

    The pattern matches most sentences whole. A text with more than MAX_PLAIN_SIGNS signs takes several matches, one after the
    other.
    """
    known = "|".join(map(str, numbers)) or "(?!)"
    plain = r"[^\\`\[\]【［@!<&:/wW._]*"
    return re.compile(
        rf"{plain}(?:(?:`[^`|\n]+`(?!`)|\[(?:{known})\](?![(:])|(?!{_SIGNS})[!<&:/wW._]){plain}){{0,{MAX_PLAIN_SIGNS}}}"
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
        self._plain = _compile_plain_text(self._numbers)
        self.in_table = False  # a bar inside a code span ends the cell of a table

    def clean(self, text: str, *, begins_line: bool) -> str:
        """Return a part of a line sanitised. Parts end before a space, or after a sentence of a script without spaces."""
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


@dataclass(slots=True)
class _LinkEnd:
    """What to do at the `]` of a link.

    - `resume` is the offset at which the text continues.
    - `target` is written instead of the `]` and what follows; it is empty if only the words of the link stay.
    - `opening` is the index of its `[` in the output; it has no meaning without a target.
    """

    resume: int
    target: str = ""
    opening: int = -1


class _Pass:
    """One pass over one part of a line, from left to right. `_handlers` has a method for each character that may be unsafe.

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
        self._link_ends: dict[int, _LinkEnd] = {}  # by the offset of the `]`
        self._colon_defines = False  # a colon right after the last `]` would make it the label of a link definition
        self._last_link = -1  # the length of `_out` after the last link
        self._code = CodeSpans(text)
        self._pairs = pair_brackets(text, self._code) if "](" in text or "][" in text else {}
        self.has_removed = False

    def run(self) -> str:
        text, at = self._text, 0
        while (found := _SPECIAL.search(text, max(at, self._done))) is not None:
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
        """Copy the text up to `at`, and write `piece` instead of the text up to `end`."""
        self._copy(at)
        if piece:
            self._write(piece)
        self._done = end

    @property
    def _is_line_start(self) -> bool:
        if not self._begins_line:
            return False
        # Each piece is matched once, because pieces that are known to be markers never change.
        while self._line_markers < len(self._out) and _ONLY_MARKERS.match(self._out[self._line_markers]):
            self._line_markers += 1
        return self._line_markers == len(self._out)

    # --- code

    def _read_code(self, at: int) -> None:
        """Copy a code span. Backticks that begin none become apostrophes."""
        text = self._text
        span = self._code.read_span(at)
        may_be_split = self._bars_cut_code and (self.line.has_split_code or "|" in text[span.inside : span.close])
        if span.end is None or (may_be_split and _SPECIAL.search(text, span.inside, span.close)):
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

    def _read_opening_bracket(self, at: int) -> None:
        """Handle a marker, a link, or a literal bracket."""
        marker = MARKER.match(self._text, at)
        if marker is not None and self._write_markers(at, marker):
            return
        close = self._pairs.get(at)
        if self._text[at] == "[" and close is not None and self._open_link(at, close, at + 1):
            return
        self._copy(at)
        self.line.may_end_label = self.line.may_end_label and self._is_line_start
        self._depth += 1
        self._copy(at + 1)

    def _read_closing_bracket(self, at: int) -> None:
        """Handle the end of a link, or a literal bracket."""
        if at in self._link_ends:
            self._close_link(at)
            return
        self._copy(at + 1)
        self._colon_defines, self.line.may_end_label = self.line.may_end_label, False
        self._depth -= self._depth > 0

    def _write_markers(self, at: int, marker: re.Match[str]) -> bool:
        """Write the numbers of sources in a marker, or remove the marker. Return False for an interval such as `[0, 1]`."""
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

    def _read_image(self, at: int) -> None:
        """Handle `![text](target)` like a link, unless the exclamation mark is before a marker."""
        marker = MARKER.match(self._text, at + 1)
        close = self._pairs.get(at + 1)
        if (marker is None or self._text.startswith("(", marker.end())) and close is not None:
            self._open_link(at, close, at + 2)

    def _open_link(self, at: int, close: int, inside: int) -> bool:
        """Handle `[text](target)`, `[text][label]` and images: keep the text, and the target of a source.

        `inside` is where the text begins, and `close` is its `]`. Return False if this is not a link.
        """
        text = self._text
        target = _TARGET.match(text, close + 1)
        if target is not None:
            url = self._known.exact((target[1] or "").strip("<>"))
            ending = f"]({format_target(url)})" if url is not None and close > inside else ""
            self._write_link_start(at, inside, keep=bool(ending))
            self._link_ends[close] = _LinkEnd(target.end(), ending, len(self._out) - 1)
            return True
        label = _REFERENCE.match(text, close + 1)
        if label is None or (at and (text[at - 1].isalnum() or text[at - 1] == "]")):
            return False
        self._write_link_start(at, inside, keep=False)
        self._link_ends[close] = _LinkEnd(close + 1 if MARKER.match(text, close + 1) else label.end())
        return True

    def _write_link_start(self, at: int, inside: int, *, keep: bool) -> None:
        self._copy(at)
        self.has_removed = True
        if keep:
            if self._out and self._out[-1][-1:] == "!":
                self._write(" ")
            self._write("[")
        self._done = inside

    def _close_link(self, at: int) -> None:
        """Write the target of the link whose `]` stands here, if it is a source."""
        end = self._link_ends[at]
        self._copy(at)
        if end.target and self._out[end.opening : end.opening + 1] == ["["]:
            if self._last_link > end.opening:
                self._out[end.opening] = ""  # of two nested links, only the inner link is a link
            else:
                self._out.append(end.target)
                self._last_link = len(self._out)
        self._done = end.resume

    # --- the rest

    def _read_escape(self, at: int) -> None:
        """Handle a backslash: before a marker, or before a sign that it escapes."""
        marker = MARKER.match(self._text, at)
        if marker is not None and self._write_markers(at, marker):
            return
        following = self._text[at + 1 : at + 2]
        if following == "`":
            self._replace(at, "'", at + 2)
        elif following == "<":
            self._replace(at, "&lt;", at + 2)
        elif following in PUNCTUATION:
            self._copy(at + 2)

    def _read_angle_bracket(self, at: int) -> None:
        """Keep `<https://…>` of a source, write another address as code, and escape any other `<`."""
        angle = _ANGLE.match(self._text, at)
        url = self._known.exact(angle[1]) if angle else None
        if angle is None:
            self._replace(at, "&lt;", at + 1)
        elif url is not None:
            self._replace(at, f"<{url}>", angle.end())
        else:
            self._write_code(angle[1], at, angle.end())

    def _read_identifier(self, at: int) -> None:
        """Handle an identifier such as `__new__`, which would be rendered as emphasis."""
        name = _IDENTIFIER.match(self._text, at)
        if name is None:
            return
        if self.line.has_split_code:
            self._replace(at, name[0].replace("_", "\\_"), name.end())
        else:
            self._write_code(name[0], at, name.end())

    def _read_entity(self, at: int) -> None:
        """Escape an entity that stands for a sign, such as `&#91;`. Letters such as `&eacute;` stay."""
        entity = _ENTITY.match(self._text, at)
        if entity is None:
            return
        meant = html.unescape(entity[0])
        if meant in _HARMLESS_ENTITIES or not (meant.isascii() or meant.isdecimal()):
            self._copy(entity.end())
        else:
            self._replace(at, "&amp;", at + 1)

    def _read_plain_address(self, at: int) -> None:
        """Keep the address of a source, and write another address as code, so that no renderer makes a link of it."""
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
        "\\": _read_escape,
        "`": _read_code,
        "[": _read_opening_bracket,
        "【": _read_opening_bracket,
        "［": _read_opening_bracket,
        "]": _read_closing_bracket,
        "!": _read_image,
        "<": _read_angle_bracket,
        "&": _read_entity,
        "@": _read_plain_address,
        ":": _read_plain_address,
        "/": _read_plain_address,
        "w": _read_plain_address,
        "W": _read_plain_address,
        ".": _read_plain_address,
        "_": _read_identifier,
    }
