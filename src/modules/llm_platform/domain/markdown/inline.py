"""The inside of a line of Markdown that nobody vouches for: links, images, HTML, addresses and citation markers.

What comes out, put into any line, shows no link or image but a source's, no HTML and no `[n]` but a source's, whatever
stands before or after it: no bracket, backtick or tag that it opens is left for a later part to close.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

from modules.llm_platform.domain.dtos.research_dtos import Source
from modules.llm_platform.domain.markdown.addresses import KnownAddresses, address_at, as_target
from modules.llm_platform.domain.markdown.markers import MARKER, cited_numbers

# What stands out in a line of Markdown: the signs that may mean something, code spans, brackets that belong together.


PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")  # what a backslash takes the meaning of

# `__new__` is a name and no emphasis; `__Note__` is.
_NAME = r"__(?:[a-z\d]+(?:_+[a-z\d]+)*|[A-Z\d]+(?:_+[A-Z\d]+)*)__(?!\w)"
NAME = re.compile(_NAME)
_SIGNS = (
    r"!(?=\[)|<(?!<{0,2}(?:[\s\d=-]|\Z))|&(?=[#A-Za-z])|:(?=\S)|//(?=\w)|(?<![A-Za-z0-9])[wW]{3}\.(?=\w)"
    rf"|\.(?=[A-Za-z:\d]{{2,30}}/\w)|(?<![\w\\`])(?={_NAME})"
)
SPECIAL = re.compile(rf"[\\`\[\]【［@]|{_SIGNS}")
_TICKS = re.compile(r"`+")
_BRACKET = re.compile(r"[\\`\[\]]")


@lru_cache(maxsize=64)
def plain_text(numbers: tuple[int, ...]) -> re.Pattern[str]:
    """Text, simple code and well-formed markers of these numbers: what most sentences are, and what needs no reading."""
    known = "|".join(map(str, numbers)) or "(?!)"
    return re.compile(
        rf"(?:[^\\`\[\]【［@!<&:/wW._]++|`[^`|\n]++`(?!`)|\[(?:{known})\](?![(:])|(?!{_SIGNS})[!<&:/wW._])*+"
    )


@dataclass(frozen=True, slots=True)
class CodeSpan:
    """A run of backticks: where the code in it begins and ends, and where the closing run ends; None without one."""

    inside: int
    close: int
    end: int | None


class CodeSpans:
    """The runs of backticks of one line; a run is closed by the next one of the same length."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._runs: dict[int, list[int]] = {}
        if "`" in text:
            for run in _TICKS.finditer(text):
                self._runs.setdefault(run.end() - run.start(), []).append(run.start())

    def opened_at(self, at: int) -> CodeSpan:
        inside = _TICKS.match(self._text, at).end()  # type: ignore[union-attr]  # a backtick stands there
        length = inside - at
        starts = self._runs.get(length, [])
        place = bisect_left(starts, inside)
        if place == len(starts):
            return CodeSpan(inside, inside, None)
        return CodeSpan(inside, starts[place], starts[place] + length)


def pair_brackets(text: str, code: CodeSpans) -> dict[int, int]:
    """Each `[` with its `]`; those in code and escaped ones are left out."""
    pairs: dict[int, int] = {}
    open_: list[int] = []
    at = 0
    while (found := _BRACKET.search(text, at)) is not None:
        at = found.end()
        if found[0] == "\\":
            at += text[at : at + 1] in PUNCTUATION
        elif found[0] == "`":
            span = code.opened_at(at - 1)
            at = span.end or span.inside
        elif found[0] == "[":
            open_.append(at - 1)
        elif open_:
            pairs[open_.pop()] = at - 1
    return pairs


MAX_READINGS = 4  # what a removal joins is read again; text that still changes after this many times is an attack

