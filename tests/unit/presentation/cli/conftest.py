"""Each test of the command line in a folder of its own, with logging as it was."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restored_logging: None) -> None:
    monkeypatch.chdir(tmp_path)
