"""The port of the store of background runs: a queue with leases, their events and their results."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from modules.llm_platform.domain.dtos import research_job_dtos as dtos
from modules.llm_platform.domain.dtos.source_dtos import StoredSources


class LeaseLostError(Exception):
    """The research was cancelled, or another worker runs it: this one must stop."""


@dataclass(frozen=True, slots=True)
class JobSelection:
    """Some runs of one owner. They need not exist."""

    owner: str
    ids: tuple[str, ...]


class IResearchJobStore(ABC):
    """A durable store that several processes share. All methods raise StoreError if it cannot be used.

    A worker claims a research run for some seconds and renews the lease while it runs. A lease that runs out, as after a crash,
    lets another worker claim it, and so does one that is further away than its length, made while the clock was wrong. A
    worker without a valid lease can write nothing. Times come from the store.
    """

    # The caller of a run uses these methods. For any other owner its id does not exist.

    @abstractmethod
    async def add(self, job: dtos.NewResearchJob, max_queued: int) -> dtos.ResearchJob | None:
        """Queue the research durably and return it; None if `max_queued` of this owner are queued already."""

    @abstractmethod
    async def record(
        self, job: dtos.NewResearchJob, events: Sequence[dtos.JobEvent], sources: StoredSources | None, took_s: float
    ) -> None:
        """Store a research run that ended just now with the event `done`, the last of `events`; it began `took_s` ago.

        It replaces one of the same owner and id. All or nothing.
        """

    @abstractmethod
    async def delete(self, owner: str, job_id: str) -> bool:
        """Remove a run and everything that is stored of it, and return False if there is none.

        A worker that runs it loses its lease.
        """

    @abstractmethod
    async def get(self, owner: str, job_id: str) -> dtos.ResearchJobDetail | None:
        """Return the research, or None."""

    @abstractmethod
    async def page(
        self, owner: str, limit: int, before: str | None = None, api: str | None = None
    ) -> tuple[dtos.ResearchJob, ...]:
        """Return up to `limit` runs of the owner, newest first.

        With `before`, a cursor (`parse_cursor`) or an id, all are older than the run that it names. If that run is no longer
        stored, the time in the cursor counts. With `api`, all are runs of this compatible API.
        """

    @abstractmethod
    async def cancel(self, owner: str, job_id: str, *events: dtos.JobEvent) -> bool:
        """End the research with `events`, whose numbers are ignored, unless it has ended.

        Return False if there is no such research.
        """

    @abstractmethod
    async def ask_finish(self, owner: str, job_id: str) -> bool:
        """Record that the caller asks for the text before the search has ended.

        Return False if there is no such unfinished run.
        """

    @abstractmethod
    async def events(self, owner: str, job_id: str, after: int, limit: int) -> dtos.EventPage | None:
        """Return up to `limit` events after number `after`; None if there is no such run."""

    @abstractmethod
    async def sources(self, owner: str, job_id: str) -> StoredSources | None:
        """Return the stored texts of its sources."""

    @abstractmethod
    async def threads(
        self, owner: str, limit: int, before: str | None = None, text: str | None = None
    ) -> tuple[dtos.ResearchThread, ...]:
        """Return up to `limit` threads, the thread with the newest run first.

        With `before`, they follow this thread in that order, as in `page`. With `text`, their title, a question or the
        beginning of an answer contains it, in upper or lower case. A thread is not listed if compatible APIs stored all of its
        runs.
        """

    @abstractmethod
    async def thread(self, owner: str, job_id: str) -> dtos.ResearchThreadDetail | None:
        """Return the thread of this run, or None."""

    @abstractmethod
    async def rename_thread(self, owner: str, job_id: str, title: str) -> bool:
        """Give the thread of this run a title. Return False if there is no such run."""

    @abstractmethod
    async def delete_thread(self, owner: str, job_id: str) -> tuple[str, ...]:
        """Remove all runs of the thread of this run, as `delete` does; return their ids."""

    # Workers use these methods.

    @abstractmethod
    async def claim(
        self,
        token: str,
        lease_s: float,
        is_report: bool | None = None,
        *,
        held: Collection[int] = (),
        leaves_suspects: bool = False,
        only: JobSelection | None = None,
    ) -> dtos.ClaimedJob | None:
        """Lease the oldest run that is queued or whose lease has expired, of an owner with the fewest running ones.

        A lease that expired adds one to `unclean_ends`. A run that is given up is claimed to be failed, and counts no attempt.

        Return None if there is none.

        - With `is_report` only reports are claimed, without it only other runs.
        - `held` are the numbers of the runs that this worker has. It does not claim them again: if the clock was set, their
          leases do not count until the worker renews them.
        - With `leaves_suspects` runs that are suspect and not given up are left to others.
        - With `only` it is one of these.
        """

    @abstractmethod
    async def clear_unclean_ends(self, job: dtos.ClaimedJob) -> None:
        """Set `unclean_ends` to 0: a new attempt would go further than this one began. Raises LeaseLostError."""

    @abstractmethod
    async def renew(self, job: dtos.ClaimedJob, lease_s: float) -> bool:
        """Renew the lease; return whether `ask_finish` was called. Raises LeaseLostError."""

    @abstractmethod
    async def append(
        self, job: dtos.ClaimedJob, events: Sequence[dtos.JobEvent], progress: dtos.ResearchProgress
    ) -> None:
        """Store the next events. Raises LeaseLostError."""

    @abstractmethod
    async def put_sources(self, job: dtos.ClaimedJob, sources: StoredSources) -> None:
        """Store the texts of the sources. Raises LeaseLostError."""

    @abstractmethod
    async def finish(
        self,
        job: dtos.ClaimedJob,
        status: dtos.FinalStatus,
        events: Sequence[dtos.JobEvent],
        progress: dtos.ResearchProgress,
    ) -> None:
        """Store the last events and end the research; its webhook is due. All or nothing. Raises LeaseLostError."""

    @abstractmethod
    async def release(self, job: dtos.ClaimedJob) -> None:
        """Put the research back at its place in the queue, as if this attempt had not begun. Does nothing without the lease."""

    @abstractmethod
    async def claim_webhook(self, lease_s: float) -> dtos.WebhookDelivery | None:
        """Return the webhook that is due longest, for `lease_s` seconds; None: none is due."""

    @abstractmethod
    async def settle_webhook(
        self, delivery: dtos.WebhookDelivery, status: dtos.WebhookStatus, retry_in_s: float = 0.0
    ) -> None:
        """Record the result of this attempt. With `pending`, it is due again in `retry_in_s` seconds."""

    @abstractmethod
    async def counts(self) -> Mapping[dtos.ResearchStatus, int]:
        """Return the number of queued and running research runs of all owners."""

    @abstractmethod
    async def clean(self) -> int:
        """Remove the expired research runs; return their number."""
