"""Give the `[n]` of an answer other numbers, or none."""

from __future__ import annotations

import re
from collections.abc import Mapping

from modules.llm_platform.domain.markdown.blocks import BlockTracker, expand_tabs

_LINE = re.compile(r"[^\n]*\n?")
_CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")
_TARGET = re.compile(r"\]\((?:<[^<>\n]*>|[^\s()]*(?:\([^\s()]*\)[^\s()]*)*)\)")
_RUN = re.compile(r"([ ]?)((?:\[\d{1,9}\])+)")
_NUMBER = re.compile(r"\d+")


def renumbered(answer: str, numbers: Mapping[int, int]) -> str:
    """The sanitised Markdown with `numbers[n]` in the place of n; a marker that has none goes. Code stays as it is."""
    blocks = BlockTracker()
    return "".join(_line(found[0], blocks, numbers) for found in _LINE.finditer(answer))


def _line(line: str, blocks: BlockTracker, numbers: Mapping[int, int]) -> str:
    text = line.removesuffix("\n")
    kind = blocks.take(expand_tabs(text)).kind
    if "[" not in text or kind in ("code", "fence", "indented"):
        return line
    masked = _TARGET.sub(_blank, _CODE.sub(_blank, text))
    parts, done = [], 0
    for run in _RUN.finditer(masked):
        parts += [text[done : run.start()], _run(run, numbers)]
        done = run.end()
    return "".join([*parts, text[done:], line[len(text) :]])


def _run(run: re.Match[str], numbers: Mapping[int, int]) -> str:
    """Markers that stand together: each number once."""
    new = dict.fromkeys(numbers[number] for number in map(int, _NUMBER.findall(run[2])) if number in numbers)
    return run[1] + "".join(f"[{number}]" for number in new) if new else ""


def _blank(found: re.Match[str]) -> str:
    return "x" * len(found[0])
