"""The commands `researches`: background runs of the shared store, listed, followed and cancelled."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from tests.fakes.research_job_store import MemoryResearchJobStore, claimed, new_job
from tests.unit.presentation.cli.fakes import (
    ANSWER,
    MARKED,
    Ended,
    PlatformPart,
    part_wiring,
    piped_console,
    terminal_console,
)

from modules.llm_platform.application.research.events import Done, Searched, Started
from modules.llm_platform.application.services.research_job_service import ResearchJobService
from modules.llm_platform.domain.dtos.research_job_dtos import JobEvent, ResearchProgress
from modules.llm_platform.domain.ports.research_job_store import IResearchJobStore
from modules.llm_platform.presentation.cli.main import run

Command = Callable[..., Ended]
DONE, WAITING, OTHERS = "a" * 32, "b" * 32, "c" * 32
EVENTS = (
    Started(request_id=DONE),
    Searched(request_id=DONE, query="asyncio", provider="searxng", count=7, cached=False),
    Done(request_id=DONE, response=ANSWER),
)


class Platform(PlatformPart):
    """A platform that has a store of background runs and nothing else."""

    def __init__(self, store: IResearchJobStore) -> None:
        self.research_jobs = ResearchJobService(cast(Any, None), store, None)
        self.seals = self

    async def seal_stored(self, research_id: str, *, owner: str) -> bytes:
        return f"{research_id} of {owner!r}".encode()


async def _fill(store: IResearchJobStore) -> None:
    """A research run that is done, one that waits, and one of the key `alice`."""
    await store.add(new_job(DONE), 9)
    job = await claimed(store)
    events = [JobEvent(number, event.type, event.model_dump_json()) for number, event in enumerate(EVENTS, 1)]
    await store.append(job, [*events[:2], JobEvent(3, "unheard_of", '{"type": "unheard_of"}')], ResearchProgress())
    await store.finish(job, "done", [JobEvent(4, "done", events[2].data)], ResearchProgress(step="done"))
    await store.add(new_job(WAITING), 9)
    await store.add(new_job(OTHERS, "label:alice"), 9)


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Iterator[Command]:
    store = MemoryResearchJobStore()
    asyncio.run(_fill(store))

    def call(*arguments: str, terminal: bool = False) -> Ended:
        console, out, err = terminal_console() if terminal else piped_console()
        code = run(("researches", *arguments), part_wiring(Platform(store)), console)
        printed = capsys.readouterr()
        return Ended(code, printed.out + out.getvalue(), printed.err + err.getvalue())

    yield call
    asyncio.run(store.aclose())


def test_a_list_is_that_of_one_owner_newest_first(command: Command) -> None:
    """Without --key the list has the runs of callers without a key. `--json` prints the response of GET /research."""
    ids = [job["id"] for job in json.loads(command("list", "--json").out)["researches"]]
    assert ids == [WAITING, DONE]
    assert json.loads(command("list", "--limit", "1", "--json").out)["next"].startswith(f"{WAITING}@")
    assert [job["id"] for job in json.loads(command("list", "--key", "alice", "--json").out)["researches"]] == [OTHERS]
    assert command("list", "--key", "bob").out == "No background run is stored.\n"
    plain = command("list")
    assert plain.code == 0
    assert f"  {WAITING}  deep, queued, " in plain.out
    assert command("list", "--before", DONE).out == "No older background run is stored.\n"


def test_a_list_goes_on_after_no_unknown_research(command: Command) -> None:
    """An empty page would say that nothing is older. A run of another key is unknown too."""
    for unknown in ("0" * 32, "zzz", OTHERS):
        refused = command("list", "--before", unknown)
        assert (refused.code, refused.out) == (1, "")
        assert "There is no such research" in refused.err


def test_a_research_that_is_done_is_followed_to_its_answer(command: Command) -> None:
    """A terminal shows the steps, a pipe gets only the answer, and --json prints the response of POST /research."""
    assert MARKED in command("follow", DONE).out
    followed = command("follow", DONE, terminal=True)
    assert (followed.code, "7 results from searxng" in followed.err) == (0, True)
    assert "Coroutines run on an event loop." in followed.out
    assert json.loads(command("follow", DONE, "--json").out) == ANSWER.model_dump(mode="json")


def test_a_research_that_is_done_is_sealed(command: Command, tmp_path: Path) -> None:
    """The file equals the sealed answer of the store, for the owner of the run."""
    assert command("follow", DONE, "--output", str(tmp_path / "a.sealed.zip")).code == 0
    assert (tmp_path / "a.sealed.zip").read_bytes() == f"{DONE} of ''".encode()


def test_a_cancelled_research_ends_those_who_follow(command: Command) -> None:
    """`cancel` and `show` give its state; following it fails with the reason."""
    assert json.loads(command("cancel", WAITING, "--json").out)["status"] == "cancelled"
    assert "deep, cancelled, " in command("show", WAITING).out
    followed = command("follow", WAITING)
    assert (followed.code, followed.out) == (1, "")
    assert "cancelled" in followed.err
    assert json.loads(command("cancel", DONE, "--json").out)["status"] == "done"


def test_a_run_can_be_finished_early(command: Command) -> None:
    """`finish` prints the state of an open run. For an ended run it is an error."""
    assert json.loads(command("finish", WAITING, "--json").out)["status"] == "queued"
    ended = command("finish", DONE)
    assert (ended.code, ended.out) == (1, "")
    assert "has ended" in ended.err


@pytest.mark.parametrize("name", ["show", "follow", "finish", "cancel"])
def test_a_research_of_another_key_does_not_exist(command: Command, name: str) -> None:
    for arguments in ((name, OTHERS), (name, DONE, "--key", "alice"), (name, "unknown")):
        ended = command(*arguments)
        assert (ended.code, ended.out) == (1, ""), arguments
        assert "llm-platform: " in ended.err
    assert command("show", OTHERS, "--key", "alice").code == 0


def test_ctrl_c_leaves_the_research_alone(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C prints how to continue following, and does not cancel the run."""

    async def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ResearchJobService, "get", interrupted)
        ended = command("follow", WAITING, "--key", "a b")
    assert ended.code == 130
    assert f"llm-platform researches follow {WAITING} --key 'a b'" in ended.err
    assert json.loads(command("show", WAITING, "--json").out)["status"] == "queued"
