"""The floor behind HTTP: FastAPI, one pooled client, no policy.    uvicorn benchmarks.floor_server:app"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

from benchmarks.floor import ANSWER, RULES, Hits, make_client
from fastapi import FastAPI
from pydantic import BaseModel, Field

UPSTREAM = os.environ["FLOOR_UPSTREAM"]


class SearchIn(BaseModel):
    query: str = Field(min_length=1, max_length=500)
    count: int = Field(10, ge=1, le=50)


class ResearchIn(BaseModel):
    query: str = Field(min_length=3, max_length=500)
    depth: Literal["shallow"] = "shallow"


class Hit(BaseModel):
    title: str
    url: str
    content: str = ""


class SearchOut(BaseModel):
    query: str
    results: list[Hit]


class ResearchOut(SearchOut):
    synthesis: str


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with make_client() as app.state.http:
        yield


app = FastAPI(lifespan=lifespan)


async def find(query: str) -> Hits:
    answer = await app.state.http.get(f"{UPSTREAM}/search", params={"q": query, "format": "json"})
    return answer.json()["results"]  # type: ignore[no-any-return]


@app.post("/llm-platform/web-search")
async def search(body: SearchIn) -> SearchOut:
    return SearchOut(query=body.query, results=[Hit.model_validate(hit) for hit in await find(body.query)])


@app.post("/research")
async def research(body: ResearchIn) -> ResearchOut:
    hits = await find(body.query)
    sources = "\n\n".join(f"[{n}] {hit['title']}\n{hit['url']}\n{hit['content']}" for n, hit in enumerate(hits, 1))
    user = ANSWER.format(sources=sources, question=body.query)
    messages = [{"role": "system", "content": RULES}, {"role": "user", "content": user}]
    ask = {"model": "fake", "messages": messages, "max_tokens": 2048}
    answer = (await app.state.http.post(f"{UPSTREAM}/v1/chat/completions", json=ask)).json()
    text = answer["choices"][0]["message"]["content"]
    return ResearchOut(query=body.query, results=[Hit.model_validate(hit) for hit in hits], synthesis=text)


@app.get("/health")
async def health() -> dict[str, str]:
    return {"status": "healthy"}
