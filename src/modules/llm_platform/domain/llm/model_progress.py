"""Report the progress of a running call of a language model, for a person who waits.

The receiver is a context variable: the calls of a task, and of the tasks that it starts, report to it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple

from modules.llm_platform.domain.concurrency.task_group import cancel_and_wait

PROGRESS_INTERVAL_S: Final = 5.0


class ModelProgress(NamedTuple):
    """Tokens of the prompt and of the answer so far, seconds since the call began, and the speed of the writing.

    `tokens_per_s` is None as long as the model reads.
    """

    model: str
    prompt_tokens: int
    completion_tokens: int
    elapsed_s: float
    tokens_per_s: float | None


_RECEIVER: ContextVar[Callable[[ModelProgress], None] | None] = ContextVar("model_progress", default=None)


@contextmanager
def receive_model_progress(receiver: Callable[[ModelProgress], None]) -> Iterator[None]:
    """Call `receiver` every PROGRESS_INTERVAL_S seconds for each model call of the block that takes longer."""
    token = _RECEIVER.set(receiver)
    try:
        yield
    finally:
        _RECEIVER.reset(token)


@asynccontextmanager
async def watch_model(progress: Callable[[], ModelProgress]) -> AsyncIterator[None]:
    """Report the `progress` of the call in the block."""
    receiver = _RECEIVER.get()
    if receiver is None:
        yield
        return
    reporting = asyncio.create_task(_report(progress, receiver))
    try:
        yield
    finally:
        await cancel_and_wait(reporting)


async def _report(progress: Callable[[], ModelProgress], receiver: Callable[[ModelProgress], None]) -> None:
    while True:
        await asyncio.sleep(PROGRESS_INTERVAL_S)
        receiver(progress())
