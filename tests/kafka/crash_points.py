"""Named points of the worker's loop. They are patched in from outside, so the worker contains no test code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Literal
from unittest.mock import patch

from modules.llm_platform.domain.dtos.retrieval_dtos import Outcome
from modules.llm_platform.domain.ports.outcome_store import IOutcomeStore
from modules.llm_platform.infrastructure.stores.outcomes.postgres import PostgresOutcomeStore
from modules.llm_platform.infrastructure.stores.outcomes.sqlite import SqliteOutcomeStore
from modules.llm_platform.presentation.kafka.worker.consumer import ConsumerThread
from modules.llm_platform.presentation.kafka.worker.offsets import OffsetCommitter
from modules.llm_platform.presentation.kafka.worker.scheduler import RequestScheduler

Point = Literal[
    "after_poll",
    "after_compute",
    "after_store",
    "after_produce",
    "before_commit",
    "after_commit",
    "in_rebalance",
    "in_shutdown",
]
At = Callable[[Point], object]  # runs on the thread that passes the point


def _nothing(*args: Any, **options: Any) -> None:
    """Do nothing."""


@contextmanager
def crash_points(at: At) -> Iterator[None]:
    """Every new worker inside the context calls `at` with each point that it passes."""

    def polled(thread: Any) -> None:
        on_requests = thread._on_requests
        thread._on_requests = lambda requests: (at("after_poll"), on_requests(requests))

    def delivered(scheduler: Any, request: Any, error: Any) -> object:
        return at("after_produce") if error is None and request in scheduler._open else None

    with ExitStack() as stack:
        for patched in (
            around(ConsumerThread, "run", before=polled),
            around(ConsumerThread, "_handle_assignment", after=lambda *_: at("in_rebalance")),
            around(ConsumerThread, "_handle_revocation", before=lambda *_: at("in_rebalance")),
            around(ConsumerThread, "drain", before=lambda *_: at("in_shutdown")),
            around(RequestScheduler, "_note_delivery", before=delivered),
            around(
                OffsetCommitter,
                "_commit",
                before=lambda _, consumer, trackers, **__: at("before_commit") if trackers else None,
            ),
            around(
                OffsetCommitter, "on_commit", after=lambda _, error, *__: at("after_commit") if error is None else None
            ),
            _around_put(SqliteOutcomeStore, at),
            _around_put(PostgresOutcomeStore, at),
        ):
            stack.enter_context(patched)
        yield


def _around_put(store_type: type[IOutcomeStore], at: At) -> AbstractContextManager[Any]:
    """Patch a store: `at` is called before and after an outcome is stored."""
    put = store_type.put_if_absent

    async def patched(store: IOutcomeStore, outcomes: Sequence[Outcome]) -> list[Outcome]:
        at("after_compute")
        stored = await put(store, outcomes)
        at("after_store")
        return stored

    return patch.object(store_type, "put_if_absent", patched)


def around(
    owner: type, name: str, before: Callable[..., object] = _nothing, after: Callable[..., object] = _nothing
) -> AbstractContextManager[Any]:
    """Patch a method to call `before` and `after` it."""
    method = getattr(owner, name)

    def wrapped(*args: Any, **options: Any) -> Any:
        before(*args, **options)
        result = method(*args, **options)
        after(*args, **options)
        return result

    return patch.object(owner, name, wrapped)
