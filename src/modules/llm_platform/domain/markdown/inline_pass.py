"""One pass over a part of a line, from left to right: each sign that may be unsafe is copied, escaped, replaced or removed.

`InlinePass` has a method for each kind of sign. Links are handled by `InlineLinks`, and everything is written to `InlineOutput`.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from modules.llm_platform.domain.markdown.addresses import KnownAddresses, read_address
from modules.llm_platform.domain.markdown.code_spans import PUNCTUATION, CodeSpans
from modules.llm_platform.domain.markdown.inline_links import TARGET, InlineLinks
from modules.llm_platform.domain.markdown.inline_output import InlineOutput
from modules.llm_platform.domain.markdown.markers import MARKER, parse_numbers

# An identifier such as `__new__`, in contrast to emphasis such as `__Note__`.
_IDENTIFIER_PATTERN = r"__(?:[a-z\d]+(?:_+[a-z\d]+)*|[A-Z\d]+(?:_+[A-Z\d]+)*)__(?!\w)"
_IDENTIFIER = re.compile(_IDENTIFIER_PATTERN)
# The signs that are only unsafe before or after others. The other unsafe signs are backslash, backtick, brackets and `@`.
UNSAFE_IN_CONTEXT = (
    r"!(?=\[)|<(?!<{0,2}(?:[\s\d=-]|\Z))|&(?=[#A-Za-z])|:(?=\S)|//(?=\w)|(?<![A-Za-z0-9])[wW]{3}\.(?=\w)"
    rf"|\.(?=[A-Za-z:\d]{{2,30}}/\w)|(?<![\w\\`])(?={_IDENTIFIER_PATTERN})"
)
_UNSAFE = re.compile(rf"[\\`\[\]【［@]|{UNSAFE_IN_CONTEXT}")
_CODE = re.compile(r"(?<!`{32})(`+)[^`]+\1")  # the look-behind keeps a long run from being searched again and again
_ANGLE = re.compile(r"<([A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>`]*|[^\s<>`@]+@[^\s<>`@]+)>")
_ENTITY = re.compile(r"&(?:#\d{1,8}|#[xX][0-9a-fA-F]{1,7}|[A-Za-z][A-Za-z0-9]{1,31});")
_HARMLESS_ENTITIES = frozenset("<>&\"'")  # every renderer shows their entities as text


@dataclass(slots=True)
class LineState:
    """The state that one part of a line passes on to the next.

    - `may_end_label` is True while the next `]` could end the label of a link definition.
    - `has_split_code` is True after a code span with a bar. In a table, later backticks pair differently.
    """

    may_end_label: bool = True
    has_split_code: bool = False

    def copy(self) -> LineState:
        return LineState(self.may_end_label, self.has_split_code)


class AllowedSources(NamedTuple):
    """The sources that a text may cite: their numbers, sorted, and their addresses."""

    numbers: Sequence[int]
    addresses: KnownAddresses


class InlinePass:
    """A pass over one part of a line.

    - `line` is the state of the line, which the pass changes.
    - `output` has the sanitised text.
    """

    def __init__(
        self, text: str, sources: AllowedSources, line: LineState, *, begins_line: bool, in_table: bool
    ) -> None:
        self._text = text
        self._numbers, self._addresses = sources
        self.line = line
        self._bars_cut_code = in_table or ("|" in text and "|" in _CODE.sub("", text))
        self._code = CodeSpans(text)
        self.output = InlineOutput(text, begins_line=begins_line)
        self._links = InlineLinks(text, self._code, self._addresses, self.output)

    def run(self) -> str:
        """Return the sanitised text."""
        text, output, at = self._text, self.output, 0
        while (found := _UNSAFE.search(text, max(at, output.done))) is not None:
            at = found.start()
            self._handlers[text[at]](self, at)
            if output.done <= at:
                at += 1
        output.copy(len(text))
        return "".join(output.pieces)

    # --- code

    def _handle_backtick(self, at: int) -> None:
        """Copy a code span. Backticks that begin none become apostrophes."""
        text, output = self._text, self.output
        span = self._code.read_span(at)
        may_be_split = self._bars_cut_code and (self.line.has_split_code or "|" in text[span.inside : span.close])
        if span.end is None or (may_be_split and _UNSAFE.search(text, span.inside, span.close)):
            output.replace(at, "'" * (span.inside - at), span.inside)  # code split over two cells would not be code
            return
        self.line.has_split_code = may_be_split
        output.replace(at, text[at : span.end], span.end)

    def _write_code(self, code: str, at: int, end: int) -> None:
        """Write an address or an identifier as code, so that it is neither a link nor emphasis."""
        output = self.output
        output.copy(at)
        if self.line.has_split_code:
            output.remove(end)
            return
        if output.pieces and output.pieces[-1].endswith("\\"):
            output.write(" ")
        output.replace(at, f"`{code}`", end)

    # --- brackets

    def _handle_opening_bracket(self, at: int) -> None:
        """Handle a marker, a link, or a literal bracket."""
        if self._handle_marker(at):
            return
        close = self._links.find_close(at)
        if close is not None and self._links.open(at, close, inside=at + 1):
            return
        output, line = self.output, self.line
        output.copy(at)
        line.may_end_label = line.may_end_label and output.is_line_start()
        output.open_brackets += 1
        output.copy(at + 1)

    def _handle_closing_bracket(self, at: int) -> None:
        """Handle the end of a link, or a literal bracket."""
        if self._links.close(at):
            return
        output, line = self.output, self.line
        output.copy(at + 1)
        output.colon_defines, line.may_end_label = line.may_end_label, False
        output.open_brackets -= output.open_brackets > 0

    def _handle_exclamation_mark(self, at: int) -> None:
        """Handle `![text](target)` like a link, unless the exclamation mark is before a marker."""
        marker = MARKER.match(self._text, at + 1)
        close = self._links.find_close(at + 1)
        if close is not None and (marker is None or self._text.startswith("(", marker.end())):
            self._links.open(at, close, inside=at + 2)

    def _handle_marker(self, at: int) -> bool:
        """Write the numbers of sources in a marker that begins here, or remove it if it has none.

        Return False if there is no marker, or an interval such as `[0, 1]`.
        """
        marker = MARKER.match(self._text, at)
        numbers = parse_numbers(marker[1], self._numbers) if marker is not None else None
        if marker is None or numbers is None:
            return False
        target = TARGET.match(self._text, marker.end())
        end = target.end() if target else marker.end()
        output, line = self.output, self.line
        output.copy(at)
        if not numbers:
            output.remove(end)
            return True
        output.colon_defines, line.may_end_label = line.may_end_label and output.is_line_start(), False
        output.replace(at, "".join(f"[{number}]" for number in numbers), end)
        return True

    # --- the rest

    def _handle_backslash(self, at: int) -> None:
        """Handle a backslash before a marker, or before a sign that it escapes."""
        if self._handle_marker(at):
            return
        following = self._text[at + 1 : at + 2]
        if following == "`":
            self.output.replace(at, "'", at + 2)
        elif following == "<":
            self.output.replace(at, "&lt;", at + 2)
        elif following in PUNCTUATION:
            self.output.copy(at + 2)

    def _handle_angle_bracket(self, at: int) -> None:
        """Keep `<https://…>` of a source, write another address as code, and escape any other `<`."""
        angle = _ANGLE.match(self._text, at)
        url = self._addresses.exact(angle[1]) if angle else None
        if angle is None:
            self.output.replace(at, "&lt;", at + 1)
        elif url is not None:
            self.output.replace(at, f"<{url}>", angle.end())
        else:
            self._write_code(angle[1], at, angle.end())

    def _handle_identifier(self, at: int) -> None:
        """Handle an identifier such as `__new__`, which would be rendered as emphasis."""
        name = _IDENTIFIER.match(self._text, at)
        if name is None:
            return
        if self.line.has_split_code:
            self.output.replace(at, name[0].replace("_", "\\_"), name.end())
        else:
            self._write_code(name[0], at, name.end())

    def _handle_ampersand(self, at: int) -> None:
        """Escape an entity that stands for a sign, such as `&#91;`. Letters such as `&eacute;` stay."""
        entity = _ENTITY.match(self._text, at)
        if entity is None:
            return
        meant = html.unescape(entity[0])
        if meant in _HARMLESS_ENTITIES or not (meant.isascii() or meant.isdecimal()):
            self.output.copy(entity.end())
        else:
            self.output.replace(at, "&amp;", at + 1)

    def _handle_address(self, at: int) -> None:
        """Keep the address of a source, and write another address as code, so that no renderer makes a link of it."""
        span = read_address(self._text, at, self.output.done)
        if span is None:
            return
        start, end = span
        address = self._text[start:end]
        url = self._addresses.exact(address)
        if url is None and "://" not in address:
            url = self._addresses.exact(f"https://{address}")
        if url is not None:
            self.output.replace(start, url, end)
        else:
            self._write_code(address, start, end)

    _handlers: ClassVar = {
        "\\": _handle_backslash,
        "`": _handle_backtick,
        "[": _handle_opening_bracket,
        "【": _handle_opening_bracket,
        "［": _handle_opening_bracket,
        "]": _handle_closing_bracket,
        "!": _handle_exclamation_mark,
        "<": _handle_angle_bracket,
        "&": _handle_ampersand,
        "@": _handle_address,
        ":": _handle_address,
        "/": _handle_address,
        "w": _handle_address,
        "W": _handle_address,
        ".": _handle_address,
        "_": _handle_identifier,
    }
