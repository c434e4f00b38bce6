"""A number with its noun in messages to users."""

from __future__ import annotations

from tests.support.cases import for_each

from modules.llm_platform.domain.text.counts import format_count


@for_each(
    ("count", "forms", "text"),
    [
        (0, ("page",), "0 pages"),
        (1, ("page",), "1 page"),
        (2, ("page",), "2 pages"),
        (1, ("search", "searches"), "1 search"),
        (2, ("page was read", "pages were read"), "2 pages were read"),
    ],
)
def test_only_one_is_singular(count: int, forms: tuple[str, ...], text: str) -> None:
    assert format_count(count, *forms) == text
