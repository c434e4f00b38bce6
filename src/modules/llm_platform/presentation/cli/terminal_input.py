"""Wait for a line of a terminal without missing Ctrl-C."""

import io
import os
import select
import signal
import threading
from typing import TextIO


def wait_for_input(source: TextIO) -> None:
    """Return when a terminal has a line to read. A signal that arrives before or meanwhile is handled at once.

    A read that waits for the terminal is not ended by a signal that arrives just before it, or that the system gives to another
    thread: Ctrl-C would have no effect until the next key. Without a terminal, and on Windows, this returns at once.
    """
    if os.name != "posix" or threading.current_thread() is not threading.main_thread():
        return
    try:
        terminal = source.fileno()
    except io.UnsupportedOperation:  # a text in memory
        return
    if not os.isatty(terminal):
        return
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    before = signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    try:
        while terminal not in select.select([terminal, told], [], [])[0]:
            os.read(told, 64)  # a signal without an exception, such as a new size of the terminal
    finally:
        signal.set_wakeup_fd(before)
        os.close(told)
        os.close(tell)
