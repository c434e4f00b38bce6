import logging
import math
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Literal, Self
from urllib.parse import quote

from fastapi import Response
from pydantic import BaseModel
from pydantic_core import to_json
from starlette.types import Scope

from modules.llm_platform.domain.ports.rate_limiter import LimitState
from shared.exceptions import AppException, status_phrase

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
REQUEST_ID = "llm_platform.request_id"  # Key in the ASGI scope, set by GuardMiddleware.
ERROR_FORMAT = "llm_platform.error_format"  # Key in the ASGI scope: the ErrorFormat of a compatible interface.
ErrorFormat = Callable[
    [AppException, Mapping[str, Any]], tuple[int, Mapping[str, Any]]
]  # (error, problem) -> (status, body)
DEFAULT_RETRY_AFTER_S = 5
MAX_RETRY_AFTER_S = 86_400
MAX_INSTANCE_CHARS = 200
QUOTA_EXCEEDED = (
    "https://iana.org/assignments/http-problem-types#quota-exceeded"  # The type in the draft for RateLimit.
)
PASSWORD = (
    'Basic realm="The API key is the password", charset="UTF-8"'  # a feed reader and a browser ask the user for it
)
# Problem statuses of a route, for OpenAPI.
COMMON_STATUSES = (403, 500, 503)  # Statuses of all routes.
ACCESS_STATUSES = (401, 421, 429)  # Statuses of all routes except the probes.
BODY_STATUSES = (408, 413, 415, 422)
UPSTREAM_STATUSES = (502,)  # An upstream returned an error. An unreachable one is a 503.


class InternalError(AppException):
    """Internal error: search the server log for this request_id."""


