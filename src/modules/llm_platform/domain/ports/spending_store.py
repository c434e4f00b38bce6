"""The port of the spending store: US dollars spent per day and account."""

from abc import ABC, abstractmethod
from collections.abc import Mapping


class ISpendingStore(ABC):
    """Sums that survive a restart. Several processes may share them."""

    @abstractmethod
    async def add(self, day: str, amounts: Mapping[str, float], seen: Mapping[str, float]) -> Mapping[str, float]:
        """Add US dollars to accounts of a day (`2026-01-31`) and return their sums; an amount of 0 only reads.

        `seen`: the sums of these accounts that the caller has read before; a missing one is 0. A sum that the store has lost
        since then is raised to it first, so no sum of a day falls below what one of its callers has seen.

        Days before are removed. Raises SpendingStoreError; nothing is added then.
        """
