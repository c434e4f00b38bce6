"""The database of background runs on a full disk can still be read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.small_disk import in_a_mount_namespace

ROOT = Path(__file__).resolve().parents[5]
SIZE_MB = 8

# `open`: the disk fills up while the store is open. `closed`: a server starts on the full disk after another one has ended.
# `killed`: after another one was killed.
FULL_DISK = """
import asyncio, pathlib, sys
from tests.fakes.research_job_store import MANY, PROGRESS, SqliteResearchJobStore, event, new_job
from modules.llm_platform.domain.dtos.source_dtos import StoredSources, Source
from modules.llm_platform.domain.exceptions import StoreError

async def store_one(file):
    store = SqliteResearchJobStore(file, 30.0)
    held = StoredSources(sources=(Source(index=1, title="t", url="https://example.org/", text="words"),))
    await store.record(new_job("a"), [event(1), event(2, "done", "{}")], held, 1.0)
    return store

async def main(folder, state):
    file = folder / "researches.sqlite3"
    store = await store_one(file)
    left = {path: path.read_bytes() for path in folder.iterdir()} if state == "killed" else {}
    if state != "open":
        await store.aclose()
    for path, data in left.items():
        path.write_bytes(data)
    with (folder / "filling").open("wb", buffering=0) as filling:
        for size in (65536, 1024, 1):
            try:
                while True:
                    filling.write(bytes(size))
            except OSError:
                pass
    if state != "open":
        store = SqliteResearchJobStore(file, 30.0)
    for _ in range(3):
        try:
            while True:
                await store.record(new_job("b"), [event(1, "done", f'{{"text": "{"x" * 100_000}"}}')], None, 1.0)
        except StoreError as error:
            assert "full" in error.message, error.message
        found = await store.get("", "a")
        assert found.status == "done"
        assert len((await store.events("", "a", 0, 9)).events) == 2
        assert (await store.sources("", "a")).sources[0].text == "words"
        assert "a" in [job.id for job in await store.page("", 9)]
        assert "a" in [thread.id for thread in await store.threads("", 9)]
    (folder / "filling").unlink()
    await store.add(new_job("c"), MANY)
    await store.aclose()
    print("read")

asyncio.run(main(pathlib.Path(sys.argv[1]), sys.argv[2]))
"""


@pytest.mark.parametrize("state", ["open", "closed", "killed"])
def test_stored_runs_are_read_on_a_full_disk(tmp_path: Path, state: str) -> None:
    """By a server that runs, and by one that starts then, although nothing can be written. With room again it writes."""
    mounting = f'mount -t tmpfs -o size={SIZE_MB}m tmpfs "$0" && exec "$1" -c "$2" "$0" {state}'
    done = subprocess.run(
        [*in_a_mount_namespace(tmp_path), "sh", "-c", mounting, str(tmp_path), sys.executable, FULL_DISK],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
    )
    assert (done.returncode, done.stdout) == (0, "read\n"), done.stderr
