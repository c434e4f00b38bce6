"""The example of a route in the OpenAPI document."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Example:
    """The example of a route.

    - `response` is the body of the response with status 200.
    - `request` is the body of the request.
    - `parameters` are the values of parameters by name.
    - `events` is the response as an event stream.
    - `accepted` is the body of the response with status 202.
    - `text` is the response as plain text, for a route that answers with either text or JSON.
    """

    response: Any
    request: Mapping[str, Any] | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    events: str = ""
    accepted: Any = None
    text: str = ""
