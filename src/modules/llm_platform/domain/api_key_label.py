"""The label of the API key whose request is being answered: a context variable, which tasks inherit."""

from __future__ import annotations

from contextvars import ContextVar

_LABEL: ContextVar[str] = ContextVar("api_key_label", default="")


def set_api_key_label(label: str) -> None:
    """Set the label for this task and the tasks that it starts from now on."""
    _LABEL.set(label)


def api_key_label() -> str:
    """Return the label; empty outside of a server, and where no API key is required."""
    return _LABEL.get()
