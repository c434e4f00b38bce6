"""What the requests of the Responses APIs share: the input, and the tools that a research run serves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Field, PlainValidator, TypeAdapter

from modules.llm_platform.domain.dtos.llm_dtos import MAX_MESSAGES
from modules.llm_platform.presentation.rest.compat.chat_completions import CompletionMessage
from modules.llm_platform.presentation.rest.http.body import validate
from modules.llm_platform.presentation.rest.http.problems import InvalidRequestError

MAX_TOOLS: Final = 128
MAX_NAME_CHARS: Final = 200
OWN_ITEMS: Final = frozenset({"web_search_call", "reasoning", "search_results", "fetch_url_results"})
FUNCTIONS: Final = frozenset({"function", "custom", "mcp", "namespace"})
NO_FUNCTIONS: Final = (
    "a research run searches by itself and calls no tools of the client: leave them out, or send them to a language model "
    "(GET /v1/models lists NAME/MODEL)"
)
NOT_SUPPORTED: Final = "a research run has no such tool: leave it out"

Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARS)]


class FunctionCall(BaseModel, frozen=True):
    """A call of a tool of the client, by a language model."""

    type: Literal["function_call"]
    call_id: Name
    name: Name
    arguments: str


class FunctionCallOutput(BaseModel, frozen=True):
    """The result of a call, from the client."""

    type: Literal["function_call_output"]
    call_id: Name
    output: str


def _item(value: Any) -> Any:
    """Each item by its type, so that an error has the place of the item and not one for each kind."""
    kind = value.get("type") if isinstance(value, dict) else None
    model = _CALLS.get(kind, CompletionMessage) if isinstance(kind, str) else CompletionMessage
    return TypeAdapter(model).validate_python(value)


_CALLS: Final[Mapping[str, type[BaseModel]]] = {"function_call": FunctionCall, "function_call_output": FunctionCallOutput}
AnyItem = CompletionMessage | FunctionCall | FunctionCallOutput
Item = Annotated[AnyItem, PlainValidator(_item, json_schema_input_type=AnyItem)]
Items = Annotated[tuple[Item, ...], Field(min_length=1, max_length=MAX_MESSAGES)]
_TEXT: Final = TypeAdapter(str)
_ITEMS: Final[TypeAdapter[tuple[AnyItem, ...]]] = TypeAdapter(Items)


def _text_or_items(value: Any) -> str | tuple[AnyItem, ...]:
    """Clients send the whole output of an earlier response back: its searches say nothing that the message does not say.

    An error has the place of the input that was meant, and not one for each kind.
    """
    if not isinstance(value, list | tuple):
        return _TEXT.validate_python(value, strict=True)
    return _ITEMS.validate_python([each for each in value if not _is_own_item(each)])


def _is_own_item(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(kind := item.get("type"), str) and kind in OWN_ITEMS


Input = Annotated[str | Items, PlainValidator(_text_or_items, json_schema_input_type=str | Items)]
Tools = Annotated[tuple[dict[str, Any], ...], Field(max_length=MAX_TOOLS)]


def place_of(value: str | Sequence[AnyItem]) -> tuple[str | int, ...]:
    """Return where the question was sent."""
    return ("input",) if isinstance(value, str) else ("input", len(value) - 1, "content")


def messages_of(value: str | Sequence[AnyItem], instructions: str | None) -> tuple[CompletionMessage, ...]:
    """Return the conversation of a research run, instructions first. Raises InvalidRequestError for calls of tools."""
    items = (CompletionMessage(role="user", content=value),) if isinstance(value, str) else tuple(value)
    for place, item in enumerate(items):
        if not isinstance(item, CompletionMessage):
            raise InvalidRequestError.at(("body", "input", place), NO_FUNCTIONS)
    messages = tuple(item for item in items if isinstance(item, CompletionMessage))
    return (CompletionMessage(role="system", content=instructions), *messages) if instructions else messages


def dumped(value: str | Sequence[AnyItem]) -> Any:
    """Return the input as JSON, for the store."""
    return value if isinstance(value, str) else [each.model_dump(mode="json") for each in value]


def served_tools(
    tools: Sequence[Mapping[str, Any]], known: Mapping[str, type[BaseModel]], ignored: frozenset[str] = frozenset()
) -> Iterator[BaseModel]:
    """Yield the tools of the types `known` as their models. Raises InvalidRequestError for others that are not `ignored`."""
    for place, tool in enumerate(tools):
        kind = tool.get("type")
        if isinstance(kind, str) and kind in known:
            yield _validated(known[kind], tool, place)
        elif not isinstance(kind, str) or kind not in ignored:
            reason = NO_FUNCTIONS if isinstance(kind, str) and kind in FUNCTIONS else NOT_SUPPORTED
            raise InvalidRequestError.at(("body", "tools", place), reason)


def _validated(model: type[BaseModel], tool: Mapping[str, Any], place: int) -> BaseModel:
    try:
        return validate(model, tool, "body")
    except InvalidRequestError as error:
        for each in error.errors:
            each["loc"][1:1] = ["tools", place]
        raise
