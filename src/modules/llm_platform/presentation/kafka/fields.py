"""The rules of single fields: each takes a value as JSON gave it and returns what it means, or raises RequestError.

None is what an optional field is when it was not given.
"""

from __future__ import annotations

from typing import Any, Final

from modules.llm_platform.domain.dtos.retrieval_dtos import ContextItem, Filters
from modules.llm_platform.domain.dtos.web_search_dtos import clean_query
from modules.llm_platform.presentation.kafka.request_error import RequestError

MAX_ID_CHARS: Final = 1000
MAX_TENANT_CHARS: Final = 1000
MAX_FILTERS: Final = 100  # keys
MAX_FILTER_VALUES: Final = 1000  # of one key
MAX_CONTEXT_ITEMS: Final = 1000
LARGEST_TOP_K: Final = 1_000_000  # what is larger means the same: as many as there may be

RESERVED_ID: Final = "unparsable:"

_CONTEXT_FIELDS: Final = tuple(ContextItem.model_fields)


def text(value: Any, field: str, path: str = "") -> str:
    """A string that can be written as UTF-8."""
    if type(value) is not str:
        raise RequestError(field, "wrong_type", path)
    if not value.isascii() and not _is_unicode(value):
        raise RequestError(field, "not_unicode", path)
    return value


def request_id(value: Any) -> str:
    """One to MAX_ID_CHARS characters that do not look like an id of ours."""
    if value is None or value == "":
        raise RequestError("request_id", "empty_or_missing")
    identity = text(value, "request_id")
    if len(identity) > MAX_ID_CHARS:
        raise RequestError("request_id", "too_long")
    if identity.startswith(RESERVED_ID):
        raise RequestError("request_id", "reserved")
    return identity


def tenant(value: Any, name: str) -> str:
    """Who is named in the field `name` of metadata: one to MAX_TENANT_CHARS characters."""
    path = f"metadata.{name}"
    if not value:
        raise RequestError("metadata", "tenant_missing", path)
    named = text(value, "metadata", path)
    if len(named) > MAX_TENANT_CHARS:
        raise RequestError("metadata", "too_long", path)
    return named


def question(value: Any, field: str) -> str:
    """A query or question without blanks around it: of any length, with something that can be seen."""
    if value is None:
        raise RequestError(field, "empty_or_missing")
    asked = text(value, field)
    if "\x00" in asked:
        raise RequestError(field, "nul_character")
    try:
        return clean_query(asked)
    except ValueError as error:
        raise RequestError(field, "empty_or_missing") from error


def top_k(value: Any) -> int | None:
    """A whole number from 1; 5.0 is one too, as JSON Schema has it, and true is not."""
    if value is None:
        return None
    if type(value) is float and value.is_integer():
        value = int(min(value, LARGEST_TOP_K))
    if type(value) is not int:
        raise RequestError("top_k", "wrong_type")
    if value < 1:
        raise RequestError("top_k", "out_of_range")
    return min(value, LARGEST_TOP_K)


def filters(value: Any) -> Filters:
    """Key to values; a key without values is not given."""
    if value is None:
        return {}
    if type(value) is not dict:
        raise RequestError("filters", "wrong_type")
    if len(value) > MAX_FILTERS:
        raise RequestError("filters", "too_many")
    return {text(key, "filters"): _values(listed) for key, listed in value.items() if listed not in (None, [])}


def _values(listed: Any) -> tuple[str, ...]:
    if type(listed) is not list:
        raise RequestError("filters", "wrong_type")
    if len(listed) > MAX_FILTER_VALUES:
        raise RequestError("filters", "too_many")
    return tuple(text(value, "filters") for value in listed)


def context(value: Any) -> tuple[ContextItem, ...]:
    """The pieces in their order; one that says nothing is left out."""
    if value is None:
        return ()
    if type(value) is not list:
        raise RequestError("context", "wrong_type")
    if len(value) > MAX_CONTEXT_ITEMS:
        raise RequestError("context", "too_many")
    items = [_context_item(item, f"context[{number}]") for number, item in enumerate(value)]
    return tuple(item for item in items if item is not None)


def _context_item(value: Any, path: str) -> ContextItem | None:
    if type(value) is not dict:
        raise RequestError("context", "wrong_type", path)
    given = {
        name: text(value[name], "context", f"{path}.{name}")
        for name in _CONTEXT_FIELDS
        if value.get(name) not in (None, "")
    }
    return ContextItem(**given) if given else None


def _is_unicode(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
