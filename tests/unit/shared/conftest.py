"""Settings are read from an environment without any of them."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("READ_PAGES")  # tests/conftest.py sets it for the others
