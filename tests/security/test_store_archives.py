"""Hostile archives: a faulty archive is refused completely, and no file of it is left on the disk."""

from __future__ import annotations

import json
import stat
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.store_dtos import Imported
from modules.llm_platform.domain.exceptions import StoreError
from modules.llm_platform.domain.research.store_key import make_topic
from modules.llm_platform.infrastructure.stores.research_runs import archive as archive_module
from modules.llm_platform.infrastructure.stores.research_runs.disk import DiskResearchStore
from modules.llm_platform.infrastructure.stores.research_runs.entry_files import (
    MAX_ENTRY_BYTES,
    EntryHeader,
    EntryLocation,
    seal,
)
from modules.llm_platform.testing import sample_page

TOPIC = make_topic("What do strangers send?")
MADE_AT = 1_790_000_000.0
DAY_S = 86_400
VALUE = sample_page("https://example.org", "text").model_dump_json().encode()
MEMORY_BYTES = 64 * 1024 * 1024


def entry(key: str = "good", value: bytes = VALUE, query: str = TOPIC.query, name: str = TOPIC.name) -> bytes:
    return seal(EntryHeader(EntryLocation("docs", name, key), query, MADE_AT), value)


def path_of(key: str = "good") -> str:
    return f"docs/{TOPIC.name}/{key}.json"


def member(name: str, **changes: Any) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.compress_type = zipfile.ZIP_DEFLATED
    for field, value in changes.items():
        setattr(info, field, value)
    return info


def named(name: str) -> Callable[[zipfile.ZipFile], None]:
    return lambda archive: archive.writestr(member(name), entry())


def holding(data: bytes, name: str = path_of("evil")) -> Callable[[zipfile.ZipFile], None]:
    return lambda archive: archive.writestr(member(name), data)


def of_kind(kind: int) -> Callable[[zipfile.ZipFile], None]:
    return lambda archive: archive.writestr(member(path_of("evil"), external_attr=(kind | 0o777) << 16), b"/etc/passwd")


def twice(archive: zipfile.ZipFile) -> None:
    archive.writestr(member(path_of()), entry())


def packed_with(method: int) -> Callable[[zipfile.ZipFile], None]:
    return lambda archive: archive.writestr(member(path_of("evil"), compress_type=method), entry("evil"))


def deep(depth: int) -> bytes:
    return b'{"text":' + b"[" * depth + b"]" * depth + b"}"


