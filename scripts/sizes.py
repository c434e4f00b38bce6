"""Figures of the code that a reader feels before knowing them: sizes, cycles, broad handlers. ruff looks for `print` and
for the environment (pyproject.toml).

python scripts/sizes.py            the table; tests/architecture holds the bounds
"""

from __future__ import annotations

import ast
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
Function = ast.FunctionDef | ast.AsyncFunctionDef
PACKAGES = ("modules.llm_platform", "shared")
BROAD = frozenset({"Exception", "BaseException"})


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
    """`except:`, `except Exception` and `except BaseException`, alone or in a tuple."""
    found = []
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ExceptHandler):
            caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
            if any(kind is None or (isinstance(kind, ast.Name) and kind.id in BROAD) for kind in caught):
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
    """The share of import statements in all lines."""
    imports = [node for m in found for node in ast.walk(m.tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    return sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in imports) / sum(m.lines for m in found)


def percentile(values: list[int], share: float) -> int:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]


def main() -> None:
    code, tests = modules(), modules(ROOT / "tests")
    files = [m.lines for m in code if m.text.strip()]
    functions = [function_lines(f) for m in code for f in m.functions]
    longest = max(((function_lines(f), m.at(f)) for m in code for f in m.functions), default=(0, "-"))
    print(f"files            {len(files)}: median {statistics.median(files):.0f} lines, largest {max(files)}")
    for module in sorted(code, key=lambda m: -m.lines)[:5]:
        print(f"                 {module.lines:4} {module.path.relative_to(ROOT)}")
    half, most = percentile(functions, 0.5), percentile(functions, 0.9)
    print(f"functions        {len(functions)}: median {half}, p90 {most} lines")
    print(f"longest          {longest[0]} lines, {longest[1]}")
    print(f"imports          {import_share(code):.1%} of {sum(files)} lines")
    print(f"import cycle     {' > '.join(import_cycle(*PACKAGES)) or 'none'}")
    print(f"broad handlers   {[where for m in code for where in broad_handlers(m)]}")
    print(f"tests : code     {sum(m.lines for m in tests) / sum(files):.2f}")


if __name__ == "__main__":
    main()