_TARGET = re.compile(
    r"""\([ \t]*(<[^<>\n]*>|[^\s()]*(?:\([^\s()]*\)[^\s()]*)*)(?:[ \t]+(?:"[^"\n]*"|'[^'\n]*'|\([^()\n]*\)))?[ \t]*\)"""
)
_REFERENCE = re.compile(r"\[[^\[\]\n]{0,200}\]")
_ANGLE = re.compile(r"<([A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>`]*|[^\s<>`@]+@[^\s<>`@]+)>")
_ENTITY = re.compile(r"&(?:#\d{1,8}|#[xX][0-9a-fA-F]{1,7}|[A-Za-z][A-Za-z0-9]{1,31});")
_HARMLESS_ENTITIES = frozenset("<>&\"'")  # written as entities they are text for every renderer
_ONLY_MARKERS = re.compile(r"[ \t>*+\-0-9.)#]*\Z")
_GAP = re.compile(r"""(?=[.,;:!?)\]"'’”»*_~|…，。、；：？！）」』]*(?:\s|\Z))|(?=[^\x00-\x7f])""")
_STRAIGHT = str.maketrans(
    {"`": "'", "[": "(", "]": ")", "<": "‹", "&": "+", "@": " ", "\\": " ", ":": " ", "/": " ", ".": " "}
)


@dataclass(slots=True)
class _LineState:
    """What a part of a line must know of the parts before it."""

    label_open: bool = True  # the next `]` could end the label of a link definition, maybe begun on an earlier line
    split: bool = False  # a code span with a bar was seen: in a table the backticks after it pair otherwise


class InlineCleaner:
    """Cleans parts of lines in their order; what must be known of the line so far is kept here."""

    def __init__(self, sources: Iterable[Source]) -> None:
        sources = tuple(sources)
        self._numbers = tuple(sorted({source.index for source in sources}))
        self._addresses = KnownAddresses(source.url for source in sources)
        self._line = _LineState()
        self._plain = plain_text(self._numbers)

    def clean(self, text: str, *, begins_line: bool) -> str:
        """The part of a line, safe to show. Parts are cut where a blank follows or an unspaced script ends a sentence."""
        if begins_line:
            self._line = _LineState()
        if not self._line.split and self._plain.fullmatch(text):
            self._line.label_open = self._line.label_open and "[" not in text
            return text
        for _ in range(MAX_READINGS):
            reading = _Reading(text, begins_line, self._numbers, self._addresses, replace(self._line))
            cleaned = reading.run()
            if not reading.joined or cleaned == text:
                self._line = reading.line
                return cleaned
            text = cleaned
        return text.translate(_STRAIGHT)


