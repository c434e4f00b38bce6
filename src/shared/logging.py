"""Logs: the standard library's loggers, rendered by structlog as JSON lines or for a console.

Modules write `logging.getLogger(__name__)` and know nothing of this. The doors call `configure_logging` once and
`bind_request_id` around each request. No configured secret leaves through a log: it is replaced in the event, in every
field and in tracebacks. structlog is imported when logging is configured, not before: it costs a third of a short
command's start.
"""

from __future__ import annotations

import json
import logging
import math
import re
import sys
from collections.abc import Iterable, Mapping, MutableMapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, TextIO

if TYPE_CHECKING:
    from structlog.typing import Processor

LogFormat = Literal["auto", "console", "json"]

REDACTED = "[redacted]"
HANDLER_NAME = "llm_platform"
# Libraries that tell about each request at INFO or DEBUG, addresses included.
QUIET_LOGGERS = ("httpx2", "httpcore", "httpcore2", "ddgs", "primp", "openai", "asyncio", "pypdf", "uvicorn.access")
# A record that another handler wrote before us carries its texts, one of uvicorn's says the same once more in colours.
SAID_ALREADY = ("message", "asctime", "color_message")
MAX_DEPTH = 8  # of nested fields; below it they are shown as one text

_REQUEST_ID: ContextVar[str | None] = ContextVar("request_id", default=None)

# What a terminal may obey and a reader cannot see: control characters but tab and line feed, overrides of the writing
# direction, halves of surrogate pairs (they cannot be encoded).
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
_ESCAPE_SEQUENCE = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor
    "|(?:\x1b\\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\\\|\x9c)"  # titles, links, clipboard
)


def printable(text: str) -> str:
    """The text without what could steer a terminal: escape sequences, control characters, direction overrides."""
    return _UNPRINTABLE.sub("", _ESCAPE_SEQUENCE.sub("", text.replace("\r\n", "\n")))


def configure_logging(
    level: str = "INFO",
    fmt: LogFormat = "auto",
    secrets: Iterable[str] = (),
    stream: TextIO | None = None,
) -> None:
    """Send all logs to `stream` (standard error) from now on; calling it again replaces what the last call set up.

    `fmt` auto is console on a terminal, else JSON lines. `secrets` are searched for as they are: leave short ones out.
    """
    import structlog

    out = stream or sys.stderr
    as_json = logs_json(fmt, out)
    handler = logging.StreamHandler(out)
    handler.set_name(HANDLER_NAME)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
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
                _Cleaner(secrets),
                _render_json if as_json else _console(colors=out.isatty()),
            ],
        )
    )
    root = logging.getLogger()
    for old in [known for known in root.handlers if known.get_name() == HANDLER_NAME]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level)
    for name in QUIET_LOGGERS:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))


def logs_json(fmt: LogFormat, stream: TextIO | None = None) -> bool:
    """Whether `configure_logging` with these writes JSON lines."""
    return fmt == "json" or (fmt == "auto" and not (stream or sys.stderr).isatty())


class bind_request_id:  # noqa: N801  it is called like a function
    """While inside, every log of this context, and of tasks that it starts, carries the request's id."""

    __slots__ = ("_before", "_request_id")

    def __init__(self, request_id: str) -> None:
        self._request_id = request_id

    def __enter__(self) -> None:
        self._before = _REQUEST_ID.set(self._request_id)

    def __exit__(self, *_error: object) -> None:
        _REQUEST_ID.reset(self._before)


def bound_request_id() -> str | None:
    """The id of the request that this context works on."""
    return _REQUEST_ID.get()


def _with_request_id(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A processor. What a record says itself takes precedence."""
    request_id = bound_request_id()
    if request_id is not None:
        event.setdefault("request_id", request_id)
    return event


class _Cleaner:
    """Takes secrets out of an event, wherever they stand, and makes of every value something that can be shown."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = sorted(filter(None, secrets), key=len, reverse=True)  # a secret may begin with another one

    def __call__(self, logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        return {
            self._text(str(key)): self._clean(value, MAX_DEPTH)
            for key, value in event.items()
            if key not in SAID_ALREADY
        }

    def _text(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, REDACTED)
        return text

    def _clean(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if value is None or isinstance(value, (bool, int)):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else str(value)
        if depth and isinstance(value, Mapping):
            return {self._text(str(key)): self._clean(item, depth - 1) for key, item in value.items()}
        if depth and isinstance(value, (list, tuple, set, frozenset)):
            return [self._clean(item, depth - 1) for item in value]
        return self._text(str(value))


def _render_json(logger: Any, method: str, event: MutableMapping[str, Any]) -> str:
    return json.dumps(event)  # ASCII: what a viewer of logs could obey is written as an escape


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
