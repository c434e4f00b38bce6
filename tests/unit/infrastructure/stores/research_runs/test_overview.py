"""Hits and misses outlive the process, and counting never gets in the way."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import get_args

import pytest

from modules.llm_platform.domain.dtos.store_dtos import StoreStage
from modules.llm_platform.infrastructure.stores.research_runs.overview import HitCounters


def test_every_stage_is_counted_by_itself(tmp_path: Path) -> None:
    """Hits and misses of each, over several instances."""
    stages: tuple[StoreStage, ...] = get_args(StoreStage)
    for number, stage in enumerate(stages):
        for _ in range(number):
            HitCounters(tmp_path / "asked").note(stage, hits=1)
        HitCounters(tmp_path / "asked").note(stage, hits=0)
    assert HitCounters(tmp_path / "asked").counts() == {stage: (number, 1) for number, stage in enumerate(stages)}


def test_empty_store(tmp_path: Path) -> None:
    """Nothing is counted and nothing made where there is no store yet."""
    counts = HitCounters(tmp_path / "store" / "asked")
    counts.note("docs", hits=0)
    assert set(counts.counts().values()) == {(0, 0)}
    assert list(tmp_path.iterdir()) == []


def test_full_disk_does_not_fail_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be counted is not."""
    counts = HitCounters(tmp_path / "asked")
    counts.note("docs", hits=1)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        counts.note("docs", hits=1)
    assert counts.counts()["docs"] == (1, 0)