class RestError(AppException, code="bad_request", status_code=400):
    """The request was refused. `headers` are sent with the problem."""

    def __init__(self, message: str | None = None, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.headers = dict(headers or {})


class BadRequestError(RestError):
    """The request is malformed: check its syntax."""


class UnauthorizedError(RestError, code="unauthorized", status_code=401):
    """A valid API key is required: send `Authorization: Bearer KEY` or `X-API-Key: KEY`."""

    def __init__(self, *, takes_password: bool = False) -> None:
        message = f"{type(self).__doc__} A feed reader sends the key as the password." if takes_password else None
        super().__init__(message, headers={"WWW-Authenticate": PASSWORD if takes_password else "Bearer"})


class CrossSiteError(RestError, code="foreign_site", status_code=403):
    """Web pages of other sites may not call this server: add their origin to CORS_ORIGINS to allow it."""


class NotFoundError(RestError, code="not_found", status_code=404):
    """There is no such route: see /openapi.json."""

    @classmethod
    def of(cls, scope: Scope) -> Self:
        """Return the error for a request. It names the path at which a host mounts the application."""
        return cls(f"There is no such route: see {scope.get('root_path', '')}/openapi.json.")


class MethodNotAllowedError(RestError, code="method_not_allowed", status_code=405):
    """This route does not support the method: see the Allow header."""


class HeadTimeoutError(RestError, code="head_timeout", status_code=408):
    """The head of the request did not arrive in time: send the request again."""


class BodyTimeoutError(RestError, code="body_timeout", status_code=408):
    """The body did not arrive in time: send the request again."""

    def __init__(self) -> None:
        super().__init__(headers={"Connection": "close"})


class BodyTooLargeError(RestError, code="body_too_large", status_code=413):
    """The body is larger than 1 MiB: send less."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message, headers={"Connection": "close"})


class AddressTooLongError(RestError, code="address_too_long", status_code=414):
    """The address is longer than 16 KiB: send the request as POST with a body."""


class HeadersTooLargeError(RestError, code="headers_too_large", status_code=431):
    """The headers are larger than 64 KiB or more than 100: send fewer of them."""


class MediaTypeError(RestError, code="unsupported_media_type", status_code=415):
    """The body must be a JSON object: send it as `Content-Type: application/json`."""


class UnknownHostError(RestError, code="unknown_host", status_code=421):
    """The name in the Host header is not accepted: add it to ALLOWED_HOSTS to allow it."""


class InvalidRequestError(RestError, code="invalid_request", status_code=422):
    """The request is invalid: `errors` names each invalid field."""

    def __init__(self, errors: Sequence[dict[str, Any]]) -> None:
        self.errors = list(errors)
        whole_body = next((error["msg"] for error in self.errors if error["loc"] == ["body"]), None)
        super().__init__(f"The request is invalid (body: {whole_body})." if whole_body else None)

    @classmethod
    def at(cls, position: Sequence[str | int], message: str, kind: str = "unsupported") -> Self:
        return cls([{"loc": list(position), "msg": message, "type": kind}])


class RateLimitedError(RestError, code="rate_limited", status_code=429, retryable=True):
    """Too many requests: wait for the seconds of Retry-After."""

    def __init__(self, exceeded: LimitState, wait_s: float | None = None) -> None:
        limit = exceeded.limit
        name = "searches and reads of this API key" if limit.name == "reads" else f"this {limit.name}"
        super().__init__(
            f"Too many requests: the limit of {name} is {limit.quota} in {limit.window_s} seconds and "
            f"{limit.burst} at once. Wait for the seconds of Retry-After."
        )
        self.retry_after_s = exceeded.next_s if wait_s is None else wait_s
        self.policy = limit.name

    def problem(self, *, instance: str, request_id: str) -> dict[str, Any]:
        """Return the problem object with the type and the member of the draft."""
        problem = super().problem(instance=instance, request_id=request_id)
        return {**problem, "type": QUOTA_EXCEEDED, "violated-policies": [self.policy]}


class NotServingError(RestError, code="not_serving", status_code=503, retryable=True):
    """The server is starting or stopping: try again in a few seconds."""


class NoMetricsError(RestError, code="no_metrics", status_code=503):
    """This server collects no metrics: pip install "llm-platform[server]"."""


class NoMcpError(RestError, code="no_mcp", status_code=404):
    """This server has no MCP interface: pip install "llm-platform[mcp]"."""


class StoppingError(NotServingError):
    """The server stops and could not finish this request: send it again."""


class OverloadedError(RestError, code="overloaded", status_code=503, retryable=True):
    """The maximum number of research runs is active: try again in a few seconds, or raise MAX_CONCURRENT_RESEARCHES."""


class ClientDisconnectedError(Exception):
    """The client closed the connection, so no response is sent."""


class Problem(BaseModel):
    """An error (RFC 9457) with `code`, `retryable` (whether a retry can succeed), the request id, and the seconds to wait."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    retryable: bool
    request_id: str
    retry_after_s: int | None = None


class FieldError(BaseModel):
    """One invalid field: its location and the reason, without the value."""

    loc: list[str | int]
    msg: str
    type: str


class ValidationProblem(Problem):
    """A problem that names each invalid field."""

    status: Literal[422]
    errors: list[FieldError]


def to_app_exception(error: Exception) -> AppException:
    """Return an expected error unchanged. Log any other error, and return an InternalError."""
    if isinstance(error, AppException):
        return error
    log.error("unexpected error", exc_info=error)
    return InternalError()


def make_problem(error: AppException, scope: Scope) -> dict[str, Any]:
    instance = quote(scope["path"].encode("utf-8", "replace")[:MAX_INSTANCE_CHARS])
    return error.problem(instance=instance, request_id=scope.get(REQUEST_ID, ""))


def make_problem_response(error: AppException, scope: Scope) -> Response:
    content = make_problem(error, scope)
    if error.status_code == HTTPStatus.UNPROCESSABLE_ENTITY:
        if isinstance(error, InvalidRequestError):
            content["errors"] = error.errors
        else:  # A search or LLM provider refused the request. Most such errors do not name a field.
            location = ["query" if scope["method"] == "GET" else "body", *filter(None, [error.field])]
            content["errors"] = [{"loc": location, "msg": error.message, "type": error.code}]
    headers = dict(error.headers) if isinstance(error, RestError) else {}
    is_told = (
        error.retryable and error.retry_after_s is not None
    )  # An upstream said when to retry, whatever our status is.
    if error.status_code == 429 or is_told or (error.retryable and error.status_code in {429, 503}):
        headers["Retry-After"] = str(_retry_after_s(error.retry_after_s))
    if ERROR_FORMAT in scope:
        status, body = scope[ERROR_FORMAT](error, content)
        if status < HTTPStatus.TOO_MANY_REQUESTS:  # For this interface it is a client error, which no waiting changes.
            headers.pop("Retry-After", None)
        return Response(to_json(body), status, headers, "application/json")
    return Response(to_json(content), error.status_code, headers, MEDIA_TYPE)


def _retry_after_s(wait_s: float | None) -> int:
    if wait_s is None or not math.isfinite(wait_s):
        return DEFAULT_RETRY_AFTER_S
    return min(MAX_RETRY_AFTER_S, max(1, math.ceil(wait_s)))


def declare_problems(*statuses: int, is_probe: bool = False) -> dict[int | str, dict[str, Any]]:
    """Return the `responses=` of a route that can also fail with these statuses. `is_probe` is True for PROBE_PATHS."""
    access = (421,) if is_probe else ACCESS_STATUSES
    responses: dict[int | str, dict[str, Any]] = {}
    for status in sorted({*COMMON_STATUSES, *access, *statuses}):
        model = ValidationProblem if status == HTTPStatus.UNPROCESSABLE_ENTITY else Problem
        schema = {"$ref": f"#/components/schemas/{model.__name__}"}
        responses[status] = {"description": status_phrase(status), "content": {MEDIA_TYPE: {"schema": schema}}}
    return responses
