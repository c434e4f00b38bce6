"""The parsers of a server: few processes, which pages and files share, and which callers use in turn."""

from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Final, Self

from modules.llm_platform.domain.callers.current_caller import current_caller
from modules.llm_platform.domain.concurrency.caller_turns import CallerTurns
from modules.llm_platform.infrastructure.parsing.decoding import UnreadableDocument
from modules.llm_platform.infrastructure.parsing.limits import MEMORY_BYTES
from modules.llm_platform.infrastructure.parsing.parser_process import STOPPED, Parsed, ParserProcess

MAX_PARSERS: Final = 2
# The limit of a server's container needs this beside the server's own memory.
POOL_BYTES: Final = MAX_PARSERS * MEMORY_BYTES

Work = Callable[[ParserProcess], Parsed]


class ParserPool:
    """A pool of at most `max_parsers` processes. An idle process is used again."""

    def __init__(self, max_parsers: int = MAX_PARSERS, parser: Callable[[], ParserProcess] = ParserProcess) -> None:
        self.max_parsers = max_parsers
        self.turns = CallerTurns(max_parsers)
        self._parser = parser
        self._idle: list[ParserProcess] = []
        self._is_closed = False
        self._lock = Lock()

    def take(self) -> ParserProcess:
        """Return a parser for a caller whose turn it is."""
        with self._lock:
            return self._idle.pop() if self._idle else self._parser()

    def put(self, parser: ParserProcess) -> None:
        """Store a parser for the next caller. It restarts its child if needed. A parser that was stopped cannot do so."""
        with self._lock:
            is_kept = not (parser.stopped or self._is_closed)
            if is_kept:
                self._idle.append(parser)
        if not is_kept:
            parser.__exit__(None, None, None)

    @property
    def has_idle(self) -> bool:
        return bool(self._idle)

    def close(self) -> None:
        """End the idle processes now and the others when they are put back."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for parser in idle:
            parser.stop()
            parser.__exit__(None, None, None)


class PooledParser:
    """Reads one document after the other, each with a parser of the pool. One thread calls it, any thread may `stop` it."""

    def __init__(self, pool: ParserPool | None = None) -> None:
        """Create a reader for the files of the current caller. Without a pool it has one process, until it is closed."""
        self._pool = pool or ParserPool(1)
        self._has_own_pool = pool is None
        self._caller = current_caller()
        self._slot: Future[None] | None = None
        self._running: ParserProcess | None = None
        self.stopped = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._has_own_pool:
            self._pool.close()

    def stop(self) -> None:
        """Fail the document that is being read, or waits for its turn, and every later one."""
        self.stopped = True
        if slot := self._slot:
            slot.cancel()
        if parser := self._running:
            parser.stop()

    def html(self, html: str) -> Parsed:
        return self._read(lambda parser: parser.html(html))

    def file(self, kind: str, file: Path | bytes) -> Parsed:
        return self._read(lambda parser: parser.file(kind, file))

    def _read(self, work: Work) -> Parsed:
        self._slot = self._pool.turns.ask(self._caller)
        try:
            if self.stopped and self._slot.cancel():
                raise UnreadableDocument(STOPPED)
            self._slot.result()
        except CancelledError as error:
            raise UnreadableDocument(STOPPED) from error
        try:
            parser = self._running = self._pool.take()
            try:
                if self.stopped:
                    parser.stop()
                return work(parser)
            finally:
                self._running = None
                self._pool.put(parser)
        finally:
            self._pool.turns.give_back(self._caller)
