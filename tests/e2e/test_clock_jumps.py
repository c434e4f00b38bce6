"""A server whose system clock jumps forward or back by hours while it works."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.e2e.test_background_researches import PATIENCE_S, server
from tests.support.forked_command import COMMAND_LINE
from tests.support.loopback_upstream import serving
from tests.support.report_upstream import Upstream

HOUR_S = 3600.0


def with_a_clock_that_jumps(offset: Path) -> str:
    """Return a program that runs `llm-platform` with its clock shifted by the seconds in the file."""
    return f"""
import pathlib, time
real, offset = time.time, pathlib.Path({str(offset)!r})
time.time = lambda: real() + float(offset.read_text() or 0)
{COMMAND_LINE}
"""


@pytest.mark.parametrize("jump_s", [3 * HOUR_S, -3 * HOUR_S])
async def test_a_run_continues_when_the_clock_is_set(tmp_path: Path, jump_s: float) -> None:
    """A clock jump does not restart a running job or count as a crash, and later jobs are still executed."""
    clock = tmp_path / "offset"
    clock.write_text("0")
    upstream = Upstream(silent_from=10)
    async with serving(upstream.handle) as loopback, server(loopback, tmp_path, with_a_clock_that_jumps(clock)) as one:
        name = await one.submit()
        await asyncio.wait_for(upstream.reached.wait(), PATIENCE_S)
        upstream.silent_from, upstream.reached = 10_000, asyncio.Event()
        before = lease_until(tmp_path, name)
        clock.write_text(str(jump_s))
        for number in range(3):
            other = await one.submit(depth="shallow", query=f"What is heat pump number {number}?")
            assert (await one.events(other))[-1]["type"] == "done"
        async with asyncio.timeout(PATIENCE_S):
            while abs(lease_until(tmp_path, name) - before - jump_s) > HOUR_S:  # the renewed lease uses the new time
                await asyncio.sleep(0.1)
        state = await one.state(name)
        assert (state["status"], state["attempts"]) == ("running", 1)
        assert (await one.client.delete(f"/research/{name}")).json()["status"] == "cancelled"
        assert await one.stop() == 0


def lease_until(data: Path, name: str) -> float:
    with closing(sqlite3.connect(data / "researches.sqlite3", timeout=PATIENCE_S)) as connection:
        [(until,)] = connection.execute("SELECT lease_until FROM research_job WHERE id = ?", (name,))
    return float(until)
