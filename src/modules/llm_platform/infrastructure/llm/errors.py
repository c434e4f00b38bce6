"""From what a language model's service, the openai package or the network says to our own errors: one table.

Our messages name the remedy. Of the other side's words only error types that we know are repeated.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Final

import httpx2

from modules.llm_platform.domain.exceptions import (
    LLMBlockedError,
    LLMConfigError,
    LLMConnectionError,
    LLMException,
    LLMProviderException,
    LLMQuotaError,
    LLMRequestError,
    LLMTimeoutError,
    LLMUnavailableError,
)
from modules.llm_platform.infrastructure.http.errors import TRANSPORT_ERRORS, Kind, Rule, retry_after_s, rule_of
from modules.llm_platform.infrastructure.llm.kinds import LLMConnection

MAX_WORDS: Final = 2000  # characters of an error text that are looked at

LLM_ERRORS: Final[Mapping[Kind, type[LLMException]]] = {
    "config": LLMConfigError,
    "connection": LLMConnectionError,
    "timeout": LLMTimeoutError,
    "blocked": LLMBlockedError,
    "error": LLMProviderException,
}
BROKEN: Final = Rule("connection", "broke off the connection")  # failures below HTTP that nobody has wrapped

# The services ask for another try after these, as after any 5xx but "not implemented".
BUSY: Final = frozenset({409, 425})
NEVER: Final = frozenset({501, 505})
SPEAKABLE: Final = frozenset(
    {
        "access_terminated_error", "context_length_exceeded", "content_filter", "engine_overloaded_error",
        "insufficient_quota", "invalid_api_key", "invalid_request_error", "model_not_found",
        "rate_limit_exceeded", "rate_limit_reached_error", "server_error", "overloaded_error",
    }
)  # fmt: skip

_QUOTA = re.compile(r"quota|usage limit|balance|credit|billing|exceeded your|insufficient", re.IGNORECASE)
_CLIENT = re.compile(r"coding agent|user.?agent|client", re.IGNORECASE)
_TOO_LONG = re.compile(
    r"context.?length|context.?window|maximum context|too long|too many tokens|reduce the length", re.IGNORECASE
)
_NO_MODEL = re.compile(r"model\b.{0,80}\b(?:not exist|not found|not supported|unknown)|model_not_found", re.IGNORECASE)
_BAD_KEY = re.compile(r"api.?key", re.IGNORECASE)
_OVERLOADED = re.compile(r"overload|rate.?limit|too many requests", re.IGNORECASE)

# Of packages that load late; those of anyio are TLS failures that httpx2 lets through.
LATE_ERRORS: Final = (("openai", "OpenAIError"), ("anyio", "EndOfStream"), ("anyio", "ClosedResourceError"))


def translate_errors() -> tuple[type[Exception], ...]:
    """What the packages below us raise. openai and anyio are looked at only once something else has loaded them: a thread
    may be about it, and of what is half loaded some names are missing.
    """
    foreign: list[type[Exception]] = [httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OSError]
    for module, name in LATE_ERRORS:
        if error := getattr(sys.modules.get(module), name, None):
            foreign.append(error)
    return tuple(foreign)


def translated_error(error: Exception, connection: LLMConnection) -> LLMException:
    """Our error for one of `foreign_errors`."""
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        response = getattr(error, "response", None)
        return status_error(connection, status, getattr(error, "body", None), getattr(response, "headers", {}))
    cause = error.__cause__ or error
    rule = rule_of(cause) if isinstance(cause, TRANSPORT_ERRORS) else BROKEN
    words = rule.words.format(setting=connection.settings.address)
    if rule.kind == "timeout":
        return too_slow(connection)
    failure: LLMException = LLM_ERRORS[rule.kind](f"{connection.name} {words}")
    return failure


def too_slow(connection: LLMConnection) -> LLMTimeoutError:
    waited = f"{connection.timeout:g} s"
    return LLMTimeoutError(f"{connection.name} did not answer within {waited}: try again, or raise LLM_TIMEOUT_S")


def status_error(connection: LLMConnection, status: int, body: object, headers: Mapping[str, str]) -> LLMException:
    """Our error for an HTTP status that is no success."""
    name, names = connection.name, connection.settings
    said = _Said(body)
    wait = retry_after_s(headers)
    what = f"({status}{said.known})"
    if status == 401:
        return LLMConfigError(f"{name} refuses the key (401): check {names.key}")
    if status == 403:
        return _forbidden(connection, said, wait)
    if status == 402 or (status == 429 and _QUOTA.search(said.words)):
        return LLMQuotaError(f"{name}: quota or balance is used up {what}", retry_after_s=wait)
    if status == 429:
        return LLMBlockedError(f"{name}: too many requests {what}; wait, or list another model too", retry_after_s=wait)
    if status == 408:
        return LLMConnectionError(f"{name} gave up waiting (408): try again", retry_after_s=wait)
    if status in BUSY or (status >= 500 and status not in NEVER):
        return LLMUnavailableError(f"{name} failed {what}: try again", retry_after_s=wait)
    if status < 400 or status in (404, 405):
        return LLMConfigError(f"{name}: no such address or model ({status}): check {names.address} and {names.model}")
    if status < 500:
        return _bad_request(connection, status, said)
    return LLMProviderException(f"{name} failed {what}", retry_after_s=wait)


def reported_error(connection: LLMConnection, body: object) -> LLMException:
    """Our error for one that came inside an answer with status 200."""
    said = _Said(body)
    if 400 <= said.status <= 599:
        return status_error(connection, said.status, body, {})
    if _QUOTA.search(said.words):
        return LLMQuotaError(f"{connection.name}: quota or balance is used up{said.known_alone}")
    if _OVERLOADED.search(said.words):
        return LLMBlockedError(f"{connection.name} refuses for now{said.known_alone}")
    if _TOO_LONG.search(said.words):
        return _too_long(connection)
    return LLMProviderException(f"{connection.name} reported an error instead of an answer{said.known_alone}")


class _Said:
    """What an error body tells, whatever its shape. `words` are matched, never repeated."""

    def __init__(self, body: object) -> None:
        error = body.get("error", body) if isinstance(body, dict) else body
        fields = error if isinstance(error, dict) else {"message": error}
        told = [str(fields[key])[:MAX_WORDS] for key in ("type", "code", "message", "detail") if fields.get(key)]
        self.words = " ".join(told)
        code = fields.get("code") or fields.get("status")
        self.status = code if isinstance(code, int) else int(code) if isinstance(code, str) and _is_status(code) else 0
        known = next((word for word in told if word in SPEAKABLE), "")
        self.known = f" {known}" if known else ""
        self.known_alone = f" ({known})" if known else ""


def _is_status(code: str) -> bool:
    return len(code) == 3 and code.isascii() and code.isdigit()


def _forbidden(connection: LLMConnection, said: _Said, wait: float | None) -> LLMException:
    """403 means several things; Kimi says `access_terminated_error` for a foreign client and for a quota used up."""
    name, names = connection.name, connection.settings
    if names.user_agent and _CLIENT.search(said.words) and not _QUOTA.search(said.words):
        return LLMConfigError(f"{name} turns this User-Agent away (403{said.known}): check {names.user_agent}")
    if _QUOTA.search(said.words):
        return LLMQuotaError(f"{name}: quota or balance is used up (403{said.known})", retry_after_s=wait)
    remedy = ", ".join(filter(None, (names.key, names.model, names.user_agent)))
    return LLMConfigError(f"{name} forbids the request (403{said.known}): check {remedy}")


def _bad_request(connection: LLMConnection, status: int, said: _Said) -> LLMException:
    name, names = connection.name, connection.settings
    if status == 413 or _TOO_LONG.search(said.words):
        return _too_long(connection)
    if _NO_MODEL.search(said.words):
        return LLMConfigError(f"{name} does not know the model ({status}{said.known}): check {names.model}")
    if _BAD_KEY.search(said.words):
        return LLMConfigError(f"{name} refuses the key ({status}{said.known}): check {names.key}")
    return LLMProviderException(f"{name} does not accept the request ({status}{said.known})")


def _too_long(connection: LLMConnection) -> LLMRequestError:
    return LLMRequestError(f"the messages are too long for {connection.name}: shorten them")
