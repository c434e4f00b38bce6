"""Find the code spans and the pairs of brackets of a line, in time linear in its length."""

import re
from bisect import bisect_left
from dataclasses import dataclass

PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")  # the characters that a backslash escapes

_TICKS = re.compile(r"`+")
_BRACKET = re.compile(r"[\\`\[\]]")


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
        """Return the span whose backticks begin at this offset."""
        inside = _TICKS.match(self._text, at).end()  # type: ignore[union-attr]  # a backtick is at `at`
        length = inside - at
        starts = self._runs.get(length, [])
        position = bisect_left(starts, inside)
        if position == len(starts):
            return CodeSpan(inside, inside, None)
        return CodeSpan(inside, starts[position], starts[position] + length)


def pair_brackets(text: str, code: CodeSpans) -> dict[int, int]:
    """Return the offset of each `[` with the offset of its `]`. Escaped brackets and brackets in code do not count."""
    pairs: dict[int, int] = {}
    opened: list[int] = []
    at = 0
    while (found := _BRACKET.search(text, at)) is not None:
        at = found.end()
        if found[0] == "\\":
            at += text[at : at + 1] in PUNCTUATION
        elif found[0] == "`":
            span = code.read_span(at - 1)
            at = span.end or span.inside
        elif found[0] == "[":
            opened.append(at - 1)
        elif opened:
            pairs[opened.pop()] = at - 1
    return pairs
