"""The ports of the stores of outcomes and of failed requests.

The store of outcomes makes one request one outcome, across crashes.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence

from modules.llm_platform.domain.dtos import retrieval_dtos as dtos


class IOutcomeStore(ABC):
    """Stores the first outcome of each request, by stage, tenant and request id, for some days."""

    reach: str  # the processes that share it, for messages: "all workers of this machine"

    @abstractmethod
    async def get(self, stage: dtos.RagStage, request_id: str, tenant: str = "") -> dtos.Outcome | None:
        """Return the stored outcome, or None. Each tenant has its own ids; "" without tenants."""

    async def get_many(self, wanted: Sequence[tuple[dtos.RagStage, str, str]]) -> list[dtos.Outcome | None]:
        """Return the result of `get` for each stage, request id and tenant. Raises OutcomeStoreError if one of them fails.

        A store that can do so looks them up at once.
        """
        return [await self.get(*key) for key in wanted]

    @abstractmethod
    async def put_if_absent(self, outcomes: Sequence[dtos.Outcome]) -> list[dtos.Outcome]:
        """Store each outcome unless its request has one; return the stored outcome of each, which must be sent.

        The returned outcomes are durable. Raises OutcomeStoreError.
        """

    @abstractmethod
    def scan(self, wanted: dtos.OutcomeFilter) -> AsyncIterator[dtos.StoredOutcome]:
        """Yield the outcomes that match, the newest first, in pages. Outcomes that are stored meanwhile may be missing."""

    @abstractmethod
    async def remove(self, outcomes: Sequence[dtos.Outcome]) -> list[bool]:
        """Remove each outcome that is still stored with the same bytes; return which were. Their requests are new then."""

    @abstractmethod
    async def clean(self) -> int:
        """Remove the expired outcomes; return their number."""

    @abstractmethod
    async def probe(self) -> None:
        """Test a write. Raises OutcomeStoreError if an outcome could not be stored now."""

    @abstractmethod
    async def identity(self) -> str:
        """Return the id of the store, equal in all processes that share it. Raises OutcomeStoreError."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close what was opened; a second call does nothing."""


class IFailedRequestStore(ABC):
    """Stores the requests of failures, so that they can be sent again. Bounded in bytes, the oldest are dropped, and in age.

    It is not part of the delivery guarantee: a missing request cannot be replayed, and nothing else. All methods raise
    OutcomeStoreError.
    """

    @abstractmethod
    async def put(self, request: dtos.FailedRequest) -> None:
        """Store a request. It replaces an earlier one of the same stage, tenant and id."""

    @abstractmethod
    async def list(self) -> list[dtos.FailedRequest]:
        """Return the stored requests without those that are too old, the oldest first."""

    @abstractmethod
    async def remove(self, requests: Sequence[dtos.FailedRequest]) -> None:
        """Remove those that were not stored again meanwhile."""

    @abstractmethod
    async def clean(self) -> int:
        """Remove those that are too old; return their number."""
