"""Where the pages of a text begin."""

from __future__ import annotations

import pytest

from modules.llm_platform.domain.text.page_starts import convert_page_starts, cut_page_starts, find_page, number_pages

STARTS = ((0, 1), (10, 2), (20, 3), (20, 4))  # page 3 has no text


@pytest.mark.parametrize(("offset", "page"), [(0, 1), (9, 1), (10, 2), (19, 2), (20, 4), (99, 4)])
def test_page_of_an_offset(offset: int, page: int) -> None:
    assert find_page(STARTS, offset) == page


def test_text_without_pages_has_none() -> None:
    assert find_page((), 5) is None
    assert cut_page_starts((), 0, 5) == ()
    assert number_pages([]) == ()


def test_part_begins_with_the_page_of_its_first_character() -> None:
    """Every offset of the part has the page that it has in the whole."""
    part = cut_page_starts(STARTS, 5, 25, shift=100)
    assert part == ((100, 1), (105, 2), (115, 3), (115, 4))
    assert [find_page(part, offset - 5 + 100) for offset in range(5, 25)] == [
        find_page(STARTS, offset) for offset in range(5, 25)
    ]


def test_starts_move_with_what_is_removed() -> None:
    """What cannot be followed has no pages, rather than wrong ones."""
    text = " a\u00adb\u00adc\u00ad d"
    starts = ((0, 1), (4, 2))
    assert convert_page_starts(text, starts, lambda part: part.replace("\u00ad", ""), "abc d") == ((0, 1), (2, 2))
    assert convert_page_starts("aa", ((0, 1), (1, 2)), lambda part: part.replace("aa", "b"), "b") == ()
    assert convert_page_starts("same", STARTS, str.upper, "same") == STARTS
