"""Ask 48 questions that compare two things, want a yes or no, or ask two facts, about eighteen ordinary files.

    python scripts/comparison_questions.py           figures
    python scripts/comparison_questions.py --show    and each answer that is not right

The author of the questions has not seen the rules, and nothing may be tuned on them. `line` of a question is what the first line
of an answer that decides would name: a name, `Yes` or `No`; an empty text if nothing certain can be said. `keys` are as in
`folder_questions.py`, and `open` is the part that the sources do not answer. An outcome is "right", "honest" (nothing decided,
where nothing can be), "silent" (nothing decided, or a part is named as unanswered), or "wrong" (something else is decided, or a
part is left out without a word).
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from scripts.folder_questions import FOLDERS, Asked, Depth, Encoder, load_settings  # noqa: E402

from modules.llm_platform.container import build_platform  # noqa: E402
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest  # noqa: E402

EVERYDAY = ROOT / "tests" / "quality" / "everyday" / "files"
FURTHER = ("price-list.md", "handbook-leave.md", "trip-plan.txt", "minutes.md")  # of EVERYDAY
Outcome = Literal["right", "honest", "silent", "wrong"]

_LINE = re.compile(r"[^\n|:\[\]]{1,40}:(?: [^\n\[\]]+:)?\Z")


def read_questions() -> list[dict[str, Any]]:
    return [
        json.loads(line) for line in (FOLDERS / "folder" / "comparisons.jsonl").read_text(encoding="utf-8").splitlines()
    ]


async def ask(questions: Sequence[dict[str, Any]], depth: Depth, encoder: Encoder) -> list[Asked]:
    """Return the outcome of each question."""
    with tempfile.TemporaryDirectory() as data, tempfile.TemporaryDirectory() as documents:
        for file in (*(FOLDERS / "folder" / "files").iterdir(), *(EVERYDAY / name for name in FURTHER)):
            shutil.copy(file, documents)
        found: list[Asked] = []
        async with build_platform(load_settings(data, documents, encoder)) as platform:
            for question in questions:
                answer = await platform.research.research(ResearchRequest(query=question["q"], depth=depth))
                text = answer.synthesis if answer.citations else ""
                outcome = _judge_parts(question, text) if question["kind"] == "two" else _judge_line(question, text)
                found.append(Asked(question, outcome, answer.synthesis))
        return found


def _judge_parts(question: dict[str, Any], text: str) -> Outcome:
    is_complete = _has_keys(question, text)
    names_part = "\n- " in text
    is_right_part = f"- {question['open']}?".casefold() in text.casefold()
    if is_complete and (is_right_part if question["open"] else not names_part):
        return "right"
    return "silent" if not text or names_part else "wrong"


def _judge_line(question: dict[str, Any], text: str) -> Outcome:
    first, expected = text.partition("\n")[0], question["line"]
    line = first if _LINE.match(first) else ""
    if expected is None:
        return "right" if _has_keys(question, text) else "wrong" if line else "silent"
    if not line or not expected:
        return "silent" if expected else "wrong" if line else "honest"
    is_named = re.search(rf"(?:^|: ){re.escape(expected)}\b", line) is not None
    return "right" if is_named and _has_keys(question, text) else "wrong"


def _has_keys(question: dict[str, Any], text: str) -> bool:
    return all(any(key.casefold() in text.casefold() for key in keys) for keys in question["keys"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--depth", choices=("shallow", "deep"), default="shallow")
    parser.add_argument("--encoder", choices=("off", "on"), default="off")
    parser.add_argument("--show", action="store_true")
    a = parser.parse_args()
    found = asyncio.run(ask(read_questions(), a.depth, a.encoder))
    for kind in dict.fromkeys(asked.question["kind"] for asked in found):
        counts = collections.Counter(asked.outcome for asked in found if asked.question["kind"] == kind)
        print(f"{kind:8} {', '.join(f'{counts[outcome]} {outcome}' for outcome in sorted(counts))}")
    for asked in found if a.show else ():
        if asked.outcome not in ("right", "honest"):
            print(f"\n{asked.outcome}: {asked.question['q']}\n{asked.text[:600]}")


if __name__ == "__main__":
    main()
