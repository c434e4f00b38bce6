"""infrastructure/documents/folder_state.py"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from modules.llm_platform.infrastructure.documents import folder_state
from modules.llm_platform.infrastructure.documents.folder import list_folder
from modules.llm_platform.infrastructure.documents.folder_state import STATES_FOLDER, FolderState, FolderStates
from modules.llm_platform.infrastructure.parsing.answer import NEEDS_EXTRA

STRANGE = os.fsdecode(b"\xff.md")


@pytest.fixture
def state() -> FolderState:
    files = {"a.md": (1, 2, 3, 4), STRANGE: (5, 6, 7, 8)}
    return FolderState(files, {"b.pdf": "it is bad"}, {"a.md": "a remark"}, 2, {"a.md": "d1"})


def test_saved_state_is_loaded(tmp_path: Path, state: FolderState) -> None:
    """Whatever files are called; by another version or for other addresses it is unknown."""
    states = FolderStates(tmp_path, "1.0")
    assert states.stamp("origin") is None
    states.save("origin", state)
    assert states.load("origin") == state
    assert FolderStates(tmp_path, "1.1").load("origin") is None
    assert FolderStates(tmp_path, "1.1").stamp("origin") is not None
    states.remove("origin")
    assert states.load("origin") is None
    assert state.known == {"a.md": ((1, 2, 3, 4), "d1")}


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"files": {"a": 1}}', '{"files": 7}', "\x00"])
def test_unreadable_state_counts_as_unknown(tmp_path: Path, text: str) -> None:
    """The folder is compared with the index again then."""
    states = FolderStates(tmp_path)
    assert states.load("origin") is None
    (tmp_path / STATES_FOLDER).mkdir()
    (tmp_path / STATES_FOLDER / "origin.json").write_text(text)
    assert states.load("origin") is None


def test_messages_are_valid_while_their_file_is_unchanged(tmp_path: Path) -> None:
    """Those about its lines too; a file that changed or was removed has none."""
    for name in ("a.pdf", "b.jsonl", "c.pdf"):
        (tmp_path / name).write_text("x")
    suffixes = (".pdf", ".jsonl")
    before = list_folder(tmp_path, suffixes=suffixes)
    words = {"a.pdf": "1", "b.jsonl:12": "2", "c.pdf": "3", "gone.pdf": "4"}
    state = FolderState({path: file.stamp for path, file in before.files.items()}, words)
    assert state.matches(before)
    assert not replace(state, is_pruned=False).matches(before)
    (tmp_path / "c.pdf").write_text("another")
    after = list_folder(tmp_path, suffixes=suffixes)
    assert not state.matches(after)
    assert state.select_valid(words, after) == {"a.pdf": "1", "b.jsonl:12": "2"}


def test_a_file_that_needed_a_package_is_read_once_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message says what to install. The file itself does not change by it."""
    (tmp_path / "a.pdf").write_text("x")
    listing = list_folder(tmp_path)
    state = FolderState({"a.pdf": listing.files["a.pdf"].stamp}, {"a.pdf": NEEDS_EXTRA})
    monkeypatch.setattr(folder_state, "is_installed", lambda packages: False)
    assert state.matches(listing)
    assert state.select_valid(state.bad, listing) == {"a.pdf": NEEDS_EXTRA}
    monkeypatch.setattr(folder_state, "is_installed", lambda packages: True)
    assert not state.matches(listing)
    assert state.select_valid(state.bad, listing) == {}
