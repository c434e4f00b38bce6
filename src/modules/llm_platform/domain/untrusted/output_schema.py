"""The JSON Schema of a structured answer: what a caller may send, and the errors of a value against it.

A schema is untrusted: it may be huge, name other documents, refer to itself without end, or hold a pattern that takes for
ever. What cannot be bounded is refused (docs/adr/0046-json-schema-of-structured-answers.md).
"""

import math
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from itertools import islice
from typing import Any, Final
from urllib.parse import unquote

from pydantic_core import to_json

from modules.llm_platform.domain.untrusted.bounded_pattern import NO_EXPRESSION, BoundedPattern, pattern_size

MAX_SCHEMA_BYTES: Final = 16_384  # compact JSON; the prompt contains it
MAX_SCHEMA_DEPTH: Final = 32  # levels of JSON; an object within an object takes two
MAX_SCHEMA_PROPERTIES: Final = 200  # all objects together
MAX_REFERENCES: Final = 2000  # references followed to compare one value
FREE_FRAMES: Final = 300  # stack frames left where a reference is followed: enough for all levels of the schema
MAX_OUTPUT_ERRORS: Final = 8  # errors that are returned
MAX_PATH_CHARS: Final = 120  # longest path in an error
MAX_RULE_CHARS: Final = 120  # longest rule of the schema in an error
MAX_PATTERNS: Final = 16  # different ones of a schema
MAX_PATTERN_SIZE: Final = 2000  # all patterns together, with their counted repeats written out: 5 MB in the worst case

# The library compares these with Python's regular expressions, or follows references for them that nobody counts.
UNSUPPORTED: Final = (
    "$anchor",
    "$dynamicAnchor",
    "$dynamicRef",
    "$recursiveRef",
    "patternProperties",
    "unevaluatedItems",
    "unevaluatedProperties",
)
ROOT_ONLY: Final = ("$id", "$schema")
# The keywords that hold schemas: by name, in a list, and one. Whatever else a schema has is data of its author.
_BY_NAME: Final = frozenset({"$defs", "definitions", "dependentSchemas", "properties"})
_LISTS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SINGLE: Final = frozenset(
    {
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
    }
)
# The keywords among these that apply to the value itself, and not to a part of it.
_IN_PLACE: Final = ("allOf", "anyOf", "oneOf", "dependentSchemas", "if", "then", "else", "not")

TOO_LARGE: Final = f"has more than {MAX_SCHEMA_BYTES} bytes: describe less"
TOO_DEEP: Final = f"has more than {MAX_SCHEMA_DEPTH} levels: describe a flatter object"
NOT_FINITE: Final = "has a number that is NaN or too large, such as 1e999: leave it out"
TOO_MANY_PROPERTIES: Final = f"has more than {MAX_SCHEMA_PROPERTIES} properties: describe less"
NO_OBJECT: Final = "must be the schema of an object: put a list or a text into a property"
BAD_REFERENCE: Final = "may refer to parts of its own alone: $ref must be # or begin with #/, and name such a part"
CIRCULAR: Final = "refers to itself for the same value, without an end: put the $ref into properties or items"
TOO_COMPLEX: Final = "refers to itself too often to compare a value with it: use fewer $ref"
BAD_PATTERN: Final = f"has a pattern that {NO_EXPRESSION}: leave it out"
TOO_MANY_PATTERNS: Final = f"has more than {MAX_PATTERNS} different patterns: leave some out"
LARGE_PATTERNS: Final = (
    "has patterns with counted repeats such as {1,5000} or many classes such as \\w, which take much memory: use * or +, "
    "minLength and maxLength"
)


class InvalidSchemaError(ValueError):
    """The schema cannot be used. The message continues a sentence that begins with the name of the field."""


def check_output_schema(schema: Mapping[str, Any]) -> None:
    """Raise InvalidSchemaError if the schema is too large, no JSON Schema, or not the schema of an object."""
    _check_values(schema, 1)
    if len(to_json(schema)) > MAX_SCHEMA_BYTES:
        raise InvalidSchemaError(TOO_LARGE)
    if schema.get("type", "object") != "object":
        raise InvalidSchemaError(NO_OBJECT)
    from jsonschema import Draft202012Validator

    invalid = next(Draft202012Validator(Draft202012Validator.META_SCHEMA).iter_errors(schema), None)
    if invalid is not None:
        raise InvalidSchemaError(f"is not a JSON Schema: {_position(invalid.absolute_path)} is not valid there")
    parts = dict(_parts(schema, "#"))
    if sum(len(part.get("properties", ())) for part in parts.values()) > MAX_SCHEMA_PROPERTIES:
        raise InvalidSchemaError(TOO_MANY_PROPERTIES)
    for pointer, part in parts.items():
        _check_part(pointer, part, parts)
    try:
        TopologicalSorter({pointer: _list_in_place(pointer, part) for pointer, part in parts.items()}).prepare()
    except CycleError:
        raise InvalidSchemaError(CIRCULAR) from None
    _check_patterns({part["pattern"] for part in parts.values() if "pattern" in part})
    output_errors(schema, {})  # raises for references that multiply


