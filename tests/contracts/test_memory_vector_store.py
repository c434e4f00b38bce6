"""The in-memory vector store fulfils the contract of every store."""

from __future__ import annotations

import pytest
from tests.fakes.vector_store import MemoryVectorStore
from tests.fakes.vector_store_contract import COLLECTION, COLLECTION_NAME, OpenAgain, VectorStoreContract

from modules.llm_platform.domain.exceptions import VectorStoreError


class TestMemoryVectorStore(VectorStoreContract):
    @pytest.fixture
    def store(self) -> MemoryVectorStore:
        return MemoryVectorStore()

    @pytest.fixture
    def open_again(self, store: MemoryVectorStore) -> OpenAgain:
        async def again() -> MemoryVectorStore:
            return MemoryVectorStore(same_as=store)

        return again


async def test_a_scripted_failure() -> None:
    """Every later call raises the given error."""
    store = MemoryVectorStore()
    await store.prepare(COLLECTION)
    store.error = VectorStoreError()
    name = COLLECTION_NAME
    for call in (store.describe(name), store.search(name, "x", None, {}, 1), store.finish(name)):
        with pytest.raises(VectorStoreError):
            await call
