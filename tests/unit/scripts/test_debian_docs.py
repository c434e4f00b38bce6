"""scripts/debian_docs.sh, with stand-ins for Debian's tools: nothing is downloaded."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "debian_docs.sh"
KNOWN = ("git-doc", "postgresql-doc-15", "postgresql-doc-9")

APT_CACHE = """#!/bin/bash
for name in $KNOWN; do [[ $name =~ ${@: -1} ]] && echo "$name - documentation"; done; true
"""
APT_GET = """#!/bin/bash
for name in "${@:3}"; do touch "${name}_1_all.deb"; done
"""
DPKG_DEB = """#!/bin/bash
package=$(basename "$2" _1_all.deb)
mkdir -p "$3/usr/share/doc/$package/deep" "$3/usr/bin"
echo "<p>$package</p>" > "$3/usr/share/doc/$package/index.html"
echo "<p>$package</p>" > "$3/usr/share/doc/$package/deep/a.htm"
echo x | tee "$3/usr/share/doc/$package/copyright" "$3/usr/bin/tool.html" > /dev/null
"""


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    folder = tmp_path / "tools"
    folder.mkdir()
    for name, text in (("apt-cache", APT_CACHE), ("apt-get", APT_GET), ("dpkg-deb", DPKG_DEB)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


def run(
    tools: Path, folder: Path, known: tuple[str, ...] = KNOWN, patterns: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    env = {"PATH": f"{tools}:{os.environ['PATH']}", "KNOWN": " ".join(known)}
    words = ["bash", str(SCRIPT), str(folder), *patterns]
    return subprocess.run(words, env=env, capture_output=True, text=True, timeout=120, check=False)


def test_the_pages_of_the_newest_packages_are_kept(tools: Path, tmp_path: Path) -> None:
    """HTML of /usr/share/doc alone, below one folder; of two versions the later one; packages that are unknown are named."""
    folder = tmp_path / "made" / "docs"
    done = run(tools, folder)
    assert done.returncode == 0, done.stderr
    found = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    assert found == [f"{name}/{page}" for name in KNOWN[:2] for page in ("deep/a.htm", "index.html")]
    assert "sqlite3-doc: left out" in done.stderr
    assert f"4 pages are in {folder}" in done.stderr


def test_the_packages_can_be_named(tools: Path, tmp_path: Path) -> None:
    """Patterns behind the folder, instead of the usual ones."""
    done = run(tools, tmp_path / "docs", patterns=("git-d[o]c", "tea-doc"))
    assert done.returncode == 0, done.stderr
    assert [path.name for path in (tmp_path / "docs").iterdir()] == ["git-doc"]
    assert "tea-doc: left out" in done.stderr
    assert "debian-faq" not in done.stderr


def test_it_can_be_run_again(tools: Path, tmp_path: Path) -> None:
    """A second run gives the same folder, whatever the first one left."""
    assert run(tools, tmp_path / "docs").returncode == 0
    assert run(tools, tmp_path / "docs").returncode == 0


def test_without_package_lists_the_remedy_is_named(tools: Path, tmp_path: Path) -> None:
    """And nothing is made."""
    done = run(tools, tmp_path / "docs", known=())
    assert done.returncode == 1
    assert "apt-get update" in done.stderr
    assert not (tmp_path / "docs").exists()
