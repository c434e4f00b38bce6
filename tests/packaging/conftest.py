"""Builds a wheel of this checkout and test environments from the packages of `make test`. Nothing is downloaded."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
PROJECT = "llm-platform"


def run(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command as a user types it, but without a terminal. PYTHONPATH contains the network guard and none of our code."""
    return subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def pip(*words: str | Path, cwd: Path) -> None:
    done = run(sys.executable, "-m", "pip", "--disable-pip-version-check", *words, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr


def build_wheel(source: Path, folder: Path) -> Path:
    pip("wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation", "-w", folder, source, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


class Environment:
    """A virtual environment with the given distributions, linked from the environment of the test run."""

    def __init__(self, folder: Path, distributions: Iterable[str]) -> None:
        self.folder = folder
        done = run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder.parent)
        assert done.returncode == 0, done.stderr
        (self.site,) = folder.glob("[Ll]ib/**/site-packages")
        for name in distributions:
            self._link(distribution(name))

    @property
    def bin(self) -> Path:
        return self.folder / ("Scripts" if sys.platform == "win32" else "bin")

    def install(self, wheel: Path, *options: str) -> None:
        pip("--python", self.bin / "python", "install", "--quiet", "--no-index", *options, wheel, cwd=self.folder)

    def python(self, *words: str) -> subprocess.CompletedProcess[str]:
        return run(self.bin / "python", *words, cwd=self.folder)

    def command(self, name: str, *words: str) -> subprocess.CompletedProcess[str]:
        return run(self.bin / name, *words, cwd=self.folder)

    def _link(self, held: Distribution) -> None:
        tops = {file.parts[0] for file in held.files or () if file.parts[0] not in {"..", "__pycache__"}}
        for top in tops:
            target = self.site / top
            if not target.exists():
                target.symlink_to(Path(str(held.locate_file(top))).resolve())


def needed(extras: Iterable[str] = ()) -> set[str]:
    """Return the direct and transitive dependencies of the project with these extras."""
    closure: set[tuple[str, str]] = set()
    waiting = [(PROJECT, extra) for extra in ("", *extras)]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in closure:
            continue
        closure.add((name, extra))
        for line in distribution(name).requires or ():
            wanted = Requirement(line)
            if wanted.marker is None or wanted.marker.evaluate({"extra": extra}):
                key = re.sub(r"[-_.]+", "-", wanted.name).lower()
                waiting += [(key, more) for more in ("", *wanted.extras)]
    return {name for name, _ in closure} - {PROJECT}


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def everything(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Environment:
    """Install the wheel with `--no-index --no-deps` next to the dependencies of all extras."""
    environment = Environment(tmp_path_factory.mktemp("everything") / "venv", needed(["all"]))
    environment.install(wheel, "--no-deps")
    return environment


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Environment:
    """Install the wheel without an extra. pip itself checks that the dependencies are met."""
    environment = Environment(tmp_path_factory.mktemp("bare") / "venv", needed())
    environment.install(wheel)
    return environment
