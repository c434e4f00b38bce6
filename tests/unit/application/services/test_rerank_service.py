"""The order of documents for a query."""

from __future__ import annotations

from tests.fakes.embedder import HashEmbedder

from modules.llm_platform.application.services.rerank_service import RerankService
from modules.llm_platform.domain.retrieval.embeddable import NoneEmbedder

DOCUMENTS = ["A dog is an animal.", "Tea is a drink of leaves.", "", "Coffee and tea."]


async def test_best_document_comes_first_with_and_without_vectors() -> None:
    """All documents are returned, with descending scores from 0 to 1."""
    for embedder in (NoneEmbedder(), HashEmbedder()):
        ranked = await RerankService(embedder).rerank("What leaves are in tea?", DOCUMENTS)
        assert ranked[0].index == 1
        assert sorted(document.index for document in ranked) == [0, 1, 2, 3]
        scores = [document.score for document in ranked]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)


async def test_equal_documents_keep_their_order() -> None:
    for query in ("water", "\U0001f375", "the"):
        ranked = await RerankService(NoneEmbedder()).rerank(query, DOCUMENTS[:1] * 3)
        assert [(document.index, document.score) for document in ranked] == [(0, 0.5), (1, 0.5), (2, 0.5)]


def test_name_says_what_ranks() -> None:
    assert RerankService(NoneEmbedder()).name == "bm25"
    assert RerankService(HashEmbedder(name="wordllama/x")).name == "bm25+wordllama/x"
