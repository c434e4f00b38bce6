"""The disk store and what can happen to a disk: damage, unknown files, no space, no permissions."""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel

from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.store_dtos import Topic
from modules.llm_platform.domain.exceptions import StoreError
from modules.llm_platform.domain.research.store_key import make_topic
from modules.llm_platform.infrastructure.files.private_files import MIN_FREE_BYTES
from modules.llm_platform.infrastructure.stores.research_runs import entry_files as files_module
from modules.llm_platform.infrastructure.stores.research_runs.disk import (
    THREAD_BYTES,
    DiskResearchStore,
    StoreFolderProbe,
)
from modules.llm_platform.infrastructure.stores.research_runs.entry_files import ENTRY_HEAD_BYTES, MAX_ENTRY_BYTES
from modules.llm_platform.testing import sample_page

TOPIC = make_topic("How are stores damaged?")
PAGE = sample_page("https://example.org", "text " * 100)
HOUR_S = 3600


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "data" / "store"


@pytest.fixture
def store(root: Path) -> DiskResearchStore:
    return DiskResearchStore(root, 30)


def file_of(root: Path, key: str = "a", stage: str = "docs") -> Path:
    return root / stage / TOPIC.name / f"{key}.json"


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def copied_elsewhere(path: Path) -> None:
    """Return the intact file of another entry under this name."""
    other = path.with_name("other.json")
    path.write_bytes(other.read_bytes())


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "truncated": lambda path: os.truncate(path, 200),
    "one byte short": lambda path: os.truncate(path, path.stat().st_size - 1),
    "bit-flipped": flipped,
    "empty": lambda path: os.truncate(path, 0),
    "zeros after a power cut": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "foreign": lambda path: path.write_text('{"my": "notes"}'),
    "foreign bytes": lambda path: path.write_bytes(b"\xff\xfe\x00"),
    "of another key": copied_elsewhere,
    "a link": lambda path: (path.unlink(), path.symlink_to("/etc/hostname")),
    "a dead link": lambda path: (path.unlink(), path.symlink_to("nowhere")),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "endless": lambda path: os.truncate(path, MAX_ENTRY_BYTES * 1000),
}


