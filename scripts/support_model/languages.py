"""Print what words, and words and the support model together, call supported in other languages than English.

    python -m scripts.support_model.languages OPEN [--weights FOLDER]

In the environment of the product, with the extra `meaning`. The sets are our own pairs, CiteCheck's open half (Chinese), and
`written/held_languages.jsonl`: everyday passages in six languages with true paraphrases and wrong claims, by an author who has
not seen the checker. The limits that ship were chosen by these figures; no weights were. The last rows are held claims beside
passages about something else, in their own language and in another one.
"""

import argparse
import asyncio
import json
import random
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from scripts import quality
from scripts.support_model.combine import balance
from scripts.support_model.doubted import cite
from scripts.support_model.texts import read_open_half

from modules.llm_platform.application.research.check.support_reader import score_claims
from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.infrastructure.models.support.onnx_support_model import OnnxSupportModel

HELD = Path(__file__).parent / "written/held_languages.jsonl"
LEAST_CLAIMS = 20  # of a set that is printed
MAX_CLAIMS = 1000


@dataclass(frozen=True)
class Claim:
    name: str  # of its set
    language: str
    text: str
    source: str
    is_true: bool


def list_claims(open_half: Path) -> list[Claim]:
    pairs = {(pair.sentence, pair.source): pair for named in quality.load().values() for pair in named}
    claims = [
        Claim(f"ours, {one.language}", one.language, one.sentence, one.source, one.label == "supported")
        for one in pairs.values()
        if one.language != "en"
    ]
    chinese = [
        Claim("CiteCheck", "zh", row["claim"], row["source"], row["label"] == "supported")
        for row in read_open_half(open_half / "citecheck.jsonl.gz")
    ]
    return claims + chinese + list_held()


def list_held() -> list[Claim]:
    """Return the held claims beside their passages, then beside another of their language, and beside one in another language."""
    drawn = random.Random(1)
    passages = [json.loads(line) for line in HELD.read_text(encoding="utf-8").splitlines()]
    own, elsewhere = [], []
    for passage in passages:
        language, source = passage["language"], passage["source"]
        alike = [one["source"] for one in passages if one["language"] == language and one["source"] != source]
        foreign = [one["source"] for one in passages if one["language"] != language]
        for one in passage["claims"]:
            own.append(Claim(f"held, {language}", language, one["claim"], source, one["label"] == "supported"))
            elsewhere.append(
                Claim("beside another passage", language, one["claim"], drawn.choice(alike), is_true=False)
            )
            elsewhere.append(
                Claim("beside one in another language", language, one["claim"], drawn.choice(foreign), is_true=False)
            )
    return own + elsewhere


async def verify(claim: Claim, model: OnnxSupportModel) -> tuple[bool, bool] | None:
    """Return whether words, and both together, call the claim supported; None if the text cites nothing."""
    source = Source(index=1, title="", url="https://set.test/", text=claim.source)
    checker, text = CitationChecker([source], claim.language), cite(claim.text)
    by_words = checker.check(text).citations
    if not by_words:
        return None
    undecided = checker.undecided.list_first(MAX_CLAIMS)
    for one, log_odds in zip(undecided, await score_claims(model, undecided), strict=True):
        checker.record_log_odds(one, log_odds)
    by_both = checker.check(text).citations
    return all(one.verdict == "supported" for one in by_words), all(one.verdict == "supported" for one in by_both)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("open", type=Path)
    parser.add_argument("--weights", type=Path, default=None)
    a = parser.parse_args()
    model = OnnxSupportModel(a.weights)
    found: dict[str, dict[bool, list[tuple[bool, bool]]]] = defaultdict(lambda: {True: [], False: []})
    for claim in list_claims(a.open):
        if claim.source.strip() and (verdicts := await verify(claim, model)):
            found[claim.name][claim.is_true].append(verdicts)
    print("set, claims, balanced accuracy by words → by both; true and wrong ones supported by words → by both")
    for name, by_label in found.items():
        right, wrong = by_label[True], by_label[False]
        if len(right) + len(wrong) >= LEAST_CLAIMS:
            shares = [[sum(one[way] for one in of) / max(1, len(of)) for of in (right, wrong)] for way in (0, 1)]
            balances = " → ".join(f"{balance(*one):.3f}" for one in shares) if right else "     –     "
            printed = " → ".join(" ".join(f"{share:.2f}" for share in one) for one in shares)
            print(f"{name:32}{len(right) + len(wrong):5}  {balances}  {printed}", flush=True)
    await model.aclose()


if __name__ == "__main__":
    asyncio.run(main())
