"""The research store under SIGKILL and concurrent processes: entries are complete, and nothing else is left."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.forked_command import PIPE, ForkedPython

from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.research.store_key import make_topic
from modules.llm_platform.infrastructure.stores.research_runs.disk import DiskResearchStore
from modules.llm_platform.testing import sample_page

TOPIC = make_topic("What survives?")
SIZES = (100, 5_000, 200_000, 600_000)  # characters; the last one is large enough to be written in a thread
PATIENCE_S = 120

WORKER = """
import asyncio, sys
from pathlib import Path
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.research.store_key import make_topic
from modules.llm_platform.infrastructure.stores.research_runs.disk import DiskResearchStore
from modules.llm_platform.testing import sample_page

store = DiskResearchStore(Path(sys.argv[1]), 30)
topic = make_topic("What survives?")
sizes = {sizes}

def page(name, number):
    return sample_page("https://example.org/" + name, name[0] * sizes[number % len(sizes)])

def say(word):
    print(word, flush=True)
"""
PUTTING = """
async def work():
    for number in range(100_000):
        await store.put(topic, "docs", "k" + str(number), page("a", number))
        say(number)
"""
OVERWRITING = """
async def work():
    say("ready")
    for number in range(150):
        await store.put(topic, "docs", "k" + str(number % 5), page(sys.argv[2], number))
        await store.get(topic, "docs", "k" + str(number % 5), Page)
"""
CLEANING = """
async def work():
    say("ready")
    for number in range(60):
        await store.clean()
        await store.clear(topic.name) if await store.topics() else None
"""
IMPORTING = """
async def work():
    say("ready")
    await store.import_(Path(sys.argv[2]))
"""
EXPORTING = """
async def work():
    say("ready")
    await store.export(Path(sys.argv[2]))
"""


def page(name: str, number: int) -> Page:
    return sample_page("https://example.org/" + name, name[0] * SIZES[number % len(SIZES)])


@contextmanager
def process(work: str, *arguments: str | Path) -> Iterator[ForkedPython]:
    """Start a process that runs this code, and kill it at the end."""
    program = WORKER.format(sizes=SIZES) + work + "\nasyncio.run(work())\n"
    with ForkedPython(program, *arguments, stdout=PIPE) as running:
        try:
            yield running
        finally:
            running.kill()


def next_line(running: ForkedPython) -> str:
    assert running.stdout is not None
    return running.stdout.readline().strip()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store(root: Path) -> DiskResearchStore:
    return DiskResearchStore(root, 30)


@pytest.mark.parametrize("after", [1, 7, 30, 31, 90])
async def test_killed_in_the_middle_of_many_puts(after: int, store: DiskResearchStore, root: Path) -> None:
    """Every acknowledged entry is intact. The interrupted entry is complete or missing."""
    with process(PUTTING, root) as running:
        while int(next_line(running)) < after:
            pass
        time.sleep(random.Random(after).random() / 500)
        running.send_signal(signal.SIGKILL)
        assert running.stdout is not None
        rest = running.stdout.read()  # communicate() would skip what readline() has buffered
        running.wait(PATIENCE_S)
    done = max([after, *map(int, rest.split())])
    for number in range(done + 1):
        assert await store.get(TOPIC, "docs", f"k{number}", Page) == page("a", number)
    assert await store.get(TOPIC, "docs", f"k{done + 1}", Page) in (None, page("a", done + 1))
    assert await store.get(TOPIC, "docs", f"k{done + 2}", Page) is None
    assert (await store.stats()).damaged == 0
    drafts = list(root.rglob("*.draft"))
    for draft in drafts:
        os.utime(draft, (0, 0))
    assert len(drafts) <= 1
    await store.clean()
    assert list(root.rglob("*.draft")) == []
    assert len(await store.values(TOPIC, "docs", Page)) >= done + 1


async def test_two_processes_write_one_topic(store: DiskResearchStore, root: Path) -> None:
    """Concurrent readers and later readers find complete entries of one of the writers, and every read is counted."""
    await store.put(TOPIC, "docs", "k0", page("a", SIZES[0]))  # reads are counted from the first entry on
    with process(OVERWRITING, root, "a") as first, process(OVERWRITING, root, "b") as second:
        assert (next_line(first), next_line(second)) == ("ready", "ready")
        reads = 0
        while first.poll() is None or second.poll() is None:
            for number in range(5):
                found = await store.get(TOPIC, "docs", f"k{number}", Page)
                reads += 1
                assert found is None or found.text in {"ab"[i] * size for i in (0, 1) for size in SIZES}
            await asyncio.sleep(0.001)
        assert (first.wait(), second.wait()) == (0, 0)
    values = await store.values(TOPIC, "docs", Page)
    assert len(values) == 5
    stats = await store.stats()
    docs = next(stage for stage in stats.stages if stage.stage == "docs")
    assert docs.hits + docs.misses == reads + 2 * 150 + len(values)
    assert (stats.damaged, list(root.rglob("*.draft"))) == (0, [])


async def test_written_while_another_process_cleans(store: DiskResearchStore, root: Path) -> None:
    """Clearing a topic while another process writes to it breaks neither process."""
    with process(OVERWRITING, root, "a") as writer, process(CLEANING, root) as cleaner:
        assert (next_line(writer), next_line(cleaner)) == ("ready", "ready")
        assert (writer.wait(PATIENCE_S), cleaner.wait(PATIENCE_S)) == (0, 0)
    await store.put(TOPIC, "docs", "last", page("a", 0))
    assert await store.get(TOPIC, "docs", "last", Page) == page("a", 0)
    assert (await store.stats()).damaged == 0


@pytest.mark.parametrize("delay_s", [0.002, 0.01, 0.03])
async def test_killed_in_the_middle_of_an_import(delay_s: float, store: DiskResearchStore, tmp_path: Path) -> None:
    """Every imported entry is complete, and a second import adds the rest."""
    for number in range(40):
        await store.put(TOPIC, "docs", f"k{number}", page("a", number))
    await store.export(tmp_path / "x.zip")
    with process(IMPORTING, tmp_path / "elsewhere", tmp_path / "x.zip") as running:
        assert next_line(running) == "ready"
        time.sleep(delay_s)
        running.send_signal(signal.SIGKILL)
    elsewhere = DiskResearchStore(tmp_path / "elsewhere", 30)
    there = {value.text for value in await elsewhere.values(TOPIC, "docs", Page)}
    assert there <= {"a" * size for size in SIZES}
    imported = await elsewhere.import_(tmp_path / "x.zip")
    assert imported.added + imported.skipped == 40
    assert await elsewhere.values(TOPIC, "docs", Page) == await store.values(TOPIC, "docs", Page)
    assert (await elsewhere.stats()).damaged == 0


@pytest.mark.parametrize("delay_s", [0.002, 0.02, 0.05])
async def test_killed_in_the_middle_of_an_export(delay_s: float, store: DiskResearchStore, root: Path) -> None:
    """The old archive is kept, or the new one is complete."""
    await store.put(TOPIC, "docs", "k0", page("a", 0))
    file = root.parent / "x.zip"
    assert await store.export(file) == 1
    for number in range(1, 40):
        await store.put(TOPIC, "docs", f"k{number}", page("a", number))
    with process(EXPORTING, root, file) as running:
        assert next_line(running) == "ready"
        time.sleep(delay_s)
        running.send_signal(signal.SIGKILL)
    assert (await DiskResearchStore(root.parent / "elsewhere", 30).import_(file)).added in (1, 40)
