"""The outcome database: shared between workers, private, and with clear errors."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fakes.outcome_store import sample_outcome
from tests.support.small_disk import in_a_mount_namespace

from modules.llm_platform.domain.exceptions import OutcomeStoreError
from modules.llm_platform.infrastructure.stores.outcomes.sqlite import (
    CLEANUP_BATCH_SIZE,
    FORMAT,
    OutcomeTable,
    SqliteOutcomeStore,
)

Opener = Callable[[], SqliteOutcomeStore]
DAYS = 7
SRC = Path(__file__).resolve().parents[5] / "src"
SURROGATE = "\ud800"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "store" / "outcomes.sqlite3"


@pytest.fixture
async def opened(file: Path) -> AsyncIterator[Opener]:
    stores: list[SqliteOutcomeStore] = []

    def another() -> SqliteOutcomeStore:
        stores.append(SqliteOutcomeStore(file, DAYS))
        return stores[-1]

    yield another
    for store in stores:
        await store.aclose()


async def test_workers_of_a_machine_share_it(opened: Opener) -> None:
    """One worker finds what another has stored. Of two outcomes for a request, both workers get the first one."""
    here, there = opened(), opened()
    first, second = (sample_outcome("a", body=body) for body in (b"1", b"2"))
    assert await here.put_if_absent([first]) == [first]
    assert await there.get("search", "a") == first
    assert await there.put_if_absent([second]) == [first]


async def test_concurrent_workers_agree(opened: Opener) -> None:
    """Two workers that compute the same requests concurrently return the same outcomes."""
    here, there = opened(), opened()
    mine = [sample_outcome(f"{number}", body=b"here") for number in range(300)]
    yours = [sample_outcome(f"{number}", body=b"there") for number in range(300)]
    told = await asyncio.gather(
        *(here.put_if_absent([outcome]) for outcome in mine),
        *(there.put_if_absent([outcome]) for outcome in yours),
    )
    assert told[:300] == told[300:]


async def test_a_second_start_finds_what_was_kept(opened: Opener) -> None:
    """Closing and opening loses nothing."""
    store = opened()
    outcome = sample_outcome("a", body=b"\x00\xff")
    await store.put_if_absent([outcome])
    await store.aclose()
    assert await opened().get("search", "a") == outcome


async def test_others_cannot_read_it(opened: Opener, file: Path) -> None:
    """Outcomes contain users' questions, so the folder and the file are private."""
    await opened().put_if_absent([sample_outcome("a", body=b"1")])
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_an_odd_id_does_not_affect_others(opened: Opener) -> None:
    """An id with a lone surrogate is stored like any other, and so are the other ids of the batch."""
    store = opened()
    odd, plain = sample_outcome(SURROGATE, body=b"1"), sample_outcome("plain", body=b"2")
    assert await asyncio.gather(store.put_if_absent([odd]), store.put_if_absent([plain])) == [[odd], [plain]]
    assert await store.get("search", SURROGATE) == odd


async def test_what_is_kept_and_asked_in_one_round_is_found(opened: Opener) -> None:
    """A question that goes along with the keeping gets the answer."""
    store = opened()
    outcome = sample_outcome("a", body=b"1")
    kept, found = await asyncio.gather(store.put_if_absent([outcome]), store.get("search", "a"))
    assert (kept, found) == ([outcome], outcome)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None)
@given(rows=st.lists(st.tuples(st.sampled_from(["search", "answer"]), st.integers(0, 150)), max_size=300))
def test_first_of_each_request(tmp_path: Path, rows: list[tuple[str, int]]) -> None:
    """In one call, in any order, each request gets the first outcome of its stage and id."""
    table = OutcomeTable(tmp_path / "first.sqlite3", lambda: 0.0)
    table.clean(1.0, 1.0)
    outcomes = [
        sample_outcome(f"{number}", body=b"%d" % position, stage="search" if stage == "search" else "answer")
        for position, (stage, number) in enumerate(rows)
    ]
    first: dict[tuple[str, str], object] = {}
    for outcome in outcomes:
        first.setdefault((outcome.stage, outcome.request_id), outcome)
    expected = [first[outcome.stage, outcome.request_id] for outcome in outcomes]
    try:
        assert table.insert_all(outcomes) == expected
        assert table.get_all([(outcome.stage, outcome.request_id, outcome.tenant) for outcome in outcomes]) == expected
        while table.clean(1.0, 1.0):
            pass
        assert table.get_all([(outcome.stage, outcome.request_id, outcome.tenant) for outcome in outcomes]) == [
            None
        ] * len(outcomes)
    finally:
        table.close()


