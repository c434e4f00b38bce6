"""The pages of a text that has pages, such as a PDF: where in the text each page begins."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise

PageStarts = tuple[tuple[int, int], ...]
"""Offsets in code points and the numbers of the pages that begin there, from 1, in the order of the text. Empty: no pages."""


def find_page(starts: PageStarts, offset: int) -> int | None:
    """Return the page of an offset; None in a text without pages. Of a page without text the next one has the offset."""
    position = bisect_right(starts, offset, key=lambda start: start[0])
    return starts[position - 1][1] if position else None


def cut_page_starts(starts: PageStarts, begin: int, end: int, shift: int = 0) -> PageStarts:
    """Return the page starts of the part from `begin` to `end`, whose first character has the offset `shift`."""
    page = find_page(starts, begin)
    if page is None:
        return ()
    inside = ((offset - begin + shift, number) for offset, number in starts if begin < offset < end)
    return ((shift, page), *inside)


def convert_page_starts(text: str, starts: PageStarts, convert: Callable[[str], str], converted: str) -> PageStarts:
    """Return the page starts in `converted`, what `convert` made of the whole text and stripped.

    Empty where the parts between the starts, each converted, are not the whole: no page is better than a wrong one.
    """
    if not starts or converted == text:
        return starts
    offsets = [0, *(offset for offset, _ in starts), len(text)]
    parts = [convert(text[begin:end]) for begin, end in pairwise(offsets)]
    whole = "".join(parts)
    if whole.strip() != converted:
        return ()
    stripped = len(whole) - len(whole.lstrip())
    moved, position = [], 0
    for part, (_, page) in zip(parts, starts, strict=False):
        position += len(part)
        moved.append((max(0, position - stripped), page))
    return tuple(moved)


def number_pages(offsets: Sequence[int]) -> PageStarts:
    """Return the starts of pages 1, 2, …"""
    return tuple((offset, page) for page, offset in enumerate(offsets, 1))
