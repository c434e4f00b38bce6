"""The plan of a report on a real terminal: what a person types reaches it, and each way out ends as it should."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import select
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.support.forked_command import COMMAND_LINE, ForkedPython

from modules.llm_platform.__main__ import wiring
from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.presentation.cli.main import run

pytestmark = pytest.mark.usefixtures("restored_logging")  # commands run in this process

PATIENCE_S = 120.0  # how long a test waits for a process before it is called hanging
PROMPT_S = 20.0  # Ctrl-C to exit, on a slow and busy machine
PROMPT = "plan> "
QUESTION = "What heats the greenhouse and where is rain water kept?"
# Only the terminal that a session has taken for its own turns Ctrl-C into a signal.
TAKE_THE_TERMINAL = "import fcntl, os, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0)"
CTRL_C, CTRL_D = "\x03", "\x04"


@pytest.fixture(autouse=True)
def keyword_search_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors change nothing of a plan, and each process would load their model."""
    monkeypatch.setenv("EMBEDDER", "none")


@pytest.fixture(autouse=True)
def nothing_accepted_before(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A plan that another test accepted for the question would be offered again."""
    monkeypatch.setenv("LLM_PLATFORM_DATA_DIR", str(tmp_path / "data"))


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "heating.md").write_text("# Heating\n\nThe greenhouse is heated by a heat pump of nine kilowatts.\n")
    (folder / "water.md").write_text("# Water\n\nRain water is kept in two tanks of a thousand litres each.\n")
    return folder


class Terminal:
    """A person's end of a terminal, and the program at the other."""

    def __init__(self, process: ForkedPython, ours: int) -> None:
        self.process = process
        self.seen = ""
        self._ours = ours

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def wait_for(self, text: str) -> str:
        """Return what was shown since the last time, up to this text."""
        before, deadline = len(self.seen), time.monotonic() + PATIENCE_S
        while text not in self.seen[before:]:
            assert time.monotonic() < deadline, self.seen
            assert self._read(), f"it ended without {text!r}: {self.seen}"
        return self.seen[before:]

    def wait(self) -> int:
        """To the end: the exit code."""
        while self._read():
            pass
        return self.process.wait(PATIENCE_S)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._ours], [], [], PATIENCE_S)
        assert ready, f"nothing happens any more: {self.seen}"
        with suppress(OSError):  # the last reader of a terminal gets an error, not an end
            if piece := os.read(self._ours, 65_536):
                self.seen += piece.decode("utf-8", "replace").replace("\r\n", "\n")
                return True
        return False


@contextmanager
def terminal(*arguments: str, stdout: int | None = None, env: Mapping[str, str] | None = None) -> Iterator[Terminal]:
    """The program on a dumb terminal of its own, which Ctrl-C reaches; `stdout` may go elsewhere."""
    ours, theirs = pty.openpty()
    process = ForkedPython(
        f"{TAKE_THE_TERMINAL}; {COMMAND_LINE}",
        *arguments,
        stdin=theirs,
        stdout=theirs if stdout is None else stdout,
        stderr=theirs,
        env={**os.environ, "TERM": "dumb", "COLUMNS": "200", **(env or {})},
    )
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def report(notes: Path, *options: str) -> tuple[str, ...]:
    return ("research", QUESTION, "--depth", "report", "--documents", str(notes), "--offline", *options)


def test_plan_is_edited_on_a_terminal(notes: Path, tmp_path: Path) -> None:
    """Added, edited, moved and removed with the keyboard; the report answers exactly what was accepted."""
    target = tmp_path / "report.json"
    with terminal(*report(notes, "--output", str(target))) as screen:
        shown = screen.wait_for(PROMPT)
        proposed = re.findall(r"^  \d+\. (.+)$", shown, re.MULTILINE)
        assert 1 <= len(proposed) <= 3
        for number in range(len(proposed), 1, -1):
            screen.type(f"d {number}\n")
            screen.wait_for(PROMPT)
        screen.type("e 1\n")
        screen.wait_for("new text of")
        screen.type("Что греет теплицу?\n")
        screen.wait_for(PROMPT)
        screen.type("a Where is rain water kept?\n")
        assert "  2. Where is rain water kept?" in screen.wait_for(PROMPT)
        screen.type("m 2 1\n")
        assert "  1. Where is rain water kept?\n  2. Что греет теплицу?" in screen.wait_for(PROMPT)
        screen.type("\n")
        assert screen.wait() == 0, screen.seen
    metadata = json.loads(target.read_text(encoding="utf-8"))["metadata"]
    assert metadata["plan"] == ["Where is rain water kept?", "Что греет теплицу?"]
    assert "\x1b" not in screen.seen.partition("searching for: ")[0]


