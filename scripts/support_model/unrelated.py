"""Count the claims that a passage about something else is said to support.

Usage, in the environment of the product: `python -m scripts.support_model.unrelated PASSAGES.jsonl [--weights FOLDER]`

Each claim of a passage is checked against three other passages of the file. None of these says it.
"""

import argparse
import asyncio
import json
import random
from pathlib import Path

from scripts.support_model.doubted import MAX_CLAIMS, cite

from modules.llm_platform.application.research.check.support_reader import score_claims
from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.infrastructure.models.support.onnx_support_model import OnnxSupportModel

OTHERS = 3


async def is_supported(claim: str, text: str, model: OnnxSupportModel) -> tuple[bool, bool]:
    """Return whether the claim is called supported: by words alone, and with the support model."""
    checker = CitationChecker([Source(index=1, title="", url="https://set.test/", text=text)], "en")
    by_words = any(citation.verdict == "supported" for citation in checker.check(cite(claim)).citations)
    undecided = checker.undecided.list_first(MAX_CLAIMS)
    for one, log_odds in zip(undecided, await score_claims(model, undecided), strict=True):
        checker.record_log_odds(one, log_odds)
    return by_words, any(citation.verdict == "supported" for citation in checker.check(cite(claim)).citations)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("passages", type=Path)
    parser.add_argument("--weights", type=Path, default=None)
    a = parser.parse_args()
    model, drawn = OnnxSupportModel(a.weights), random.Random(1)
    rows = [json.loads(line) for line in a.passages.read_text(encoding="utf-8").splitlines()]
    found = [
        await is_supported(claim["claim"], other["source"], model)
        for row in rows
        for claim in row["claims"]
        for other in drawn.sample([one for one in rows if one is not row], OTHERS)
    ]
    words, both = (sum(column) for column in zip(*found, strict=True))
    print(f"{len(found)} claims beside passages about something else: supported by words {words}, by both {both}")
    await model.aclose()


if __name__ == "__main__":
    asyncio.run(main())
