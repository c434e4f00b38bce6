"""The JSON Schema of a structured answer is bounded before anything compares a value with it."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError
from referencing.exceptions import Unresolvable
from tests.support.growth import is_linear

from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.untrusted import output_schema as schemas
from modules.llm_platform.domain.untrusted.output_schema import InvalidSchemaError, check_output_schema, output_errors

PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "born": {"type": ["integer", "null"]}},
    "required": ["name", "born"],
    "additionalProperties": False,
}
SOON_S = 10.0  # limit on a busy machine; without the bounds these run for ever


class Leaf(BaseModel):
    label: str
    next: Leaf | None = None


class Tree(BaseModel):
    """What pydantic writes for models that contain others and themselves."""

    kind: str
    leaves: list[Leaf]


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"properties": {"a": schema}}
    return schema


def doubling(steps: int) -> dict[str, Any]:
    parts = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(steps)}
    return {"$ref": "#/$defs/a0", "$defs": {**parts, f"a{steps}": {"type": "object"}}}


def chain(steps: int) -> dict[str, Any]:
    parts = {f"a{n}": {"$ref": f"#/$defs/a{n + 1}"} for n in range(steps)}
    return {"not": {"$ref": "#/$defs/a0"}, "$defs": {**parts, f"a{steps}": {"type": "object"}}}


def beyond(frames: int, call: Callable[[], object]) -> None:
    """Make the call with this many additional stack frames."""
    beyond(frames - 1, call) if frames else call()


@pytest.mark.parametrize("schema", [PERSON, {}, {"type": "object"}, Tree.model_json_schema(), Leaf.model_json_schema()])
def test_schemas_of_today(schema: dict[str, Any]) -> None:
    """What pydantic makes of models, and the empty schema, pass as they are."""
    check_output_schema(schema)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"properties": {"a": {"description": "x" * schemas.MAX_SCHEMA_BYTES}}}, schemas.TOO_LARGE),
        (nested(schemas.MAX_SCHEMA_DEPTH), schemas.TOO_DEEP),
        (nested(100_000), schemas.TOO_DEEP),
        ({"properties": {"a": {"maximum": float("inf")}}}, schemas.NOT_FINITE),
        ({"properties": {"a": {"enum": [1, float("nan")]}}}, schemas.NOT_FINITE),
        ({"properties": {f"p{n}": {} for n in range(schemas.MAX_SCHEMA_PROPERTIES + 1)}}, schemas.TOO_MANY_PROPERTIES),
        ({"type": "array", "items": {}}, schemas.NO_OBJECT),
        ({"properties": {"a": {"$ref": "https://example.org/other.json"}}}, schemas.BAD_REFERENCE),
        ({"properties": {"a": {"$ref": "other.json#/a"}}}, schemas.BAD_REFERENCE),
        ({"properties": {"a": {"$ref": "#/$defs/missing"}}}, schemas.BAD_REFERENCE),
        ({"const": {"x": {}}, "$ref": "#/const/x"}, schemas.BAD_REFERENCE),
        ({"$ref": "#"}, schemas.CIRCULAR),
        ({"not": {"$ref": "#"}}, schemas.CIRCULAR),
        ({"not": {"not": {"not": {"$ref": "#"}}}}, schemas.CIRCULAR),
        ({"allOf": [{"$ref": "#"}]}, schemas.CIRCULAR),
        ({"anyOf": [{"type": "object"}, {"$ref": "#"}]}, schemas.CIRCULAR),
        ({"oneOf": [{"$ref": "#"}]}, schemas.CIRCULAR),
        ({"if": {"$ref": "#"}}, schemas.CIRCULAR),
        ({"if": {}, "then": {"$ref": "#"}}, schemas.CIRCULAR),
        ({"if": {}, "else": {"$ref": "#"}}, schemas.CIRCULAR),
        ({"dependentSchemas": {"a/b": {"$ref": "#"}}}, schemas.CIRCULAR),
        ({"$defs": {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {"$ref": "#/$defs/a"}}}, schemas.CIRCULAR),
        ({"properties": {"a": {"not": {"$ref": "#/properties/a"}}}}, schemas.CIRCULAR),
        (chain(400), schemas.TOO_COMPLEX),
        (doubling(60), schemas.TOO_COMPLEX),
        ({"properties": {"a": {"pattern": "(?=x)y"}}}, schemas.BAD_PATTERN),
        ({"properties": {"a": {"pattern": "("}}}, schemas.BAD_PATTERN),
        ({"allOf": [{"pattern": f"a{n}"} for n in range(schemas.MAX_PATTERNS + 1)]}, schemas.TOO_MANY_PATTERNS),
        ({"allOf": [{"pattern": rf"\w{{200}}{n}"} for n in range(600)]}, schemas.TOO_MANY_PATTERNS),
        ({"allOf": [{"pattern": rf"\w{{40}}{n}"} for n in range(schemas.MAX_PATTERNS)]}, schemas.LARGE_PATTERNS),
        ({"properties": {"a": {"pattern": r"\w" * 1000}}}, schemas.LARGE_PATTERNS),
        ({"properties": {"a": {"pattern": "(a{99}){99}"}}}, schemas.LARGE_PATTERNS),
        ({"allOf": [{"$ref": "#/x-parts/a"}], "x-parts": {"a": {"type": 5}}}, schemas.BAD_REFERENCE),
        ({"patternProperties": {"(a+)+$": {}}}, "uses patternProperties"),
        ({"properties": {"a": {"unevaluatedProperties": False}}}, "uses unevaluatedProperties"),
        ({"properties": {"a": {"$id": "https://example.org/a"}}}, "uses $id"),
        ({"properties": {"a": {"type": "text"}}}, "$.properties.a.type is not valid"),
        ({"properties": ["a"]}, "$.properties is not valid"),
    ],
)
def test_refused_schemas(schema: dict[str, Any], reason: str) -> None:
    """An invalid schema, or one without a bound, is refused quickly with the reason."""
    began = time.monotonic()
    with pytest.raises(InvalidSchemaError, match=r"^") as caught:
        check_output_schema(schema)
    assert reason in str(caught.value)
    assert time.monotonic() - began < SOON_S


@pytest.mark.parametrize("schema", [{"not": {"$ref": "#"}}, chain(120), chain(160)])
def test_no_reference_ends_the_process(schema: dict[str, Any]) -> None:
    """At any stack depth of the caller, a long or endless chain of references is refused in time.

    At the end of the stack the Rust library panics, which is not an Exception.
    """
    for frames in range(200):
        with suppress(InvalidSchemaError):
            beyond(frames, lambda: output_errors(schema, {}))


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"$ref": "#"}}},
        {"properties": {"a": {"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#"}}]}}},
        {"additionalProperties": {"not": {"$ref": "#"}}},
        {"$defs": {"a": {"properties": {"b": {"$ref": "#/$defs/b"}}}, "b": {"allOf": [{"$ref": "#/$defs/a"}]}}},
    ],
)
def test_references_into_a_part_of_the_value(schema: dict[str, Any]) -> None:
    """A schema may refer to itself for the properties and items of the value."""
    check_output_schema(schema)


def test_names_are_no_keywords() -> None:
    """A property may have the name of a keyword."""
    check_output_schema(
        {"properties": {name: {"type": "string"} for name in (*schemas.UNSUPPORTED, "$ref", "pattern")}}
    )


@pytest.mark.parametrize(
    "schema",
    [
        {"x-ui": {"properties": None}},
        {"x-ui": {"properties": True}},
        {"x-foo": {"$ref": 5}},
        {"x-foo": {"pattern": {}}},
        {"dependentRequired": {"$ref": ["a"], "pattern": ["a"]}},
        {"x-foo": {"$anchor": 5, "$id": []}},
        {"default": {"$ref": 5}, "properties": {"a": {"x-foo": [{"patternProperties": 5}]}}},
    ],
)
def test_keywords_that_hold_no_schemas_are_data(schema: dict[str, Any]) -> None:
    """What a schema says beyond the keywords of JSON Schema is not read as a schema."""
    check_output_schema(schema)
    assert output_errors(schema, {}) == []


def test_patterns_of_today() -> None:
    """Sixteen patterns as authors write them pass: dates, identifiers, addresses; an equal one counts once."""
    usual = (
        r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?Z$",
        r"^[\w.+-]+@[\w-]+\.[\w.-]+$",
        "^.{1,100}$",
        "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
        "^https?://",
    )
    named = {f"p{n}": {"pattern": usual[n] if n < len(usual) else f"^{n}$"} for n in range(schemas.MAX_PATTERNS)}
    check_output_schema({"properties": {**named, "again": {"pattern": usual[0]}}})


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [{"pattern": rf"\w{{200}}{n}"} for n in range(600)]},
        {"allOf": [{"pattern": rf"\w{{40}}{n}"} for n in range(schemas.MAX_PATTERNS)]},
    ],
)
def test_a_refused_schema_compiles_nothing(schema: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Many or large patterns are refused before one of them takes time and memory."""
    compiled: list[str] = []
    monkeypatch.setattr(schemas, "_pattern", compiled.append)
    with pytest.raises(InvalidSchemaError):
        check_output_schema(schema)
    assert compiled == []


