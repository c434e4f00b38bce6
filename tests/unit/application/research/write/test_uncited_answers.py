"""What an answer whose author cited nothing looks like, and one that the sources do not give."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.synthesizer import FakeSynthesizer
from tests.support.cases import for_each
from tests.support.written_answers import shown_text, write_answer

from modules.llm_platform.application.research.write.draft_comparison import PREPARED_IN_THREAD_CHARS
from modules.llm_platform.application.research.write.extractive_synthesizer import ExtractiveSynthesizer
from modules.llm_platform.application.research.write.writing import WrittenAnswer
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.ports.synthesizer import ISynthesizer
from modules.llm_platform.domain.text.messages import get_messages

WALL = "The harbour wall is nine metres high. It was finished in the year 1911 by two brothers."
LAMP = "The lamp of the lighthouse burns all night. Nobody lives on the rock."
SOURCES = (
    Source(index=1, title="Harbour", url="https://docs.test/1", text=WALL),
    Source(index=2, title="Lighthouse", url="https://docs.test/2", text=LAMP),
)
PADDING = " More of it." * (PREPARED_IN_THREAD_CHARS // 12)
LONG = (SOURCES[0], Source(index=2, title="", url="https://docs.test/2", text=LAMP + PADDING))
COPIED = (
    "The lamp of the lighthouse burns all night. The harbour wall is made of blue cheese. Nobody lives on the rock."
)
MARKED = COPIED.replace("night.", "night [2].").replace("rock.", "rock [2].")
TEXTS = get_messages("en")


async def written(writer: ISynthesizer, **fields: Any) -> tuple[WrittenAnswer, str]:
    """Return the answer, and the tokens since the last reset."""
    shown: list[str] = []
    asked = {"question": "How high is the harbour wall?", "sources": SOURCES, "streamed": True, **fields}
    answer = await write_answer(writer, emit=shown_text(shown), **asked)
    return answer, "".join(shown)


@pytest.mark.parametrize("sources", [SOURCES, LONG])
async def test_found_sources_are_the_same_streamed_or_not(sources: tuple[Source, ...]) -> None:
    """The markers are part of the tokens, and the text is what was streamed."""
    answers = [
        await written(FakeSynthesizer(COPIED), streamed=streamed, sources=sources) for streamed in (True, False, False)
    ]
    for answer, shown in answers:
        assert answer.text == shown == f"{MARKED}\n\n{TEXTS.cited_nothing}"
        assert answer.checked == answers[0][0].checked
        assert [
            (citation.source_index, citation.verdict, citation.cited_by) for citation in answer.checked.citations
        ] == [
            (2, "supported", "platform"),
            (2, "supported", "platform"),
        ]
        assert answer.checked.uncited_sentences == 1
        assert [degradation.reason for degradation in answer.degraded] == [
            "uncited: the model cited nothing: 2 of its sentences match a source, 1 was not checked"
        ]


async def test_an_answer_with_citations_only_reports_a_number() -> None:
    """The text of a good answer with one uncited sentence is unchanged."""
    answer, _ = await written(
        FakeSynthesizer("The lamp of the lighthouse burns all night [2]. Cheese is what it is made of.")
    )
    assert TEXTS.cited_nothing not in answer.text
    assert [degradation.reason for degradation in answer.degraded] == [
        "uncited: 1 sentence cites no source and was not checked"
    ]


async def test_a_bare_yes_is_uncited() -> None:
    answer, _ = await written(FakeSynthesizer("YES"))
    assert answer.text == f"YES\n\n{TEXTS.cited_nothing}"
    assert answer.checked.uncited_sentences == 1


async def test_quotes_get_no_further_markers() -> None:
    """The extractive writer names its sources itself."""
    extractive = ExtractiveSynthesizer()
    answer, _ = await written(extractive, fallback=extractive)
    assert answer.text == "The harbour wall is nine metres high [1]."
    assert answer.degraded == ()


@for_each("streamed", [True, False])
@for_each("said", [TEXTS.not_answered, "They tell nothing about its colour."])
async def test_an_unanswered_question_shows_the_closest_passages(said: str, streamed: bool) -> None:
    """The quotes follow the text with markers.

    They make no statement, so there is no citation to check, but their sources are listed. The introductory sentence
    needs no source.
    """
    writer = FakeSynthesizer(said, answered=False)
    answer, shown = await written(writer, streamed=streamed, question="What colour is the harbour wall?")
    assert answer.text == shown
    assert answer.text.startswith(f"{said}\n\n{TEXTS.closest}\n\n- The harbour wall is nine metres high [1].")
    assert answer.checked.citations == ()
    assert answer.checked.cited == {1, 2}
    assert answer.checked.uncited_sentences == 0
    assert answer.degraded == ()


async def test_a_model_that_cites_related_findings_gets_no_closest_passages() -> None:
    """Its text answers nothing, but already shows what is close."""
    writer = FakeSynthesizer("No source names a colour. The harbour wall is nine metres high [1].", answered=False)
    answer, _ = await written(writer, question="What colour is the harbour wall?")
    assert TEXTS.closest not in answer.text
    assert len(answer.checked.citations) == 1


async def test_without_a_model_the_closest_passages_are_shown_too() -> None:
    extractive = ExtractiveSynthesizer()
    answer, _ = await written(extractive, fallback=extractive, question="Who won the world cup in football?")
    assert answer.text.startswith(f"{TEXTS.not_answered}\n\n{TEXTS.closest}\n\n- ")
    assert not answer.synthesis.answered
