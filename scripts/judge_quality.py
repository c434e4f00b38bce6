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

from modules.llm_platform.application.research.check.judge import LLMCitationJudge  # noqa: E402
from modules.llm_platform.application.research.check.judge_trial import LabelledPair, try_judge  # noqa: E402
from modules.llm_platform.container import Container  # noqa: E402
from modules.llm_platform.domain.exceptions import LLMException  # noqa: E402
from modules.llm_platform.domain.ports.citation_judge import ICitationJudge  # noqa: E402
from shared.config import Settings  # noqa: E402

NO_MODEL = "no language model is configured: set LLM_API_KEY and LLM_MODEL to measure a model as judge of citations too"


async def measure_judge(judge: ICitationJudge, pairs: Sequence[Pair]) -> tuple[Figures, int]:
    """The figures when `judge` has the last word, as far as it may, and the number of pairs that it gave no verdict on."""
    labelled = [LabelledPair(pair.sentence, pair.source, pair.label, pair.language, pair.title) for pair in pairs]
    trial = await try_judge(judge, labelled)
    return measure(pairs, trial.by_judge), trial.missing


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
            await report_judge(LLMCitationJudge(model, context_tokens=container.models().context_tokens))


if __name__ == "__main__":
    asyncio.run(main())
