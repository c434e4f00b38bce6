"""Structured answers of the compatible interfaces: the schema that a client sends, and the JSON text that it reads.

OpenAI's and Perplexity's chat send it as `response_format`, the Responses API as `text.format`.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from fastapi import Request
from pydantic_core import to_json

from modules.llm_platform.domain.citations.show.source_pages import add_cited_page, list_cited_pdf_pages
from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.exceptions import OutputError
from modules.llm_platform.domain.markdown.markers import render_markers
from modules.llm_platform.domain.untrusted.output_schema import InvalidSchemaError, check_output_schema
from modules.llm_platform.presentation.rest.http.problems import InvalidRequestError
from modules.llm_platform.presentation.rest.http.request_scope import get_services

ANY_OBJECT: Final[Mapping[str, Any]] = {"type": "object"}  # What the format json_object allows.
SCHEMA_NAME: Final = "answer"
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.|\\\Z)*(?:"|\Z)', re.DOTALL)  # A JSON string; the last one may have no end.


def read_schema(
    request: Request, answer_format: Mapping[str, Any] | None, field: str = "response_format"
) -> dict[str, Any] | None:
    """Return the `output_schema` of a research run with this answer format, or None for text.

    `field` is the name of the format in the body. Raises InvalidRequestError that names it, also without a language model.
    """
    kind = (answer_format or {}).get("type", "text")
    if answer_format is None or kind == "text":
        return None
    if kind not in ("json_object", "json_schema"):
        raise InvalidRequestError.at(("body", field), "must have the type text, json_object or json_schema")
    if not get_services(request).llm.models:
        raise InvalidRequestError.at(
            ("body", field),
            "needs a language model, and none is set up: set LLM_API_KEY with LLM_MODEL, or leave the field out",
        )
    if kind == "json_object":
        return dict(ANY_OBJECT)
    described = answer_format.get("json_schema", answer_format)  # The Responses API has no level between.
    return check_schema(described.get("schema") if isinstance(described, Mapping) else None, field)


def is_schema(answer_format: Mapping[str, Any] | None) -> bool:
    """Return whether a format has a schema, in the form of any API."""
    return answer_format is not None and answer_format.get("type") == "json_schema"


def convert_for_chat(answer_format: Mapping[str, Any]) -> dict[str, Any]:
    """Return a format with a schema as chat completions have it: the other APIs have one level less, and need no name."""
    described = answer_format.get("json_schema")
    if not isinstance(described, Mapping):
        described = {name: value for name, value in answer_format.items() if name != "type"}
    return {"type": "json_schema", "json_schema": {"name": SCHEMA_NAME, **described}}


def check_schema(schema: object, *location: str | int) -> dict[str, Any]:
    """Return the schema. Raises InvalidRequestError that names the place in the body."""
    if not isinstance(schema, dict):
        raise InvalidRequestError.at(("body", *location), "needs a JSON Schema as `schema`")
    try:
        check_output_schema(schema)
    except InvalidSchemaError as error:
        raise InvalidRequestError.at(("body", *location), f"its schema {error}") from None
    return schema


def write_json(response: ResearchResponse) -> str:
    """Return `output` as JSON. Raises OutputError if the schema was not filled: the client reads nothing but JSON."""
    if response.output is None:
        raise OutputError.of(response.degraded)
    return to_json(response.output).decode()


def make_marker_annotations(text: str, response: ResearchResponse) -> Iterator[dict[str, Any]]:
    """Yield an annotation of OpenAI's for each marker [n] in the strings of a JSON text: its place and its source.

    The address of a PDF names the page of its first supporting quote.
    """
    sources = {source.index: source for source in response.sources}
    pages = list_cited_pdf_pages(response.citations)
    for string in _STRING.finditer(text):
        for start, end, number in render_markers(string[0]):
            if source := sources.get(number):
                position = {"start_index": string.start() + start, "end_index": string.start() + end}
                url = add_cited_page(source.url, number, pages)
                yield {"type": "url_citation", **position, "title": source.title, "url": url}
