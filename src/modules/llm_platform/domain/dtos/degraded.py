"""What did not go as asked, though an answer came."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pydantic import BaseModel, ConfigDict

from shared.exceptions import AppException


class Degraded(BaseModel):
    """One part that failed or did less than asked: who (`searxng/google`), why, and until when if that is known."""

    model_config = ConfigDict(frozen=True)

    component: str
    reason: str
    until: datetime | None = None

    @classmethod
    def of(cls, component: str, error: AppException) -> Degraded:
        """The entry for an error that was survived; `until` is when the other side said to come back."""
        wait = error.retry_after_s
        until = None if wait is None else datetime.now(UTC) + timedelta(seconds=wait)
        return cls(component=component, reason=f"{error.code}: {error.message}", until=until)
