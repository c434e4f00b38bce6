"""The folder of an embedded collection: what one process writes, and what many read.

    writer.lock   held by the process that writes
    work/         the shard that it writes; what a crashed writer left there is thrown away
    g-000007/     a finished generation, in which nothing changes any more
    current       the name of the newest one, switched by a rename

Whoever reads a generation shares the lock `<name>.lock`: the next writer removes older ones when nobody does.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

from modules.llm_platform.infrastructure.files.file_lock import FileLock
from modules.llm_platform.infrastructure.files.private_files import (
    PRIVATE_FOLDER,
    close_to_others,
    make_private_folder,
    private_opener,
)

# Copy a folder of files that are mostly holes: a shard reserves far more than it uses.


CHUNK_BYTES: Final = 1 << 20
_HAS_HOLES: Final = hasattr(os, "SEEK_DATA")


def copy_folder(source: Path, target: Path) -> None:
    """`target` must not exist; holes stay holes where the system can tell them. What vanishes meanwhile is left out: a process
    that opens a shard writes files of a moment beside the others. FileNotFoundError where `source` itself is not there.
    """
    with os.scandir(source) as entries:
        target.mkdir(PRIVATE_FOLDER)
        for entry in entries:
            with suppress(FileNotFoundError):
                _copy_entry(entry, target / entry.name)


def _copy_entry(entry: os.DirEntry[str], target: Path) -> None:
    if entry.is_dir(follow_symlinks=False):
        copy_folder(Path(entry.path), target)
    elif entry.is_file(follow_symlinks=False):
        _copy_file(Path(entry.path), target)


def _copy_file(source: Path, target: Path) -> None:
    if not _HAS_HOLES:
        shutil.copyfile(source, target)
        return
    with source.open("rb", buffering=0) as read, open(target, "wb", buffering=0, opener=private_opener) as write:
        size = os.fstat(read.fileno()).st_size
        write.truncate(size)
        place = 0
        while (start := _data_from(read.fileno(), place)) is not None:
            place = os.lseek(read.fileno(), start, os.SEEK_HOLE)
            read.seek(start)
            write.seek(start)
            while start < place and (piece := read.read(min(CHUNK_BYTES, place - start))):
                start += write.write(piece)


def _data_from(file: int, place: int) -> int | None:
    try:
        return os.lseek(file, place, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:  # nothing but a hole until the end
            return None
        raise


CURRENT: Final = "current"
WORK: Final = "work"
WRITER_LOCK: Final = "writer.lock"
MAX_NAME_BYTES: Final = 100
TRIES: Final = 10  # to open a generation while writers switch and remove them

_NAME = re.compile(r"g-(\d{6,12})")

Stamp = tuple[int, int]  # inode and time of `current`: what tells that it was switched


class Generations:
    """The folder of one collection; none of its methods waits. OSError where the file system refuses."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work = folder / WORK
        self._current = folder / CURRENT
        self._writer = FileLock(folder / WRITER_LOCK)

    @property
    def writing(self) -> bool:
        return self._writer.held

    def stamp(self) -> Stamp | None:
        """Another one after each switch; None while there is no generation."""
        try:
            about = os.stat(self._current)  # noqa: PTH116  asked before every search: a Path takes twice as long
        except FileNotFoundError:
            return None
        return about.st_ino, about.st_mtime_ns

    def share(self) -> tuple[Path, FileLock] | None:
        """The newest generation and the lock that keeps it, to be released by whoever reads it; None when there is none."""
        for _ in range(TRIES):
            path = self._newest()
            if path is None:
                return None
            lock = FileLock(path.with_suffix(".lock"))
            if lock.acquire(shared=True):
                if path.is_dir():
                    return path, lock
                lock.release()  # it was removed between the two
        raise OSError(f"{CURRENT} names a generation that is not there")

    def take(self) -> bool:
        """Take the writer's place, and throw away what a crashed writer left; False: another process has it."""
        if self.writing:
            return True
        make_private_folder(self.folder)
        if not self._writer.acquire():
            return False
        shutil.rmtree(self.work, ignore_errors=True)
        return True

    def copy_newest(self) -> None:
        """Put a copy of the newest generation at `work`. For the writer alone."""
        newest = self._newest()
        if newest is not None:
            copy_folder(newest, self.work)

    def publish(self) -> None:
        """What is at `work`, closed and on the disk, becomes the newest generation; older ones that nobody reads go."""
        newest = self._newest()
        number = 1 + (int(newest.name[2:]) if newest else 0)
        path = self.folder / f"g-{number:06}"
        shutil.rmtree(path, ignore_errors=True)  # a writer crashed between the two renames
        close_to_others(self.work)  # the engine leaves its files to the umask
        self.work.rename(path)
        written = self.folder / f"{CURRENT}.new"
        with open(written, "w", opener=private_opener) as file:
            file.write(path.name)
            file.flush()
            os.fsync(file.fileno())
        written.replace(self._current)
        self._remove_older(path)

    def end(self) -> None:
        """Give up the writer's place, and what was written since the last `publish`."""
        if self.writing:
            shutil.rmtree(self.work, ignore_errors=True)
            self._writer.release()

    def _newest(self) -> Path | None:
        try:
            name = self._current.read_bytes()[:MAX_NAME_BYTES].decode("ascii", "replace").strip()
        except FileNotFoundError:
            return None
        if not _NAME.fullmatch(name):
            raise OSError(f"{CURRENT} names no generation")
        return self.folder / name

    def _remove_older(self, newest: Path) -> None:
        for path in self.folder.iterdir():
            if path != newest and path.is_dir() and _NAME.fullmatch(path.name):
                lock = FileLock(path.with_suffix(".lock"))
                if lock.acquire():
                    shutil.rmtree(path, ignore_errors=True)
                    path.with_suffix(".lock").unlink(missing_ok=True)
                    lock.release()
