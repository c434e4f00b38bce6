"""What the HTTP door itself refuses.

AppException
├── InternalError             500  nobody decided upon it: a mistake of ours    look into the log
└── RestError
    ├── BadRequestError       400  it cannot be read as HTTP
    ├── UnauthorizedError     401  no key, or a wrong one
    ├── ForeignSiteError      403  another site's page sent it
    ├── NotFoundError         404  there is no such route
    ├── MethodNotAllowedError 405  the route has other methods
    ├── HeadTimeoutError      408  the head did not come to its end
    ├── BodyTimeoutError      408  the body did not come
    ├── BodyTooLargeError     413  the body is over the limit
    ├── MediaTypeError        415  the body is no JSON
    ├── UnknownHostError      421  the Host is not ours
    ├── InvalidRequestError   422  a field is wrong; `errors` names each
    └── NotServingError       503  starting or draining
ClientGoneError                    nobody is left to answer
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shared.exceptions import AppException


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
