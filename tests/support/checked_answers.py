"""Records which texts a citation checker checks."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from modules.llm_platform.domain.citations.checker import CheckedAnswer, CitationChecker


def record_checks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that receives each text whose citations are checked, until the test ends."""
    checked: list[str] = []
    check = CitationChecker.check

    def recorded(checker: CitationChecker, answer: str, added: Collection[int] = ()) -> CheckedAnswer:
        checked.append(answer)
        return check(checker, answer, added)

    monkeypatch.setattr(CitationChecker, "check", recorded)
    return checked
