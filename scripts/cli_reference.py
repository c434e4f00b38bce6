"""The text of docs/reference/cli.md, made from the command line's own help."""

from __future__ import annotations

from collections.abc import Iterator

import typer
from typer.testing import CliRunner

from modules.llm_platform.__main__ import wiring
from modules.llm_platform.presentation.cli.main import PROGRAM, app

COLUMNS = 100

HEAD = """\
# Command line

The answer goes to standard output, progress and warnings to standard error, progress only to a terminal. `--json` prints
what the HTTP interface answers and nothing else. On a terminal the answer is written while you read; in a pipe it is
plain text. Exit codes: 0 success, 1 failure (one line says why), 2 usage error, 130 interrupted.

`llm-platform --install-completion` lets the tab key complete commands, options and their choices in bash, zsh, fish and
PowerShell, from the next terminal on; it adds a line to the shell's start file. To add it yourself, print the script with
`--show-completion`. Every command has `--help` and `-h`.

With nothing configured, `search` and `research` ask public search engines through ddgs, after a line that says so.
Without a language model the answer is made of quotes from the sources. The messages in an answer are in the language of
the question. The notes below it and all other messages of the commands are in English.

<!-- Made by `make docs`; do not edit. -->
"""


def help_of(*command: str) -> str:
    """Return the help of a command, always of the same width."""
    arguments = [*command, "--help"]
    result = CliRunner().invoke(
        app, arguments, obj=wiring(), prog_name=PROGRAM, terminal_width=COLUMNS, max_content_width=COLUMNS
    )
    return "\n".join(line.rstrip() for line in result.output.strip().splitlines())


def reference() -> str:
    """Return the text of docs/reference/cli.md."""
    parts = [HEAD, f"```text\n{help_of()}\n```\n"]
    parts += [
        f"{'#' * (len(command) + 1)} {' '.join(command)}\n\n```text\n{help_of(*command)}\n```\n"
        for command in commands(typer.main.get_command(app))
    ]
    return "\n".join(parts)


def commands(group: object, *above: str) -> Iterator[tuple[str, ...]]:
    """Yield every command, those of a group after it."""
    for name, command in getattr(group, "commands", {}).items():
        yield (*above, name)
        yield from commands(command, *above, name)
