"""Runs the documents' examples unchanged."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import ROOT, files_in, sessions_in, shows
from tests.support.cases import for_each

_LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)(?:#[^)]*)?\)")


def test_the_provider_example_passes_its_own_contract(tmp_path: Path) -> None:
    """The how-to's two files pass unchanged with the how-to's command, in a folder without pytest settings."""
    page = "docs/howto/write-a-provider.md"
    files = files_in(page)
    assert set(files) == {"glossary.py", "test_glossary.py"}
    for name, code in files.items():
        (tmp_path / name).write_text(code, encoding="utf-8")
    [(command, shown)] = sessions_in(page)
    program, *words = command.split()
    assert program == "python"
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    ran = subprocess.run(
        [sys.executable, *words],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert shows(shown, ran.stdout.rstrip("\n")), ran.stdout


@for_each("page", sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    """Each relative link leads to a file of the repository."""
    targets = _LINK.findall(page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_python_in_the_documents_compiles() -> None:
    """Every block marked as Python is valid Python."""
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S):
            compile(block, str(page), "exec", flags=__import__("ast").PyCF_ALLOW_TOP_LEVEL_AWAIT)
