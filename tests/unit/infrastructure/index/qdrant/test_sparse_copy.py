"""A generation is copied while other processes open it, and opening one writes files of a moment."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from modules.llm_platform.infrastructure.index.qdrant.generations import CHUNK_BYTES, copy_folder, measure_folder

COPIES = 200


def test_a_copy_is_the_same_with_fewer_bytes_on_the_disk(tmp_path: Path) -> None:
    """Data, holes and folders are where they were, and a hole takes no room."""
    source = tmp_path / "source"
    (source / "inner").mkdir(parents=True)
    (source / "empty").touch()
    (source / "inner" / "small").write_bytes(b"abc")
    with (source / "holes").open("wb") as file:
        for position in (0, 10 * CHUNK_BYTES):
            file.seek(position)
            file.write(b"x" * (CHUNK_BYTES + 5))
        file.truncate(40 * CHUNK_BYTES)
    copy_folder(source, tmp_path / "copy")
    for path in source.rglob("*"):
        other = tmp_path / "copy" / path.relative_to(source)
        assert path.is_dir() == other.is_dir()
        assert path.is_dir() or path.read_bytes() == other.read_bytes()
    assert (tmp_path / "copy" / "holes").stat().st_blocks * 512 < 10 * CHUNK_BYTES


def test_vanishing_files_are_skipped(tmp_path: Path) -> None:
    """Files and folders may appear and vanish during the copy. Each copy has the stable files, and no error is raised."""
    source = tmp_path / "source"
    source.mkdir()
    for number in range(20):
        (source / f"stays-{number}").write_bytes(b"whole")
    ended = threading.Event()

    def come_and_go() -> None:
        while not ended.is_set():
            passing = source / ".passing"
            passing.mkdir()
            (passing / "file").touch()
            (source / ".file").touch()
            (passing / "file").unlink()
            passing.rmdir()
            (source / ".file").unlink()

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        for number in range(COPIES):
            target = tmp_path / f"copy-{number}"
            copy_folder(source, target)
            assert sum(path.read_bytes() == b"whole" for path in target.glob("stays-*")) == 20
    finally:
        ended.set()
        thread.join()


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    """Only files inside the folder may vanish."""
    with pytest.raises(FileNotFoundError):
        copy_folder(tmp_path / "nowhere", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_folder_that_vanishes_is_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A temporary folder that is removed during the listing is not counted and raises no error."""
    (tmp_path / "stays").write_bytes(b"x" * 5000)
    expected = measure_folder(tmp_path)
    vanishing = tmp_path / ".atomicwrite8oZD9p"
    vanishing.mkdir()
    scandir = os.scandir

    def removed_before_listed(folder: str | Path) -> Iterator[os.DirEntry[str]]:
        if Path(folder) == vanishing:
            vanishing.rmdir()
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", removed_before_listed)
    measured = measure_folder(tmp_path)
    assert not vanishing.exists()
    assert measured.allocated >= expected.allocated > 0