async def test_cleaning_goes_to_the_end(opened: Opener, file: Path) -> None:
    """However many are old, one call removes them all."""
    now = [0.0]
    store = SqliteOutcomeStore(file, DAYS, clock=lambda: now[0], monotonic=lambda: now[0])
    many = 2 * CLEANUP_BATCH_SIZE + 7
    await store.put_if_absent([sample_outcome(f"{number}", body=b"x") for number in range(many)])
    now[0] = (DAYS + 1) * 86_400
    assert await store.clean() == many
    assert await store.clean() == 0
    await store.aclose()


async def test_a_damaged_file_is_an_error(opened: Opener, file: Path) -> None:
    """The error says that the file is no database, with the remedy. Without the file the same store works."""
    file.parent.mkdir()
    file.write_bytes(b"not a database, but long enough to look at" * 100)
    store = opened()
    with pytest.raises(OutcomeStoreError, match="damaged: move it away"):
        await store.put_if_absent([sample_outcome("a", body=b"1")])
    with pytest.raises(OutcomeStoreError, match="damaged"):
        await store.get("search", "a")
    file.unlink()
    outcome = sample_outcome("a", body=b"1")
    assert await store.put_if_absent([outcome]) == [outcome]


async def test_a_newer_format_is_not_touched(opened: Opener, file: Path) -> None:
    """A file of a newer version is neither read nor changed."""
    await opened().put_if_absent([sample_outcome("a", body=b"1")])
    with sqlite3.connect(file) as connection:
        connection.execute(f"PRAGMA user_version = {FORMAT + 1}")
    connection.close()
    with pytest.raises(OutcomeStoreError, match="newer version"):
        await opened().get("search", "a")


async def test_a_folder_that_cannot_be_used_is_an_error(tmp_path: Path) -> None:
    """A file where the folder belongs: an error that names the setting and no path."""
    (tmp_path / "blocked").write_text("")
    store = SqliteOutcomeStore(tmp_path / "blocked" / "outcomes.sqlite3", DAYS)
    with pytest.raises(OutcomeStoreError, match="LLM_PLATFORM_DATA_DIR") as caught:
        await store.clean()
    assert str(tmp_path) not in caught.value.message
    await store.aclose()


