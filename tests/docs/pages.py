"""What the documents show: their code blocks, console sessions and tables. And a shell for them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
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
    """Return what the command prints, run with this Python."""
    here = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    ran = subprocess.run(
        ["bash", "-ec", command], cwd=cwd, env={**os.environ, "PATH": here}, capture_output=True, text=True,
        timeout=180, check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.rstrip("\n")
