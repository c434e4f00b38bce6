"""SciFact as BEIR uses it: abstracts are indexed, and claims are the queries, hybrid and by keywords only. The first hundred
by keywords are also reranked, as `/v2/rerank` does.

A row of the queries has `id`, `claim` and `label`, the ids of the right abstracts; one of the corpus has `id`, `claim` (the
title) and `source`.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from scripts.public_sets.figures import Failures, Row, mean, ndcg, read_rows, with_interval, with_progress
from scripts.public_sets.platform import quiet_settings

from modules.llm_platform.application.services.rerank_service import RerankService
from modules.llm_platform.container import build_platform
from modules.llm_platform.domain.dtos.retrieval_dtos import RagSearch
from modules.llm_platform.infrastructure.models.wordllama_embedder import WordllamaEmbedder

SETS: Final = ("scifact-queries",)
CORPUS: Final = "scifact-corpus"
RANKED: Final = 10
RECALLED: Final = 5
EMBEDDERS: Final = {"hybrid": "wordllama", "keywords only": "none"}
RERANKED: Final = 100  # abstracts found by keywords


async def measure(name: str, folder: Path, part: str) -> list[str]:
    """nDCG@10, recall@5 and recall@10 of both ways."""
    queries, failures = read_rows(folder, part, name), Failures()
    parts = [f"n {len(queries)}"]
    with tempfile.TemporaryDirectory() as texts:
        write_corpus(read_rows(folder, part, CORPUS), Path(texts) / "corpus.jsonl")
        for way, embedder in EMBEDDERS.items():
            parts += await _searched(f"{name}, {way}", embedder, Path(texts), queries, failures)
        parts.append(await _reranked(f"{name}, reranked", Path(texts), queries, read_rows(folder, part, CORPUS)))
    return [*parts, str(failures)]


def write_corpus(rows: Sequence[Row], file: Path) -> None:
    """A document a line, as `llm-platform index` reads them."""
    documents = ({"doc_id": row["id"], "title": row["claim"], "text": row["source"]} for row in rows)
    file.write_text("".join(f"{json.dumps(document)}\n" for document in documents), encoding="utf-8")


async def _searched(label: str, embedder: str, texts: Path, queries: Sequence[Row], failures: Failures) -> list[str]:
    ranked: list[list[bool]] = []
    with quiet_settings(EMBEDDER=embedder) as settings:
        async with build_platform(settings) as platform:
            async for _ in platform.indexing.index([texts]):
                pass
            began = time.perf_counter()
            for row in with_progress(label, queries):
                try:
                    hits = (await platform.retrieval.search(RagSearch(query=row["claim"], top_k=RANKED))).hits
                except Exception as error:  # noqa: BLE001  # each is told, none may happen
                    hits = ()
                    failures.add(row["id"], error)
                found = [_row_id(hit.doc_id) for hit in hits]
                ranked.append([doc_id in row["label"] for doc_id in found] + [False] * (RANKED - len(found)))
    sizes = [len(row["label"]) for row in queries]
    gains = [ndcg(hits, size) for hits, size in zip(ranked, sizes, strict=True)]
    recalls = [
        mean(sum(hits[:top]) / size for hits, size in zip(ranked, sizes, strict=True)) for top in (RECALLED, RANKED)
    ]
    took = (time.perf_counter() - began) * 1000 / max(1, len(queries))
    return [
        with_interval(f"{label.partition(', ')[2]}: nDCG@{RANKED}", mean, gains),
        f"recall@{RECALLED} {recalls[0]:.3f}, recall@{RANKED} {recalls[1]:.3f}, {took:.0f} ms a query",
    ]


async def _reranked(label: str, texts: Path, queries: Sequence[Row], corpus: Sequence[Row]) -> str:
    abstracts = {row["id"]: f"{row['claim']}\n\n{row['source']}" for row in corpus}
    reranking = RerankService(WordllamaEmbedder())
    gains: list[float] = []
    with quiet_settings(EMBEDDER="none") as settings:
        async with build_platform(settings) as platform:
            async for _ in platform.indexing.index([texts]):
                pass
            for row in with_progress(label, queries):
                hits = (await platform.retrieval.search(RagSearch(query=row["claim"], top_k=RERANKED))).hits
                found = list(dict.fromkeys(_row_id(hit.doc_id) for hit in hits))
                ranked = await reranking.rerank(row["claim"], [abstracts[name] for name in found])
                best = [found[document.index] in row["label"] for document in ranked[:RANKED]]
                gains.append(ndcg(best + [False] * (RANKED - len(best)), len(row["label"])))
    return with_interval(f"first {RERANKED} by keywords, reranked: nDCG@{RANKED}", mean, gains)


def _row_id(doc_id: str) -> str:
    return doc_id.rpartition("#")[2].rpartition("/")[2]
