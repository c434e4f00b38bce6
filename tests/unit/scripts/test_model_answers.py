"""scripts/model_answers.py: what it counts of an answer, and when an answer is right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scripts import model_answers
from scripts.model_answers import QUESTIONS, Question, Tally, has_facts, missing_facts, read_questions
from tests.support.cases import for_each

from modules.llm_platform.domain.dtos.answer_dtos import ResearchMetadata, ResearchResponse
from modules.llm_platform.domain.dtos.citation_dtos import Citation
from modules.llm_platform.domain.text.messages import get_messages

ASKED = Question("Which port?", "git", "git-daemon.html", (("9418",),))


def citation(start: int, verdict: Any, by: Any = "model") -> Citation:
    return Citation(start=start, end=start + 5, source_index=1, verdict=verdict, score=0.5, cited_by=by)


def response(text: str, *citations: Citation, uncited: int = 0) -> ResearchResponse:
    metadata = ResearchMetadata(latency_ms=1, tokens_used=7, uncited_sentences=uncited)
    return ResearchResponse(query="?", depth="shallow", synthesis=text, citations=citations, metadata=metadata)


def test_a_sentence_counts_once_whatever_it_cites() -> None:
    """Two citations of a sentence are one cited sentence, by its author if one of them is, and with the better verdict."""
    tally = Tally()
    shown = response(
        "It is 9418.",
        citation(0, "unsupported", "platform"),
        citation(0, "supported"),
        citation(10, "supported", "platform"),
        citation(20, "partial"),
        citation(30, "unsupported"),
        citation(40, "unchecked"),
        uncited=3,
    )
    assert tally.add(ASKED, shown, 2.0) == "right"
    assert (tally.sentences, tally.cited, tally.by_model, tally.by_platform, tally.uncited) == (8, 5, 4, 1, 3)
    assert (tally.supported, tally.misleading, tally.flagged, tally.unchecked) == (2, 0, 2, 1)
    assert (tally.asked, tally.tokens, tally.seconds) == (1, 7, 2.0)


def test_each_answer_has_one_result() -> None:
    """An answer without a statement declines, and so does one above the closest passages; quotes in the place of a model's
    answer are a failure. The sentences of these do not count.
    """
    tally = Tally()
    assert tally.add(ASKED, response("It is 80.", citation(0, "supported")), 1.0) == "wrong"
    assert tally.add(ASKED, response("The sources do not say it."), 1.0) == "declined"
    closest = f"Not said. {get_messages('en').closest} It is 9418."
    assert tally.add(ASKED, response(closest, citation(30, "supported")), 1.0) == "declined"
    assert tally.add(ASKED, response("It is 9418.", citation(0, "supported")), 1.0, failed=True) == "failed"
    assert (tally.asked, tally.right, tally.wrong, tally.declined, tally.failed) == (4, 0, 1, 2, 1)
    assert (tally.sentences, tally.tokens) == (1, 28)
    assert (tally.supported, tally.misleading) == (1, 1)


@for_each(
    ("facts", "text", "right"),
    [
        ((("10", "ten"),), "It takes 10.", True),
        ((("10", "ten"),), "It takes ten seconds", True),
        ((("10", "ten"),), "It takes 100, 2.10 or 10.5, often", False),
        ((("10",),), "It is set [10].", False),  # a marker
        ((("1600",),), "At most **1,600** columns", True),
        ((("--mixed",),), "It is `--mixed`", True),
        ((("20%",),), "0.2 (20% of the table)", True),
        ((("Ian",), ("Debra",)), "Ian and  DEBRA", True),
        ((("Ian",), ("Debra",)), "Ian and others", False),
    ],
)
def test_a_fact_is_a_figure_or_name_of_its_own(facts: tuple[tuple[str, ...], ...], text: str, *, right: bool) -> None:
    """A part of another number, and the number of a source, are no facts; thousands and markup do not matter."""
    assert has_facts(facts, text) is right


def test_a_fact_that_a_page_does_not_have_is_told(tmp_path: Path) -> None:
    """`--check` reads the page of each question."""
    (tmp_path / "git-doc").mkdir()
    (tmp_path / "git-doc" / "git-daemon.html").write_text("<p>It listens on <b>9418</b> &amp; waits.</p>")
    other = Question("Which other port?", "git", "git-daemon.html", (("9419",),))
    assert list(missing_facts([ASKED, other], tmp_path)) == [
        "git/git-daemon.html has no (('9419',),): Which other port?"
    ]


def test_the_questions_take_turns() -> None:
    """Forty different questions; the first few are of every manual, for a short run."""
    questions = read_questions(QUESTIONS.read_text(encoding="utf-8"))
    assert len({question.text for question in questions}) == len(questions) == 40
    assert {question.manual for question in questions[:4]} == set(model_answers.FOLDERS)
    assert all(question.facts and all(map(all, question.facts)) for question in questions)
