"""What of a folder is in its index: which files, as they were, and a word about each that is not, or not as it should be."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from modules.llm_platform.infrastructure.documents.file_source import Known
from modules.llm_platform.infrastructure.documents.folder import Listing, Stamp
from modules.llm_platform.infrastructure.documents.json_lines import shown

log = logging.getLogger(__name__)

STATE_FILE: Final = "state.json"


@dataclass(frozen=True, slots=True)
class FolderView:
    """What can be searched now: how many documents, a word about each bad file, one about each that was read in part, and
    one about the types that are not read.
    """

    documents: int
    bad: Mapping[str, str]
    notes: Mapping[str, str]
    unread: str = ""  # files of types that are not read
    pending: bool = False  # vectors are: words alone find


@dataclass(frozen=True, slots=True)
class FolderState:
    """`files` by path; `bad` and `notes` by place (`a.pdf`, or `b.jsonl:12`): what is left out, and what was read in part or
    by guess. `documents` can be searched. `digests` of the files' content by path, as the files were then.
    `pending`: some of them are found by words alone until their vectors are made.
    """

    files: Mapping[str, Stamp] = field(default_factory=dict)
    bad: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    documents: int = 0
    digests: Mapping[str, str] = field(default_factory=dict)
    pending: bool = False

    def is_of(self, listing: Listing) -> bool:
        """Whether the folder still holds these files, unchanged."""
        return self.files == {path: file.stamp for path, file in listing.files.items()}

    def is_same(self, path: str, listing: Listing) -> bool:
        """Whether this file has not changed since."""
        return path in listing.files and self.files.get(path) == listing.files[path].stamp

    @property
    def known(self) -> Known:
        """What spares opening the files that have not changed."""
        return {path: (self.files[path], digest) for path, digest in self.digests.items() if path in self.files}

    def still_true(self, words: Mapping[str, str], listing: Listing) -> dict[str, str]:
        """The words about files that have not changed since."""
        same = {shown(Path(path)) for path, file in listing.files.items() if self.files.get(path) == file.stamp}
        return {place: word for place, word in words.items() if not same.isdisjoint((place, place.rpartition(":")[0]))}


def load(folder: Path) -> FolderState | None:
    """What was saved there; None where nothing was, or nothing that can be read."""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        told = json.loads((folder / STATE_FILE).read_bytes())
        files = {str(path): _stamp(stamp) for path, stamp in told["files"].items()}
        digests = {str(path): str(digest) for path, digest in told["digests"].items()}
        bad, notes = dict(told["bad"]), dict(told["notes"])
        return FolderState(files, bad, notes, int(told["documents"]), digests, bool(told["pending"]))
    return None


def save(folder: Path, state: FolderState) -> None:
    """From now on this is what `load` gives, whole. Where that cannot be, what was there stays, and the next process looks
    through the folder anew. For the writer alone.
    """
    told = {
        "files": state.files, "bad": state.bad, "notes": state.notes, "documents": state.documents,
        "digests": state.digests, "pending": state.pending,
    }  # fmt: skip
    new = folder / f"{STATE_FILE}.new"
    try:
        new.write_text(json.dumps(told, separators=(",", ":")), "ascii")
        new.replace(folder / STATE_FILE)
    except OSError as error:
        log.warning("folder state not saved", extra={"error": type(error).__name__})


def forget(folder: Path) -> None:
    """From now on `load` gives None. For the writer alone. OSError where it cannot be removed."""
    (folder / STATE_FILE).unlink(missing_ok=True)


def _stamp(values: list[int]) -> Stamp:
    size, modified, changed, inode = values
    return size, modified, changed, inode
