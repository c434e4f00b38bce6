"""Quotes from real documentation: manuals, package pages, reference texts, and our own docs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.cases import for_each

from modules.llm_platform.application.research.write.extractive_synthesizer import ExtractiveSynthesizer
from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.ports.synthesizer import SynthesisRequest

QUALITY = Path(__file__).resolve().parents[3] / "quality"
CASES = [json.loads(line) for line in (QUALITY / "real_answers.jsonl").read_text(encoding="utf-8").splitlines()]


@for_each("case", CASES)
async def test_the_passage_that_answers_is_quoted(case: dict[str, Any]) -> None:
    """The quote includes the text needed to understand it and nothing unrelated, and every quote supports its sentence."""
    sources = [Source(index=number, **source) for number, source in enumerate(case["sources"], 1)]
    written = await ExtractiveSynthesizer().synthesize(SynthesisRequest(case["question"], sources, case["language"]))
    assert written.answered is case["answered"], written.text
    for piece in case["must"]:
        assert piece in written.text
    for piece in case["must_not"]:
        assert piece not in written.text
    if case["answered"]:
        checked = CitationChecker(sources, case["language"]).check(written.text)
        assert {citation.verdict for citation in checked.citations} == {"supported"}
