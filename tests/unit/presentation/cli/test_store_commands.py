"""The commands `topics` and `cache`: for people, for programs, and what they ask before they remove."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import pytest
from tests.unit.presentation.cli.fakes import no_worker, piped_console, terminal_console

from modules.llm_platform.application.services.store_service import StoreService
from modules.llm_platform.domain.dtos.store_dtos import EndsTopic
from modules.llm_platform.domain.exceptions import StoreError
from modules.llm_platform.domain.store_key import topic_of
from modules.llm_platform.presentation.cli import cache_commands, topics_commands
from modules.llm_platform.presentation.cli.main import run
from modules.llm_platform.presentation.cli.setup import Wiring
from modules.llm_platform.testing import MemoryResearchStore, made_up_page
from shared.config import Settings

TIDES, LOOPS = topic_of("What are tides?"), topic_of("How do\nloops\x1b[2J run?")
DAY_S = 86_400


class Ended(NamedTuple):
    code: int
    out: str
    err: str


class Platform:
    """A platform that has a store and nothing else."""

    def __init__(self, store: MemoryResearchStore) -> None:
        self.store = StoreService(store)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class Clock:
    now = time.time()

    def __call__(self) -> float:
        return self.now


class Report(EndsTopic):
    text: str = "There is water."


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> MemoryResearchStore:
    """Two entries of an unfinished topic; a day later a finished one."""
    store = MemoryResearchStore(30, clock)

    async def fill() -> None:
        await store.put(LOOPS, "search_queries", "q", made_up_page("https://example.org", "x"))
        await store.put(LOOPS, "docs", "d", made_up_page("https://example.org", "x" * 20_000))
        clock.now += DAY_S
        await store.put(TIDES, "answers", "a", Report())
        await store.get(TIDES, "answers", "a", Report)

    asyncio.run(fill())
    return store


@pytest.fixture
def command(
    store: MemoryResearchStore, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Ended]:
    """Carries out a command line; with `says` on a terminal where a person answers that."""

    def carry_out(*arguments: str, says: str | None = None) -> Ended:
        console, out, err = piped_console() if says is None else terminal_console(says)
        for module in (topics_commands, cache_commands):
            monkeypatch.setattr(module, "Console", lambda: console)

        def build(settings: Settings) -> Any:
            return Platform(store)

        code = run(arguments, Wiring(build, lambda settings: (), lambda settings: False, lambda settings: None, no_worker))
        said = capsys.readouterr()
        return Ended(code, said.out + out.getvalue(), said.err + err.getvalue())

    return carry_out


def answered(ended: Ended) -> Any:
    assert (ended.code, ended.err) == (0, "")
    return json.loads(ended.out)


def test_the_list_of_topics(command: Callable[..., Ended]) -> None:
    """Question, name, state, date and size, newest first; nothing steers the terminal."""
    ended = command("topics", "list")
    lines = ended.out.splitlines()
    assert (ended.code, ended.err, len(lines)) == (0, "", 4)
    assert lines[0] == "What are tides?"
    assert lines[1].startswith(f"  {TIDES.name}  finished, 20")
    assert lines[2] == "How do loops run?"
    assert ", 2 entries, 20 kB" in lines[3]
    assert "unfinished" in lines[3]


def test_the_list_of_topics_as_json(command: Callable[..., Ended]) -> None:
    """All that is known of each."""
    topics = answered(command("topics", "list", "--json"))["topics"]
    assert [topic["query"] for topic in topics] == [TIDES.query, LOOPS.query]
    assert set(topics[0]) == {"name", "query", "entries", "bytes", "oldest", "newest", "finished"}


def test_nothing_is_kept(command: Callable[..., Ended]) -> None:
    """An empty store is no error."""
    assert answered(command("cache", "clear", "--json", "--yes")) == {"removed": 3}
    assert command("topics", "list") == (0, "Nothing is kept.\n", "")
    assert answered(command("topics", "list", "--json")) == {"topics": []}


def test_one_topic(command: Callable[..., Ended]) -> None:
    """By the beginning of its name; its entries in the order of the stages."""
    ended = command("topics", "show", "how")
    assert (ended.code, ended.err) == (0, "")
    assert [line.split()[0] for line in ended.out.splitlines()[3:]] == ["search_queries", "docs"]
    told = answered(command("topics", "show", "How do\nloops\x1b[2J run?", "--json"))
    assert told["topic"]["name"] == LOOPS.name
    assert [entry["stage"] for entry in told["entries"]] == ["search_queries", "docs"]
    assert set(told["entries"][0]) == {"stage", "key", "made_at", "bytes"}


def test_statistics(command: Callable[..., Ended]) -> None:
    """One line for each stage, and the sum."""
    lines = command("cache", "stats").out.splitlines()
    assert len(lines) == 9
    assert lines[0].split() == ["stage", "entries", "size", "hits", "misses", "oldest", "to", "newest"]
    assert lines[7].split()[:2] == ["answers", "1"]
    assert lines[7].split()[4:6] == ["1", "0"]
    assert lines[2].endswith("-")
    assert lines[8].startswith("2 topics, 3 entries, 2")
    told = answered(command("cache", "stats", "--json"))
    assert set(told) == {"stages", "topics", "damaged"}


@pytest.mark.parametrize(
    ("arguments", "left"),
    [(("topics", "clear", "what"), 1), (("cache", "clear"), 0), (("cache", "clean"), 1)],
)
def test_removing_is_asked_first(
    arguments: tuple[str, ...], left: int, command: Callable[..., Ended], clock: Clock
) -> None:
    """On a terminal nothing goes without a yes, unless --yes says so; the answer tells how much it was."""
    clock.now += 29.5 * DAY_S
    refused = command(*arguments, says="n\n")
    assert (refused.code, "nothing was changed" in refused.err, "[y/N]" in refused.err) == (1, True, True)
    assert len(answered(command("topics", "list", "--json"))["topics"]) == 2
    agreed = command(*arguments, says="yes\n")
    assert agreed.code == 0
    assert "removed" in agreed.out
    assert len(answered(command("topics", "list", "--json"))["topics"]) == left


@pytest.mark.parametrize("arguments", [("topics", "clear", "what"), ("cache", "clear"), ("cache", "clean")])
def test_yes_asks_nothing(arguments: tuple[str, ...], command: Callable[..., Ended]) -> None:
    """Neither on a terminal with --yes nor in a pipe."""
    assert "[y/N]" not in command(*arguments, "--yes", says="").err
    assert command(*arguments[:1], "list" if arguments[0] == "topics" else "stats").code == 0


def test_cleaning_names_the_days(command: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the person knows what goes."""
    monkeypatch.setenv("STORE_TTL_DAYS", "7.5")
    assert "older than 7.5 days?" in command("cache", "clean", says="n\n").err
    assert command("cache", "clean", says="y\n").out == "0 entries removed\n"


