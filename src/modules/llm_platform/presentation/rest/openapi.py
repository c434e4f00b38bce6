"""The OpenAPI document: bodies that our own reader takes, problems for every error, and the key when one is wanted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from modules.llm_platform.presentation.rest.middleware import OPEN_PATHS
from modules.llm_platform.presentation.rest.problems import Problem, ValidationProblem
from modules.llm_platform.presentation.rest.responses import JSON

FORM = "application/x-www-form-urlencoded"
REFERENCE = "#/components/schemas/{model}"
BODY_NOTE = (
    "A JSON object of at most 1 MiB. `application/x-www-form-urlencoded`, which `curl -d` sends, is taken too when the "
    "body is one."
)
ERRORS = (Problem, ValidationProblem)
KEYS: Mapping[str, Any] = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "A key of LLM_PLATFORM_API_KEYS, if there are any."},
    "header": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "The same key."},
}


def body_of(model: type[BaseModel], form: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The `openapi_extra=` of a route whose body is read by `body.read_body`. `form`, made by `query_of`, describes the fields
    of an HTML form that is taken too."""
    content: dict[str, Any] = {JSON: {"schema": {"$ref": REFERENCE.format(model=model.__name__)}}}
    if form:
        content[FORM] = {"schema": _form(form["parameters"])}
    return {"requestBody": {"required": True, "description": BODY_NOTE, "content": content}}


def query_of(**parameters: tuple[Mapping[str, Any], bool, str]) -> dict[str, Any]:
    """The `openapi_extra=` of a route that reads its query string itself: name to schema, required, description."""
    return {
        "parameters": [
            {"name": name, "in": "query", "required": required, "description": description, "schema": dict(schema)}
            for name, (schema, required, description) in parameters.items()
        ]
    }


def _form(parameters: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": [each["name"] for each in parameters if each["required"]],
        "properties": {each["name"]: {**each["schema"], "description": each["description"]} for each in parameters},
    }


def describe(
    app: FastAPI, bodies: Sequence[type[BaseModel]], with_examples: Callable[[str, str, dict[str, Any]], None]
) -> dict[str, Any]:
    """The whole document, made once. `with_examples` is handed method, path and description of each operation."""
    if app.openapi_schema is None:
        schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        _, ours = models_json_schema(
            [*((body, "validation") for body in bodies), *((error, "serialization") for error in ERRORS)],
            ref_template=REFERENCE,
        )
        components = schema.setdefault("components", {})
        components["schemas"] = dict(sorted({**components.get("schemas", {}), **ours["$defs"]}.items()))
        components["securitySchemes"] = dict(KEYS)
        for path, operations in schema["paths"].items():
            for method, operation in operations.items():
                with_examples(method, path, operation)
                operation["security"] = [{}] if path in OPEN_PATHS else [{}, {"bearer": []}, {"header": []}]
        app.openapi_schema = schema
    return app.openapi_schema
