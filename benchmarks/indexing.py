"""Documents a second: embedding their passages alone, and indexing them from files. Prints JSON; started by run.py.

In turn, in one process, so that a drift of the machine hits both. Embedding alone is given the passages ready cut, in
batches as large as those of the indexing; indexing lists, reads, cuts, embeds, counts words, stores and switches.
"""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.common import median

from modules.llm_platform.application.rag.indexing import IndexingService
from modules.llm_platform.application.rag.intake import BATCH_PASSAGES
from modules.llm_platform.application.rag.passages import chunk_document
from modules.llm_platform.domain.dtos.indexing_dtos import DocumentText, FoundDocument
from modules.llm_platform.infrastructure.documents.file_source import FileDocumentSource
from modules.llm_platform.infrastructure.index.qdrant.edge_vector_store import QdrantEdgeVectorStore
from modules.llm_platform.infrastructure.models.wordllama_embedder import WordllamaEmbedder

# Copies of each text: ten thousand passages, since the first two thousand wait for the mean of a collection.
COPIES = 20
RUNS = 3
COLLECTION = "benchmark"


def write_documents(folder: Path, copies: int = COPIES) -> Path:
    """Return the language reference of this Python, each topic several times."""
    from pydoc_data.topics import topics

    for copy in range(copies):
        for name, text in topics.items():
            (folder / f"{name}-{copy}.txt").write_text(f"Copy {copy}.\n\n{text}", encoding="utf-8")
    return folder


def passages_of(folder: Path) -> tuple[int, list[str]]:
    """Return how many documents there are, and what an embedder is given of them."""
    found = [document for document in FileDocumentSource().walk([folder]) if isinstance(document, FoundDocument)]
    read = [(document, text) for document in found if isinstance(text := document.read(), DocumentText)]
    return len(read), [
        passage
        for document, text in read
        for passage in chunk_document(document.doc_id, document.digest, text).to_embed
    ]


async def embedding_s(embedder: WordllamaEmbedder, texts: list[str]) -> float:
    began = time.perf_counter()
    for first in range(0, len(texts), BATCH_PASSAGES):
        await embedder.embed(texts[first : first + BATCH_PASSAGES])
    return time.perf_counter() - began


async def indexing_s(embedder: WordllamaEmbedder, documents: Path, index: Path) -> float:
    store = QdrantEdgeVectorStore(index)
    began = time.perf_counter()
    async for _ in IndexingService(FileDocumentSource(), embedder, store, COLLECTION).index([documents]):
        pass
    took = time.perf_counter() - began
    await store.aclose()
    return took


async def measure(work: Path) -> dict[str, float]:
    (work / "documents").mkdir()
    documents = write_documents(work / "documents")
    count, texts = passages_of(documents)
    embedder = WordllamaEmbedder()
    await embedding_s(embedder, texts[:BATCH_PASSAGES])  # loads it
    pairs = [
        (await embedding_s(embedder, texts), await indexing_s(embedder, documents, work / f"index-{run}"))
        for run in range(RUNS)
    ]
    return {
        "documents": count,
        "passages": len(texts),
        "embedding_s": median([alone for alone, _ in pairs]),
        "indexing_s": median([whole for _, whole in pairs]),
        "share": median([alone / whole for alone, whole in pairs]),
    }


def main() -> None:
    with TemporaryDirectory() as folder:
        print(json.dumps(asyncio.run(measure(Path(folder)))))


if __name__ == "__main__":
    main()