def test_carrying(command: Callable[..., Ended], store: MemoryResearchStore, tmp_path: Path) -> None:
    """Out, away, and in again; the answer counts, also what was left out."""
    file = str(tmp_path / "x.zip")
    assert command("cache", "export", file, "--topic", "how").out == f"2 entries written to {file}\n"
    assert answered(command("cache", "export", file, "--json")) == {"exported": 3, "file": file}
    command("topics", "clear", "how")
    assert command("cache", "import", file).out == (
        "2 entries taken, 1 left out that are not newer than what is here\n"
    )
    assert answered(command("cache", "import", file, "--json")) == {"taken": 0, "kept": 3, "expired": 0}


def test_what_grew_old_in_its_archive_is_named(command: Callable[..., Ended], tmp_path: Path, clock: Clock) -> None:
    """Nobody has to guess why nothing came."""
    file = str(tmp_path / "x.zip")
    command("cache", "export", file)
    clock.now += 31 * DAY_S
    assert command("cache", "import", file).out == ("0 entries taken, 3 left out that are older than STORE_TTL_DAYS\n")


def test_an_archive_is_replaced_when_the_person_agrees(command: Callable[..., Ended], tmp_path: Path) -> None:
    """Also where it is none."""
    file = tmp_path / "x.zip"
    file.write_text("mine")
    assert command("cache", "export", str(file), says="n\n").code == 1
    assert file.read_text() == "mine"
    assert command("cache", "export", str(file), says="y\n").code == 0
    assert file.read_bytes().startswith(b"PK")


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("topics", "show", "../x"), 1, "llm-platform: There is no such topic"),
        (("topics", "clear", "../x", "--yes"), 1, "llm-platform: There is no such topic"),
        (("topics", "clear", "/etc", "--yes"), 1, "no such topic"),
        (("cache", "export", "x.zip", "--topic", "../x"), 1, "no such topic"),
        (("cache", "export", "no-such-folder/x.zip"), 1, "cannot be written"),
        (("cache", "import", "missing.zip"), 1, "there is no such file"),
        (("cache", "import", "."), 1, "there is no such file"),
        (("topics", "show"), 2, "TOPIC"),
        (("topics", "clear", "--yes"), 2, "TOPIC"),
        (("cache", "export"), 2, "FILE.zip"),
        (("cache", "export", "."), 2, "is a directory"),
        (("cache", "vacuum"), 2, "vacuum"),
    ],
)
def test_how_it_ends(arguments: tuple[str, ...], code: int, says: str, command: Callable[..., Ended]) -> None:
    """One line on standard error and an exit code; nothing on standard output."""
    ended = command(*arguments)
    assert (ended.code, ended.out) == (code, "")
    assert says in ended.err


def test_an_unusable_store_is_an_error(
    command: Callable[..., Ended], store: MemoryResearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not an empty list."""

    async def unusable() -> Any:
        raise StoreError("the store's folder cannot be used")

    monkeypatch.setattr(store, "topics", unusable)
    assert command("topics", "list") == (1, "", "llm-platform: the store's folder cannot be used\n")


def test_damage_is_counted(
    command: Callable[..., Ended], store: MemoryResearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person hears that something was set aside."""
    told = asyncio.run(store.stats()).model_copy(update={"damaged": 2, "topics": 1})

    async def stats() -> Any:
        return told

    monkeypatch.setattr(store, "stats", stats)
    last = command("cache", "stats").out.splitlines()[-1]
    assert last.startswith("1 topic, 3 entries, ")
    assert last.endswith(", 2 damaged and set aside")
