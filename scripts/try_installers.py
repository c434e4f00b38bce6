"""Installs a wheel of this checkout as users of tools do, and asks a question of a folder.

    .venv/bin/python scripts/try_installers.py [PYTHON…]      (make installers)

For each interpreter (a path or a version that uv finds; default: this one): `uvx --from`, `uv tool install` and `pipx install`,
without extras and with all of them, in folders of their own. It prints the seconds of the installation, downloads included
where uv has not cached them, and of the first answer.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
TOOLS: Final = ("uv", "pipx")
DOCUMENT: Final = "# Herons\n\nThe grey heron builds its nest in tall trees near water.\n"
ASK: Final = ("research", "Where does the grey heron build its nest?", "--documents", "documents", "--offline")
ANSWER: Final = "tall trees near water"


def main(interpreters: Sequence[str]) -> int:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "documents").mkdir()
        (folder / "documents" / "heron.md").write_text(DOCUMENT)
        bin_folder = prepare_tools(folder / "tools")
        command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
        run(command, ROOT, os.environ)
        (wheel,) = folder.glob("*.whl")
        print(f"{'python':<8} {'extras':<7} {'installer':<16} {'install s':>9} {'answer s':>9}")
        for interpreter in interpreters:
            for extras in ("", "[all]"):
                try_one(folder, bin_folder, interpreter, f"{wheel}{extras}")
    return 0


def prepare_tools(folder: Path) -> Path:
    """Make an environment with uv and pipx; returns the folder of its commands."""
    venv.create(folder, with_pip=True)
    bin_folder = folder / ("Scripts" if sys.platform == "win32" else "bin")
    run([str(bin_folder / "python"), "-m", "pip", "install", "--quiet", *TOOLS], folder, os.environ)
    return bin_folder


def try_one(folder: Path, tools: Path, interpreter: str, wheel: str) -> None:
    """Try the three ways with one interpreter, each from an empty folder. SystemExit where one fails."""
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        home = Path(temporary)
        commands = home / "bin"
        variables = {
            **{name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")},
            "HOME": temporary,
            "PATH": os.pathsep.join([str(tools), os.environ["PATH"]]),
            "PIPX_HOME": str(home / "pipx"),
            "PIPX_BIN_DIR": str(commands),
            "UV_TOOL_DIR": str(home / "uv"),
            "UV_TOOL_BIN_DIR": str(commands),
            "UV_CACHE_DIR": str(folder / "cache"),
            "UV_PYTHON_DOWNLOADS": "never",
        }
        installed = [str(commands / "llm-platform"), *ASK]
        ways: Mapping[str, tuple[list[str], list[str]]] = {
            "uvx --from": ([], ["uvx", "--quiet", "--python", interpreter, "--from", wheel, "llm-platform", *ASK]),
            "uv tool install": (["uv", "tool", "install", "--quiet", "--python", interpreter, wheel], installed),
            "pipx install": (["pipx", "install", "--force", "--quiet", "--python", interpreter, wheel], installed),
        }
        for name, (install, ask) in ways.items():
            started = time.monotonic()
            if install:
                run(install, folder, variables)
            asked = time.monotonic()
            answer = run(ask, folder, variables)
            if ANSWER not in answer:
                raise SystemExit(f"{name} with {interpreter} answered without the document: {answer}")
            extras = wheel.rpartition("[")[2].rstrip("]") if wheel.endswith("]") else "none"
            shown = version_of(interpreter, tools)
            print(
                f"{shown:<8} {extras:<7} {name:<16} {asked - started:9.1f} {time.monotonic() - asked:9.1f}", flush=True
            )


def version_of(interpreter: str, tools: Path) -> str:
    found = run([str(tools / "uv"), "python", "find", interpreter], ROOT, os.environ).strip()
    return run([found, "-c", "import platform; print(platform.python_version())"], ROOT, os.environ).strip()


def run(command: Sequence[str], folder: Path, variables: Mapping[str, str]) -> str:
    """Return what the command prints. SystemExit with its output where it fails."""
    done = subprocess.run(
        command, cwd=folder, env=dict(variables), capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or [sys.executable]))
