"""The suites for remote services, run by their commands with an instance that replays recordings."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from dataclasses import dataclass

import pytest
from tests.docs.pages import ROOT
from tests.support.loopback_upstream import Exchange, by_query, recorded, reply, serving

SUITES = ("tests/contracts/test_searxng_web_search.py", "tests/contracts/test_qdrant_vector_store.py")
NOBODY_LISTENS = "http://127.0.0.1:9"
USAGE_ERROR = 4

pytestmark = pytest.mark.services


@dataclass(frozen=True)
class Ended:
    code: int
    said: str

    def count(self, outcome: str) -> int:
        """Return how many tests ended so, by pytest's last line."""
        found = re.findall(rf"(\d+) {outcome}", self.said.strip().splitlines()[-1])
        return int(found[0]) if found else 0


async def run(mark: str, **variables: str) -> Ended:
    """Run pytest with this mark on the suites of all services, with only these variables."""
    env = {name: value for name, value in os.environ.items() if "_TEST_" not in name and not name.startswith("PYTEST_")}
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "pytest",
        "-m",
        mark,
        "-q",
        "--tb=line",
        "-p",
        "no:cacheprovider",
        *SUITES,
        cwd=ROOT,
        env={**env, **variables},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await child.communicate()
    assert child.returncode is not None
    return Ended(child.returncode, out.decode())


def searched(exchange: Exchange) -> bool:
    """Return whether the request has a query. A request without one checks whether JSON is enabled."""
    return "q=" in exchange.body.decode()


async def searxng(exchange: Exchange) -> None:
    """An instance that replays recorded answers."""
    if exchange.path == "/healthz":
        await reply(200, b"OK")(exchange)
    elif not searched(exchange):
        await recorded("searxng/11_missing_q_400")(exchange)
    else:
        nothing = recorded("searxng/10_empty_result")
        answers = {"unicode": recorded("searxng/07_engines_list"), "zzqxvjk wqqzzt vxqqjzk": nothing}
        await by_query(answers)(exchange)


async def test_the_suite_of_searxng_runs() -> None:
    """With its variable the suite passes, and runs no test of other services.

    It searches the query that a variable names.
    """
    async with serving(searxng) as upstream:
        ended = await run("live_searxng", SEARXNG_TEST_URL=upstream.url, SEARXNG_TEST_QUERY="unicode")
        asked = {exchange.form["q"] for exchange in upstream.requests if searched(exchange)}
    assert ended.code == 0, ended.said
    assert ended.count("passed") >= 8
    assert ended.count("skipped") == 0
    assert asked == {"unicode", "zzqxvjk wqqzzt vxqqjzk"}


async def test_the_suite_of_qdrant_reaches_the_server_that_was_named() -> None:
    """With an address on which nothing listens, every test fails at this address."""
    ended = await run("live_qdrant", QDRANT_TEST_URL=NOBODY_LISTENS)
    assert ended.code == 1
    assert ended.count("passed") == 0
    assert ended.count("errors") + ended.count("failed") >= 20
    assert "Connect" in ended.said
    assert "KeyError" not in ended.said


async def test_a_suite_without_its_variable_asks_for_it() -> None:
    """The output is one line with the variable and an example."""
    ended = await run("live_qdrant", SEARXNG_TEST_URL=NOBODY_LISTENS)
    assert ended.code == USAGE_ERROR
    assert re.search(r"ERROR: QDRANT_TEST_URL is not set: .*for instance \w+=http://", ended.said)
    assert "KeyError" not in ended.said
