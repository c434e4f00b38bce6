"""Split the rows of tables into cells, as GitHub's Markdown does (https://github.github.com/gfm/#tables-extension-)."""

import re
from itertools import pairwise
from typing import Final

from modules.llm_platform.domain.text.sentences import Span

_BAR: Final = re.compile(r"(?<!\\)\|")


def list_cell_spans(row: str) -> list[Span]:
    """Return the spans between the bars of a row, which may begin and end with a bar. An escaped bar is part of its cell."""
    bars = [found.start() for found in _BAR.finditer(row)]
    begin, end = len(row) - len(row.lstrip()), len(row.rstrip())
    first, last = [] if begin in bars[:1] else [begin - 1], [] if end - 1 in bars[-1:] else [end]
    return [(start + 1, end) for start, end in pairwise([*first, *bars, *last])]
