"""Work that occupies the processor, on texts of any length: it must not block the event loop for long."""

import asyncio
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

INLINE_CHARS: Final = 30_000  # 10 to 25 ms of ranking, quoting or packing

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


async def run_in_thread_if_long(
    chars: int, work: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Result:
    """Return the result of `work`, which reads `chars` characters: in a thread if they are more than INLINE_CHARS.

    Shorter work runs at once, because a thread has to wait for its turn and for a free processor.
    """
    if chars <= INLINE_CHARS:
        return work(*args, **kwargs)
    return await asyncio.to_thread(work, *args, **kwargs)
