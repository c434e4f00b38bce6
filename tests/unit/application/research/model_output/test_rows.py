"""Rows out of whatever they are wrapped in."""

from __future__ import annotations

import json

from tests.support.cases import for_each

from modules.llm_platform.application.research.model_output.rows import KEY, MAX_ROWS, read_rows

TITLES = (
    *("Heat pumps in old houses", "What a heat pump costs in 2025", "Air or ground: a comparison", "Noise and the law"),
    *('Bob\'s guide to "quiet" pumps', "Тепловые насосы: обзор", "Wärmepumpe im Altbau", "Five myths, tested"),
    *("COP explained (with charts)", "Why R290? The refrigerant"),
)
SIGNS = ("", '"', "]", "[", "{", "}", ",", ":", "\\", "x", "\n", "'")
TEA = {"title": "Tea", "accuracy": 7}
ARRAY = [1, "Tea", 7, 8]


@for_each(
    ("value", "rows"),
    [
        ([TEA, TEA], [TEA, TEA]),
        ([ARRAY, ARRAY], [ARRAY, ARRAY]),
        (TEA, [TEA]),
        (ARRAY, [ARRAY]),
        ({"results": [TEA]}, [TEA]),
        ({"status": "ok", "data": {"count": 1, "ranking": [ARRAY]}}, [ARRAY]),
        ({"scores": ARRAY}, [ARRAY]),
        ({"1": TEA}, [{KEY: "1", **TEA}]),
        ({"results": {"1": TEA, "2": TEA}}, [{KEY: "1", **TEA}, {KEY: "2", **TEA}]),
        ({"Tea": {"accuracy": 7, "structure": 8}}, [{KEY: "Tea", "accuracy": 7, "structure": 8}]),
        ({"Tea": {"score": 7}, "Ale": {"score": 8}}, [{KEY: "Tea", "score": 7}, {KEY: "Ale", "score": 8}]),
        ({"Tea": [7, 8, 9], "Ale": [5, 6, 7]}, [["Tea", 7, 8, 9], ["Ale", 5, 6, 7]]),
        ({"1": ["Tea", 7, 8], "2": ARRAY}, [["1", "Tea", 7, 8], ARRAY]),
        ({"title": "Tea", "scores": {"accuracy": 7}}, [{"title": "Tea", "accuracy": 7}]),
        ({"title": "Tea", "accuracy": {"score": 7, "reason": "so"}}, [TEA]),
        ({"title": "Tea", "accuracy": {"score": 7, "of": 10}}, [{"title": "Tea", "score": 7, "of": 10}]),
        ({"id": 1, "title": "Tea", "scores": [7, 8]}, [ARRAY]),
        ({**TEA, "tags": ["hot", "wet"]}, [TEA]),
        ([[[[ARRAY]]]], [ARRAY]),
        ([1, "Tea", 7, [2, "Ale", 8]], [[1, "Tea", 7], [2, "Ale", 8]]),
        ([[2, 3], ["Tea", 7], [], {}, [1]], [["Tea", 7]]),
        ({"results": []}, []),
        (None, []),
    ],
)
def test_rows_are_unwrapped(value: object, rows: list[object]) -> None:
    """The row is the same, however it was wrapped; a key that may be its title or number stays with it."""
    assert read_rows(json.dumps(value)) == rows


@for_each(
    "text",
    [
        json.dumps(json.dumps([TEA])),
        json.dumps([TEA]).replace('"', '\\"'),
        json.dumps([TEA]).replace('"', "&quot;"),
        json.dumps([TEA]).replace('"', "&#39;"),
        f"<think>[[1, 2, 3]]</think>```json\n{json.dumps([TEA])}\n```",
        f"Fine [1]: {json.dumps(TEA)} and no more.",
    ],
)
def test_text_around_rows_is_ignored(text: str) -> None:
    """Reasoning, fences, prose, a second coat of JSON, entities."""
    assert read_rows(text) == [TEA]


def test_ampersand_in_json_is_kept() -> None:
    """Titles in well-formed JSON are kept unchanged."""
    assert read_rows('[[1, "R&amp;D &quot;x&quot;", 7]]') == [[1, "R&amp;D &quot;x&quot;", 7]]


def test_nesting_is_bounded() -> None:
    """What is wrapped more often than any answer is left out."""
    assert read_rows('{"a":' * 60 + '{"b": "c"}' + "}" * 60) == []


def test_rows_are_bounded() -> None:
    """A model that repeats itself fills no memory."""
    assert len(read_rows("[" + "[1, 2, 3]," * 10_000)) == MAX_ROWS


@for_each(
    ("text", "rows"),
    [
        ("| # | Title | a | b | c |\n|---|---|---|---|---|\n| 1 | Tea | 7 | 8 | 9 |", [["1", "Tea", "7", "8", "9"]]),
        ('1, "Tea, green", 7, 8, 9', [["1", "Tea, green", "7", "8", "9"]]),
        ("1. Tea: 7, 8, 9\n2) **Ale** — 5; 6; 7", [["1", "Tea", "7", "8", "9"], ["2", "Ale", "5", "6", "7"]]),
        ("Tea\t7/10\t8/10\t90%", [["Tea", "7/10", "8/10", "90%"]]),
        ("Tea | 7 | 8 | nine | fine", [["Tea", "7", "8", "nine", "fine"]]),
        ("In 2024, 3, or 4 of them", []),
        ("I cannot comply.", []),
    ],
)
def test_lines_are_rows_without_json(text: str, rows: list[object]) -> None:
    """Tables and separated values are rows. Prose with numbers is not."""
    assert read_rows(text) == rows


@for_each("sign", SIGNS)
@for_each("replaced", [0, 1])
def test_wrong_character_loses_two_rows_at_most(sign: str, replaced: int) -> None:
    """A character put in, torn out or replaced anywhere in ten rows leaves eight of them as they were."""
    rows = [[number, title, 8, 7, 6, 7, 8] for number, title in enumerate(TITLES, 1)]
    text = json.dumps(rows, ensure_ascii=False)
    for at in range(len(text)):
        found = read_rows(text[:at] + sign + text[at + replaced :])
        assert sum(row in found for row in rows) >= len(rows) - 2, text[:at]
