"""How well passages of other people's documentation are found: nDCG@10 and recall@5 on the questions of its FAQs.

    python scripts/faq_quality.py build/faq-docs        the table of docs/explanation/searching.md; `make faq-quality`
    python scripts/faq_quality.py --packages            which packages of Debian have the texts

Each section is a Markdown file below the title of its page, indexed and asked for as anybody would. The texts
belong to others and are not kept in this repository; the figures move with their version.
"""

from __future__ import annotations

import asyncio
import math
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.faq_sets import SOURCES, FaqSet, build  # noqa: E402
from scripts.retrieval_quality import COLLECTION, RANKED, RECALLED, Figures  # noqa: E402

from modules.llm_platform.application.rag.indexing import IndexingService  # noqa: E402
from modules.llm_platform.application.rag.retrieval import RetrievalService  # noqa: E402
from modules.llm_platform.domain.dtos.retrieval_dtos import RagSearch  # noqa: E402
from modules.llm_platform.domain.retrieval.embeddable import NoneEmbedder  # noqa: E402
from modules.llm_platform.infrastructure.documents.file_source import FileDocumentSource  # noqa: E402
from modules.llm_platform.infrastructure.index.qdrant.edge_vector_store import QdrantEdgeVectorStore  # noqa: E402
from modules.llm_platform.infrastructure.models.wordllama_embedder import WordllamaEmbedder  # noqa: E402


def write(asked: FaqSet, folder: Path) -> None:
    """A file for each section, named by its place."""
    folder.mkdir()
    for position, section in enumerate(asked.sections):
        (folder / f"{position}.md").write_text(section.markdown, encoding="utf-8")


async def compare(asked: FaqSet, folder: Path) -> tuple[Figures, Figures]:
    """By words alone, and hybrid."""
    write(asked, folder / "sections")
    store, embedder = QdrantEdgeVectorStore(folder / "index"), WordllamaEmbedder()
    try:
        indexing = IndexingService(FileDocumentSource(), embedder, store, COLLECTION)
        async for _ in indexing.index([folder / "sections"]):
            pass
        services = [RetrievalService(model, store, COLLECTION, top_k=RANKED) for model in (NoneEmbedder(), embedder)]
        words, hybrid = [await measure(service, asked) for service in services]
    finally:
        await store.aclose()
    return words, hybrid


async def measure(service: RetrievalService, asked: FaqSet) -> Figures:
    gains, recalls = [], []
    for question, positions in asked.questions.items():
        found = await service.search(RagSearch(query=question, top_k=RANKED))
        right = [int(Path(hit.doc_id).stem) in positions for hit in found.hits]
        best = sum(1 / math.log2(position + 2) for position in range(min(len(positions), RANKED)))
        gains.append(sum(1 / math.log2(position + 2) for position, hit in enumerate(right) if hit) / best)
        recalls.append(sum(right[:RECALLED]) / min(len(positions), RECALLED))
    return Figures(sum(gains) / len(gains), sum(recalls) / len(recalls))


def main(words: list[str]) -> None:
    if words == ["--packages"]:
        print(*sorted({name for source in SOURCES.values() for name in source.packages}), sep="\n")
        return
    if len(words) != 1:
        raise SystemExit("usage: faq_quality.py FOLDER | --packages")
    print("| questions | sections | keywords only | hybrid |\n|---|---|---|---|", flush=True)
    for name, source in SOURCES.items():
        asked = build(Path(words[0]), source)
        with tempfile.TemporaryDirectory() as folder:
            figures = asyncio.run(compare(asked, Path(folder)))
        told = " | ".join(f"{row.ndcg:.2f}, {row.recall:.2f}" for row in figures)
        print(f"| {name}, {len(asked.questions)} | {len(asked.sections):,} | {told} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
