"""A request's body as a checked model: bounded, strict JSON, parsed once.

FastAPI's own reading answers some bodies with 500 (NaN, lone surrogates), echoes what was sent, and has no limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from starlette.types import Receive

from modules.llm_platform.presentation.rest.middleware import HEADERS
from modules.llm_platform.presentation.rest.problems import (
    BodyTimeoutError,
    BodyTooLargeError,
    ClientGoneError,
    InvalidRequestError,
    MediaTypeError,
)

MAX_BODY_BYTES = 1 << 20
BODY_TIMEOUT_S = 8.0  # nobody is kept waiting for ten seconds
DISCARD_MAX_BYTES = 16 << 20
DISCARD_TIMEOUT_S = 2.0
MAX_ERRORS = 20  # of a body with thousands of wrong fields, the first ones tell enough
MAX_LENGTH_DIGITS = 12
FORM = b"application/x-www-form-urlencoded"

Model = TypeVar("Model", bound=BaseModel)


async def read_body(
    request: Request, model: type[Model], from_form: Callable[[bytes], dict[str, Any]] | None = None
) -> Model:
    """The body as this model. `from_form` reads the values of an HTML form, ValueError when it cannot; without it a form is
    refused. Raises a RestError that says what is wrong with the body."""
    headers = request.scope[HEADERS]
    body = await _read(request.receive, headers)
    if from_form and _is_form(headers, body):
        try:
            values = from_form(body)
        except ValueError:
            raise _wrong_body("is a form with too many fields", "too_long") from None
        return checked(model, values, "body")
    _check_media_type(headers, body)
    return checked(model, _parse(body), "body")


def checked(model: type[Model], values: Any, where: str) -> Model:
    """The model; InvalidRequestError with each wrong field's place under `where`, and without any value."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False, include_input=False)[:MAX_ERRORS]
        raise InvalidRequestError(field_errors(details, where)) from None


def field_errors(details: Any, *where: str) -> list[dict[str, Any]]:
    """Pydantic's errors as we show them. Its messages hold our rules, never the value."""
    return [
        {"loc": [*where, *detail["loc"]], "msg": detail["msg"].removeprefix("Value error, "), "type": detail["type"]}
        for detail in details[:MAX_ERRORS]
    ]


def _is_form(headers: Mapping[bytes, bytes], body: bytes) -> bool:
    """Whether this is a form; a JSON object under the same name, as curl sends it by default, is none."""
    return _media_type(headers) == FORM and not body.lstrip().startswith(b"{")


def _media_type(headers: Mapping[bytes, bytes]) -> bytes:
    if headers.get(b"content-encoding", b"identity").strip().lower() not in (b"identity", b""):
        raise MediaTypeError("The body must not be compressed: send it as it is.")
    return headers.get(b"content-type", b"").partition(b";")[0].strip().lower()


def _check_media_type(headers: Mapping[bytes, bytes], body: bytes) -> None:
    """JSON under its own name; under curl's default, or none, when the body is an object."""
    media_type = _media_type(headers)
    if media_type == b"application/json":
        return
    if media_type not in (b"", FORM):
        raise MediaTypeError
    if body and not body.lstrip().startswith(b"{"):
        raise MediaTypeError


def _parse(body: bytes) -> dict[str, Any]:
    """The object; unlike Python's parser this one refuses NaN, lone surrogates and more than 200 levels."""
    if not body.strip():
        raise _wrong_body("a JSON object is required", "missing")
    try:
        value = from_json(body, allow_inf_nan=False)
    except ValueError:
        raise _wrong_body("is not valid JSON in UTF-8", "json_invalid") from None
    if not isinstance(value, dict):
        raise _wrong_body("must be a JSON object", "dict_type")
    return value


def _wrong_body(message: str, kind: str) -> InvalidRequestError:
    return InvalidRequestError([{"loc": ["body"], "msg": message, "type": kind}])


async def _read(receive: Receive, headers: Mapping[bytes, bytes]) -> bytes:
    if _declared(headers) > MAX_BODY_BYTES:
        if headers.get(b"expect", b"").lower() != b"100-continue":  # that sender waits for our word before it sends
            await _discard(receive, 0)
        raise BodyTooLargeError
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            return await _collect(receive)
    except TimeoutError:
        raise BodyTimeoutError from None


def _declared(headers: Mapping[bytes, bytes]) -> int:
    length = headers.get(b"content-length", b"0")
    if not length.isdigit():
        return 0  # the server counts for itself
    return int(length) if len(length) <= MAX_LENGTH_DIGITS else MAX_BODY_BYTES + 1


async def _collect(receive: Receive) -> bytes:
    """The whole body, whatever length was declared."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        body = message.get("body", b"")
        size += len(body)
        if size > MAX_BODY_BYTES:
            if message.get("more_body", False):
                await _discard(receive, size)
            raise BodyTooLargeError
        parts.append(body)
        if not message.get("more_body", False):
            return body if len(parts) == 1 else b"".join(parts)


async def _discard(receive: Receive, taken: int) -> None:
    """Take what else comes, within reason: a client that is still sending would see a broken connection, no answer."""
    with suppress(TimeoutError):
        async with asyncio.timeout(DISCARD_TIMEOUT_S):
            while taken < DISCARD_MAX_BYTES:
                message = await receive()
                taken += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return
