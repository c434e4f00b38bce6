"""Logging: format, redaction, configuration and request ids."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.logging import HANDLER_NAME, QUIET_LOGGERS, bind_request_id, configure_logging, printable

KEY = "sk-very-secret-0123456789"
log = logging.getLogger("tests.logging")
pytestmark = pytest.mark.usefixtures("restored_logging")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def out() -> io.StringIO:
    return io.StringIO()


def events(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


class TestJson:
    def test_event_has_its_fields(self, out: io.StringIO) -> None:
        """One JSON object per call: message, level, logger, UTC time and `extra`."""
        configure_logging("INFO", "json", stream=out)
        log.info("search %s", "done", extra={"results": 3, "provider": "searxng"})
        (event,) = events(out)
        assert event.pop("timestamp").endswith("Z")
        fields = {"results": 3, "provider": "searxng"}
        assert event == {"event": "search done", "level": "info", "logger": "tests.logging", **fields}

    def test_lower_levels_are_not_logged(self, out: io.StringIO) -> None:
        """Events below the level are dropped."""
        configure_logging("WARNING", "json", stream=out)
        log.info("dropped")
        log.warning("logged")
        assert [event["event"] for event in events(out)] == ["logged"]

    def test_any_value_is_valid_json(self, out: io.StringIO) -> None:
        """NaN, lone surrogates, objects and deep nesting are converted."""
        deep: Any = "bottom"
        for _ in range(50):
            deep = [deep]
        configure_logging("INFO", "json", stream=out)
        log.info(
            "odd", extra={"n": float("nan"), "s": "\ud800", "o": object, "d": deep, "m": {1: {2, 3}}, "none": None}
        )
        (event,) = events(out)
        assert event["n"] == "nan"
        assert event["s"] == "\ud800"
        assert "object" in event["o"]
        assert event["m"] == {"1": [2, 3]}
        assert event["none"] is None

    def test_duplicate_fields_are_dropped(self, out: io.StringIO) -> None:
        """uvicorn adds its message a second time, in colours."""
        configure_logging("INFO", "json", stream=out)
        log.info("started", extra={"color_message": "\x1b[36mstarted"})
        assert set(events(out)[0]) == {"event", "level", "logger", "timestamp"}

    def test_control_characters_are_escaped(self, out: io.StringIO) -> None:
        """Untrusted text cannot control the terminal of a reader."""
        configure_logging("INFO", "json", stream=out)
        log.info("from outside: \x1b[2J\x9b1m\u202e")
        assert out.getvalue().isascii()
        assert "\x1b" not in out.getvalue()


class TestConsole:
    def test_auto_is_console_on_a_terminal(self) -> None:
        """auto is console on a terminal and JSON otherwise."""
        terminal, pipe = Terminal(), io.StringIO()
        configure_logging("INFO", "auto", stream=terminal)
        log.info("search done", extra={"results": 3})
        configure_logging("INFO", "auto", stream=pipe)
        log.info("search done")
        assert "search done" in terminal.getvalue()
        assert "results" in terminal.getvalue()
        assert not terminal.getvalue().startswith("{")
        assert events(pipe)[0]["event"] == "search done"

    def test_event_cannot_forge_a_line_or_control_the_terminal(self, out: io.StringIO) -> None:
        """Newlines are escaped and control characters dropped."""
        configure_logging("INFO", "console", stream=out)
        log.info("a\n2026-01-01 [error] forged", extra={"title": "x\x1b[31m\ny"})
        assert out.getvalue().count("\n") == 1
        assert "\x1b" not in out.getvalue()

    def test_traceback_has_several_lines(self, out: io.StringIO) -> None:
        """Newlines of a traceback are kept."""
        configure_logging("INFO", "console", stream=out)
        _fail_loudly()
        assert "\nTraceback (most recent call last):\n" in out.getvalue()


class TestRedaction:
    @pytest.mark.parametrize("fmt", ["json", "console"])
    def test_secrets_are_redacted(self, fmt: Any, out: io.StringIO) -> None:
        """In messages, field names and values, objects, tracebacks and their causes."""
        configure_logging("DEBUG", fmt, [KEY, "", KEY[:12]], stream=out)
        log.info(
            "key %s", KEY, extra={"header": {"Authorization": [f"Bearer {KEY}"]}, KEY: 1, "error": ValueError(KEY)}
        )
        log.info("nested", extra={"sent": {f"Bearer {KEY}": 1, "inside": [{KEY: {KEY}}]}})
        _fail_loudly()
        log.warning("stack", stack_info=True)
        assert KEY not in out.getvalue()
        assert KEY[:12] not in out.getvalue()
        assert "[redacted]" in out.getvalue()

    def test_secret_with_escaped_characters_is_redacted(self, out: io.StringIO) -> None:
        """Quotes, backslashes and non-ASCII letters do not hide a secret."""
        secret = 'pass"wörd\\n'
        configure_logging("INFO", "json", [secret], stream=out)
        log.info("with %s inside", secret)
        assert events(out)[0]["event"] == "with [redacted] inside"


class TestConfiguration:
    def test_second_configuration_replaces_the_first(self, out: io.StringIO) -> None:
        """Events are not logged twice, and other handlers stay."""
        other = logging.NullHandler()
        logging.getLogger().addHandler(other)
        configure_logging("INFO", "json", stream=io.StringIO())
        configure_logging("INFO", "json", stream=out)
        log.info("once")
        assert len(events(out)) == 1
        assert [handler.get_name() for handler in logging.getLogger().handlers].count(HANDLER_NAME) == 1
        assert other in logging.getLogger().handlers

    @pytest.mark.parametrize("name", QUIET_LOGGERS)
    def test_libraries_log_warnings_only(self, name: str, out: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
        """At DEBUG, libraries that log each request are limited to warnings."""
        monkeypatch.setattr(logging.getLogger(name), "propagate", True)  # a server of another test may have cut it off
        configure_logging("DEBUG", "json", stream=out)
        logging.getLogger(name).info("GET https://example.org/?q=private")
        logging.getLogger(name).warning("wrong")
        assert [event["event"] for event in events(out)] == ["wrong"]

    def test_import_does_not_load_structlog(self) -> None:
        """structlog is imported by configure_logging."""
        code = "import sys, shared.logging; sys.exit('structlog' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class TestRequestId:
    async def test_request_id_is_bound_per_request(self, out: io.StringIO) -> None:
        """The id is bound in the tasks of a request and in no other request."""
        configure_logging("INFO", "json", stream=out)

        async def request(name: str) -> None:
            with bind_request_id(name):
                await asyncio.sleep(0)
                await asyncio.create_task(_log(name))

        await asyncio.gather(request("a"), request("b"))
        log.info("outside")
        assert [(event["event"], event.get("request_id")) for event in events(out)] == [
            ("a", "a"),
            ("b", "b"),
            ("outside", None),
        ]


class TestPrintable:
    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("plain\ttext\n", "plain\ttext\n"),
            ("\x1b[1;31mred\x1b[0m", "red"),
            ("\x9b31mred", "red"),
            ("\x1b]0;title\x07after", "after"),
            ("\x1b]8;;https://evil.example\x1b\\link", "link"),
            ("\x1b]52;c;bm8=\x9cclip", "clip"),
            ("never closed \x1b]0;still here", "never closed ]0;still here"),
            ("a\r\nb\rc\x00\x08\x7f", "a\nbc"),
            ("user\u202egnp.exe", "usergnp.exe"),
            ("half \ud83d", "half "),
            ("שלום \u200fعربي 中文 👩\u200d💻", "שלום \u200fعربي 中文 👩\u200d💻"),
        ],
    )
    def test_control_sequences_are_removed(self, text: str, shown: str) -> None:
        """Escape sequences, control characters and overrides are removed; text in all scripts stays."""
        assert printable(text) == shown

    @given(st.text())
    def test_result_has_no_control_characters(self, text: str) -> None:
        """Only tab and line feed remain, and a second call changes nothing."""
        shown = printable(text)
        assert all(char in "\n\t" or not (ord(char) < 32 or 127 <= ord(char) < 160) for char in shown)
        assert printable(shown) == shown


async def _log(text: str) -> None:
    log.info(text)


def _fail_loudly() -> None:
    try:
        try:
            raise ValueError(KEY)
        except ValueError as error:
            raise RuntimeError("second") from error
    except RuntimeError:
        log.exception("failed")
