"""domain/dtos/source_dtos.py: the description of a source in an answer."""

from __future__ import annotations

import pytest

from modules.llm_platform.domain.dtos.source_dtos import Source, SourceRef


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Die Mülltonnen werden am Montag vor das Haus gestellt, und der Hof ist danach zu kehren.", "de"),
        ("The bins are put in front of the house on Monday, and the yard is swept after that.", "en"),
        ("import os\nprint(os.getcwd())", None),
        ("| item | price |\n|---|---|\n| Door | 12 |", None),
        ("Los Angeles Lakers 112, Miami Heat 104", None),
        ("El Niño strengthens", None),
        ("Мусорные баки стоят у ворот.", "ru"),
        ("42", None),
        ("", None),
    ],
)
def test_a_listed_source_has_the_language_of_its_text(text: str, language: str | None) -> None:
    source = Source(index=1, title="House rules", url="doc:rules.md", text=text)
    assert SourceRef.of(source).language == language
