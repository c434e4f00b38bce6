"""infrastructure/files/file_lock.py"""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from modules.llm_platform.infrastructure.files import file_lock
from modules.llm_platform.infrastructure.files.file_lock import FileLock


def test_lock_on_removed_file_is_void(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who opened the file before it was removed, and locks it after, has nothing; the next try makes it anew."""
    path = tmp_path / "a.lock"
    late, real = FileLock(path), file_lock._try_lock

    def removed_before(file: int, shared: bool) -> bool:
        path.unlink()
        return real(file, shared)

    with monkeypatch.context() as patched:
        patched.setattr(file_lock, "_try_lock", removed_before)
        assert not late.acquire()
        assert not late.is_held
    assert late.acquire()
    assert not FileLock(path).acquire()
    late.release()


def test_a_replaced_file_is_not_our_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may have created the file again and locked it."""
    path = tmp_path / "a.lock"
    late, owner, real = FileLock(path), FileLock(path), file_lock._try_lock

    def made_anew(file: int, shared: bool) -> bool:
        monkeypatch.setattr(file_lock, "_try_lock", real)
        path.rename(tmp_path / "gone")  # its number is not given to the new one
        assert owner.acquire()
        return real(file, shared)

    monkeypatch.setattr(file_lock, "_try_lock", made_anew)
    assert not late.acquire()
    owner.release()
    assert late.acquire()
    late.release()


def test_without_lock_support_no_file_stays_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some network file systems have no locks. This is reported each time, and no file is left open."""
    opened: list[int] = []

    def none_here(file: int, flags: int) -> None:
        opened.append(file)
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", none_here)
    lock = FileLock(tmp_path / "a.lock")
    with pytest.raises(OSError, match="No locks"):
        lock.acquire()
    assert not lock.is_held
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened[0])