async def test_one_failing_round_is_not_the_last(opened: Opener, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an error the next call looks anew."""
    store = opened()
    outcome = sample_outcome("a", body=b"1")
    with monkeypatch.context() as broken:
        broken.setattr(OutcomeTable, "_get_connection", _cannot_open)
        with pytest.raises(OutcomeStoreError, match="disk I/O error"):
            await store.put_if_absent([outcome])
    assert await store.put_if_absent([outcome]) == [outcome]


def _cannot_open(self: OutcomeTable) -> sqlite3.Connection:
    raise sqlite3.OperationalError("disk I/O error")


FULL_DISK = """
import asyncio, pathlib, sys
from modules.llm_platform.domain.exceptions import OutcomeStoreError
from modules.llm_platform.infrastructure.stores.outcomes.sqlite import SqliteOutcomeStore

async def main():
    store = SqliteOutcomeStore(pathlib.Path(sys.argv[1]) / "outcomes.sqlite3", 7)
    for call in (store.probe, lambda: store.get("search", "a"), store.identity):
        try:
            await call()
        except OutcomeStoreError as error:
            print(error.message)
    await store.aclose()

asyncio.run(main())
"""
IN_A_SMALL_DISK = (
    'mount -t tmpfs -o size={size}k tmpfs "$0" && head -c {filled}k /dev/zero > "$0/filling"; "$1" -c "$2" "$0"'
)


@pytest.mark.parametrize(("size", "filled"), [(64, 64), (100, 60), (512, 470)])
def test_a_full_disk_is_reported_and_kills_no_process(tmp_path: Path, size: int, filled: int) -> None:
    """SQLite maps a file that may extend beyond the disk into memory.

    The test uses its own mount namespace, which unprivileged users may create if the kernel allows it, so the small
    disk vanishes with the process.
    """
    unshare = in_a_mount_namespace(tmp_path)
    script = IN_A_SMALL_DISK.format(size=size, filled=filled)
    done = subprocess.run(
        [*unshare, "sh", "-c", script, str(tmp_path), sys.executable, FULL_DISK],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(SRC)},
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    lines = done.stdout.splitlines()
    assert len(lines) == 3
    assert all("its disk is full" in line and "LLM_PLATFORM_DATA_DIR" in line for line in lines)


async def test_a_clock_that_jumps_removes_nothing(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A year forward: every outcome would look expired, and a repeated request would be answered again, otherwise. Real
    time removes them, and so does a jump back and forth.
    """
    wall, monotonic = [1_000_000_000.0], [50.0]
    store = SqliteOutcomeStore(file, DAYS, clock=lambda: wall[0], monotonic=lambda: monotonic[0])
    await store.put_if_absent([sample_outcome("a", body=b"1")])
    for jump_days in (365, -3650, 0):
        wall[0] = 1_000_000_000.0 + jump_days * 86_400
        assert await store.clean() == 0
        [kept] = await store.put_if_absent([sample_outcome("a", body=b"2")])
        assert kept.body == b"1"
    assert [record.message for record in caplog.records] == [
        "the system clock jumped forward: outcomes expire as if it had not"
    ]
    for clock in (wall, monotonic):
        clock[0] += (DAYS + 1) * 86_400
    assert await store.clean() == 1
    await store.aclose()


async def test_outcomes_from_the_future_do_not_keep_others(file: Path) -> None:
    """The clock was a year ahead until a restart. Outcomes stored later still expire in time."""
    now, ahead = 1_000_000_000.0, 1_000_000_000.0 + 365 * 86_400
    for moment, names in ((ahead, range(CLEANUP_BATCH_SIZE + 1)), (now, range(-3, 0))):
        store = SqliteOutcomeStore(file, DAYS, clock=lambda moment=moment: moment)
        await store.put_if_absent([sample_outcome(str(name), body=b"1") for name in names])
        await store.aclose()
    later = now + (DAYS + 1) * 86_400
    store = SqliteOutcomeStore(file, DAYS, clock=lambda: later)
    assert await store.clean() == 3
    await store.aclose()


async def test_a_disk_that_fills_up_is_told_by_the_probe(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the file is open; once there is room again it works."""
    store = opened()
    await store.probe()
    usage = shutil.disk_usage("/")
    with monkeypatch.context() as full:
        full.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
        with pytest.raises(OutcomeStoreError, match="its disk is full: 0 of 2048 kB are free"):
            await store.probe()
    await store.probe()


async def test_a_file_that_may_not_be_written_is_told_by_the_probe(opened: Opener, file: Path) -> None:
    """Reading would still work, and nothing could be kept."""
    store = opened()
    await store.probe()
    with sqlite3.connect(file) as other:
        other.execute("CREATE TRIGGER refuse BEFORE UPDATE ON about BEGIN SELECT RAISE(ABORT, 'read-only'); END")
    with pytest.raises(OutcomeStoreError):
        await store.probe()


async def test_a_file_has_one_identity(opened: Opener, file: Path) -> None:
    """All who open it read the same, also at the same moment; another file has another. An older file gets one."""
    here, there = opened(), opened()
    first, second = await asyncio.gather(here.identity(), there.identity())
    assert first == second == await opened().identity()
    other = SqliteOutcomeStore(file.with_name("other.sqlite3"), DAYS)
    assert await other.identity() != first
    await other.aclose()
    with sqlite3.connect(file) as older:
        older.execute("DROP TABLE about")
    again = opened()
    assert await again.identity() not in ("", first)
    await again.probe()