class _Reading:
    """One pass over one part of a line."""

    def __init__(
        self, text: str, begins_line: bool, numbers: tuple[int, ...], known: KnownAddresses, line: _LineState
    ) -> None:
        self._text = text
        self._begins_line = begins_line
        self._numbers = numbers
        self._known = known
        self.line = line
        self._out: list[str] = []
        self._done = 0  # up to here the text is read
        self._depth = 0  # literal brackets that are open
        self._closings: dict[int, tuple[int, str, int]] = {}  # `]` of a link: what to write, where to go on, its `[`
        self._last_link = -1  # in `_out`
        self._code = CodeSpans(text)
        self._pairs = pair_brackets(text, self._code) if "](" in text or "][" in text else {}
        self.joined = False  # something was taken out: what stood around it is neighbours now

    def run(self) -> str:
        text, at = self._text, 0
        while (found := SPECIAL.search(text, max(at, self._done))) is not None:
            at = found.start()
            self._handlers[text[at]](self, at)
            if self._done <= at:
                at += 1  # not special after all
        self._copy(len(text))
        return "".join(self._out)

    # --- what is written

    def _copy(self, end: int) -> None:
        """The text up to here, as it is."""
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
        """Copy up to `at`, write the piece in place of what stands up to `end`."""
        self._copy(at)
        if piece:
            self._write(piece)
        self._done = end

    @property
    def _nothing_yet(self) -> bool:
        return self._begins_line and all(map(_ONLY_MARKERS.match, self._out))

    # --- code

    def _tick(self, at: int) -> None:
        text = self._text
        span = self._code.opened_at(at)
        may_be_cut = self.line.split or "|" in text[span.inside : span.close]
        if span.end is None or (may_be_cut and SPECIAL.search(text, span.inside, span.close)):
            self._replace(at, "'" * (span.inside - at), span.inside)  # in two cells it would be more than text
            return
        self.line.split = may_be_cut
        self._replace(at, text[at : span.end], span.end)

    def _as_code(self, address: str, at: int, end: int) -> None:
        """An address that nobody may click, or a name."""
        self._copy(at)
        if self.line.split:
            self._take_out(end)
            return
        if self._out and self._out[-1].endswith("\\"):
            self._write(" ")
        self._replace(at, f"`{address}`", end)

    # --- brackets

    def _open(self, at: int) -> None:
        """A marker, a link, or just a bracket."""
        marker = MARKER.match(self._text, at)
        if marker is not None and self._mark(at, marker):
            return
        close = self._pairs.get(at)
        if self._text[at] == "[" and close is not None and self._link(at, close, at + 1):
            return
        self._literal_open(at)

    def _literal_open(self, at: int) -> None:
        self._copy(at)
        self.line.label_open = self.line.label_open and self._nothing_yet
        self._depth += 1
        self._copy(at + 1)

    def _close(self, at: int) -> None:
        if at in self._closings:
            self._end_link(at)
            return
        self._copy(at + 1)
        self._colon_defines, self.line.label_open = self.line.label_open, False
        self._depth -= self._depth > 0

    _colon_defines = False  # a colon right after the `]` just written would make it a link definition

    def _mark(self, at: int, marker: re.Match[str]) -> bool:
        numbers = cited_numbers(marker[1], self._numbers)
        if numbers is None:
            return False
        target = _TARGET.match(self._text, marker.end())
        end = target.end() if target else marker.end()
        self._copy(at)
        if numbers:
            self._colon_defines, self.line.label_open = self.line.label_open and self._nothing_yet, False
            self._replace(at, "".join(f"[{number}]" for number in numbers), end)
        else:
            self._take_out(end)
        return True

    def _take_out(self, end: int) -> None:
        """Leave out up to `end`, and the blank before it where what follows does not need it."""
        self.joined = True
        text = self._text
        if self._depth:
            self._out.append("…")  # else the digits around it could become a marker
        elif self._nothing_yet:
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
        """`[text](target)`, `[text][label]` and the same as an image: the text stays, the target if it is a source's."""
        text = self._text
        target = _TARGET.match(text, close + 1)
        if target is not None:
            url = self._known.exact(target[1].strip("<>"))
            ending = f"]({as_target(url)})" if url is not None and close > inside else ""
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
        self.joined = True
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
                self._out[opened] = ""  # a link inside: the outer one is none
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
            self._as_code(angle[1], at, angle.end())

    def _name(self, at: int) -> None:
        """An identifier such as `__new__`, which would be shown as emphasis."""
        name = NAME.match(self._text, at)
        if name is None:
            return
        if self.line.split:
            self._replace(at, name[0].replace("_", "\\_"), name.end())
        else:
            self._as_code(name[0], at, name.end())

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
        span = address_at(self._text, at, self._done)
        if span is None:
            return
        start, end = span
        address = self._text[start:end]
        url = self._known.exact(address) or (self._known.exact(f"https://{address}") if "://" not in address else None)
        if url is not None:
            self._replace(start, url, end)
        else:
            self._as_code(address, start, end)

    _handlers: ClassVar = {
        "\\": _escape, "`": _tick, "[": _open, "【": _open, "［": _open, "]": _close, "!": _bang, "<": _tag, "&": _entity,
        "@": _address, ":": _address, "/": _address, "w": _address, "W": _address, ".": _address,
        "_": _name,
    }  # fmt: skip
