"""An error as the problem object that every door sends (RFC 9457; docs/reference/errors.md)."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from shared.exceptions import AppException


def problem(error: AppException, *, instance: str, request_id: str) -> dict[str, Any]:
    """`type, title, status, detail, instance` of the RFC, and our `code, retryable, request_id`."""
    return {
        "type": "about:blank",
        "title": HTTPStatus(error.status_code).phrase,
        "status": error.status_code,
        "detail": error.message,
        "instance": instance,
        "code": error.code,
        "retryable": error.retryable,
        "request_id": request_id,
    }
