"""Reads code blocks, console sessions and tables from the documents, and runs their commands."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from tests.support.forked_command import COMMAND_LINE, run_forked

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
TIMEOUT_S = 180.0
RUN_FILE = (
    "import runpy, sys; sys.path.insert(0, ''); del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"
)
CUT = "…"  # marks shortened output in the documents

_FILE = re.compile(r"```python\n# file: (\S+)\n(.*?)```", re.S)
_CONSOLE = re.compile(r"```console\n(.*?)```", re.S)
_CODE = re.compile(r"```.*?```|`([^`\n]+)`", re.S)


def text_of(page: str | Path) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def files_in(page: str) -> dict[str, str]:
    """Return the programs that a page names, by file name."""
    return dict(_FILE.findall(text_of(page)))


def sessions_in(page: str) -> list[tuple[str, str]]:
    """Return each `$ command` of the page with the output below it."""
    found: list[tuple[str, str]] = []
    for block in _CONSOLE.findall(text_of(page)):
        for session in re.split(r"(?m)^\$ ", block)[1:]:
            command, _, output = session.partition("\n")
            found.append((command, output.rstrip("\n")))
    return found


def output_of(page: str, beginning: str) -> str:
    """Return the page's output of the only command that begins with `beginning`."""
    (shown,) = [output for command, output in sessions_in(page) if command.startswith(beginning)]
    return shown


def shows(shown: str, real: str) -> bool:
    """Return whether `shown` equals `real`. Each CUT in `shown` may stand for any text."""
    pattern = ".*".join(re.escape(piece) for piece in shown.split(CUT))
    return re.fullmatch(pattern, real, re.S) is not None


def code_in(page: str | Path) -> list[str]:
    """Return all code blocks and code spans of a page."""
    return [found.group() for found in _CODE.finditer(text_of(page))]


def rows_of(page: str) -> list[list[str]]:
    """Return the cells of every table row of the page."""
    return rows_in(text_of(page))


def rows_in(text: str) -> list[list[str]]:
    """Return the cells of every table row of the text."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def shell(command: str, cwd: Path) -> str:
    """Run the command with this Python and return its output. Lines that need no shell are forked, because starting Python
    and importing modules takes most of a command's time.
    """
    lines = [_plain_words(line) for line in command.strip().split("\n")]
    if all(lines):
        return "\n".join(_printed(words, cwd) for words in lines)
    here = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    ran = subprocess.run(
        ["bash", "-ec", command],
        cwd=cwd,
        env={**os.environ, "PATH": here},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.rstrip("\n")


def _plain_words(line: str) -> list[str]:
    """Return the words of an `llm-platform` call or a Python program call that needs no shell. Otherwise return no words."""
    if re.search(r"[$`*?\\~{}\[\]#]", line):
        return []
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words = list(lexer)
    is_call = words[:1] == ["llm-platform"] or (words[:1] == [sys.executable] and words[1:2] != ["-m"])
    return words if is_call and not any(set(word) <= set("();<>|&") for word in words) else []


def _printed(words: list[str], cwd: Path) -> str:
    program = COMMAND_LINE if words[0] == "llm-platform" else RUN_FILE
    ran = run_forked(program, *words[1:], cwd=cwd, timeout=TIMEOUT_S)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.rstrip("\n")
