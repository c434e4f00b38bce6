"""Reads a request body into a model: limited in size and time, strict JSON, parsed once.

FastAPI's own parsing responds to some bodies with 500 (NaN, lone surrogates), repeats the input, and has no size limit.
"""

import asyncio
import codecs
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from starlette.types import Receive

from modules.llm_platform.domain.callers.current_caller import current_caller
from modules.llm_platform.presentation.rest.http import problems
from modules.llm_platform.presentation.rest.http.access import HEADERS
from modules.llm_platform.presentation.rest.http.ignored_fields import note_ignored_fields
from modules.llm_platform.presentation.validation_messages import (
    get_field_location,
    select_causes,
    write_validation_message,
)

MAX_BODY_BYTES = 1 << 20
MAX_BODY_BYTES_WITHOUT_KEY = 64 << 10  # The limit until an API key is known.
MAX_CONVERSATION_BYTES = 8 << 20
NOT_FINITE = "has a number that is too large, such as 1e999: send a smaller one"
NOT_JSON = "is not valid JSON in UTF-8"
HALF_CHARACTER = (
    "has one half of a surrogate pair, such as \\ud83d without its second half: do not cut texts within a character"
)
BYTE_ORDER_MARK = "begins with a byte order mark: send it without one"
TOO_DEEP = "has objects and lists in more than 200 levels: send flatter ones"
BODY_VALUES = (
    500_000  # Values of a large body. Each takes up to a hundred bytes of memory, however short it is in the body.
)
BODY_TIMEOUT_S = 8.0
CONVERSATION_TIMEOUT_S = 30.0
MAX_BUFFERED_BYTES = 64 << 20  # The limit of all bodies that are being received, for all callers.
DISCARD_MAX_BYTES = 16 << 20
DISCARD_TIMEOUT_S = 2.0
MAX_ERRORS = 20  # A body can have thousands of invalid fields.
MAX_LENGTH_DIGITS = 12
FORM = "application/x-www-form-urlencoded"
NO_KEY_IN_HEADER = (
    "The body is larger than 64 KiB, and no header has an API key: send the key as `Authorization: Bearer`."
)

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")

Model = TypeVar("Model", bound=BaseModel)


class BodyLimit(NamedTuple):
    """The limits of a body: its bytes, the seconds until it has arrived (default BODY_TIMEOUT_S), and the error of a
    larger one.

    `is_counted` is True for bodies that share MAX_BUFFERED_BYTES. The number of others is limited.
    """

    max_bytes: int = MAX_BODY_BYTES
    timeout_s: float | None = None
    refusal: str | None = None
    is_counted: bool = True


class BufferedBodies:
    """Counts the bytes of bodies that this process is receiving, so that clients with unfinished bodies cannot fill the memory.

    No caller may hold more bytes than are still free, so a single caller gets at most half.
    """

    def __init__(self) -> None:
        self.size = 0
        self._sizes: Counter[str] = Counter()  # Keyed by caller.

    def add(self, caller: str, size: int) -> None:
        """Count bytes that arrived, or negative ones that are no longer kept."""
        self.size += size
        self._sizes[caller] += size
        if not self._sizes[caller]:
            del self._sizes[caller]

    def is_full(self, caller: str) -> bool:
        """Return whether the caller holds more than is still free of MAX_BUFFERED_BYTES."""
        return self._sizes[caller] > MAX_BUFFERED_BYTES - self.size


BUFFERED = BufferedBodies()


ORDINARY = BodyLimit()
CONVERSATION = BodyLimit(  # An agent sends all its turns each time, with images in them.
    MAX_CONVERSATION_BYTES,
    CONVERSATION_TIMEOUT_S,
    f"The body is larger than {MAX_CONVERSATION_BYTES >> 20} MiB: send less.",
)
BEFORE_KEY = BodyLimit(MAX_BODY_BYTES_WITHOUT_KEY, refusal=NO_KEY_IN_HEADER)


async def read_body(
    request: Request,
    model: type[Model],
    from_form: Callable[[bytes], dict[str, Any]] | None = None,
    limit: BodyLimit = ORDINARY,
    if_empty: Model | None = None,
) -> Model:
    """Return the body as a model. Raises a RestError if it is invalid. Fields that the model does not have are reported.

    `from_form` returns the values of an HTML form, or raises ValueError. Without it, forms are refused. `if_empty` is returned
    if there is no body. Without it, a body is required.
    """
    headers = request.scope[HEADERS]
    body = await receive_body(request.receive, headers, limit)
    if if_empty is not None and not body:
        return if_empty
    # curl sends a JSON object with the media type of a form by default.
    if from_form and _read_media_type(headers) == FORM.encode() and not body.lstrip().startswith(b"{"):
        try:
            values = from_form(body)
        except ValueError:
            raise _make_body_error("is a form with too many fields", "too_long") from None
        return validate(model, values, "body")
    _check_media_type(headers, body)
    values = parse_object(body)
    note_ignored_fields(request, model, values)
    return validate(model, values, "body")


