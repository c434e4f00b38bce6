"""The ledger of a research: which host was sent what kind of data, in how many requests, and how many bytes.

An adapter notes a request when it sends it, so that each try counts and an answer from a cache counts nothing. What may
have been sent counts as sent; only a request that found no connection at all is taken back.
The ledger is found through the context: every task that a research starts inherits it, and researches that run side by
side in one process each have their own. Threads do not inherit it: whoever starts one hands it on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock

from modules.llm_platform.domain.dtos.sent import Sent, SentKind


class EgressLog:
    """Sums by host, kind and proxy; no query, no path and no secret is kept. May be used from several threads."""

    __slots__ = ("_lock", "_sums")

    def __init__(self) -> None:
        self._sums: dict[tuple[str, SentKind, str], tuple[int, int]] = {}  # requests, bytes; no proxy: an empty name
        self._lock = Lock()  # some libraries send in threads of their own

    def note(self, host: str, kind: SentKind, size: int, via: str | None = None) -> None:
        """One more request to this host, with so many bytes of this kind, through the proxy `via`."""
        key = (host, kind, via or "")
        with self._lock:
            requests, noted = self._sums.get(key, (0, 0))
            self._sums[key] = (requests + 1, noted + size)

    def take_back(self, host: str, kind: SentKind, size: int, via: str | None = None) -> None:
        """A request that was noted found no connection: nothing of it left this process."""
        key = (host, kind, via or "")
        with self._lock:
            requests, noted = self._sums.pop(key, (0, 0))
            if requests > 1:
                self._sums[key] = (requests - 1, noted - size)

    def sent(self) -> tuple[Sent, ...]:
        """What was noted so far, by host, kind and proxy."""
        with self._lock:
            noted = sorted(self._sums.items())
        return tuple(
            Sent(host=host, kind=kind, requests=requests, bytes=size, via=via or None)
            for (host, kind, via), (requests, size) in noted
        )


_CURRENT: ContextVar[EgressLog | None] = ContextVar("ledger", default=None)


@contextmanager
def open_egress_log() -> Iterator[EgressLog]:
    """A new ledger, which this task and those that it starts from now on note in."""
    ledger = EgressLog()
    token = _CURRENT.set(ledger)
    try:
        yield ledger
    finally:
        _CURRENT.reset(token)


def current_egress_log() -> EgressLog | None:
    """The ledger that this task notes in, for those who send from a thread or after the task."""
    return _CURRENT.get()


def log_sent(host: str, kind: SentKind, size: int, via: str | None = None) -> None:
    """Note a request in the current ledger, if there is one."""
    ledger = _CURRENT.get()
    if ledger is not None:
        ledger.note(host, kind, size, via)


def log_not_sent(host: str, kind: SentKind, size: int, via: str | None = None) -> None:
    """Take back what `note_sent` noted: no connection came about."""
    ledger = _CURRENT.get()
    if ledger is not None:
        ledger.take_back(host, kind, size, via)
