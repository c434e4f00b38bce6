"""The base class of all errors of the platform."""

import math
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, ClassVar, Final

# Python 3.13 has other words for these. A client sees the same ones on each Python.
_PHRASES: Final = {413: "Request Entity Too Large", 422: "Unprocessable Entity"}


def status_phrase(status_code: int) -> str:
    """Return the reason phrase of an HTTP status code. Raises ValueError for an unknown code."""
    return _PHRASES.get(status_code) or HTTPStatus(status_code).phrase


class AppException(Exception):  # noqa: N818  the name is part of the public interface
    """An expected failure with a stable code, an HTTP status and a flag that tells whether a retry can succeed.

    A class names its own as keywords: `class PageError(AppException, code="page_error", status_code=502)`. The default message
    is the first line of the class's docstring. `retry_after_s` is the time in seconds that the upstream service asks to wait,
    from `made_at` on, or None. `reason` has the words of a service, such as a database, for operators: no client sees them,
    because they may name its users, tables and addresses.
    """

    code: ClassVar[str] = "internal"
    status_code: ClassVar[int] = 500
    retryable: ClassVar[bool] = False
    component: ClassVar[str | None] = None  # component in `degraded`, instead of the part that failed
    field: str | None = None  # field of the request, where a single one is wrong

    def __init_subclass__(
        cls, *, code: str | None = None, status_code: int | None = None, retryable: bool | None = None
    ) -> None:
        own = {"code": code, "status_code": status_code, "retryable": retryable}
        for name, value in own.items():
            if value is not None:
                setattr(cls, name, value)

    def __init__(self, message: str | None = None, *, retry_after_s: float | None = None, reason: str = "") -> None:
        self.message = message or (type(self).__doc__ or type(self).__name__).strip().splitlines()[0]
        self.retry_after_s = retry_after_s
        self.reason = reason
        self.made_at = datetime.now(UTC)
        super().__init__(self.message)

    def explain(self) -> str:
        """Return the message and the reason, for an operator."""
        return f"{self.message} ({self.reason})" if self.reason else self.message

    def problem(self, *, instance: str, request_id: str) -> dict[str, Any]:
        """Return the error as a problem object (RFC 9457) with the additional fields `code`, `retryable` and `request_id`.

        If the error is retryable and the upstream service sent a delay, `retry_after_s` has it in whole seconds, rounded up,
        and is at least 1.
        """
        wait_s = self.retry_after_s if self.retryable else None
        return {
            "type": "about:blank",
            "title": status_phrase(self.status_code),
            "status": self.status_code,
            "detail": self.message,
            "instance": instance,
            "code": self.code,
            "retryable": self.retryable,
            "request_id": request_id,
            **({} if wait_s is None or not math.isfinite(wait_s) else {"retry_after_s": max(1, math.ceil(wait_s))}),
        }
