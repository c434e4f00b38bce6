"""What stands out in a line of Markdown: the signs that may mean something, code spans, brackets that belong together."""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache

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
