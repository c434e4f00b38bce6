"""Named places of the worker's loop, told from outside of it: the worker itself knows nothing of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Literal
from unittest.mock import patch

from modules.llm_platform.domain.dtos.retrieval_dtos import Outcome
from modules.llm_platform.infrastructure.adapters.sqlite_outcome_store import SqliteOutcomeStore
from modules.llm_platform.presentation.kafka.worker.consumer import Commits, ConsumerThread
from modules.llm_platform.presentation.kafka.worker.scheduler import RequestScheduler

Point = Literal[
    "after_poll", "after_compute", "after_store", "after_produce", "before_commit", "after_commit", "in_rebalance",
    "in_shutdown",
]  # fmt: skip
At = Callable[[Point], object]  # called on whichever thread passes the point


def _nothing(*args: Any, **options: Any) -> None:
    """What is done where nothing is given."""


@contextmanager
def crash_points(at: At) -> Iterator[None]:
    """Inside, all workers that are made tell `at` where they pass."""

    def polled(thread: Any) -> None:
        arrived = thread._arrived
        thread._arrived = lambda requests: (at("after_poll"), arrived(requests))

    def reported(desk: Any, request: Any, outgoing: Any, error: Any) -> object:
        return at("after_produce") if error is None and request in desk._open else None

    keep = SqliteOutcomeStore.keep

    async def kept(store: SqliteOutcomeStore, outcomes: Sequence[Outcome]) -> list[Outcome]:
        at("after_compute")
        stored = await keep(store, outcomes)
        at("after_store")
        return stored

    with ExitStack() as stack:
        for patched in (
            _around(ConsumerThread, "run", before=polled),
            _around(ConsumerThread, "_on_assign", after=lambda *_: at("in_rebalance")),
            _around(ConsumerThread, "_on_revoke", before=lambda *_: at("in_rebalance")),
            _around(ConsumerThread, "drain", before=lambda *_: at("in_shutdown")),
            _around(RequestScheduler, "_reported", before=reported),
            _around(Commits, "_commit", before=lambda _, consumer, due, **__: at("before_commit") if due else None),
            _around(Commits, "answered", after=lambda _, error, *__: at("after_commit") if error is None else None),
            patch.object(SqliteOutcomeStore, "keep", kept),
        ):
            stack.enter_context(patched)
        yield


def _around(
    owner: type, name: str, before: Callable[..., object] = _nothing, after: Callable[..., object] = _nothing
) -> AbstractContextManager[Any]:
    """The method as it is, with something done before or after it."""
    method = getattr(owner, name)

    def wrapped(*args: Any, **options: Any) -> Any:
        before(*args, **options)
        result = method(*args, **options)
        after(*args, **options)
        return result

    return patch.object(owner, name, wrapped)