BAD: dict[str, Callable[[zipfile.ZipFile], None]] = {
    # path traversal
    "up": named(f"../{path_of()}"),
    "up inside": named(f"docs/../docs/{TOPIC.name}/x.json"),
    "far up": named("../../../../../../tmp/evil.json"),
    "absolute": named("/etc/cron.d/evil.json"),
    "drive": named("C:/evil.json"),
    "backslashes": named(f"docs\\{TOPIC.name}\\x.json"),
    "backslashes up": named("docs/..\\..\\evil/x.json"),
    "dot": named(f"./{path_of()}"),
    "empty part": named(f"docs//{TOPIC.name}/x.json"),
    "too deep": named(f"docs/{TOPIC.name}/x/y.json"),
    "too shallow": named("docs/x.json"),
    "no stage of ours": named(f"damaged/{TOPIC.name}/x.json"),
    "the list of ignored files": named(".gitignore"),
    "counts": named("asked"),
    "a capital": named(f"Docs/{TOPIC.name}/x.json"),
    "another suffix": named(f"docs/{TOPIC.name}/x.py"),
    "a draft": named(f"docs/{TOPIC.name}/.x.draft"),
    "hidden": named(f"docs/{TOPIC.name}/.json"),
    "NUL": named(f"docs/{TOPIC.name}/x.json\0.py"),
    "a name that is too long": named(f"docs/{'x' * 5000}/x.json"),
    "a stream of NTFS": named(f"docs/{TOPIC.name}/x:evil.json"),
    # not a regular file
    "a link": of_kind(stat.S_IFLNK),
    "a device": of_kind(stat.S_IFCHR),
    "a pipe": of_kind(stat.S_IFIFO),
    "a socket": of_kind(stat.S_IFSOCK),
    "a folder that is a link": lambda archive: archive.writestr(
        member("docs/", external_attr=(stat.S_IFLNK | 0o777) << 16), b""
    ),
    "a folder of others": lambda archive: archive.writestr(member("evil/", external_attr=stat.S_IFDIR << 16), b""),
    "a folder above": lambda archive: archive.writestr(member("docs/../", external_attr=stat.S_IFDIR << 16), b""),
    "a folder with something in it": holding(b"x", "docs/x-0123456789/"),
    "the same name twice": twice,
    "bzip2": packed_with(zipfile.ZIP_BZIP2),
    "lzma": packed_with(zipfile.ZIP_LZMA),
    # not an entry
    "nothing": holding(b""),
    "not JSON": holding(b"not JSON"),
    "someone's JSON": holding(b'{"format":1,"value":{}}'),
    "cut": holding(entry("evil")[:-1]),
    "changed": holding(entry("evil").replace(b"text", b"test", 1)),
    "a value that is no JSON": holding(entry("evil", b"{no}")),
    "a value that is no object": holding(entry("evil", b"[1]")),
    "a value that is two": holding(entry("evil", b"{},{}")),
    "a value that closes too much": holding(entry("evil", b'{}},{"x":{')),
    "a value without end": holding(entry("evil", deep(100_000))),
    "another entry's name": holding(entry("other")),
    "another topic's entry": holding(entry("evil", name="x-0123456789")),
    "another question's topic": holding(entry("evil", query="Another question?")),
    "another version's": holding(b'{"format":2,"value":{}}'),
    "broken text": holding(b'{"format":1,"query":"\xff"'),
    # bombs
    "swells": holding(b" " * 10_000_000),
    "too large": lambda archive: archive.writestr(
        member(path_of("evil"), compress_type=zipfile.ZIP_STORED), b"x" * (MAX_ENTRY_BYTES + 1)
    ),
    "too large, and entry": lambda archive: holding(  # built on use, because every worker collects this table
        entry("evil", json.dumps({"text": "x" * MAX_ENTRY_BYTES}).encode())
    )(archive),
}


@pytest.fixture
def store(tmp_path: Path) -> DiskResearchStore:
    return DiskResearchStore(tmp_path / "data" / "store", 30, lambda: MADE_AT + DAY_S)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return an archive with one valid entry."""
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member(path_of()), entry())
    return path


async def is_refused(store: DiskResearchStore, file: Path) -> None:
    """Check for a StoreError without words of the archive, and for no new files except the mark of an empty store."""
    before = files_below(file.parent)
    with pytest.raises(StoreError) as caught:
        await store.import_(file)
    assert "evil" not in caught.value.message
    assert files_below(file.parent) <= before | {file.parent / "data" / "store" / ".gitignore"}
    assert await store.topics() == ()


def files_below(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()}


async def test_a_valid_archive_is_imported(store: DiskResearchStore, file: Path) -> None:
    """Every faulty archive differs from this valid one in one property.

    Directory members of other programs are accepted.
    """
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr(member("docs/", external_attr=(stat.S_IFDIR | 0o755) << 16), b"")
        archive.writestr(member(f"docs/{TOPIC.name}/"), b"")
    assert await store.import_(file) == Imported(added=1, skipped=0)
    assert await store.get(TOPIC, "docs", "good", Page) == Page.model_validate_json(VALUE)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("kind", BAD)
async def test_one_bad_member_spoils_the_archive(kind: str, store: DiskResearchStore, file: Path) -> None:
    """The valid entry next to it is not imported either."""
    with zipfile.ZipFile(file, "a") as archive:
        BAD[kind](archive)
    await is_refused(store, file)


async def test_an_encrypted_member(store: DiskResearchStore, file: Path) -> None:
    """An encrypted member is refused without a password prompt."""
    data = file.read_bytes()
    local, central = data.index(b"PK\x03\x04"), data.index(b"PK\x01\x02")
    flagged = bytearray(data)
    flagged[local + 6] |= 1
    flagged[central + 8] |= 1
    file.write_bytes(flagged)
    await is_refused(store, file)


async def test_a_wrong_size(store: DiskResearchStore, file: Path) -> None:
    """A member that understates its size is unpacked only to the stated size."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(path_of(), b" " * 50_000_000)
    data = bytearray(file.read_bytes())
    for location in (data.index(b"PK\x03\x04") + 22, data.index(b"PK\x01\x02") + 24):
        data[location : location + 4] = struct.pack("<I", 1000)
    file.write_bytes(data)
    tracemalloc.start()
    try:
        await is_refused(store, file)
        assert tracemalloc.get_traced_memory()[1] < MEMORY_BYTES
    finally:
        tracemalloc.stop()


