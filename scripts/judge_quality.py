"""How well a language model judges citations after their words were compared: figures over the labelled pairs.

    python scripts/judge_quality.py    the figures of scripts/quality.py with the configured model (LLM_…) as judge

Each set is judged twenty pairs at a time, some forty calls in all; without a model one line says what to set.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from scripts.quality import Figures, Pair, load, measure, report  # noqa: E402

from modules.llm_platform.application.research.verification import LLMCitationJudge  # noqa: E402
from modules.llm_platform.container import Container  # noqa: E402
from modules.llm_platform.domain.citations.checker import CitationChecker  # noqa: E402
from modules.llm_platform.domain.citations.model_verdicts import apply_model_verdict, can_be_judged, claims_of  # noqa: E402
from modules.llm_platform.domain.dtos.research_dtos import Citation, CitedClaim, Source  # noqa: E402
from modules.llm_platform.domain.exceptions import LLMException  # noqa: E402
from modules.llm_platform.domain.ports.citation_judge import ICitationJudge  # noqa: E402
from shared.config import Settings  # noqa: E402

AT_ONCE = 20  # pairs in one call, as many as a long answer has
NO_MODEL = "no language model is configured: set LLM_API_KEY and LLM_MODEL to measure a model as judge of citations too"


async def measure_judge(judge: ICitationJudge, pairs: Sequence[Pair]) -> tuple[Figures, int]:
    """The figures when `judge` has the last word, as far as it may, and the number of pairs that it gave no verdict on."""
    final: list[Citation] = []
    missing = 0
    for start in range(0, len(pairs), AT_ONCE):
        checked = [_checked(pair) for pair in pairs[start : start + AT_ONCE]]
        asked = [n for n, (citation, claim) in enumerate(checked) if can_be_judged(citation, claim.claim)]
        said = await judge.judge("", [checked[n][1] for n in asked])
        verdicts = dict(zip(asked, said.verdicts, strict=True))
        missing += sum(verdict is None for verdict in verdicts.values())
        for n, (citation, claim) in enumerate(checked):
            verdict = verdicts.get(n)
            final.append(apply_model_verdict(citation, claim.claim, verdict) if verdict else citation)
    return measure(pairs, [each.verdict for each in final]), missing


def _checked(pair: Pair) -> tuple[Citation, CitedClaim]:
    """What the words say of a pair, and what a judge is shown of it."""
    answer = f"{pair.sentence} [1]"
    source = Source(index=1, title=pair.title, url="https://example.org/", text=pair.source)
    citation = CitationChecker([source], pair.language).check(answer).citations[-1]
    claim = claims_of(answer, pair.language)[citation.start, citation.end]
    return citation, CitedClaim(claim=claim, quote=citation.quote, title=pair.title)


async def report_judge(judge: ICitationJudge) -> None:
    """Print the figures of each set. A model that fails ends it with one line."""
    print(f"With a model as judge ({judge.name}):")
    try:
        for name, pairs in load().items():
            figures, missing = await measure_judge(judge, pairs)
            report(name, figures)
            print(f"  without a verdict of the model: {missing}")
    except LLMException as error:
        print(f"the model could not judge: {error.message}")


async def main() -> None:
    container = Container(settings=Settings.load())
    async with container.platform():
        model = container.llm_provider()
        if model is None:
            print(NO_MODEL)
        else:
            await report_judge(LLMCitationJudge(model, context_tokens=container.context_tokens()))


if __name__ == "__main__":
    asyncio.run(main())