@pytest.mark.parametrize("kind", DAMAGES)
async def test_a_damaged_entry_is_set_aside_and_done_again(
    kind: str, store: DiskResearchStore, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It does not serve and hangs nothing; it is moved to where it can be looked at; the next put serves again."""
    await store.put(TOPIC, "docs", "other", PAGE)
    await store.put(TOPIC, "docs", "a", PAGE)
    DAMAGES[kind](file_of(root))
    with caplog.at_level(logging.WARNING):
        assert await store.get(TOPIC, "docs", "a", Page) is None
    assert [record.getMessage() for record in caplog.records] == ["a damaged entry of the store was set aside"]
    assert [path.name[:7] for path in (root / "damaged").iterdir()] == ["docs-a-"]
    assert not os.path.lexists(file_of(root))
    assert (await store.stats()).damaged == 1
    await store.put(TOPIC, "docs", "a", PAGE)
    assert await store.get(TOPIC, "docs", "a", Page) == PAGE
    assert await store.values(TOPIC, "docs", Page) == (PAGE, PAGE)


@pytest.mark.parametrize("kind", DAMAGES)
async def test_lists_work_with_damaged_entries(kind: str, store: DiskResearchStore, root: Path) -> None:
    """Lists, counts, archives and cleaning skip damaged entries, or count their size. None of them fails."""
    await store.put(TOPIC, "docs", "other", PAGE)
    await store.put(TOPIC, "docs", "a", PAGE)
    DAMAGES[kind](file_of(root))
    assert "other" in [entry.key for entry in await store.entries(TOPIC.name)]
    assert (await store.topics())[0].name == TOPIC.name
    assert await store.clean() == 0
    assert await store.export(root.parent / "x.zip") == 1
    assert await store.clear() >= 1


@pytest.mark.parametrize("kind", DAMAGES)
async def test_damage_can_be_cleared(kind: str, store: DiskResearchStore, root: Path) -> None:
    """Anything at the path of an entry can be cleared, and does not affect other entries."""
    await store.put(TOPIC, "docs", "other", PAGE)
    await store.put(TOPIC, "docs", "a", PAGE)
    DAMAGES[kind](file_of(root))
    assert await store.clear() == (1 if kind == "a folder" else 2)
    assert await store.topics() == ()


async def test_another_versions_entry_is_left_alone(store: DiskResearchStore, root: Path) -> None:
    """It does not serve this version, and is not damaged."""
    await store.put(TOPIC, "docs", "a", PAGE)
    file_of(root).write_text('{"format":2,"better":true}')
    assert await store.get(TOPIC, "docs", "a", Page) is None
    assert await store.export(root.parent / "x.zip") == 0
    assert file_of(root).read_text() == '{"format":2,"better":true}'
    assert (await store.stats()).damaged == 0


async def test_unknown_files_in_the_folder_are_not_touched(store: DiskResearchStore, root: Path) -> None:
    """Unknown files and folders are neither listed nor removed, and links are not followed."""
    outside = root.parent / "outside"
    (outside / "deep").mkdir(parents=True)
    (outside / "deep" / "a.json").write_text("mine")
    await store.put(TOPIC, "docs", "a", PAGE)
    (root / "docs" / "link-0123456789").symlink_to(outside / "deep")
    (root / "docs" / "notes.txt").write_text("mine")
    (file_of(root).parent / "UPPER.json").write_text("mine")
    (file_of(root).parent / "notes.txt").write_text("mine")
    (root / "docs" / "two words").mkdir()
    assert [topic.name for topic in await store.topics()] == [TOPIC.name]
    assert await store.clear() == 1
    assert (outside / "deep" / "a.json").read_text() == "mine"
    assert (root / "docs" / "notes.txt").exists()
    assert (file_of(root).parent / "notes.txt").exists()


async def test_the_folder_is_ignored_by_git(store: DiskResearchStore, root: Path) -> None:
    """The folder may be in a repository. Its parents are not changed, and only its owner can read it."""
    assert not root.parent.exists()
    await store.put(TOPIC, "docs", "a", PAGE)
    assert (root / ".gitignore").read_text() == "*\n"
    assert [path.name for path in root.parent.iterdir()] == ["store"]
    assert root.stat().st_mode & 0o077 == 0
    assert file_of(root).stat().st_mode & 0o077 == 0
    (root / ".gitignore").write_text("mine")
    await store.put(make_topic("another one"), "docs", "a", PAGE)
    assert (root / ".gitignore").read_text() == "mine"


async def test_the_layout(store: DiskResearchStore, root: Path) -> None:
    """`<stage>/<topic>/<key>.json`, which any tool can read."""
    await store.put(TOPIC, "docs", "a", PAGE)
    told = json.loads(file_of(root).read_text())
    assert told["value"]["text"] == PAGE.text
    assert (told["format"], told["query"]) == (1, TOPIC.query)
    assert sorted(path.name for path in root.iterdir()) == [".gitignore", "docs"]


@pytest.mark.parametrize("name", ["../../escaped", "/tmp/escaped", "", ".", "a/b", "x" * 300])
async def test_path_traversal_is_refused(name: str, store: DiskResearchStore, root: Path) -> None:
    """An entry with an invalid topic or key is not stored, whatever the source of the name."""
    tricky = Topic(name=name, query="q")
    await store.put(tricky, "docs", "a", PAGE)
    await store.put(TOPIC, "docs", name, PAGE)
    assert await store.get(tricky, "docs", "a", Page) is None
    assert await store.get(TOPIC, "docs", name, Page) is None
    assert await store.values(tricky, "docs", Page) == ()
    assert list(root.parent.parent.rglob("*.json")) == []


class Text(BaseModel):
    text: str


async def test_what_cannot_be_kept_is_told(
    store: DiskResearchStore, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A value without JSON, one that is too large, a question that is too long: a warning, and no file."""
    await store.put(TOPIC, "docs", "a", Text(text="\ud800"))
    await store.put(TOPIC, "docs", "a", Text(text="x" * MAX_ENTRY_BYTES))
    await store.put(make_topic("long " * ENTRY_HEAD_BYTES), "docs", "a", PAGE)
    assert [record.getMessage() for record in caplog.records] == ["an entry could not be stored"] * 3
    assert list(root.parent.parent.rglob("*.json")) == []
    assert await store.get(TOPIC, "docs", "a", Text) is None


@pytest.mark.parametrize("text", ["small", "large " * THREAD_BYTES])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
async def test_a_full_disk(
    number: int, text: str, store: DiskResearchStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was there stays, nothing is left over, and the error says why."""
    await store.put(TOPIC, "docs", "a", PAGE)
    write = os.write

    def full(file: int, data: Any) -> int:
        if len(data) > 20:
            return write(file, bytes(data[:20]))  # a disk fills in the middle of a file
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(files_module.os, "write", full)
        with pytest.raises(StoreError, match=rf"{os.strerror(number)}.*LLM_PLATFORM_DATA_DIR"):
            await store.put(TOPIC, "docs", "a", sample_page("https://example.org", text))
    assert await store.get(TOPIC, "docs", "a", Page) == PAGE
    assert [path.name for path in file_of(root).parent.iterdir()] == ["a.json"]


@pytest.fixture
def read_only(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From then on nothing can be written, as on a medium that is mounted read-only."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    def turn() -> None:
        opened = os.open

        def open_to_read(path: Any, flags: int, *mode: int) -> int:
            return refuse() if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) else opened(path, flags, *mode)

        monkeypatch.setattr(os, "open", open_to_read)
        for name in ("mkdir", "makedirs", "replace", "unlink", "rename"):
            monkeypatch.setattr(os, name, refuse)

    return turn


async def test_a_read_only_folder(store: DiskResearchStore, root: Path, read_only: Callable[[], None]) -> None:
    """A read-only folder serves its entries, stores and sets aside nothing, and refuses changes."""
    await store.put(TOPIC, "docs", "a", PAGE)
    await store.put(TOPIC, "docs", "broken", PAGE)
    file_of(root, "broken").write_text("broken")
    read_only()
    with pytest.raises(StoreError, match=os.strerror(errno.EROFS)):
        await store.put(TOPIC, "docs", "b", PAGE)
    assert await store.get(TOPIC, "docs", "a", Page) == PAGE
    assert await store.get(TOPIC, "docs", "broken", Page) is None
    assert await store.get(TOPIC, "docs", "b", Page) is None
    assert (await store.topics())[0].entries == 1
    with pytest.raises(StoreError, match=os.strerror(errno.EROFS)):
        await store.clear()


@pytest.mark.parametrize("below", ["", "store"])
async def test_a_file_in_place_of_the_folder(below: str, tmp_path: Path) -> None:
    """Reading finds nothing. A write or a list is an error instead of an empty result."""
    (tmp_path / "file").write_text("mine")
    store = DiskResearchStore(tmp_path / "file" / below, 30)
    assert await store.get(TOPIC, "docs", "a", Page) is None
    assert await store.values(TOPIC, "docs", Page) == ()
    writing = store.put(TOPIC, "docs", "a", PAGE)
    for asking in (writing, store.topics(), store.stats(), store.clear(), store.clean(), store.entries(TOPIC.name)):
        with pytest.raises(StoreError, match="LLM_PLATFORM_DATA_DIR"):
            await asking
    assert (tmp_path / "file").read_text() == "mine"


async def test_cleaning_sweeps_what_killed_processes_left(store: DiskResearchStore, root: Path) -> None:
    """Old drafts, old damaged files and empty folders go; a draft that is being written stays."""
    await store.put(TOPIC, "docs", "a", PAGE)
    await store.put(make_topic("gone"), "docs", "a", PAGE)
    young, old = (file_of(root).parent / f".{name}.draft" for name in ("young", "old"))
    (root / "damaged").mkdir()
    for path in (young, old, root / "damaged" / "docs-new.json", root / "damaged" / "docs-old.json"):
        path.write_text("half")
    (root / "summaries" / "empty-0123456789").mkdir(parents=True)
    os.utime(old, (time.time() - 2 * HOUR_S,) * 2)
    os.utime(root / "damaged" / "docs-old.json", (time.time() - 31 * 24 * HOUR_S,) * 2)
    assert await store.clean() == 0
    assert (young.exists(), old.exists()) == (True, False)
    assert [path.name for path in (root / "damaged").iterdir()] == ["docs-new.json"]
    assert not (root / "summaries" / "empty-0123456789").exists()
    assert await store.clear() == 2
    assert [path.name for path in (root / "docs").iterdir()] == [TOPIC.name], "a draft is still in it"


async def test_a_folder_cleaned_away_while_it_is_written_to(
    store: DiskResearchStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may remove an empty folder just when this one has made it: it is made again."""
    made, removed = os.mkdir, []

    def make_and_lose(path: Any, *rest: Any, **named: Any) -> None:
        made(path, *rest, **named)
        if str(path).endswith(TOPIC.name) and len(removed) < 3:
            removed.append(path)
            Path(path).rmdir()

    monkeypatch.setattr(os, "mkdir", make_and_lose)
    await store.put(TOPIC, "docs", "a", PAGE)
    assert await store.get(TOPIC, "docs", "a", Page) == PAGE
    assert len(removed) == 3


async def test_a_clock_that_was_wrong(tmp_path: Path) -> None:
    """What a machine from the future exported is of the hour of its import, and grows old like the rest."""
    future = DiskResearchStore(tmp_path / "future", 30, lambda: time.time() + 365 * 24 * HOUR_S)
    now = time.time()
    here = DiskResearchStore(tmp_path / "here", 30, lambda: now)
    await future.put(TOPIC, "docs", "a", PAGE)
    await future.export(tmp_path / "x.zip")
    assert (await here.import_(tmp_path / "x.zip")).added == 1
    assert (await here.topics())[0].newest.timestamp() == pytest.approx(now)


async def test_no_file_stays_open(store: DiskResearchStore, root: Path) -> None:
    """However an entry ends, its file is closed."""
    await store.put(TOPIC, "docs", "a", PAGE)
    before = lowest_free()
    for kind in ("truncated", "a folder", "a pipe", "a link"):
        await store.put(TOPIC, "docs", "a", PAGE)
        DAMAGES[kind](file_of(root))
        await store.get(TOPIC, "docs", "a", Page)
    await store.export(root.parent / "x.zip")
    await store.import_(root.parent / "x.zip")
    assert lowest_free() == before


def lowest_free() -> int:
    """Return the number that the next file will have: it grows with the files that are open."""
    with Path(os.devnull).open() as file:
        return file.fileno()


@pytest.mark.parametrize("free", [MIN_FREE_BYTES, MIN_FREE_BYTES - 1])
async def test_health_sees_a_full_disk(
    free: int, store: DiskResearchStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a write, also before the folder exists; while there is room, health has nothing to say."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    if free == MIN_FREE_BYTES:
        assert await store.ping() == ""
    else:
        with pytest.raises(StoreError, match=r"its disk is full.*LLM_PLATFORM_DATA_DIR"):
            await store.ping()
    assert not root.exists()


class TestProbe:
    """The check of the doctor."""

    async def test_a_folder_that_can_be_written(self, tmp_path: Path) -> None:
        """It is made, named with its free space, and left empty."""
        text = await StoreFolderProbe(tmp_path / "data" / "store").ping()
        assert text.startswith(f"files in {tmp_path / 'data' / 'store'}, ")
        assert list((tmp_path / "data" / "store").iterdir()) == []

    async def test_a_folder_that_cannot(self, tmp_path: Path) -> None:
        """The error names the folder and the setting."""
        (tmp_path / "data").write_text("a file")
        with pytest.raises(StoreError, match=r"data/store cannot be written .*LLM_PLATFORM_DATA_DIR"):
            await StoreFolderProbe(tmp_path / "data" / "store").ping()
