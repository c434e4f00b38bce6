"""The steps of a report, for who watches: each thing once, short, and nothing where there is nothing to say."""

from __future__ import annotations

import pytest
from tests.unit.presentation.cli.fakes import terminal_console

from modules.llm_platform.application.research.events import (
    Kept,
    Planned,
    Ranked,
    Read,
    ResearchEvent,
    Reset,
    Summarized,
    Token,
)
from modules.llm_platform.presentation.cli.progress import LiveAnswer, Progress

ID = "r"
URL = "https://example.org/a"
MARKED = (Kept(url=URL, title="Good", score=7.4), Kept(url=URL, title="Better", score=8.0), Kept(url=URL, title="None"))


def steps(*events: ResearchEvent) -> list[str]:
    console, out, err = terminal_console()
    progress = Progress(console, None)
    for event in events:
        progress.show(event)
    assert out.getvalue() == ""
    return err.getvalue().splitlines()


@pytest.mark.parametrize(
    ("event", "says"),
    [
        (Read(request_id=ID, url="doc:caf%C3%A9.md", status="read", chars=9), "read doc:café.md: 9 characters"),
        (Summarized(request_id=ID, url="doc:caf%C3%A9.md"), "summarised doc:café.md"),
        (Ranked(request_id=ID, query="q", kept=MARKED), "2 results ranked, best 8.0: Better"),
        (
            Ranked(request_id=ID, query="q", kept=MARKED[:1], defaulted=1),
            "1 result ranked (1 without a mark of the model's), best 7.4: Good",
        ),
        (Read(request_id=ID, url=URL, status="read", chars=1200), f"read {URL}: 1200 characters"),
        (Read(request_id=ID, url=URL, status="stored", chars=1), f"read {URL}: 1 character (from the store)"),
        (Read(request_id=ID, url=URL, status="page_blocked", chars=0), f"could not read {URL}: page blocked"),
        (Summarized(request_id=ID, url=URL), f"summarised {URL}"),
    ],
)
def test_a_step_is_a_line(event: ResearchEvent, says: str) -> None:
    """What happened, in words of a person."""
    assert steps(event) == [says]


@pytest.mark.parametrize("kept", [(), MARKED[2:]])
def test_without_marks_there_is_nothing_to_say(kept: tuple[Kept, ...]) -> None:
    """Other depths rank without giving marks."""
    assert steps(Ranked(request_id=ID, query="q", kept=kept)) == []


def test_a_plan_that_grows_tells_what_is_new() -> None:
    """A plan is told again, whole, with each question that joins it; a person reads each once."""
    plans = [("one",), ("one", "two"), ("one", "two"), ("one", "two", "three", "four")]
    assert steps(*(Planned(request_id=ID, questions=questions) for questions in plans)) == [
        "asking: one",
        "asking: two",
        "asking: three · four",
    ]


def test_nothing_is_told_amid_the_answer() -> None:
    """What happens beside the writing would stand in the middle of the text that is being drawn; after a reset it is told."""
    console, _, err = terminal_console()
    with LiveAnswer(console) as answer:
        progress = Progress(console, answer)
        for event in (Token(request_id=ID, text="Half"), Summarized(request_id=ID, url=URL)):
            progress.show(event)
        assert err.getvalue() == ""
        for event in (Reset(request_id=ID, reason="died"), Summarized(request_id=ID, url=URL)):
            progress.show(event)
    assert err.getvalue().splitlines() == [
        "the writer gave up (died); what it wrote is void, the next one begins",
        f"summarised {URL}",
    ]


def test_where_no_answer_is_drawn_steps_go_on() -> None:
    """With --output or --json the steps are all that is seen."""
    assert steps(Token(request_id=ID, text="Half"), Summarized(request_id=ID, url=URL)) == [f"summarised {URL}"]


def test_an_address_of_a_stranger_is_a_line_too() -> None:
    """However long it is and whatever it holds."""
    evil = Read(request_id=ID, url="https://a.example/\x1b[2J " + "x" * 5000, status="read", chars=3)
    (line,) = steps(evil)
    assert len(line) < 200
    assert "\x1b" not in line
