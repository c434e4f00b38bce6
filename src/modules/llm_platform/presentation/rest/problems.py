"""Errors as `application/problem+json` (RFC 9457; docs/reference/errors.md), and how OpenAPI speaks of them."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Literal
from urllib.parse import quote

from fastapi import Response
from pydantic import BaseModel
from pydantic_core import to_json
from starlette.types import Scope

from modules.llm_platform.application.problem import problem
from shared.exceptions import AppException

# What the HTTP door itself refuses.
# AppException ├── InternalError             500  nobody decided upon it: a mistake of ours    look into the log └──
# RestError     ├── BadRequestError       400  it cannot be read as HTTP     ├── UnauthorizedError     401  no key, or a
# wrong one     ├── ForeignSiteError      403  another site's page sent it     ├── NotFoundError         404  there is
# no such route     ├── MethodNotAllowedError 405  the route has other methods     ├── HeadTimeoutError      408  the
# head did not come to its end     ├── BodyTimeoutError      408  the body did not come     ├── BodyTooLargeError
# 413  the body is over the limit     ├── MediaTypeError        415  the body is no JSON     ├── UnknownHostError
# 421  the Host is not ours     ├── InvalidRequestError   422  a field is wrong; `errors` names each     └──
# NotServingError       503  starting or draining ClientGoneError                    nobody is left to answer


class InternalError(AppException):
    """Something went wrong on our side: the server's log has it under this request_id."""


class RestError(AppException):
    """The request was refused at the door. `headers` go out with the problem."""

    code = "bad_request"
    status_code = 400

    def __init__(self, message: str | None = None, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.headers = dict(headers or {})


class BadRequestError(RestError):
    """The request cannot be read: look at its syntax."""


class UnauthorizedError(RestError):
    """A key is needed: send `Authorization: Bearer KEY` or `X-API-Key: KEY`."""

    code = "unauthorized"
    status_code = 401

    def __init__(self) -> None:
        super().__init__(headers={"WWW-Authenticate": "Bearer"})


class ForeignSiteError(RestError):
    """Pages of another site may not use this server: add their origin to CORS_ORIGINS if they should."""

    code = "foreign_site"
    status_code = 403


class NotFoundError(RestError):
    """There is nothing at this address: /openapi.json lists what there is."""

    code = "not_found"
    status_code = 404


class MethodNotAllowedError(RestError):
    """This address has other methods: see the Allow header."""

    code = "method_not_allowed"
    status_code = 405


class HeadTimeoutError(RestError):
    """The head of the request did not arrive in time: send it again."""

    code = "head_timeout"
    status_code = 408


class BodyTimeoutError(RestError):
    """The body did not arrive in time: send it again."""

    code = "body_timeout"
    status_code = 408

    def __init__(self) -> None:
        super().__init__(headers={"Connection": "close"})


class BodyTooLargeError(RestError):
    """The body is over 1 MiB: send less."""

    code = "body_too_large"
    status_code = 413

    def __init__(self) -> None:
        super().__init__(headers={"Connection": "close"})


class MediaTypeError(RestError):
    """The body must be a JSON object: send it as `Content-Type: application/json`."""

    code = "unsupported_media_type"
    status_code = 415


class UnknownHostError(RestError):
    """This server does not answer under that Host: add the name to ALLOWED_HOSTS if it should."""

    code = "unknown_host"
    status_code = 421


class InvalidRequestError(RestError):
    """The request is not valid: `errors` names each field that is wrong."""

    code = "invalid_request"
    status_code = 422

    def __init__(self, errors: Sequence[dict[str, Any]]) -> None:
        super().__init__()
        self.errors = list(errors)


class NotServingError(RestError):
    """The server is starting or stopping: try again in a moment."""

    code = "not_serving"
    status_code = 503
    retryable = True


class ClientGoneError(Exception):
    """The caller hung up: what was under way is cancelled, and there is nobody to tell."""


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
