"""A report in a separate process with a scripted web, which is killed and run again. Repeated requests are counted."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from tests.support.forked_command import ForkedCommand, forked
from tests.support.loopback_upstream import Loopback
from tests.support.report_chain import QUESTION, ChainUpstream
from tests.support.report_upstream import environment
from tests.support.server_process import asleep

from modules.llm_platform.domain.concurrency.task_group import cancel_and_wait
from modules.llm_platform.domain.dtos import report_dtos as report
from modules.llm_platform.domain.dtos.citation_dtos import StoredVerdicts
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.store_dtos import StoreStage
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchResponse
from modules.llm_platform.domain.research.store_key import make_topic
from modules.llm_platform.infrastructure.stores.research_runs.disk import DiskResearchStore

COMMAND = ("research", QUESTION, "--depth", "report", "--yes", "--json")
PATIENCE_S = 180.0
TTL_DAYS = 30.0
OF_ONE_RUN = {  # metadata that describes a single run
    "request_id",
    "latency_ms",
    "stored_at",
    "cache_hit",
    "tokens_used",
    "prompt_tokens",
    "completion_tokens",
    "cost_usd",
    "searches",
    "llm_calls",
    "sent_to",
    "cached_sent_to",
    "pages_read",
}
# The stored entries of upstream answers, one for each answer.
ENTRIES: Mapping[str, tuple[tuple[StoreStage, type[BaseModel]], ...]] = {
    "plan": (("search_queries", report.ResearchPlan),),
    "queries": (("search_queries", report.SearchQueries),),
    "round": (("search_queries", report.RoundAnswer),),
    "search": (("search_results", WebSearchResponse),),
    "rank": (("ranked_results", report.RankedBatch), ("ranked_summaries", report.RankedSummaries)),
    "read": (("docs", Page),),
    "summarize": (("summaries", report.Summary),),
    "write": (("answers", report.KeptSynthesis),),
    "judge": (("answers", StoredVerdicts),),
}


def kind_of(name: str) -> str:
    """Return the kind of a request by its name: "search" of "search heat pumps"."""
    return name.partition(" ")[0]


async def stored_counts(data: Path) -> Counter[str]:
    """Return how many answers of each kind the store of the report has."""
    store, topic = DiskResearchStore(data / "store", TTL_DAYS), make_topic(QUESTION)
    return Counter(
        {
            kind: sum([len(await store.values(topic, stage, model)) for stage, model in entries])
            for kind, entries in ENTRIES.items()
        }
    )


@dataclass
class Attempt:
    """One process of a report: its answers, and how many answers of each kind were not stored when it ended."""

    answered: Counter[str]
    lost: Counter[str]
    seconds: float  # from the first request to the end

    @property
    def kinds(self) -> Counter[str]:
        """The number of answered requests of each kind."""
        return Counter(kind_of(name) for name in self.answered.elements())


@dataclass
class KilledReport:
    """A report that is killed several times. `upstream` serves the running process."""

    loopback: Loopback
    data: Path
    upstream: ChainUpstream = field(default_factory=ChainUpstream)
    attempts: list[Attempt] = field(default_factory=list)

    async def kill_after(self, answers: int = 10_000, kind: str = "") -> bool:
        """Run the report, and kill it when it is idle after this many answers, or after the first answer of this kind.

        Return False if it ended earlier.
        """
        async with self._running(ChainUpstream(silent_from=answers, silent_after=kind)) as process:
            ended = await _first(self.upstream.reached.wait(), process)
            if not ended:
                await asleep(process)
        self.attempts[-1].lost.clear()  # it had enough time to store the answers
        return not ended

    async def kill_in(self, seconds: float) -> bool:
        """Run the report, and kill it this long after its first request. Return False if it ended earlier."""
        async with self._running(ChainUpstream()) as process:
            await _first(self.upstream.begun.wait(), process)
            return not await _first(asyncio.sleep(seconds), process)

    async def finish(self, *more: str) -> dict[str, Any]:
        """Run the report to its end, and return it."""
        async with self._running(ChainUpstream(), *more) as process:
            await process.wait()
        return dict(json.loads(process.output.read_text()))

    def repeated(self) -> list[str]:
        """Return what was requested again although it was stored: more requests of a kind than answers lost by kills."""
        broken: list[str] = []
        for number, attempt in enumerate(self.attempts):
            later = {name for other in self.attempts[number + 1 :] for name in other.answered}
            again = Counter(kind_of(name) for name in attempt.answered if name in later)
            excess = {kind for kind, count in again.items() if count > attempt.lost[kind]}
            broken += [name for name in attempt.answered if name in later and kind_of(name) in excess]
            broken += [name for name, count in attempt.answered.items() if count > 1]
        return broken

    @asynccontextmanager
    async def _running(self, upstream: ChainUpstream, *more: str) -> AsyncIterator[ForkedCommand]:
        """Run the report in a separate process, which is killed at the end of the block, and record the attempt."""
        self.upstream, self.loopback.handler = upstream, upstream.handle
        before = await stored_counts(self.data)
        env = {**environment(self.loopback, self.data), "READERS": "direct"}  # the links of a page are in its HTML
        async with forked((*COMMAND, *more), env, self.data / "errors") as process, asyncio.timeout(PATIENCE_S):
            yield process
            if process.has_failed:
                raise AssertionError(process.errors.read_text())
        new = await stored_counts(self.data) - before
        answered = Counter(kind_of(name) for name in upstream.answered.elements())
        seconds = asyncio.get_running_loop().time() - upstream.began if upstream.began else 0.0
        self.attempts.append(Attempt(Counter(upstream.answered), answered - new, seconds))


async def _first(moment: Coroutine[Any, Any, object], process: ForkedCommand) -> bool:
    """Wait for the event. Return True if the process ended earlier."""
    waiting, ended = asyncio.create_task(moment), asyncio.create_task(process.wait())
    done, _ = await asyncio.wait([waiting, ended], return_when=asyncio.FIRST_COMPLETED)
    await cancel_and_wait(waiting, ended)
    return ended in done


def content_of(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a kill must not change in a report: everything except its id, its times, and the cost of this run."""
    return {**answer, "metadata": {name: value for name, value in answer["metadata"].items() if name not in OF_ONE_RUN}}


def difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Return the fields that differ, with both values."""
    differing = [name for name in {**one, **other} if one.get(name) != other.get(name)]
    return "; ".join(
        f"{name}: {json.dumps(one.get(name))[:600]} / {json.dumps(other.get(name))[:600]}" for name in differing
    )
