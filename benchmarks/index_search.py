"""A question to an embedded index of 100,000 passages: the engine's own query, and ours. Prints JSON; started by run.py.

The engine is given the vectors and asked for the fused best passages with what is stored of them. Ours embeds the question,
looks whether the index was switched, asks the same, and merges the passages of a document. In turn, question by question.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

from benchmarks.indexing import COLLECTION, passages_of, write_documents

from modules.llm_platform.application.rag.retrieval import PASSAGES_PER_DOCUMENT, RetrievalService
from modules.llm_platform.domain.dtos.retrieval_dtos import (
    Collection,
    EmbeddedPassage,
    IndexedDocument,
    Passage,
    RagSearch,
)
from modules.llm_platform.infrastructure.index.hybrid import CANDIDATES, build_hybrid_query
from modules.llm_platform.infrastructure.index.qdrant.edge_vector_store import QdrantEdgeVectorStore, load_engine
from modules.llm_platform.infrastructure.models.wordllama_embedder import WordllamaEmbedder

PASSAGES = 100_000
PER_DOCUMENT = 10
STORED_AT_ONCE = 320  # passages, of whole documents
ASKED = 200
TOP_K = 5
QUESTION_WORDS = 8
SEED = 7
NOISE = 0.025  # at most added to each number of a vector: no two passages are alike
Document = tuple[IndexedDocument, list[EmbeddedPassage]]


def documents(texts: list[str], vectors: Any) -> Iterator[list[Document]]:
    """Real passages again and again, their vectors a little moved each time; some dozens of documents at once."""
    import numpy as np

    noise = np.random.default_rng(SEED)
    for first in range(0, PASSAGES, STORED_AT_ONCE):
        positions = np.arange(first, min(first + STORED_AT_ONCE, PASSAGES)) % len(texts)
        moved = vectors[positions] + noise.uniform(-NOISE, NOISE, (len(positions), vectors.shape[1]))
        passages = [
            EmbeddedPassage(_passage(first + n, texts[position]), vector)
            for n, (position, vector) in enumerate(zip(positions, moved.tolist(), strict=True))
        ]
        yield [_document(passages[n : n + PER_DOCUMENT]) for n in range(0, len(passages), PER_DOCUMENT)]


def _passage(number: int, text: str) -> Passage:
    return Passage(id=str(UUID(int=number + 1)), doc_id=f"document {number // PER_DOCUMENT}", title="", text=text)


def _document(passages: list[EmbeddedPassage]) -> Document:
    doc_id = passages[0].passage.doc_id
    return IndexedDocument(doc_id=doc_id, sha256=doc_id, passages=len(passages)), passages


async def build(store: QdrantEdgeVectorStore, collection_info: Collection, filled: Iterator[list[Document]]) -> None:
    await store.prepare(collection_info)
    for several in filled:
        await store.replace_many(collection_info.name, several)
    await store.finish(collection_info.name)


def engine_s(shard: Any, collection_info: Collection, text: str, vector: Any) -> float:
    edge = load_engine()
    asked = build_hybrid_query(collection_info, text, vector)
    words = edge.SparseVector(asked.words.indices, asked.words.values)
    lists = [edge.Query.Nearest(asked.vector, "d"), edge.Query.Nearest(words, "s")]
    request = edge.QueryRequest(
        limit=TOP_K * PASSAGES_PER_DOCUMENT,
        query=edge.Fusion.Dbsf(),
        prefetches=[edge.Prefetch(limit=CANDIDATES, query=list_) for list_ in lists],
        with_payload=True,
    )
    began = time.perf_counter()
    shard.query(request)
    return time.perf_counter() - began


async def measure(work: Path) -> dict[str, Any]:
    import numpy as np

    (work / "documents").mkdir()
    _, texts = passages_of(write_documents(work / "documents", copies=1))
    embedder, store = WordllamaEmbedder(), QdrantEdgeVectorStore(work / "index")
    vectors = np.array([vector or [0.0] * embedder.dimension for vector in await embedder.embed(texts)])
    collection_info = Collection(name=COLLECTION, embedder=embedder.name, dimension=embedder.dimension)
    await build(store, collection_info, documents(texts, vectors))
    shard = load_engine().EdgeShard.load(str(next((work / "index" / COLLECTION).glob("g-*/"))))
    service = RetrievalService(embedder, store, COLLECTION, top_k=TOP_K)
    floor, ours = [], []
    for text in questions(texts):
        floor.append(engine_s(shard, collection_info, text, (await embedder.embed([text]))[0]))
        began = time.perf_counter()
        await service.search(RagSearch(query=text))
        ours.append(time.perf_counter() - began)
    await store.aclose()
    return {"floor": _shares(floor), "ours": _shares(ours)}


def questions(texts: list[str]) -> Iterator[str]:
    """Words of a passage, in any order."""
    chance = random.Random(SEED)
    for _ in range(ASKED):
        words = chance.choice(texts).split()
        yield " ".join(chance.sample(words, min(QUESTION_WORDS, len(words))))


def _shares(times: list[float]) -> dict[str, float]:
    ordered = sorted(times)
    return {"p50_s": ordered[len(ordered) // 2], "p95_s": ordered[len(ordered) * 95 // 100]}


def main() -> None:
    with TemporaryDirectory() as folder:
        print(json.dumps(asyncio.run(measure(Path(folder)))))


if __name__ == "__main__":
    main()
