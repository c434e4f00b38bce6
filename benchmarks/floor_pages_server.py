"""The floor that reads pages, over HTTP: as many pages as ours, their text in the prompt, the model read as a stream.

uvicorn benchmarks.floor_pages_server:app       FLOOR_PAGES=0 reads none

Ours reads further pages, which the text cites, while the model writes. `further` of a request reads as many here.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from benchmarks.floor import Hits, make_client
from benchmarks.floor_server import UPSTREAM, Hit, ResearchIn, ResearchOut, find, find_deep, messages_of
from benchmarks.floor_server import app as floor
from fastapi import FastAPI
from resiliparse.extract.html2text import extract_plain_text

PAGES = {"shallow": 3, "deep": 4}  # before the text is written
FURTHER_PAGES = {"shallow": 2, "deep": 1}  # while it is written
PROMPT_CHARS = 3000  # part of a page
READS_PAGES = os.environ.get("FLOOR_PAGES") != "0"


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    async with make_client() as floor.state.http:  # which its functions use
        yield


app = FastAPI(lifespan=lifespan)


def text_of(html: bytes) -> str:
    return str(extract_plain_text(html.decode("utf-8", "replace"), main_content=True, alt_texts=False))


class PagesIn(ResearchIn):
    further: bool = False


async def read_pages(hits: Hits) -> list[str]:
    answers = await asyncio.gather(*(floor.state.http.get(hit["url"]) for hit in hits))
    return await asyncio.gather(*(asyncio.to_thread(text_of, answer.content) for answer in answers))


async def write(query: str, hits: Hits) -> str:
    ask = {"model": "fake", "messages": messages_of(query, hits), "max_tokens": 2048, "stream": True}
    text = ""
    async with floor.state.http.stream("POST", f"{UPSTREAM}/v1/chat/completions", json=ask) as answer:
        async for line in answer.aiter_lines():
            data = line.removeprefix("data: ")
            if data.startswith("{") and (choices := json.loads(data)["choices"]):
                text += choices[0]["delta"].get("content") or ""
    return text


@app.post("/research")
async def research(body: PagesIn) -> ResearchOut:
    hits = await (find_deep if body.depth == "deep" else find)(body.query)
    count = PAGES[body.depth] if READS_PAGES else 0
    further = FURTHER_PAGES[body.depth] if READS_PAGES and body.further else 0
    texts = await read_pages(hits[:count])
    read = [{**hit, "content": text[:PROMPT_CHARS]} for hit, text in zip(hits, texts, strict=False)]
    hits = [*read, *hits[count:]]
    text, _ = await asyncio.gather(write(body.query, hits), read_pages(hits[count : count + further]))
    return ResearchOut(query=body.query, results=[Hit.model_validate(hit) for hit in hits], synthesis=text)
