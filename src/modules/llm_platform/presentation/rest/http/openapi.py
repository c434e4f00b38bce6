"""The OpenAPI document: request bodies and events of streams, which FastAPI does not know, error responses, and API keys."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from modules.llm_platform.presentation.rest.http.access import FEED_PATH, PROBE_PATHS
from modules.llm_platform.presentation.rest.http.body import FORM
from modules.llm_platform.presentation.rest.http.problems import Problem, ValidationProblem
from modules.llm_platform.presentation.rest.http.responses import JSON
from modules.llm_platform.presentation.rest.http.sse import MEDIA_TYPE

ITEM_SCHEMA = "x-itemSchema"  # schema of a stream: OpenAPI 3.2 has it as itemSchema, and few generators read 3.2
REFERENCE = "#/components/schemas/{model}"
BODY_NOTE = (
    "A JSON object of at most 1 MiB, of at most 8 MiB for a conversation (`/v1/chat/completions`, `/v1/responses`, "
    "`/anthropic/v1/messages` and its `/count_tokens`). The media type `application/x-www-form-urlencoded`, which `curl -d` "
    "sends, is accepted too."
)
ERRORS = (Problem, ValidationProblem)
# The request bodies and the events of all routes, by name: the document refers to them.
_BODIES: dict[str, type[BaseModel]] = {}
_EVENTS: dict[str, type[BaseModel]] = {}
KEYS: Mapping[str, Any] = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "A key of LLM_PLATFORM_API_KEYS, if it is set."},
    "header": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "The same key."},
    "password": {"type": "http", "scheme": "basic", "description": "The same key as the password of any user."},
}


def describe_body(
    model: type[BaseModel], form: Mapping[str, Any] | None = None, note: str = "", *, is_required: bool = True
) -> dict[str, Any]:
    """Return the `openapi_extra=` of a route that calls `read_body`.

    `form` is the result of `describe_query` if the route accepts forms.
    """
    _BODIES[model.__name__] = model
    content: dict[str, Any] = {JSON: {"schema": {"$ref": REFERENCE.format(model=model.__name__)}}}
    if form:
        content[FORM] = {"schema": _form_schema(form["parameters"])}
    return {"requestBody": {"required": is_required, "description": f"{BODY_NOTE} {note}".strip(), "content": content}}


def declare_event_stream(*events: type[BaseModel]) -> dict[int | str, dict[str, Any]]:
    """Return the `responses=` of a route that can also respond with a stream of these events."""
    types = [event.model_fields["type"].default for event in events]
    _EVENTS.update({event.__name__: event for event in events})
    text = {"type": "string"}
    variants = [
        {
            "properties": {
                "event": {"const": kind},
                "data": {"contentSchema": {"$ref": REFERENCE.format(model=event.__name__)}},
            }
        }
        for kind, event in zip(types, events, strict=True)
    ]
    item = {
        "type": "object",
        "required": ["id", "event", "data"],
        "properties": {"id": text, "event": text, "data": {**text, "contentMediaType": "application/json"}},
        "anyOf": [*variants, {"properties": {"event": {"not": {"enum": types}}}}],
    }
    description = f"The answer; as a stream, events of these types (more may come): {', '.join(types)}"
    return {200: {"description": description, "content": {MEDIA_TYPE: {ITEM_SCHEMA: item}}}}


def declare_data_stream(description: str) -> dict[int | str, dict[str, Any]]:
    """Return the `responses=` of a route whose stream has events with JSON data and, at most, a type."""
    text = {"type": "string"}
    event = {"type": "object", "required": ["data"], "properties": {"event": text, "data": text}}
    return {200: {"description": description, "content": {MEDIA_TYPE: {ITEM_SCHEMA: event}}}}


def describe_query(**parameters: tuple[Mapping[str, Any], bool, str]) -> dict[str, Any]:
    """Return the `openapi_extra=` of a route that reads its query string: name to schema, is_required, description."""
    return {
        "parameters": [
            {"name": name, "in": "query", "required": is_required, "description": description, "schema": dict(schema)}
            for name, (schema, is_required, description) in parameters.items()
        ]
    }


def _form_schema(parameters: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": [parameter["name"] for parameter in parameters if parameter["required"]],
        "properties": {
            parameter["name"]: {**parameter["schema"], "description": parameter["description"]}
            for parameter in parameters
        },
    }


def _make_operation_id(path: str, method: str, operation: Mapping[str, Any]) -> str:
    """Return a name for a function of a generated client, such as `post_tavily_search` or `get_research_by_request_id`."""
    segments = [
        f"by_{segment[1:].partition(':')[0].rstrip('}')}" if segment.startswith("{") else segment.replace("-", "_")
        for segment in path.split("/")
        if segment
    ]
    return "_".join([method, *segments]).replace(".", "_")


def _list_security(path: str) -> list[dict[str, list[str]]]:
    """Return how a route takes an API key. `{}` comes first, because keys need not be set."""
    if path in PROBE_PATHS:
        return [{}]
    password: list[dict[str, list[str]]] = [{"password": []}] if FEED_PATH.fullmatch(path) else []
    return [{}, {"bearer": []}, {"header": []}, *password]


def make_openapi_document(app: FastAPI, add_examples: Callable[[str, str, dict[str, Any]], None]) -> dict[str, Any]:
    """Return the document, built once. `add_examples` receives method, path and operation."""
    if app.openapi_schema is None:
        schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        _, models = models_json_schema(
            [
                *((body, "validation") for body in _BODIES.values()),
                *((error, "serialization") for error in ERRORS),
                *((event, "serialization") for event in _EVENTS.values()),
            ],
            ref_template=REFERENCE,
        )
        components = schema.setdefault("components", {})
        components["schemas"] = dict(sorted({**models["$defs"], **components.get("schemas", {})}.items()))
        components["securitySchemes"] = dict(KEYS)
        for path, operations in schema["paths"].items():
            for method, operation in operations.items():
                operation["operationId"] = _make_operation_id(path, method, operation)
                add_examples(method, path, operation)
                operation["security"] = _list_security(path)
        app.openapi_schema = schema
    return app.openapi_schema
