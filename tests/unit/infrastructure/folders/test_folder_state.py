"""infrastructure/documents/folder_state.py"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from modules.llm_platform.infrastructure.documents.folder import list_folder
from modules.llm_platform.infrastructure.documents.folder_state import STATE_FILE, FolderState, load, save

STRANGE = os.fsdecode(b"\xff.md")


@pytest.fixture
def state() -> FolderState:
    files = {"a.md": (1, 2, 3, 4), STRANGE: (5, 6, 7, 8)}
    return FolderState(files, {"b.pdf": "it is bad"}, {"a.md": "a remark"}, 2, {"a.md": "d1"})


def test_what_was_saved_is_loaded(tmp_path: Path, state: FolderState) -> None:
    """Whatever files are called."""
    save(tmp_path, state)
    assert load(tmp_path) == state
    assert state.known == {"a.md": ((1, 2, 3, 4), "d1")}


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"files": {"a": 1}}', '{"files": 7}', "\x00"])
def test_what_cannot_be_read_was_never_saved(tmp_path: Path, text: str) -> None:
    """The folder is looked through anew then."""
    assert load(tmp_path) is None
    (tmp_path / STATE_FILE).write_text(text)
    assert load(tmp_path) is None


def test_words_hold_while_their_file_does_not_change(tmp_path: Path) -> None:
    """Those about lines of it too; a file that changed, or went, has to be asked anew."""
    for name in ("a.pdf", "b.jsonl", "c.pdf"):
        (tmp_path / name).write_text("x")
    suffixes = (".pdf", ".jsonl")
    before = list_folder(tmp_path, suffixes=suffixes)
    words = {"a.pdf": "1", "b.jsonl:12": "2", "c.pdf": "3", "gone.pdf": "4"}
    state = FolderState({path: file.stamp for path, file in before.files.items()}, words)
    assert state.is_of(before)
    (tmp_path / "c.pdf").write_text("another")
    after = list_folder(tmp_path, suffixes=suffixes)
    assert not state.is_of(after)
    assert state.still_true(words, after) == {"a.pdf": "1", "b.jsonl:12": "2"}
