"""Reranking in the form of Cohere and Jina. The order itself is in application/services/test_rerank_service.py."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from tests.support.cases import for_each
from tests.unit.presentation.rest.fake_platform import FakeServices, app_client

from modules.llm_platform.domain.exceptions import EmbeddingError
from modules.llm_platform.domain.retrieval.embeddable import NoneEmbedder

DOCUMENTS = ["A dog is an animal.", "Tea is a drink of leaves.", "Coffee."]
QUERY = "What leaves are in tea?"
BOTH = ("/v1/rerank", "/v2/rerank")


@pytest.fixture
def services(services: FakeServices) -> FakeServices:
    services.embedder = NoneEmbedder()
    return services


async def test_v2_has_the_fields_of_cohere(client: httpx2.AsyncClient) -> None:
    sent = {"model": "rerank-v3.5", "query": QUERY, "documents": DOCUMENTS, "top_n": 1}
    answer = await client.post("/v2/rerank", json=sent)
    body = answer.json()
    [result] = body["results"]
    assert (result["index"], result.keys()) == (1, {"index", "relevance_score"})
    assert (body["model"], body["meta"]["api_version"]) == ("bm25", {"version": "2"})
    assert body["id"] == answer.headers["x-request-id"]
    assert answer.headers["x-ignored-fields"] == "model"


async def test_v1_has_the_fields_of_jina(client: httpx2.AsyncClient) -> None:
    """Documents may be objects, and are returned unless the request says otherwise, as in Cohere's v1."""
    sent: dict[str, Any] = {"query": QUERY, "documents": [{"text": text} for text in DOCUMENTS], "top_n": 2}
    body = (await client.post("/v1/rerank", json=sent)).json()
    assert body["results"][0]["document"] == {"text": DOCUMENTS[1]}
    assert (len(body["results"]), body["object"], body["usage"]["total_tokens"] > 0) == (2, "list", True)
    without = (await client.post("/v1/rerank", json={**sent, "return_documents": False})).json()
    assert "document" not in without["results"][0]


@for_each(
    ("sent", "name"),
    [
        ({"query": " "}, "query"),
        ({"query": "x" * 40_000}, "query"),
        ({"query": None}, "query"),
        ({"documents": []}, "documents"),
        ({"documents": ["x"] * 1001}, "documents"),
        ({"documents": "tea"}, "documents"),
        ({"documents": [1]}, "documents.0: must be a string, or an object with `text`"),
        ({"documents": ["tea", None]}, "documents.1: must be a string, or an object with `text`"),
        ({"documents": [{"image": "data:"}]}, "documents.0.text: is missing"),
        ({"top_n": 0}, "top_n"),
        ({"top_n": "3"}, "top_n"),
        ({"model": "x" * 201}, "model"),
        ({"return_documents": "yes"}, "return_documents"),
    ],
)
async def test_invalid_field_is_a_400_with_its_name(sent: dict[str, Any], name: str) -> None:
    """Both clients read the message, Cohere's in `message` and Jina's in `detail`."""
    async with app_client() as client:
        for path in BOTH:
            refused = await client.post(path, json={"query": QUERY, "documents": DOCUMENTS, **sent})
            assert refused.status_code == 400, refused.text
            assert refused.json()["message"] == refused.json()["detail"]
            assert refused.json()["message"].startswith(name), refused.text


async def test_failure_of_the_embedder_is_that_of_the_request(services: FakeServices) -> None:
    class Failing(NoneEmbedder):
        why_no_vectors = ""

        def __init__(self) -> None:
            super().__init__("")

        async def embed(self, texts: object) -> Any:
            raise EmbeddingError("refused")

    services.embedder = Failing()
    async with app_client(services) as client:
        answer = await client.post("/v2/rerank", json={"query": QUERY, "documents": DOCUMENTS})
    assert (answer.status_code, answer.json()["message"]) == (502, "refused")


async def test_reranking_counts_as_a_read() -> None:
    """A burst of it leaves the caller's research runs alone."""
    settings = {"LLM_PLATFORM_API_KEYS": "long-enough-key", "RATE_LIMIT_BURST": 1, "RATE_LIMIT_PER_MINUTE": 1}
    async with app_client(**settings) as client:
        for path in BOTH * 2:
            sent = {"query": QUERY, "documents": DOCUMENTS}
            answer = await client.post(path, json=sent, headers={"Authorization": "Bearer long-enough-key"})
            assert answer.status_code == 200
