"""Ask plain questions about a folder of ordinary files, without a language model.

    python scripts/folder_questions.py                      figures, by words alone and with the support model
    python scripts/folder_questions.py --folder tables      90 questions about ten files of tables
    python scripts/folder_questions.py --folder rows        140 questions for rows that have or lack something
    python scripts/folder_questions.py --folder limits      160 questions with a limit, or for the most and the least
    python scripts/folder_questions.py --folder plain       72 short questions in seven languages, in the words of the files
    python scripts/folder_questions.py --folder long2       80 questions about fourteen files of two or three pages each
    python scripts/folder_questions.py --folder days2       45 questions that state a day or a month
    python scripts/folder_questions.py --folder prose3      50 questions about ten files of prose: a diary, letters, rules
    python scripts/folder_questions.py --folder mixed4      90 questions about fourteen files, a third of them in other words
    python scripts/folder_questions.py --folder mixed6      80 questions about fourteen files, of eight kinds
    python scripts/folder_questions.py --folder mixed7      100 questions about sixteen files, a quarter in quite other words
    python scripts/folder_questions.py --folder mixed8      80 questions about fourteen files, among them an FAQ page
    python scripts/folder_questions.py --folder mixed9      80 questions about fourteen files, a quarter in other words
    python scripts/folder_questions.py --folder mixed10     80 questions about fourteen files, among them a rota
    python scripts/folder_questions.py --folder mixed11     80 questions about fourteen files, among them minutes and e-mails
    python scripts/folder_questions.py --folder mixed12     80 questions about fourteen files of a village cinema
    python scripts/folder_questions.py --folder several2    110 questions about fifteen files in six languages
    python scripts/folder_questions.py --folder mixed1      60 questions about eleven files: letters, lists, rules, a rota
    python scripts/folder_questions.py --depth deep         the same for deep answers
    python scripts/folder_questions.py --show words         and each answer that is not right

- `folder`: 80 questions about fourteen files (eight English, four German, two French). Nothing may be tuned on them.
- `long1`, `long2`, `long3`: questions in the words of the files and in others, about longer files. The answers to `long1` were
  read. The two rules of decision 110 were chosen by the figures of `long1` and `long2`, and `long3` was asked last.
- `days1`, `days2`: questions that state a day or a month, about rotas, calendars, logs and diaries. The rules of decision 111
  were written with `days1`. `days2` was asked once, and its answers were not read.
- `prose1`, `prose2`, `prose3`: questions in other words than the files, which are diaries, minutes, letters, rules and contracts.
  The rules of decision 113 were written with the first set. The answers to the second one were read, those to the third one not.
- `mixed1`, `mixed2`, `mixed3`: half of the questions are in other words than the files, and a sixth has no answer. Their answers
  were not read. The models of decisions 114 and 115 were measured with them; `mixed3` was first asked with decision 115.
- `mixed4`: a third of the questions are in other words. Its answers were read after it had been asked once.
- `mixed5`, `mixed6`: a quarter of the questions are in other words, the others of seven kinds. The answers to `mixed5` were read.
- `mixed7`: a quarter of the questions have hardly a word of the file. What was found for these was read, other answers not.
- `mixed8`: eighteen questions are in other words. The answers that were not right were read after it had been asked once, and one
  of them was mended.
- `mixed9` to `mixed12`: a quarter to a third are in other words. The answers that were not right were read after each
  had been asked once.
- `several1`, `several2`: files in five and six languages; three of eleven questions are in other words, and three in another
  language than the file. The answers to `several1` were read, those to `several2` not.
- `tables`: the rules for named rows had been written when these were first asked; what came later has seen them.
- `rows`: two sets (`set`). The rules for described rows were written with the first one. The second one was asked once; a few
  words were added to their lists after that.

- `limits`: two sets (`set`), each question asked of its file alone, because most of them do not say which file they are about.
  The rules for limits were written with the first one. The second one was asked once; three rules were made stricter after that.

The authors of files and questions know nothing of the rules. An answer is right if it has a string of each list of `keys` and
none of `wrong`. "Shown" are refusals whose closest passages have the keys.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import itertools
import json
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from scripts.model_answers import NO_MODEL  # noqa: E402

from modules.llm_platform.container import build_platform  # noqa: E402
from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse  # noqa: E402
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest  # noqa: E402
from shared.config import Settings  # noqa: E402

LETTER = r"[^\W\u2e80-\ud7af]"  # of a script with spaces between words
FOLDERS = ROOT / "tests" / "quality"
OF_TEXTS = (
    "folder",
    "plain",
    "long1",
    "long2",
    "long3",
    "prose1",
    "prose2",
    "prose3",
    "mixed1",
    "mixed2",
    "mixed3",
    "mixed4",
    "mixed5",
    "mixed6",
    "mixed7",
    "mixed8",
    "mixed9",
    "mixed10",
    "mixed11",
    "mixed12",
    "several1",
    "several2",
)
OF_ROWS = ("days1", "days2", "tables", "rows", "limits")
NAMES = (*OF_TEXTS, *OF_ROWS)
ALONE = {"limits"}
Outcome = Literal["right", "wrong", "shown", "refused", "honest", "invented"]
Encoder = Literal["off", "on"]
Depth = Literal["shallow", "deep"]
MODES: dict[str, Encoder] = {"words": "off", "both": "on"}


@dataclass(frozen=True)
class Asked:
    """A question, what came of it, and the text of the answer."""

    question: dict[str, Any]
    outcome: str
    text: str


def read_questions(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "questions.jsonl").read_text(encoding="utf-8").splitlines() if line]


def load_settings(data: str, documents: str, encoder: Encoder) -> Settings:
    """Return the settings of answers from a folder, without a language model and a network."""
    return Settings.load(
        **NO_MODEL
        | {
            "LLM_PLATFORM_DATA_DIR": data,
            "CACHE_TTL_S": 0,
            "CITATION_ENCODER": encoder,
            "ANSWER_ENCODER": encoder,
            "DOCUMENTS_DIR": documents,
            "LLM_PLATFORM_OFFLINE": True,
        }
    )


async def ask(folder: Path, encoder: Encoder, depth: Depth, questions: Sequence[dict[str, Any]]) -> list[Asked]:
    """Return the outcome of each question, of the files of the folder or, for the folders in ALONE, of its own file."""
    if folder.name not in ALONE:
        return await _ask(folder / "files", encoder, depth, questions)
    found: list[Asked] = []
    for name, group in itertools.groupby(sorted(questions, key=_get_file), key=_get_file):
        with tempfile.TemporaryDirectory() as alone:
            shutil.copy(folder / "files" / name, alone)
            found += await _ask(Path(alone), encoder, depth, list(group))
    return found


def _get_file(question: dict[str, Any]) -> str:
    return str(question["file"])


async def _ask(files: Path, encoder: Encoder, depth: Depth, questions: Sequence[dict[str, Any]]) -> list[Asked]:
    with tempfile.TemporaryDirectory() as data:
        async with build_platform(load_settings(data, str(files), encoder)) as platform:
            await platform.research.research(ResearchRequest(query="What is this?", depth=depth))  # indexes
            found: list[Asked] = []
            for question in questions:
                answer = await platform.research.research(ResearchRequest(query=question["q"], depth=depth))
                found.append(Asked(question, judge(question, answer), answer.synthesis))
            return found


def judge(question: dict[str, Any], answer: ResearchResponse) -> Outcome:
    text = " ".join(answer.synthesis.split()).casefold()
    is_refused = not answer.citations
    if not question["keys"]:
        return "honest" if is_refused else "invented"
    has_keys = all(any(has_word(text, key) for key in keys) for keys in question["keys"])
    if is_refused:
        return "shown" if has_keys else "refused"
    return "right" if has_keys and not any(has_word(text, wrong) for wrong in question["wrong"]) else "wrong"


def has_word(text: str, words: str) -> bool:
    """Return whether a folded text has these words, and not as a part of a longer word or figure."""
    return re.search(rf"(?<!{LETTER})(?<![.,]){re.escape(words.casefold())}(?!{LETTER}|[.,]\d)", text) is not None


def report(name: str, found: Sequence[Asked]) -> None:
    counts = collections.Counter(asked.outcome for asked in found)
    print(f"{name:8}{len(found)} questions: {', '.join(f'{counts[outcome]} {outcome}' for outcome in sorted(counts))}")
    for field in ("kind", "lang"):
        for value in dict.fromkeys(asked.question[field] for asked in found):
            of_value = [asked.outcome for asked in found if asked.question[field] == value]
            good = sum(outcome in ("right", "honest") for outcome in of_value)
            bad = sum(outcome in ("wrong", "invented") for outcome in of_value)
            print(f"  {field} {value:11}{good:3} of {len(of_value):2} good, {bad:2} wrong")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--depth", choices=("shallow", "deep"), default="shallow")
    parser.add_argument("--show", choices=tuple(MODES))
    parser.add_argument(
        "--folder",
        choices=NAMES,
        default="folder",
    )
    a = parser.parse_args()
    folder = FOLDERS / a.folder
    for name, encoder in MODES.items():
        began = time.perf_counter()
        found = asyncio.run(ask(folder, encoder, a.depth, read_questions(folder)))
        report(name, found)
        print(f"{name:8}{(time.perf_counter() - began) / len(found) * 1000:.0f} ms an answer")
        if a.show == name:
            for asked in found:
                if asked.outcome not in ("right", "honest"):
                    print(f"\n{asked.outcome}: {asked.question['q']}\n{asked.text[:600]}")


if __name__ == "__main__":
    main()
