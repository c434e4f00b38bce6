"""Citation markers: read every form that models write, and renumber the sanitised form `[1][3]`."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from modules.llm_platform.domain.markdown.blocks import BlockTracker, expand_tabs
from modules.llm_platform.domain.text.lazy_pattern import lazy_pattern

MAX_NUMBER_DIGITS = 9  # a longer number is not a source

# Invisible characters and emphasis may be between brackets and digits; a renderer still shows [1].
_PAD = r" \t*_\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufe00-\ufe0f\ufeff"
_DASH = r"\-\u2010-\u2015\u2212\uff0d"
_WORD = rf"(?:(?i:sources?|refs?\.?|references?|quellen?|источники?|来源|來源|出典|資料)[:：#{_PAD}]*)?"
_NUMBERS = rf"{_WORD}\^?#?\d+(?:[,，、;；&{_DASH}{_PAD}]+{_WORD}\^?#?\d+)*"
# `\[1\]` is rendered as [1]; some models were trained to write 【2†source】.
MARKER = lazy_pattern(
    rf"\\?[\[［【][{_PAD}]*({_NUMBERS})[,，、;；{_DASH}{_PAD}]*(?:†[^\[\]【】［］\n`<>]{{0,80}})?\\?[\]］】]"
)
_PIECE = re.compile(rf"(\d+)|[{_DASH}]")
_RENDERED = re.compile(r"\[(\d{1,9})\]")
NO_MARKERS: Final = str.maketrans("[]", "()")  # for text whose numbers in brackets are no markers


def parse_numbers(listed: str, known: Sequence[int]) -> list[int] | None:
    """Return the numbers of known sources in a list like `1, 3-5`, in order, each once; `known` is sorted.

    None where the list is an interval rather than a citation: several numbers, one of them 0.
    """
    found: dict[int, None] = {}
    previous: int | None = None
    in_range, count, zero = False, 0, False
    for piece in _PIECE.finditer(listed):
        if piece[1] is None:
            in_range = previous is not None
            continue
        number = int(piece[1]) if len(piece[1]) <= MAX_NUMBER_DIGITS else 10**MAX_NUMBER_DIGITS
        low = previous if in_range and previous is not None and previous <= number else number
        found.update(dict.fromkeys(known[bisect_left(known, low) : bisect_right(known, number)]))
        previous, in_range = number, False
        count, zero = count + 1, zero or number == 0
    return None if zero and count > 1 else list(found)


def render_markers(text: str) -> list[tuple[int, int, int]]:
    """Return the start, end and number of each `[n]` in a text without code."""
    return [(found.start(), found.end(), int(found[1])) for found in _RENDERED.finditer(text)]


LINE = re.compile(r"[^\n]*\n?")
_TICKS = re.compile(r"`+")
LINK_TARGET = re.compile(r"\]\((?:<[^<>\n]*>|[^\s()]*(?:\([^\s()]*\)[^\s()]*)*)\)")
_RUN = re.compile(r"([ ]?)((?:\[\d{1,9}\])+)")
_NUMBER = re.compile(r"\d+")


def renumber_markers(answer: str, numbers: Mapping[int, int]) -> str:
    """Replace each `[n]` of sanitised Markdown by `[numbers[n]]`, or remove it without an entry. Code is unchanged."""

    def renumbered(found: Sequence[int], position: int) -> str:
        new = dict.fromkeys(numbers[number] for number in found if number in numbers)
        return "".join(f"[{number}]" for number in new)

    return replace_markers(answer, renumbered)


def replace_markers(answer: str, replacement: Callable[[Sequence[int], int], str]) -> str:
    """Replace each run of adjacent `[n]` of sanitised Markdown; "" removes it with the blank before it. Code is unchanged.

    `replacement` gets the numbers of a run, and its offset in the answer.
    """
    blocks = BlockTracker()
    return "".join(_line(found[0], found.start(), blocks, replacement) for found in LINE.finditer(answer))


def _line(line: str, offset: int, blocks: BlockTracker, replacement: Callable[[Sequence[int], int], str]) -> str:
    text = line.removesuffix("\n")
    kind = blocks.take(expand_tabs(text)).kind
    if "[" not in text or kind in ("code", "fence", "indented"):
        return line
    masked = LINK_TARGET.sub(_blank, mask_code_spans(text))
    parts, done = [], 0
    for run in _RUN.finditer(masked):
        new = replacement([*map(int, _NUMBER.findall(run[2]))], offset + run.start())
        parts += [text[done : run.start()], run[1] + new if new else ""]
        done = run.end()
    return "".join([*parts, text[done:], line[len(text) :]])


def mask_code_spans(line: str, sign: str = "x") -> str:
    """Return a line in which this sign replaces each character of code. A run of backticks ends at the next equally long one.

    The runs are read once. A search for the end of each run would read the rest of the line once for each length.
    """
    if "`" not in line:
        return line
    runs = [found.span() for found in _TICKS.finditer(line)]
    ends: dict[int, int] = {}  # keyed by the length of a run: the next run of that length
    closed_by: list[int | None] = [None] * len(runs)
    for position in reversed(range(len(runs))):
        length = runs[position][1] - runs[position][0]
        closed_by[position] = ends.get(length)
        ends[length] = position
    parts, done, position = [], 0, 0
    while position < len(runs):
        closing = closed_by[position]
        if closing is not None:
            start, end = runs[position][0], runs[closing][1]
            parts += [line[done:start], sign * (end - start)]
            done, position = end, closing
        position += 1
    return "".join([*parts, line[done:]])


def _blank(found: re.Match[str]) -> str:
    return "x" * len(found[0])
