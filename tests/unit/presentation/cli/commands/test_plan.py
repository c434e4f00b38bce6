"""Editing a plan: every command works, a typing error changes nothing, and only an accepted plan is paid for."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.presentation.cli.fakes import PLAN, terminal_console

from modules.llm_platform.domain.dtos.report_dtos import MAX_OTHER_THAN, ResearchPlan
from modules.llm_platform.domain.dtos.request_dtos import MAX_PLAN_QUESTIONS, ResearchRequest
from modules.llm_platform.domain.dtos.web_search_dtos import MAX_QUERY_CHARS
from modules.llm_platform.domain.exceptions import WebSearchConnectionError
from modules.llm_platform.presentation.cli.commands.plan import ACTIONS, MENU, PlanEditor
from modules.llm_platform.presentation.cli.exit_codes import CommandError

ONE, TWO, THREE = PLAN.questions
OTHER = PLAN.model_copy(update={"questions": ("How old is it?",)})


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal on which the menu is one line."""
    monkeypatch.setenv("COLUMNS", "100")


class Planner:
    """Returns these plans in turn, and records the rejected questions."""

    def __init__(self, *plans: ResearchPlan | Exception) -> None:
        self._plans = iter(plans)
        self.other_than: list[tuple[str, ...]] = []

    def __call__(self, other_than: tuple[str, ...]) -> ResearchPlan:
        self.other_than.append(other_than)
        plan = next(self._plans)
        if isinstance(plan, Exception):
            raise plan
        return plan


def no_estimate(questions: int) -> str:
    """Stand for a plan that was accepted earlier."""
    return ""


def edited(
    *typed: str, plans: Planner | None = None, questions: Sequence[str] = PLAN.questions
) -> tuple[tuple[str, ...], str]:
    """The plan after these lines and Enter, and all that the person saw."""
    console, out, err = terminal_console("".join(f"{line}\n" for line in (*typed, "")))
    accepted = PlanEditor(console, questions, plans or Planner(), no_estimate).run()
    assert out.getvalue() == ""
    return accepted, err.getvalue()


@pytest.mark.parametrize(
    ("typed", "accepted"),
    [
        ([], (ONE, TWO, THREE)),
        (["e 2", "Who pays for it?"], (ONE, "Who pays for it?", THREE)),
        (["e 2 Who pays for it?"], (ONE, "Who pays for it?", THREE)),
        (["edit 2", ""], (ONE, TWO, THREE)),
        (["E 1 " + ONE.upper()], (ONE.upper(), TWO, THREE)),
        (["d 1"], (TWO, THREE)),
        (["remove 3", "delete 1"], (TWO,)),
        (["a", "Who pays for it?"], (ONE, TWO, THREE, "Who pays for it?")),
        (["add Who pays for it?"], (ONE, TWO, THREE, "Who pays for it?")),
        (["a", ""], (ONE, TWO, THREE)),
        (["m 3 1"], (THREE, ONE, TWO)),
        (["move 1, 3"], (TWO, THREE, ONE)),
        (["d 1", "d 1", "d 1", "", "a Who pays for it?"], ("Who pays for it?",)),
    ],
)
def test_commands(typed: list[str], accepted: tuple[str, ...]) -> None:
    """Questions can be edited, removed, added and reordered. Enter accepts the remaining plan, which is never empty."""
    assert edited(*typed)[0] == accepted


@pytest.mark.parametrize("word", [word for word, action in ACTIONS.items() if action == "accept"])
def test_words_that_accept_the_plan(word: str) -> None:
    """Words and keys that accept the plan."""
    console, _, err = terminal_console(f"{word.upper()}\n")
    assert PlanEditor(console, PLAN.questions, Planner(), no_estimate).run() == PLAN.questions
    assert err.getvalue().count("plan>") == 1


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("x", MENU),
        ("help", MENU),
        ("e", "type a number from 1 to 3"),
        ("e 0", "type a number from 1 to 3"),
        ("d 4", "type a number from 1 to 3"),
        ("d -1", "type a number"),
        ("d ²", "type a number"),
        ("d " + "9" * 5000, "type a number"),
        ("m 1", "type two numbers"),
        ("m 1 9", "type a number from 1 to 3"),
        ("a no", "a sub-question must have at least 3 characters"),
        ("a " + "x" * (MAX_QUERY_CHARS + 1), f"a sub-question must have at most {MAX_QUERY_CHARS} characters"),
        ("e 1 \u200b\u200b\u200b", "a sub-question "),
        ("a " + TWO.upper(), "the plan already has that sub-question"),
        (f"e 1 {THREE}", "the plan already has that sub-question"),
    ],
)
def test_invalid_input_changes_nothing(typed: str, expected: str) -> None:
    """Unknown input prints one line and leaves the plan unchanged."""
    accepted, seen = edited(typed)
    assert accepted == PLAN.questions
    assert expected in seen.partition("plan>")[2]


