"""infrastructure/documents/folder.py"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from modules.llm_platform.infrastructure.documents import folder
from modules.llm_platform.infrastructure.documents.folder import list_folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "docs"
    (root / "guide").mkdir(parents=True)
    (root / "a.md").write_text("A")
    (root / "guide" / "B.HTML").write_text("B")
    return root


def test_documents_of_all_levels_are_found(root: Path) -> None:
    """By suffix in any case, under their path with forward slashes; other files are no documents."""
    for other in ("c.py", "d.odt", "Makefile"):
        (root / other).write_text("x")
    listing = list_folder(root)
    assert set(listing.files) == {"a.md", "guide/B.HTML"}
    assert listing.files["guide/B.HTML"].suffix == ".html"
    assert listing.left_out == {}


def test_hidden_and_foreign_folders_are_left_alone(root: Path) -> None:
    """Version control, editors and package managers keep files that users do not mean to search."""
    for name in (".git", "node_modules", "__pycache__", ".hidden"):
        (root / name).mkdir()
        (root / name / "x.md").write_text("x")
    (root / ".draft.md").write_text("x")
    assert set(list_folder(root).files) == {"a.md", "guide/B.HTML"}


def test_a_changed_file_has_another_stamp(root: Path) -> None:
    """The same size in the same second does not hide a change."""
    before = list_folder(root).files["a.md"].stamp
    assert list_folder(root).files["a.md"].stamp == before
    (root / "new").write_text("Z")
    (root / "new").replace(root / "a.md")
    assert list_folder(root).files["a.md"].stamp != before


def test_links_stay_inside(root: Path, tmp_path: Path) -> None:
    """A link out of the folder is not followed, one that leads nowhere is named."""
    (tmp_path / "secret.md").write_text("secret")
    (tmp_path / "outside").mkdir()
    (root / "out.md").symlink_to(tmp_path / "secret.md")
    (root / "outdir").symlink_to(tmp_path / "outside", target_is_directory=True)
    (root / "dead.md").symlink_to(root / "gone.md")
    (root / "dead").symlink_to(root / "gone")
    (root / "self.md").symlink_to(root / "self.md")
    (root / "self").symlink_to(root / "self")
    listing = list_folder(root)
    assert set(listing.files) == {"a.md", "guide/B.HTML"}
    assert set(listing.left_out) == {"out.md", "outdir", "dead.md", "self.md", "self"}
    assert "leaves the folder" in listing.left_out["out.md"]


def test_link_cycles_end_and_no_file_is_found_twice(root: Path) -> None:
    """A link to a parent folder or to a file in the same folder adds no file."""
    (root / "guide" / "up").symlink_to(root, target_is_directory=True)
    (root / "again.md").symlink_to(root / "a.md")
    assert set(list_folder(root).files) == {"a.md", "guide/B.HTML"}


def test_a_link_to_what_is_hidden_inside_is_followed(root: Path) -> None:
    """Mounted volumes keep their files in a hidden folder, and links to them."""
    (root / "..data").mkdir()
    (root / "..data" / "real.md").write_text("x")
    (root / "real.md").symlink_to(Path("..data") / "real.md")
    (root / "..more").mkdir()
    (root / "..more" / "m.txt").write_text("x")
    (root / "more").symlink_to(Path("..more"), target_is_directory=True)
    assert {"real.md", "more/m.txt"} <= set(list_folder(root).files)


def test_only_regular_files_are_opened(root: Path) -> None:
    """A named pipe would keep its reader waiting for ever."""
    os.mkfifo(root / "pipe.txt")
    listing = list_folder(root)
    assert "pipe.txt" not in listing.files
    assert listing.left_out["pipe.txt"] == "it is not a regular file"


def test_a_folder_that_cannot_be_opened_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest is still found."""
    real = os.scandir

    def scandir(path: Path) -> object:
        if path.name == "guide":
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    listing = list_folder(root)
    assert set(listing.files) == {"a.md"}
    assert "Permission denied" in listing.left_out["guide"]


def test_a_file_that_vanishes_while_its_folder_is_listed_is_left_out(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs write a temporary file and rename it. Such a file must not make its folder unreadable."""
    is_document = folder._Walk._is_document

    def remove_meanwhile(walk: folder._Walk, name: str) -> bool:
        if name == "a.md":
            (root / name).unlink()
        return is_document(walk, name)

    monkeypatch.setattr(folder._Walk, "_is_document", remove_meanwhile)
    listing = list_folder(root)
    assert set(listing.files) == {"guide/B.HTML"}
    assert listing.left_out == {}


def test_number_of_files_is_limited(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A very large folder is searched up to the limit, and the answer says so."""
    monkeypatch.setattr(folder, "MAX_FILES", 1)
    listing = list_folder(root)
    assert len(listing.files) == 1
    monkeypatch.setattr(folder, "MAX_FILES", 0)
    assert list_folder(root).files == {}


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    """Nothing there and nothing found are two things."""
    with pytest.raises(OSError, match="nowhere"):
        list_folder(tmp_path / "nowhere")


def test_a_single_file(tmp_path: Path) -> None:
    """The file is listed as if its folder contained nothing else. A file of an unsupported type is counted."""
    for name in ("a.md", "b.md", "c.odt"):
        (tmp_path / name).write_text("x")
    assert set(list_folder(tmp_path / "a.md").files) == {"a.md"}
    assert list_folder(tmp_path / "c.odt").unread_summary == "1 file of a type that is not read: 1 .odt"
