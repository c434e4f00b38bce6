"""A benchmark that measures wrongly is worse than none: its arithmetic, and whether floor and fake get on."""

from __future__ import annotations

import json

import pytest
from benchmarks.common import NO_LATENCY, control, fake_upstreams, own_time, percentile, topic
from benchmarks.fake_upstreams import RESULTS, completion, searxng
from benchmarks.floor import Floor
from benchmarks.run import ratio
from hypothesis import given
from hypothesis import strategies as st

SPANS = st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)).map(sorted), max_size=8)


def log(*spans: tuple[float, float]) -> list[dict[str, float]]:
    return [{"t0": start, "t1": stop} for start, stop in spans]


@pytest.mark.parametrize(
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


def test_the_fake_is_the_same_every_time() -> None:
    """Two systems that send the same request get the same bytes; a search has results, a plan three lines."""
    searxng.cache_clear()
    once = searxng("reef restoration")
    searxng.cache_clear()
    assert searxng("reef restoration") == once
    assert len(json.loads(once)["results"]) == RESULTS
    assert len(completion("searches, one per line\n\nQuestion: reefs").splitlines()) == 3
    assert "[1]" in completion("Question: reefs")


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
