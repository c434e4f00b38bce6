"""Try every regular expression of the platform with texts that make a backtracking engine slow.

A text is built from the pattern itself: what stands before a repeat, then the body of the repeat many times, then
something that does not fit. A pattern is slow if four times the text takes much more than four times as long. Run as a
program with a limit of CPU time, it prints a line of JSON for each slow pattern:

    python -m tests.security.pattern_attacks --rounds 20 --seed 7
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import pkgutil
import random
import re
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from re import _constants, _parser  # type: ignore[attr-defined]  # the only readers of a pattern's structure
from typing import Any

import modules.llm_platform
from modules.llm_platform.domain.text import lazy_pattern

SOURCE = Path(__file__).parents[2] / "src"
CHARS = 3000  # the length of the shortest text; the longest has four times as many
SLOW_S = 0.05  # a faster search is not slow, however it grows
GROWTH = 7.0  # four times the text: 4 is linear, 16 is quadratic
SEARCH_LIMIT_S = 0.4
PATTERN_LIMIT_S = 2.0  # for each round
MAX_PART_CHARS = 200
LONG_REPEAT = 8  # a repeat with a lower maximum is not pumped
ROOT = "modules.llm_platform"
ANCHORED = {"match", "fullmatch"}
SEARCHING = {"search", "sub", "subn", "split", "findall", "finditer"}
TAILS = ("", "\x00")
SAMPLES = "ab1 .-x(\"[]<>&;,:/\\n_é中?!*`|#'"
CPU_LIMIT_S = 900

# Of these, each text that the code searches has an end that the pattern looks for: what follows the last end is cut off.
GUARDED = frozenset({f"{ROOT}.infrastructure.parsing.html_page._CODE_BLOCK"})

# Patterns that a function matches where a text begins.
PASSED_TO_MATCH = frozenset(
    {
        f"{ROOT}.presentation.kafka.contract.strict_json._COLON",
        f"{ROOT}.presentation.kafka.contract.strict_json._COMMA_OR_END",
        f"{ROOT}.infrastructure.parsing.nodes._DEFINITION",
        f"{ROOT}.infrastructure.parsing.nodes._TERM_START",
    }
)

# Patterns that see a text of limited length, in characters. The limit stands beside the call.
BOUNDED = {
    "domain.citations.forms.source_lists._MARKED_HEADING": 140,
    "domain.citations.forms.source_lists._PLAIN_HEADING": 80,
    "domain.markdown.addresses._LABELS": 64,
    "domain.markdown.addresses._NAME": 64,
    "domain.markdown.addresses._SCHEME": 32,
    "domain.text.sentences._ASKS": 8,
    "domain.text.sentences._NAME_BEFORE": 100,
}


@dataclass(frozen=True)
class Tried:
    """A pattern with its name in the code and the strongest method that is called on it."""

    name: str
    pattern: str
    flags: int
    method: str


class TooSlowError(BaseException):
    """A search took longer than SEARCH_LIMIT_S. Not an Exception, because `re` passes it on."""


def patterns() -> list[Tried]:
    """Return the patterns of all modules, in the order of their names."""
    trees = {module_of(path): ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))}
    called = methods_called(trees)
    found: dict[tuple[str, int], Tried] = {}
    for info in pkgutil.walk_packages(modules.llm_platform.__path__, f"{ROOT}."):
        if info.name.endswith("__main__"):
            continue
        for name, value in vars(importlib.import_module(info.name)).items():
            for pattern in patterns_in(value):
                if isinstance(pattern.pattern, str):
                    full, key = f"{info.name}.{name}", (pattern.pattern, pattern.flags)
                    method = strongest({"match"} if full in PASSED_TO_MATCH else called[full])
                    known = Tried(full, *key, method)
                    found[key] = max(known, found.get(key, known), key=lambda tried: tried.method == "finditer")
    for module, tree in trees.items():
        for tried in inline_patterns(module, tree):
            found.setdefault((tried.pattern, tried.flags), tried)
    return sorted(found.values(), key=lambda tried: tried.name)


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts)


def patterns_in(value: Any) -> Iterator[re.Pattern[str]]:
    if isinstance(value, re.Pattern | lazy_pattern._LazyPattern):
        yield value  # type: ignore[misc]
    elif isinstance(value, dict):
        yield from patterns_in(tuple(value.values()))
    elif isinstance(value, tuple | list):
        for part in value:
            yield from patterns_in(part)


def methods_called(trees: Mapping[str, ast.Module]) -> dict[str, set[str]]:
    """Return the methods that are called on each name of a module. `passed` stands for a name that is an argument."""
    called: dict[str, set[str]] = defaultdict(set)
    for module, tree in trees.items():
        for node in ast.walk(tree):
            match node:
                case ast.Attribute(value=ast.Name(id=name), attr=method):
                    called[f"{module}.{name}"].add(method)
                case ast.Call(args=arguments):
                    for name in [argument.id for argument in arguments if isinstance(argument, ast.Name)]:
                        called[f"{module}.{name}"].add("passed")
    return called


def inline_patterns(module: str, tree: ast.Module) -> Iterator[Tried]:
    """Yield the patterns that stand in a call of `re`, such as `re.sub(r"…", …)`."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="re"), attr=method), args=[ast.Constant(value=str(pattern)), *_]
            ) if method != "compile":
                yield Tried(f"{module}:{node.lineno}", pattern, 0, strongest({method}))


