"""Runs parsers off the event loop, and ends work that nobody waits for."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from modules.llm_platform.domain.callers.current_caller import current_caller
from modules.llm_platform.infrastructure.parsing.parser_pool import ParserPool
from modules.llm_platform.infrastructure.parsing.parser_process import ParserProcess

GRACE_S: Final = 3.0

Answer = TypeVar("Answer")


class AsyncParsers:
    """The parsers of a pool, for callers on the event loop. Callers take turns.

    A child whose caller has left gets `grace_s` seconds to finish: killed at once, the next page would wait for a new one.
    """

    def __init__(self, pool: ParserPool | None = None, grace_s: float = GRACE_S) -> None:
        self._pool = pool or ParserPool()
        self._grace_s = grace_s
        # The first work starts a thread.
        self._threads = ThreadPoolExecutor(self._pool.max_parsers, thread_name_prefix="parser")
        self._running: dict[asyncio.Future[Any], ParserProcess] = {}

    @property
    def has_child(self) -> bool:
        return self._pool.has_idle or bool(self._running)

    async def run(self, work: Callable[[ParserProcess], Answer]) -> Answer:
        """Return the answer of a parser. Raises UnreadableDocument."""
        caller = current_caller()
        await self._pool.turns.take(caller)
        parser = self._pool.take()
        loop = asyncio.get_running_loop()
        running = loop.run_in_executor(self._threads, self._work, work, parser, caller)
        self._running[running] = parser
        running.add_done_callback(self._forget)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            killing = loop.call_later(self._grace_s, parser.stop)
            running.add_done_callback(lambda _: killing.cancel())
            raise

    async def aclose(self) -> None:
        for parser in self._running.values():
            parser.stop()
        if self._running:
            await asyncio.wait(self._running)  # a killed child ends its thread
        await asyncio.to_thread(self._pool.close)
        self._threads.shutdown(wait=False)

    def _work(self, work: Callable[[ParserProcess], Answer], parser: ParserProcess, caller: str) -> Answer:
        try:
            return work(parser)
        finally:
            self._pool.put(parser)
            self._pool.turns.give_back(caller)

    def _forget(self, running: asyncio.Future[Any]) -> None:
        running.exception()  # retrieved: its caller may have left
        del self._running[running]
