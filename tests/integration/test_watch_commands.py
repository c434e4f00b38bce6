"""The `watch` commands for a question about a folder, offline, without a server or a model."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from tests.fakes.research_job_store import new_job
from tests.fakes.watch_store import MANY, change, finish, new_watch
from tests.support.cases import for_each
from tests.support.forked_command import COMMAND_LINE, run_forked
from tests.support.loopback_upstream import serving
from tests.support.watched_page import HOURS, NEW_TOLL, QUESTION, SECRET, TOLL, World

from modules.llm_platform.domain.ports.watch_store import WatchSelection
from modules.llm_platform.infrastructure.stores.research_jobs.sqlite import SqliteResearchJobStore
from modules.llm_platform.infrastructure.stores.watches.sqlite import SqliteWatchStore
from modules.llm_platform.presentation.cli.commands.watch import parse_every
from modules.llm_platform.presentation.cli.options import WrongUseError

PATIENCE_S = 120.0


class Commands:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.document = folder / "documents" / "bridge.md"
        self.document.parent.mkdir()
        self.store = folder / "data" / "watches.sqlite3"

    def write(self, toll: str) -> None:
        self.document.write_text(f"# Harbour bridge\n\n{toll}\n\n{HOURS}\n")

    def run(self, *arguments: str, **env: str) -> CompletedProcess[str]:
        own = {
            "LLM_PLATFORM_DATA_DIR": str(self._folder / "data"),
            "DOCUMENTS_DIR": str(self.document.parent),
            "SEARCH_PROVIDERS": "documents",
            "LLM_PLATFORM_OFFLINE": "true",
        }
        return run_forked(COMMAND_LINE, "watch", *arguments, timeout=PATIENCE_S, env={**os.environ, **own, **env})

    def json(self, *arguments: str, **env: str) -> Any:
        done = self.run(*arguments, "--json", **env)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def commands(tmp_path: Path) -> Commands:
    commands = Commands(tmp_path)
    commands.write(TOLL)
    return commands


def test_a_question_is_watched_from_the_first_run_to_its_removal(commands: Commands) -> None:
    """`run` prints only changes, and the list shows the time of the next run."""
    added = commands.run("add", QUESTION, "--every", "6h", "--sources", "documents")
    assert added.returncode == 0, added.stderr
    assert "every 6h" in added.stdout
    assert "At most for each run: " in added.stdout
    [watch] = commands.json("list")["watches"]
    first = commands.run("run")
    assert (first.returncode, first.stdout) == (0, "")
    assert commands.json("run") == {"runs": []}
    commands.write(NEW_TOLL)
    told = commands.run("run", watch["id"])
    assert told.returncode == 0, told.stderr
    for part in ("≠ changed", TOLL, NEW_TOLL, "doc:bridge.md", "2 runs, 1 change"):
        assert part in told.stdout
    shown = commands.json("show", watch["id"])
    assert (shown["watch"]["runs"], [change["kind"] for change in shown["changes"]]) == (2, ["changed"])
    assert NEW_TOLL in commands.run("show", watch["id"]).stdout
    assert commands.run("remove", watch["id"]).returncode == 0
    assert commands.run("list").stdout.strip() == "No question is watched."
    gone = commands.run("show", watch["id"])
    assert (gone.returncode, gone.stdout) == (1, "")
    assert "There is no such watch" in gone.stderr


@for_each("arguments", [("run",), ("list",), ("show", "a" * 32), ("run", "a" * 32)])
def test_without_a_store_each_command_says_so(commands: Commands, arguments: tuple[str, ...]) -> None:
    refused = commands.run(*arguments, STORE_TTL_DAYS="0")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "STORE_TTL_DAYS" in refused.stderr


async def test_a_watch_that_runs_is_listed_as_running(commands: Commands) -> None:
    """The list does not show the time at which a running watch is polled as its next run."""
    watches = SqliteWatchStore(commands.store)
    await watches.add(new_watch("a"), MANY)
    assert "every 1d, next " in commands.run("list").stdout
    claimed = await watches.claim("t", 60.0)
    assert claimed is not None
    await watches.wait(claimed, 30.0)
    assert "every 1d, running, 0 runs" in commands.run("list").stdout


def test_an_invalid_id_is_not_a_list_position(commands: Commands) -> None:
    refused = commands.run("list", "--before", "zzz")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--before" in refused.stderr


def test_a_failed_run_ends_with_1(commands: Commands) -> None:
    """A failed run prints one line with the reason, which the watch also shows."""
    watch = commands.json("add", QUESTION, "--url", "https://example.org/toll")
    done = commands.run("run", watch["id"])
    assert done.returncode == 1
    [line] = [line for line in done.stderr.splitlines() if line.startswith("llm-platform: 1 run of 1 failed")]
    [found] = commands.json("list")["watches"]
    assert found["problem"]
    assert found["problem"] in line


def test_watches_of_a_key_are_apart(commands: Commands) -> None:
    commands.json("add", QUESTION, "--sources", "documents", "--key", "alice")
    assert commands.json("list")["watches"] == []
    assert len(commands.json("list", "--key", "alice")["watches"]) == 1
    assert commands.json("run") == {"runs": []}
    commands.json("add", QUESTION, "--sources", "documents", "--key", "bob")
    [made] = commands.json("run", "--key", "alice")["runs"]
    assert made["watch"]["runs"] == 1
    [other] = commands.json("list", "--key", "bob")["watches"]
    assert (other["runs"], other["is_running"]) == (0, False)
    with closing(sqlite3.connect(commands.store)) as connection:
        assert connection.execute("SELECT label FROM watch ORDER BY number").fetchall() == [("alice",), ("bob",)]


def test_an_offline_watch_asks_documents_alone(commands: Commands) -> None:
    """An offline watch stays offline on an online server, and its webhook is only sent to this machine."""
    watch = commands.json("add", QUESTION, "--offline", LLM_PLATFORM_OFFLINE="false")
    assert watch["sources"] == ["documents"]
    hook = ("--webhook", "https://example.org/hook")
    refused = commands.run("add", QUESTION, "--offline", *hook, LLM_PLATFORM_OFFLINE="false", WEBHOOK_SECRET=SECRET)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "offline" in refused.stderr.lower()


async def test_notices_that_could_not_be_delivered_are_tried_again_by_any_run(commands: Commands) -> None:
    """Any run also retries undelivered notices, because without a server nothing else would."""
    world = World()
    async with serving(world.handle) as host:
        address = host.url.removeprefix("http://")
        env = {"WEBHOOK_ALLOWED_HOSTS": address, "WEBHOOK_SECRET": SECRET}
        hook = ("--webhook", f"{host.url}/hook")
        added = await asyncio.to_thread(commands.run, "add", QUESTION, "--sources", "documents", *hook, **env)
        assert added.returncode == 0, added.stderr
        watches = SqliteWatchStore(commands.store)
        claimed = await watches.claim("t", 60.0)
        assert claimed is not None
        await finish(watches, claimed, change("12"), notices=["webhook"])
        done = await asyncio.to_thread(commands.run, "run", **env)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert world.ids == {f"msg_{claimed.id}.1": 1}
    assert await watches.claim_notice(60.0, ["webhook"]) is None


async def test_a_run_of_one_watch_does_no_other_work(commands: Commands) -> None:
    """Running one watch does not run other watches or background runs, and does not deliver notices of others."""
    watch = commands.json("add", QUESTION, "--sources", "documents")
    watches = SqliteWatchStore(commands.store)
    told = await watches.add(new_watch("told"), MANY)
    assert told is not None
    claimed = await watches.claim("t", 60.0, WatchSelection(("",), ("told",)))
    assert claimed is not None
    await finish(watches, claimed, change("12"), notices=["webhook"])
    await watches.add(new_watch("due"), MANY)
    jobs = SqliteResearchJobStore(commands.store.with_name("researches.sqlite3"), 30.0)
    await jobs.add(new_job("waiting"), MANY)
    [made] = commands.json("run", watch["id"])["runs"]
    assert made["watch"]["runs"] == 1
    states = {job.id: job.status for job in await jobs.page("", MANY)}
    assert states == {"waiting": "queued", made["watch"]["last_runs"][0]["job_id"]: "done"}
    notice = await watches.claim_notice(60.0, ["webhook"])
    assert notice is not None
    assert (notice.watch.id, notice.attempt) == ("told", 1)
    due = await watches.get("", "due")
    assert due is not None
    assert due.runs == 0
    await jobs.aclose()


def test_a_run_needs_background_research(commands: Commands) -> None:
    """Without background research the command fails instead of waiting for ever."""
    commands.json("add", QUESTION, "--sources", "documents")
    refused = commands.run("run", MAX_BACKGROUND_RESEARCHES="0")
    assert refused.returncode == 1
    assert "set MAX_BACKGROUND_RESEARCHES to 1 or more" in refused.stderr


@for_each(
    ("arguments", "option"),
    [
        ((QUESTION, "--every", "5m"), "--every"),
        ((QUESTION, "--every", "soon"), "--every"),
        (("a",), "QUESTION"),
        ((QUESTION, "--url", "ftp://example.org"), "--url"),
        ((QUESTION, "--sources", "dreams"), "--sources"),
        ((QUESTION, "--max-cost-usd", "-1"), "--max-cost-usd"),
        ((QUESTION, "--offline", "--sources", "documents,web"), "--sources"),
        ((QUESTION, "--offline", "--url", "https://example.org"), "--url"),
    ],
)
def test_a_wrong_option_is_named(commands: Commands, arguments: tuple[str, ...], option: str) -> None:
    refused = commands.run("add", *arguments)
    assert refused.returncode == 2
    assert option in refused.stderr


def test_times_are_read_as_people_write_them() -> None:
    assert [parse_every(text) for text in ("30m", "6H", " 1d ", "2w")] == [1800, 21_600, 86_400, 1_209_600]
    with pytest.raises(WrongUseError):
        parse_every("400d")
