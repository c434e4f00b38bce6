"""The steps of a report, for who watches: each thing once, short, and nothing where there is nothing to say."""

from __future__ import annotations

import pytest
from tests.support.cases import for_each
from tests.unit.presentation.cli.fakes import terminal_console

from modules.llm_platform.application.research.events import (
    Planned,
    Ranked,
    RankedResult,
    Read,
    ResearchEvent,
    Reset,
    Summarized,
    Token,
)
from modules.llm_platform.presentation.cli.render.progress import LiveAnswer, Progress

ID = "r"
URL = "https://example.org/a"
SCORES = {"Good": 7.4, "Better": 8.0, "None": None}
MARKED = tuple(RankedResult(url=URL, title=title, score=score) for title, score in SCORES.items())


def steps(*events: ResearchEvent) -> list[str]:
    console, out, err = terminal_console()
    progress = Progress(console, None)
    for event in events:
        progress.show(event)
    assert out.getvalue() == ""
    return err.getvalue().splitlines()


@for_each(
    ("event", "expected"),
    [
        (Read(request_id=ID, url="doc:caf%C3%A9.md", status="read", chars=9), "read doc:café.md: 9 characters"),
        (Summarized(request_id=ID, url="doc:caf%C3%A9.md"), "summarized doc:café.md"),
        (Ranked(request_id=ID, query="q", kept=MARKED), "2 results ranked, best 8.0: Better"),
        (
            Ranked(request_id=ID, query="q", kept=MARKED[:1], defaulted=1),
            "1 result ranked (1 without a score of the model), best 7.4: Good",
        ),
        (Read(request_id=ID, url=URL, status="read", chars=1200), f"read {URL}: 1200 characters"),
        (Read(request_id=ID, url=URL, status="stored", chars=1), f"read {URL}: 1 character (from the store)"),
        (Read(request_id=ID, url=URL, status="page_blocked", chars=0), f"could not read {URL}: page blocked"),
        (Summarized(request_id=ID, url=URL), f"summarized {URL}"),
    ],
)
def test_event_is_one_line(event: ResearchEvent, expected: str) -> None:
    """What happened, in words of a person."""
    assert steps(event) == [expected]


@pytest.mark.parametrize("kept", [(), MARKED[2:]])
def test_ranking_without_scores_prints_nothing(kept: tuple[RankedResult, ...]) -> None:
    """Other depths rank without giving marks."""
    assert steps(Ranked(request_id=ID, query="q", kept=kept)) == []


def test_growing_plan_prints_only_new_questions() -> None:
    """Each new question of a growing plan is reported with the whole plan, and is printed once."""
    plans = [("one",), ("one", "two"), ("one", "two"), ("one", "two", "three", "four")]
    assert steps(*(Planned(request_id=ID, questions=questions) for questions in plans)) == [
        "searching for: one",
        "searching for: two",
        "searching for: three · four",
    ]


def test_no_progress_while_the_answer_is_drawn() -> None:
    """Progress would interrupt the text that is being drawn. After a reset it is shown again."""
    console, _, err = terminal_console()
    with LiveAnswer(console) as answer:
        progress = Progress(console, answer)
        for event in (Token(request_id=ID, text="Half"), Summarized(request_id=ID, url=URL)):
            progress.show(event)
        assert err.getvalue() == ""
        for event in (Reset(request_id=ID, reason="died"), Summarized(request_id=ID, url=URL)):
            progress.show(event)
    assert err.getvalue().splitlines() == [
        "the model failed (died): discard the text above, the answer begins again",
        f"summarized {URL}",
    ]


def test_progress_continues_without_a_drawn_answer() -> None:
    """With --output or --json the steps are all that is seen."""
    assert steps(Token(request_id=ID, text="Half"), Summarized(request_id=ID, url=URL)) == [f"summarized {URL}"]


def test_hostile_address_is_one_short_line() -> None:
    """However long it is and whatever it holds."""
    evil = Read(request_id=ID, url="https://a.example/\x1b[2J " + "x" * 5000, status="read", chars=3)
    (line,) = steps(evil)
    assert len(line) < 200
    assert "\x1b" not in line
