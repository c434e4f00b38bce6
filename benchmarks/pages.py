"""Deep answers that read their pages: a floor that reads the same pages by hand, and ours, in turn. Prints JSON; see run.py.

    python -m benchmarks.pages memory        MB of each of a hundred at once, in a process of its own

The share of the citations that were checked against a page, where of the ten results of each search one refuses and one never
answers; the model cites the first ten sources in turn. Pages take 50 to 800 ms, all else the usual time.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
from collections import Counter
from typing import Any
from urllib.parse import urlsplit

from benchmarks.common import NO_LATENCY, PAGES_LATENCY, ROOT, USUAL_LATENCY, control, topic
from benchmarks.floor import PLAN, Floor
from benchmarks.in_process import Work, researches
from benchmarks.report_crowd import resident_mb
from trafilatura import extract

from modules.llm_platform import LLMPlatform, ResearchRequest, ResearchResponse
from modules.llm_platform.container import build_platform
from shared.config import Settings

PAGES = 4
AT_ONCE_ROUNDS = 20  # upstreams at 0 ms
USUAL_ROUNDS = 6
SHARE_ROUNDS = 8
CROWD, WARM = 100, 10
PATIENT_S = 10.0  # READ_S of what is timed: on a busy machine the first page waits for its parser
PARSER_END_S = 2.0
FIRST = 1000  # the number of the first question of each measurement, so that none is asked twice
REFUSED, HUNG, CITED = [3], [5], 10


class PagesFloor(Floor):
    """A deep research that puts the text of four pages into its prompt. They are fetched at once and read in threads."""

    async def deep(self, question: str) -> str:
        plan = await self.ask([{"role": "user", "content": PLAN.format(question=question)}])
        queries = [line.removeprefix("Question:").strip() for line in plan.splitlines()]
        found = await asyncio.gather(*map(self.search, queries))
        hits = list({hit["url"]: hit for part in found for hit in part}.values())
        texts = await asyncio.gather(*(self._page(hit["url"]) for hit in hits[:PAGES]))
        read = [{**hit, "content": text} for hit, text in zip(hits, texts, strict=False)]
        return await self.write(question, [*read, *hits[PAGES:]])

    async def _page(self, url: str) -> str:
        answer = await self.http.get(url)
        return await asyncio.to_thread(extract, answer.text, fast=True, favor_precision=True) or ""


async def answer_of(platform: LLMPlatform, question: str) -> ResearchResponse | None:
    async for event in platform.research.stream(ResearchRequest(query=question, depth="deep")):
        if event.type == "done":
            return event.response
    return None


def deep_of(platform: LLMPlatform) -> Work:
    async def deep(question: str) -> str:
        answer = await answer_of(platform, question)
        assert answer is not None
        assert answer.metadata.pages_read >= PAGES
        return answer.synthesis

    return deep


async def shares(upstream: str, platform: LLMPlatform) -> dict[str, Any]:
    """Return how many citations were checked against what, those apart whose page cannot be read."""
    control(upstream, "pages", {"hosts": True, "refused": REFUSED, "hung": HUNG, "cited": CITED})
    control(upstream, "latency", PAGES_LATENCY)
    readable: Counter[str] = Counter()
    others: Counter[str] = Counter()
    pages: Counter[str] = Counter()
    for number in range(SHARE_ROUNDS):
        answer = await answer_of(platform, topic(3 * FIRST + number))
        assert answer is not None
        unread = {source.index for source in answer.sources if _rank(source.url) in (*REFUSED, *HUNG)}
        for citation in answer.citations:
            (others if citation.source_index in unread else readable)[citation.checked_against] += 1
        pages.update({name: getattr(answer.metadata, f"pages_{name}") for name in ("read", "failed", "late")})
    return {"readable": readable, "others": others, "pages": pages}


def _rank(url: str) -> int:
    return int(urlsplit(url).path.rpartition("/")[2])


def children_cpu_s() -> float:
    """CPU of the processes that have ended: the parsers, with their start."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


async def crowd_mb() -> float:
    """MB of each of CROWD at once, at their peak, without the child processes."""
    control(os.environ["FLOOR_UPSTREAM"], "latency", USUAL_LATENCY)
    control(os.environ["FLOOR_UPSTREAM"], "pages", {"hosts": True})
    async with build_platform(reading()) as platform:
        for number in range(WARM):
            await answer_of(platform, topic(4 * FIRST + number))
        before = resident_mb("VmRSS")
        await asyncio.gather(*(answer_of(platform, topic(5 * FIRST + number)) for number in range(CROWD)))
    return (resident_mb("VmHWM") - before) / CROWD


def reading(seconds: float | None = PATIENT_S) -> Settings:
    """Settings with the usual number of pages; None for the usual seconds."""
    return Settings.load().model_copy(update={"READ_PAGES": None, "READ_S": seconds})


async def main() -> None:
    upstream = os.environ["FLOOR_UPSTREAM"]
    floor = PagesFloor(upstream)
    result: dict[str, Any] = {}
    control(upstream, "pages", {"hosts": True})
    async with build_platform(reading()) as platform:
        control(upstream, "latency", NO_LATENCY)
        result["none"] = await researches(upstream, floor.deep, deep_of(platform), AT_ONCE_ROUNDS)
        control(upstream, "latency", PAGES_LATENCY)
        result["usual"] = await researches(upstream, floor.deep, deep_of(platform), USUAL_ROUNDS, first=FIRST)
    await asyncio.sleep(PARSER_END_S)
    result["children_cpu_s"] = children_cpu_s() / (AT_ONCE_ROUNDS + USUAL_ROUNDS + 2)
    async with build_platform(reading(None)) as platform:
        result["shares"] = await shares(upstream, platform)
    await floor.close()
    result["mb"] = json.loads(
        subprocess.run(_words("memory"), cwd=ROOT, capture_output=True, text=True, check=True).stdout
    )
    print(json.dumps(result))


def _words(*more: str) -> list[str]:
    return [sys.executable, "-m", "benchmarks.pages", *more]


if __name__ == "__main__":
    if sys.argv[1:] == ["memory"]:
        print(asyncio.run(crowd_mb()))
    else:
        asyncio.run(main())
