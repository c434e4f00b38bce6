"""Kills reports: `make crash-reports`. It kills and restarts a report over a scripted web until the report is done, many times.

A kill is a SIGKILL after each upstream answer in turn, or at any moment. A restarted report must not ask for a stored answer
again, and it must equal a report that was never killed.

python -m tests.crash.report_kills --kills 200
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from operator import methodcaller
from pathlib import Path

from tests.support.killed_report import KilledReport, content_of, difference, kind_of
from tests.support.loopback_upstream import Loopback, serving
from tests.support.report_chain import ChainUpstream

MAX_KILLS = 1000  # per report
SHARE_IN_TURN = 0.05  # of the reports with several kills, those that are killed after each answer in turn


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


@dataclass
class Campaign:
    """Kills many reports and compares each one with a report that was never killed."""

    loopback: Loopback
    folder: Path
    kills: int
    chance: random.Random
    done: int = 0
    reports: int = 0
    repeats: int = 0
    faults: list[str] = field(default_factory=list)

    async def run(self) -> None:
        undisturbed = KilledReport(self.loopback, self.folder / "whole")
        self.whole = content_of(await undisturbed.finish())
        [attempt] = undisturbed.attempts
        kinds = dict(Counter(map(kind_of, attempt.answered)))
        say(
            f"undisturbed: {kinds}, {self.whole['metadata']['rounds']} rounds, {attempt.seconds:.1f} s from the first request"
        )
        for answers in range(min(self.kills, len(attempt.answered))):
            await self._report(f"after {answers} answers", methodcaller("kill_after", answers), 1)
        while self.done < self.kills:
            if self.chance.random() < SHARE_IN_TURN:
                await self._report("after each answer in turn", methodcaller("kill_after", 1))
            else:
                await self._report("at any moment", lambda case: case.kill_in(self.chance.uniform(0, attempt.seconds)))

    async def _report(self, way: str, kill: Callable[[KilledReport], Awaitable[bool]], times: int = MAX_KILLS) -> None:
        """Kill one report at most `times` times, let it finish, and check what it did."""
        case = KilledReport(self.loopback, self.folder / str(self.reports))
        killed = 0
        while killed < times and self.done < self.kills and await kill(case):
            self.done, killed = self.done + 1, killed + 1
        finished = await case.finish()
        answer, spent, asked = content_of(finished), finished["metadata"], case.attempts[-1].kinds
        replays = [await case.finish(), await case.finish("--offline")]
        if (spent["searches"], spent["llm_calls"]) != (
            asked["search"],
            asked.total() - asked["search"] - asked["read"],
        ):
            self.faults.append(
                f"{way}: {spent['searches']} searches and {spent['llm_calls']} calls are told, of {dict(asked)}"
            )
        if broken := case.repeated():
            self.faults.append(f"{way}: asked for again: {broken}")
        if answer != self.whole:
            self.faults.append(f"{way}: another report: {difference(answer, self.whole)}")
        self.faults += [
            f"{way}: the replay differs: {difference(replay, answer)}"
            for replay in map(content_of, replays)
            if replay != answer
        ]
        answered = sum((attempt.answered for attempt in case.attempts), Counter[str]())
        self.reports, self.repeats = self.reports + 1, self.repeats + answered.total() - len(answered)
        say(f"{way}: {killed} kills, {self.done} of {self.kills}, {len(self.faults)} faults")


async def run(kills: int, seed: int) -> int:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        async with serving(ChainUpstream().handle) as loopback:
            campaign = Campaign(loopback, Path(folder), kills, random.Random(seed))
            await campaign.run()
    for fault in campaign.faults:
        say(fault)
    seconds, faults = time.monotonic() - began, len(campaign.faults)
    say(f"{campaign.done} kills of {campaign.reports} reports in {seconds:.0f} s: {faults} faults")
    say(f"{campaign.repeats} answers that were on their way at a kill, and not stored, were asked for again")
    return 1 if campaign.faults else 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill reports, then look whether anything was paid for twice")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    return asyncio.run(run(options.kills, options.seed))


if __name__ == "__main__":
    sys.exit(main())
