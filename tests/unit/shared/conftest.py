"""Settings are read from an environment without any of them."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("READ_PAGES", "CITATION_ENCODER"):  # tests/conftest.py sets them for the others
        monkeypatch.delenv(name)
