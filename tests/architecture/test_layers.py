"""The import rules of pyproject.toml hold, and a violation is detected."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONTEXT = Path("modules/llm_platform")


def lint_imports(source: Path) -> subprocess.CompletedProcess[str]:
    linter = Path(sys.executable).with_name("lint-imports")
    paths = os.pathsep.join([str(source), os.environ["PYTHONPATH"]])
    return subprocess.run(
        [linter, "--config", ROOT / "pyproject.toml", "--no-cache"],
        cwd=source, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False, timeout=180,
    )  # fmt: skip


def test_imports_point_inward() -> None:
    """presentation and infrastructure to application to domain; container, wiring and the entry points see all."""
    result = lint_imports(ROOT / "src")
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("domain/text.py", "import openai"),
        ("domain/text.py", "import modules.llm_platform.application.platform"),
        ("application/platform.py", "import httpx2"),
        ("application/platform.py", "import modules.llm_platform.infrastructure.http.client"),
        ("infrastructure/http.py", "import shared.config"),
        ("infrastructure/http.py", "import modules.llm_platform.testing"),
        ("presentation/rest/app.py", "import modules.llm_platform.infrastructure.http.client"),
        ("presentation/cli/options.py", "import modules.llm_platform.wiring.search"),
        ("wiring/search.py", "import modules.llm_platform.container"),
        ("application/research/quick.py", "import modules.llm_platform.application.services.web_search_service"),
        ("application/rag/retrieval.py", "import modules.llm_platform.application.services.page_service"),
        ("infrastructure/adapters/openai/chat.py", "import modules.llm_platform.application.services.llm_service"),
        ("infrastructure/documents/folder.py", "import modules.llm_platform.infrastructure.adapters.qdrant_vector_store"),
        ("domain/dtos/degraded.py", "import modules.llm_platform.domain.ports.web_search"),
    ],
)
def test_wrong_import_is_detected(tmp_path: Path, file: str, line: str) -> None:
    """A rule that nobody can break by mistake would be no rule: one such line, and the check fails."""
    source = tmp_path / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    with (source / CONTEXT / file).open("a", encoding="utf-8") as text:
        text.write(f"\n{line}\n")
    result = lint_imports(source)
    assert result.returncode == 1, result.stdout + result.stderr
    assert "BROKEN" in result.stdout


def test_unit_test_folders_mirror_the_code() -> None:
    """Every folder of tests/unit has a folder of the same name in the package."""
    tests = ROOT / "tests" / "unit"
    apart = {"scripts", "benchmarks", "shared"}  # code beside the package
    folders = {path.parent.relative_to(tests) for path in tests.rglob("test_*.py")} - {Path(name) for name in apart}
    assert [str(folder) for folder in folders if not (ROOT / "src" / CONTEXT / folder).is_dir()] == []
