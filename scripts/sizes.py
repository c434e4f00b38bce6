"""Counts of the code, with their change since the last release. They guide a review and fail nothing: what must hold is a
law of tests/architecture.

python -m scripts.sizes            the counts beside those of sizes_baseline.json, and the largest files and functions
python -m scripts.sizes --record   write the counts of today to sizes_baseline.json, as a release does
"""

from __future__ import annotations

import ast
import asyncio
import json
import re
import statistics
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
from scripts.search_path import fake_searxng, plain_search

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
Function = ast.FunctionDef | ast.AsyncFunctionDef
PACKAGES = ("modules.llm_platform", "shared")
BROAD = frozenset({"Exception", "BaseException"})
BASELINE = ROOT / "scripts" / "sizes_baseline.json"
LARGE_FILE_LINES = 500
LONG_FUNCTION_LINES = 60
HIGH_COMPLEXITY = 10
SHOWN = 5  # the largest files and functions that are shown
COMPLEXITY = re.compile(r"`(.+)` is too complex \((\d+) > 0\)")


@dataclass(frozen=True)
class Module:
    """One Python file, parsed."""

    path: Path
    text: str = field(repr=False)
    tree: ast.Module = field(repr=False)

    @classmethod
    def read(cls, path: Path) -> Module:
        text = path.read_text(encoding="utf-8")
        return cls(path, text, ast.parse(text, str(path)))

    @property
    def name(self) -> str:
        parts = self.path.relative_to(SOURCE).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @cached_property
    def lines(self) -> int:
        return len(self.text.splitlines())

    @property
    def functions(self) -> Iterator[Function]:
        return (node for node in ast.walk(self.tree) if isinstance(node, Function))

    def at(self, node: ast.AST) -> str:
        return f"{self.path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"


def modules(folder: Path = SOURCE) -> list[Module]:
    return [Module.read(path) for path in sorted(folder.rglob("*.py"))]


def function_lines(function: Function) -> int:
    """Lines from `def` to the end, less the docstring: explaining more must not count as being longer."""
    end = function.end_lineno or function.lineno
    first = function.body[0]
    documented = ast.get_docstring(function, clean=False) is not None
    return end - function.lineno + 1 - ((first.end_lineno or 0) - first.lineno + 1 if documented else 0)


def broad_handlers(module: Module) -> list[str]:
    """`except:`, `except Exception` and `except BaseException`, alone or in a tuple, unless they end with a bare `raise`."""
    found = []
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ExceptHandler):
            caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
            is_broad = any(kind is None or (isinstance(kind, ast.Name) and kind.id in BROAD) for kind in caught)
            match node.body[-1]:
                case ast.Raise(exc=None):
                    continue  # it tidies up and swallows nothing
            if is_broad:
                found.append(module.at(node))
    return found


def import_cycle(*packages: str) -> list[str]:
    """Modules that import each other, in functions too, as a path; empty when there are none. Typing alone does not count."""
    graph = grimp.build_graph(*packages, exclude_type_checking_imports=True, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def import_share(found: list[Module]) -> float:
    """Return the share of import statements in all lines."""
    imports = [node for m in found for node in ast.walk(m.tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    return sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in imports) / sum(m.lines for m in found)


def percentile(values: list[int], share: float) -> int:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]


@dataclass(frozen=True)
class Complexity:
    """McCabe's complexity of one function, as ruff counts it."""

    value: int
    function: str
    where: str


def complexities() -> list[Complexity]:
    """Return every function of src, the most complex one first."""
    command = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--isolated",
        "--no-cache",
        "--exit-zero",
        "--output-format=json",
        "--select=C901",
        "--config=lint.mccabe.max-complexity=0",
        str(SOURCE),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = []
    for row in json.loads(done.stdout):
        match = COMPLEXITY.fullmatch(row["message"])
        if match is not None:
            position = f"{Path(row['filename']).relative_to(ROOT)}:{row['location']['row']}"
            found.append(Complexity(int(match[2]), match[1], position))
    return sorted(found, key=lambda function: -function.value)


def loaded_modules() -> int:
    """Modules that importing the public names loads, those of the standard library included."""
    code = "import sys; before = len(sys.modules); from modules.llm_platform import *; print(len(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(done.stdout)


def counts(code: list[Module], tests: list[Module], complexity: list[Complexity]) -> dict[str, float]:
    """Each count by its name."""
    from shared.config import Settings

    files = [module.lines for module in code if module.text.strip()]
    lengths = [function_lines(function) for module in code for function in module.functions]
    with fake_searxng() as url:
        functions, entered_files, classes = asyncio.run(plain_search(url)).counts()
    return {
        "lines in src": sum(files),
        "files in src": len(files),
        "lines of a file, median": statistics.median(files),
        f"files over {LARGE_FILE_LINES} lines": sum(lines > LARGE_FILE_LINES for lines in files),
        "functions": len(lengths),
        "lines of a function, median": percentile(lengths, 0.5),
        "lines of a function, p90": percentile(lengths, 0.9),
        "lines of the longest function": max(lengths),
        f"functions over {LONG_FUNCTION_LINES} lines": sum(lines > LONG_FUNCTION_LINES for lines in lengths),
        "McCabe complexity, highest": complexity[0].value,
        f"functions of complexity over {HIGH_COMPLEXITY}": sum(
            function.value > HIGH_COMPLEXITY for function in complexity
        ),
        "imports, % of lines": round(100 * import_share(code), 1),
        "broad handlers": sum(len(broad_handlers(module)) for module in code),
        "settings": len(Settings.model_fields),
        "modules loaded by the public names": loaded_modules(),
        "functions that a search enters": functions,
        "files that a search enters": entered_files,
        "classes that a search enters": classes,
        "lines of tests per line of src": round(sum(module.lines for module in tests) / sum(files), 2),
    }


def table(now: Mapping[str, float], before: Mapping[str, float], version: str) -> list[str]:
    """Return one line for each count: now, at the baseline, and the change."""
    lines = [f"{'':36}{'now':>9}{version:>11}{'change':>10}"]
    for name, value in now.items():
        if name not in before:
            lines.append(f"{name:36}{value:>9g}{'-':>11}{'new':>10}")
        else:
            change = round(value - before[name], 2)
            lines.append(f"{name:36}{value:>9g}{before[name]:>11g}{f'{change:+g}' if change else '=':>10}")
    return lines


def record(now: Mapping[str, float]) -> None:
    """Make the counts of today the baseline, under the version of pyproject.toml."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    BASELINE.write_text(json.dumps({"version": version, "counts": now}, indent=2) + "\n", encoding="utf-8")
    print(f"recorded {version} in {BASELINE.relative_to(ROOT)}")


def main() -> None:
    code, tests, complexity = modules(), modules(ROOT / "tests"), complexities()
    now = counts(code, tests, complexity)
    if "--record" in sys.argv[1:]:
        record(now)
        return
    baseline = json.loads(BASELINE.read_text(encoding="utf-8"))
    print(*table(now, baseline["counts"], baseline["version"]), sep="\n")
    print("\nlargest files")
    for module in sorted(code, key=lambda module: -module.lines)[:SHOWN]:
        print(f"{module.lines:6}  {module.path.relative_to(ROOT)}")
    print("longest functions")
    lengths = [(function_lines(function), module.at(function)) for module in code for function in module.functions]
    for length, where in sorted(lengths, reverse=True)[:SHOWN]:
        print(f"{length:6}  {where}")
    print("most complex functions")
    for function in complexity[:SHOWN]:
        print(f"{function.value:6}  {function.where} {function.function}")


if __name__ == "__main__":
    main()
