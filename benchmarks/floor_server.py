"""The floor over HTTP: FastAPI, one pooled client, no policy.    uvicorn benchmarks.floor_server:app"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from benchmarks.floor import ANSWER, PLAN, RULES, Hits, make_client
from fastapi import FastAPI, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

UPSTREAM = os.environ["FLOOR_UPSTREAM"]


class SearchIn(BaseModel):
    query: str = Field(min_length=1)
    count: int = Field(10, ge=1, le=50)


class ResearchIn(BaseModel):
    query: str = Field(min_length=3)
    depth: Literal["shallow", "deep"] = "shallow"


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


async def chat(messages: list[dict[str, str]]) -> str:
    ask = {"model": "fake", "messages": messages, "max_tokens": 2048}
    answer = (await app.state.http.post(f"{UPSTREAM}/v1/chat/completions", json=ask)).json()
    return answer["choices"][0]["message"]["content"]  # type: ignore[no-any-return]


async def find_deep(question: str) -> Hits:
    plan = await chat([{"role": "user", "content": PLAN.format(question=question)}])
    queries = [line.removeprefix("Question:").strip() for line in plan.splitlines()]
    found = await asyncio.gather(*map(find, queries))
    return list({hit["url"]: hit for part in found for hit in part}.values())


def messages_of(query: str, hits: Hits) -> list[dict[str, str]]:
    sources = "\n\n".join(f"[{n}] {hit['title']}\n{hit['url']}\n{hit['content']}" for n, hit in enumerate(hits, 1))
    user = ANSWER.format(sources=sources, question=query)
    return [{"role": "system", "content": RULES}, {"role": "user", "content": user}]


@app.post("/research")
async def research(body: ResearchIn) -> ResearchOut:
    hits = await (find_deep if body.depth == "deep" else find)(body.query)
    text = await chat(messages_of(body.query, hits))
    return ResearchOut(query=body.query, results=[Hit.model_validate(hit) for hit in hits], synthesis=text)


async def stream_events(query: str) -> AsyncIterator[str]:
    """Each token as it comes from the model, as an event."""
    yield event("started")
    hits = await find(query)
    yield event("searched", count=len(hits))
    ask = {"model": "fake", "messages": messages_of(query, hits), "max_tokens": 2048, "stream": True}
    async with app.state.http.stream("POST", f"{UPSTREAM}/v1/chat/completions", json=ask) as answer:
        async for line in answer.aiter_lines():
            data = line.removeprefix("data: ")
            if data.startswith("{") and (choices := json.loads(data)["choices"]):
                yield event("token", text=choices[0]["delta"].get("content") or "")
    yield event("done")


def event(kind: str, **fields: object) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n"


@app.post("/stream")
async def stream(body: ResearchIn) -> StreamingResponse:
    return StreamingResponse(stream_events(body.query), media_type="text/event-stream")


@app.get("/health")
async def health() -> dict[str, str]:
    return {"status": "healthy"}


bare = FastAPI()  # a route that does nothing but send the bytes of BARE_FILE
SAME = Path(os.environ.get("BARE_FILE", os.devnull)).read_bytes()


@bare.post(os.environ.get("BARE_PATH", "/"))
async def same() -> Response:
    return Response(SAME, media_type="application/json")
