"""The commands `topics` and `cache`: output for people and programs, and confirmations of removals."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.clock import Clock
from tests.unit.presentation.cli.fakes import Ended, PlatformPart, part_wiring, piped_console, terminal_console

from modules.llm_platform.application.services.store_service import StoreService
from modules.llm_platform.domain.dtos.store_dtos import EndsTopic
from modules.llm_platform.domain.exceptions import StoreError
from modules.llm_platform.domain.research.store_key import make_topic
from modules.llm_platform.presentation.cli.main import run
from modules.llm_platform.testing import MemoryResearchStore, sample_page

TIDES, LOOPS = make_topic("What are tides?"), make_topic("How do\nloops\x1b[2J run?")
DAY_S = 86_400


class Platform(PlatformPart):
    """A platform that has a store and nothing else."""

    def __init__(self, store: MemoryResearchStore) -> None:
        self.store = StoreService(store)


class Report(EndsTopic):
    text: str = "There is water."


@pytest.fixture
def store(clock: Clock) -> MemoryResearchStore:
    """Two entries of an unfinished topic; a day later a finished one."""
    store = MemoryResearchStore(30, clock)

    async def fill() -> None:
        await store.put(LOOPS, "search_queries", "q", sample_page("https://example.org", "x"))
        await store.put(LOOPS, "docs", "d", sample_page("https://example.org", "x" * 20_000))
        clock.now += DAY_S
        await store.put(TIDES, "answers", "a", Report())
        await store.get(TIDES, "answers", "a", Report)

    asyncio.run(fill())
    return store


@pytest.fixture
def command(store: MemoryResearchStore, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Runs a command line; with `says` on a terminal where the user types that."""

    def call(*arguments: str, expected: str | None = None) -> Ended:
        console, out, err = piped_console() if expected is None else terminal_console(expected)
        code = run(arguments, part_wiring(Platform(store)), console)
        printed = capsys.readouterr()
        return Ended(code, printed.out + out.getvalue(), printed.err + err.getvalue())

    return call


def answered(ended: Ended) -> Any:
    assert (ended.code, ended.err) == (0, "")
    return json.loads(ended.out)


def test_topics_are_listed_newest_first(command: Callable[..., Ended]) -> None:
    """Question, name, state, date and size, newest first; nothing steers the terminal."""
    ended = command("topics", "list")
    lines = ended.out.splitlines()
    assert (ended.code, ended.err, len(lines)) == (0, "", 4)
    assert lines[0] == "What are tides?"
    assert lines[1].startswith(f"  {TIDES.name}  finished, 20")
    assert lines[2] == "How do loops run?"
    assert ", 2 entries, 20.5 kB" in lines[3]
    assert "unfinished" in lines[3]


def test_topics_as_json(command: Callable[..., Ended]) -> None:
    """All that is known of each."""
    topics = answered(command("topics", "list", "--json"))["topics"]
    assert [topic["query"] for topic in topics] == [TIDES.query, LOOPS.query]
    assert set(topics[0]) == {"name", "query", "entries", "bytes", "oldest", "newest", "finished"}


def test_empty_store_is_no_error(command: Callable[..., Ended]) -> None:
    """An empty store is no error."""
    assert answered(command("cache", "clear", "--json", "--yes")) == {"removed": 3}
    assert command("topics", "list") == (0, "The store is empty.\n", "")
    assert answered(command("topics", "list", "--json")) == {"topics": []}


def test_topic_is_shown_with_its_entries(command: Callable[..., Ended]) -> None:
    """By the beginning of its name; its entries in the order of the stages."""
    ended = command("topics", "show", "how")
    assert (ended.code, ended.err) == (0, "")
    assert [line.split()[0] for line in ended.out.splitlines()[3:]] == ["search_queries", "docs"]
    result = answered(command("topics", "show", "How do\nloops\x1b[2J run?", "--json"))
    assert result["topic"]["name"] == LOOPS.name
    assert [entry["stage"] for entry in result["entries"]] == ["search_queries", "docs"]
    assert set(result["entries"][0]) == {"stage", "key", "made_at", "bytes"}


def test_stats_have_a_line_for_each_stage(command: Callable[..., Ended]) -> None:
    """One line for each stage, and the sum."""
    lines = command("cache", "stats").out.splitlines()
    assert len(lines) == 9
    assert lines[0].split() == ["stage", "entries", "size", "hits", "misses", "oldest", "to", "newest"]
    assert lines[7].split()[:2] == ["answers", "1"]
    assert lines[7].split()[4:6] == ["1", "0"]
    assert lines[2].endswith("-")
    assert lines[8].startswith("2 topics, 3 entries, 2")
    result = answered(command("cache", "stats", "--json"))
    assert set(result) == {"stages", "topics", "damaged"}


