"""Logging: the standard library's loggers, rendered as JSON lines, or by structlog for a console.

Modules call `logging.getLogger(__name__)`. The entry points call `configure_logging` once and `bind_request_id` around
each request. Configured secrets are redacted in events, fields and tracebacks. structlog is imported by
`configure_logging` for a console, because the import takes a third of the start time of a short command.
"""

from __future__ import annotations

import json
import logging
import math
import re
import sys
from collections.abc import Iterable, Mapping, MutableMapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, TextIO

if TYPE_CHECKING:
    from structlog.typing import Processor

LogFormat = Literal["auto", "console", "json"]

REDACTED = "[redacted]"
HANDLER_NAME = "llm_platform"
# Libraries that log each request with its URL at INFO or DEBUG.
QUIET_LOGGERS = ("httpx2", "httpcore", "httpcore2", "ddgs", "primp", "asyncio", "pypdf", "uvicorn.access")
# Copies of the message: set by other handlers and, in colours, by uvicorn.
DUPLICATE_FIELDS = ("message", "asctime", "color_message")
RECORD_FIELDS = frozenset(vars(logging.makeLogRecord({})))  # what a record has without `extra`
LOGGED_DEPTH = 8  # nested fields; deeper values are logged as one string

_REQUEST_ID: ContextVar[str | None] = ContextVar("request_id", default=None)

# Control characters except tab and line feed, direction overrides, and lone surrogates, which cannot be encoded.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
_ESCAPE_SEQUENCE = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor
    "|(?:\x1b\\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\\\|\x9c)"  # titles, links, clipboard
)


def printable(text: str) -> str:
    """Return the text without escape sequences, control characters and direction overrides."""
    return _UNPRINTABLE.sub("", _ESCAPE_SEQUENCE.sub("", text.replace("\r\n", "\n")))


def configure_logging(
    level: str = "INFO",
    fmt: LogFormat = "auto",
    secrets: Iterable[str] = (),
    stream: TextIO | None = None,
) -> None:
    """Send all logs to `stream` (default: standard error). A second call replaces the configuration of the first.

    `fmt` auto is console on a terminal, otherwise JSON lines. `secrets` are redacted wherever they occur, so do not pass
    short ones.
    """
    out = stream or sys.stderr
    redactor = _Redactor(secrets)
    handler = logging.StreamHandler(out)
    handler.set_name(HANDLER_NAME)
    handler.setFormatter(
        _JsonFormatter(redactor) if logs_json(fmt, out) else _console_formatter(redactor, out.isatty())
    )
    root = logging.getLogger()
    for previous in [handler for handler in root.handlers if handler.get_name() == HANDLER_NAME]:
        root.removeHandler(previous)
    root.addHandler(handler)
    root.setLevel(level)
    for name in QUIET_LOGGERS:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))


def logs_json(fmt: LogFormat, stream: TextIO | None = None) -> bool:
    """Return whether `configure_logging` with these arguments writes JSON lines."""
    return fmt == "json" or (fmt == "auto" and not (stream or sys.stderr).isatty())


class bind_request_id:  # noqa: N801  used like a function
    """Context manager: logs of this context, and of tasks started in it, carry the request id."""

    __slots__ = ("_before", "_request_id")

    def __init__(self, request_id: str) -> None:
        self._request_id = request_id

    def __enter__(self) -> None:
        self._before = _REQUEST_ID.set(self._request_id)

    def __exit__(self, *_error: object) -> None:
        _REQUEST_ID.reset(self._before)


def bound_request_id() -> str | None:
    """Return the request id of this context."""
    return _REQUEST_ID.get()


def _with_request_id(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Processor: add the request id unless the record has one."""
    request_id = bound_request_id()
    if request_id is not None:
        event.setdefault("request_id", request_id)
    return event


class _Redactor:
    """Processor: redact secrets in all fields of an event and convert every value to JSON types."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = sorted(filter(None, secrets), key=len, reverse=True)  # a secret may contain another one

    def __call__(self, logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        return {
            self._redact(str(key)): self._convert(value, LOGGED_DEPTH)
            for key, value in event.items()
            if key not in DUPLICATE_FIELDS
        }

    def _redact(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, REDACTED)
        return text

    def _convert(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self._redact(value)
        if value is None or isinstance(value, (bool, int)):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else str(value)
        if depth and isinstance(value, Mapping):
            return {self._redact(str(key)): self._convert(item, depth - 1) for key, item in value.items()}
        if depth and isinstance(value, (list, tuple, set, frozenset)):
            return [self._convert(item, depth - 1) for item in value]
        return self._redact(str(value))


class _JsonFormatter(logging.Formatter):
    """Renders a record as one JSON line, without structlog, whose processors cost as much as the rest of a log call."""

    def __init__(self, redactor: _Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        event: dict[str, Any] = {"event": record.getMessage()}
        if (request_id := bound_request_id()) is not None:
            event["request_id"] = request_id
        event |= {"level": record.levelname.lower(), "logger": record.name}
        event |= {name: value for name, value in record.__dict__.items() if name not in RECORD_FIELDS}
        event["timestamp"] = datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z")
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            event["stack"] = record.stack_info
        return json.dumps(self._redactor(None, "", event))  # ASCII: control characters are escaped


def _console_formatter(redactor: _Redactor, colors: bool) -> logging.Formatter:
    import structlog

    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[
            _with_request_id,
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.stdlib.ExtraAdder(),
            structlog.processors.TimeStamper(fmt="iso", utc=True),
        ],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.StackInfoRenderer(),
            structlog.processors.format_exc_info,
            redactor,
            _console(colors=colors),
        ],
    )


def _console(*, colors: bool) -> Processor:
    from structlog.dev import ConsoleRenderer, plain_traceback

    render = ConsoleRenderer(colors=colors, exception_formatter=plain_traceback, pad_event_to=0, pad_level=False)

    def one_line(logger: Any, method: str, event: MutableMapping[str, Any]) -> str:
        for key, value in event.items():
            if isinstance(value, str):
                shown = printable(value)
                event[key] = shown if key in ("exception", "stack") else shown.replace("\n", "\\n")
        return str(render(logger, method, event))

    return one_line
