"""Translates the errors of language model services and of the network into LLMExceptions.

The messages name the remedy. Of a service's error body only known error types are repeated.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from modules.llm_platform.domain import exceptions
from modules.llm_platform.infrastructure.http.errors import ErrorFamily, find_rule, retry_after_s
from modules.llm_platform.infrastructure.http.untrusted_json import decode_json, decode_text
from modules.llm_platform.infrastructure.models.kinds import LLMConnection

MAX_ERROR_CHARS: Final = 2000  # part of an error text that is matched

LLM_ERRORS: Final[Mapping[str, type[exceptions.LLMException]]] = {
    "config": exceptions.LLMConfigError,
    "connection": exceptions.LLMConnectionError,
    "timeout": exceptions.LLMTimeoutError,
    "blocked": exceptions.LLMBlockedError,
    "error": exceptions.LLMProviderException,
}
LLM_FAMILY: Final = ErrorFamily(**LLM_ERRORS)

# Statuses that are worth another try, like any 5xx except the statuses of NOT_RETRYABLE.
RETRYABLE: Final = frozenset({409, 425})
NOT_RETRYABLE: Final = frozenset({501, 505})
REFUSALS: Final = frozenset({400, 422})
# Reasoning models of OpenAI refuse a temperature; some services know no schema; some gateways do not stream, or not with
# options.
OPTIONAL_FIELDS: Final = ("temperature", "response_format", "stream_options", "stream")
SERVER_ERROR: Final = "server_error"
KNOWN_ERROR_TYPES: Final = frozenset(
    {
        "access_terminated_error",
        "context_length_exceeded",
        "content_filter",
        "engine_overloaded_error",
        "insufficient_quota",
        "invalid_api_key",
        "invalid_request_error",
        "model_not_found",
        "rate_limit_exceeded",
        "rate_limit_reached_error",
        SERVER_ERROR,
        "overloaded_error",
    }
)

_QUOTA = re.compile(r"quota|usage limit|balance|credit|billing|exceeded your|insufficient", re.IGNORECASE)
_CLIENT = re.compile(r"coding agent|user.?agent|client", re.IGNORECASE)
_TOO_LONG = re.compile(
    r"context.?length|context.?window|context.?size|maximum context|too long|too many tokens|reduce the length",
    re.IGNORECASE,
)
_NO_MODEL = re.compile(r"model\b.{0,80}\b(?:not exist|not found|not supported|unknown)|model_not_found", re.IGNORECASE)
_BAD_KEY = re.compile(r"api.?key", re.IGNORECASE)
_SCHEMA = re.compile(r"schema|grammar|response_format", re.IGNORECASE)
_LOADING = re.compile(r"loading", re.IGNORECASE)
_OVERLOADED = re.compile(r"overload|rate.?limit|too many requests", re.IGNORECASE)


def make_transport_error(connection: LLMConnection, error: Exception, late: str) -> exceptions.LLMException:
    """Return the LLMException for one of TRANSPORT_ERRORS. `late` is the message for a timeout."""
    rule = find_rule(error)
    if rule.kind == "timeout":
        return exceptions.LLMTimeoutError(late)
    setting = connection.settings.address
    default = None if connection.base_url else connection.traits.address
    # If the address is the default of the service's kind, the user did not set it and may not know it.
    message = rule.message.format(setting=f"{default} ({setting})" if default else setting)
    return LLM_ERRORS[rule.kind](f"{connection.name} {message}")


def make_status_error(
    connection: LLMConnection, status: int, body: object, headers: Mapping[str, str]
) -> exceptions.LLMException:
    """Return the LLMException for an HTTP status that is not a success."""
    name, names = connection.name, connection.settings
    details = _ErrorBody(body)
    wait = retry_after_s(headers)
    what = f"({status}{details.known})"
    if status == 401:
        return exceptions.LLMConfigError(f"{name} refuses the key (401): check {names.key}")
    if status == 403:
        return _read_forbidden(connection, details, wait)
    if status == 402 or (status == 429 and _QUOTA.search(details.text)):
        return exceptions.LLMQuotaError(
            f"{name}: quota or balance is used up {what}: top it up, or wait", retry_after_s=wait
        )
    if status == 429:
        return exceptions.LLMBlockedError(
            f"{name}: too many requests {what}; wait, or list another model too", retry_after_s=wait
        )
    if status == 408:
        return exceptions.LLMConnectionError(f"{name} timed out (408): try again", retry_after_s=wait)
    if status in RETRYABLE or (status >= 500 and status not in NOT_RETRYABLE):
        return exceptions.LLMUnavailableError(f"{name} failed {what}: try again", retry_after_s=wait)
    if status < 400 or status in (404, 405):
        return exceptions.LLMConfigError(
            f"{name} redirects, or has no such address or model ({status}): check {names.address} and {names.model}"
        )
    if status < 500:
        return _explain_bad_request(connection, status, details)
    return exceptions.LLMProviderException(f"{name} failed {what}", retry_after_s=wait)


def decode_error(body: bytes) -> object:
    """Return the body of an error as JSON, else as text."""
    try:
        return decode_json(body, lambda: None)
    except ValueError:
        return decode_text(body)


def read_reported_error(connection: LLMConnection, body: object) -> exceptions.LLMException:
    """Return the LLMException for an error inside an answer with status 200."""
    details = _ErrorBody(body)
    if 400 <= details.status <= 599:
        return make_status_error(connection, details.status, body, {})
    if _QUOTA.search(details.text):
        return exceptions.LLMQuotaError(
            f"{connection.name}: quota or balance is used up{details.known_alone}: top it up, or wait"
        )
    if _OVERLOADED.search(details.text):
        return exceptions.LLMBlockedError(f"{connection.name} rejects requests for now{details.known_alone}")
    if _TOO_LONG.search(details.text):
        return _make_too_long_error(connection)
    return exceptions.LLMProviderException(
        f"{connection.name} returned an error instead of an answer{details.known_alone}"
    )


def guess_reported_status(body: object) -> int:
    """Return the HTTP status of an error inside an answer with status 200, or 0 if it is unknown.

    This is the status in the error body, or else the status that services use for errors with this wording.
    """
    details = _ErrorBody(body)
    if 400 <= details.status <= 599:
        return details.status
    if _QUOTA.search(details.text):
        return 402
    if _OVERLOADED.search(details.text):
        return 429
    return 500 if SERVER_ERROR in details.text else 0


def find_refused_field(status: int, body: object, sent: Mapping[str, object]) -> str | None:
    """Return the optional field of a request that the service refuses by name, or None for any other refusal."""
    if status not in REFUSALS:
        return None
    text = _ErrorBody(body).text
    return next((name for name in OPTIONAL_FIELDS if name in sent and re.search(rf"\b{name}\b", text)), None)


def is_schema_refused(status: int, body: object, sent: Mapping[str, object]) -> bool:
    """Return whether the service cannot write by the schema that it was sent."""
    return "response_format" in sent and status in REFUSALS and _SCHEMA.search(_ErrorBody(body).text) is not None


def find_refused_extra(
    connection: LLMConnection, status: int, body: object, extra: Mapping[str, object]
) -> exceptions.LLMRequestError | None:
    """Return the error for a field of the caller that the service refuses by name."""
    if status not in REFUSALS or not extra:
        return None
    text = _ErrorBody(body).text
    field = next((name for name in sorted(extra, key=len, reverse=True) if re.search(rf"['\"`]{name}\b", text)), None)
    if field is None:
        return None
    message = (
        f"{connection.name} does not accept this {field} ({status}): change it, leave it out, or use another model"
    )
    return exceptions.LLMRequestError(message, field=field)


def is_loading(status: int, body: object) -> bool:
    """Return whether a server is starting and still loads its model, as llama.cpp's says."""
    return status == 503 and _LOADING.search(_ErrorBody(body).text) is not None


