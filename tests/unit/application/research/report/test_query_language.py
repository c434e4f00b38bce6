"""The language in which a query of a report is searched."""

from __future__ import annotations

from tests.support.cases import for_each

from modules.llm_platform.application.research.report.queries import detect_query_language


@for_each(
    ("query", "possible", "language"),
    [
        ("Как работает тепловой насос зимой?", ("ru", "en"), "ru"),  # by its script
        ("How does a heat pump work?", ("de", "en"), "en"),
        ("Wie funktioniert eine Wärmepumpe?", ("en",), "de"),  # a sub-question of the user
        ("como funcionam as bombas de calor no inverno", ("pt-BR", "en"), "pt-BR"),  # Portuguese rather than English
        ("Mixture Tokens", ("ru", "en"), None),
        ("Mixture Tokens", ("en",), "en"),
        ("Mixture Tokens", (), None),
    ],
)
def test_a_query_is_searched_in_its_own_language(query: str, possible: tuple[str, ...], language: str | None) -> None:
    """The requested tag is used. If two languages fit equally, all are searched."""
    assert detect_query_language(query, possible) == language
