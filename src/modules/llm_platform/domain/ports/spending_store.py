"""The port of the spending store: US dollars spent per day and account."""

from abc import ABC, abstractmethod
from collections.abc import Mapping


class ISpendingStore(ABC):
    """Sums that survive a restart. Several processes may share them."""

    @abstractmethod
    async def add(self, day: str, amounts: Mapping[str, float], seen: Mapping[str, float]) -> Mapping[str, float]:
        """Add US dollars to accounts of a day (`2026-01-31`) and return their sums. An amount of 0 only reads.

        `seen` are the sums of these accounts that the caller has read before; a missing one is 0. If the store has lost a sum
        since then, it is raised to that first, so that no sum of a day falls below what a caller has seen.

        Earlier days are removed. Raises SpendingStoreError; nothing is added then.
        """