@pytest.mark.parametrize(
    ("arguments", "left"),
    [(("topics", "clear", "what"), 1), (("cache", "clear"), 0), (("cache", "clean"), 1)],
)
def test_removal_needs_confirmation(
    arguments: tuple[str, ...], left: int, command: Callable[..., Ended], clock: Clock
) -> None:
    """A terminal asks before a removal unless --yes is given. The output says how much was removed."""
    clock.now += 29.5 * DAY_S
    refused = command(*arguments, expected="n\n")
    assert (refused.code, "nothing was changed" in refused.err, "[y/N]" in refused.err) == (1, True, True)
    assert len(answered(command("topics", "list", "--json"))["topics"]) == 2
    agreed = command(*arguments, expected="yes\n")
    assert agreed.code == 0
    assert "removed" in agreed.out
    assert len(answered(command("topics", "list", "--json"))["topics"]) == left


@pytest.mark.parametrize("arguments", [("topics", "clear", "what"), ("cache", "clear"), ("cache", "clean")])
def test_yes_skips_the_confirmation(arguments: tuple[str, ...], command: Callable[..., Ended]) -> None:
    """There is no question with --yes or in a pipe."""
    assert "[y/N]" not in command(*arguments, "--yes", expected="").err
    assert command(*arguments[:1], "list" if arguments[0] == "topics" else "stats").code == 0


def test_clean_prompt_names_the_days(command: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the person knows what goes."""
    monkeypatch.setenv("STORE_TTL_DAYS", "7.5")
    assert "older than 7.5 days?" in command("cache", "clean", expected="n\n").err
    assert command("cache", "clean", expected="y\n").out == "0 entries removed\n"


def test_export_clear_and_import_round_trip(
    command: Callable[..., Ended], store: MemoryResearchStore, tmp_path: Path
) -> None:
    """Exported, cleared and imported entries are the same. The output counts entries, also skipped ones."""
    file = str(tmp_path / "x.zip")
    assert command("cache", "export", file, "--topic", "how").out == f"2 entries written to {file}\n"
    assert answered(command("cache", "export", file, "--json")) == {"exported": 3, "file": file}
    command("topics", "clear", "how")
    assert command("cache", "import", file).out == (
        "2 entries imported, 1 skipped that are not newer than the stored ones\n"
    )
    assert answered(command("cache", "import", file, "--json")) == {"added": 0, "skipped": 3, "expired": 0}


def test_expired_entries_of_an_archive_are_counted(command: Callable[..., Ended], tmp_path: Path, clock: Clock) -> None:
    """Nobody has to guess why nothing came."""
    file = str(tmp_path / "x.zip")
    command("cache", "export", file)
    clock.now += 31 * DAY_S
    assert command("cache", "import", file).out == (
        "0 entries imported, 3 skipped that are older than STORE_TTL_DAYS\n"
    )


def test_existing_archive_is_replaced_after_confirmation(command: Callable[..., Ended], tmp_path: Path) -> None:
    """The question is also asked if the existing file is no archive."""
    file = tmp_path / "x.zip"
    file.write_text("mine")
    assert command("cache", "export", str(file), expected="n\n").code == 1
    assert file.read_text() == "mine"
    assert command("cache", "export", str(file), expected="y\n").code == 0
    assert file.read_bytes().startswith(b"PK")


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (("topics", "show", "../x"), 1, "llm-platform: There is no such topic"),
        (("topics", "clear", "../x", "--yes"), 1, "llm-platform: There is no such topic"),
        (("topics", "clear", "/etc", "--yes"), 1, "no such topic"),
        (("cache", "export", "x.zip", "--topic", "../x"), 1, "no such topic"),
        (("cache", "export", "no-such-folder/x.zip"), 1, "cannot be written"),
        (("cache", "import", "missing.zip"), 1, "there is no file missing.zip"),
        (("cache", "import", "."), 1, "there is no file ."),
        (("topics", "show"), 2, "TOPIC"),
        (("topics", "clear", "--yes"), 2, "TOPIC"),
        (("cache", "export"), 2, "FILE.zip"),
        (("cache", "export", "."), 2, "is a directory"),
        (("cache", "vacuum"), 2, "vacuum"),
    ],
)
def test_failures_end_with_one_line_and_an_exit_code(
    arguments: tuple[str, ...], code: int, expected: str, command: Callable[..., Ended]
) -> None:
    """One line on standard error and an exit code; nothing on standard output."""
    ended = command(*arguments)
    assert (ended.code, ended.out) == (code, "")
    assert expected in ended.err


def test_unusable_store_is_an_error(
    command: Callable[..., Ended], store: MemoryResearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not an empty list."""

    async def unusable() -> Any:
        raise StoreError("the store's folder cannot be used")

    monkeypatch.setattr(store, "topics", unusable)
    assert command("topics", "list") == (1, "", "llm-platform: the store's folder cannot be used\n")


def test_stats_count_damaged_entries(
    command: Callable[..., Ended], store: MemoryResearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person hears that something was set aside."""
    result = asyncio.run(store.stats()).model_copy(update={"damaged": 2, "topics": 1})

    async def stats() -> Any:
        return result

    monkeypatch.setattr(store, "stats", stats)
    last = command("cache", "stats").out.splitlines()[-1]
    assert last.startswith("1 topic, 3 entries, ")
    assert last.endswith(", 2 damaged and set aside")
