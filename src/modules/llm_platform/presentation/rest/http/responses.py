"""JSON responses: DTOs, stored research runs of the caller, and the JSON of an upstream."""

import json
from collections.abc import Mapping
from typing import Any

from fastapi import Request, Response
from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_json

from modules.llm_platform.presentation.rest.http.request_scope import KNOW

JSON = "application/json"


def make_json_response(
    value: BaseModel,
    *,
    exclude: Mapping[str, Any] | None = None,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return a DTO as JSON. FastAPI does not validate a Response a second time."""
    content = value.__pydantic_serializer__.to_json(value, exclude=dict(exclude) if exclude else None)
    return Response(content, status, headers, JSON)


def make_stored_response(
    request: Request, value: BaseModel, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return stored research runs or threads of the caller. Their questions and titles come back as they were sent."""
    know_questions(request, value)
    return make_json_response(value, status=status, headers=headers)


def know_questions(request: Request, value: BaseModel) -> None:
    """Redact no secret that is in what the caller sent for these research runs, threads and watches."""
    lists = (getattr(value, name, ()) for name in ("researches", "threads", "watches"))
    stored = (value, *(one for found in lists for one in found))
    texts = [getattr(one, name, "") for one in stored for name in ("query", "title")]
    asked = getattr(value, "request", None)
    if isinstance(asked, BaseModel):
        texts.append(asked.model_dump_json())
    request.scope[KNOW](*(text.encode() for text in texts if text))


def make_raw_json_response(value: Mapping[str, Any]) -> Response:
    """Return 200 with the JSON of an upstream, values unchanged."""
    try:
        return Response(to_json(value), media_type=JSON)
    except PydanticSerializationError:  # a lone surrogate, which JSON can escape but UTF-8 cannot encode
        return Response(json.dumps(value), media_type=JSON)


def find_excluded_fields(model: type[BaseModel]) -> dict[str, Any]:
    """Return the fields that an API model hides, as the `exclude` of `make_json_response`."""
    return {name: True for name, field in model.model_fields.items() if field.exclude}
