"""Verify 120 blind claims about fourteen everyday files, half of them true paraphrases, half wrong in one thing.

    python scripts/everyday_claims.py           figures
    python scripts/everyday_claims.py --show    and each claim with the wrong verdict

The author of the claims has not seen the checker. Nothing may be tuned on them: a rule that is made from one of them needs other
claims to be measured.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import json
import sys
import time
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src")]

from modules.llm_platform.container import build_platform  # noqa: E402
from modules.llm_platform.domain.dtos.verification_dtos import VerificationSource  # noqa: E402
from shared.config import Settings  # noqa: E402

ORDER = ("unsupported", "unchecked", "partial", "supported")
Verified = tuple[dict[str, Any], str, str | None]  # a claim, its verdict and finding
FOLDER = ROOT / "tests" / "quality" / "everyday"


def read_claims() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FOLDER / "claims.jsonl").read_text(encoding="utf-8").splitlines() if line]


async def verify_claims(encoder: Literal["off", "on"]) -> list[Verified]:
    """Return each claim with its verdict and finding."""
    settings = Settings(CITATION_ENCODER=encoder, CITATION_JUDGE="off", LLM_PLATFORM_OFFLINE=True)
    found: list[Verified] = []
    async with build_platform(settings) as platform:
        for claim in read_claims():
            text = (FOLDER / "files" / claim["file"]).read_text(encoding="utf-8")
            source = VerificationSource(index=1, title=claim["file"], text=text)
            verified = await platform.verification.verify(f"{claim['claim']} [1]", sources=(source,))
            worst = min(
                verified.sentences,
                key=lambda sentence: ("unsupported", "unchecked", "partial", "supported").index(sentence.verdict),
            )
            found.append((claim, worst.verdict, worst.finding))
    return found


def report(name: str, found: list[Verified], *, show: bool) -> None:
    counts = collections.Counter((claim["label"], verdict, finding) for claim, verdict, finding in found)
    for label in ("supported", "unsupported"):
        total = sum(count for (of, _, _), count in counts.items() if of == label)
        said = ", ".join(
            f"{finding or verdict} {count}"
            for (of, verdict, finding), count in sorted(counts.items(), key=str)
            if of == label
        )
        print(f"{name:8}{'true' if label == 'supported' else 'wrong':7}{total:4}: {said}")
    if show:
        for claim, verdict, finding in found:
            if (verdict == "supported") != (claim["label"] == "supported"):
                print(f"  {claim['id']} {claim['label']} {claim['kind']}: {finding or verdict}: {claim['claim']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", action="store_true")
    a = parser.parse_args()
    modes: tuple[tuple[str, Literal["off", "on"]], ...] = (("words", "off"), ("both", "on"))
    for name, encoder in modes:
        began = time.process_time()
        found = asyncio.run(verify_claims(encoder))
        report(name, found, show=a.show)
        print(f"{name:8}{(time.process_time() - began) / len(found) * 1000:.0f} ms of CPU a claim")


if __name__ == "__main__":
    main()
