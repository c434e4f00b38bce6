"""The label of an API key: who owns what its requests store, and a context variable of the request being answered."""

from contextvars import ContextVar

_LABEL: ContextVar[str] = ContextVar("api_key_label", default="")


def set_api_key_label(label: str) -> None:
    """Set the label for this task and the tasks that it starts from now on."""
    _LABEL.set(label)


def api_key_label() -> str:
    """Return the label; empty outside of a server, and where no API key is required."""
    return _LABEL.get()


def owner_of_label(label: str | None) -> str:
    """Return the owner of what is stored for the API keys with this label; None: of what is stored without a key."""
    return "" if label is None else f"label:{label}"
