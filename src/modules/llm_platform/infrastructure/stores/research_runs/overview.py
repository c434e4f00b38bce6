"""Summaries of a store by topic and by stage, and its hit counters."""

import os
from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Final

from modules.llm_platform.domain.dtos.store_dtos import StageStats, StoredEntry, StoredTopic, StoreStage, StoreStats
from modules.llm_platform.infrastructure.stores.research_runs.entry_files import EntryHeader
from modules.llm_platform.infrastructure.stores.research_runs.folder import STAGES, StoredFile


def list_topics(found: Iterable[StoredFile]) -> tuple[StoredTopic, ...]:
    """Return the topics, the most recently changed first."""
    entries = sorted(_select_readable(found), key=lambda entry: (entry[0].location.topic, entry[0].made_at))
    topics = [
        _make_topic(name, list(group)) for name, group in groupby(entries, key=lambda entry: entry[0].location.topic)
    ]
    return tuple(sorted(topics, key=lambda topic: topic.newest, reverse=True))


def list_entries(found: Iterable[StoredFile]) -> tuple[StoredEntry, ...]:
    """Return the entries in the order of the stages, oldest first."""
    return tuple(
        StoredEntry(stage=file.location.stage, key=file.location.key, made_at=head.made, bytes=file.size)
        for head, file in _select_readable(found)
    )


def compute_stats(
    found: Iterable[StoredFile], counts: Mapping[StoreStage, tuple[int, int]], damaged: int
) -> StoreStats:
    entries = _select_readable(found)
    by_stage: dict[str, list[tuple[EntryHeader, int]]] = {stage: [] for stage in STAGES}
    for head, file in entries:
        by_stage[file.location.stage].append((head, file.size))
    topics = len({head.location.topic for head, _ in entries})
    stages = tuple(_stage(stage, by_stage[stage], counts.get(stage, (0, 0))) for stage in STAGES)
    return StoreStats(stages=stages, topics=topics, damaged=damaged)


def _select_readable(found: Iterable[StoredFile]) -> list[tuple[EntryHeader, StoredFile]]:
    return [(file.head, file) for file in found if file.head is not None]


def _make_topic(name: str, entries: list[tuple[EntryHeader, StoredFile]]) -> StoredTopic:
    """Return a topic from its entries, oldest first, with its latest query."""
    return StoredTopic(
        name=name,
        query=entries[-1][0].query,
        entries=len(entries),
        bytes=sum(file.size for _, file in entries),
        oldest=entries[0][0].made,
        newest=entries[-1][0].made,
        finished=any(head.ends_topic for head, _ in entries),
    )


def _stage(stage: StoreStage, entries: list[tuple[EntryHeader, int]], counts: tuple[int, int]) -> StageStats:
    made = sorted(head.made for head, _ in entries)
    return StageStats(
        stage=stage,
        entries=len(entries),
        bytes=sum(size for _, size in entries),
        oldest=made[0] if made else None,
        newest=made[-1] if made else None,
        hits=counts[0],
        misses=counts[1],
    )


# A byte for each hit and each miss in a file that only grows: appending needs no lock between processes, and a killed one
# loses nothing. A million reports take 60 MB.

_LETTERS: Final[Mapping[StoreStage, bytes]] = {  # lower case: miss, upper case: hit
    "search_queries": b"q",
    "search_results": b"s",
    "ranked_results": b"r",
    "docs": b"d",
    "summaries": b"m",
    "ranked_summaries": b"n",
    "answers": b"a",
}
_HITS: Final = {stage: letter.upper() for stage, letter in _LETTERS.items()}
_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT


class HitCounters:
    """Hits and misses by stage. Counting never fails: without a writable folder nothing is counted."""

    def __init__(self, file: Path) -> None:
        self._file = str(file)

    def note(self, stage: StoreStage, *, hits: int) -> None:
        """Count a lookup with `hits` entries. 0 is a miss."""
        try:
            file = os.open(self._file, _FLAGS, 0o600)
        except OSError:  # the folder is not made yet, or not writable
            return
        try:
            os.write(file, _HITS[stage] * hits or _LETTERS[stage])
        except OSError:
            return
        finally:
            os.close(file)

    def counts(self) -> dict[StoreStage, tuple[int, int]]:
        """Hits and misses of each stage since the store was made. May raise OSError."""
        hits = dict.fromkeys(_LETTERS, 0)
        misses = dict.fromkeys(_LETTERS, 0)
        try:
            with open(self._file, "rb") as file:  # noqa: PTH123  the path is a string
                while chunk := file.read(1 << 20):
                    for stage, letter in _LETTERS.items():
                        hits[stage] += chunk.count(_HITS[stage])
                        misses[stage] += chunk.count(letter)
        except FileNotFoundError:
            pass
        return {stage: (hits[stage], misses[stage]) for stage in _LETTERS}
