"""infrastructure/documents/index_directory.py"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from tests.support.cases import for_each

from modules.llm_platform.infrastructure.documents.folder_state import make_key
from modules.llm_platform.infrastructure.documents.index_directory import (
    DAY_S,
    IndexDirectory,
    StoredFolderIndexes,
    remove_unused,
)
from modules.llm_platform.infrastructure.files.file_lock import FileLock

NOW = 2_000_000_000.0


def home(base: Path | None, key: str = "a", now: float = NOW) -> IndexDirectory:
    return IndexDirectory(base, key, 30, clock=lambda: now)


def age(base: Path, key: str, days: float) -> None:
    when = NOW - days * DAY_S
    os.utime(base / f"{key}.lock", (when, when))


def test_folder_is_private(tmp_path: Path) -> None:
    """The index of a user's documents is readable only by the user."""
    path = home(tmp_path / "folders").make()
    assert path == tmp_path / "folders" / "a"
    for folder in (path, path.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_one_writer(tmp_path: Path) -> None:
    """Another waits until the first is done."""
    first, second = home(tmp_path), home(tmp_path)
    for side in (first, second):
        side.make()
    assert first.acquire()
    assert not second.acquire()
    first.release()
    assert second.acquire()
    second.close()


def test_index_without_base_is_temporary() -> None:
    """Without a data folder, the index is in a private temporary folder, which is removed on close."""
    temporary = home(None)
    path = temporary.make()
    assert temporary.make() == path
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert temporary.acquire()
    temporary.touch()
    (path / "index").write_text("x")
    temporary.close()
    assert not path.exists()
    temporary.close()


def test_a_read_only_data_folder(tmp_path: Path) -> None:
    """Documents can be searched even if the data folder is read-only."""
    (tmp_path / "file").write_text("no folder")
    one = home(tmp_path / "file" / "folders")
    assert not one.make().is_relative_to(tmp_path / "file")
    one.close()


def test_unused_index_expires(tmp_path: Path) -> None:
    """An index expires after STORE_TTL_DAYS when another folder is opened, unless it is in use or being written."""
    for key in ("old", "written", "young"):
        home(tmp_path, key).make()
        (tmp_path / key / "index").write_text("x")
    age(tmp_path, "old", 31)
    age(tmp_path, "written", 31)
    age(tmp_path, "young", 29)
    writer = home(tmp_path, "written")
    writer._lock = FileLock(tmp_path / "written.lock")
    assert writer.acquire()
    home(tmp_path, "new").make()
    writer.release()
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["new", "written", "young"]
    assert remove_unused(tmp_path, 30 * DAY_S, NOW) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "new.lock", "young", "young.lock"]


def test_a_lock_without_an_index_is_removed_too(tmp_path: Path) -> None:
    """An old lock without an index is removed and not counted. A held or new lock is kept."""
    for key in ("left", "held", "young"):
        (tmp_path / f"{key}.lock").touch()
        age(tmp_path, key, 1 if key == "young" else 31)
    writer = FileLock(tmp_path / "held.lock")
    assert writer.acquire()
    assert remove_unused(tmp_path, 30 * DAY_S, NOW) == 0
    writer.release()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["held.lock", "young.lock"]


def test_a_removed_index_has_one_writer_again(tmp_path: Path) -> None:
    """Who knew the place before takes it anew, and keeps others out."""
    first, second = home(tmp_path), home(tmp_path)
    for side in (first, second):
        side.make()
    age(tmp_path, "a", 31)
    assert remove_unused(tmp_path, 30 * DAY_S, NOW) == 1
    assert first.acquire()
    assert not second.acquire()
    first.release()


def test_folders_above_it_are_private_too(tmp_path: Path) -> None:
    """Whatever the umask lets others do: the data folder may be made by a search."""
    before = os.umask(0)
    try:
        home(tmp_path / "data" / "folders").make()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700


async def test_clean_and_clear(tmp_path: Path) -> None:
    """`cache clean` removes expired indexes, and `cache clear` removes all. Without an index nothing happens."""
    kept = StoredFolderIndexes(tmp_path / "folders", 30, clock=lambda: NOW)
    assert (await kept.clean(), await kept.clear()) == (0, 0)
    for key in ("old", "young"):
        home(tmp_path / "folders", key).make()
    age(tmp_path / "folders", "old", 31)
    assert await kept.clean() == 1
    assert await kept.clear() == 1
    assert not [path for path in (tmp_path / "folders").iterdir() if path.is_dir()]


def test_use_extends_the_ttl(tmp_path: Path) -> None:
    """A search says that it is in use, at most hourly."""
    now = [NOW - 40 * DAY_S]
    one = IndexDirectory(tmp_path, "a", 30, clock=lambda: now[0])
    one.make()
    now[0] = NOW
    one.touch()
    assert (tmp_path / "a.lock").stat().st_mtime == NOW
    assert remove_unused(tmp_path, 30 * DAY_S, NOW) == 0
    now[0] += 60.0
    one.touch()
    assert (tmp_path / "a.lock").stat().st_mtime == NOW


@for_each("other", [("/x", "w", ""), ("/d", "none", ""), ("/d", "w", "https://a"), ("/dw", "", "")])
def test_each_folder_and_embedder_has_its_own(other: tuple[str, str, str]) -> None:
    """And each address that its documents are shown under; names of any bytes have one."""
    assert make_key(("/d", "w", "")) != make_key(other)
    assert make_key(("/d", "w", "")) == make_key(("/d", "w", ""))
    assert make_key((os.fsdecode(b"/\xff"),)).isalnum()
