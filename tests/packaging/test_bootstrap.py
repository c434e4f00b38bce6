"""Tests the first command that a user types on an unprepared machine."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from tests.support.cases import for_each

ROOT = Path(__file__).resolve().parents[2]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
OLD_PYTHON = '#!/bin/sh\ncase "$1" in --version) echo "Python 3.8.10" ;; *) exit 1 ;; esac\n'


# A fake Python. Its pip installs 60 packages.
INSTALLING_PYTHON = """#!/bin/bash
case "$*" in
  --version) echo "Python 3.11.9" ;;
  "-m venv"*) mkdir -p "${@: -1}/bin"; cp "$0" "${@: -1}/bin/python"; touch "${@: -1}/pip" ;;
  "-m pip --version") test -f "$(dirname "$0")/../pip" ;;
  *requirements.lock*) for n in {1..60}; do echo "Collecting p$n"; done; echo "Installing collected packages: p1"; exit $PIP ;;
esac
"""


@for_each("code", [0, 1])
def test_the_first_run_says_how_far_it_is(tmp_path: Path, code: int) -> None:
    """It names the new environment and counts the packages on standard error. A pip error still stops it."""
    tools = tmp_path / f"bin{code}"
    tools.mkdir()
    (tools / "python3").write_text(INSTALLING_PYTHON)
    (tools / "python3").chmod(0o755)
    words = ["bash", str(ROOT / "scripts" / "bootstrap.sh"), str(tmp_path / f"venv{code}")]
    machine = {"PATH": f"{tools}:/usr/bin:/bin", "PIP": str(code)}
    done = subprocess.run(words, env=machine, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (code, "")
    created, *progress = done.stderr.splitlines()
    assert created == f"Creating the environment {words[-1]} with Python 3.11.9, once"
    assert [re.sub(r"\b1\d\d\b", "N", line) for line in progress] == [
        "Installing N packages of requirements.lock into it",
        "  25 of N fetched",
        "  50 of N fetched",
        "  unpacking them",
    ]


@pytest.fixture
def old_machine(tmp_path: Path) -> dict[str, str]:
    """Return an environment with a PATH that offers only Python 3.8."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("python3", "python3.11", "python3.12", "python3.13", "python3.14", "python"):
        (tools / name).write_text(OLD_PYTHON)
        (tools / name).chmod(0o755)
    return {"PATH": f"{tools}:/usr/bin:/bin"}


def test_an_old_python_is_said_in_two_lines(tmp_path: Path, old_machine: dict[str, str]) -> None:
    """The message names the required version, the found version, and the way to choose another Python. No files remain."""
    venv = tmp_path / "venv"
    words = ["bash", str(ROOT / "scripts" / "bootstrap.sh"), str(venv)]
    done = subprocess.run(words, env=old_machine, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1
    assert "needs Python 3.11 or newer" in done.stderr
    assert "3.8.10" in done.stderr
    assert "PYTHON=" in done.stderr
    assert not venv.exists()


@pytest.mark.parametrize("script", [".ci/run", "scripts/bootstrap.sh"])
def test_scripts_stop_at_the_first_error(script: str) -> None:
    """Each of our shell scripts is executable and valid bash, and stops after a failure."""
    path = ROOT / script
    assert os.access(path, os.X_OK)
    assert "set -euo pipefail" in path.read_text(encoding="utf-8")
    assert subprocess.run(["bash", "-n", path], check=False, timeout=60).returncode == 0


@for_each(
    "target",
    ["demo", "test", "serve", "bench", "lint", "quality", "docs", "check-docs", "lock", "release", "image-test"],
)
def test_the_targets_are_there(target: str) -> None:
    """Every command in the documents is a make target with a help line."""
    assert re.search(rf"(?m)^{target}:.*## \S", MAKEFILE)


def test_ci_runs_what_people_run() -> None:
    """CI runs only `make test` and `make test-services`. The downloads of the latter start in parallel with `make test`."""
    commands = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    made = [line.partition("make ")[2] for line in commands if line.startswith("make ")]
    assert made == ["--jobs=2 test services-ready", "test-services"]
