"""Answers without a model to sixty questions about manuals of other people, to be rated by hand.

    python scripts/manual_answers.py build/manuals              the answers on a sheet; `make manual-answers`
    python scripts/manual_answers.py build/manuals --held-back  those to the questions that are held back
    python scripts/manual_answers.py --packages                 which packages of Debian have the manuals

The rubric is above the questions, in manual_questions.txt. The manuals belong to others and are not kept in this
repository: scripts/debian_docs.sh fetches them.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from modules.llm_platform.container import build_platform  # noqa: E402
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest  # noqa: E402
from shared.config import Settings  # noqa: E402

QUESTIONS: Final = ROOT / "scripts" / "manual_questions.txt"
WAIT_SECONDS: Final = 1
HELD_BACK: Final = 3  # every third question
PACKAGES: Final = (r"python3\.[0-9]+-doc", "git-doc", "bash-doc", "developers-reference")
FOLDERS: Final = {
    "python": "python3*/html",
    "git": "git-doc",
    "bash": "pdf/bashref",
    "developers-reference": "pdf/developers-reference",
}  # as patterns below the folder


def read_questions(text: str) -> Iterator[tuple[int, str, str]]:
    """(number, manual, question) for each line that is one; `~` stays in front."""
    manual, number = "", 0
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.startswith("["):
            manual = line.strip("[]")
        elif not line.startswith("#"):
            number += 1
            yield number, manual, line


async def answers(asked: list[tuple[int, str, str]], folder: Path) -> list[str]:
    """Each question with its answer and its sources."""
    sheet = []
    for manual in dict.fromkeys(manual for _, manual, _ in asked):
        searched = {"DOCUMENTS_DIR": _manual(folder, manual), "SEARCH_PROVIDERS": "documents", "CACHE_TTL_S": 0}
        settings = Settings.load(**{"LLM_PLATFORM_DATA_DIR": folder / "index", **searched})
        async with build_platform(settings) as platform:
            for number, _, question in (row for row in asked if row[1] == manual):
                request = ResearchRequest(query=question.lstrip("~ "), sources=("documents",))
                response = await platform.research.research(request)
                while response.degraded:  # the index is being read still
                    await asyncio.sleep(WAIT_SECONDS)
                    response = await platform.research.research(request)
                sources = "\n".join(f"[{source.index}] {source.title} ({source.url})" for source in response.sources)
                sheet.append(f"=== {number} [{manual}] {question}\n\n{response.synthesis}\n\n{sources}\n")
    return sheet


def _manual(folder: Path, manual: str) -> Path:
    return next(folder.glob(FOLDERS[manual]))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", help="where the manuals are")
    parser.add_argument("--packages", action="store_true", help="which packages of Debian have the manuals")
    parser.add_argument(
        "--held-back", action="store_true", help="the questions that are held back instead of the others"
    )
    given = parser.parse_args()
    if given.packages:
        print(*PACKAGES, sep="\n")
        return
    if given.folder is None:
        parser.error("name the folder of the manuals, or --packages")
    asked = list(read_questions(QUESTIONS.read_text(encoding="utf-8")))
    chosen = [row for row in asked if (row[0] % HELD_BACK == 0) == given.held_back]
    print("\n".join(asyncio.run(answers(chosen, given.folder))))


if __name__ == "__main__":
    main()
