"""The common part of requests to the Responses APIs: the input, and the tools that a research run serves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple

from pydantic import BaseModel, Field, TypeAdapter, WrapValidator
from pydantic_core import PydanticKnownError

from modules.llm_platform.domain.dtos.llm_dtos import MAX_MESSAGES, MAX_TOOLS
from modules.llm_platform.presentation.rest.compat.chat_completions import (
    NO_QUESTION,
    TOOL,
    CompletionMessage,
    count_turns_up_to_question,
)
from modules.llm_platform.presentation.rest.compat.content import Content, join_text, require_text
from modules.llm_platform.presentation.rest.http.body import validate
from modules.llm_platform.presentation.rest.http.problems import InvalidRequestError

ITEM_NAME_CHARS: Final = 200
# Tools of the client; a research run does without them.
NOT_STORED: Final = "this item is not stored: send the item itself (AI SDK: providerOptions.openai.store = false)"

Name = Annotated[str, Field(min_length=1, max_length=ITEM_NAME_CHARS)]


class FunctionCall(BaseModel, frozen=True):
    """A call of a tool of the client, by a language model."""

    role: ClassVar = TOOL
    type: Literal["function_call"]
    call_id: Name
    name: Name
    arguments: str


class FunctionCallOutput(BaseModel, frozen=True):
    """The result of a call, from the client."""

    role: ClassVar = TOOL
    type: Literal["function_call_output"]
    call_id: Name
    output: Content

    @property
    def text(self) -> str:
        return join_text(self.output)


class ItemReference(BaseModel, frozen=True):
    """An item of an earlier response, by its id."""

    type: Literal["item_reference"] | None = None
    id: Name


class OwnItem(BaseModel, frozen=True):
    """A step of an earlier response. Clients send the whole output back, and its message says what the steps found."""

    type: Literal["web_search_call", "reasoning", "search_results", "fetch_url_results"]


AnyItem = CompletionMessage | FunctionCall | FunctionCallOutput | ItemReference | OwnItem
_BY_TYPE: Final[Mapping[str, type[BaseModel]]] = {
    "function_call": FunctionCall,
    "function_call_output": FunctionCallOutput,
    "item_reference": ItemReference,
    **dict.fromkeys(("web_search_call", "reasoning", "search_results", "fetch_url_results"), OwnItem),
}


def _check_item(value: Any, _: object) -> Any:
    """Validate an item by its type, so that an error has the place of the item and not one for each kind."""
    return TypeAdapter(_choose_model(value)).validate_python(value)


def _choose_model(value: Any) -> type[BaseModel]:
    if not isinstance(value, dict):
        return CompletionMessage
    if value.get("type") is None and "id" in value and "role" not in value:
        return ItemReference
    kind = value.get("type")
    return _BY_TYPE.get(kind, CompletionMessage) if isinstance(kind, str) else CompletionMessage


Item = Annotated[AnyItem, WrapValidator(_check_item)]
Items = Annotated[tuple[Item, ...], Field(min_length=1, max_length=MAX_MESSAGES)]
_TEXT: Final = TypeAdapter(str)
_ITEMS: Final[TypeAdapter[tuple[AnyItem, ...]]] = TypeAdapter(tuple[Item, ...])


def _check_text_or_items(value: Any, _: object) -> str | tuple[AnyItem, ...]:
    """Validate the input by its kind, so that an error has one place. Our own items do not count."""
    if not isinstance(value, list | tuple):
        return _TEXT.validate_python(value, strict=True)
    items = _ITEMS.validate_python(value)
    count = sum(not isinstance(item, OwnItem) for item in items)
    if count > MAX_MESSAGES:
        raise PydanticKnownError("too_long", {"field_type": "List", "max_length": MAX_MESSAGES, "actual_length": count})
    if not count:
        raise PydanticKnownError("too_short", {"field_type": "List", "min_length": 1, "actual_length": 0})
    return items


# No PlainValidator: pydantic writes such a field with warnings that quote it, into the log of the server.
Input = Annotated[str | Items, WrapValidator(_check_text_or_items)]
Tools = Annotated[tuple[dict[str, Any], ...], Field(max_length=MAX_TOOLS)]


class Conversation(NamedTuple):
    """The messages of a research run, with the question last, and the location at which the client sent the question."""

    messages: tuple[CompletionMessage, ...]
    position: tuple[str | int, ...]


def read_conversation(value: str | Sequence[AnyItem], instructions: str | None) -> Conversation:
    """Return the conversation of a research run, instructions first. Calls of tools and their results are left out.

    Raises InvalidRequestError for a reference, and if there is no message.
    """
    before = (CompletionMessage(role="system", content=instructions),) if instructions else ()
    if isinstance(value, str):
        return Conversation((*before, CompletionMessage(role="user", content=value)), ("input",))
    turns: list[tuple[int, CompletionMessage | FunctionCall | FunctionCallOutput]] = []
    for position, item in enumerate(value):
        if isinstance(item, ItemReference):
            raise not_stored(position)
        if isinstance(item, CompletionMessage):
            require_text(item.content, "input", position, "content")
        if not isinstance(item, OwnItem):
            turns.append((position, item))
    last = count_turns_up_to_question([item.role for _, item in turns])
    messages = {position: item for position, item in turns[:last] if isinstance(item, CompletionMessage)}
    if not messages:
        raise InvalidRequestError.at(("body", "input"), NO_QUESTION)
    return Conversation((*before, *messages.values()), ("input", max(messages), "content"))


def not_stored(position: int) -> InvalidRequestError:
    """Return the error for a reference to an item that cannot be found."""
    return InvalidRequestError.at(("body", "input", position), NOT_STORED)


def dump_input(value: str | Sequence[AnyItem]) -> Any:
    """Return the input as JSON, for the store, without our own items."""
    if isinstance(value, str):
        return value
    return [item.model_dump(mode="json") for item in value if not isinstance(item, OwnItem)]


def read_served_tools(
    tools: Sequence[Mapping[str, Any]],
    known: Mapping[str, type[BaseModel]],
    ignored: frozenset[str] = frozenset(),
) -> Iterator[BaseModel]:
    """Yield the tools of the types `known` as their models. Raises InvalidRequestError for others that are not `ignored`, and
    no functions.
    """
    for position, tool in enumerate(tools):
        kind = tool.get("type")
        if isinstance(kind, str) and kind in known:
            yield _validate_tool(known[kind], tool, position)
        elif not isinstance(kind, str) or kind not in ignored | {"function", "custom", "namespace"}:
            raise InvalidRequestError.at(("body", "tools", position), "a research run has no such tool: leave it out")


def _validate_tool(model: type[BaseModel], tool: Mapping[str, Any], position: int) -> BaseModel:
    try:
        return validate(model, tool, "body")
    except InvalidRequestError as error:
        for problem in error.errors:
            problem["loc"][1:1] = ["tools", position]
        raise
