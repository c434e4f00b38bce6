"""The floor: what a research run costs when nothing but its upstream calls is done: one pooled httpx2 client, openai on it.

python benchmarks/floor.py QUESTION         one shallow research against FLOOR_UPSTREAM, to measure the start
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from typing import Any

import httpx2
from openai import AsyncOpenAI

PLAN = """Split the question into three web searches, one per line, each starting with "Question:".

Question: {question}"""
RULES = "Answer the question from the numbered sources alone, cite them as [1], say so where they do not answer."
ANSWER = "{sources}\n\nQuestion: {question}"
DEADLINE_S = 60.0

Hits = Sequence[dict[str, Any]]


def make_client() -> httpx2.AsyncClient:
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=1000)
    return httpx2.AsyncClient(timeout=DEADLINE_S, limits=limits, trust_env=False)


class Floor:
    """Search, shallow and deep as a careful person writes them by hand: no check, no policy, no barrier."""

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self.http = make_client()
        self.llm = AsyncOpenAI(base_url=f"{upstream}/v1", api_key="x", http_client=self.http, max_retries=0)

    async def search(self, query: str) -> Hits:
        answer = await self.http.get(f"{self.upstream}/search", params={"q": query, "format": "json"})
        return answer.json()["results"]  # type: ignore[no-any-return]

    async def shallow(self, question: str) -> str:
        return await self.write(question, await self.search(question))

    async def deep(self, question: str) -> str:
        plan = await self.ask([{"role": "user", "content": PLAN.format(question=question)}])
        queries = [line.removeprefix("Question:").strip() for line in plan.splitlines()]
        found = await asyncio.gather(*map(self.search, queries))
        unique = {hit["url"]: hit for part in found for hit in part}
        return await self.write(question, list(unique.values()))

    async def write(self, question: str, hits: Hits) -> str:
        sources = "\n\n".join(f"[{n}] {hit['title']}\n{hit['url']}\n{hit['content']}" for n, hit in enumerate(hits, 1))
        user = ANSWER.format(sources=sources, question=question)
        messages: Any = [{"role": "system", "content": RULES}, {"role": "user", "content": user}]
        stream = await self.llm.chat.completions.create(model="fake", messages=messages, stream=True, max_tokens=2048)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])

    async def ask(self, messages: Any) -> str:
        answer = await self.llm.chat.completions.create(model="fake", messages=messages)
        return answer.choices[0].message.content or ""

    async def close(self) -> None:
        await self.http.aclose()


if __name__ == "__main__":
    print(asyncio.run(Floor(os.environ["FLOOR_UPSTREAM"]).shallow(sys.argv[1])))
