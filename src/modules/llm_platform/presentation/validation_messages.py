"""The messages for invalid fields, instead of pydantic's wording: what is wrong, and what is allowed."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

# By pydantic's type of the error, where its message does not say what is allowed, or says it in Python's words.
MESSAGES: Final[Mapping[str, str]] = {
    "missing": "is missing",
    "extra_forbidden": "is not a known field",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "int_from_float": "must be a valid integer",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "dict_type": "must be a JSON object",
    "model_type": "must be a JSON object",
    "model_attributes_type": "must be a JSON object",
    "bytes_type": "must be a valid string",
}
OWN_MESSAGE: Final = "Value error, "  # pydantic's prefix of the message of a validator

_SHOULD = re.compile(r"^[A-Z]\w* should\b")
_REST = re.compile(r"(?:, unable to| after validation, not ).*", re.DOTALL)  # what pydantic made of the value


# What pydantic adds to the place of an error where a field takes one of several types: `constrained-str`, `tuple[Part, ...]`.
_ALTERNATIVE = re.compile(
    r"(?:str|int|float|bool|none|dict|list|tuple)|(?:constrained|function|lax|json|nullable|model|is)-.*"
    r"|[\w-]+\[.*",
    re.DOTALL,
)


def select_causes(details: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the errors of pydantic, without those that only follow from others.

    Left out are `too_short` for a list whose items are invalid, and the type error of one alternative of a union if another
    alternative, whose type the value has, has an error as well.
    """
    lists = {detail["loc"][:end] for detail in details for end in range(len(detail["loc"]))}
    causes = [detail for detail in details if detail["type"] != "too_short" or detail["loc"] not in lists]
    typed = {
        tuple(place[:end])
        for detail in causes
        for place in [get_field_location(detail["loc"])]
        for end in range(len(place) + (not _is_type_error(detail)))
    }
    return [
        detail
        for detail in causes
        if not (_is_type_error(detail) and tuple(get_field_location(detail["loc"])) in typed)
    ]


def _is_type_error(detail: Mapping[str, Any]) -> bool:
    return str(detail["type"]).endswith("_type")


def get_field_location(location: Iterable[str | int]) -> list[str | int]:
    """Return the place of an error as a client sent it: names of fields and places in lists, and no type of this program."""
    return [part for part in location if isinstance(part, int) or not _ALTERNATIVE.fullmatch(part)]


def write_validation_message(kind: str, message: str) -> str:
    """Return the message for an error of pydantic, to follow the name of a field. It does not contain the value."""
    if message.startswith(OWN_MESSAGE):
        return message.removeprefix(OWN_MESSAGE)
    return MESSAGES.get(kind) or _SHOULD.sub("must", _REST.sub("", message))
