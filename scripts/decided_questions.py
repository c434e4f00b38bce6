"""Ask 300 questions that want a yes or no, or that compare rows, about a folder of sixteen files with tables.

    python scripts/decided_questions.py              figures, without a language model and by words alone
    python scripts/decided_questions.py --show 2     and each answer of a set that is not right

A set has questions about one row (`yesno`), about two (`yesno2`, `compare`), about all rows (`all`), and some that the tables do
not answer (`none`). The authors of files and questions know nothing of the rules. The rules were written with the first set.
The second and the third were asked once, and then read.

An answer is "right" if its first line decides as the key does: yes, no, the name of the row, or that all are the same. It is
"wrong" if it decides otherwise, "quoted" if it shows rows and decides nothing, and "refused" if it has no quote. Of the questions
without an answer, "wrong" are those that are decided.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from scripts.folder_questions import FOLDERS, Asked, load_settings  # noqa: E402

from modules.llm_platform.container import build_platform  # noqa: E402
from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse  # noqa: E402
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest  # noqa: E402
from modules.llm_platform.domain.text.messages import Messages, get_messages  # noqa: E402

FOLDER = FOLDERS / "decided"
LANGUAGES = ("en", "de", "fr", "es")
SETS = (1, 2, 3)
NONE = "none"  # the key of a question that the tables do not answer
Outcome = Literal["right", "wrong", "quoted", "refused"]


def read_questions(number: int) -> list[dict[str, Any]]:
    """Return the questions of a set."""
    lines = (FOLDER / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    return [question for question in map(json.loads, lines) if question["set"] == number]


async def ask(questions: Sequence[dict[str, Any]]) -> list[Asked]:
    """Return the outcome of each question, of all files together."""
    with tempfile.TemporaryDirectory() as data:
        async with build_platform(load_settings(data, str(FOLDER / "files"), "off")) as platform:
            found: list[Asked] = []
            for question in questions:
                answer = await platform.research.research(ResearchRequest(query=question["q"]))
                found.append(Asked(question, judge(question, answer), answer.synthesis))
            return found


def judge(question: Mapping[str, Any], answer: ResearchResponse) -> Outcome:
    if not answer.citations:
        return "refused"
    decisions = [found for language in LANGUAGES if (found := read_decision(answer.synthesis, get_messages(language)))]
    if not decisions:
        return "quoted"
    return "right" if question["answer"] in decisions else "wrong"


def read_decision(text: str, messages: Messages) -> str:
    """Return what the first line decides: "yes", "no", "same" or the name of a row; empty if it decides nothing."""
    line = text.partition("\n")[0]
    for decision, message in (("yes", messages.yes), ("no", messages.no)):
        if line.startswith(message):
            return decision
    if line.startswith(messages.equal.partition("{")[0]):
        return "same"
    name, _, rest = line.partition(": ")
    lines = (messages.highest, messages.lowest, messages.latest, messages.earliest)
    return name if rest.startswith(tuple(line.partition("{")[0] for line in lines)) else ""


def count(found: Sequence[Asked], *, has_answer: bool) -> dict[str, int]:
    """Return the number of each outcome, of the questions with an answer or of the others."""
    return dict(collections.Counter(one.outcome for one in found if (one.question["answer"] != NONE) is has_answer))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--show", type=int, help="the number of a set")
    shown = arguments.parse_args().show
    for number in SETS:
        found = asyncio.run(ask(read_questions(number)))
        known, unknown = count(found, has_answer=True), count(found, has_answer=False)
        print(
            f"set {number}: {sum(known.values())} with an answer, {known.get('right', 0)} right, {known.get('wrong', 0)} wrong; "
            f"{sum(unknown.values())} without, {unknown.get('wrong', 0)} decided"
        )
        for one in found if number == shown else ():
            if one.outcome == "wrong" or (one.outcome != "right" and one.question["answer"] != NONE):
                first = one.text.partition("\n")[0]
                print(
                    f"  {one.outcome:8} {one.question['kind']:8} {one.question['q']} ({one.question['answer']}): {first}"
                )


if __name__ == "__main__":
    main()
