"""The folder of an embedded collection, without the engine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from modules.llm_platform.infrastructure.files.file_lock import FileLock
from modules.llm_platform.infrastructure.index.qdrant import generations
from modules.llm_platform.infrastructure.index.qdrant.generations import CURRENT, Generations, copy_folder


def published(generations: Generations, text: str) -> None:
    assert generations.take()
    generations.work.mkdir(exist_ok=True)
    (generations.work / "file").write_text(text)
    generations.publish()
    generations.end()


def shown(generations: Generations) -> str:
    shared = generations.share()
    assert shared is not None
    path, lock = shared
    lock.release()
    return (path / "file").read_text()


def test_switching(tmp_path: Path) -> None:
    """There is no generation at first, and later the newest one is used. Its stamp shows a switch."""
    generations = Generations(tmp_path / "a" / "b")
    assert (generations.share(), generations.stamp()) == (None, None)
    stamps = []
    for text in ("first", "second", "third"):
        published(generations, text)
        assert shown(generations) == text
        stamps.append(generations.stamp())
    assert len(set(stamps)) == 3
    assert sorted(path.name for path in (tmp_path / "a" / "b").iterdir() if path.is_dir()) == ["g-000003"]


def test_one_writer(tmp_path: Path) -> None:
    """The place is taken until it is given up, with all that was not published."""
    first, second = Generations(tmp_path), Generations(tmp_path)
    assert first.take()
    assert first.take()
    assert not second.take()
    first.work.mkdir()
    first.end()
    assert not first.work.exists()
    assert second.take()
    second.end()


def test_rest_of_a_crash_is_removed(tmp_path: Path) -> None:
    """A half-written folder and a generation that was never switched to are thrown away."""
    generations = Generations(tmp_path)
    published(generations, "first")
    for left in ("work", "g-000002"):
        (tmp_path / left).mkdir()
        (tmp_path / left / "junk").touch()
    published(generations, "second")
    assert shown(generations) == "second"
    assert not (tmp_path / "g-000002" / "junk").exists()


def test_a_copy_begins_the_next(tmp_path: Path) -> None:
    """The writer works on a copy: those who read the newest see no change."""
    generations = Generations(tmp_path)
    published(generations, "first")
    generations.take()
    generations.copy_newest()
    assert (generations.work / "file").read_text() == "first"
    (generations.work / "file").write_text("second")
    assert shown(generations) == "first"
    generations.end()


@pytest.mark.parametrize("name", [b"", b"../../etc", b"\xff\xfe", b"work", b"g-000009"])
def test_a_damaged_name(name: bytes, tmp_path: Path) -> None:
    """What names no generation of ours is an error, not an empty index, and leads nowhere else."""
    generations = Generations(tmp_path)
    published(generations, "first")
    (tmp_path / CURRENT).write_bytes(name)
    with pytest.raises(OSError, match="generation"):
        generations.share()


def test_holes_stay_holes(tmp_path: Path) -> None:
    """A copy is the same byte by byte and takes no more room, folders below included."""
    source = tmp_path / "a"
    (source / "below").mkdir(parents=True)
    with (source / "below" / "file").open("wb") as file:
        file.write(b"begin")
        file.seek(50_000_000)
        file.write(b"middle")
        file.truncate(90_000_000)
    (source / "empty").touch()
    copy_folder(source, tmp_path / "b")
    copied = tmp_path / "b" / "below" / "file"
    assert copied.read_bytes() == (source / "below" / "file").read_bytes()
    assert copied.stat().st_blocks * 512 < 1_000_000
    assert (tmp_path / "b" / "empty").read_bytes() == b""


def test_where_holes_cannot_be_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy is the same, if larger."""
    monkeypatch.setattr(generations, "_HAS_HOLES", False)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_bytes(b"x" * 10)
    copy_folder(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b" / "file").read_bytes() == b"x" * 10


def test_locks(tmp_path: Path) -> None:
    """Many share, one holds alone; a second release does nothing."""
    one, two, three = (FileLock(tmp_path / "lock") for _ in range(3))
    assert one.acquire(shared=True)
    assert two.acquire(shared=True)
    assert not three.acquire()
    one.release()
    two.release()
    two.release()
    assert three.acquire()
    assert three.acquire()
    assert three.is_held
    assert not one.acquire(shared=True)
    three.release()


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    """A killed process holds no lock."""
    path = tmp_path / "lock"
    code = (
        "import fcntl, os, sys; file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT); "
        "fcntl.flock(file, fcntl.LOCK_EX); print(1, flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdin is not None
    holder.stdout.readline()
    lock = FileLock(path)
    assert not lock.acquire()
    holder.kill()
    holder.wait()
    holder.stdout.close()
    holder.stdin.close()
    assert lock.acquire()
    lock.release()
    assert path.exists()
