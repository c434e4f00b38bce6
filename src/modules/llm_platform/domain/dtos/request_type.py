"""Refuse what a Python program passes instead of a request, such as the question as a string."""

from pydantic import BaseModel


def require_request(request: object, kind: type[BaseModel], field: str = "query") -> None:
    """Raise TypeError unless the request is of this kind. `field` is its field for the question, for the message."""
    if not isinstance(request, kind):
        raise TypeError(f"this takes a {kind.__name__}, not {type(request).__name__}: pass {kind.__name__}({field}=…)")
