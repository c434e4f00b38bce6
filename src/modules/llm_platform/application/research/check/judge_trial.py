"""Compare a judge (a language model) with the word comparison, on labelled pairs of sentence and source."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from modules.llm_platform.domain import citations
from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.citations.compare.model_verdicts import apply_model_verdict, can_be_judged, list_claims
from modules.llm_platform.domain.dtos.citation_dtos import Citation, CitedClaim, Verdict
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.ports.citation_judge import ICitationJudge

PAIRS_PER_CALL: Final = 20  # about as many citations as a long answer has


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """A sentence, the source that it cites, and the verdict of a person."""

    sentence: str
    source: str
    label: Verdict
    language: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class JudgeTrial:
    """The lexical verdicts, and the final verdicts with the judge, in the order of the pairs.

    `missing` counts the pairs on which the judge gave no verdict.
    """

    by_words: tuple[Verdict, ...]
    by_judge: tuple[Verdict, ...]
    missing: int


def make_labelled_pairs() -> list[LabelledPair]:
    """Return the pairs that come with the package."""
    rows = files(citations).joinpath("labelled_pairs.jsonl").read_text(encoding="utf-8").splitlines()
    return [LabelledPair(**json.loads(row)) for row in rows]


async def try_judge(judge: ICitationJudge, pairs: Sequence[LabelledPair]) -> JudgeTrial:
    """Return the verdicts on all pairs. Raises the errors of the judge."""
    by_words: list[Verdict] = []
    by_judge: list[Verdict] = []
    missing = 0
    for start in range(0, len(pairs), PAIRS_PER_CALL):
        checked = [_check_pair(pair) for pair in pairs[start : start + PAIRS_PER_CALL]]
        asked = [n for n, (citation, claim) in enumerate(checked) if can_be_judged(citation, claim.claim)]
        judged = await judge.judge("", [checked[n][1] for n in asked])
        verdicts = dict(zip(asked, judged.verdicts, strict=False))
        missing += sum(verdicts.get(n) is None for n in asked)
        for n, (citation, claim) in enumerate(checked):
            verdict = verdicts.get(n)
            final = apply_model_verdict(citation, claim.claim, verdict) if verdict else citation
            by_words.append(citation.verdict)
            by_judge.append(final.verdict)
    return JudgeTrial(tuple(by_words), tuple(by_judge), missing)


def _check_pair(pair: LabelledPair) -> tuple[Citation, CitedClaim]:
    """Return the citation of a pair, checked by words, and the claim to ask the judge about."""
    source = Source(index=1, title=pair.title, url="https://example.org/", text=pair.source)
    answer = f"{pair.sentence} [1]"
    citation = CitationChecker([source], pair.language).check(answer).citations[-1]
    claim = list_claims(answer, pair.language)[citation.start, citation.end]
    return citation, CitedClaim(claim=claim, quote=citation.quote, title=pair.title)
