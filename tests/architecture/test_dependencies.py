"""The dependencies in pyproject.toml and requirements.lock match the imports.

The tests read the source, because an undeclared dependency fails at run time only if no other package installs it.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.markers import Marker
from scripts import sizes
from tests.support.cases import for_each

from modules.llm_platform.domain import package

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
# Imported by name, and always installed with a declared dependency.
PARTS = {"httpcore2": "httpx2", "idna": "httpx2", "pydantic-core": "pydantic", "starlette": "fastapi", "click": "typer"}
# Declared and used without an import: uvicorn uses the first two if they are installed, and we read the weights of the third.
USED_BY_LIBRARIES = {"httptools", "uvloop", "wordllama"}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def requirement(line: str) -> str:
    return normal(re.split(r"[\s<>=!~;\[]", line, maxsplit=1)[0])


def declared() -> set[str]:
    extras = [line for lines in PROJECT["optional-dependencies"].values() for line in lines]
    return {requirement(line) for line in [*PROJECT["dependencies"], *extras]} - {normal(PROJECT["name"])}


@cache
def imported() -> frozenset[str]:
    roots = set()
    for module in sizes.modules():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Import):
                roots |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                roots.add(node.module.split(".")[0])
    third_party = roots - sys.stdlib_module_names - {"modules", "shared"}
    packages = packages_distributions()
    owners = [{normal(name) for name in packages.get(root, [root])} for root in third_party]
    # Several packages share the name opentelemetry.
    names = (name for names in owners for name in (names & declared() or sorted(names)[:1]))
    return frozenset(PARTS.get(name, name) for name in names)


def test_imports_are_declared() -> None:
    """Every third-party package that the code imports is a dependency or belongs to an extra."""
    missing = sorted(imported() - declared())
    assert not missing, (
        f"src imports {', '.join(missing)}: declare it or an extra with it in pyproject.toml, then `make lock`."
    )


def test_dependencies_are_used() -> None:
    """Every dependency is imported or used by a library."""
    unused = sorted(declared() - imported() - USED_BY_LIBRARIES)
    assert not unused, (
        f"src imports no {', '.join(unused)}: remove it from pyproject.toml, or add it to USED_BY_LIBRARIES."
    )


def test_extra_all_has_all_extras() -> None:
    """The extra `all` names every other extra."""
    extras = PROJECT["optional-dependencies"]
    named = re.findall(r"\[(.*)\]", extras["all"][0])[0].split(",")
    assert sorted(named) == sorted(set(extras) - {"all"}), (
        "The extra `all` in pyproject.toml must name every other extra."
    )


@pytest.mark.parametrize("version", [(3, 11), (3, 13), (3, 14), (3, 15)])
@pytest.mark.parametrize(
    "machine",
    [
        ("linux", "x86_64"),
        ("linux", "aarch64"),
        ("linux", "riscv64"),
        ("darwin", "arm64"),
        ("darwin", "x86_64"),
        ("win32", "AMD64"),
        ("win32", "ARM64"),
    ],
)
def test_extra_and_code_agree_on_wordllama(
    version: tuple[int, int], machine: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`has_wordllama_wheel` is true exactly where the extra `retrieval` installs wordllama."""
    (line,) = [line for line in PROJECT["optional-dependencies"]["retrieval"] if requirement(line) == "wordllama"]
    python, (system, processor) = "{}.{}".format(*version), machine
    environment = {"python_version": python, "sys_platform": system, "platform_machine": processor}
    monkeypatch.setattr(package, "sys", SimpleNamespace(version_info=(*version, 0), platform=system))
    monkeypatch.setattr(package, "platform", SimpleNamespace(machine=lambda: processor))
    assert package.has_wordllama_wheel() is Marker(line.partition(";")[2].strip()).evaluate(environment)


def test_lock_has_hashes_and_no_urls() -> None:
    """Every pinned package has hashes, and the lock names no index."""
    pinned = re.findall(r"(?m)^[a-z0-9][^\n]*==[^\n]*(?:\n    [^\n]*)+", LOCK)
    assert len(pinned) == len(re.findall(r"(?m)^[a-z0-9]", LOCK))
    assert [block.splitlines()[0] for block in pinned if "--hash=sha256:" not in block] == []
    assert "://" not in LOCK
    assert "index-url" not in LOCK


@for_each("name", sorted(declared()))
def test_lock_has_every_dependency(name: str) -> None:
    """Every dependency is in the lock."""
    assert re.search(rf"(?m)^{re.escape(name)}==", LOCK), f"{name} is not in requirements.lock: run `make lock`."
