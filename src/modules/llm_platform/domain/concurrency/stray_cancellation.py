"""A CancelledError that code of a caller raises although nobody cancelled the task that runs it."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

STRAY = "it raised CancelledError although it was not cancelled, such as by awaiting a task of its own that was"


@contextmanager
def fail_on_stray_cancellation() -> Iterator[None]:
    """Raise RuntimeError instead of a CancelledError of the block, unless this task is being cancelled.

    The CancelledError would end the run as if its caller had cancelled it, without an error and without a log entry.
    """
    try:
        yield
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise RuntimeError(STRAY) from error
