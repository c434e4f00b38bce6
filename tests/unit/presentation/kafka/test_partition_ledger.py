"""The ledger of a partition: what is committed is below everything that is not finished."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from modules.llm_platform.presentation.kafka.worker.request import OffsetTracker


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[int], list[int], set[int]]:
    """Offsets in rising order with gaps, an order in which some of them end, and which of those were given up."""
    steps = draw(st.lists(st.integers(1, 4), min_size=1, max_size=40))
    offsets = [sum(steps[: place + 1]) for place in range(len(steps))]
    ended = draw(st.permutations(offsets))[: draw(st.integers(0, len(offsets)))]
    return offsets, ended, set(draw(st.lists(st.sampled_from(offsets), max_size=3)))


@given(history=histories())
def test_the_floor_is_the_lowest_unfinished(history: tuple[list[int], list[int], set[int]]) -> None:
    """After each step: all below the floor is finished, and the first one that is not lies at or above it."""
    offsets, ended, given_up = history
    ledger = OffsetTracker("topic", 3)
    for offset in offsets:
        assert ledger.follows(offset)
        ledger.start(offset)
    finished: set[int] = set()
    for offset in ended:
        if offset in given_up:
            ledger.abandon()
        else:
            ledger.finish(offset)
            finished.add(offset)
        lowest = next((each for each in offsets if each not in finished), None)
        below = [each for each in offsets if lowest is None or each < lowest]
        assert ledger.floor == (below[-1] + 1 if below else None)
    assert ledger.running == len(offsets) - len(ended)


def test_starting_and_finishing_in_turns() -> None:
    """The floor rises while new ones begin, and nothing is remembered of what lies below it."""
    ledger = OffsetTracker("topic", 0)
    for offset in range(10_000):
        ledger.start(offset)
        if offset % 3 == 2:
            for each in (offset, offset - 2, offset - 1):
                ledger.finish(each)
            assert ledger.floor == offset + 1
    assert ledger.running == 1
    assert len(ledger._order) == 1
    assert not ledger._finished


def test_a_position_that_was_set_back_is_seen() -> None:
    """An offset that was started before does not follow, also when all are finished."""
    ledger = OffsetTracker("topic", 0)
    ledger.start(5)
    assert not ledger.follows(5)
    assert not ledger.follows(4)
    ledger.finish(5)
    assert ledger.follows(6)
    assert not ledger.follows(5)


def test_what_is_due() -> None:
    """A floor is due until it is offered, and once more when it was refused."""
    ledger = OffsetTracker("topic", 0)
    assert not ledger.due
    ledger.start(0)
    ledger.finish(0)
    assert ledger.due
    ledger.offered = ledger.floor
    assert not ledger.due
    ledger.refused()
    assert ledger.due
    ledger.offered = ledger.committed = ledger.floor
    ledger.refused()
    assert not ledger.due


def test_a_floor_that_was_overtaken_is_due_again() -> None:
    """An older commit that is tried again arrives behind the newer one: the broker has the older floor then."""
    ledger = OffsetTracker("topic", 0)
    for offset in range(3):
        ledger.start(offset)
        ledger.finish(offset)
    ledger.offered = ledger.floor
    ledger.confirmed(3)
    assert not ledger.due
    ledger.confirmed(1)
    assert (ledger.due, ledger.committed, ledger.floor) == (True, 1, 3)


def test_an_answer_of_an_earlier_assignment_changes_nothing() -> None:
    """A fresh ledger has offered nothing, so no answer can be its own; a floor of nothing is never committed."""
    ledger = OffsetTracker("topic", 0)
    ledger.start(7)
    ledger.confirmed(5)
    assert (ledger.due, ledger.committed) == (False, None)