def output_errors(schema: Mapping[str, Any], value: object) -> list[str]:
    """Return the first errors of a value: where, and what the checked schema says there; empty if it is valid.

    Raises InvalidSchemaError if the schema refers to itself too often.
    """
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError as Violation
    from jsonschema.validators import extend
    from referencing import Registry

    follow, count = Draft202012Validator.VALIDATORS["$ref"], iter(range(MAX_REFERENCES))

    def reference(validator: Any, target: Any, instance: Any, part: Any) -> Iterator[Any]:
        if next(count, None) is None or _is_stack_nearly_full():
            raise InvalidSchemaError(TOO_COMPLEX)
        yield from follow(validator, target, instance, part)

    def pattern(validator: Any, expression: str, instance: Any, part: Any) -> Iterator[Any]:
        if isinstance(instance, str) and not _pattern(expression).matches(instance):
            yield Violation("does not match")

    def unique_items(validator: Any, is_wished: Any, instance: Any, part: Any) -> Iterator[Any]:
        if is_wished and isinstance(instance, list) and len(set(map(_make_key, instance))) < len(instance):
            yield Violation("has equal items")

    keywords = {"$ref": reference, "pattern": pattern, "uniqueItems": unique_items}
    bounded = extend(Draft202012Validator, keywords)
    # By this keyword the library would choose its own validator, without these bounds, wherever `$ref` is `#`.
    schema = {name: part for name, part in schema.items() if name != "$schema"}
    try:
        errors = bounded(schema, registry=Registry()).iter_errors(value)  # an empty registry fetches nothing
        return [_describe(error) for error in islice(errors, MAX_OUTPUT_ERRORS)]
    except (RecursionError, ArithmeticError):
        raise InvalidSchemaError(TOO_COMPLEX) from None


def _make_key(value: Any) -> Any:
    """Return a key that equal JSON values alone share: 1 and 1.0 are equal, 1 and true are not.

    The library compares each item of a list of objects with all others.
    """
    if isinstance(value, list):
        return list, tuple(map(_make_key, value))
    if isinstance(value, dict):
        return dict, frozenset((name, _make_key(member)) for name, member in value.items())
    return isinstance(value, bool), value


def _is_stack_nearly_full() -> bool:
    """Return whether fewer frames than FREE_FRAMES are left.

    At the end of the stack the library panics in Rust, which no `except` catches.
    """
    try:
        sys._getframe(sys.getrecursionlimit() - FREE_FRAMES)
    except ValueError:
        return False
    return True


def _check_values(value: object, depth: int) -> None:
    """Raise InvalidSchemaError beyond MAX_SCHEMA_DEPTH levels, where the recursion ends, and for a number that JSON has not."""
    if depth > MAX_SCHEMA_DEPTH:
        raise InvalidSchemaError(TOO_DEEP)
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidSchemaError(NOT_FINITE)
    if isinstance(value, Mapping | list | tuple):
        for member in value.values() if isinstance(value, Mapping) else value:
            _check_values(member, depth + 1)


def _parts(value: object, pointer: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the schema and the schemas within it, by their JSON pointers."""
    if not isinstance(value, Mapping):
        return
    yield pointer, value
    for name, subschema in value.items():
        below = f"{pointer}/{_escape(name)}"
        if name in _SINGLE:
            yield from _parts(subschema, below)
        elif name in _BY_NAME:
            for key, schema in subschema.items():
                yield from _parts(schema, f"{below}/{_escape(key)}")
        elif name in _LISTS:
            for position, schema in enumerate(subschema):
                yield from _parts(schema, f"{below}/{position}")


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _check_part(pointer: str, part: Mapping[str, Any], parts: Mapping[str, Any]) -> None:
    unsupported = [
        *(name for name in UNSUPPORTED if name in part),
        *(name for name in ROOT_ONLY if name in part and pointer != "#"),
    ]
    if unsupported:
        raise InvalidSchemaError(f"uses {unsupported[0]}, which is not supported: leave it out")
    if "$ref" in part and unquote(part["$ref"]) not in parts:
        raise InvalidSchemaError(BAD_REFERENCE)


def _list_in_place(pointer: str, part: Mapping[str, Any]) -> Iterator[str]:
    """Yield the pointers of the schemas that are compared with the same value as this one."""
    if "$ref" in part:
        yield unquote(part["$ref"])
    for name in _IN_PLACE:
        if name in part:
            below = f"{pointer}/{name}"
            if name in _SINGLE:
                yield below
            else:
                positions = part[name] if name in _BY_NAME else map(str, range(len(part[name])))
                yield from (f"{below}/{_escape(position)}" for position in positions)


def _check_patterns(patterns: Collection[str]) -> None:
    """Compile the patterns if they are few and small."""
    if len(patterns) > MAX_PATTERNS:
        raise InvalidSchemaError(TOO_MANY_PATTERNS)
    if sum(map(pattern_size, patterns)) > MAX_PATTERN_SIZE:
        raise InvalidSchemaError(LARGE_PATTERNS)
    for pattern in patterns:
        try:
            _pattern(pattern)
        except ValueError:
            raise InvalidSchemaError(BAD_PATTERN) from None


_pattern = lru_cache(MAX_PATTERNS)(BoundedPattern)


def _describe(error: Any) -> str:
    """Return the place, the keyword, and what the schema says there; never the value."""
    rule = to_json(error.validator_value).decode()[:MAX_RULE_CHARS]
    return f"{_position(error.absolute_path)}: {error.validator} {rule}"


def _position(path: Iterable[str | int]) -> str:
    """Return the JSON path of an error, in characters that are safe in a log and in a prompt."""
    text = "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return re.sub(r"[^\w$.\[\]-]", "_", text)[:MAX_PATH_CHARS]
