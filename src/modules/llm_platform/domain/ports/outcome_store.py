"""The port of the store of outcomes, which makes one request one outcome across crashes (requirement RC8)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from modules.llm_platform.domain.dtos.retrieval_dtos import Outcome, RagStage


class IOutcomeStore(ABC):
    """Keeps the first outcome of each request, by stage, tenant and request id, for some days."""

    reach: str  # who shares it, for people: "all workers of this machine"

    @abstractmethod
    async def get(self, stage: RagStage, request_id: str, tenant: str = "") -> Outcome | None:
        """The outcome that was kept, or None. Ids of two tenants are two ids; "" is where there are no tenants."""

    async def get_many(self, wanted: Sequence[tuple[RagStage, str, str]]) -> list[Outcome | None]:
        """`get` for each stage, request id and tenant; all or OutcomeStoreError. A store that can looks them up in one go."""
        return [await self.get(*each) for each in wanted]

    @abstractmethod
    async def keep(self, outcomes: Sequence[Outcome]) -> list[Outcome]:
        """Keep each unless there is one already; for each what is kept now, which is what has to be told.

        What this returns outlives the process. Raises OutcomeStoreError.
        """

    @abstractmethod
    async def clean(self) -> int:
        """Remove what is older than outcomes are kept; how many those were."""

    @abstractmethod
    async def probe(self) -> None:
        """Write something small that nobody reads. Raises OutcomeStoreError where an outcome could not be kept now."""

    @abstractmethod
    async def identity(self) -> str:
        """An id of what is stored, the same for all who share it and as long as it lives. Raises OutcomeStoreError."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close what was opened; a second call does nothing."""
