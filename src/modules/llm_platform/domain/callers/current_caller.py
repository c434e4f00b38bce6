"""The caller of the current request: a name that tells callers apart where they wait for the same thing."""

from contextvars import ContextVar

_CALLER: ContextVar[str] = ContextVar("caller", default="")


def set_current_caller(name: str) -> None:
    """Set the name for this task and the tasks that it starts from now on: of an API key, or of a client without one."""
    _CALLER.set(name)


def current_caller() -> str:
    """Return the name; empty outside of a server."""
    return _CALLER.get()
