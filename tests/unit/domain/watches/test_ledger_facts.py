"""The facts of an answer are the statements that it quotes, each once."""

from __future__ import annotations

import pytest

from modules.llm_platform.domain.dtos.citation_dtos import Citation, Verdict
from modules.llm_platform.domain.dtos.evidence_dtos import EvidenceQuote, EvidenceRow, RowState
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.dtos.watch_dtos import LedgerFact
from modules.llm_platform.domain.watches.ledger_facts import read_facts

URL = "https://example.org/toll"
SOURCES = (Source(index=3, title="Tolls", url=URL, text="", published="2026-05-01"),)
TOLL, FREE = "The toll for a car is 12 euros.", "Cyclists cross the bridge free of charge."


def row(*quotes: str, state: RowState = "answered") -> EvidenceRow:
    quoted = tuple(EvidenceQuote(url=URL, title="Tolls", text=text) for text in quotes)
    return EvidenceRow(question="What is the toll for a car?", words=("toll", "car"), quotes=quoted, state=state)


def citation(quote: str, verdict: Verdict = "supported", source: int = 3) -> Citation:
    return Citation(start=0, end=1, source_index=source, quote=quote, verdict=verdict, score=0.9)


def read(rows: tuple[EvidenceRow, ...] = (), citations: tuple[Citation, ...] = ()) -> tuple[LedgerFact, ...]:
    return read_facts(rows, citations, SOURCES, "en")


def test_a_quote_of_the_evidence_and_of_a_citation_is_one_fact() -> None:
    assert [fact.quote for fact in read((row(TOLL),), (citation(TOLL), citation(FREE)))] == [TOLL, FREE]


def test_a_quote_of_several_sentences_is_several_facts() -> None:
    facts = read(citations=(citation(f"{TOLL} {FREE}", "partial"),))
    assert [(fact.quote, fact.verdict, fact.published) for fact in facts] == [
        (TOLL, "partial", "2026-05-01"),
        (FREE, "partial", "2026-05-01"),
    ]


def test_a_stop_after_a_unit_ends_a_fact() -> None:
    """A full stop after a title does not."""
    limits = "The limit in the centre is 30 km/h. On the ring road it is 60 km/h. The mayor is Dr. Ruth Ellery."
    assert [fact.quote for fact in read(citations=(citation(limits),))] == [
        "The limit in the centre is 30 km/h.",
        "On the ring road it is 60 km/h.",
        "The mayor is Dr. Ruth Ellery.",
    ]


def test_a_citation_that_its_source_does_not_support_has_no_fact() -> None:
    wrong = (
        citation(TOLL, "unsupported"),
        citation(TOLL, "unchecked"),
        citation("", "partial"),
        citation(TOLL, source=9),
    )
    assert read(citations=wrong) == ()


def test_both_sides_of_a_dispute_have_its_number() -> None:
    facts = read((row(TOLL), row("Cars pay 12 euros.", "Cars pay 14 euros.", FREE, state="disagree")))
    assert [fact.dispute for fact in facts] == [None, 1, 1, None]


@pytest.mark.parametrize(
    ("state", "is_answer"), [("answered", True), ("disagree", True), ("partly", False), ("open", False)]
)
def test_only_an_answered_row_answers(state: RowState, is_answer: bool) -> None:
    assert [fact.is_answer for fact in read((row(TOLL, state=state),))] == [is_answer]


def test_a_run_without_rows_answers_by_what_it_cites() -> None:
    assert [fact.is_answer for fact in read(citations=(citation(TOLL),))] == [True]


def test_a_page_that_repeats_the_question_does_not_answer_it() -> None:
    """The page contains the words of the question, but the following text may be about anything."""
    found = read((row(f"What is the toll for a car? {FREE}"),), (citation(TOLL),))
    assert [(fact.quote, fact.is_answer) for fact in found] == [(FREE, False), (TOLL, True)]