@pytest.mark.parametrize(
    ("value", "errors"),
    [
        ({"name": "Ada", "born": 1815}, []),
        ({"name": "Ada", "born": None}, []),
        ({"name": "Ada"}, ['$: required ["name","born"]']),
        ({"name": 5, "born": "1815"}, ['$.name: type "string"', '$.born: type ["integer","null"]']),
        ({"name": "Ada", "born": 1, "x": 1}, ["$: additionalProperties false"]),
        ([], ['$: type "object"']),
    ],
)
def test_errors_of_a_value(value: object, errors: list[str]) -> None:
    """An error names the position and the schema's rule, never the value."""
    assert output_errors(PERSON, value) == errors


def test_some_errors_of_many_are_told() -> None:
    """The first eight, however wrong a value is."""
    schema = {"properties": {f"p{number}": {"type": "string"} for number in range(20)}}
    wrong = dict.fromkeys(schema["properties"], 5)
    assert output_errors(schema, wrong) == [f'$.p{number}: type "string"' for number in range(8)]


def test_patterns_take_linear_time() -> None:
    """A pattern that backtracks for ever in other engines is matched at once."""
    schema = {"properties": {"a": {"pattern": "^(a+)+$"}}}
    check_output_schema(schema)
    began = time.monotonic()
    assert output_errors(schema, {"a": "a" * 5000 + "!"}) == ['$.a: pattern "^(a+)+$"']
    assert time.monotonic() - began < SOON_S


