"""Parsing off the event loop, in child processes that can be killed: a few of them, kept for the next page."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from modules.llm_platform.infrastructure.documents.errors import UnreadableDocument
from modules.llm_platform.infrastructure.documents.parser_process import Parsed, ParserProcess

PARSERS_AT_ONCE: Final = 2

Work = Callable[[ParserProcess], Parsed]


class PageParsers:
    """HTML and PDF to text. Both raise UnreadableDocument; cancelling kills the child that is at work."""

    def __init__(self, at_once: int = PARSERS_AT_ONCE, parser: Callable[[], ParserProcess] = ParserProcess) -> None:
        self._parser = parser
        self._turns = asyncio.Semaphore(at_once)
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="page-parser")  # the first page starts one
        self._idle: list[ParserProcess] = []
        self._busy: set[ParserProcess] = set()

    async def html(self, html: str) -> Parsed:
        return await self._with_one(lambda parser: parser.html(html))

    async def pdf(self, data: bytes) -> Parsed:
        return await self._with_one(lambda parser: _pdf(parser, data))

    async def aclose(self) -> None:
        """End the children, also those at work."""
        for parser in (*self._idle, *self._busy):
            parser.stop()
        idle, self._idle = self._idle, []
        for parser in idle:
            self._threads.submit(parser.__exit__, None, None, None)
        self._threads.shutdown(wait=False)

    async def _with_one(self, work: Work) -> Parsed:
        async with self._turns:
            parser = self._idle.pop() if self._idle else self._parser()
            self._busy.add(parser)
            try:
                parsed = await asyncio.get_running_loop().run_in_executor(self._threads, work, parser)
            except asyncio.CancelledError:
                parser.stop()  # its thread sees the child die and ends it
                raise
            except UnreadableDocument:
                self._idle.append(parser)  # whether its child lived through that is the parser's own affair
                raise
            finally:
                self._busy.discard(parser)
            self._idle.append(parser)
            return parsed


def _pdf(parser: ParserProcess, data: bytes) -> Parsed:
    with tempfile.TemporaryDirectory(prefix="llm-platform-") as folder:
        path = Path(folder) / "page.pdf"
        path.write_bytes(data)
        return parser.pdf(path)
