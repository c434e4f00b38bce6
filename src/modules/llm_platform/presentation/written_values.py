"""Arguments as language models write them: numbers and truth values as strings, and empty strings for what is left out."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Final, Literal, get_args, get_origin

from pydantic import BaseModel

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}(?:\.0{1,9})?")
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,18}(?:\.[0-9]{1,18})?")
_TRUTH: Final[Mapping[str, bool]] = {"true": True, "false": False}


def read_written_values(model: type[BaseModel], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a request, with strings converted where the field takes a number or a boolean.

    An empty string is left out unless the field is required. A string does not change if the field takes strings, or if it
    cannot be converted: the validation then names the field.
    """
    read: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, str) and name in model.model_fields:
            if not value.strip() and not model.model_fields[name].is_required():
                continue
            value = _read(value.strip(), value, _list_scalars(model, name))
        read[name] = value
    return read


def _read(text: str, written: str, scalars: frozenset[type]) -> Any:
    if str in scalars:
        return written
    if bool in scalars and text.lower() in _TRUTH:
        return _TRUTH[text.lower()]
    if int in scalars and _INTEGER.fullmatch(text):
        return int(text.partition(".")[0])
    return float(text) if float in scalars and _NUMBER.fullmatch(text) else written


@cache
def _list_scalars(model: type[BaseModel], name: str) -> frozenset[type]:
    """Return the types of single values that a field takes."""
    return frozenset(_list_types(model.model_fields[name].annotation))


def _list_types(annotation: Any) -> Iterator[type]:
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _list_types(get_args(annotation)[0])
    elif origin is Literal:
        return  # its values are listed
    elif origin is None:
        if isinstance(annotation, type):
            yield annotation
    elif origin not in (tuple, list, dict):
        for part in get_args(annotation):  # the parts of a union
            yield from _list_types(part)
