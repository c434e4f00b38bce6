"""Print what words, and words and the support model together, call supported in other languages than English.

    python -m scripts.support_model.languages OPEN [--weights FOLDER]

In the environment of the product, with the extra `meaning`. The sets are our own pairs, CiteCheck's open half (Chinese), and
`written/held_languages.jsonl`: everyday passages in six languages with true paraphrases and wrong claims, by an author who has
not seen the checker. The limits that ship were chosen by these figures; no weights were.
"""

import argparse
import asyncio
import json
from collections import defaultdict
from pathlib import Path

from scripts import quality
from scripts.support_model.combine import LIMITS, VERDICTS, Row, Sentence, area, balance, measure
from scripts.support_model.doubted import cite
from scripts.support_model.texts import read_open_half

from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.infrastructure.models.support.onnx_support_model import OnnxSupportModel

HELD = Path(__file__).parent / "written/held_languages.jsonl"
LEAST_ROWS = 40  # of a set that is printed
Claim = tuple[str, str, str, str, str]  # the set, the language, a claim, its source, the label


def list_claims(open_half: Path) -> list[Claim]:
    pairs = {(pair.sentence, pair.source): pair for named in quality.load().values() for pair in named}
    claims: list[Claim] = [
        (f"ours, {one.language}", one.language, one.sentence, one.source, one.label) for one in pairs.values()
    ]
    claims = [claim for claim in claims if claim[1] != "en"]
    for row in read_open_half(open_half / "citecheck.jsonl.gz"):
        claims.append(("CiteCheck", "zh", row["claim"], row["source"], row["label"]))
    for line in HELD.read_text(encoding="utf-8").splitlines():
        passage = json.loads(line)
        language = passage["language"]
        for one in passage["claims"]:
            claims.append((f"held, {language}", language, one["claim"], passage["source"], one["label"]))
    return claims


async def read_claim(language: str, claim: str, text: str, label: str, model: OnnxSupportModel) -> Row | None:
    checker = CitationChecker([Source(index=1, title="", url="https://set.test/", text=text)], language)
    if not checker.check(cite(claim)).citations:
        return None
    doubts = checker.doubts(1000)
    read = {
        doubt.key: Sentence(doubt.judgement.verdict, doubt.highest, odds)
        for doubt, odds in zip(
            doubts, await model.score([(one.claim, one.passage) for one in doubts], is_english=False), strict=True
        )
    }
    alone = [Sentence(one.verdict, one.highest, None) for key, (_, one) in checker._judged.items() if key not in read]
    return Row(label == "supported", [*read.values(), *alone])


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("open", type=Path)
    parser.add_argument("--weights", type=Path, default=None)
    a = parser.parse_args()
    model = OnnxSupportModel(a.weights)
    sets: dict[str, list[Row]] = defaultdict(list)
    for name, language, claim, source, label in list_claims(a.open):
        if source.strip() and (row := await read_claim(language, claim, source, label, model)):
            sets[name].append(row)
    stored = json.loads(LIMITS.read_text(encoding="utf-8"))["other languages"]
    limits = tuple(float(stored[verdict]["supported"]) for verdict in VERDICTS)
    print("set, rows, AUC of the model where it decides, by words → by both: balanced; right and wrong ones supported")
    for name, rows in sets.items():
        if len(rows) >= LEAST_ROWS:
            before, after = measure(rows, None), measure(rows, limits)
            shares = f"{before[0]:.2f} {before[1]:.2f} → {after[0]:.2f} {after[1]:.2f}"
            print(f"{name:12}{len(rows):5}  {area(rows):.3f}  {balance(*before):.3f} → {balance(*after):.3f}  {shares}")
    await model.aclose()


if __name__ == "__main__":
    asyncio.run(main())