async def test_members_that_share_their_bytes(store: DiskResearchStore, file: Path) -> None:
    """A thousand directory entries that share one member are refused. Such a bomb has no suspicious ratio."""
    data = file.read_bytes()
    central = data.index(b"PK\x01\x02")
    end = data.index(b"PK\x05\x06")
    lines = b""
    for number in range(1000):
        line = bytearray(data[central:end])
        line[46 : 46 + len(path_of())] = path_of(f"k{number:03}").encode()[: len(path_of())]
        lines += bytes(line)
    tail = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1000, 1000, len(lines), central, 0)
    file.write_bytes(data[:central] + lines + tail)
    await is_refused(store, file)


@pytest.mark.parametrize(
    ("number", "size"), [(0xFFFF, 0xFFFF_FFFF), (0xFFFF, 100), (1, 0x7FFF_FFFF), (60_000, 0x7FFF_FFFF)]
)
async def test_an_oversized_directory(number: int, size: int, store: DiskResearchStore, file: Path) -> None:
    """The size of the directory is checked before the directory is read."""
    data = file.read_bytes()
    end = data.index(b"PK\x05\x06")
    tail = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, number, number, size, 0, 0)
    file.write_bytes(data[:end] + tail)
    await is_refused(store, file)


async def test_zip64_counts(store: DiskResearchStore, file: Path) -> None:
    """ZIP64, which the export never writes, keeps its counts in a second end record."""
    data = file.read_bytes()
    end = data.index(b"PK\x05\x06")
    second = struct.pack("<4sLQL", b"PK\x06\x07", 0, end, 1)
    file.write_bytes(data[:end] + second + data[end:])
    await is_refused(store, file)


@pytest.mark.parametrize(
    ("name", "value"), [("MAX_ENTRIES", 1), ("ARCHIVE_UNPACKED_BYTES", 500), ("ARCHIVE_FILE_BYTES", 500)]
)
async def test_an_archive_has_limits(
    name: str, value: int, store: DiskResearchStore, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of entries, their bytes and the file size are limited, for import and export."""
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr(member(path_of("second")), entry("second"))
    own = DiskResearchStore(file.parent / "own", 30, lambda: MADE_AT)
    await own.import_(file)
    monkeypatch.setattr(archive_module, name, value)
    await is_refused(store, file)
    with pytest.raises(StoreError, match="one by one"):
        await own.export(file.parent / "y.zip")
    assert not (file.parent / "y.zip").exists()


async def test_exported_archive_is_importable(store: DiskResearchStore, tmp_path: Path) -> None:
    """A page that repeats one letter a million times can be exported and imported."""
    page = sample_page("https://example.org", "a" * 1_000_000)
    await store.put(TOPIC, "docs", "good", page)
    await store.export(tmp_path / "x.zip")
    await store.clear()
    assert (await store.import_(tmp_path / "x.zip")).added == 1
    assert await store.get(TOPIC, "docs", "good", Page) == page


@settings(max_examples=300)
@given(data=st.data())
async def test_a_corrupted_archive_is_refused_or_imported_unchanged(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A corrupted archive is refused, or its imported entries are unchanged."""
    folder = tmp_path_factory.mktemp("fuzz")
    file = folder / "x.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(member(path_of()), entry())
    content = bytearray(file.read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    file.write_bytes(content[: data.draw(st.just(len(content)) | st.integers(0, len(content)))])
    store = DiskResearchStore(folder / "store", 30, lambda: MADE_AT)
    try:
        await store.import_(file)
    except StoreError:
        assert await store.topics() == ()
    else:
        for value in await store.values(TOPIC, "docs", Page):
            assert value == Page.model_validate_json(VALUE)
