"""Where a text that is still being written may be cut: at the ends of sentences and lines, the same for any pieces."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LINE_MARKERS = re.compile(r"[ \t>*+\-0-9.)#]*")
_RUN = 3  # characters of a fence
_WHOLE_LINE = frozenset("[【［!\\|\n")  # what may be taken out, and a table row, mean nothing before their line has ended
_FENCES = frozenset({"```", "~~~"})

# A sentence ends at its full stop, with the quotes, the emphasis and the markers right behind it.
_BEHIND = r"""["'”’»)*_]*(?:[\[【［]\^?[\d,\-–]+(?:†[a-z]+)?[\]】］])*"""
_TOKEN = re.compile(
    rf"(?P<end>[.!?…؟।]+{_BEHIND}(?=\s)|[。！？｡]+[」』”’）]*{_BEHIND}(?=[\s\w]|[^\x00-\x7f]))|\\[^\w\s]|(?P<ticks>`+)"
    r"|(?P<open>[\[【［])|(?P<close>[\]】］])(?P<target>\()?|(?P<shut>\))"
)
# No token holds a blank or a letter of these scripts: what stands before one is complete, whatever comes.
_DECIDED = re.compile("(?s:.*)[\\s\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")


@dataclass(frozen=True, slots=True)
class Unit:
    """A sentence with the blanks before it, or what is left of a line with its end."""

    text: str
    begins_line: bool


@dataclass(slots=True)
class _Line:
    """What is open in the line that waits: a sentence does not end inside code, brackets or the target of a link."""

    begins: bool = True
    whole: bool = False
    started: bool = False  # the markers before the line's text have been passed
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
    """Holds what is not finished yet."""

    def __init__(self) -> None:
        self._text = ""
        self._start = 0  # what stands before was given away
        self._scan = 0  # what stands before was looked at
        self._decided = -1  # where the last character stands that no token holds
        self._line = _Line()

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
    def waits(self) -> bool:
        return self._start < len(self._text)

    def next(self, *, in_fence: bool) -> Unit | None:
        """The next finished unit; None until more is added. Inside a fence only whole lines are units."""
        if not self.waits or not (self._line.started or self._start_line(in_fence)):
            return None
        line_end = self._text.find("\n", self._scan)
        if not self._line.whole:
            end = self._sentence_end(line_end)
            if end is not None:
                return self._cut(end, "")
        if line_end >= 0:
            return self._cut(line_end + 1, "\n")
        if self._line.whole:
            self._scan = len(self._text)
        return None

    def _start_line(self, in_fence: bool) -> bool:
        """Pass the markers of a line, whose numbers end in no sentence; False when its first characters are not there yet."""
        text, line = self._text, self._line
        line.whole = in_fence
        if not in_fence:
            at = self._scan = _LINE_MARKERS.match(text, self._scan).end()  # type: ignore[union-attr]  # or nothing
            head = text[at : at + _RUN]
            if not head or (head[0] in "`~" and len(head) < _RUN and "\n" not in head):
                return False
            line.whole = head[0] in _WHOLE_LINE or head in _FENCES
        line.started = True
        return True

    def _sentence_end(self, line_end: int) -> int | None:
        limit = line_end if line_end >= 0 else self._decided
        if limit < self._scan:
            return None
        for token in _TOKEN.finditer(self._text, self._scan, limit + 1):
            if self._line.ends_sentence(token):
                return token.end()
        self._scan = limit
        return None

    def _cut(self, end: int, last: str) -> Unit:
        unit = Unit(self._text[self._start : end], self._line.begins)
        self._start = self._scan = end
        self._line = _Line() if last == "\n" else _Line(begins=False, started=True)
        return unit
