"""Lists a folder of documents: files that can be read, and why others are skipped. No file is opened."""

import os
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

SUFFIXES: Final = (
    ".md",
    ".markdown",
    ".txt",
    ".text",
    ".log",
    ".csv",
    ".tsv",
    ".rst",
    ".html",
    ".htm",
    ".pdf",
    ".docx",
    ".xlsx",
    ".pptx",
    ".epub",
    ".ipynb",
)
SILENTLY_SKIPPED: Final = frozenset(
    (
        ".png",
        ".jpg",
        ".jpeg",
        ".gif",
        ".svg",
        ".webp",
        ".ico",
        ".bmp",
        ".tif",
        ".tiff",
        ".heic",
        ".mp3",
        ".wav",
        ".ogg",
        ".flac",
        ".m4a",
        ".mp4",
        ".webm",
        ".mov",
        ".avi",
        ".mkv",
        ".woff",
        ".woff2",
        ".ttf",
        ".otf",
        ".eot",
        ".css",
        ".js",
        ".map",
        ".pyc",
        ".lock",
        ".db",
        ".bak",
        ".tmp",
        ".json",
        ".yaml",
        ".yml",
        ".toml",
        ".ini",
        ".cfg",
    )
)  # files beside documents, settings among them
MAX_TYPES_NAMED: Final = 5
MAX_TYPE_CHARS: Final = 10  # longest suffix
SKIPPED_FOLDERS: Final = frozenset({"node_modules", "__pycache__"})
MAX_FILES: Final = 50_000

Stamp = tuple[int, int, int, int]  # size in bytes, modified and changed in ns, inode; changes with the content
Identity = tuple[int, int]  # device, inode


def get_suffix(path: str) -> str:
    """Return the suffix of a file name in lower case, with its dot."""
    return os.path.splitext(path)[1].lower()  # noqa: PTH122  ten thousand Path objects take 40 ms


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A regular file below the folder. `path` is relative to the folder, with forward slashes."""

    path: str
    stamp: Stamp

    @property
    def suffix(self) -> str:
        return get_suffix(self.path)


@dataclass(slots=True)
class Listing:
    """Files by relative path, and the reason for each skipped entry that looks like a document."""

    files: dict[str, FoundFile] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    unread: Counter[str] = field(default_factory=Counter)  # files of types that are not read, by suffix

    @property
    def unread_summary(self) -> str:
        """Text such as `3 files of types that are not read: 2 .xls, 1 .odt`. It is empty if there are none."""
        if not self.unread:
            return ""
        count = self.unread.total()
        by_number = sorted(self.unread.items(), key=lambda counted: (-counted[1], not counted[0], counted[0]))
        named = by_number[:MAX_TYPES_NAMED]
        rest = count - sum(number for _, number in named)
        types = [f"{number} {suffix or 'without a suffix'}" for suffix, number in named]
        types += [f"{rest} of other types"] if rest else []
        files = "1 file of a type that is" if count == 1 else f"{count:,} files of types that are"
        return f"{files} not read: {', '.join(types)}"


def list_folder(root: Path, *, suffixes: tuple[str, ...] = SUFFIXES, max_files: int | None = None) -> Listing:
    """Return all documents below `root` except hidden ones, each file once. Links are followed inside the folder only.
    Where `root` is a file it is the only one, and its path is its name.

    Raises OSError when the folder cannot be opened.
    """
    if not root.is_file():
        return _Walk(root.resolve(strict=True), suffixes, MAX_FILES if max_files is None else max_files).run()
    status = root.stat()
    found = FoundFile(root.name, (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino))
    if found.path.lower().endswith(suffixes):
        return Listing({found.path: found})
    return Listing(unread=Counter([_get_type(root.name)]))


def _get_type(name: str) -> str:
    """Return the suffix of a file's name if it is short and printable, else an empty text."""
    suffix = get_suffix(name)
    return suffix if len(suffix) <= MAX_TYPE_CHARS and suffix.isprintable() else ""


class _Walk:
    def __init__(self, root: Path, suffixes: tuple[str, ...], max_files: int) -> None:
        self._root = root
        self._suffixes = suffixes
        self._max_files = max_files
        self._listing = Listing()
        self._links: list[str] = []
        self._files: set[Identity] = set()
        self._folders: set[Identity] = set()

    def run(self) -> Listing:
        with os.scandir(self._root):
            pass  # raises OSError for the folder as a whole
        self._walk("")
        while self._links:  # links come last, so that a file has its own name rather than a link's
            links, self._links = sorted(self._links), []
            for link in links:
                self._follow(link)
        return self._listing

    def _walk(self, start: str) -> None:
        pending = [start]
        while pending and len(self._listing.files) < self._max_files:
            folder = pending.pop()
            for entry in self._list_entries(folder):
                path = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_symlink():
                    self._links.append(path)
                elif entry.is_dir(follow_symlinks=False):
                    pending.append(path)
                elif self._is_document(entry.name):
                    self._add_entry(path, entry)
                elif (suffix := _get_type(entry.name)) not in SILENTLY_SKIPPED:
                    self._listing.unread[suffix] += 1

    def _list_entries(self, folder: str) -> Iterator[os.DirEntry[str]]:
        try:
            status = (self._root / folder).stat()
            if (identity := (status.st_dev, status.st_ino)) in self._folders:
                return  # a link that leads back
            self._folders.add(identity)
            with os.scandir(self._root / folder) as entries:
                found = [
                    entry for entry in entries if not entry.name.startswith(".") and entry.name not in SKIPPED_FOLDERS
                ]
        except OSError as error:
            self._listing.left_out[folder] = f"the folder cannot be opened ({error.strerror})"
            return
        yield from found

    def _add_entry(self, path: str, entry: os.DirEntry[str]) -> None:
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            return  # It was removed while the folder was listed, as programs do that save by renaming.
        except OSError as error:
            self._listing.left_out[path] = f"it cannot be opened ({error.strerror})"
        else:
            self._add(path, status)

    def _add(self, path: str, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            self._listing.left_out[path] = "it is not a regular file"
        elif len(self._listing.files) >= self._max_files:
            self._listing.left_out[path] = f"the folder contains more than {self._max_files} documents"
        else:
            self._files.add((status.st_dev, status.st_ino))
            stamp = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
            self._listing.files[path] = FoundFile(path, stamp)

    def _follow(self, link: str) -> None:
        try:
            target = (self._root / link).resolve(strict=True)
            status = target.stat()
        except (OSError, RuntimeError) as error:  # RuntimeError: a circle of links, before Python 3.13
            if self._is_document(link):
                self._listing.left_out[link] = "it is a link that leads nowhere"
            elif not isinstance(error, FileNotFoundError):
                self._listing.left_out[link] = "it is a link that cannot be followed"
            return
        if not target.is_relative_to(self._root):
            if stat.S_ISDIR(status.st_mode) or self._is_document(link):
                self._listing.left_out[link] = "it is a link that leaves the folder"
        elif stat.S_ISDIR(status.st_mode):
            self._walk(link)
        elif self._is_document(link) and (status.st_dev, status.st_ino) not in self._files:
            self._add(link, status)

    def _is_document(self, name: str) -> bool:
        return name.lower().endswith(self._suffixes)
