"""The limits of the fields of a request, for tests that send the largest value."""

from __future__ import annotations

from pydantic import BaseModel


def most(model: type[BaseModel], field: str) -> int:
    """Return the largest number, or the most entries or characters, that the field accepts."""
    schema = model.model_json_schema()["properties"][field]
    [accepted, *_] = schema.get("anyOf", [schema])  # the other type of the union is null
    bounds = [accepted[key] for key in ("maximum", "maxItems", "maxLength") if key in accepted]
    [bound] = bounds
    return int(bound)