def strongest(methods: set[str]) -> str:
    """Return how a pattern is tried: where its text begins, or at each place of it."""
    return "match" if methods & ANCHORED and not methods & {*SEARCHING, "passed"} else "finditer"


class Attacker:
    """Builds the texts against one pattern."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def attacks(self, tried: Tried, rounds: int) -> list[tuple[str, str]]:
        """Return what a text begins with, and what it repeats."""
        tree = _parser.parse(tried.pattern, tried.flags & ~re.UNICODE)
        units: dict[tuple[str, str], None] = {}
        for _ in range(rounds):
            if whole := self.sample(tree)[:MAX_PART_CHARS]:
                units |= {("", whole): None, ("", whole[: max(1, len(whole) // 2)]): None}
            for before, body in self.repeats(tree, ""):
                before, one, other = (part[:MAX_PART_CHARS] for part in (before, self.sample(body), self.sample(body)))
                for unit in filter(None, (one, other, one + other)):
                    units |= {(before, unit): None, ("", before + unit): None, ("", unit): None}
        return list(units)

    def repeats(self, tree: Any, before: str) -> Iterator[tuple[str, Any]]:
        """Yield the body of each long repeat, and a text that leads to it."""
        for position, (kind, value) in enumerate(tree):
            lead = before + self.sample(tree[:position])
            if kind in (_constants.MAX_REPEAT, _constants.MIN_REPEAT):
                if int(value[1]) >= LONG_REPEAT:
                    yield lead, value[2]
                yield from self.repeats(value[2], lead)
            elif kind is _constants.SUBPATTERN:
                yield from self.repeats(value[3], lead)
            elif kind is _constants.BRANCH:
                for branch in value[1]:
                    yield from self.repeats(branch, lead)

    def sample(self, tree: Any, groups: dict[int | None, str] | None = None) -> str:
        """Return a text that the pattern matches, but for its look-arounds."""
        groups = {} if groups is None else groups
        return "".join([self._part(kind, value, groups) for kind, value in tree])

    def _part(self, kind: Any, value: Any, groups: dict[int | None, str]) -> str:
        if kind is _constants.LITERAL:
            return chr(value)
        if kind is _constants.NOT_LITERAL:
            return "a" if value != ord("a") else "b"
        if kind is _constants.ANY:
            return self._random.choice("a .1")
        if kind is _constants.IN:
            return self._one_of(value)
        if kind is _constants.BRANCH:
            return self.sample(self._random.choice(value[1]), groups)
        if kind is _constants.SUBPATTERN:
            groups[value[0]] = self.sample(value[3], groups)
            return groups[value[0]]
        if kind in (_constants.MAX_REPEAT, _constants.MIN_REPEAT):
            times = min(int(value[1]), max(int(value[0]), self._random.choice([1, 1, 2])))
            return "".join([self.sample(value[2], groups) for _ in range(times)])
        return groups.get(value, "") if kind is _constants.GROUPREF else ""

    def _one_of(self, members: Any) -> str:
        if members[0][0] is _constants.NEGATE:
            outside = [sign for sign in SAMPLES if not any(is_member(sign, *member) for member in members[1:])]
            return self._random.choice(outside or ["a"])
        kind, value = self._random.choice(members)
        if kind is _constants.LITERAL:
            return chr(value)
        if kind is _constants.RANGE:
            return chr(self._random.choice(value))
        inside = [sign for sign in [*SAMPLES, "\n", "\t"] if is_member(sign, kind, value)]
        return self._random.choice(inside or ["a"])


def is_member(sign: str, kind: Any, value: Any) -> bool:
    if kind is _constants.LITERAL:
        return ord(sign) == value
    if kind is _constants.RANGE:
        return value[0] <= ord(sign) <= value[1]
    name = str(value).removeprefix("CATEGORY_")
    is_in = {"DIGIT": sign.isdigit(), "SPACE": sign.isspace(), "WORD": sign.isalnum() or sign == "_"}
    return is_in.get(name, not is_in.get(name.removeprefix("NOT_"), True))


def seconds_of(pattern: re.Pattern[str], method: str, text: str) -> float:
    """Return the CPU time of a search. One that takes too long is ended, and counts as a hundred times the limit."""
    signal.setitimer(signal.ITIMER_VIRTUAL, SEARCH_LIMIT_S)
    began = time.process_time()
    try:
        if method == "match":
            pattern.match(text)
        else:
            for _ in pattern.finditer(text):
                pass
    except TooSlowError:
        return 100 * SEARCH_LIMIT_S
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return time.process_time() - began


def slow_text(tried: Tried, rounds: int, seed: int) -> dict[str, Any] | None:
    """Return the text that a pattern is slow with, and its times in seconds; None if it is fast with all of them."""
    pattern = re.compile(tried.pattern, tried.flags)
    began = time.process_time()
    bound = BOUNDED.get(tried.name.removeprefix(f"{ROOT}."))
    chars = CHARS if bound is None else bound
    for before, unit in Attacker(seed).attacks(tried, rounds):
        for tail in TAILS:
            texts = [before + unit * max(1, count * chars // len(unit)) + tail for count in (1, 2, 4)]
            if seconds_of(pattern, tried.method, texts[0]) < SLOW_S / 16:
                continue
            for runs in (2, 8):  # what else runs on the machine makes some of them slower, and seldom all eight
                times = [min(seconds_of(pattern, tried.method, text) for _ in range(runs)) for text in texts]
                is_growing = times[0] >= SEARCH_LIMIT_S or times[2] > max(SLOW_S, GROWTH * times[0])
                is_slow = is_growing if bound is None else times[0] > SLOW_S
                if not is_slow or max(times) >= SEARCH_LIMIT_S:
                    break
            if is_slow:
                shown = [round(seconds, 4) for seconds in times]
                return {"name": tried.name, "seconds": shown, "before": before, "unit": unit, "tail": tail}
        if time.process_time() - began > PATTERN_LIMIT_S * rounds:
            break
    return None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    chosen = parser.parse_args()
    with suppress(ImportError):  # Windows
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT_S, CPU_LIMIT_S))

    def end_search(*_: object) -> None:
        raise TooSlowError

    signal.signal(signal.SIGVTALRM, end_search)
    tried = [found for found in patterns() if chosen.only in found.name and found.name not in GUARDED]
    for found in tried:
        if slow := slow_text(found, chosen.rounds, chosen.seed):
            print(json.dumps(slow), flush=True)  # noqa: T201  the result
    sys.stderr.write(f"{len(tried)} patterns tried\n")


if __name__ == "__main__":
    main()
