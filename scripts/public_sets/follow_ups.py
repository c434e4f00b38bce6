"""TREC CAsT: turns of conversations, made standalone without a model, against the questions that people made of them.

A row has `id`, `claim` (the turn), `source` (the turns before it, with the answers where they are known), `label` (the
question of the person), `kind` (the year) and `group` (the conversation). The content words that the person added are the
missing ones; intervals are over conversations, as the turns of one are not independent.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from scripts.public_sets.figures import Failures, Row, mean, read_rows, with_interval, with_progress
from scripts.public_sets.platform import GivenSearch, quiet_settings

from modules.llm_platform.application.platform import LLMPlatform
from modules.llm_platform.container import build_platform
from modules.llm_platform.domain.dtos.request_dtos import MAX_TURNS, ResearchRequest, Turn
from modules.llm_platform.domain.dtos.web_search_dtos import MAX_QUERY_CHARS
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider

SETS: Final = ("cast",)
MAX_ANSWER_CHARS: Final = 20_000  # longest turn of a request
MIN_PLURAL: Final = 4  # letters of a word whose `s` is dropped
# Words that tell nothing about the subject, and the courtesies of a conversation.
FUNCTION_WORDS: Final = """
    a an the of in on at to for from by with and or but as is are was were be been being it its this that these those he she
    they his her their him them we you i me my our your who which what when where how why than then there here not no do does
    did has have had will would can could may might must should about also so if tell more some any all me's s t interesting
    okay ok thanks thank like know want yes"""


@dataclass(frozen=True)
class Understood:
    """A turn: the content words that a person added, those that the platform added, and those of the person's question."""

    group: str
    year: str
    missing: frozenset[str]
    added: frozenset[str]
    right: frozenset[str]


async def measure(name: str, folder: Path, part: str) -> list[str]:
    """Missing words restored, and added words that are right."""
    failures, turns, search = Failures(), list[Understood](), GivenSearch()
    with quiet_settings(READ_PAGES=0) as settings:
        async with build_platform(settings, {IWebSearchProvider: search}) as platform:
            for row in with_progress(name, read_rows(folder, part, name)):
                search.give(row["id"], "", "Nothing of interest.")
                try:
                    turns.append(compared(row, await standalone(platform, row)))
                except Exception as error:  # noqa: BLE001  # each is told, none may happen
                    failures.add(row["id"], error)
    return [*figures(turns), str(failures)]


async def standalone(platform: LLMPlatform, row: Row) -> str:
    """Return the turn as the platform understands it."""
    history = tuple(
        Turn(question=turn["question"][:MAX_QUERY_CHARS], answer=turn["answer"][:MAX_ANSWER_CHARS])
        for turn in row["source"][-MAX_TURNS:]
        if turn["question"]
    )
    question = row["claim"][:MAX_QUERY_CHARS]
    response = await platform.research.research(ResearchRequest(query=question, history=history, language="en"))
    return response.metadata.standalone_query or question


def compared(row: Row, ours: str) -> Understood:
    said, person = content_words(row["claim"]), content_words(row["label"])
    added = content_words(ours) - said
    return Understood(row["group"], row["kind"], person - said, added, added & person)


def figures(turns: Sequence[Understood]) -> list[str]:
    needy = [turn for turn in turns if turn.missing]
    others = [turn for turn in turns if not turn.missing]
    threads = [[turn for turn in needy if turn.group == group] for group in dict.fromkeys(turn.group for turn in needy)]
    years = sorted({turn.year for turn in needy})
    by_year = (f"{year} {restored([[turn for turn in needy if turn.year == year]]):.3f}" for year in years)
    return [
        f"n {len(turns)}, {len(needy)} need words",
        with_interval("missing words restored", restored, threads),
        f"by year {', '.join(by_year)}",
        with_interval("added words right", right, threads),
        f"left as they were {mean(not turn.added for turn in needy):.3f}",
        f"changed without need {sum(bool(turn.added) for turn in others)} of {len(others)}",
    ]


def restored(threads: Sequence[Sequence[Understood]]) -> float:
    turns = [turn for thread in threads for turn in thread]
    return sum(len(turn.missing & turn.added) for turn in turns) / max(1, sum(len(turn.missing) for turn in turns))


def right(threads: Sequence[Sequence[Understood]]) -> float:
    turns = [turn for thread in threads for turn in thread]
    return sum(len(turn.right) for turn in turns) / max(1, sum(len(turn.added) for turn in turns))


@cache
def _function_words() -> frozenset[str]:
    return frozenset(FUNCTION_WORDS.split())


def content_words(text: str) -> frozenset[str]:
    """Return the words of a text without function words; a plural counts as its singular."""
    found = re.findall(r"[^\W_]+", re.sub(r"['’]s", "", text.lower()))
    return frozenset(
        word[:-1] if word.endswith("s") and len(word) >= MIN_PLURAL else word
        for word in found
        if word not in _function_words()
    )
