"""The parts of an answer that failed or did less than requested."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from pydantic import BaseModel

from shared.exceptions import AppException

UNUSABLE_ANSWER: Final = (
    "llm_provider: its "  # begins the reason where a model answered and nothing of it could be used
)
TIMEOUT: Final = "timeout:"  # begins the reason where the time ran out
TIME_LIMIT: Final = "max_seconds"  # named by the reason where the time limit refused or ended a model call
# Rounds up to the next full second, not further: some time passes between the reading of a clock and the error.
ROUND_UP_S: Final = 0.75


class Degraded(BaseModel, frozen=True):
    """One part that failed or did less than requested: the component (`searxng/google`), the reason, and the end if known."""

    component: str
    reason: str
    until: datetime | None = None

    @property
    def is_unusable_answer(self) -> bool:
        """True if a model answered, which was paid for, and the answer could not be used."""
        return self.reason.startswith(UNUSABLE_ANSWER)

    @property
    def is_timeout(self) -> bool:
        """True if the time ran out: the reason begins with `timeout:` or contains `max_seconds`."""
        return self.reason.startswith(TIMEOUT) or TIME_LIMIT in self.reason

    @classmethod
    def of(cls, component: str, error: AppException) -> Degraded:
        """Return the entry for an error; `until` is the second from which on the service may be called again."""
        wait = error.retry_after_s
        until = None if wait is None else (error.made_at + timedelta(seconds=wait + ROUND_UP_S)).replace(microsecond=0)
        return cls(component=error.component or component, reason=f"{error.code}: {error.message}", until=until)


def deduplicate_degraded(entries: Iterable[Degraded]) -> tuple[Degraded, ...]:
    """Return the entries without repetitions of a component with the same reason; of these the last one stays."""
    return tuple({(entry.component, entry.reason): entry for entry in entries}.values())
