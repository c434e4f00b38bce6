"""Calls and dollars are shared out: no limit is passed, and the more important stage keeps its own."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.llm_platform.application.research.budget import EXTRA_TRIES, PRIORITY, Allowance, CallGrant
from modules.llm_platform.domain.dtos.llm_dtos import Spending
from modules.llm_platform.domain.dtos.report_dtos import LLMStage

CENT = 0.01


def per_token(prompt_tokens: int, completion_tokens: int) -> float:
    """A dollar for a hundred thousand tokens, answers five times as dear."""
    return (prompt_tokens + 5 * completion_tokens) / 100_000


def calls_only(limit: int, **to_come: int) -> Allowance:
    allowance = Allowance(limit, math.inf, per_token)
    expect(allowance, {"rank": 0} | to_come)
    return allowance


def expect(allowance: Allowance, to_come: dict[str, int]) -> None:
    for stage in PRIORITY:
        if stage in to_come:
            allowance.expect(stage, to_come[stage], None)


def taken(allowance: Allowance, stage: LLMStage, usd: float = 0.0) -> bool:
    """Whether one more call was made: it took one try and what was reserved for it."""
    if not allowance.fits(stage, usd):
        return False
    allowance.settle(allowance.hold(stage, usd), Spending(calls=1, cost_usd=usd), broken_off=False)
    return True


def asked_in_turn(allowance: Allowance, *stages: LLMStage) -> list[LLMStage]:
    return [stage for stage in stages if taken(allowance, stage)]


WHOLE: tuple[LLMStage, ...] = (
    "plan", "queries", "queries", "queries", "rank", "rank", "summarize", "summarize", "summarize", "write",
)  # fmt: skip


@pytest.mark.parametrize(
    ("limit", "left_out"),
    [
        (10, []),
        (9, ["summarize"]),
        (7, ["summarize"] * 3),
        (6, ["queries"] + ["summarize"] * 3),
        (4, ["queries"] * 3 + ["summarize"] * 3),
        (3, ["queries"] * 3 + ["rank"] + ["summarize"] * 3),
        (2, ["queries"] * 3 + ["rank"] * 2 + ["summarize"] * 3),
        (1, ["plan"] + ["queries"] * 3 + ["rank"] * 2 + ["summarize"] * 3),
        (0, list(WHOLE)),
    ],
)
def test_the_less_important_gives_way_first(limit: int, left_out: list[str]) -> None:
    """Summaries, then queries, then ranking, then the plan; the text last of all."""
    allowance = calls_only(limit, write=1, rank=2, plan=1, queries=3)
    made = asked_in_turn(allowance, *WHOLE)
    rest = list(WHOLE)
    for stage in made:
        rest.remove(stage)
    assert rest == left_out
    assert allowance.spent.calls == min(limit, len(WHOLE))


def test_the_text_is_kept_before_anybody_says_so() -> None:
    """A pipeline that expects nothing has one call left to write with, and one to rank with."""
    for limit, made in ((2, ["plan", "write"]), (3, ["plan", "rank", "write"])):
        allowance = Allowance(limit, math.inf, per_token)
        assert asked_in_turn(allowance, "plan", "queries", "rank", "summarize", "write") == made


def test_what_is_not_needed_after_all_is_free_again() -> None:
    """When ranking is over, its calls serve the summaries."""
    allowance = calls_only(3, rank=2)
    assert not taken(allowance, "summarize")
    allowance.expect("rank", 0, None)
    assert asked_in_turn(allowance, "summarize", "summarize", "summarize") == ["summarize", "summarize"]


def test_no_limit_is_no_limit() -> None:
    """Whatever is expected and whatever it costs."""
    allowance = Allowance(math.inf, math.inf, per_token)
    assert not allowance.is_limited
    assert all(taken(allowance, "summarize", 1e9) for _ in range(100))


@pytest.mark.parametrize(("limit", "tries"), [(2, 1), (3, 2), (4, 3), (100, 1 + EXTRA_TRIES)])
def test_further_tries_only_where_nobody_needs_them(limit: int, tries: int) -> None:
    """A second try is for calls that are left when everybody expected has had one."""
    assert calls_only(limit, write=1).hold("plan", 0.0).tries == tries


def test_further_tries_within_the_dollars() -> None:
    """The same for money: what is kept for the text is not spent on trying again."""
    allowance = Allowance(math.inf, 1.0, per_token)
    expect(allowance, {"rank": 0})
    allowance.expect("write", 1, (30_000, 4000))  # half a dollar
    assert allowance.hold("plan", 0.30).tries == 1
    assert allowance.hold("plan", 0.06).tries == 3


def test_dollars_are_kept_for_the_text() -> None:
    """What a text of the size that was told costs is there when it is written."""
    allowance = Allowance(math.inf, 1.0, per_token)
    expect(allowance, {"rank": 0})
    allowance.expect("write", 1, (30_000, 4000))
    assert allowance.usd_left("write") == 1.0
    assert allowance.usd_left("summarize") == 0.5
    assert not taken(allowance, "summarize", 0.51)
    assert taken(allowance, "summarize", 0.50)
    assert not taken(allowance, "summarize", 0.01)
    assert taken(allowance, "write", 0.50)


def test_a_dear_text_leaves_something_to_write_from() -> None:
    """A text that alone would take all keeps no more than most of it."""
    allowance = Allowance(math.inf, 1.0, per_token)
    expect(allowance, {"rank": 0})
    allowance.expect("write", 1, (1_000_000, 4000))
    assert taken(allowance, "plan", 0.40)
    assert not taken(allowance, "plan", 0.01)


def test_a_call_that_was_broken_off_may_have_cost_all() -> None:
    """Nobody knows what it took: its dollars do not come back, and what is told is what is known."""
    allowance = Allowance(math.inf, 1.0, per_token)
    expect(allowance, {"rank": 0, "write": 0})
    grant = allowance.hold("plan", 0.3)
    allowance.settle(grant, Spending(calls=1, cost_usd=0.1), broken_off=True)
    assert allowance.spent.cost_usd == 0.1
    assert allowance.usd_left("write") == pytest.approx(1.0 - grant.usd)


def test_what_nobody_can_price_is_counted_at_the_dearest_price() -> None:
    """An answer whose cost is not told does not count as free."""
    allowance = Allowance(math.inf, 1.0, per_token)
    allowance.add(Spending(calls=1, prompt_tokens=30_000, completion_tokens=4000, cost_usd=None))
    assert allowance.usd_left("write") == pytest.approx(0.5)


steps = st.lists(
    st.tuples(
        st.sampled_from(PRIORITY),
        st.floats(0.0, 0.4),  # dollars reserved
        st.floats(0.0, 1.0),  # the share of them that it took
        st.integers(1, 3),  # tries that it took, if it was granted so many
        st.booleans(),  # broken off
        st.booleans(),  # settled at once, or at the end
    ),
    max_size=40,
)


@given(limit=st.integers(0, 12), dollars=st.floats(0.0, 3.0), steps=steps)
def test_no_limit_is_ever_passed(
    limit: int, dollars: float, steps: list[tuple[LLMStage, float, float, int, bool, bool]]
) -> None:
    """Whoever calls in whatever order, side by side or not, however the calls end."""
    allowance = Allowance(limit, dollars, per_token)
    open_calls: list[tuple[CallGrant, Spending, bool]] = []
    for stage, usd, share, tries, broken_off, at_once in steps:
        if not allowance.fits(stage, usd):
            continue
        grant = allowance.hold(stage, usd)
        took = min(tries, grant.tries)
        outcome = (grant, Spending(calls=took, cost_usd=usd * took * share), broken_off)
        if at_once:
            allowance.settle(*outcome[:2], broken_off=broken_off)
        else:
            open_calls.append(outcome)
    for grant, spent, broken_off in open_calls:
        allowance.settle(grant, spent, broken_off=broken_off)
    assert allowance.spent.calls <= limit
    assert (allowance.spent.cost_usd or 0.0) <= dollars + 1e-9


@given(limit=st.integers(1, 12), others=st.lists(st.sampled_from(PRIORITY[1:]), max_size=40))
def test_the_text_can_always_be_written(limit: int, others: list[LLMStage]) -> None:
    """Whatever the others took, one call is left for it; and the cents that it needs."""
    allowance = Allowance(limit, 10 * CENT, lambda asked, written: CENT)
    for stage in others:
        taken(allowance, stage, CENT)
    assert taken(allowance, "write", CENT)
