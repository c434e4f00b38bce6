"""What we keep is its owner's: folders 0700, files 0600, whatever the umask."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes.outcome_store import sample_outcome
from tests.fakes.vector_store_contract import COLLECTION_NAME, fill_store, put_document

from modules.llm_platform.infrastructure.files.private_files import (
    is_absent,
    make_private_folder,
    open_privately,
    restrict_to_owner,
)
from modules.llm_platform.infrastructure.index.qdrant.edge_vector_store import QdrantEdgeVectorStore
from modules.llm_platform.infrastructure.stores.outcomes.sqlite import SqliteOutcomeStore


@pytest.fixture(autouse=True, params=[0o000, 0o022])
def _umask(request: pytest.FixtureRequest) -> Iterator[None]:
    """As generous as it gets, and the usual one."""
    before = os.umask(request.param)
    yield
    os.umask(before)


def rights(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def all_private(folder: Path) -> bool:
    everything = [folder, *folder.rglob("*")]
    return all(rights(path) == (0o700 if path.is_dir() else 0o600) for path in everything)


def test_a_folder_and_those_above_it(tmp_path: Path) -> None:
    """Missing folders are created with private permissions, and existing folders are unchanged, also on repetition."""
    tmp_path.chmod(0o755)
    for _ in range(2):
        make_private_folder(tmp_path / "a" / "b")
        assert all_private(tmp_path / "a")
    assert rights(tmp_path) == 0o755


def test_a_file_in_the_way(tmp_path: Path) -> None:
    """Is not taken for a folder."""
    (tmp_path / "a").touch()
    with pytest.raises(FileExistsError):
        make_private_folder(tmp_path / "a")


def test_a_file(tmp_path: Path) -> None:
    """From its first moment on."""
    with open(tmp_path / "a", "w", opener=open_privately) as file:
        assert rights(tmp_path / "a") == 0o600
        file.write("x")


def test_what_others_made(tmp_path: Path) -> None:
    """Existing files are made private, but not the target of a link."""
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    outside.mkdir(0o755)
    outside.chmod(0o755)
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "file").touch()
    (folder / "link").symlink_to(outside)
    restrict_to_owner(folder)
    (folder / "link").unlink()
    assert all_private(folder)
    assert rights(outside) == 0o755


async def test_the_index(tmp_path: Path) -> None:
    """The collection, its generations and unfinished files are private."""
    data = tmp_path / "data"
    store = QdrantEdgeVectorStore(data / "index")
    await fill_store(store)
    await store.finish(COLLECTION_NAME)
    assert all_private(data)
    await put_document(store, "more", "birds sing at dawn")
    assert rights(data / "index" / COLLECTION_NAME / "work") == 0o700
    await store.finish(COLLECTION_NAME)
    await store.aclose()
    assert all_private(data)


async def test_the_outcomes(tmp_path: Path) -> None:
    """The database and SQLite's additional files are private."""
    data = tmp_path / "data"
    store = SqliteOutcomeStore(data / "outcomes.sqlite3", ttl_days=1)
    await store.put_if_absent([sample_outcome("a", body=b"1")])
    assert len(list(data.iterdir())) > 1
    assert all_private(data)
    await store.aclose()


def test_a_file_that_cannot_be_looked_up_is_not_absent(tmp_path: Path) -> None:
    """An empty answer would hide the reason, which the one who opens the file learns."""
    (tmp_path / "file").touch()
    absent = {name: is_absent(tmp_path / name) for name in ("file", "none", "none/none", "file/none", "x" * 300)}
    assert absent == {"file": False, "none": True, "none/none": True, "file/none": False, "x" * 300: False}