def test_references_are_counted_with_the_value() -> None:
    """A schema that is harmless for {} and doubles with each level of the value is given up."""
    schema = {"properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}}
    check_output_schema(schema)
    value: dict[str, Any] = {}
    for _ in range(30):
        value = {"a": value}
    with pytest.raises(InvalidSchemaError, match="refers to itself too often"):
        output_errors(schema, value)


def test_a_comparison_opens_no_document(tmp_path: Path) -> None:
    """Even an unchecked schema cannot read another document from the disk or the network."""
    other = tmp_path / "other.json"
    other.write_text('{"type": "string"}', encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the library warns before it opens a document
        with pytest.raises(Unresolvable):
            output_errors({"$ref": other.as_uri()}, 5)


def test_numbers_beyond_the_library() -> None:
    """A number that the library cannot compute with ends in one of the two outcomes, never in another error."""
    schema = {"properties": {"a": {"multipleOf": 1e-308}}}
    check_output_schema(schema)
    with suppress(InvalidSchemaError):
        assert output_errors(schema, {"a": 1e308}) in ([], ["$.a: multipleOf 1e-308"])


def test_a_request_names_the_field() -> None:
    """A bad schema is an error of the field `output_schema`. A valid one is kept unchanged."""
    with pytest.raises(ValidationError) as caught:
        ResearchRequest(query="What is tea?", output_schema={"type": "array"})
    [error] = caught.value.errors()
    assert (error["loc"], error["msg"]) == (("output_schema",), schemas.NO_OBJECT)
    kept = ResearchRequest(query="What is tea?", output_schema=PERSON)
    assert ResearchRequest.model_validate_json(kept.model_dump_json()).output_schema == json.loads(json.dumps(PERSON))


DIALECTS = ["https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_part_names_no_dialect(dialect: str) -> None:
    """The library would use the dialect's own patterns, which may take for ever."""
    with pytest.raises(InvalidSchemaError, match=r"\$schema"):
        check_output_schema({"type": "object", "properties": {"a": {"$schema": dialect, "pattern": "(a+)+$"}}})


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_dialect_of_the_root_lifts_no_bounds(dialect: str) -> None:
    """A root that refers to itself is compared with the bounded patterns: Python's `$` would match before the line end."""
    part = {"again": {"$ref": "#"}, "a": {"pattern": "^[a-z]+$"}}
    schema = {"$schema": dialect, "type": "object", "properties": part}
    check_output_schema(schema)
    assert output_errors(schema, {"again": {"a": "b"}}) == []
    assert output_errors(schema, {"again": {"a": "b\n"}}) != []


@pytest.mark.parametrize(
    ("items", "is_unique"),
    [
        ([1, True, "1", None, [1], {"a": 1}, {"a": True}, {"a": [1]}, [[1]], 0, False, ""], True),
        ([1, 1.0], False),
        ([{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}], False),
        ([True, True], False),
        ([[], []], False),
        ([[], {}], True),
    ],
)
def test_equal_items_are_found(items: list[Any], is_unique: bool) -> None:
    schema = {"type": "object", "properties": {"a": {"uniqueItems": True}}}
    assert (output_errors(schema, {"a": items}) == []) is is_unique
    assert output_errors(schema, {"a": "aa"}) == []


def test_equal_items_are_found_in_linear_time() -> None:
    schema = {"type": "object", "properties": {"a": {"uniqueItems": True}}}
    small, large = ([{"number": number} for number in range(count)] for count in (500, 5000))
    assert is_linear(lambda: output_errors(schema, {"a": small}), lambda: output_errors(schema, {"a": large}), 10)
