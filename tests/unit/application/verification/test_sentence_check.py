"""Sentences are checked when all sources that they may cite are read."""

from __future__ import annotations

from tests.support.growth import is_linear

from modules.llm_platform.application.verification.sentence_check import SentenceCheck
from modules.llm_platform.domain.citations.forms.citation_forms import read_citations
from modules.llm_platform.domain.citations.forms.cited_text import CitedSource
from modules.llm_platform.domain.concurrency.stoppable import StopSignal
from modules.llm_platform.domain.dtos.source_dtos import Source


def open_check(sentences: int) -> SentenceCheck:
    """Return the check of this many sentences with one source, without comparing any of them."""
    signal = StopSignal()
    text = "\n\n".join(f"The value {number} is right [1]." for number in range(sentences))
    check = SentenceCheck(read_citations(text, [CitedSource(1, text="x")]), "en", signal)
    signal.stop()
    return check


def test_the_sentences_of_a_source_are_found_in_linear_time() -> None:
    """A source that all sentences cite makes them ready without comparing each of them with all others."""
    small, large = open_check(400), open_check(4000)
    source = Source(index=1, title="A", url="doc:a", text="The value 3 is right.")

    def settle(check: SentenceCheck) -> list[int]:
        check._unchecked = parts[check]
        return check.add_sources([source])

    parts = {check: check._unchecked for check in (small, large)}
    assert len(settle(small)) == 400
    assert is_linear(lambda: settle(small), lambda: settle(large), 10)
