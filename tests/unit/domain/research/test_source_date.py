"""A page knows its date better than the engine that found it."""

from tests.support.cases import for_each

from modules.llm_platform.domain.research.source_date import choose_source_date


@for_each(
    ("of_page", "of_result", "date"),
    [
        ("2025-05-05T10:00:00Z", "2026-01-02", "2025-05-05T10:00:00Z"),
        ("2025", "2026-01-02", "2025"),
        ("2025-05-05", None, "2025-05-05"),
        (None, "2026-01-02", "2026-01-02"),
        ("", "2026-01-02", "2026-01-02"),
        ("Tue, 05 Mar 2024", "2026-01-02", "2026-01-02"),
        ("Tue, 05 Mar 2024", None, "Tue, 05 Mar 2024"),
        (None, None, None),
    ],
)
def test_the_date_of_the_page_wins(of_page: str | None, of_result: str | None, date: str | None) -> None:
    """The result dates a page that states no date, or none that can be compared."""
    assert choose_source_date(of_page, of_result) == date
