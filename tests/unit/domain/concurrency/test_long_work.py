"""Short work runs on the event loop, and long work in a thread."""

import threading

import pytest

from modules.llm_platform.domain.concurrency.long_work import INLINE_CHARS, run_in_thread_if_long


@pytest.mark.parametrize(("chars", "is_inline"), [(0, True), (INLINE_CHARS, True), (INLINE_CHARS + 1, False)])
async def test_only_long_work_leaves_the_event_loop(chars: int, is_inline: bool) -> None:
    """Work on more than INLINE_CHARS characters runs in another thread. The result is the same."""

    def name_thread(greeting: str, *, end: str) -> tuple[str, int]:
        return greeting + end, threading.get_ident()

    text, thread = await run_in_thread_if_long(chars, name_thread, "Hello", end="!")
    assert text == "Hello!"
    assert (thread == threading.get_ident()) is is_inline


@pytest.mark.parametrize("chars", [0, INLINE_CHARS + 1])
async def test_an_error_of_the_work_is_raised(chars: int) -> None:
    """An error reaches the caller from the event loop and from a thread."""

    def fail() -> None:
        raise ValueError("no text")

    with pytest.raises(ValueError, match="no text"):
        await run_in_thread_if_long(chars, fail)
