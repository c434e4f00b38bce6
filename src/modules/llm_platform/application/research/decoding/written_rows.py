"""Rows that a model wrote as lines: a Markdown table, comma-separated values, `1. Title: 7, 8, 6, 7, 8`, blocks of pairs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from modules.llm_platform.application.research.decoding.numbers import read_number

MAX_LINES: Final = 2000
MAX_LINE_CHARS: Final = 600
MIN_MARKS: Final = 3  # fewer numbers in a line or block are prose
TITLE: Final = "title"  # of a block that begins with a title alone

_BETWEEN = re.compile(r"[|;,\t]")
_NUMBERED = re.compile(r"\(?#?(\d{1,3})[.):]\s+(\S.*)")
_TITLED = re.compile(r"(.*\S)\s*(?:[:：—–]|\s-)\s*(\S{1,20})")
_PAIR = re.compile(r"[^\w(]{0,12}(\w[\w \-]{0,60}?)[*_\"'`]{0,3}\s?[:：=]\s*(\S.*)")
_AROUND = " \t\"'“”«»`*"


def read_written_rows(text: str, limit: int) -> list[Mapping[str, object] | Sequence[object]]:
    """Lines as [number, title, mark, ...], else blocks of `name: value` lines as objects; at most `limit`."""
    lines = [line[:MAX_LINE_CHARS].strip() for line in text.splitlines()[:MAX_LINES]]
    return [*islice(_lines_with_marks(lines), limit)] or [*islice(_blocks(lines), limit)]


def _lines_with_marks(lines: list[str]) -> Iterator[list[object]]:
    for line in lines:
        cells = _cells(_parts(line.strip("|()[]{}* ")))
        if _marks(cells) >= MIN_MARKS:
            yield cells


def _parts(line: str) -> list[str]:
    parts = _BETWEEN.split(line)
    numbered = _NUMBERED.fullmatch(parts[0].strip())
    if numbered:
        parts[:1] = numbered.groups()
    at = len(numbered.groups()) - 1 if numbered else 0
    titled = _TITLED.fullmatch(parts[at].strip())
    if titled and read_number(titled[2]) is not None:
        parts[at : at + 1] = titled.groups()
    return parts


def _cells(parts: list[str]) -> list[object]:
    """A title with separators in it is one cell again."""
    cells: list[object] = []
    title: list[str] = []
    for part in (part.strip(_AROUND) for part in parts):
        if part and read_number(part) is None:
            title.append(part)
            continue
        if title:
            cells.append(", ".join(title))
            title = []
        cells.append(part)
    return [*cells, ", ".join(title)] if title else cells


def _blocks(lines: list[str]) -> Iterator[dict[str, object]]:
    """A name that comes again, or a line without a pair, begins the next block; that line is its title."""
    block: dict[str, object] = {}
    for line in lines:
        pair = _PAIR.fullmatch(line)
        if line and (not pair or pair[1].lower() in block):
            if _marks(block.values()) >= MIN_MARKS:
                yield block
            block = {} if pair else {TITLE: line.strip(_AROUND + "#.:-)(0123456789")}
        if pair:
            block[pair[1].lower()] = pair[2].strip(_AROUND + ",")
    if _marks(block.values()) >= MIN_MARKS:
        yield block


def _marks(values: Iterable[object]) -> int:
    return sum(read_number(value) is not None for value in values)
