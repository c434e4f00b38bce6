"""Each program that changes a fact of a claim takes one of the passage, or says that it finds none."""

from __future__ import annotations

import random

from scripts.support_model.hard_edits import (
    CHANGES,
    Change,
    change_scope,
    deny,
    edit_within,
    swap_two,
    take_name,
    take_number,
)
from tests.support.cases import for_each

PASSAGE = "On 14 May the treasurer Ruth Aske reported 84 members, and Piet Vaart asked for 600 euros."


@for_each(
    "change, claim, wanted",
    [
        (take_number, "The club has 84 members.", {"The club has 14 members.", "The club has 600 members."}),
        (take_name, "It was the treasurer Ruth Aske who reported.", {"It was the treasurer Piet Vaart who reported."}),
        (swap_two, "It had 84 members and 600 euros.", {"It had 600 members and 84 euros."}),
        (change_scope, "It ends before noon.", {"It ends after noon."}),
        (deny, "The treasurer was there.", {"The treasurer was not there."}),
        (deny, "The treasurer was not there.", {"The treasurer was there."}),
    ],
)
def test_a_change_is_of_its_kind(change: Change, claim: str, wanted: set[str]) -> None:
    assert change(claim, PASSAGE, random.Random(1)) in wanted


def test_a_claim_without_such_a_fact_stays() -> None:
    drawn = random.Random(1)
    assert all(change("Trees grow.", "Trees grow.", drawn) == "Trees grow." for change in CHANGES)
    assert edit_within("Trees grow.", "Trees grow.", drawn) is None


def test_the_same_seed_makes_the_same_claim() -> None:
    claim = "Ruth Aske reported 84 members before the vote."
    made = [edit_within(claim, PASSAGE, random.Random(7)) for _ in range(2)]
    assert made[0] == made[1] != claim
