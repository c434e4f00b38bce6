"""The folder of an embedded collection, for one writing process and many readers.

    writer.lock   The process that writes locks it.
    work/         The shard that it writes. After a crash, the next writer deletes it.
    g-000007/     A finished generation, which does not change.
    current       The name of the newest generation. A rename replaces it.

A reader of a generation shares the lock `<name>.lock`. A writer deletes older generations whose lock nobody has.
"""

import errno
import os
import re
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from modules.llm_platform.infrastructure.files import private_files
from modules.llm_platform.infrastructure.files.file_lock import FileLock

# Copying sparse files: a shard reserves far more than it uses.


CHUNK_BYTES: Final = 1 << 20
_HAS_HOLES: Final = hasattr(os, "SEEK_DATA")


def copy_folder(source: Path, target: Path) -> None:
    """Copy a folder to `target`, which must not exist. Holes in files are kept if the system reports them.

    Files that vanish during the copy are skipped, because opening a shard writes temporary ones. Raises FileNotFoundError if
    `source` does not exist.
    """
    with os.scandir(source) as entries:
        target.mkdir(private_files.PRIVATE_FOLDER)
        for entry in entries:
            with suppress(FileNotFoundError):
                if entry.is_dir(follow_symlinks=False):
                    copy_folder(Path(entry.path), target / entry.name)
                elif entry.is_file(follow_symlinks=False):
                    _copy_file(Path(entry.path), target / entry.name)


def _copy_file(source: Path, target: Path) -> None:
    if not _HAS_HOLES:
        shutil.copyfile(source, target)
        return
    with (
        source.open("rb", buffering=0) as read,
        open(target, "wb", buffering=0, opener=private_files.open_privately) as write,
    ):
        size = os.fstat(read.fileno()).st_size
        write.truncate(size)
        position = 0
        while (start := _find_data(read.fileno(), position)) is not None:
            position = os.lseek(read.fileno(), start, os.SEEK_HOLE)
            read.seek(start)
            write.seek(start)
            while start < position and (piece := read.read(min(CHUNK_BYTES, position - start))):
                start += write.write(piece)


def _find_data(file: int, position: int) -> int | None:
    try:
        return os.lseek(file, position, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:  # nothing but a hole until the end
            return None
        raise


# The engine maps its files. On a memory disk, such as the tmpfs of a container, mapping a file fills its holes, and a process
# that finds no room for one ends by SIGBUS. The pages of stored points are the exception: they are filled as points come.

BLOCK_BYTES: Final = 512  # unit of `st_blocks`, whatever the file system has
LARGE_PAGE_BYTES: Final = 16 * 1024 * 1024  # the pages of stored points have 32 MiB, those of the index of fields 4 MiB


@dataclass(frozen=True, slots=True)
class FolderSize:
    """Bytes on the disk, and the further bytes that the holes take when the files are mapped."""

    allocated: int
    unfilled: int


def measure_folder(folder: Path) -> FolderSize:
    """Measure a shard. Files and folders that vanish meanwhile are skipped: opening a shard writes temporary ones."""
    allocated = unfilled = 0
    for parent, folders, files in os.walk(folder, onerror=_raise_unless_vanished):
        for name in (*folders, *files):
            with suppress(FileNotFoundError):
                about = Path(parent, name).stat(follow_symlinks=False)
                on_disk = getattr(about, "st_blocks", 0) * BLOCK_BYTES
                allocated += on_disk
                if not (name.startswith("page_") and about.st_size > LARGE_PAGE_BYTES):
                    unfilled += max(0, about.st_size - on_disk)
    return FolderSize(allocated, unfilled)


def _raise_unless_vanished(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


CURRENT: Final = "current"
MAX_NAME_BYTES: Final = 100
TRIES: Final = 10  # tries to open a generation while writers replace and delete them

_NAME = re.compile(r"g-(\d{6,12})")

Stamp = tuple[int, int]  # inode and time of `current`


class Generations:
    """The folder of one collection. No method waits. All may raise OSError."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work = folder / "work"
        self._current = folder / CURRENT
        self._writer = FileLock(folder / "writer.lock")

    @property
    def is_writing(self) -> bool:
        return self._writer.is_held

    def stamp(self) -> Stamp | None:
        """Return a value that changes with each `publish`, or None if there is no generation."""
        try:
            about = os.stat(self._current)  # noqa: PTH116  Path.stat takes twice as long, and every search comes here.
        except FileNotFoundError:
            return None
        return about.st_ino, about.st_mtime_ns

    def share(self) -> tuple[Path, FileLock] | None:
        """Return the newest generation and its shared lock, which the reader releases, or None if there is none."""
        for _ in range(TRIES):
            path = self._find_newest()
            if path is None:
                return None
            lock = FileLock(path.with_suffix(".lock"))
            if lock.acquire(shared=True):
                if path.is_dir():
                    return path, lock
                lock.release()  # The generation was removed before the lock was taken.
        raise OSError(f"{CURRENT} names a generation that is not there")

    def take(self) -> bool:
        """Lock the folder for writing, and delete what a crashed writer left. Return False if another process writes."""
        if self.is_writing:
            return True
        private_files.make_private_folder(self.folder)
        if not self._writer.acquire():
            return False
        shutil.rmtree(self.work, ignore_errors=True)
        return True

    def copy_newest(self) -> None:
        """Copy the newest generation to `work`. Only the writer calls this. Raises OSError if the disk has too little space."""
        newest = self._find_newest()
        if newest is not None:
            size = measure_folder(newest)
            private_files.require_free_space(self.folder, size.allocated + size.unfilled)
            copy_folder(newest, self.work)

    def publish(self) -> None:
        """Make `work`, closed and flushed, the newest generation, and delete older ones that nobody reads."""
        newest = self._find_newest()
        number = 1 + (int(newest.name[2:]) if newest else 0)
        path = self.folder / f"g-{number:06}"
        shutil.rmtree(path, ignore_errors=True)  # a writer crashed between the two renames
        private_files.restrict_to_owner(self.work)  # the engine creates its files by the umask
        self.work.rename(path)
        written = self.folder / f"{CURRENT}.new"
        with open(written, "w", opener=private_files.open_privately) as file:
            file.write(path.name)
            file.flush()
            os.fsync(file.fileno())
        written.replace(self._current)
        self._remove_older(path)

    def end(self) -> None:
        """Unlock, and delete what was written since the last `publish`."""
        if self.is_writing:
            shutil.rmtree(self.work, ignore_errors=True)
            self._writer.release()

    def _find_newest(self) -> Path | None:
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
