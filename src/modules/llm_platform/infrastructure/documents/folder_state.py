"""Store which files of a folder are in an index, and why others are missing or were read only in part."""

import json
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from hashlib import sha256
from pathlib import Path
from typing import Final

from modules.llm_platform.infrastructure.documents.folder import Listing, Stamp
from modules.llm_platform.infrastructure.files.file_lock import FileLock
from modules.llm_platform.infrastructure.files.private_files import make_private_folder, open_privately
from modules.llm_platform.infrastructure.parsing.answer import NEEDS_EXTRA
from modules.llm_platform.infrastructure.parsing.decoding import replace_unprintable
from modules.llm_platform.infrastructure.resources import is_installed

log = logging.getLogger(__name__)

STATES_FOLDER: Final = "folders"  # below the folder of the collection, so that both are removed together
PDF: Final = ".pdf"
PARSER_PACKAGES: Final = ("pypdf", "resiliparse")  # of the extra that NEEDS_EXTRA names
WITH_PAGES: Final = "+blocks"  # ends the digest of a PDF whose passages have page numbers, and headings of their own
DIGEST_CHARS: Final = 24  # digest of what an index or a state depends on

# Keyed by path below a folder: the file's stamp, and the digest of its content then.
Known = Mapping[str, tuple[Stamp, str]]


def make_key(parts: Iterable[str]) -> str:
    """Return a short name that depends on all `parts`, so that another folder or embedder has another key."""
    return sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:DIGEST_CHARS]


def get_pages_mark(path: str) -> str:
    """Return the suffix that marks a file's digest with the format of this version. A PDF in another format is read
    again."""
    return WITH_PAGES if path.lower().endswith(PDF) else ""


def has_pages(path: str, digest: str) -> bool:
    """Return whether a file was read in the format of this version. A PDF that an older version indexed is read again."""
    return digest.endswith(get_pages_mark(path))


@dataclass(frozen=True, slots=True)
class FolderView:
    """The documents of a folder that can be searched now.

    - `documents` is their number.
    - `bad` has the reason for each file that cannot be read.
    - `notes` has a note for each file that was read in part.
    - `unread` is a text about files whose types are not read, or empty.
    - `pending` is True while vectors are missing. Until then, only keywords are searched.
    """

    documents: int
    bad: Mapping[str, str]
    notes: Mapping[str, str]
    unread: str = ""
    pending: bool = False


@dataclass(frozen=True, slots=True)
class FolderState:
    """The state of a folder in an index.

    - `files` has the stamps of files, and `digests` the digests of their contents, both by path.
    - `bad` and `notes` have texts by position (`a.pdf`, or `b.jsonl:12`).
    - `pending` is True while some documents are found by keywords only, because their vectors are missing.
    - `is_pruned` is True if the index has no other documents of the folder. `documents` is then their number.
    """

    files: Mapping[str, Stamp] = field(default_factory=dict)
    bad: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    documents: int = 0
    digests: Mapping[str, str] = field(default_factory=dict)
    pending: bool = False
    is_pruned: bool = True

    def matches(self, listing: Listing) -> bool:
        """Return whether the index holds exactly what the folder holds now, in the form of this version."""
        if not all(map(has_pages, self.digests, self.digests.values())):
            return False
        if NEEDS_EXTRA in self.bad.values() and is_installed(PARSER_PACKAGES):
            return False
        return self.is_pruned and self.files == {path: file.stamp for path, file in listing.files.items()}

    def is_unchanged(self, path: str, listing: Listing) -> bool:
        return path in listing.files and self.files.get(path) == listing.files[path].stamp

    @property
    def known(self) -> Known:
        """The digests of files that need not be opened while their stamps stay."""
        return {path: (self.files[path], digest) for path, digest in self.digests.items() if path in self.files}

    def select_valid(self, messages: Mapping[str, str], listing: Listing) -> dict[str, str]:
        """Return the messages about files that have not changed since, without those about packages that are there now."""
        outdated = NEEDS_EXTRA if is_installed(PARSER_PACKAGES) else None
        unchanged = {replace_unprintable(Path(path)) for path in listing.files if self.is_unchanged(path, listing)}
        return {
            position: message
            for position, message in messages.items()
            if message != outdated and not unchanged.isdisjoint((position, position.rpartition(":")[0]))
        }


class FolderStates:
    """The states of the folders in one collection, with a file for each. All methods block.

    `made_by` names everything else that a state depends on. A state with another name counts as unknown.
    """

    def __init__(self, collection_folder: Path, made_by: str = "") -> None:
        self._folder = collection_folder / STATES_FOLDER
        self._made_by = made_by

    def stamp(self, origin: str) -> tuple[int, int] | None:
        """Return a value that changes with each `save`, or None if nothing was saved."""
        with suppress(OSError):
            status = self._get_path(origin).stat()
            return status.st_ino, status.st_mtime_ns
        return None

    def load(self, origin: str) -> FolderState | None:
        """Return the saved state, or None if there is none that can be read."""
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            stored = json.loads(self._get_path(origin).read_bytes())
            if stored["made_by"] != self._made_by:
                return None
            files = {
                str(path): (size, modified, changed, inode)
                for path, (size, modified, changed, inode) in stored["files"].items()
            }
            digests = {str(path): str(digest) for path, digest in stored["digests"].items()}
            return FolderState(
                files,
                dict(stored["bad"]),
                dict(stored["notes"]),
                int(stored["documents"]),
                digests,
                bool(stored["pending"]),
                bool(stored["is_pruned"]),
            )
        return None

    def save(self, origin: str, state: FolderState) -> None:
        """Replace what `load` returns, atomically. A failure is logged: then the folder is compared again the next time."""
        path = self._get_path(origin)
        new = path.with_suffix(".new")
        try:
            make_private_folder(self._folder)
            stored = {field.name: getattr(state, field.name) for field in fields(state)} | {"made_by": self._made_by}
            with open(new, "w", encoding="ascii", opener=open_privately) as file:
                json.dump(stored, file, separators=(",", ":"))
            new.replace(path)
        except OSError as error:
            log.warning("folder state not saved", extra={"error": type(error).__name__})

    def remove(self, origin: str) -> None:
        """Remove the state: `load` returns None from then on. Raises OSError if the file cannot be removed."""
        self._get_path(origin).unlink(missing_ok=True)

    def lock(self, origin: str) -> FileLock:
        """Return the lock of the process that updates this folder's documents."""
        return FileLock(self._folder / f"{origin}.lock")

    def _get_path(self, origin: str) -> Path:
        return self._folder / f"{origin}.json"
