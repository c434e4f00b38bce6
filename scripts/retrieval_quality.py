"""How well indexed documents are found: nDCG@10 and recall@5 over labelled questions, by keywords only and hybrid.

    python scripts/retrieval_quality.py          figures, and the questions whose answers are in no passage any more

The text is this repository's documentation and the language reference that comes with Python (pydoc's topics), cut as it is
when it is indexed. A passage answers a question when it holds one of its phrases. The figures depend on both texts and so
move a little with the version of Python; what they compare is found in the same text.

The questions are in two halves, told apart by a hash of their words. What was tuned on what: the removal of stop words and
the fusion were chosen on all of them, before they were divided; plain means, headings before each passage, words without
endings, the weight of length and how much longer than usual a passage may be with all figures in sight, those of sets of
other FAQs among them (docs/explanation/searching.md). So no half is unseen, and the held-back one is not a proof that others'
questions are answered as well; it shows when a later change helps the tuned half alone.
"""

from __future__ import annotations

import asyncio
import json
import math
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from modules.llm_platform.application.rag.indexing import IndexingService  # noqa: E402
from modules.llm_platform.application.rag.retrieval import RetrievalService  # noqa: E402
from modules.llm_platform.domain.dtos.retrieval_dtos import Passage, RagSearch  # noqa: E402
from modules.llm_platform.domain.ports.embedder import IEmbedder  # noqa: E402
from modules.llm_platform.domain.ports.vector_store import IVectorStore  # noqa: E402
from modules.llm_platform.domain.retrieval.embeddable import NoneEmbedder  # noqa: E402
from modules.llm_platform.infrastructure.documents.file_source import FileDocumentSource  # noqa: E402
from modules.llm_platform.infrastructure.index.qdrant.edge_vector_store import QdrantEdgeVectorStore  # noqa: E402
from modules.llm_platform.infrastructure.models.wordllama_embedder import WordllamaEmbedder  # noqa: E402

QUESTIONS = ROOT / "tests" / "quality" / "retrieval" / "questions.jsonl"
DOCS = ROOT / "docs"
COLLECTION = "quality"
TUNED, HELD_BACK = "tuned on", "held back"
RANKED = 10  # passages that nDCG looks at
RECALLED = 5


@dataclass(frozen=True)
class Labelled:
    """A question, and phrases one of which is in each passage that answers it."""

    question: str
    answers: tuple[str, ...]

    @property
    def half(self) -> str:
        """The same on every machine, and for each question the same whatever is added."""
        return (TUNED, HELD_BACK)[sha256(self.question.encode()).digest()[0] % 2]

    def is_answered_by(self, passage: Passage) -> bool:
        text = " ".join(passage.text.split())
        return any(answer in text for answer in self.answers)


@dataclass(frozen=True)
class Figures:
    """Means over the questions that some passage answers, 0..1."""

    ndcg: float
    recall: float
    missed: tuple[str, ...] = ()  # questions without an answer among the first


def load() -> list[Labelled]:
    """Return the labelled questions."""
    lines = map(json.loads, QUESTIONS.read_text(encoding="utf-8").splitlines())
    return [Labelled(line["question"], tuple(" ".join(answer.split()) for answer in line["answers"])) for line in lines]


def write_topics(folder: Path) -> Path:
    """Return the language reference of this Python, a text file for each topic."""
    from pydoc_data.topics import topics

    target = folder / "python"
    target.mkdir()
    for name, text in topics.items():
        (target / f"{name}.txt").write_text(text, encoding="utf-8")
    return target


async def indexed(embedder: IEmbedder, store: IVectorStore, folder: Path) -> list[Passage]:
    """Index both texts; all their passages."""
    paths = [DOCS, write_topics(folder)]
    async for _ in IndexingService(FileDocumentSource(), embedder, store, COLLECTION).index(paths):
        pass
    documents = [document.doc_id async for document in store.documents(COLLECTION)]
    return [passage for doc_id in documents for passage in await store.passages(COLLECTION, doc_id)]


def answerable(questions: Sequence[Labelled], passages: Sequence[Passage]) -> dict[Labelled, int]:
    """Each question that can be answered, and by how many passages."""
    counts = {question: sum(question.is_answered_by(passage) for passage in passages) for question in questions}
    return {question: count for question, count in counts.items() if count}


async def measure(service: RetrievalService, questions: dict[Labelled, int]) -> Figures:
    gains, recalls, missed = [], [], []
    for asked, count in questions.items():
        found = await service.search_passages(RagSearch(query=asked.question, top_k=RANKED))
        right = [asked.is_answered_by(passage.passage) for passage in found.passages]
        best = sum(1 / math.log2(position + 2) for position in range(min(count, RANKED)))
        gains.append(sum(1 / math.log2(position + 2) for position, hit in enumerate(right) if hit) / best)
        recalls.append(sum(right[:RECALLED]) / min(count, RECALLED))
        if not any(right):
            missed.append(asked.question)
    return Figures(sum(gains) / len(gains), sum(recalls) / len(recalls), tuple(missed))


@dataclass(frozen=True)
class Compared:
    """Figures by keywords only and hybrid, of all questions and of each half; the questions that nothing answers."""

    figures: dict[str, dict[str, Figures]]  # keyed by "all", TUNED, HELD_BACK, then by "keywords only", "hybrid"
    counts: dict[str, int]  # questions of each
    unanswered: list[Labelled]
    passages: int


async def compare(folder: Path) -> Compared:
    """Index the texts and ask all questions in both ways."""
    store, embedder, questions = QdrantEdgeVectorStore(folder / "index"), WordllamaEmbedder(), load()
    try:
        passages = await indexed(embedder, store, folder)
        asked = answerable(questions, passages)
        ways = {"keywords only": NoneEmbedder(), "hybrid": embedder}
        services = {
            name: RetrievalService(embedder, store, COLLECTION, top_k=RANKED) for name, embedder in ways.items()
        }
        parts = {"all": asked, **{half: _half(asked, half) for half in (TUNED, HELD_BACK)}}
        figures = {
            part: {name: await measure(service, theirs) for name, service in services.items()}
            for part, theirs in parts.items()
        }
    finally:
        await store.aclose()
    counts = {part: len(theirs) for part, theirs in parts.items()}
    return Compared(figures, counts, [question for question in questions if question not in asked], len(passages))


def _half(asked: dict[Labelled, int], half: str) -> dict[Labelled, int]:
    return {question: count for question, count in asked.items() if question.half == half}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        compared = asyncio.run(compare(Path(folder)))
    print(f"retrieval: {compared.passages} passages")
    for part, ways in compared.figures.items():
        for name, figures in ways.items():
            label = f"{part} ({compared.counts[part]} questions), {name}"
            print(f"  {label:40} nDCG@{RANKED} {figures.ndcg:.2f}, recall@{RECALLED} {figures.recall:.2f}")
    for asked in compared.unanswered:
        print(f"    no passage holds an answer any more: {asked.question}")
    for question in compared.figures["all"]["hybrid"].missed:
        print(f"    not found: {question}")


if __name__ == "__main__":
    main()
