"""The import rules of pyproject.toml detect violations. `make lint` checks that the code follows the rules.

The test lints a copy of the source with violations, because a rule with a wrong name passes silently.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONTEXT = Path("modules/llm_platform")

# A folder of the package, and a module that its files must not import.
WRONG = (
    ("domain", "openai"),
    ("domain", "modules.llm_platform.application.platform"),
    ("application", "httpx2"),
    ("application", "modules.llm_platform.infrastructure.http.client"),
    ("infrastructure", "shared.config"),
    ("infrastructure", "modules.llm_platform.testing"),
    ("presentation/rest", "modules.llm_platform.infrastructure.http.client"),
    ("presentation/cli", "modules.llm_platform.wiring.checks"),
    ("wiring", "modules.llm_platform.container"),
    ("application/research", "modules.llm_platform.application.services.web_search_service"),
    ("application/rag", "modules.llm_platform.application.services.page_service"),
    ("infrastructure/models/openai", "modules.llm_platform.application.services.llm_service"),
    ("infrastructure/documents", "modules.llm_platform.infrastructure.index.qdrant.vector_store"),
    ("infrastructure/search", "modules.llm_platform.infrastructure.models.kinds"),
    ("infrastructure/cache", "modules.llm_platform.infrastructure.limits.upstream_guard"),
    ("infrastructure/http", "modules.llm_platform.infrastructure.parsing.decoding"),
)
CYCLES = {  # by folder and import: the folders that the report names
    (
        "infrastructure/stores/database",
        "modules.llm_platform.infrastructure.stores.outcomes.sqlite",
    ): ".database -> .outcomes",
    ("domain/dtos", "modules.llm_platform.domain.ports.web_search"): ".dtos -> .ports",
}


def lint_imports(source: Path) -> subprocess.CompletedProcess[str]:
    linter = Path(sys.executable).with_name("lint-imports")
    paths = os.pathsep.join([str(source), os.environ["PYTHONPATH"]])
    return subprocess.run(
        [linter, "--config", ROOT / "pyproject.toml", "--no-cache"],
        cwd=source,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )


def test_wrong_imports_are_detected(tmp_path: Path) -> None:
    """The linter reports every violation. Without this test a rule that matches nothing would look like a passing rule.

    One run checks all violations, because reading the code takes seconds. No module imports these files, so no violation
    hides another.
    """
    source = tmp_path / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    reported = {}
    for number, (folder, imported) in enumerate([*WRONG, *CYCLES]):
        file = CONTEXT / folder / f"probe_{number}.py"
        assert (source / file).parent.is_dir(), f"{folder} is gone: name the folder that took its place"
        (source / file).write_text(f"import {imported}\n", encoding="utf-8")
        reported[folder, imported] = CYCLES.get((folder, imported), f"{'.'.join(file.with_suffix('').parts)} ->")
    result = lint_imports(source)
    assert result.returncode == 1, result.stdout + result.stderr
    allowed = [
        f"{folder} imports {imported}" for (folder, imported), words in reported.items() if words not in result.stdout
    ]
    assert not allowed, f"The contracts in pyproject.toml allow: {'; '.join(allowed)}.\n{result.stdout}"


def test_unit_test_folders_mirror_the_code() -> None:
    """Every folder of tests/unit has a folder with the same name in the package."""
    tests = ROOT / "tests" / "unit"
    apart = {"scripts", "benchmarks", "arena", "deploy", "shared"}  # code beside the package
    folders = {path.parent.relative_to(tests) for path in tests.rglob("test_*.py")} - {Path(name) for name in apart}
    strays = sorted(str(folder) for folder in folders if not (ROOT / "src" / CONTEXT / folder).is_dir())
    assert not strays, f"Move the tests in {', '.join(strays)} (tests/unit) to the folder of the code that they test."
