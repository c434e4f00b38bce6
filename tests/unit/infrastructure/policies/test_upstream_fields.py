"""Unknown and missing fields of the answers of search providers."""

from __future__ import annotations

from typing import Any

import pytest
from tests.loopback_upstream import RECORDINGS, recording

from modules.llm_platform.domain.metrics import OTHER, UPSTREAM_FIELDS
from modules.llm_platform.infrastructure.policies.upstream_fields import MISSING, TABLES, UNKNOWN, count_fields
from modules.llm_platform.testing import MemoryMetrics

ROW = {"url": "https://a.example", "title": "A", "content": "", "engine": "e"}
ANSWER: dict[str, Any] = {"query": "q", "results": [ROW], "unresponsive_engines": []}
WHOLE = [
    "searxng/01_general_merged_suggestions", "searxng/03_infobox", "searxng/04_news_published", "searxng/05_science_papers",
    "searxng/10_empty_result", "brave/web", "brave/news", "brave/nothing_found", "bocha/wrapped", "bocha/bare",
]  # fmt: skip


def counted(answer: Any, upstream: str = "searxng") -> dict[tuple[str, ...], float]:
    metrics = MemoryMetrics()
    count_fields(metrics, upstream, answer)
    assert {name for name, *_ in metrics.values} <= {UPSTREAM_FIELDS.name}
    return {tuple(labels): value for (_, *labels), value in metrics.values.items()}


@pytest.mark.parametrize("name", WHOLE)
def test_recorded_answers_are_as_expected(name: str) -> None:
    """What the providers send today counts nothing."""
    assert (RECORDINGS / f"{name}.json").exists()
    assert counted(recording(name), name.partition("/")[0]) == {}


def test_a_missing_field_has_its_name() -> None:
    """Of the answer and of its rows, once an answer however many rows lack it."""
    row = {name: value for name, value in ROW.items() if name != "url"}
    answer = {"query": "q", "results": [row, row]}
    assert counted(answer, "searxng-2") == {
        ("searxng-2", "url", MISSING): 1,
        ("searxng-2", "unresponsive_engines", MISSING): 1,
    }


def test_an_unknown_field_has_no_name() -> None:
    """A server could send a million names: all are `other`."""
    answer = {**ANSWER, "private text": 1, "results": [{**ROW, f"name {number}": 1} for number in range(100)]}
    assert counted(answer) == {("searxng", OTHER, UNKNOWN): 1}


@pytest.mark.parametrize("rows", [None, 5, "text", {"a": 1}, [None, 5, "text", []]])
@pytest.mark.parametrize("upstream", [*TABLES, "documents"])
def test_foreign_types_raise_nothing(rows: Any, upstream: str) -> None:
    """An upstream may send anything."""
    for answer in ({"results": rows}, {"web": rows}, {"data": rows}, {"data": {"webPages": rows}}, {}):
        counted(answer, upstream)
