"""`index` as a process that is killed and run again, with concurrent readers, and with a second writer."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.forked_command import PIPE, ForkedPython

from modules.llm_platform.application.rag.retrieval import RetrievalService
from modules.llm_platform.domain.dtos.retrieval_dtos import RagSearch
from modules.llm_platform.domain.retrieval.embeddable import NoneEmbedder
from modules.llm_platform.infrastructure.index.qdrant.edge_vector_store import QdrantEdgeVectorStore

DOCUMENTS = 32
PATIENCE_S = 120

# The real command over the embedded store, with a slow embedder, so that a kill can interrupt it.
PROGRAM = """
import asyncio, sys, types
from contextlib import asynccontextmanager
from pathlib import Path
from modules.llm_platform.application.rag import embedded_batches, intake
from modules.llm_platform.application.rag.indexing import IndexingService
from modules.llm_platform.infrastructure.index.qdrant.edge_vector_store import QdrantEdgeVectorStore
from modules.llm_platform.infrastructure.documents.file_source import FileDocumentSource
from modules.llm_platform.presentation.cli.main import run
from modules.llm_platform.presentation.cli.setup import Wiring
from tests.fakes.embedder import HashEmbedder

intake.BATCH_PASSAGES, embedded_batches.MEAN_PASSAGES = 4, 1
folder, pause, *arguments = sys.argv[1:]

class Slow(HashEmbedder):
    async def embed(self, texts):
        if texts:
            print("embedding", file=sys.stderr, flush=True)
        return await super().embed(texts)

@asynccontextmanager
async def platform(settings):
    store = QdrantEdgeVectorStore(Path(folder))
    try:
        yield types.SimpleNamespace(
            indexing=IndexingService(
                FileDocumentSource(), Slow(delay_s=float(pause)), store, settings.QDRANT_COLLECTION, checkpoint_s=0.01
            )
        )
    finally:
        await store.aclose()

sys.exit(run(["index", *arguments], Wiring(platform, None, None, None, None)))
"""


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    notes = tmp_path / "notes"
    notes.mkdir()
    for number in range(DOCUMENTS):
        paragraphs = [f"Note {number} knows thing{number}x{part}. " + "It is long. " * 55 for part in range(3)]
        (notes / f"n{number:02}.md").write_text("\n\n".join(paragraphs))
    return notes


@contextmanager
def running(index: Path, pause: float, *arguments: str | Path) -> Iterator[ForkedPython]:
    with ForkedPython(PROGRAM, index, str(pause), *arguments, stdout=PIPE, stderr=PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def report(index: Path, *arguments: str | Path) -> dict[str, Any]:
    with running(index, 0.0, *arguments, "--json") as process:
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    told: dict[str, Any] = json.loads(out)
    return told


def embedded(process: ForkedPython, times: int) -> None:
    """Wait until this many batches have started."""
    assert process.stderr is not None
    for _ in range(times):
        assert process.stderr.readline() == "embedding\n"


@pytest.fixture
async def reader(tmp_path: Path) -> AsyncIterator[QdrantEdgeVectorStore]:
    store = QdrantEdgeVectorStore(tmp_path / "index")
    yield store
    await store.aclose()


async def whole_documents(reader: QdrantEdgeVectorStore) -> int:
    """Return how many documents readers see, and check that each one is complete."""
    if await reader.describe("documents") is None:
        return 0
    documents = [document async for document in reader.documents("documents")]
    for document in documents:
        passages = await reader.passages("documents", document.doc_id)
        assert len(passages) == document.passages > 1
        assert f"thing{int(document.doc_id[1:3])}x2" in passages[-1].text
    return len(documents)


@pytest.mark.parametrize("batches", [2, 12])
async def test_killed_in_the_middle_and_run_again(
    batches: int, tmp_path: Path, notes: Path, reader: QdrantEdgeVectorStore
) -> None:
    """Readers see only complete documents at any time. The next run indexes the rest, and nothing twice."""
    with running(tmp_path / "index", 0.02, notes) as process:
        embedded(process, batches)
        time.sleep(0.003 * batches % 0.02)
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)
    survived = await whole_documents(reader)
    assert survived < DOCUMENTS
    assert survived or batches < 12
    told = report(tmp_path / "index", notes)
    assert (told["unchanged"], told["added"], told["changed"]) == (survived, DOCUMENTS - survived, 0)
    assert await whole_documents(reader) == DOCUMENTS
    assert report(tmp_path / "index", notes)["passages"] == 0


async def test_killed_while_it_replaces_and_prunes(tmp_path: Path, notes: Path, reader: QdrantEdgeVectorStore) -> None:
    """After a kill, a document has its old or its new content. Afterwards the collection equals the folder."""
    report(tmp_path / "index", notes)
    for number in range(DOCUMENTS):
        note = notes / f"n{number:02}.md"
        note.write_text(note.read_text() + "\n\nIt was changed.")
    (notes / "n00.md").unlink()
    with running(tmp_path / "index", 0.02, notes, "--prune") as process:
        embedded(process, 6)
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)
    found = [await reader.passages("documents", f"n{number:02}.md") for number in range(DOCUMENTS)]
    assert all(any("x0." in passage.text for passage in passages) for passages in found)
    told = report(tmp_path / "index", notes, "--prune")
    assert (told["removed"], told["changed"] + told["unchanged"], told["added"]) == (1, DOCUMENTS - 1, 0)
    for number in range(1, DOCUMENTS):
        passages = await reader.passages("documents", f"n{number:02}.md")
        assert "It was changed." in passages[-1].text
    assert await reader.passages("documents", "n00.md") == []


async def test_searching_continues_during_indexing(tmp_path: Path, notes: Path, reader: QdrantEdgeVectorStore) -> None:
    """While one process indexes, other processes find the earlier documents and the newly finished ones."""
    report(tmp_path / "index", notes / "n00.md")
    retrieval = RetrievalService(NoneEmbedder(), reader, "documents", top_k=5)
    with running(tmp_path / "index", 0.02, notes) as process:
        while process.poll() is None:
            found = await retrieval.search(RagSearch(query="thing0x1"))
            assert [hit.doc_id for hit in found.hits] == ["n00.md"]
            await asyncio.sleep(0.01)  # leaves processor time to the indexing process
    found = await retrieval.search(RagSearch(query=f"thing{DOCUMENTS - 1}x1"))
    assert [hit.doc_id for hit in found.hits] == [f"n{DOCUMENTS - 1}.md"]


async def test_a_second_writer_gets_a_clear_error(tmp_path: Path, notes: Path) -> None:
    """One line names the other writer and the remedy. The first writer is not disturbed."""
    report(tmp_path / "index", notes / "n00.md")
    with running(tmp_path / "index", 5.0, notes) as first:
        embedded(first, 1)
        with running(tmp_path / "index", 0.0, notes) as second:
            out, err = second.communicate(timeout=PATIENCE_S)
    assert (second.returncode, out) == (1, "")
    assert "another process is writing" in err.splitlines()[-1]
    assert "QDRANT_URL" in err


async def test_ctrl_c_keeps_what_was_done(tmp_path: Path, notes: Path, reader: QdrantEdgeVectorStore) -> None:
    """Ctrl-C exits with 130, and the next run continues from there."""
    with running(tmp_path / "index", 0.02, notes) as process:
        embedded(process, 6)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "what was indexed is stored" in err
    assert 0 < await whole_documents(reader) < DOCUMENTS
