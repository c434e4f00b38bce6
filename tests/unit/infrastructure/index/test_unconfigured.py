"""Embedders and vector stores that must not be used."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from tests.support.cases import for_each

from modules.llm_platform.domain.dtos.retrieval_dtos import Collection, IndexedDocument
from modules.llm_platform.domain.exceptions import EmbeddingConfigError, VectorStoreConfigError
from modules.llm_platform.domain.ports.vector_store import IVectorStore
from modules.llm_platform.infrastructure.unconfigured import unconfigured_embedder, unconfigured_vector_store

REMEDY = "Offline: do this"
DOCUMENT = IndexedDocument(doc_id="d", sha256="0" * 64, passages=0)
FACTS = Collection(name="c", embedder="e", dimension=1)


async def _all_of(store: IVectorStore) -> None:
    async for _ in store.documents("c"):
        pass


CALLS: list[Callable[[IVectorStore], Coroutine[Any, Any, Any]]] = [
    lambda store: store.describe("c"),
    lambda store: store.prepare(FACTS),
    lambda store: store.replace("c", DOCUMENT, ()),
    lambda store: store.remove("c", ["d"]),
    _all_of,
    lambda store: store.lookup("c", ["d"]),
    lambda store: store.search("c", "words", None, {}, 5),
    lambda store: store.passages("c", "d"),
    lambda store: store.finish("c"),
]


async def test_an_unconfigured_embedder_raises_its_remedy() -> None:
    """For any text."""
    with pytest.raises(EmbeddingConfigError, match=REMEDY):
        await unconfigured_embedder("openai", REMEDY).embed([])


@for_each("call", CALLS)
async def test_an_unconfigured_store_raises_its_remedy(
    call: Callable[[IVectorStore], Coroutine[Any, Any, Any]],
) -> None:
    """For every method but `aclose`."""
    store = unconfigured_vector_store("offline", REMEDY)
    with pytest.raises(VectorStoreConfigError, match=REMEDY):
        await call(store)
    await store.aclose()
