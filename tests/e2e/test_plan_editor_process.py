"""The plan editor of a report on a real terminal: input, and each way to quit."""

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

PATIENCE_S = 120.0  # a process that takes longer is considered hanging
PROMPT_S = 20.0  # time from Ctrl-C to the exit on a slow, busy machine
PROMPT = "plan> "
QUESTION = "What heats the greenhouse and where is rain water kept?"
# Ctrl-C becomes a signal only on the controlling terminal of a session.
TAKE_THE_TERMINAL = "import fcntl, os, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0)"
CTRL_C, CTRL_D = "\x03", "\x04"


@pytest.fixture(autouse=True)
def keyword_search_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable vectors, which do not affect a plan and would load a model in each process."""
    monkeypatch.setenv("EMBEDDER", "none")


@pytest.fixture(autouse=True)
def nothing_accepted_before(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Use an empty data folder, because a plan accepted in another test would be offered again."""
    monkeypatch.setenv("LLM_PLATFORM_DATA_DIR", str(tmp_path / "data"))


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "heating.md").write_text("# Heating\n\nThe greenhouse is heated by a heat pump of nine kilowatts.\n")
    (folder / "water.md").write_text("# Water\n\nRain water is kept in two tanks of a thousand litres each.\n")
    return folder


class Terminal:
    """The user's side of a terminal, and the program on the other side."""

    def __init__(self, process: ForkedPython, ours: int) -> None:
        self.process = process
        self.seen = ""
        self._ours = ours

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def wait_for(self, text: str) -> str:
        """Return the output since the last call, up to this text."""
        before, deadline = len(self.seen), time.monotonic() + PATIENCE_S
        while text not in self.seen[before:]:
            assert time.monotonic() < deadline, self.seen
            assert self._read(), f"it ended without {text!r}: {self.seen}"
        return self.seen[before:]

    def wait(self) -> int:
        """Wait for the process and return its exit code."""
        while self._read():
            pass
        return self.process.wait(PATIENCE_S)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._ours], [], [], PATIENCE_S)
        assert ready, f"nothing happens any more: {self.seen}"
        with suppress(OSError):  # reading from a terminal that the program has closed raises an error
            if piece := os.read(self._ours, 65_536):
                self.seen += piece.decode("utf-8", "replace").replace("\r\n", "\n")
                return True
        return False


@contextmanager
def terminal(*arguments: str, stdout: int | None = None, env: Mapping[str, str] | None = None) -> Iterator[Terminal]:
    """Run the program on its own dumb terminal, where Ctrl-C reaches it. `stdout` can be redirected."""
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
    """A plan can be extended, edited, reordered and shortened from the keyboard.

    The report answers exactly the accepted plan.
    """
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
    """After a kill in a running report, the same command shows the accepted plan, and Enter continues with it."""
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
    """With standard output in a file, the plan is still shown on the terminal, and the file contains only the answer."""
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
    """Each way to quit is one key, at the menu and during an edit.

    The program exits with 130 at once, without a traceback or a file.
    """
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
    """These options skip the review also on a terminal, so that scripts are not blocked."""
    with terminal(*report(notes, *options)) as screen:
        assert screen.wait() == 0, screen.seen
    assert PROMPT not in screen.seen


def test_plan_file_round_trip(notes: Path, tmp_path: Path) -> None:
    """The output of --plan-only is valid input for --plan, as lines and as JSON."""
    for options in ((), ("--json",)):
        printed = printed_by(*report(notes, "--plan-only", *options))
        (tmp_path / "plan").write_text(printed, encoding="utf-8")
        answer = json.loads(printed_by(*report(notes, "--plan", str(tmp_path / "plan"), "--json")))
        plan = json.loads(printed)["questions"] if options else printed.splitlines()
        assert answer["metadata"]["plan"] == plan
        assert len(plan) >= 1


def printed_by(*arguments: str) -> str:
    """Run a successful command in this process and return its standard output."""
    out, err = io.StringIO(), io.StringIO()
    assert run(arguments, wiring(), Console(out, err, io.StringIO())) == 0, err.getvalue()
    return out.getvalue()
