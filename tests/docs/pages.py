"""What the documents show: their code blocks, console sessions and tables. And a shell for them."""

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
CUT = "…"  # stands where the documents shorten an output

_FILE = re.compile(r"```python\n# file: (\S+)\n(.*?)```", re.S)
_CONSOLE = re.compile(r"```console\n(.*?)```", re.S)
_CODE = re.compile(r"```.*?```|`([^`\n]+)`", re.S)


def text_of(page: str | Path) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def files_in(page: str) -> dict[str, str]:
    """Return the programs that a page names, by file name."""
    return dict(_FILE.findall(text_of(page)))


def sessions_in(page: str) -> list[tuple[str, str]]:
    """Each `$ command` of the page with the output shown below it."""
    found: list[tuple[str, str]] = []
    for block in _CONSOLE.findall(text_of(page)):
        for session in re.split(r"(?m)^\$ ", block)[1:]:
            command, _, output = session.partition("\n")
            found.append((command, output.rstrip("\n")))
    return found


def output_of(page: str, beginning: str) -> str:
    """Return the output that the page shows for the one command that begins like this."""
    (shown,) = [output for command, output in sessions_in(page) if command.startswith(beginning)]
    return shown


def shows(shown: str, real: str) -> bool:
    """Return whether `shown` is `real` with pieces left out where it says so, and nowhere else."""
    pattern = ".*".join(re.escape(piece) for piece in shown.split(CUT))
    return re.fullmatch(pattern, real, re.S) is not None


def code_in(page: str | Path) -> list[str]:
    """Return all that stands as code on a page, blocks and spans."""
    return [found.group() for found in _CODE.finditer(text_of(page))]


def rows_of(page: str) -> list[list[str]]:
    """Return the cells of every table row of the page."""
    return rows_in(text_of(page))


def rows_in(text: str) -> list[list[str]]:
    """Return the cells of every table row of the text."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def shell(command: str, cwd: Path) -> str:
    """Return what the command prints, run with this Python. Lines that need no shell are forked, since Python and its imports
    take most of the time of a command.
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
    """Return the words of a call of `llm-platform` or of a program of Python that means the same without a shell; else none."""
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
