"""Quotes that change without their version would leave reports with the old text in stores."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from tests.unit.domain.extractive.answer_cases import CASES

from modules.llm_platform.application.research.write.extractive_synthesizer import RULES_VERSION, ExtractiveSynthesizer
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.ports.synthesizer import SynthesisRequest

DIGESTS = Path(__file__).parent / "rules_digests.json"  # keyed by the version
REAL = Path(__file__).resolve().parents[3] / "quality" / "real_answers.jsonl"
CHANGED = (
    'The answers without a model have changed: raise RULES_VERSION, and add its new value with the digest "{digest}" to '
    "{file}. If only a case was added, replace the digest of the version instead."
)


async def test_changed_quotes_have_a_new_version() -> None:
    """The digest of all answers of the cases, and of a report on each, is the one that was recorded for the version.

    A rule that changes no answer of a case is not seen: a new rule brings a case.
    """
    asked = [(case.question, case.numbered(), case.language) for case in CASES]
    for case in map(json.loads, REAL.read_text(encoding="utf-8").splitlines()):
        sources = [Source(index=number, **source) for number, source in enumerate(case["sources"], 1)]
        asked.append((case["question"], sources, case["language"]))
    writer, texts = ExtractiveSynthesizer(), []
    for question, sources, language in asked:
        for questions in ((), (question, "What else is known?")):
            written = await writer.synthesize(SynthesisRequest(question, sources, language, questions=questions))
            texts.append(written.text)
    digest = hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]
    recorded = json.loads(DIGESTS.read_text())
    assert recorded.get(RULES_VERSION) == digest, CHANGED.format(digest=digest, file=DIGESTS.name)
