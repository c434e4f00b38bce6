"""Decide whether caches may answer the searches of a task."""

from contextvars import ContextVar

_IS_FRESH: ContextVar[bool] = ContextVar("searches_afresh", default=False)


def search_afresh() -> None:
    """Ask the providers at each search of this task and of the tasks that it starts from now on. Caches get the answers."""
    _IS_FRESH.set(True)


def searches_afresh() -> bool:
    return _IS_FRESH.get()
