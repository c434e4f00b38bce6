"""The port of the store of watched questions: their schedule with leases, their runs and their changes."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from modules.llm_platform.domain.dtos import watch_dtos as dtos

KEPT_FACTS: Final = 10  # newest runs of a watch that keep their facts


class WatchLeaseLostError(Exception):
    """The watch was removed, or another worker has claimed it: this one must stop."""


class WatchUnreadableError(Exception):
    """A watch was claimed whose question cannot be read. `watch` has the lease, and no question."""

    def __init__(self, watch: dtos.ClaimedWatch) -> None:
        super().__init__(watch.id)
        self.watch = watch


class NoticeUnreadableError(Exception):
    """A notice was claimed, one of whose changes cannot be read. `notice` has the lease, and no changes."""

    def __init__(self, notice: dtos.WatchNotice) -> None:
        super().__init__(notice.id)
        self.notice = notice


@dataclass(frozen=True, slots=True)
class WatchSelection:
    """The watches of some owners. With `ids`, only these of them."""

    owners: tuple[str, ...]
    ids: tuple[str, ...] | None = None


class IWatchStore(ABC):
    """A durable store that several processes share. All methods raise StoreError if it cannot be used.

    A worker claims a watch that is due, and the lease lets another worker claim it if the first one vanishes. A worker without
    a valid lease can write nothing. Runs, changes and notices stay until the watch is removed. Times come from the store.
    """

    # The owner uses these methods. For any other owner a watch does not exist.

    @abstractmethod
    async def add(self, watch: dtos.NewWatch, max_watches: int) -> dtos.Watch | None:
        """Store a watch whose first run is due now, and return it; None if its owner has `max_watches`.

        A watch of the same owner and id is returned as it is.
        """

    @abstractmethod
    async def get(self, owner: str, watch_id: str) -> dtos.Watch | None:
        """Return the watch, or None."""

    @abstractmethod
    async def page(self, owner: str, limit: int, before: str | None = None) -> tuple[dtos.Watch, ...]:
        """Return up to `limit` watches, newest first.

        With `before`, a cursor (`parse_cursor`) or an id, they are older than that watch. If it was removed, the time of the
        cursor is used.
        """

    @abstractmethod
    async def remove(self, owner: str, watch_id: str) -> bool:
        """Remove a watch with its runs and changes, and return False if there is none. A worker loses its lease."""

    @abstractmethod
    async def run_now(self, owner: str, watch_id: str) -> bool:
        """Make a watch due now; a paused one is active again, without refusals. Return False if there is none."""

    @abstractmethod
    async def runs(self, owner: str, watch_id: str, limit: int, before: int | None = None) -> tuple[dtos.WatchRun, ...]:
        """Return up to `limit` finished runs, newest first. With `before`, their numbers are lower."""

    @abstractmethod
    async def changes(
        self, owner: str, watch_id: str, limit: int, before: int | None = None
    ) -> tuple[dtos.FoundChange, ...]:
        """Return up to `limit` changes, newest first. With `before`, their numbers are lower."""

    # Workers use these methods.

    @abstractmethod
    async def claim(self, token: str, lease_s: float, only: WatchSelection | None = None) -> dtos.ClaimedWatch | None:
        """Lease the watch that is due longest for `lease_s` seconds; None if none is due. With `only`, it is one of these.

        Raises WatchUnreadableError after the lease is stored.
        """

    @abstractmethod
    async def wait(self, watch: dtos.ClaimedWatch, delay_s: float, *, is_asked: bool = True) -> None:
        """Record whether the question was asked, and give up the lease. The watch is due again in `delay_s` seconds.

        Raises WatchLeaseLostError.
        """

    @abstractmethod
    async def get_reading(self, watch: dtos.ClaimedWatch) -> dtos.WatchReading | None:
        """Return what the next run is compared with; None before the first good run."""

    @abstractmethod
    async def finish(
        self,
        watch: dtos.ClaimedWatch,
        run: dtos.WatchRun,
        changes: Sequence[dtos.WatchChange],
        reading: dtos.WatchReading | None,
        following: dtos.NextRun,
        notices: Sequence[dtos.NoticeChannel] = (),
    ) -> None:
        """Store a run with its changes, and plan the following one. All or nothing. Raises WatchLeaseLostError.

        - `reading` replaces what the next run is compared with; None keeps it.
        - `notices` are due at once.
        - `run.at` is replaced by the time of the store.
        - Runs before the newest KEPT_FACTS lose their facts.
        """

    @abstractmethod
    async def claim_notice(
        self, lease_s: float, channels: Collection[dtos.NoticeChannel], only: WatchSelection | None = None
    ) -> dtos.WatchNotice | None:
        """Return the notice of these channels that is due longest, for `lease_s` seconds; None if none is due.

        First attempts come before others. With `only`, it is a notice of these watches. Raises NoticeUnreadableError after the
        lease is stored.
        """

    @abstractmethod
    async def settle_notice(self, notice: dtos.WatchNotice, status: dtos.NoticeStatus, retry_in_s: float = 0.0) -> None:
        """Record the result of this attempt. With `pending`, the notice is due again in `retry_in_s` seconds."""

    @abstractmethod
    async def count(self, only: WatchSelection | None = None) -> Mapping[dtos.WatchState, int]:
        """Return the number of active and paused watches of all owners. With `only`, of these."""
