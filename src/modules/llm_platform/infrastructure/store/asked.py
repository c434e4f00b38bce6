"""How often each stage was asked for and had the answer: a byte for each answer and each miss, in a file that only grows.

Appending a few bytes needs no lock between processes and is not lost when one is killed. A million reports take 60 MB.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from modules.llm_platform.domain.dtos.store_dtos import StoreStage

_LETTERS: Final[Mapping[StoreStage, bytes]] = {  # small: it was not there; capital: it was
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
_CHUNK_BYTES: Final = 1 << 20


class AskedCounts:
    """Hits and misses by stage. Counting never fails: a folder that cannot be written to is not counted."""

    def __init__(self, file: Path) -> None:
        self._file = str(file)

    def note(self, stage: StoreStage, *, hits: int) -> None:
        """One more question, which so many entries answered; where none did it is a miss."""
        try:
            file = os.open(self._file, _FLAGS, 0o600)
        except OSError:  # nothing was ever kept there, or nothing can be
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
            with open(self._file, "rb") as file:  # noqa: PTH123  the path is a text already
                while chunk := file.read(_CHUNK_BYTES):
                    for stage, letter in _LETTERS.items():
                        hits[stage] += chunk.count(_HITS[stage])
                        misses[stage] += chunk.count(letter)
        except FileNotFoundError:
            pass
        return {stage: (hits[stage], misses[stage]) for stage in _LETTERS}
