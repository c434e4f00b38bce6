"""Settings are read from an environment without any of them."""

from __future__ import annotations

import pytest
from tests.support.environment import SETTINGS


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SETTINGS:
        monkeypatch.delenv(name)
