"""A benchmark that measures wrongly is worse than none: its arithmetic, and whether floor and fake get on."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from benchmarks.common import NO_LATENCY, control, fake_upstreams, own_time, percentile, topic
from benchmarks.fake_content import RESULTS, read_page, searxng
from benchmarks.fake_model import ASPECTS, QUERY, SUB_QUESTION, answer
from benchmarks.fake_upstreams import _Wait
from benchmarks.floor import Floor
from benchmarks.floor_report import PAGES, RANK, ReportFloor
from benchmarks.run import ratio, report_overlap
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

SPANS = st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)).map(sorted), max_size=8)


def log(*spans: tuple[float, float]) -> list[dict[str, float]]:
    return [{"t0": start, "t1": stop} for start, stop in spans]


@for_each(
    ("spans", "own"),
    [
        ([], 10.0),
        ([(2, 5)], 7.0),
        ([(2, 5), (3, 4)], 7.0),
        ([(2, 5), (4, 8)], 4.0),
        ([(-1, 3), (9, 12)], 6.0),
        ([(6, 8), (1, 2)], 7.0),
    ],
)
def test_own_time_is_what_no_upstream_covers(spans: list[tuple[float, float]], own: float) -> None:
    """Overlapping requests count once, and what lies outside the research does not count at all."""
    assert own_time(log(*spans), 0.0, 10.0) == pytest.approx(own)


@given(SPANS)
def test_own_time_lies_within_the_span(spans: list[list[float]]) -> None:
    """Never negative, never more than the whole, whatever was logged."""
    assert -1e-9 <= own_time(log(*map(tuple, spans)), 20.0, 80.0) <= 60.0  # type: ignore[arg-type]


def test_an_open_request_is_busy_to_the_end() -> None:
    """A request that was not finished when the log was read is no time of ours."""
    assert own_time([{"t0": 4.0}], 0.0, 10.0) == pytest.approx(4.0)


def test_percentile_takes_a_measured_value() -> None:
    """No interpolation: the figure printed was seen."""
    assert percentile([3.0, 1.0, 2.0], 0.99) == 3.0
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0


def test_no_question_is_asked_twice() -> None:
    """A cache must not be what is measured."""
    assert len({topic(n) for n in range(500)}) == 500


ORIGIN = "http://127.0.0.1:1"
LISTED = "1. First page of all: a primer\nsome words\n2. Second page\nmore words"
ROWS = 'Answer as [[1, "First words", 7, 8, 6, 7, 8]].\n\nQuestion: reefs\n\n' + LISTED


def test_the_fake_is_the_same_every_time() -> None:
    """Two systems that send the same request get the same bytes; a search has results, a page is long."""
    searxng.cache_clear()
    once = searxng("reef restoration", ORIGIN)
    searxng.cache_clear()
    assert searxng("reef restoration", ORIGIN) == once
    assert len(json.loads(once)["results"]) == RESULTS
    page = read_page(f"{ORIGIN}/page/reef-restoration/3").decode()
    assert page.startswith("Title: reef restoration, part 3\n")
    assert len(page) > 10_000


@for_each(
    ("prompt", "kind", "begins"),
    [
        ("searches, one per line\n\nQuestion: reefs", "plan", "Question: reefs background"),
        (f'prefix "{SUB_QUESTION}"\n\nQuestion: reefs', "plan", f"{SUB_QUESTION} reefs background?"),
        (f'prefix "{QUERY}"\n\nTopic: reefs', "queries", f"{QUERY} reefs explained"),
        ("Summarize the text.\nTopic: reefs\n\ntext", "summary", ""),
        ("Answer with citations [1].\n\nQuestion: reefs", "answer", "## Part 1"),
        (ROWS, "rank", '[[1, "First page of", '),
        (RANK.format(question="reefs", direction="costs", results=LISTED), "rank", '[{"title": "First page of all: a '),
    ],
)
def test_the_fake_answers_what_the_prompt_asks_for(prompt: str, kind: str, begins: str) -> None:
    """By the shape of the prompt, so that a pipeline of other words gets answers that it can use."""
    said = answer(prompt)
    assert said.kind == kind
    assert said.text.startswith(begins)


def test_a_ranking_has_a_row_for_each_result() -> None:
    """In the short form the number, the beginning of the title and five marks; in the long one an object under the keys."""
    rows = json.loads(answer(ROWS).text)
    assert [row[0] for row in rows] == [1, 2]
    assert all(len(row) == 7 for row in rows)
    objects = json.loads(answer(RANK.format(question="reefs", direction="costs", results=LISTED)).text)
    assert [len(object_) for object_ in objects] == [7, 7]
    assert len(answer(ROWS).text) < len(answer(RANK.format(question="q", direction="d", results=LISTED)).text) / 3


def test_uneven_delays_depend_on_the_request_alone() -> None:
    """The same question waits as long on every port and in every run; without jitter all wait the same."""
    even, uneven = {"search": 300.0, "jitter": 0.0}, {"search": 300.0, "jitter": 0.6}

    def factor(latency: dict[str, float], asked: str) -> float:
        return _Wait(latency, 0.0)._stretched("search", asked)

    assert factor(even, "a") == factor(even, "b") == 1.0
    assert factor(uneven, "http://127.0.0.1:1/a") == factor(uneven, "http://127.0.0.1:22222/a")
    factors = {factor(uneven, str(n)) for n in range(200)}
    assert 0.4 <= min(factors) < 0.5
    assert 1.5 < max(factors) <= 1.6


def test_the_ratio_says_whether_the_bar_holds() -> None:
    """At the bar is held, above it is missed."""
    assert ratio("x", 1.0, 1.5, 1.5)[-1]
    assert not ratio("x", 1.0, 1.6, 1.5)[-1]


async def test_the_floor_does_the_work() -> None:
    """One search and one answer when shallow; a plan, three searches and one answer when deep; all of it is logged."""
    with fake_upstreams() as upstream:
        floor = Floor(upstream)
        control(upstream, "latency", NO_LATENCY)
        assert "[1]" in await floor.shallow("reef restoration costs")
        assert len(control(upstream, "log")) == 2
        control(upstream, "reset")
        assert "[1]" in await floor.deep("reef restoration costs")
        await floor.close()
        paths = [entry["path"] for entry in control(upstream, "log")]
    assert sorted(paths) == ["/search"] * 3 + ["/v1/chat/completions"] * 2


@pytest.mark.parametrize("floor_name", ["staged", "chained"])
async def test_the_report_floors_do_the_work(floor_name: str) -> None:
    """Plan, three times queries, six searches, six rankings and one of the summaries, five pages, five summaries, an answer."""
    with fake_upstreams() as upstream:
        floor = ReportFloor(upstream)
        control(upstream, "latency", NO_LATENCY)
        assert "[1]" in await getattr(floor, floor_name)("reef restoration costs")
        await floor.close()
        log = control(upstream, "log")
    kinds = Counter(entry.get("kind") or entry["path"].split("/")[1] for entry in log)
    aspects = len(ASPECTS)
    assert kinds == {
        "plan": 1,
        "queries": aspects,
        "search": 2 * aspects,
        "rank": 2 * aspects + 1,
        "r": PAGES,
        "summary": PAGES,
        "answer": 1,
    }
    assert all(entry["tokens_in"] > 0 and entry["tokens_out"] > 0 for entry in log if "kind" in entry)


def test_questions_are_compared_with_themselves() -> None:
    """The mean of the ratios, not the ratio of the means: a long question must not outweigh the others."""
    counts = {"tokens_in": 10, "tokens_out": 10, "calls": 1}
    wall, tokens, _ = report_overlap({"floor": {"walls": [1, 9], **counts}, "ours": {"walls": [1.2, 1.8], **counts}})
    assert "(0.70x)" in wall[2]
    assert "0.20 to 1.20" in wall[3]
    assert wall[-1]
    assert not tokens[-1]
