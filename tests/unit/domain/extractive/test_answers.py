"""What an answer made of quotes looks like, on questions of every kind that it must cope with."""

from __future__ import annotations

import re

from tests.support.cases import for_each
from tests.unit.domain.extractive.answer_cases import CASES, Case

from modules.llm_platform.application.research.write.extractive_synthesizer import ExtractiveSynthesizer
from modules.llm_platform.domain.ports.synthesizer import SynthesisRequest

_MARKER = re.compile(r"\[(\d+)\]")


@for_each("case", CASES)
async def test_an_answer_holds_what_answers_and_nothing_else(case: Case) -> None:
    """The right passages are quoted with the right marker; questions, pointers, boilerplate and loose ends stay out."""
    written = await ExtractiveSynthesizer().synthesize(SynthesisRequest(case.question, case.numbered(), case.language))
    assert written.answered is case.answered, written.text
    assert written.text.startswith(case.opens)
    for piece in case.must:
        assert piece in written.text
    for piece in case.must_not:
        assert piece not in written.text
    markers = {int(number) for number in _MARKER.findall(written.text)}
    assert markers <= set(range(1, len(case.sources) + 1))
    assert bool(markers) is case.answered
