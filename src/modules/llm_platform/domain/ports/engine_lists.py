"""The optional port of a search provider with several engines. The operator lists some of them."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from modules.llm_platform.domain.dtos.web_search_dtos import SourceKind


@dataclass(frozen=True, slots=True)
class EngineListCheck:
    """The operator's engine list for one kind of source, compared with the engines of the service.

    - `missing` are the engines of the list that the service does not have.
    - `off` are the engines of the list that the service uses only if they are named.
    - `on` are the enabled engines of the kind, the listed engines first.
    """

    kind: SourceKind
    setting: str
    listed: tuple[str, ...]
    missing: tuple[str, ...] = ()
    off: tuple[str, ...] = ()
    on: tuple[str, ...] = ()


@runtime_checkable
class IEngineLists(Protocol):
    """A search provider whose service lists its engines."""

    name: str

    async def engine_lists(self) -> tuple[EngineListCheck, ...]:
        """Return one check for each kind of source with a list, without a search.

        Raises an AppException if the service does not list its engines.
        """
