"""The floors of a report: its stages by hand, once with a barrier after each, once as far overlapped as the data allows.

Ranking is asked for in the long form (an object with seven named values for each result) and every result of every search
is ranked: that is what a straightforward pipeline of these stages does.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

from benchmarks.fake_model import QUERY, SUB_QUESTION
from benchmarks.floor import Floor, Hits

PAGES = 5

PLAN = f"""Split the question into up to three sub-questions for web searches. They cover different sides of it without overlap.
Begin each with the prefix "{SUB_QUESTION}" on a line of its own.

Question: {{question}}"""
QUERIES = f"""Write a search query in Russian and one in English for the topic. Begin each with the prefix "{QUERY}".

Topic: {{question}}"""
RANK = """Rate how well each result serves the query and the direction of the search, each criterion from 0 to 10.
Answer with a JSON array; each title as it stands in the list:
[
  {{"title": "title", "relevance_to_query": 0, "relevance_to_direction": 0, "completeness": 0, "accuracy": 0, "structure": 0,
    "final_rating": 0}}
]
Query: {question}
Direction: {direction}
Results:
{results}"""
SUMMARY = "Summarize the text for the topic: the key facts, short and neutral.\nTopic: {question}\n\n{text}"
REPORT = "Write a structured answer in Markdown with sections, cite the sources as [1].\nQuery: {question}\n\n{sources}"


class ReportFloor(Floor):
    """Plan, queries, searches, rankings of ten, five pages, their summaries, their ranking, the streamed answer."""

    async def staged(self, question: str) -> str:
        """Nobody begins before the last of the stage before has ended."""
        subs = _lines(await self._prompt(PLAN.format(question=question)), SUB_QUESTION)
        plans = await asyncio.gather(*(self._prompt(QUERIES.format(question=sub)) for sub in subs))
        queries = [(sub, query) for sub, plan in zip(subs, plans, strict=True) for query in _lines(plan, QUERY)]
        found = await asyncio.gather(*(self.search(query) for _, query in queries))
        ranked = await asyncio.gather(
            *(self._rank(question, sub, hits) for (sub, _), hits in zip(queries, found, strict=True))
        )
        top = _best(pair for part in ranked for pair in part)
        pages = await asyncio.gather(*(self._page(hit["url"]) for hit in top))
        summaries = await asyncio.gather(*(self._summary(question, page) for page in pages))
        return await self._report(question, top, pages, summaries)

    async def chained(self, question: str) -> str:
        """Plans are read while they are written, branches run on by themselves, a page is summarised once it is read."""
        scored: list[tuple[float, Any]] = []

        async def ranked(sub: str, query: str) -> None:
            scored.extend(await self._rank(question, sub, await self.search(query)))

        async def branch(sub: str) -> None:
            lines = self._streamed_lines(QUERIES.format(question=sub), QUERY)
            await asyncio.gather(*[asyncio.create_task(ranked(sub, query)) async for query in lines])

        async def read(hit: Any) -> tuple[str, str]:
            page = await self._page(hit["url"])
            return page, await self._summary(question, page)

        lines = self._streamed_lines(PLAN.format(question=question), SUB_QUESTION)
        await asyncio.gather(*[asyncio.create_task(branch(sub)) async for sub in lines])
        top = _best(scored)
        pages, summaries = zip(*await asyncio.gather(*map(read, top)), strict=True)
        return await self._report(question, top, pages, summaries)

    async def _report(self, question: str, top: Hits, pages: Sequence[str], summaries: Sequence[str]) -> str:
        texts = {hit["url"]: page for hit, page in zip(top, pages, strict=True)}
        shown = [{**hit, "content": text} for hit, text in zip(top, summaries, strict=True)]
        order = _best(await self._rank(question, question, shown))
        sources = "\n\n".join(f"[{n}] {hit['url']}\n{texts[hit['url']]}" for n, hit in enumerate(order, 1))
        stream = await self._stream(REPORT.format(question=question, sources=sources))
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])

    async def _rank(self, question: str, direction: str, hits: Hits) -> list[tuple[float, Any]]:
        results = "\n".join(f"{n}. {hit['title']}\n{hit['content']}" for n, hit in enumerate(hits, 1))
        told = json.loads(await self._prompt(RANK.format(question=question, direction=direction, results=results)))
        marks = {row["title"]: float(row["final_rating"]) for row in told}
        return [(marks.get(hit["title"], 0.0), hit) for hit in hits]

    async def _page(self, url: str) -> str:
        return (await self.http.get(f"{self.upstream}/r/{url}")).text

    async def _summary(self, question: str, page: str) -> str:
        return await self._prompt(SUMMARY.format(question=question, text=page))

    async def _prompt(self, prompt: str) -> str:
        return await self.ask([{"role": "user", "content": prompt}])

    async def _stream(self, prompt: str) -> Any:
        messages: Any = [{"role": "user", "content": prompt}]
        return await self.llm.chat.completions.create(model="fake", messages=messages, stream=True)

    async def _streamed_lines(self, prompt: str, prefix: str) -> AsyncIterator[str]:
        rest = ""
        async for chunk in await self._stream(prompt):
            rest += (chunk.choices[0].delta.content or "") if chunk.choices else ""
            *whole, rest = rest.split("\n")
            for line in _lines("\n".join(whole), prefix):
                yield line
        for line in _lines(rest, prefix):
            yield line


def _lines(text: str, prefix: str) -> list[str]:
    return [line.removeprefix(prefix).strip() for line in text.splitlines() if line.startswith(prefix)]


def _best(scored: Iterable[tuple[float, Any]]) -> list[Any]:
    """Return the best five, each address once."""
    best: dict[str, tuple[float, Any]] = {}
    for mark, hit in scored:
        if hit["url"] not in best or best[hit["url"]][0] < mark:
            best[hit["url"]] = (mark, hit)
    return [hit for _, hit in sorted(best.values(), key=lambda pair: (-pair[0], pair[1]["url"]))[:PAGES]]
