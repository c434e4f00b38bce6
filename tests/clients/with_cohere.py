"""Reranking with Cohere's SDK."""

from __future__ import annotations

import asyncio

import cohere
from checks import ANSWER, KEY, LIMITED_URL, OPEN_URL, QUESTION, URL, check, main, raised
from cohere.core.api_error import ApiError
from cohere.errors import TooManyRequestsError, UnauthorizedError

DOCUMENTS = ["A dog is an animal.", f"{ANSWER}.", "Tea is a drink."]
MODEL = "rerank-v3.5"

client = cohere.ClientV2(api_key=KEY, base_url=URL)


@check("rerank")
def rerank():
    found = client.rerank(model=MODEL, query=QUESTION, documents=DOCUMENTS, top_n=2)
    assert [found.results[0].index, len(found.results)] == [1, 2]
    assert 1 >= found.results[0].relevance_score > found.results[1].relevance_score >= 0
    assert found.meta.api_version.version == "2"
    assert found.id


@check("rerank, first version")
def rerank_v1():
    older = cohere.Client(api_key=KEY, base_url=URL)
    found = older.rerank(query=QUESTION, documents=[{"text": text} for text in DOCUMENTS], return_documents=True)
    assert found.results[0].document.text == DOCUMENTS[1]
    assert older.rerank(query=QUESTION, documents=DOCUMENTS, return_documents=False).results[0].document is None


@check("rerank, async")
def rerank_async():
    async def ask():
        async with cohere.AsyncClientV2(api_key=KEY, base_url=URL) as asking:
            return await asking.rerank(model=MODEL, query=QUESTION, documents=DOCUMENTS)

    assert asyncio.run(ask()).results[0].index == 1


@check("without an API key")
def no_key():
    assert (
        cohere.ClientV2(api_key="unused", base_url=OPEN_URL)
        .rerank(model=MODEL, query="a dog", documents=DOCUMENTS)
        .results
    )


@check("errors")
def errors():
    wrong = cohere.ClientV2(api_key="not-the-right-key", base_url=URL)
    raised(UnauthorizedError, lambda: wrong.rerank(model=MODEL, query=QUESTION, documents=DOCUMENTS))
    caught = raised(ApiError, lambda: client.rerank(model=MODEL, query=QUESTION, documents=["x"] * 1001))
    assert caught.status_code == 400
    assert "documents" in caught.body["message"]
    limited = cohere.ClientV2(api_key=KEY, base_url=LIMITED_URL)
    once = {"max_retries": 0}
    raised(
        TooManyRequestsError,
        lambda: limited.rerank(model=MODEL, query=QUESTION, documents=DOCUMENTS, request_options=once),
        tries=2,
    )


main()
