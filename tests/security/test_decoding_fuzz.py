"""Thousands of damaged answers and answers designed to be slow.

Parsing never raises, is bounded, and takes linear time.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support import fuzz
from tests.support.cases import for_each

from modules.llm_platform.application.research.model_output.cleaning import strip_reasoning
from modules.llm_platform.application.research.model_output.lists import (
    MAX_ITEM_CHARS,
    MAX_ITEMS,
    read_line,
    read_strings,
)
from modules.llm_platform.application.research.model_output.rows import MAX_ROWS, read_number, read_rows
from modules.llm_platform.application.research.report.rank import parse_ranking

HERE = Path(__file__).parent
MUTATIONS = fuzz.chosen(5_000, 200_000)
PORTIONS = 10  # portions of the mutations, with one test each
MAX_SEED_CHARS = 1500
SMALL, LARGE = 8_000, 128_000  # characters
GROWTH = 6 * LARGE // SMALL  # six times the growth of linear time; quadratic time would grow by 256
TRIES = 3  # the fastest run counts, because other processes may use the machine
FLOOR_S = 0.05  # shorter times cannot be measured reliably; quadratic time takes minutes
TITLES = ("Heat pumps in old houses", "Wärmepumpe im Altbau: Kosten", "Solar sails 101", "Tea")

SPLINTERS = (
    *(
        "[",
        "]",
        "{",
        "}",
        "(",
        ")",
        '"',
        "'",
        "`",
        "“",
        "”",
        "«",
        ",",
        ":",
        "\\",
        '\\"',
        "\\u",
        "\\ud83d",
        "/*",
        "*/",
        "//",
        "#",
    ),
    *(
        "<think>",
        "</think>",
        "```",
        "```json\n",
        "~~~",
        "null",
        "NaN",
        "Infinity",
        "True",
        "-",
        "1e999",
        "9" * 400,
        "8/10",
    ),
    *(
        "ПОДЗАПРОС:",
        "Question 2:",
        "1. ",
        "- ",
        "|",
        "\n",
        "\r\n",
        "\t",
        "\x00",
        "\x1b[0m",
        "\ufeff",
        "\u202e",
        "\ud800",
    ),
    *("&quot;", "...", "…", "［", "］", "，", "：", "<|channel|>final<|message|>", "[[", "]]", "{}", "[]", '{"a":'),
)


def _seeds() -> Iterator[str]:
    for name in ("bad_llm_outputs.jsonl", "llm_outputs.jsonl"):
        for line in (HERE / name).read_text(encoding="utf-8").splitlines():
            raw = json.loads(line).get("raw")
            if raw:
                yield raw[:MAX_SEED_CHARS]


SEEDS = tuple(_seeds())


def _mutated(chance: random.Random) -> str:
    text = chance.choice(SEEDS)
    for _ in range(chance.randint(1, 6)):
        at, end = sorted((chance.randint(0, len(text)), chance.randint(0, len(text))))
        end = min(end, at + chance.choice((1, 3, 40)))
        match chance.randrange(7):
            case 0:
                text = text[:at] + text[end:]
            case 1:
                text = text[:at] + text[at:end] * chance.randint(2, 20) + text[end:]
            case 2:
                text = text[:at] + chance.choice(SPLINTERS) + text[at:]
            case 3:
                text = text[:at] + chance.choice(SPLINTERS) + text[end:]
            case 4:
                text = text[:at]
            case 5:
                text = text[:at] + chance.choice(SEEDS)[:200] + text[end:]
            case _:
                text = text[:at] + chr(chance.randrange(0x110000)) + text[end:]
    return text


@pytest.mark.parametrize("portion", range(PORTIONS))
def test_no_damage_raises(portion: int) -> None:
    """Removed, duplicated or inserted parts leave bounded rows, items and marks, or none."""
    chance = fuzz.chance(portion)
    for _ in range(MUTATIONS // PORTIONS):
        text = _mutated(chance)
        _check_rows(text)
        _check_strings(text)
        marks = parse_ranking(text, TITLES)
        assert len(marks) == len(TITLES)
        assert all(0 <= mark <= 10 for found in marks if found for mark in found)


def _check_rows(text: str) -> None:
    rows = read_rows(text)
    assert len(rows) <= MAX_ROWS
    for row in rows:
        assert isinstance(row, dict | list)
        assert row
        for value in row.values() if isinstance(row, dict) else row:
            number = read_number(value)
            assert number is None or math.isfinite(number)
            assert not isinstance(value, str) or value.encode() is not None


def _check_strings(text: str) -> None:
    items = read_strings(text)
    assert len(items) <= MAX_ITEMS
    assert all(item == item.strip() and 0 < len(item.encode()) <= 4 * MAX_ITEM_CHARS for item in items)
    for line in text.splitlines():
        item = read_line(line)
        assert item is None or item in read_strings(line)
    strip_reasoning(text).encode()


SLOW = {
    "a word again and again": "word ",
    "opening brackets": "[",
    "opening braces": '{"a":',
    "braces that hold nothing": "{",
    "brackets of both kinds": "[{",
    "closing brackets of the other kind": '{"a":]',
    "quotes without end": '["a, ',
    "alternating quotes": "\"'",
    "every quote there is": "[“”„«‘’`\"' ",
    "quotes and blanks": '"   ,   ',
    "quotes and words": '["a" b, c ',
    "backslashes": '["\\',
    "comments without end": "[/*",
    "line comments": "[//",
    "hashes": "[ # ",
    "commas": "[,",
    "colons": ":[",
    "keys": "{a:",
    "rows": '[1, "Tea", 7, 7, 7, 7, 7], ',
    "rows that are not JSON": "[1, 'Tea', 7, 7, 7, 7, 7], ",
    "wrapped rows": '{"Tea": [7, 7, 7, 7, 7], "x": 1}, ',
    "scalars before rows": "[1, ",
    "digits": "9",
    "a long number in a list": "[9",
    "entities": "[&quot;",
    "numbered entities": "&#9999999999",
    "think blocks": "<think>",
    "tags that close": "</think>",
    "tags that are none": "<think ",
    "fences": "```\n",
    "prefixes": "ПОДЗАПРОС: ",
    "prefixes in lines": "ПОДЗАПРОС: a\n",
    "empty lines": "\n",
    "lines of brackets": ":[\n",
    "bullets": "- ",
    "numbers of lines": "1. ",
    "tables": "| 1 | Tea | 7 | 7 | 7 |\n",
    "cells": "|",
    "pairs": "a b: 7\n",
    "blanks": " ",
    "quotes within a string": '["a" b ',
    "quotes and commas": '",w ',
    "a quote and empty lines": '["a"\n\n\n',
    "escapes in a string": '["\\n',
    "slashes": "[a/",
    "escaped JSON": '[\\"a\\", ',
    "stars": "*",
    "angles": "<",
}


@for_each("unit", SLOW.values())
@for_each("read", [read_rows, read_strings, strip_reasoning, read_line])
def test_time_is_linear(read: Callable[[str], object], unit: str) -> None:
    """Sixteen times the text takes about sixteen times as long. The limit lies between linear and quadratic time."""
    small, large = ((unit * (chars // len(unit) + 1))[:chars] for chars in (SMALL, LARGE))
    first = _seconds(read, large)
    if first <= FLOOR_S:  # `small` would not change it
        return
    bound = max(GROWTH * min(_seconds(read, small) for _ in range(TRIES)), FLOOR_S)
    assert first <= bound or any(_seconds(read, large) <= bound for _ in range(TRIES - 1))


def _seconds(read: Callable[[str], object], text: str) -> float:
    """Return CPU time, which does not include other processes."""
    begun = time.process_time()
    read(text)
    return time.process_time() - begun


def test_depth_has_a_bound() -> None:
    """Rows nested in a thousand brackets are read. Rows in a hundred thousand brackets are ignored."""
    row = '[1, "Tea", 7, 7, 7, 7, 7]'
    assert read_rows("[" * 1000 + row) == [[1, "Tea", 7, 7, 7, 7, 7]]
    assert read_rows('{"a":' * 1000 + row) == [[1, "Tea", 7, 7, 7, 7, 7]]
    assert read_rows("[" * 100_000 + row) == []
    assert read_strings("[" * 30 + '"Tea"' + "]" * 30) == ["Tea"]
    assert read_strings("[" * 900 + '"Tea"' + "]" * 900) == []
