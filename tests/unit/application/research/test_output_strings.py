"""Texts of a structured answer keep the markers of sentences that they say in other words."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from modules.llm_platform.application.research.output_strings import OutputStrings
from modules.llm_platform.domain.citations.compare.undecided_claims import UndecidedClaim
from modules.llm_platform.domain.dtos.answer_dtos import ResearchMetadata, ResearchResponse
from modules.llm_platform.domain.dtos.citation_dtos import Citation
from modules.llm_platform.domain.dtos.source_dtos import SourceRef

SENTENCE = "Staff may work from home if their manager agrees."
SAID = "Employees can do their jobs remotely with the consent of the manager. [1]"
RESPONSE = ResearchResponse(
    query="May I work from home?",
    depth="shallow",
    synthesis=f"{SENTENCE} [1]",
    sources=(SourceRef(index=1, title="Rules", url="https://example.org/rules"),),
    citations=(
        Citation(start=0, end=len(SENTENCE) + 4, source_index=1, quote=SENTENCE, verdict="supported", score=1.0),
    ),
    metadata=ResearchMetadata(latency_ms=1, synthesizer="x", language="en"),
)
SCHEMA = {"type": "object", "properties": {"rule": {"type": "string"}}}


@pytest.mark.parametrize(("log_odds", "is_kept"), [(6.0, True), (-6.0, False)])
def test_the_support_model_decides_where_words_differ(log_odds: float, is_kept: bool) -> None:
    asked: list[str] = []

    def read_support(claims: Sequence[UndecidedClaim]) -> list[list[float]]:
        asked.extend(passage.text for claim in claims for passage in claim.passages)
        return [[log_odds]] * len(claims)

    strings = OutputStrings(RESPONSE, SCHEMA, read_support)
    value, errors = strings.clean_strings({"rule": SAID})
    assert (errors, asked) == ([], [SENTENCE])
    assert value == {"rule": SAID if is_kept else SAID.removesuffix(" [1]")}
    assert strings.unsupported == (0 if is_kept else 1)


def test_a_text_that_the_words_support_is_not_read() -> None:
    """The model may keep markers and removes none."""

    def refuse(claims: Sequence[UndecidedClaim]) -> list[list[float]]:
        raise AssertionError("nothing is undecided")

    value = {"rule": f"{SENTENCE} [1]"}
    assert OutputStrings(RESPONSE, SCHEMA, refuse).clean_strings(value) == (value, [])


def test_words_decide_if_the_support_model_fails() -> None:
    asked: list[str] = []

    def fail(claims: Sequence[UndecidedClaim]) -> list[list[float]]:
        asked.extend(passage.text for claim in claims for passage in claim.passages)
        return []

    by_words = OutputStrings(RESPONSE, SCHEMA).clean_strings({"rule": SAID})
    assert OutputStrings(RESPONSE, SCHEMA, fail).clean_strings({"rule": SAID}) == by_words
    assert by_words[0] == {"rule": SAID.removesuffix(" [1]")}
    assert asked


def test_a_source_that_refutes_the_sentence_is_not_cited() -> None:
    text = "The tower is 90 metres high [1]."
    refuted = Citation(start=0, end=len(text), source_index=1, quote=SENTENCE, verdict="unsupported", score=0.2)
    strings = OutputStrings(RESPONSE.model_copy(update={"synthesis": text, "citations": (refuted,)}), SCHEMA)
    assert strings.clean_strings({"rule": text}) == ({"rule": "The tower is 90 metres high."}, [])
    assert strings.unsupported == 1
