"""Calls, dollars and seconds are shared: no limit is exceeded, and the stage of higher priority keeps its share."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.application.research.budget import (
    CALL_TOKENS,
    FALLBACK_MAX_S,
    MAX_EXTRA_TRIES,
    PHASE_ENDS,
    PRIORITY,
    WRITING_MAX_S,
    Budget,
    Phase,
    Price,
    Reservation,
    compute_phase_end,
)
from modules.llm_platform.domain.dtos.llm_dtos import Spending
from modules.llm_platform.domain.dtos.report_dtos import LLMStage
from modules.llm_platform.domain.exceptions import LLMBudgetError, PriceUnknownError

CENT = 0.01


def per_token(prompt_tokens: int, completion_tokens: int) -> float:
    """Return a dollar for a hundred thousand tokens, answers five times as dear."""
    return (prompt_tokens + 5 * completion_tokens) / 100_000


def budget(calls: int | None = None, dollars: float | None = None, *, price: Price | None = per_token) -> Budget:
    """Return a budget with a stopped clock."""
    return Budget(max_llm_calls=calls, max_cost_usd=dollars, deadline=100.0, price=price, clock=lambda: 0.0)


def budget_of_a_dollar(text_usd: float) -> Budget:
    """Return a budget whose next call writes a text of this price."""
    text_price = per_token(*CALL_TOKENS["write"])
    account = budget(dollars=1.0, price=lambda prompt, answer: text_usd * per_token(prompt, answer) / text_price)
    expect(account, {"rank": 0, "write": 1})
    return account


def reserved(account: Budget, stage: LLMStage, usd: float = 0.0) -> Reservation:
    reservation = account.try_reserve(stage, usd)
    assert reservation is not None
    return reservation


def calls_only(limit: int, **to_come: int) -> Budget:
    account = budget(limit)
    expect(account, {"rank": 0} | to_come)
    return account


def expect(account: Budget, to_come: dict[str, int]) -> None:
    for stage in PRIORITY:
        if stage in to_come:
            account.expect_calls(stage, to_come[stage])


def taken(account: Budget, stage: LLMStage, usd: float = 0.0) -> bool:
    """Make one call with one attempt and its whole reservation, and return whether it was allowed."""
    reservation = account.try_reserve(stage, usd)
    if reservation is not None:
        account.settle(reservation, Spending(calls=1, cost_usd=usd))
    return reservation is not None


def granted_calls(account: Budget, *stages: LLMStage) -> list[LLMStage]:
    return [stage for stage in stages if taken(account, stage)]


WHOLE: tuple[LLMStage, ...] = (
    "plan",
    "queries",
    "queries",
    "queries",
    "rank",
    "rank",
    "summarize",
    "summarize",
    "summarize",
    "write",
)


@for_each(
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
def test_lower_priority_is_refused_first(limit: int, left_out: list[str]) -> None:
    """Summaries, then queries, then ranking, then the plan; the text last of all."""
    account = calls_only(limit, write=1, rank=2, plan=1, queries=3)
    made = granted_calls(account, *WHOLE)
    rest = list(WHOLE)
    for stage in made:
        rest.remove(stage)
    assert rest == left_out
    assert account.spent.calls == min(limit, len(WHOLE))


def test_writing_and_ranking_have_a_call_by_default() -> None:
    """A pipeline that expects nothing has one call left to write with, and one to rank with."""
    for limit, made in ((2, ["plan", "write"]), (3, ["plan", "rank", "write"])):
        account = budget(limit)
        assert granted_calls(account, "plan", "queries", "rank", "summarize", "write") == made


def test_lowered_expectation_releases_calls() -> None:
    """When ranking is over, its calls serve the summaries."""
    account = calls_only(3, rank=2)
    assert not taken(account, "summarize")
    account.expect_calls("rank", 0)
    assert granted_calls(account, "summarize", "summarize", "summarize") == ["summarize", "summarize"]


def test_unlimited_budget_grants_every_call() -> None:
    """Whatever is expected and whatever it costs."""
    account = budget()
    assert not account.is_limited
    assert all(taken(account, "summarize", 1e9) for _ in range(100))


@for_each(("limit", "tries"), [(2, 1), (3, 2), (4, 3), (100, 1 + MAX_EXTRA_TRIES)])
def test_extra_tries_come_from_unexpected_calls_only(limit: int, tries: int) -> None:
    """A second try is for calls that are left when everybody expected has had one."""
    assert reserved(calls_only(limit, write=1), "plan").tries == tries


def test_extra_tries_stay_within_the_dollars() -> None:
    """Retries do not spend money that is reserved for the text."""
    account = budget_of_a_dollar(text_usd=0.5)
    assert reserved(account, "plan", 0.30).tries == 1
    assert reserved(account, "plan", 0.06).tries == 3


def test_dollars_are_reserved_for_writing() -> None:
    """What a text costs is there when it is written."""
    account = budget_of_a_dollar(text_usd=0.5)
    assert account.count_usd_left("write") == 1.0
    assert account.count_usd_left("summarize") == 0.5
    assert not taken(account, "summarize", 0.51)
    assert taken(account, "summarize", 0.50)
    assert not taken(account, "summarize", 0.01)
    assert taken(account, "write", 0.50)


def test_reservation_for_writing_is_capped() -> None:
    """A text that alone would take all keeps no more than most of it."""
    account = budget_of_a_dollar(text_usd=10.0)
    assert taken(account, "plan", 0.40)
    assert not taken(account, "plan", 0.01)


def test_a_call_that_was_interrupted_may_have_cost_all() -> None:
    """The cost of an interrupted call is unknown, so its reservation is not released. Only known costs are reported."""
    account = budget(dollars=1.0)
    expect(account, {"rank": 0, "write": 0})
    grant = reserved(account, "plan", 0.3)
    account.settle(grant, Spending(calls=1, cost_usd=0.1), interrupted=True)
    assert account.spent.cost_usd == 0.1
    assert account.count_usd_left("write") == pytest.approx(1.0 - grant.usd)


def test_unknown_cost_is_counted_at_the_highest_price() -> None:
    """An answer whose cost is not told does not count as free."""
    account = budget(dollars=1.0)
    account.add_spending(Spending(calls=1, prompt_tokens=30_000, completion_tokens=4000, cost_usd=None))
    assert account.count_usd_left("write") == pytest.approx(0.5)


steps = st.lists(
    st.tuples(
        st.sampled_from(PRIORITY),
        st.floats(0.0, 0.4),  # dollars reserved
        st.floats(0.0, 1.0),  # the share of them that it took
        st.integers(1, 3),  # attempts that the call made, if it was granted this many
        st.booleans(),  # broken off
        st.booleans(),  # settled at once, or at the end
    ),
    max_size=40,
)


@given(limit=st.integers(0, 12), dollars=st.floats(0.0, 3.0), steps=steps)
def test_no_limit_is_ever_passed(
    limit: int, dollars: float, steps: list[tuple[LLMStage, float, float, int, bool, bool]]
) -> None:
    """Limits hold for any order and concurrency of calls, and for any outcome."""
    account = budget(limit, dollars)
    open_calls: list[tuple[Reservation, Spending, bool]] = []
    for stage, usd, share, tries, interrupted, at_once in steps:
        grant = account.try_reserve(stage, usd)
        if grant is None:
            continue
        took = min(tries, grant.tries)
        outcome = (grant, Spending(calls=took, cost_usd=usd * took * share), interrupted)
        if at_once:
            account.settle(*outcome[:2], interrupted=interrupted)
        else:
            open_calls.append(outcome)
    for grant, spent, interrupted in open_calls:
        account.settle(grant, spent, interrupted=interrupted)
    assert account.spent.calls <= limit
    assert (account.spent.cost_usd or 0.0) <= dollars + 1e-9


@given(limit=st.integers(1, 12), others=st.lists(st.sampled_from(PRIORITY[1:]), max_size=40))
def test_writing_always_has_a_call_left(limit: int, others: list[LLMStage]) -> None:
    """Whatever the others took, one call is left for it; and the cents that it needs."""
    account = budget(limit, 10 * CENT, price=lambda asked, written: CENT)
    for stage in others:
        taken(account, stage, CENT)
    assert taken(account, "write", CENT)


@pytest.mark.parametrize("limit", [0.0, 1.0])
def test_a_limit_in_dollars_needs_a_price(limit: float) -> None:
    """A limit that cannot be kept is refused before anything is spent."""
    with pytest.raises(PriceUnknownError):
        budget(dollars=limit, price=None)


async def test_added_spending_counts_against_the_limits() -> None:
    """Calls made outside of the budget are calls of the report."""
    account = budget(3)
    account.add_spending(Spending(calls=3, prompt_tokens=10))
    assert account.spent.calls == 3
    with pytest.raises(LLMBudgetError):
        await account.reserve("plan")


def text_only(dollars: float | None, price: Price = lambda prompt, answer: (prompt + answer) / 1000) -> Budget:
    account = budget(dollars=dollars, price=price)
    expect(account, {"rank": 0, "write": 0})
    return account


async def test_a_prompt_of_the_set_aside_tokens_fits_exactly() -> None:
    """One token more does not."""
    account = text_only(1.0)
    tokens = account.set_aside_prompt_tokens("write", 400)
    assert tokens == 600
    with pytest.raises(LLMBudgetError):
        await account.reserve("write", tokens + 1, 400)
    await account.reserve("write", tokens, 400)


async def test_set_aside_dollars_are_not_given_to_another_stage() -> None:
    """Until the call that they are for has been reserved."""
    account = text_only(1.0)
    account.expect_calls("write", 1)
    assert account.set_aside_prompt_tokens("write", 400) == 600
    with pytest.raises(LLMBudgetError):
        await account.reserve("summarize", 1, 1)
    account.settle(await account.reserve("write", 500, 400), Spending(calls=1, cost_usd=0.5))
    await account.reserve("summarize", 400, 100)


async def test_prompt_tokens_are_unlimited_without_a_limit_or_a_price() -> None:
    """None without a limit in dollars or for free prompts; 0 if even the answer is too expensive."""
    free = text_only(0.0, lambda prompt, answer: 0.0)
    limits = [account.set_aside_prompt_tokens("write", 400) for account in (text_only(None), free, text_only(0.1))]
    assert limits == [None, None, 0]
    await free.reserve("write", 10_000, 400)


def test_an_answer_is_shortened_to_half_of_the_dollars() -> None:
    """To one token at least; not at all without a limit or a price."""
    free = text_only(0.0, lambda prompt, answer: 0.0)
    accounts = (text_only(1.0), text_only(0.0), text_only(None), free)
    assert [account.limit_answer_tokens("write", 4000) for account in accounts] == [500, 1, 4000, 4000]
    assert text_only(1.0).limit_answer_tokens("write", 400) == 400


def test_a_budget_measures_phases_from_its_beginning() -> None:
    """The fallback writer has the last three of a hundred seconds."""
    assert (budget().compute_phase_end("write"), budget().compute_phase_end("rank")) == (97.0, 50.0)


ORDER: tuple[Phase, ...] = (
    "plan",
    "queries",
    "search",
    "rank",
    "read",
    "collect_summaries",
    "summarize",
    "rank_summaries",
    "write",
    "judge",
)


@for_each(
    ("phase", "second"),
    [("rank", 50.0), ("read", 65.0), ("collect_summaries", 72.0), ("summarize", 80.0), ("write", 97.0)],
)
def test_shares_of_the_time(phase: Phase, second: float) -> None:
    """Finding and ranking take half, reading ends at 65 %; the rest is the writing's, and its last resort's."""
    assert compute_phase_end(phase, 1000.0, 1100.0) == 1000.0 + second


def test_writing_time_is_capped() -> None:
    """Of a whole day, writing reserves only minutes, and the rest is for research."""
    assert compute_phase_end("summarize", 0.0, 86_400.0) == 86_400.0 - WRITING_MAX_S


@given(st.floats(-1e6, 1e6), st.floats(0.0, 1e6))
def test_phases_end_in_order_within_the_time(began: float, allowed: float) -> None:
    """No phase ends before the one ahead of it, none before the beginning, and a tenth or three seconds are left."""
    deadline = began + allowed
    ends = [compute_phase_end(phase, began, deadline) for phase in ORDER]
    assert ends == sorted(ends)
    assert began <= ends[0]
    assert deadline - ends[-1] == pytest.approx(min(FALLBACK_MAX_S, 0.1 * (deadline - began)), abs=1e-6)


def test_a_deadline_that_has_passed() -> None:
    """Leaves no time for anything, and nothing ends before it began."""
    assert all(compute_phase_end(phase, 10.0, 5.0) == 10.0 for phase in PHASE_ENDS)


def test_nothing_is_kept_free_for_a_stage_without_a_model() -> None:
    """Rules do it, so that the others may have its calls."""
    account = Budget(
        max_llm_calls=2, max_cost_usd=None, deadline=100.0, price=None, stages=("queries", "write"), clock=lambda: 0.0
    )
    account.expect_calls("rank", 5)
    assert granted_calls(account, "queries", "queries", "write") == ["queries", "write"]
