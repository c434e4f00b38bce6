"""Answers as JSON bytes, written once: a route that returns a Response is not validated a second time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fastapi import Request, Response
from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_json

from modules.llm_platform.application.platform import LLMPlatform
from modules.llm_platform.presentation.rest.problems import REQUEST_ID, NotServingError

JSON = "application/json"


def json_answer(value: BaseModel, *, exclude: Mapping[str, Any] | None = None) -> Response:
    """200 with the DTO as JSON, without the fields that the API does not show."""
    body = value.__pydantic_serializer__.to_json(value, exclude=dict(exclude) if exclude else None)
    return Response(body, media_type=JSON)


def raw_answer(value: Mapping[str, Any]) -> Response:
    """200 with somebody else's JSON, values as they came."""
    try:
        return Response(to_json(value), media_type=JSON)
    except PydanticSerializationError:
        # Half a surrogate pair came from upstream: JSON can spell it, UTF-8 cannot.
        return Response(json.dumps(value), media_type=JSON)


# Whether the server is open, and what stands behind it.


class ServerState:
    """One server's state: `platform` is there once it has started, `draining` is set when it begins to stop."""

    def __init__(self, platform: LLMPlatform | None = None) -> None:
        self.platform = platform
        self.draining = False

    @property
    def open(self) -> bool:
        return self.platform is not None and not self.draining

    def services(self) -> LLMPlatform:
        """What stands behind the door; NotServingError before it has started."""
        if self.platform is None:
            raise NotServingError
        return self.platform


# What routes ask for: the services of the platform, and the name of the request.
# Plain calls, not `Depends`: FastAPI takes 10 us of CPU to resolve each of those, a tenth of what a whole request
# costs.


def server_state(request: Request) -> ServerState:
    """The door that the request came through."""
    door: ServerState = request.app.state.door
    return door


def services(request: Request) -> LLMPlatform:
    """The platform behind it; NotServingError before it has started."""
    return server_state(request).services()


def request_id(request: Request) -> str:
    """The request's id, as it stands in headers, problems and logs."""
    name: str = request.scope[REQUEST_ID]
    return name
