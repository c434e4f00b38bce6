"""The contract of `ISpendingStore`."""

from __future__ import annotations

import asyncio

from modules.llm_platform.domain.ports.spending_store import ISpendingStore

_DAY, _NEXT_DAY = "2026-01-31", "2026-02-01"


class SpendingStoreContract:
    """Subclass it and add these fixtures.

    `store`: an empty ISpendingStore · `second`: another store with the same sums, as in another process.
    """

    async def test_sums_start_at_zero(self, store: ISpendingStore) -> None:
        """An unknown day and account have spent nothing."""
        assert await store.add(_DAY, {"all": 0.0}, {}) == {"all": 0.0}

    async def test_amounts_are_added(self, store: ISpendingStore, second: ISpendingStore) -> None:
        """Each account has its own sum, which other processes see."""
        await store.add(_DAY, {"all": 0.25, "key:alice": 0.25}, {})
        assert await second.add(_DAY, {"all": 0.5}, {}) == {"all": 0.75}
        assert await store.add(_DAY, {"all": 0.0, "key:alice": 0.0}, {}) == {"all": 0.75, "key:alice": 0.25}

    async def test_days_are_independent(self, store: ISpendingStore) -> None:
        """A new day starts at zero."""
        await store.add(_DAY, {"all": 0.25}, {})
        assert await store.add(_NEXT_DAY, {"all": 0.5}, {}) == {"all": 0.5}

    async def test_no_amount_is_lost(self, store: ISpendingStore, second: ISpendingStore) -> None:
        """Simultaneous calls all count."""
        await asyncio.gather(
            *(spending.add(_DAY, {"all": 0.125}, {}) for spending in (store, second) for _ in range(20))
        )
        assert await store.add(_DAY, {"all": 0.0}, {}) == {"all": 5.0}

    async def test_a_lost_sum_is_raised_to_what_was_seen(self, store: ISpendingStore, second: ISpendingStore) -> None:
        """A caller that has seen a higher sum than the store restores it when it adds or reads, and other processes
        then see it. Two callers that have seen the same sum do not restore it twice. A lower sum changes nothing.
        """
        assert await store.add(_DAY, {"all": 0.5}, {"all": 2.25}) == {"all": 2.75}
        assert await second.add(_DAY, {"all": 0.5}, {"all": 2.25}) == {"all": 3.25}
        assert await store.add(_DAY, {"all": 0.0, "key:alice": 0.0}, {"key:alice": 0.1}) == {
            "all": 3.25,
            "key:alice": 0.1,
        }
        assert await second.add(_DAY, {"key:alice": 0.0}, {}) == {"key:alice": 0.1}
