"""A prompt on a terminal ends at Ctrl-C, whichever thread of the process the system gives the signal to."""

from __future__ import annotations

import io
import os
import pty
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.testing.waiting import START_TIMEOUT_S

SOON_S = 0.3  # the prompt waits for its line by then; a slower machine makes the test easier


@contextmanager
def prompting() -> Iterator[tuple[Console, int]]:
    """A console on its own terminal, and the other end of the terminal."""
    ours, theirs = pty.openpty()
    try:
        with closing(open(theirs, closefd=True)) as source:  # noqa: PTH123
            yield Console(err=io.StringIO(), source=source), ours
    finally:
        os.close(ours)


def test_ctrl_c_ends_a_prompt_in_whatever_thread_it_arrives() -> None:
    """The read of the main thread is not interrupted by a signal in another one."""

    def interrupt() -> None:
        time.sleep(SOON_S)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    with prompting() as (console, terminal):
        typed: list[int] = []
        helper = threading.Timer(START_TIMEOUT_S, lambda: typed.append(os.write(terminal, b"too late\n")))
        helper.start()
        sender = threading.Thread(target=interrupt)
        sender.start()
        with pytest.raises(KeyboardInterrupt):
            console.prompt("plan>")
        helper.cancel()
        sender.join()
        helper.join()
    assert not typed, "the prompt went on until a line was typed"


def test_a_signal_without_an_exception_leaves_the_prompt_as_it_is() -> None:
    """A signal such as a change of the terminal's size does not interrupt the prompt, and the typed line is read."""
    seen: list[int] = []
    before = signal.signal(signal.SIGWINCH, lambda number, frame: seen.append(number))
    try:
        with prompting() as (console, terminal):

            def resize_and_type() -> None:
                time.sleep(SOON_S)
                os.kill(os.getpid(), signal.SIGWINCH)
                time.sleep(SOON_S)
                os.write(terminal, b"a pump\n")

            typist = threading.Thread(target=resize_and_type)
            typist.start()
            assert console.prompt("plan>") == "a pump"
            typist.join()
    finally:
        signal.signal(signal.SIGWINCH, before)
    assert seen == [signal.SIGWINCH]


def test_lines_that_were_typed_ahead_are_read_one_by_one() -> None:
    """Also the end of the input."""
    with prompting() as (console, terminal):
        os.write(terminal, b"one\ntwo\n")
        assert [console.prompt("1>"), console.prompt("2>")] == ["one", "two"]
        os.write(terminal, b"\x04")
        assert console.prompt("3>") is None
