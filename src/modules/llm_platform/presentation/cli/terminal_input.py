"""Wait for a line of a terminal without missing Ctrl-C."""

import io
import os
import select
import signal
import threading
from typing import TextIO


def wait_for_input(source: TextIO) -> None:
    """Wait until a terminal has a line to read. A signal that arrives before or during the wait is handled at once.

    A blocking read is not interrupted by a signal that arrives just before it, or that the system delivers to another thread:
    Ctrl-C would have no effect until the next key press. Without a terminal, on Windows, and outside the main thread, this
    returns at once.
    """
    if os.name != "posix" or threading.current_thread() is not threading.main_thread():
        return
    try:
        terminal = source.fileno()
    except io.UnsupportedOperation:  # a text in memory
        return
    if not os.isatty(terminal):
        return
    wakeup_reader, wakeup_writer = os.pipe()
    os.set_blocking(wakeup_writer, False)
    before = signal.set_wakeup_fd(wakeup_writer, warn_on_full_buffer=False)
    try:
        while terminal not in select.select([terminal, wakeup_reader], [], [])[0]:
            os.read(wakeup_reader, 64)  # a signal without an exception, such as a new size of the terminal
    finally:
        signal.set_wakeup_fd(before)
        os.close(wakeup_reader)
        os.close(wakeup_writer)