def validate(model: type[Model], values: Any, location: str) -> Model:
    """Return the model. Raises InvalidRequestError with the invalid fields below `location`, without their values."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False, include_input=False)
        raise problems.InvalidRequestError(make_field_errors(details, location)) from None


def make_field_errors(details: Any, *location: str) -> list[dict[str, Any]]:
    """Return the first errors of pydantic as they are sent. Their messages do not contain the value."""
    return [
        {
            "loc": [*location, *get_field_location(detail["loc"])],
            "msg": write_validation_message(detail["type"], detail["msg"]),
            "type": detail["type"],
        }
        for detail in select_causes(details)[:MAX_ERRORS]
    ]


def _read_media_type(headers: Mapping[bytes, bytes]) -> bytes:
    if headers.get(b"content-encoding", b"identity").strip().lower() not in (b"identity", b""):
        raise problems.MediaTypeError("The body must not be compressed: send it without Content-Encoding.")
    return headers.get(b"content-type", b"").partition(b";")[0].strip().lower()


def require_json(headers: Mapping[bytes, bytes]) -> None:
    """Raise MediaTypeError unless the body is declared as JSON, and not as compressed."""
    if _read_media_type(headers) != b"application/json":
        raise problems.MediaTypeError


def _check_media_type(headers: Mapping[bytes, bytes], body: bytes) -> None:
    """Accept JSON, and a JSON object with the media type of a form or none."""
    media_type = _read_media_type(headers)
    if media_type == b"application/json":
        return
    if media_type not in (b"", FORM.encode()):
        raise problems.MediaTypeError
    if body and not body.lstrip().startswith(b"{"):
        raise problems.MediaTypeError


def parse_object(body: bytes) -> dict[str, Any]:
    """Return the object. NaN, numbers beyond a float's range, lone surrogates and more than 200 levels are refused."""
    if not body.strip():
        raise _make_body_error("a JSON object is required", "missing")
    if len(body) > MAX_BODY_BYTES and sum(map(body.count, (b",", b"[", b"{"))) > BODY_VALUES:
        raise _make_body_error("has too many values: send fewer, or send texts as texts", "too_long")
    try:
        value = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise _make_body_error(_explain_parser_error(str(error), body), "json_invalid") from None
    if not isinstance(value, dict):
        raise _make_body_error("must be a JSON object", "dict_type")
    if _has_infinity(value):
        raise _make_body_error(NOT_FINITE, "finite_number")
    return value


def _explain_parser_error(error: str, body: bytes) -> str:
    """Return what is wrong with a body that the parser refuses. JSON that looks valid gets a message of its own."""
    if "recursion limit" in error:
        return TOO_DEEP
    if "number out of range" in error:
        return NOT_FINITE
    if "hex escape" in error and _SURROGATE.search(body):
        return HALF_CHARACTER
    return BYTE_ORDER_MARK if body.startswith(codecs.BOM_UTF8) else NOT_JSON


def _has_infinity(value: object) -> bool:
    """Return whether the parser read a number such as 1e999 as infinity, which no JSON that is sent on can have."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
        elif isinstance(part, float) and math.isinf(part):
            return True
    return False


def _make_body_error(message: str, kind: str) -> problems.InvalidRequestError:
    return problems.InvalidRequestError.at(("body",), message, kind)


async def receive_body(receive: Receive, headers: Mapping[bytes, bytes], limit: BodyLimit = ORDINARY) -> bytes:
    try:
        return await _receive(receive, headers, limit)
    except problems.BodyTooLargeError:
        raise problems.BodyTooLargeError(limit.refusal) from None


async def receive_body_with_key(receive: Receive, headers: Mapping[bytes, bytes]) -> bytes:
    """Receive a body that may contain the API key and is read before the caller is known: the limit is smaller."""
    return await receive_body(receive, headers, BEFORE_KEY)


async def _receive(receive: Receive, headers: Mapping[bytes, bytes], limit: BodyLimit) -> bytes:
    if read_declared_length(headers) > limit.max_bytes:
        if headers.get(b"expect", b"").lower() != b"100-continue":  # The client has not sent the body yet.
            await _discard(receive, 0)
        raise problems.BodyTooLargeError
    try:
        async with asyncio.timeout(limit.timeout_s or BODY_TIMEOUT_S):
            return await _collect(receive, limit)
    except TimeoutError:
        raise problems.BodyTimeoutError from None


def read_declared_length(headers: Mapping[bytes, bytes]) -> int:
    """Return the length that the client declares, or 0."""
    length = headers.get(b"content-length", b"0")
    if not length.isdigit():
        return 0  # The server counts the bytes.
    return int(length) if len(length) <= MAX_LENGTH_DIGITS else sys.maxsize


async def _collect(receive: Receive, limit: BodyLimit) -> bytes:
    """Return the body, whatever length was declared."""
    parts: list[bytes] = []
    size, caller = 0, current_caller()
    try:
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise problems.ClientDisconnectedError
            body = message.get("body", b"")
            size += len(body)
            if limit.is_counted:
                BUFFERED.add(caller, len(body))
            if size > limit.max_bytes:
                if message.get("more_body", False):
                    parts.clear()
                    await _discard(receive, size)
                raise problems.BodyTooLargeError
            if limit.is_counted and BUFFERED.is_full(caller):
                raise problems.OverloadedError(
                    "The server is already receiving the maximum number of request bodies: try again in a few seconds"
                )
            parts.append(body)
            if not message.get("more_body", False):
                return body if len(parts) == 1 else b"".join(parts)
    finally:
        if limit.is_counted:
            BUFFERED.add(caller, -size)


async def _discard(receive: Receive, received: int) -> None:
    """Read the rest of the body up to a limit: a client that is still sending would not read the response."""
    with suppress(TimeoutError):
        async with asyncio.timeout(DISCARD_TIMEOUT_S):
            while received < DISCARD_MAX_BYTES:
                message = await receive()
                received += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return
