"""Logs: one line for one event, with what belongs to it and without what must not leave."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.logging import HANDLER_NAME, QUIET_LOGGERS, bind_request_id, configure_logging, printable

KEY = "sk-very-secret-0123456789"
log = logging.getLogger("tests.logging")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _loggers_as_they_were() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    quiet = {name: logging.getLogger(name).level for name in QUIET_LOGGERS}
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, before in quiet.items():
        logging.getLogger(name).setLevel(before)


@pytest.fixture
def out() -> io.StringIO:
    return io.StringIO()


def events(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


class TestJson:
    def test_an_event_carries_its_fields(self, out: io.StringIO) -> None:
        """One JSON object for one call: the words, the level, the logger, a UTC time and what `extra` gave."""
        configure_logging("INFO", "json", stream=out)
        log.info("search %s", "done", extra={"results": 3, "provider": "searxng"})
        (event,) = events(out)
        assert event.pop("timestamp").endswith("Z")
        fields = {"results": 3, "provider": "searxng"}
        assert event == {"event": "search done", "level": "info", "logger": "tests.logging", **fields}

    def test_levels_below_are_not_logged(self, out: io.StringIO) -> None:
        """The level is a floor."""
        configure_logging("WARNING", "json", stream=out)
        log.info("unheard")
        log.warning("heard")
        assert [event["event"] for event in events(out)] == ["heard"]

    def test_whatever_is_logged_is_json(self, out: io.StringIO) -> None:
        """Numbers that JSON lacks, halves of surrogate pairs, objects and depth do not break a line."""
        deep: Any = "bottom"
        for _ in range(50):
            deep = [deep]
        configure_logging("INFO", "json", stream=out)
        log.info("odd", extra={"n": float("nan"), "s": "\ud800", "o": object, "d": deep, "m": {1: {2, 3}}, "none": None})
        (event,) = events(out)
        assert event["n"] == "nan"
        assert event["s"] == "\ud800"
        assert "object" in event["o"]
        assert event["m"] == {"1": [2, 3]}
        assert event["none"] is None

    def test_nothing_is_said_twice(self, out: io.StringIO) -> None:
        """uvicorn hands its words over once more, in colours."""
        configure_logging("INFO", "json", stream=out)
        log.info("started", extra={"color_message": "\x1b[36mstarted"})
        assert set(events(out)[0]) == {"event", "level", "logger", "timestamp"}

    def test_an_escape_stays_an_escape(self, out: io.StringIO) -> None:
        """Nobody who views a log file is steered by what a stranger sent."""
        configure_logging("INFO", "json", stream=out)
        log.info("from outside: \x1b[2J\x9b1m\u202e")
        assert out.getvalue().isascii()
        assert "\x1b" not in out.getvalue()


class TestConsole:
    def test_a_terminal_gets_readable_lines(self) -> None:
        """auto means console where a person looks, and JSON where a program reads."""
        terminal, pipe = Terminal(), io.StringIO()
        configure_logging("INFO", "auto", stream=terminal)
        log.info("search done", extra={"results": 3})
        configure_logging("INFO", "auto", stream=pipe)
        log.info("search done")
        assert "search done" in terminal.getvalue()
        assert "results" in terminal.getvalue()
        assert not terminal.getvalue().startswith("{")
        assert events(pipe)[0]["event"] == "search done"

    def test_an_event_cannot_forge_a_line_or_steer_the_terminal(self, out: io.StringIO) -> None:
        """Line ends and control characters of a stranger are shown or dropped, not obeyed."""
        configure_logging("INFO", "console", stream=out)
        log.info("a\n2026-01-01 [error] forged", extra={"title": "x\x1b[31m\ny"})
        assert out.getvalue().count("\n") == 1
        assert "\x1b" not in out.getvalue()

    def test_a_traceback_keeps_its_lines(self, out: io.StringIO) -> None:
        """A traceback is for reading."""
        configure_logging("INFO", "console", stream=out)
        _fail_loudly()
        assert "\nTraceback (most recent call last):\n" in out.getvalue()


class TestRedaction:
    @pytest.mark.parametrize("fmt", ["json", "console"])
    def test_no_secret_leaves(self, fmt: Any, out: io.StringIO) -> None:
        """Not in the words, not in a field or its name, not inside an object, not in a traceback or its causes."""
        configure_logging("DEBUG", fmt, [KEY, "", KEY[:12]], stream=out)
        log.info("key %s", KEY, extra={"header": {"Authorization": [f"Bearer {KEY}"]}, KEY: 1, "error": ValueError(KEY)})
        _fail_loudly()
        log.warning("stack", stack_info=True)
        assert KEY not in out.getvalue()
        assert KEY[:12] not in out.getvalue()
        assert "[redacted]" in out.getvalue()

    def test_a_secret_that_json_would_spell_differently(self, out: io.StringIO) -> None:
        """Quotes, backslashes and letters beyond ASCII do not hide a password."""
        secret = 'pass"wörd\\n'
        configure_logging("INFO", "json", [secret], stream=out)
        log.info("with %s inside", secret)
        assert events(out)[0]["event"] == "with [redacted] inside"


class TestSetUp:
    def test_setting_up_again_replaces(self, out: io.StringIO) -> None:
        """Two calls do not log twice, and the handlers of others stay."""
        other = logging.NullHandler()
        logging.getLogger().addHandler(other)
        configure_logging("INFO", "json", stream=io.StringIO())
        configure_logging("INFO", "json", stream=out)
        log.info("once")
        assert len(events(out)) == 1
        assert [handler.get_name() for handler in logging.getLogger().handlers].count(HANDLER_NAME) == 1
        assert other in logging.getLogger().handlers

    @pytest.mark.parametrize("name", QUIET_LOGGERS)
    def test_libraries_do_not_tell_of_each_request(
        self, name: str, out: io.StringIO, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """At DEBUG we hear ourselves; of a library we hear what is wrong."""
        monkeypatch.setattr(logging.getLogger(name), "propagate", True)  # a server of another test may have cut it off
        configure_logging("DEBUG", "json", stream=out)
        logging.getLogger(name).info("GET https://example.org/?q=private")
        logging.getLogger(name).warning("wrong")
        assert [event["event"] for event in events(out)] == ["wrong"]

    def test_importing_costs_nothing(self) -> None:
        """structlog comes when logging is configured: a short command does not wait for it."""
        code = "import sys, shared.logging; sys.exit('structlog' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class TestRequestId:
    async def test_each_request_has_its_own(self, out: io.StringIO) -> None:
        """The id reaches the tasks that a request starts, and no other request."""
        configure_logging("INFO", "json", stream=out)

        async def request(name: str) -> None:
            with bind_request_id(name):
                await asyncio.sleep(0)
                await asyncio.create_task(_say(name))

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
    def test_what_steers_is_dropped(self, text: str, shown: str) -> None:
        """Escape sequences go whole, control characters and overrides go, every script stays."""
        assert printable(text) == shown

    @given(st.text())
    def test_nothing_that_a_terminal_obeys_is_left(self, text: str) -> None:
        """After cleaning there is no control character but tab and line feed, and cleaning again changes nothing."""
        shown = printable(text)
        assert all(char in "\n\t" or not (ord(char) < 32 or 127 <= ord(char) < 160) for char in shown)
        assert printable(shown) == shown


async def _say(text: str) -> None:
    log.info(text)


def _fail_loudly() -> None:
    try:
        try:
            raise ValueError(KEY)
        except ValueError as error:
            raise RuntimeError("second") from error
    except RuntimeError:
        log.exception("failed")