def test_plan_and_menu_are_shown_after_each_change() -> None:
    """The numbered plan and what can be typed, again after each change; plain text, nothing that a terminal obeys."""
    _, seen = edited("d 2", questions=("What is \x1b[2Jit?", TWO))
    assert seen == (
        f"The report will answer:\n  1. What is it?\n  2. {TWO}\n{MENU}\nplan> "
        f"The report will answer:\n  1. What is it?\n{MENU}\nplan> "
    )


def test_plan_has_a_maximum_length() -> None:
    """A full plan takes no more; the line says what to do."""
    questions = [f"Question number {number}?" for number in range(MAX_PLAN_QUESTIONS)]
    accepted, seen = edited("a One more?", questions=questions)
    assert accepted == tuple(questions)
    assert f"at most {MAX_PLAN_QUESTIONS} sub-questions: remove one first" in seen


@pytest.mark.parametrize("typed", ["q\n", "QUIT\n", "", "d 1\n", "e 1\n", "a\n"])
def test_quitting_or_end_of_input_cancels(typed: str) -> None:
    """To quit, or to close the terminal, agrees to nothing: it ends like an interruption."""
    console, _, _ = terminal_console(typed)
    with pytest.raises(CommandError, match="cancelled") as caught:
        PlanEditor(console, PLAN.questions, Planner(), no_estimate).run()
    assert caught.value.code == 130


class TestNewPlan:
    def test_new_plan_replaces_the_current_one(self) -> None:
        """The planner receives the rejected questions of all earlier plans."""
        planner = Planner(OTHER, PLAN)
        accepted, _ = edited("e 1 What was it before?", "n", "again", plans=planner)
        assert accepted == PLAN.questions
        before = ("What was it before?", TWO, THREE)
        assert planner.other_than == [before, (*before, *OTHER.questions)]

    @pytest.mark.parametrize(
        ("plan", "expected"),
        [
            (WebSearchConnectionError("gone for now"), "gone for now"),
            (PLAN.model_copy(update={"questions": ()}), "no other plan was found"),
        ],
    )
    def test_plan_stays_when_no_new_one_is_made(self, plan: ResearchPlan | Exception, expected: str) -> None:
        """What the person has typed so far is not lost by that."""
        accepted, seen = edited("d 3", "n", plans=Planner(plan))
        assert accepted == (ONE, TWO)
        assert expected in seen

    def test_rejected_questions_are_limited(self) -> None:
        """The list of rejected questions stays within the limit of a request, the latest last."""
        count = MAX_OTHER_THAN + 5
        plans = [PLAN.model_copy(update={"questions": (f"Plan number {number}?",)}) for number in range(count)]
        planner = Planner(*plans)
        accepted, _ = edited(*(["n"] * count), plans=planner)
        assert accepted == plans[-1].questions
        assert {len(questions) for questions in planner.other_than[MAX_OTHER_THAN:]} == {MAX_OTHER_THAN}
        assert planner.other_than[-1][-1] == plans[-2].questions[0]


COMMANDS = st.lists(
    st.sampled_from([*ACTIONS, "e 1", "d 2", "d 1", "m 1 2", "a Why?", "\u202e", "9", "é"]), max_size=12
)


@given(COMMANDS.map("\n".join) | st.text(max_size=60))
def test_any_input_ends_in_a_valid_plan(typed: str) -> None:
    """Any input ends with a valid plan or cancels the report."""
    console, _, _ = terminal_console(f"{typed}\ny\n")
    with suppress(CommandError):
        accepted = PlanEditor(console, PLAN.questions, Planner(*[OTHER] * len(typed)), no_estimate).run()
        assert ResearchRequest(query="What is it?", depth="report", plan=accepted).plan == accepted
        assert len({question.casefold() for question in accepted}) == len(accepted)


@given(st.integers(1, 3), st.integers(1, 3))
def test_moving_keeps_all_questions(position: int, target: int) -> None:
    """The moved question gets the requested position, and the others keep their order."""
    accepted, _ = edited(f"m {position} {target}")
    moved = PLAN.questions[position - 1]
    assert accepted[target - 1] == moved
    assert [question for question in accepted if question != moved] == [
        question for question in PLAN.questions if question != moved
    ]


def test_what_the_report_takes_is_told_with_each_plan() -> None:
    """For the sub-questions as they are now; a plan without any takes nothing."""
    console, _, err = terminal_console("d 1\nd 1\nd 1\na Who pays for it?\n\n")
    PlanEditor(console, PLAN.questions, Planner(), lambda questions: f"At most: {questions}").run()
    shown = [line for line in err.getvalue().splitlines() if line.startswith(("At most", "  (no"))]
    assert shown == ["At most: 3", "At most: 2", "At most: 1", "  (no sub-question)", "At most: 1"]