class _ErrorBody:
    """Text and status of an error body of any form. `text` is matched, never repeated."""

    def __init__(self, body: object) -> None:
        error = body.get("error", body) if isinstance(body, dict) else body
        fields = error if isinstance(error, dict) else {"message": error}
        texts = [str(fields[key])[:MAX_ERROR_CHARS] for key in ("type", "code", "message", "detail") if fields.get(key)]
        if isinstance(param := fields.get("param"), str):
            texts.append(f"'{param[:MAX_ERROR_CHARS]}'")
        self.text = " ".join(texts)
        code: Any = fields.get("code") or fields.get("status")
        is_status = isinstance(code, str) and len(code) == 3 and code.isascii() and code.isdigit()
        self.status = code if isinstance(code, int) else int(code) if is_status else 0
        known = next((text for text in texts if text in KNOWN_ERROR_TYPES), "")
        self.known = f" {known}" if known else ""
        self.known_alone = f" ({known})" if known else ""


def _read_forbidden(connection: LLMConnection, details: _ErrorBody, wait: float | None) -> exceptions.LLMException:
    """Return the error for a status 403, which has several meanings.

    Kimi sends `access_terminated_error` for an unknown client and for a used-up quota.
    """
    name, names = connection.name, connection.settings
    if names.user_agent and _CLIENT.search(details.text) and not _QUOTA.search(details.text):
        return exceptions.LLMConfigError(
            f"{name} rejects this User-Agent (403{details.known}): check {names.user_agent}"
        )
    if _QUOTA.search(details.text):
        return exceptions.LLMQuotaError(
            f"{name}: quota or balance is used up (403{details.known}): top it up, or wait", retry_after_s=wait
        )
    remedy = ", ".join(filter(None, (names.key, names.model, names.user_agent)))
    return exceptions.LLMConfigError(f"{name} forbids the request (403{details.known}): check {remedy}")


def _explain_bad_request(connection: LLMConnection, status: int, details: _ErrorBody) -> exceptions.LLMException:
    name, names = connection.name, connection.settings
    if status == 413 or _TOO_LONG.search(details.text):
        return _make_too_long_error(connection)
    if _NO_MODEL.search(details.text):
        return exceptions.LLMConfigError(
            f"{name} does not know the model ({status}{details.known}): check {names.model}"
        )
    if _BAD_KEY.search(details.text):
        return exceptions.LLMConfigError(f"{name} refuses the key ({status}{details.known}): check {names.key}")
    return exceptions.LLMProviderException(
        f"{name} does not accept the request ({status}{details.known}): check {names.model}, or use another model"
    )


def _make_too_long_error(connection: LLMConnection) -> exceptions.LLMRequestError:
    return exceptions.LLMRequestError(
        f"the messages are too long for {connection.name}: shorten them, or set {connection.settings.context} to its context"
    )
