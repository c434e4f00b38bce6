"""The root of every error that this code base raises on purpose."""

from __future__ import annotations

from typing import ClassVar


class AppException(Exception):  # noqa: N818  the name is part of the public interface
    """A failure that somebody decided upon: it has a stable code, an HTTP status and says whether trying again can help.

    `retry_after_s` is the wait in seconds that the other side asked for; None when it named none.
    A class's docstring is its default message, so every error says something useful even when raised bare.
    """

    code: ClassVar[str] = "internal"
    status_code: ClassVar[int] = 500
    retryable: ClassVar[bool] = False

    def __init__(self, message: str | None = None, *, retry_after_s: float | None = None) -> None:
        self.message = message or (type(self).__doc__ or type(self).__name__).strip().splitlines()[0]
        self.retry_after_s = retry_after_s
        super().__init__(self.message)