def test_accepted_plan_is_restored_after_a_kill(notes: Path, tmp_path: Path) -> None:
    """Killed with the report under way: the same command shows the person's plan, says so, and Enter goes on with it."""
    env = {"LLM_PLATFORM_DATA_DIR": str(tmp_path / "data")}
    with terminal(*report(notes), env=env) as screen:
        shown = screen.wait_for(PROMPT)
        for number in range(len(re.findall(r"^  \d+\. .+$", shown, re.MULTILINE)), 0, -1):
            screen.type(f"d {number}\n")
            screen.wait_for(PROMPT)
        screen.type("a Where is rain water kept?\n")
        screen.wait_for(PROMPT)
        screen.type("\n")
        screen.wait_for("searching for: ")
        screen.process.kill()
    target = tmp_path / "report.json"
    with terminal(*report(notes, "--output", str(target)), env=env) as screen:
        shown = screen.wait_for(PROMPT)
        assert "This is the plan that you accepted on " in shown
        assert re.findall(r"^  \d+\. (.+)$", shown, re.MULTILINE) == ["Where is rain water kept?"]
        screen.type("\n")
        assert screen.wait() == 0, screen.seen
    assert json.loads(target.read_text(encoding="utf-8"))["metadata"]["plan"] == ["Where is rain water kept?"]


def test_menu_is_not_on_standard_output(notes: Path, tmp_path: Path) -> None:
    """Who sends the answer to a file is still asked on the terminal, and the file holds the answer alone."""
    with (tmp_path / "out.md").open("wb") as file, terminal(*report(notes), stdout=file.fileno()) as screen:
        screen.wait_for(PROMPT)
        screen.type("\n")
        assert screen.wait() == 0, screen.seen
    text = (tmp_path / "out.md").read_text(encoding="utf-8")
    assert "heat pump of nine kilowatts" in text
    assert PROMPT.strip() not in text


@pytest.mark.parametrize(
    ("key", "lines", "before"),
    [(CTRL_C, 0, ""), (CTRL_C, 0, "a\n"), (CTRL_D, 1, "a\n"), ("q\n", 1, "")],
    ids=["ctrl-c at the menu", "ctrl-c amid a change", "ctrl-d amid a change", "q"],
)
def test_nothing_is_researched_without_acceptance(
    key: str, lines: int, before: str, notes: Path, tmp_path: Path
) -> None:
    """Each way out is one key, at the menu and amid a change: exit code 130 at once, no traceback, no file."""
    target = tmp_path / "report.json"
    with terminal(*report(notes, "--output", str(target))) as screen:
        screen.wait_for(PROMPT)
        if before:
            screen.type(before)
            screen.wait_for("another sub-question")
        began = time.monotonic()
        screen.type(key)
        assert screen.wait() == 130
        assert time.monotonic() - began < PROMPT_S
    assert screen.seen.count("llm-platform: the report was cancelled") == lines
    assert "Traceback" not in screen.seen
    assert not target.exists()


@pytest.mark.parametrize("options", [("--yes",), ("--json",), ("--plan-only",)], ids=" ".join)
def test_plan_is_not_reviewed_with_yes_json_or_plan_only(options: tuple[str, ...], notes: Path) -> None:
    """On a terminal too: no question stands in the way of a script that runs there."""
    with terminal(*report(notes, *options)) as screen:
        assert screen.wait() == 0, screen.seen
    assert PROMPT not in screen.seen


def test_plan_file_round_trip(notes: Path, tmp_path: Path) -> None:
    """What --plan-only prints is what --plan takes, as lines and as JSON."""
    for options in ((), ("--json",)):
        printed = printed_by(*report(notes, "--plan-only", *options))
        (tmp_path / "plan").write_text(printed, encoding="utf-8")
        answer = json.loads(printed_by(*report(notes, "--plan", str(tmp_path / "plan"), "--json")))
        plan = json.loads(printed)["questions"] if options else printed.splitlines()
        assert answer["metadata"]["plan"] == plan
        assert len(plan) >= 1


def printed_by(*arguments: str) -> str:
    """Return the standard output of a command that ends with 0, run without a process of its own."""
    out, err = io.StringIO(), io.StringIO()
    assert run(arguments, wiring(), Console(out, err, io.StringIO())) == 0, err.getvalue()
    return out.getvalue()
