"""Concurrent processes on the embedded index: one writer and many readers. A killed process does not affect the others."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.integration import reading_index
from tests.integration.reading_index import FACTS, NAME, a_document
from tests.support.forked_command import PIPE, ForkedPython

from modules.llm_platform.domain.exceptions import VectorStoreConfigError
from modules.llm_platform.infrastructure.index.qdrant.edge_vector_store import QdrantEdgeVectorStore

READERS = 3
GENERATIONS = 8
PATIENCE_S = 120.0


@asynccontextmanager
async def running(role: str, folder: Path) -> AsyncIterator[ForkedPython]:
    """Start the process and wait until it works."""
    program = f"from {reading_index.__name__} import main; main()"
    with ForkedPython(program, role, folder, stdin=PIPE, stdout=PIPE, stderr=PIPE, warn_as_error=True) as process:
        try:
            assert process.stdout is not None
            line = await asyncio.to_thread(process.stdout.readline)
            assert line in ("reading\n", "writing\n"), await asyncio.to_thread(process.communicate)
            yield process
        finally:
            process.kill()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[QdrantEdgeVectorStore]:
    store = QdrantEdgeVectorStore(tmp_path)
    yield store
    await store.aclose()


async def publish(store: QdrantEdgeVectorStore, word: str) -> None:
    await store.prepare(FACTS)
    for doc_id in ("a", "b"):
        await store.replace(NAME, *a_document(doc_id, word))
    await store.finish(NAME)


def generations(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / NAME).iterdir() if path.is_dir())


async def test_readers_continue_while_another_process_writes(store: QdrantEdgeVectorStore, tmp_path: Path) -> None:
    """Every answer in each process comes from one generation, old or new. Old generations are deleted at the end."""
    await publish(store, "word0")
    async with (
        running("read", tmp_path) as first,
        running("read", tmp_path) as second,
        running("read", tmp_path) as third,
    ):
        for number in range(1, GENERATIONS):
            await publish(store, f"word{number}")
            await asyncio.sleep(0.02)
        for reader in (first, second, third):
            told, complaint = await asyncio.to_thread(reader.communicate, "\n", PATIENCE_S)
            assert reader.returncode == 0, complaint
            assert int(told) > 1
    await publish(store, "last")
    assert generations(tmp_path) == [f"g-{GENERATIONS + 1:06}"]


async def test_a_generation_in_use_is_kept(store: QdrantEdgeVectorStore, tmp_path: Path) -> None:
    """A generation in use is kept. An unused generation is deleted at the next switch."""
    await publish(store, "first")
    reader = QdrantEdgeVectorStore(tmp_path)
    assert len(await reader.passages(NAME, "a")) == reading_index.PASSAGES
    await store.aclose()  # closing also counts as reading
    await publish(store, "second")
    assert generations(tmp_path) == ["g-000001", "g-000002"]
    assert {hit.passage.text for hit in await reader.search(NAME, "same", None, {}, 10)} == {"same second"}
    await reader.aclose()
    await publish(store, "third")
    assert generations(tmp_path) == ["g-000003"]


async def test_a_second_writer_gets_a_clear_error(store: QdrantEdgeVectorStore, tmp_path: Path) -> None:
    """A second writer gets an error for every write operation while another process writes. It can still read."""
    async with running("write", tmp_path):
        for writing in (
            store.prepare(FACTS),
            store.replace(NAME, *a_document("a", "x")),
            store.remove(NAME, ["finished"]),
        ):
            with pytest.raises(VectorStoreConfigError, match=r"another process is writing.*QDRANT_URL"):
                await writing
        assert [document.doc_id async for document in store.documents(NAME)] == ["finished"]


async def test_a_killed_writer(store: QdrantEdgeVectorStore, tmp_path: Path) -> None:
    """After a writer is killed, its finished documents are there, its unfinished ones are not, and another process can
    write at once.
    """
    async with running("write", tmp_path) as writer:
        writer.send_signal(signal.SIGKILL)
        await asyncio.to_thread(writer.wait, PATIENCE_S)
    assert [document.doc_id async for document in store.documents(NAME)] == ["finished"]
    assert {hit.passage.text for hit in await store.search(NAME, "same", None, {}, 1000)} == {"same first"}
    await store.replace(NAME, *a_document("unfinished", "third"))
    await store.finish(NAME)
    assert {document.sha256 async for document in store.documents(NAME)} == {"first", "third"}
    assert len(generations(tmp_path)) == 1


async def test_a_killed_reader_keeps_nothing(store: QdrantEdgeVectorStore, tmp_path: Path) -> None:
    """The generation of a killed reader is deleted like any other unused generation."""
    await publish(store, "first")
    async with running("read", tmp_path) as reader:
        reader.send_signal(signal.SIGKILL)
        await asyncio.to_thread(reader.wait, PATIENCE_S)
    await publish(store, "second")
    await publish(store, "third")
    assert generations(tmp_path) == ["g-000003"]


async def test_unfinished_work_is_discarded(store: QdrantEdgeVectorStore, tmp_path: Path) -> None:
    """Closing discards unfinished work like a crash does.

    Readers see the finished state, and the folder contains nothing else.
    """
    await publish(store, "first")
    await store.replace(NAME, *a_document("c", "second"))
    assert (await store.lookup(NAME, ["c"]))["c"].sha256 == "second"
    await store.aclose()
    assert await store.lookup(NAME, ["c"]) == {}
    assert generations(tmp_path) == ["g-000001"]
