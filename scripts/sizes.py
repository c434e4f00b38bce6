"""Figures of the code that a reader feels before knowing them: sizes, cycles, broad handlers, prints.

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

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
Function = ast.FunctionDef | ast.AsyncFunctionDef
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


def prints(module: Module) -> list[str]:
    return [module.at(n) for n in ast.walk(module.tree) if isinstance(n, ast.Name) and n.id == "print"]


def environment_reads(module: Module) -> list[str]:
    """`os.environ`, `os.getenv` and names imported from os that read the environment."""
    reading = {"environ", "environb", "getenv", "getenvb"}
    found = []
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
            found += [module.at(node)] if node.attr in reading else []
        elif isinstance(node, ast.ImportFrom) and node.module == "os":
            found += [module.at(node)] if reading & {alias.name for alias in node.names} else []
    return found


def import_cycle(all_modules: list[Module]) -> list[str]:
    """Modules that import each other while being loaded, as a path; empty when there are none."""
    names = {module.name for module in all_modules}
    graph = {module.name: set(_imports(module, names)) - {module.name} for module in all_modules}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def _imports(module: Module, names: set[str]) -> Iterator[str]:
    for node in _executed_at_import(module.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                longer = f"{node.module}.{alias.name}"
                yield from (name for name in (longer, node.module) if name in names)


def _executed_at_import(tree: ast.Module) -> Iterator[ast.stmt]:
    for node in tree.body:
        typing_only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if not typing_only:
            yield node


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
    print(f"import cycle     {' > '.join(import_cycle(code)) or 'none'}")
    print(f"broad handlers   {[where for m in code for where in broad_handlers(m)]}")
    print(f"environment      {[where for m in code for where in environment_reads(m)]}")
    print(f"tests : code     {sum(m.lines for m in tests) / sum(files):.2f}")


if __name__ == "__main__":
    main()
