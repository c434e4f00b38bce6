"""The embedded vector store fulfils the contract of every store, and allows one writer with many readers."""

from __future__ import annotations

import asyncio
import logging
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

import pytest
from tests.fakes.vector_store_contract import COLLECTION, COLLECTION_NAME, OpenAgain, VectorStoreContract

from modules.llm_platform.domain.dtos.retrieval_dtos import EmbeddedPassage, IndexedDocument, Passage
from modules.llm_platform.domain.exceptions import VectorStoreConfigError, VectorStoreError
from modules.llm_platform.infrastructure.index.qdrant.edge_vector_store import VACUUM_FROM_POINTS, QdrantEdgeVectorStore


class TestQdrantEdge(VectorStoreContract):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[QdrantEdgeVectorStore]:
        store = QdrantEdgeVectorStore(tmp_path / "index")
        yield store
        await store.aclose()

    @pytest.fixture
    async def open_again(self, tmp_path: Path) -> AsyncIterator[OpenAgain]:
        async with AsyncExitStack() as stack:

            async def again() -> QdrantEdgeVectorStore:
                store = QdrantEdgeVectorStore(tmp_path / "index")
                stack.push_async_callback(store.aclose)
                return store

            yield again


async def test_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has the install command, and says what works without the package."""
    monkeypatch.setitem(sys.modules, "qdrant_edge", None)
    store = QdrantEdgeVectorStore(tmp_path)
    for asking in (store.prepare(COLLECTION), store.search(COLLECTION_NAME, "x", None, {}, 1)):
        with pytest.raises(VectorStoreConfigError, match=r'pip install "llm-platform\[retrieval\]".*QDRANT_URL'):
            await asking
    await store.aclose()


@pytest.mark.parametrize("damage", ["current", "segments", "config"])
async def test_damaged_files(damage: str, tmp_path: Path) -> None:
    """An unreadable index is an error with a remedy, never an empty index."""
    store = QdrantEdgeVectorStore(tmp_path)
    await store.prepare(COLLECTION)
    await store.finish(COLLECTION_NAME)
    await store.aclose()
    generation = tmp_path / COLLECTION_NAME / "g-000001"
    if damage == "current":
        (tmp_path / COLLECTION_NAME / "current").write_bytes(b"\xff\0")
    elif damage == "segments":
        shutil.rmtree(generation / "segments")
        (generation / "segments").mkdir()
    else:
        (generation / "edge_config.json").write_text("{")
    with pytest.raises((VectorStoreError, VectorStoreConfigError)) as raised:
        await store.search(COLLECTION_NAME, "x", None, {}, 1)
    assert str(tmp_path) not in raised.value.message
    await store.aclose()


async def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    """An error of the file system is reported with its reason."""
    (tmp_path / "index").write_text("")
    store = QdrantEdgeVectorStore(tmp_path / "index")
    with pytest.raises(VectorStoreError, match="data folder"):
        await store.prepare(COLLECTION)
    await store.aclose()


async def test_replacing_again_and_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Replaced passages do not accumulate, because the shard is rewritten without them."""
    store = QdrantEdgeVectorStore(tmp_path)
    passages = [
        EmbeddedPassage(Passage(id=str(uuid5(NAMESPACE_URL, str(n))), doc_id="a", title="", text=f"word{n}"), None)
        for n in range(VACUUM_FROM_POINTS * 2)
    ]
    await store.prepare(COLLECTION)
    await store.replace(COLLECTION_NAME, IndexedDocument(doc_id="a", sha256="1", passages=len(passages)), passages)
    await store.finish(COLLECTION_NAME)
    assert "index_vacuumed" not in caplog.text
    caplog.set_level(logging.INFO)
    await store.replace(COLLECTION_NAME, IndexedDocument(doc_id="a", sha256="2", passages=10), passages[:10])
    await store.finish(COLLECTION_NAME)
    assert "index_vacuumed" in caplog.text
    assert len(await store.passages(COLLECTION_NAME, "a")) == 10
    assert await store.describe(COLLECTION_NAME) == COLLECTION
    assert [hit.passage.text for hit in await store.search(COLLECTION_NAME, "word7", None, {}, 5)] == ["word7"]
    await store.replace(COLLECTION_NAME, IndexedDocument(doc_id="b", sha256="2", passages=1), [passages[11]])
    assert [hit.passage.text for hit in await store.search(COLLECTION_NAME, "word11", None, {}, 5)] == ["word11"]
    await store.aclose()


async def test_cancelled_caller_does_not_affect_others(tmp_path: Path) -> None:
    """The started work is completed, and the next call works as usual."""
    store = QdrantEdgeVectorStore(tmp_path)
    await store.prepare(COLLECTION)
    for _ in range(20):
        asking = asyncio.ensure_future(store.search(COLLECTION_NAME, "x", None, {}, 1))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    await store.finish(COLLECTION_NAME)
    assert await store.describe(COLLECTION_NAME) == COLLECTION
    await store.aclose()
