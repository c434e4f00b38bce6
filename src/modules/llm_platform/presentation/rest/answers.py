"""Answers as JSON bytes, written once: a route that returns a Response is not validated a second time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fastapi import Response
from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_json

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
