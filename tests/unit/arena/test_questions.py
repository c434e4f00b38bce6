"""What a key makes of an answer, and whether questions and keys are whole."""

from __future__ import annotations

from pathlib import Path

from arena.questions import KINDS, MORE_QUESTIONS, QUESTIONS, Question, in_turn, missing_facts, read_questions, score
from arena.web import FrozenWeb, read_written
from tests.support.cases import for_each

PORT = 8790


def question(
    facts: tuple[tuple[str, ...], ...] = (("7 days", "a week"),),
    wrong: tuple[tuple[str, ...], ...] = (),
    outdated: tuple[tuple[str, ...], ...] = (),
) -> Question:
    return Question("q-01", "single", "How long?", facts, wrong, outdated, ())


@for_each(
    ("asked", "answer", "result"),
    [
        (question(), "It takes **a week** [1].", "right"),
        (question(), "It takes 17 days [1].", "wrong"),
        (question(), "It takes 7 days.5", "wrong"),
        (question(), "The sources do not say how long it takes.", "declined"),
        (question(), "", "declined"),
        (question(), "The sources do not answer this. Closest passages: it takes 7 days.", "declined"),
        (question(), "It takes 7 days. The program says that no file was not found.", "right"),
        (question(), "If it is not specified, it takes 7 days.", "right"),
        (question((("18,400",), ("31,000",))), "18400 say some, 31,000 others.", "right"),
        (question((("18,400",), ("31,000",))), "There are 18,400.", "wrong"),
        (question(wrong=(("6 days",),)), "It takes 7 days, or 6 days.", "wrong"),
        (question(wrong=(("6 days",),)), "The sources do not say it; others say 6 days.", "wrong"),
        (question(outdated=(("9 days",),)), "It takes 7 days. It takes 9 days.", "wrong"),
        (question(outdated=(("9 days",),)), "It takes 7 days. It was 9 days until May.", "right"),
        (question(()), "The sources do not mention it.", "right"),
        (question(()), "No sentence answers this for certain.", "right"),
        (question(()), "It takes 7 days.", "wrong"),
    ],
)
def test_a_key_scores_an_answer(asked: Question, answer: str, result: str) -> None:
    """Each fact in one spelling and nothing wrong is right; without an answer in the pages, a refusal is."""
    assert score(asked, answer) == result


def test_sixty_questions_of_six_kinds() -> None:
    """Every id is used once, and the first questions are of all kinds."""
    questions = read_questions()
    assert len({asked.id for asked in questions}) == len({asked.text for asked in questions}) == 60
    assert [asked.kind for asked in in_turn(questions)[: len(KINDS)]] == list(KINDS)
    assert sorted(in_turn(questions), key=lambda asked: asked.id) == sorted(questions, key=lambda asked: asked.id)


def test_the_further_questions_are_none_of_the_sixty() -> None:
    """Ids and texts differ from those of the sixty, and there are forty of all kinds."""
    sixty, more = read_questions(), read_questions(MORE_QUESTIONS)
    assert len({asked.id for asked in (*sixty, *more)}) == len({asked.text for asked in (*sixty, *more)}) == 100
    assert [sum(asked.kind == kind for asked in more) for kind in KINDS] == [14, 6, 6, 5, 3, 6]


@for_each(("file", "number"), [(QUESTIONS, 35), (MORE_QUESTIONS, 20)])
def test_the_written_pages_have_the_facts_of_their_keys(file: Path, number: int) -> None:
    """A key whose page lacks the fact would call every answer wrong."""
    web = FrozenWeb(tuple(read_written(PORT)))
    ours = [asked for asked in read_questions(file) if not any(".docs.test" in page for page in asked.pages)]
    assert len(ours) > number
    assert list(missing_facts(ours, web)) == []


def test_a_missing_fact_is_named() -> None:
    """The check of the keys can fail."""
    web = FrozenWeb(tuple(read_written(PORT)))
    asked = Question("q-01", "single", "?", (("8 kg",),), (), (), ("harwick-museum.test/collection/quay-bell.html",))
    absent = Question("q-02", "single", "?", (), (), (), ("nowhere.test/",))
    assert list(missing_facts([asked, absent], web)) == [
        "q-01: no page has 8 kg",
        "q-02: there is no page nowhere.test/",
    ]
