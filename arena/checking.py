"""The verdict of the platform's checker on each sentence of each answer. A process of its own, which sees the frozen web.

python -m arena.checking RUNS      for each RUNS/PLAYER/QUESTION.json without a current QUESTION.check.json, writes one
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Final

from modules.llm_platform.application.platform import LLMPlatform
from modules.llm_platform.container import build_platform
from modules.llm_platform.domain import citations
from modules.llm_platform.domain.dtos.verification_dtos import (
    MAX_SOURCE_INDEX,
    MAX_VERIFIED_CHARS,
    MAX_VERIFIED_SOURCES,
    VerificationRequest,
    VerificationSource,
)
from modules.llm_platform.domain.text import data_files
from modules.llm_platform.infrastructure.models.support.onnx_support_model import OnnxSupportModel
from shared.config import Settings
from shared.exceptions import AppException

MAX_EXCERPT_CHARS: Final = 600


@cache
def digest_of_checker() -> str:
    """Return a digest of what decides a verdict: the code of the check, its data, and the weights of the support model."""
    files = [*Path(citations.__file__).parent.rglob("*.py"), *Path(data_files.__file__).parent.rglob("*.json")]
    parts = [OnnxSupportModel.digest, *(hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(files))]
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()


def digest_of(outcome: dict[str, Any]) -> str:
    """Return a digest of an answer and of the checker, so that a changed checker reads all answers again."""
    checked = [outcome["answer"], outcome["sources"], digest_of_checker()]
    return hashlib.sha256(json.dumps(checked).encode()).hexdigest()[:16]


async def check(platform: LLMPlatform, outcome: dict[str, Any]) -> dict[str, Any]:
    """Return the sentences with their verdicts and the addresses that the answer cites."""
    result: dict[str, Any] = {"digest": digest_of(outcome), "sentences": [], "sources": [], "error": ""}
    answer = outcome["answer"].replace("\x00", " ")[:MAX_VERIFIED_CHARS]
    if not any(map(str.isalnum, answer)):
        return result
    given = {
        source["index"]: VerificationSource(index=source["index"], url=source["url"])
        for source in outcome["sources"][:MAX_VERIFIED_SOURCES]
        if 1 <= source["index"] <= MAX_SOURCE_INDEX and source["url"].startswith("http")
    }
    try:
        request = VerificationRequest(text=answer, sources=tuple(given.values()), language="en")
        verified = await platform.verification.run(request)
    except (AppException, ValueError) as error:
        return result | {"error": f"{type(error).__name__}: {error}"[:300]}
    addresses = {source.index: source.url for source in verified.sources}
    for sentence in verified.sentences:
        cited = [citation for citation in sentence.citations if sentence.is_cited]
        result["sentences"].append(
            {
                "text": answer[sentence.start : sentence.end],
                "verdict": sentence.verdict,
                "is_cited": sentence.is_cited,
                "cites": sorted({addresses.get(citation.source_index) or "" for citation in cited}),
                "quote": next((c.quote for c in cited if c.quote), "")[:MAX_EXCERPT_CHARS],
            }
        )
    result["sources"] = [{"url": source.url, "state": source.state} for source in verified.sources]
    return result


async def check_all(runs: Path) -> int:
    """Return how many answers were checked."""
    checked = 0
    with tempfile.TemporaryDirectory() as folder:
        values = {
            "READERS": "direct",
            "READER_ALLOWED_HOSTS": "127.0.0.0/8",
            "CITATION_JUDGE": "off",
            "LLM_PLATFORM_DATA_DIR": folder,
        }
        async with build_platform(Settings.load(**values)) as platform:
            for path in sorted(runs.glob("*/*.json")):
                if path.name.endswith(".check.json"):
                    continue
                outcome = json.loads(path.read_text(encoding="utf-8"))
                target = path.with_suffix(".check.json")
                if target.exists() and json.loads(target.read_text(encoding="utf-8"))["digest"] == digest_of(outcome):
                    continue
                part = target.with_name(f"{target.name}.part")
                part.write_text(
                    json.dumps(await check(platform, outcome), ensure_ascii=False, indent=1), encoding="utf-8"
                )
                part.replace(target)
                checked += 1
    return checked


if __name__ == "__main__":
    print(f"{asyncio.run(check_all(Path(sys.argv[1])))} answers checked", file=sys.stderr)
