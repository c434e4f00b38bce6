"""Regular expressions work the same on every Python from 3.11.0 on.

Python 3.11 added possessive quantifiers and atomic groups. Its first patch releases match some of them wrongly or hang, and
Debian 12 ships such a release. A hang depends on the input, so the tests read the source.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.cases import for_each

SOURCE = Path(__file__).parents[2] / "src"
COMPILERS = {"compile", "search", "match", "fullmatch", "split", "findall", "finditer", "sub", "subn"}
PLACEHOLDER = "x"  # replaces the fields of an f-string; their values are read at their definition
LITERAL = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)  # an escape or a character class
POSSESSIVE = re.compile(r"[*+?}]\+|\(\?>")


def is_possessive(pattern: str) -> bool:
    return POSSESSIVE.search(LITERAL.sub(PLACEHOLDER, pattern)) is not None


def patterns_in(trees: list[ast.Module]) -> Iterator[str]:
    """Yield the patterns that are passed to `re`, directly or through constants of any module."""
    nodes = [node for tree in trees for node in ast.walk(tree)]
    assigned = assignments_in(nodes)
    waiting = [node.args[0] for node in nodes if isinstance(node, ast.Call) and node.args and is_compiler(node.func)]
    while waiting:
        for part in ast.walk(waiting.pop()):
            if isinstance(part, ast.JoinedStr):
                pieces = [piece.value if isinstance(piece, ast.Constant) else PLACEHOLDER for piece in part.values]
                yield "".join(map(str, pieces))
            elif isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield part.value
            elif isinstance(part, ast.Name):
                waiting += assigned.pop(part.id, [])


def is_compiler(function: ast.expr) -> bool:
    """Return whether the called function is a function of `re` that takes a pattern."""
    match function:
        case ast.Attribute(value=ast.Name(id="re"), attr=name):
            return name in COMPILERS
    return False


def assignments_in(nodes: list[ast.AST]) -> dict[str, list[ast.expr]]:
    """Return the values of constants and comprehension variables by name."""
    assigned: dict[str, list[ast.expr]] = {}
    for node in nodes:
        match node:
            case ast.Assign(targets=[*targets], value=value) if is_constant(targets):
                pass
            case ast.AnnAssign(target=target, value=ast.expr() as value) if is_constant([target]):
                targets = [target]
            case ast.comprehension(target=target, iter=value):
                targets = [target]
            case _:
                continue
        for name in names_in(targets):
            assigned.setdefault(name, []).append(value)
    return assigned


def is_constant(targets: list[ast.expr]) -> bool:
    return all(map(str.isupper, names_in(targets)))


def names_in(targets: list[ast.expr]) -> list[str]:
    return [part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)]


def test_no_pattern_needs_a_patch_level() -> None:
    """No pattern of the platform has a possessive quantifier or an atomic group."""
    found = set(patterns_in([ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))]))
    assert found, f"No pattern was found below {SOURCE}: this test reads the wrong folder."
    wrong = [pattern for pattern in found if is_possessive(pattern)]
    assert not wrong, (
        f"Python 3.11.2 hangs on possessive repeats (`*+`, `++`, `?+`) and atomic groups: rewrite {wrong}."
    )


@for_each(
    ("source", "is_found"),
    [
        (r're.compile(r"a*+b")', True),
        (r're.compile(r"a++")', True),
        (r're.sub(r"a?+", "", text)', True),
        (r're.compile(r"a{2,3}+")', True),
        (r're.match(r"(?>a|b)c", text)', True),
        (r'WORD = r"(?:a|b)*+"; X = re.compile(rf"\s{WORD}")', True),
        (r're.compile(rf"{WORD}a{{1,2}}+")', True),
        (r'FORMS = tuple(re.compile(form) for form in ("a*+", "b"))', True),
        (r're.compile(r"a\++b")', False),
        (r're.compile(r"[*+]+[]*+]")', False),
        (r'NOTE = "c++"', False),
    ],
)
def test_possessive_patterns_are_found(source: str, is_found: bool) -> None:
    """The check finds each form of a possessive pattern and nothing else."""
    assert any(map(is_possessive, patterns_in([ast.parse(source)]))) is is_found
