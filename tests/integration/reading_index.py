"""A program that reads an embedded index, or writes to it until it is killed. The tests of the embedded store run it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from modules.llm_platform.domain.dtos.retrieval_dtos import Collection, EmbeddedPassage, IndexedDocument, Passage
from modules.llm_platform.infrastructure.index.qdrant.edge_vector_store import QdrantEdgeVectorStore

NAME = "shared"
FACTS = Collection(name=NAME, embedder="none", dimension=0)
PASSAGES = 50  # passages of each document: enough that a switch of generations can fall between two passages


def a_document(doc_id: str, word: str) -> tuple[IndexedDocument, list[EmbeddedPassage]]:
    """Return a document whose passages all contain the word."""
    number = int.from_bytes(doc_id.encode(), "big") % 1000 * 100
    passages = [
        Passage(id=f"00000000-0000-4000-8000-{number + position:012}", doc_id=doc_id, title="", text=f"same {word}")
        for position in range(PASSAGES)
    ]
    document = IndexedDocument(doc_id=doc_id, sha256=word, passages=PASSAGES)
    return document, [EmbeddedPassage(passage, None) for passage in passages]


async def read(folder: Path) -> None:
    """Search until stdin has a line, and print the number of generations seen.

    Every answer must come from one generation.
    """
    store = QdrantEdgeVectorStore(folder)
    seen: set[str] = set()
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    sys.stdout.write("reading\n")
    sys.stdout.flush()
    while not ended.done():
        found = await store.search(NAME, "same", None, {}, 3 * PASSAGES)
        words = {hit.passage.text for hit in found}
        known = {document.sha256 async for document in store.documents(NAME)}
        if len(words) != 1 or len(found) != 2 * PASSAGES or len(known) != 1:
            raise SystemExit(f"a mixture: {len(found)} passages of {words}, documents of {known}")
        seen |= words
        await asyncio.sleep(0.005)  # leaves processor time to the writer
    await store.aclose()
    sys.stdout.write(f"{len(seen)}\n")


async def write(folder: Path) -> None:
    """Write one document, start the next one, and wait to be killed."""
    store = QdrantEdgeVectorStore(folder)
    await store.prepare(FACTS)
    await store.replace(NAME, *a_document("finished", "first"))
    await store.finish(NAME)
    await store.replace(NAME, *a_document("unfinished", "second"))
    sys.stdout.write("writing\n")
    sys.stdout.flush()
    while True:
        await store.replace(NAME, *a_document("unfinished", "second"))
        await asyncio.sleep(0)


def main() -> None:
    asyncio.run({"read": read, "write": write}[sys.argv[1]](Path(sys.argv[2])))
