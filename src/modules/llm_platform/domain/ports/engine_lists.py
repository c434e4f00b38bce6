"""The small second port of a search provider that has many engines and asks those that the operator lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from modules.llm_platform.domain.dtos.web_search_dtos import SourceKind


@dataclass(frozen=True, slots=True)
class EngineListCheck:
    """The operator's list for one kind of source, held against what the service has.

    `missing`: engines that it does not have; `off`: those that it asks only when they are named; `on`: engines of the kind
    that it asks by itself, those of the list first.
    """

    kind: SourceKind
    setting: str
    listed: tuple[str, ...]
    missing: tuple[str, ...] = ()
    off: tuple[str, ...] = ()
    on: tuple[str, ...] = ()


@runtime_checkable
class IEngineLists(Protocol):
    """A search provider whose service tells which engines it has."""

    name: str

    async def engine_lists(self) -> tuple[EngineListCheck, ...]:
        """One check for each kind of source that has a list. No engine is asked. Raises an AppException when the service
        does not tell."""
