"""Errors as `application/problem+json` (RFC 9457; interface.md, "Errors"), and how OpenAPI speaks of them."""

from __future__ import annotations

import logging
import math
from http import HTTPStatus
from typing import Any, Literal
from urllib.parse import quote

from fastapi import Response
from pydantic import BaseModel
from pydantic_core import to_json
from starlette.types import Scope

from modules.llm_platform.application.problem import problem
from modules.llm_platform.presentation.rest.errors import InternalError, InvalidRequestError, RestError
from shared.exceptions import AppException

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
REQUEST_ID = "llm_platform.request_id"  # where the guard leaves it in the ASGI scope
UNKNOWN_WAIT_S = 5  # Retry-After of an error that names no time
MAX_WAIT_S = 86_400
MAX_INSTANCE_CHARS = 200
RETRY_STATUSES = frozenset({429, 503})
EVERYWHERE = (403, 500, 503)  # what the guard, or a bug of ours, can answer on any route
GUARDED = (401, 421)  # on any but the probes
WITH_BODY = (408, 413, 415, 422)
PROVIDER = (502,)  # an upstream answered with an error; the one that cannot be reached is a 503


class Problem(BaseModel):
    """Why there is no answer (RFC 9457), with our `code`, whether trying again can help, and the request's id."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    retryable: bool
    request_id: str


class FieldError(BaseModel):
    """One wrong field: where it is, what is wrong with it. Never what was sent."""

    loc: list[str | int]
    msg: str
    type: str


class ValidationProblem(Problem):
    """The same, naming each wrong field."""

    status: Literal[422]
    errors: list[FieldError]


def known(error: Exception) -> AppException:
    """The error itself when somebody decided upon it, else an InternalError; the log has the traceback."""
    if isinstance(error, AppException):
        return error
    log.error("unexpected error", exc_info=error)
    return InternalError()


def problem_object(error: AppException, scope: Scope) -> dict[str, Any]:
    """The problem of one request."""
    instance = quote(scope["path"].encode("utf-8", "replace")[:MAX_INSTANCE_CHARS])
    return problem(error, instance=instance, request_id=scope.get(REQUEST_ID, ""))


def problem_response(error: AppException, scope: Scope) -> Response:
    """The error as an HTTP answer."""
    content = problem_object(error, scope)
    if error.status_code == HTTPStatus.UNPROCESSABLE_ENTITY:
        content["errors"] = _field_errors(error, "query" if scope["method"] == "GET" else "body")
    headers = dict(error.headers) if isinstance(error, RestError) else {}
    if error.status_code == 429 or (error.retryable and error.status_code in RETRY_STATUSES):
        headers["Retry-After"] = str(_wait_s(error.retry_after_s))
    return Response(to_json(content), error.status_code, headers, MEDIA_TYPE)


def _field_errors(error: AppException, where: str) -> list[dict[str, Any]]:
    """What is wrong and where; an error that only the provider could see knows no field."""
    if isinstance(error, InvalidRequestError):
        return error.errors
    return [{"loc": [where], "msg": error.message, "type": error.code}]


def _wait_s(wait_s: float | None) -> int:
    if wait_s is None or not math.isfinite(wait_s):
        return UNKNOWN_WAIT_S
    return min(MAX_WAIT_S, max(1, math.ceil(wait_s)))


def documented(*more: int) -> dict[int | str, dict[str, Any]]:
    """The `responses=` of a route that can also answer with these problem statuses."""
    return {status: _described(status) for status in sorted({*EVERYWHERE, *more})}


def _described(status: int) -> dict[str, Any]:
    model = ValidationProblem if status == HTTPStatus.UNPROCESSABLE_ENTITY else Problem
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {"description": HTTPStatus(status).phrase, "content": {MEDIA_TYPE: {"schema": schema}}}
