"""CLAPNQ: a question and one passage, which answers it or not, answered with quotes.

A row has `id`, `claim` (the question), `source` (the passage), `title`, `label` (answerable or not) and `answers`, the
references. ROUGE-L compares an answer with the reference that is nearest to it; an answerable question without an answer
has 0.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scripts.public_sets.figures import Failures, mean, read_rows, with_interval, with_progress
from scripts.public_sets.platform import GivenSearch, quiet_settings

from modules.llm_platform.container import build_platform
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider

SETS: Final = ("clapnq",)
ANSWERABLE: Final = "answerable"

_MARKER = re.compile(r"\s*\[\d+\]")


@dataclass(frozen=True)
class Answered:
    """What came of a question. `rouge`: 0..1."""

    is_answerable: bool
    is_answered: bool
    rouge: float


async def measure(name: str, folder: Path, part: str) -> list[str]:
    """Shares of answered questions, and ROUGE-L."""
    failures, outcomes, search = Failures(), list[Answered](), GivenSearch()
    with quiet_settings(READ_PAGES=0) as settings:
        async with build_platform(settings, {IWebSearchProvider: search}) as platform:
            for row in with_progress(name, read_rows(folder, part, name)):
                search.give(row["id"], row["title"], row["source"])
                try:
                    response = await platform.research.research(ResearchRequest(query=row["claim"], language="en"))
                except Exception as error:  # noqa: BLE001  # each is told, none may happen
                    failures.add(row["id"], error)
                    continue
                text = _MARKER.sub("", response.synthesis) if response.citations else ""
                score = max((rouge_l(text, reference) for reference in row["answers"]), default=0.0)
                outcomes.append(Answered(row["label"] == ANSWERABLE, bool(response.citations), score))
    return [*figures(outcomes), str(failures)]


def figures(outcomes: Sequence[Answered]) -> list[str]:
    answerable = [answer for answer in outcomes if answer.is_answerable]
    others = [answer.is_answered for answer in outcomes if not answer.is_answerable]
    return [
        f"n {len(answerable)} answerable, {len(others)} not",
        with_interval("answered", mean, [answer.is_answered for answer in answerable]),
        with_interval("unanswerable answered", mean, others),
        with_interval("ROUGE-L", mean, [answer.rouge for answer in answerable]),
        with_interval("ROUGE-L of the answered", mean, [answer.rouge for answer in answerable if answer.is_answered]),
    ]


def rouge_l(text: str, reference: str) -> float:
    """Return the F-measure of the longest common subsequence of words, 0..1."""
    ours, theirs = (re.findall(r"[a-z0-9]+", sentences.lower()) for sentences in (text, reference))
    lengths = [0] * (len(theirs) + 1)
    for word in ours:
        diagonal = 0
        for position, other in enumerate(theirs, 1):
            diagonal, lengths[position] = (
                lengths[position],
                diagonal + 1 if word == other else max(lengths[position], lengths[position - 1]),
            )
    return 2 * lengths[-1] / (len(ours) + len(theirs)) if lengths[-1] else 0.0
