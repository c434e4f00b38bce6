"""The console: which stream gets what, and how a command exits."""

from __future__ import annotations

import asyncio
import io
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer
from tests.support.cases import for_each
from tests.unit.presentation.cli.fakes import Terminal, piped_console, terminal_console

from modules.llm_platform.infrastructure.limits.from_settings import hide_modules
from modules.llm_platform.presentation.cli.console import Console, Line
from modules.llm_platform.presentation.cli.exit_codes import exit_codes, run_async


def test_lines_are_plain_in_a_pipe_and_styled_on_a_terminal() -> None:
    """Colours are for eyes."""
    pipe, plain, _ = piped_console()
    screen, styled, _ = terminal_console()
    for console in (pipe, screen):
        console.print_lines([Line("a", "bold"), Line(), Line("b [1] :smile:", "red")])
    assert plain.getvalue() == "a\n\nb [1] :smile:\n"
    assert "b [1] :smile:" in styled.getvalue()


def test_long_lines_are_not_broken() -> None:
    """An address that wraps cannot be clicked."""
    console, out, _ = terminal_console()
    console.print_lines([Line("https://example.org/" + "x" * 300)])
    assert "x" * 300 in out.getvalue()


def test_linked_lines_are_links_on_a_terminal_only() -> None:
    """The address is no part of the text, and holds no control sequence."""
    line = Line("a quote", "green", "https://example.org/#:~:text=a%20quote\x1b]8;;")
    piped, plain, _ = piped_console()
    screen, styled, _ = terminal_console()
    for console in (piped, screen):
        console.print_lines([line])
    assert plain.getvalue() == "a quote\n"
    assert re.search(r"\x1b\]8;[^;]*;https://example\.org/#:~:text=a%20quote[^\x1b]*\x1b", styled.getvalue())


def test_markdown_is_rendered_on_a_terminal_only() -> None:
    """A pipe gets the unrendered Markdown."""
    pipe, plain, _ = piped_console()
    screen, styled, _ = terminal_console()
    for console in (pipe, screen):
        console.print_markdown("**bold** text [1]")
    assert plain.getvalue() == "**bold** text [1]\n"
    assert "**" not in styled.getvalue()
    assert "[1]" in styled.getvalue()


NAMES = ("Number", "Name", "Street", "Telephone", "Address")
VALUES = ("5", "Person5", "Long Street Name 5", "+43 1 555", "p5@example.org [1]")
TABLE = "\n".join(f"| {' | '.join(row)} |" for row in (NAMES, ("---",) * len(NAMES), VALUES))


def strip_styles(text: str) -> list[str]:
    return [line.rstrip() for line in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).splitlines()]


@for_each("columns", (30, 51))
def test_table_that_does_not_fit_is_lines_of_names_and_values(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No word of a cell is cut: a row that is too wide for the terminal has a line for each column. A pipe has the Markdown."""
    monkeypatch.setenv("COLUMNS", str(columns))
    screen, styled, _ = terminal_console()
    pipe, plain, _ = piped_console()
    for console in (screen, pipe):
        console.print_markdown(TABLE)
    lines = [line for line in strip_styles(styled.getvalue()) if line]
    assert lines == [f"{name}: {value}" for name, value in zip(NAMES, VALUES, strict=True)]
    assert plain.getvalue() == f"{TABLE}\n"


@for_each("columns", (52, 60, 200))
def test_table_that_fits_is_one_without_cut_words(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table stays one as long as the longest words of its columns fit side by side, and none of them is cut."""
    monkeypatch.setenv("COLUMNS", str(columns))
    screen, styled, _ = terminal_console()
    screen.print_markdown(TABLE)
    lines = strip_styles(styled.getvalue())
    assert any(line.split() == list(NAMES) for line in lines)
    assert {word for value in VALUES for word in value.split()} <= {word for line in lines for word in line.split()}
    assert max(map(len, lines)) <= columns


def test_warnings_are_one_line() -> None:
    """A warning is one line, however long its error is."""
    console, _, err = piped_console()
    console.print_error("a\nb\x1b[1m c")
    assert err.getvalue() == "llm-platform: a b c\n"


def test_only_y_and_yes_confirm() -> None:
    """Only y and yes confirm. Without a terminal there is no question."""
    assert terminal_console("YES\n")[0].confirm("sure?")
    assert not terminal_console("")[0].confirm("sure?")
    assert piped_console("n\n")[0].confirm("sure?")
    half = Console(io.StringIO(), io.StringIO(), Terminal("n\n"))
    assert half.confirm("nobody would see the question")


def test_unencodable_character_is_replaced(tmp_path: Path) -> None:
    """A terminal in another encoding shows a question mark, not a traceback."""
    with (tmp_path / "out").open("w", encoding="ascii") as out:
        Console(out, io.StringIO()).print_lines([Line("✔ done")])
    assert (tmp_path / "out").read_text() == "? done\n"


def test_closed_pipe_ends_the_command_quietly() -> None:
    """`| head` closes the pipe: the command ends quietly, and so does the interpreter."""
    reading, writing = os.pipe()
    os.close(reading)
    out, err = os.fdopen(writing, "w"), io.StringIO()
    console = Console(out, err)
    with exit_codes(console):
        console.print_lines([Line("x" * 100_000)] * 10)
    out.flush()  # what the interpreter does at its exit
    out.close()
    assert err.getvalue() == ""


def test_interrupt_cancels_the_coroutine() -> None:
    """Ctrl-C cancels the running coroutine, which cleans up, and exits with 130."""
    cleaned: list[bool] = []

    async def work() -> None:
        try:
            asyncio.get_running_loop().call_soon(_interrupt)
            await asyncio.sleep(60)
        finally:
            cleaned.append(True)

    with pytest.raises(typer.Exit) as caught, exit_codes(piped_console()[0]):
        run_async(work())
    assert caught.value.exit_code == 130
    assert cleaned == [True]


FAILS_AT_ONCE = """
from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.presentation.cli.exit_codes import exit_codes
import sys, typer

try:
    with exit_codes(Console(sys.stdout, sys.stderr)):
        raise ZeroDivisionError
except typer.Exit as end:
    sys.exit(end.exit_code)
"""


@pytest.mark.parametrize("level", ["DEBUG", ""])
def test_unexpected_error_is_one_line_and_a_logged_traceback(level: str) -> None:
    """One line that names the way to the traceback, and that way leads there, however early the command failed."""
    environment = {**os.environ, "LOG_LEVEL": level, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(
        [sys.executable, "-c", FAILS_AT_ONCE], env=environment, capture_output=True, text=True, timeout=60
    )
    assert "unexpected error (ZeroDivisionError): set LOG_LEVEL=DEBUG to log the traceback" in ended.stderr
    assert ("unexpected error in a command" in ended.stderr) == (level == "DEBUG"), ended.stderr
    assert ("Traceback" in ended.stderr) == (level == "DEBUG"), ended.stderr
    assert ended.returncode == 1


def test_hidden_module_cannot_be_imported() -> None:
    """In the block an import fails as if the module were not installed. Later it works again."""
    sys.modules.pop("this", None)
    with hide_modules("this", "json"):
        with pytest.raises(ImportError):
            import_module("this")
        assert import_module("json").loads("1") == 1
    assert "this" not in sys.modules


def _interrupt() -> None:
    import signal

    signal.raise_signal(signal.SIGINT)
