"""Find the page of an offset in a text that has pages, such as the text of a PDF, and keep page starts when texts change."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise

PageStarts = tuple[tuple[int, int], ...]
"""Pairs of an offset in code points and the page that begins there, counted from 1, in order. Empty if the text has no pages."""


def find_page(starts: PageStarts, offset: int) -> int | None:
    """Return the page of an offset; None in a text without pages. The offset of an empty page belongs to the next page."""
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
    """Return the page starts in `converted`, which is `convert(text)` without spaces around it.

    The pages are converted one by one. If they do not add up to `converted`, the result is empty, because no page is better
    than a wrong page.
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
