"""Makes what a release consists of, and tries it: a source archive and a wheel in dist/. Nothing is uploaded.

    .venv/bin/python scripts/release.py            (make release)
    .venv/bin/python scripts/release.py --rehearsal       also with uncommitted changes and a changelog without the version

The wheel is built from the source archive, as an installer without a wheel would build it, and installed into a new
environment beside the packages of the image's lock. There the command answers a question from documents.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Sequence
from email.parser import BytesParser
from pathlib import Path
from typing import Final

from packaging.metadata import Metadata

ROOT: Final = Path(__file__).resolve().parents[1]
LOCK: Final = ROOT / "deploy" / "image" / "runtime.lock"
QUESTION: Final = "Where does the grey heron build its nest?"
DOCUMENT: Final = "# Herons\n\nThe grey heron builds its nest in tall trees near water.\n"
FIELDS: Final = ("Description-Content-Type", "License-Expression", "Requires-Python", "Summary")


class ReleaseError(Exception):
    """Something that must not be released; the message says what to do."""


def check_changelog(text: str, version: str) -> None:
    """ReleaseError unless the newest heading of the changelog is this version with its date."""
    heading = re.search(r"(?m)^## (.*)$", text)
    if heading is None or not re.fullmatch(rf"\[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d", heading[1]):
        found = heading[1] if heading else "nothing"
        raise ReleaseError(f"CHANGELOG.md begins with {found}: make the heading `## [{version}] - YYYY-MM-DD`")


def check_metadata(raw: bytes, version: str) -> None:
    """ReleaseError for metadata that an index refuses, or that is not this project's."""
    try:
        metadata = Metadata.from_email(raw, validate=True)
    except ExceptionGroup as error:
        raise ReleaseError(f"invalid metadata: {'; '.join(map(str, error.exceptions))}") from error
    if (metadata.name, str(metadata.version)) != ("llm-platform", version):
        raise ReleaseError(f"the metadata is that of {metadata.name} {metadata.version}, not of llm-platform {version}")
    head = BytesParser().parsebytes(raw, headersonly=True)
    if missing := [name for name in FIELDS if not head[name]]:
        raise ReleaseError(f"the metadata lacks {', '.join(missing)}: add it to pyproject.toml")
    if not metadata.description:
        raise ReleaseError("the metadata has no description: README.md is missing")


def check_contents(names: Sequence[str], source: Path) -> None:
    """ReleaseError unless a wheel has every file below `source`, data as well as code, and no bytecode or cache."""
    wanted = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    wanted = {name for name in wanted if "__pycache__" not in name}
    if missing := sorted(wanted - set(names)):
        raise ReleaseError(f"the wheel lacks {', '.join(missing)}: see tool.hatch.build in pyproject.toml")
    if foreign := sorted(name for name in names if name not in wanted and ".dist-info/" not in name):
        raise ReleaseError(f"the wheel has {', '.join(foreign)}, which src has not")


def build(folder: Path) -> tuple[Path, Path]:
    """Return the source archive, and the wheel that is built from it."""
    run([sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", str(folder)], ROOT)
    (archive,) = folder.glob("*.tar.gz")
    with tempfile.TemporaryDirectory() as temporary:
        with tarfile.open(archive) as packed:
            packed.extractall(temporary, filter="data")
        (unpacked,) = Path(temporary).iterdir()
        run([sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)], unpacked)
    (wheel,) = folder.glob("*.whl")
    return archive, wheel


def try_wheel(wheel: Path, version: str) -> str:
    """Install the wheel into a new environment and ask a question there; returns what was answered."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        run([sys.executable, "-m", "venv", str(folder / "venv")], folder)
        bin_folder = folder / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
        install = [str(bin_folder / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run([*install, "--require-hashes", "--requirement", str(LOCK)], folder)
        run([*install, "--no-deps", "--no-index", str(wheel)], folder)
        run([str(bin_folder / "python"), "-m", "pip", "check"], folder)
        shown = run([str(bin_folder / "llm-platform"), "--version"], folder).strip()
        if shown != f"llm-platform {version}":
            raise ReleaseError(f"the installed command says {shown}, not llm-platform {version}")
        (folder / "documents").mkdir()
        (folder / "documents" / "heron.md").write_text(DOCUMENT)
        words = ["research", QUESTION, "--documents", "documents", "--offline", "--json"]
        answer = json.loads(run([str(bin_folder / "llm-platform"), *words], folder))
        if [source["url"] for source in answer["sources"]] != ["doc:heron.md"]:
            raise ReleaseError(f"the installed command answered without its document: {answer}")
        return str(answer["synthesis"]).strip()


def run(command: Sequence[str], folder: Path) -> str:
    """Return what the command prints. ReleaseError when it fails."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise ReleaseError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def release(*, rehearsal: bool) -> None:
    """Make and try a release, printing a line for each step. ReleaseError at the first that fails."""
    version = str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])
    if not rehearsal:
        check_changelog((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version)
        if changed := run(["git", "status", "--porcelain"], ROOT):
            raise ReleaseError(f"commit or remove these first:\n{changed}")
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    archive, wheel = build(dist)
    with tarfile.open(archive) as packed:
        member = packed.extractfile(f"{archive.name.removesuffix('.tar.gz')}/PKG-INFO")
        assert member is not None
        check_metadata(member.read(), version)
    with zipfile.ZipFile(wheel) as packed_wheel:
        (name,) = (name for name in packed_wheel.namelist() if name.endswith(".dist-info/METADATA"))
        check_metadata(packed_wheel.read(name), version)
        check_contents(packed_wheel.namelist(), ROOT / "src")
    print(f"built     {archive.name} and, from it, {wheel.name}: valid metadata, all files of src", flush=True)
    print(f"answered  {try_wheel(wheel, version)}")
    print(f"ready     {version} in {dist}{' (a rehearsal)' if rehearsal else ''}; nothing was uploaded")


def main() -> None:
    parser = argparse.ArgumentParser(description="Make and try a source archive and a wheel; nothing is uploaded.")
    parser.add_argument("--rehearsal", action="store_true", help="with uncommitted changes and any changelog")
    try:
        release(rehearsal=parser.parse_args().rehearsal)
    except ReleaseError as error:
        sys.exit(f"release: {error}")


if __name__ == "__main__":
    main()
