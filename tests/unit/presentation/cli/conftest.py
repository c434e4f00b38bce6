"""Runs each test of the command line in an empty folder, and restores the logging configuration."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restored_logging: None) -> None:
    monkeypatch.chdir(tmp_path)
