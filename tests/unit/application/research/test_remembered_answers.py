"""A cached text is not sanitised or checked again, unless the text, the sources or the language differ."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.synthesizer import FakeSynthesizer
from tests.support.checked_answers import record_checks
from tests.support.written_answers import write_answer

from modules.llm_platform.application.research.write.writing import WrittenAnswer
from modules.llm_platform.domain.dtos.answer_dtos import Synthesis
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.ports.synthesizer import ISynthesizer, SynthesisRequest

TEXT = "The harbour wall is nine metres high [1]."


def source(text: str) -> Source:
    return Source(index=1, title="Harbour", url="https://docs.test/1", text=text)


class Remembered(ISynthesizer):
    """A writer whose text comes from a cache."""

    def __init__(self, text: str) -> None:
        self._text = text

    async def synthesize(self, request: SynthesisRequest) -> Synthesis:
        return Synthesis(text=self._text, synthesizer="fake", cached=True)


async def write_text(text: str, found: Source, language: str = "en") -> WrittenAnswer:
    question = "How high is the harbour wall?"
    return await write_answer(
        Remembered(text), (found,), question=question, language=language, fallback=FakeSynthesizer("nothing")
    )


async def test_only_a_new_text_source_or_language_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdicts are those for the sources of this request, as without the cache."""
    checked = record_checks(monkeypatch)
    right, wrong = source("The harbour wall is nine metres high."), source("The harbour wall is two metres high.")
    requests: list[tuple[Any, ...]] = [
        (TEXT, right),
        (TEXT, right),
        (TEXT, wrong),
        (TEXT + " Yes.", right),
        (TEXT, right, "de"),
        (TEXT, wrong),
    ]
    answers = [await write_text(*request) for request in requests]
    verdicts = [answer.checked.citations[0].verdict for answer in answers]
    assert len(checked) == 4
    assert [verdicts[at] for at in (0, 1, 3)] == ["supported"] * 3
    assert verdicts[2] == verdicts[5] != "supported"
    assert [answer.text.partition("\n")[0] for answer in answers] == [TEXT, TEXT, TEXT, TEXT + " Yes.", TEXT, TEXT]


async def test_a_text_that_has_all_its_markers_is_not_remembered_for_one_that_lacks_them() -> None:
    """Quotes keep their text. The same words of a model get the marker that the model left out."""
    found, text = source("The harbour wall is nine metres high."), "The harbour wall is nine metres high."
    quotes = Remembered(text)
    question = "How high is the harbour wall?"
    first = await write_answer(quotes, (found,), question=question, fallback=quotes)
    second = await write_answer(Remembered(text), (found,), question=question, fallback=FakeSynthesizer("nothing"))
    assert "[1]" not in first.text
    assert second.text.startswith("The harbour wall is nine metres high [1].")
