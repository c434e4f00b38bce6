"""The egress log of a research run: the hosts, the kinds of data sent, the number of requests and bytes.

An adapter logs a request when it sends it, so that each try counts and an answer from a cache does not. Data that may have
been sent counts as sent; only a request without any connection is removed again. A cache keeps with each entry what was sent
to make it, and logs that apart when the entry is used.
The log is a context variable: tasks inherit it, and concurrent research runs have their own. Threads do not inherit it and
must be given it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import TypeVar

from modules.llm_platform.domain.dtos.sent import Sent, SentKind, merge_sent

Item = TypeVar("Item")


class EgressLog:
    """Sums by host, kind and proxy, without queries, paths and secrets. Thread-safe."""

    __slots__ = ("_cached", "_lock", "_parent", "_sums")

    def __init__(self, parent: EgressLog | None = None) -> None:
        """Create an empty log. `parent` gets all entries of this log too."""
        self._parent = parent
        self._cached: list[Sent] = []
        self._sums: dict[tuple[str, SentKind, str], tuple[int, int]] = {}  # requests, bytes; no proxy: an empty name
        self._lock = Lock()  # some libraries send in threads of their own

    def add(self, host: str, kind: SentKind, size: int, via: str | None = None) -> None:
        """Add a request to this host, with `size` bytes of this kind, through the proxy `via`."""
        key = (host, kind, via or "")
        with self._lock:
            requests, total = self._sums.get(key, (0, 0))
            self._sums[key] = (requests + 1, total + size)
        if self._parent is not None:
            self._parent.add(host, kind, size, via)

    def remove(self, host: str, kind: SentKind, size: int, via: str | None = None) -> None:
        """Remove an added request that found no connection."""
        key = (host, kind, via or "")
        with self._lock:
            requests, total = self._sums.pop(key, (0, 0))
            if requests > 1:
                self._sums[key] = (requests - 1, total - size)
        if self._parent is not None:
            self._parent.remove(host, kind, size, via)

    def add_cached(self, sent: Sequence[Sent]) -> None:
        """Add what was sent earlier, to make an entry of a cache that is used now."""
        with self._lock:
            self._cached += sent
        if self._parent is not None:
            self._parent.add_cached(sent)

    def cached(self) -> tuple[Sent, ...]:
        """Return what was sent to make the entries of caches, as sums."""
        with self._lock:
            return merge_sent(self._cached)

    def sent(self) -> tuple[Sent, ...]:
        """Return the sums so far, sorted by host, kind and proxy."""
        with self._lock:
            sums = sorted(self._sums.items())
        return tuple(
            Sent(host=host, kind=kind, requests=requests, bytes=size, via=via or None)
            for (host, kind, via), (requests, size) in sums
        )


_CURRENT: ContextVar[EgressLog | None] = ContextVar("egress_log", default=None)


@contextmanager
def open_egress_log() -> Iterator[EgressLog]:
    """Open a new log for this task and the tasks that it starts from now on."""
    egress_log = EgressLog()
    token = _CURRENT.set(egress_log)
    try:
        yield egress_log
    finally:
        _CURRENT.reset(token)


@contextmanager
def record_sent() -> Iterator[EgressLog]:
    """Record what this block sends in a log of its own. The log around it gets the same entries."""
    log = EgressLog(_CURRENT.get())
    token = _CURRENT.set(log)
    try:
        yield log
    finally:
        _CURRENT.reset(token)


async def record_sent_by(items: AsyncIterator[Item], log: EgressLog) -> AsyncIterator[Item]:
    """Yield the items, with `log` as the current log while the next one is made: it lacks the caller's own requests."""
    async with aclosing(items) as source:  # type: ignore[type-var]  # async generators
        while True:
            token = _CURRENT.set(log)
            try:
                item = await anext(source)
            except StopAsyncIteration:
                return
            finally:
                _CURRENT.reset(token)
            yield item


def log_cached(sent: Sequence[Sent]) -> None:
    """Add to the current log what was sent to make an entry of a cache."""
    if sent and (egress_log := _CURRENT.get()) is not None:
        egress_log.add_cached(sent)


def current_egress_log() -> EgressLog | None:
    """Return the log of this task, for code that sends from a thread or after the task."""
    return _CURRENT.get()


def log_sent(host: str, kind: SentKind, size: int, via: str | None = None) -> None:
    """Add a request to the current log, if there is one."""
    if (egress_log := _CURRENT.get()) is not None:
        egress_log.add(host, kind, size, via)


def log_not_sent(host: str, kind: SentKind, size: int, via: str | None = None) -> None:
    """Remove what `log_sent` added: the request found no connection."""
    if (egress_log := _CURRENT.get()) is not None:
        egress_log.remove(host, kind, size, via)
