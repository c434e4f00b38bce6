"""Split a streamed text at the ends of sentences and lines; the result does not depend on the pieces."""

import re
from dataclasses import dataclass

from modules.llm_platform.domain.text.lazy_pattern import lazy_pattern
from modules.llm_platform.domain.text.scripts import UNSPACED
from modules.llm_platform.domain.text.sentences import STOPS, WIDE_STOPS

_LINE_MARKERS = re.compile(r"[ \t>*+\-0-9.)#]*")
_RUN = 3  # characters of a fence
_WHOLE_LINE = frozenset("[【［!\\|\n")  # such a line is one unit: it may be removed, or is a table row
_FENCES = frozenset({"```", "~~~"})

# A sentence ends after its full stop, the quotes and emphasis that follow directly, and its markers.
_MARKER = r"[\[【［]\^?[\d,\-–]+(?:†[a-z]+)?[\]】］]"
_AFTER = rf"""["'”’»)*_]*(?:{_MARKER})*"""
_MARKERS_AFTER = re.compile(rf"(?: {{0,2}}{_MARKER})*")
_MAY_BECOME_MARKER = re.compile(r" {0,2}(?:[\[【［][\^\d,\-–†a-z]{0,16})?\Z")
_TOKEN = lazy_pattern(
    rf"(?P<end>[{STOPS}]+{_AFTER}(?=\s)|[{WIDE_STOPS}]+[」』”’）]*{_AFTER}(?=[\s\w]|[^\x00-\x7f]))|\\[^\w\s]|(?P<ticks>`+)"
    r"|(?P<open>[\[【［])|(?P<close>[\]】］])(?P<target>\()?|(?P<shut>\))"
)
_FIRST = re.compile(
    rf"[{STOPS}{WIDE_STOPS}\\`\[\]【】［］)]"
)  # may begin a token; the regex of a whole token is slower
# A sentence ends after the whole run of its stops or not at all, so the rest of a run is not tried.
_RUN_OF_STOPS = re.compile(rf"[{STOPS}]+|[{WIDE_STOPS}]+")
# No token contains a blank or a letter of these scripts, so the text before one is complete.
_DECIDED = lazy_pattern(rf"(?s:.*)[\s{UNSPACED}]")


@dataclass(frozen=True, slots=True)
class Unit:
    """A sentence with the spaces before it, or the rest of a line with its end."""

    text: str
    begins_line: bool


@dataclass(slots=True)
class _PendingLine:
    """State of the pending line: a sentence does not end inside code, brackets or the target of a link."""

    begins: bool = True
    is_one_unit: bool = False
    has_started: bool = False  # the list and quote markers are read
    ticks: int = 0
    depth: int = 0
    in_target: bool = False

    def ends_sentence(self, token: re.Match[str]) -> bool:
        kind = token.lastgroup
        if kind == "ticks":
            length = token.end() - token.start()
            self.ticks = length if not self.ticks else 0 if self.ticks == length else self.ticks
        elif self.ticks:
            return False
        elif kind == "end":
            ends = not self.depth and not self.in_target
            self.in_target = self.in_target and ")" not in token[0]
            return ends
        elif kind == "open":
            self.depth += 1
        elif kind in ("close", "target"):
            self.depth -= self.depth > 0
            self.in_target = self.in_target or kind == "target"
        elif kind == "shut":
            self.in_target = False
        return False


class UnitSplitter:
    """Buffers the text that is not complete yet."""

    def __init__(self) -> None:
        self._text = ""
        self._start = 0  # start of the text that was not returned yet
        self._scan = 0  # end of the scanned text
        self._decided = -1  # offset of the last character that no token contains
        self._line = _PendingLine()

    def add(self, text: str) -> None:
        if self._start:
            self._text = self._text[self._start :]
            self._scan -= self._start
            self._decided -= self._start
            self._start = 0
        decided = _DECIDED.match(text)
        if decided is not None:
            self._decided = len(self._text) + decided.end() - 1
        self._text += text

    @property
    def has_pending(self) -> bool:
        return self._start < len(self._text)

    def next(self, *, in_fence: bool) -> Unit | None:
        """Return the next complete unit; None until more is added. Inside a fence only whole lines are units."""
        if not self.has_pending or not (self._line.has_started or self._start_line(in_fence)):
            return None
        line_end = self._text.find("\n", self._scan)
        if not self._line.is_one_unit:
            end = self._sentence_end(line_end)
            if end is not None:
                return self._cut(end, "")
        if line_end >= 0:
            return self._cut(line_end + 1, "\n")
        if self._line.is_one_unit:
            self._scan = len(self._text)
        return None

    def _start_line(self, in_fence: bool) -> bool:
        """Skip the list and quote markers of a line; False while its first characters are missing."""
        text, line = self._text, self._line
        line.is_one_unit = in_fence
        if not in_fence:
            at = self._scan = _LINE_MARKERS.match(text, self._scan).end()  # type: ignore[union-attr]  # or nothing
            head = text[at : at + _RUN]
            if not head or (head[0] in "`~" and len(head) < _RUN and "\n" not in head):
                return False
            line.is_one_unit = head[0] in _WHOLE_LINE or head in _FENCES
        line.has_started = True
        return True

    def _sentence_end(self, line_end: int) -> int | None:
        limit = line_end if line_end >= 0 else self._decided
        if limit < self._scan:
            return None
        at = self._scan
        while first := _FIRST.search(self._text, at, limit + 1):
            token = _TOKEN.match(self._text, first.start(), limit + 1)
            if token is not None and self._line.ends_sentence(token):
                end = _MARKERS_AFTER.match(self._text, token.end()).end()  # type: ignore[union-attr]  # or nothing
                if line_end >= 0 or not _MAY_BECOME_MARKER.match(self._text, end):
                    return end
                self._scan = first.start()
                return None
            at = (token or _RUN_OF_STOPS.match(self._text, first.start()) or first).end()
        self._scan = limit
        return None

    def _cut(self, end: int, last: str) -> Unit:
        unit = Unit(self._text[self._start : end], self._line.begins)
        self._start = self._scan = end
        self._line = _PendingLine() if last == "\n" else _PendingLine(begins=False, has_started=True)
        return unit
