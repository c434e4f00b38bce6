"""Tools of a client before a research run, which calls none of them: one that has to be called is the form of its answer.

Libraries that want an object bind one tool and force it: its parameters are the schema, and its call is the answer. The tools
and the choice are read in the forms of OpenAI's two APIs and of Anthropic's, whichever of them a client sends.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fastapi import Request

from modules.llm_platform.presentation.rest.compat import structured
from modules.llm_platform.presentation.rest.http.problems import InvalidRequestError
from modules.llm_platform.presentation.rest.http.request_scope import get_services

TOOL_NAME_CHARS: Final = 200
REQUIRED: Final = ("required", "any")  # OpenAI's word and Anthropic's
NAMED: Final = ("function", "tool", "custom")  # kinds of a choice that names a tool
ALLOWED: Final = "allowed_tools"
NO_PARAMETERS: Final[Mapping[str, Any]] = {"type": "object", "properties": {}}
UNKNOWN: Final = "names no function of tools: name one of them, or leave it out"
SEVERAL: Final = "asks for a call, and a research model calls one tool: name it, or send it alone"


@dataclass(frozen=True, slots=True)
class ForcedTool:
    """The tool that an answer calls, with the checked schema of its arguments."""

    name: str
    schema: dict[str, Any]


def find_forced_tool(request: Request, tools: Sequence[Mapping[str, Any]], choice: object) -> ForcedTool | None:
    """Return the tool that `choice` forces, or None if the answer may come without a call, as the answer of a research run does.

    Raises InvalidRequestError that names the field or, if no language model is configured, the setting.
    """
    functions: dict[int, str] = {}
    for position, tool in enumerate(tools):
        if tool.get("type", "function") in ("function", "custom", None):
            name = _unwrap(tool).get("name")
            functions[position] = name if isinstance(name, str) else ""
    mode, allowed = _read_mode(choice)
    if mode == "named":
        found = [position for position, name in functions.items() if name in allowed]
        if not found:
            raise _make_refusal(UNKNOWN)
    elif mode in REQUIRED:
        found = [position for position, name in functions.items() if not allowed or name in allowed]
        if not functions and len(tools):
            return None  # The tools are the service's own, such as a search, which a research run makes in any case.
        if len(found) != 1:
            raise _make_refusal(SEVERAL if found else UNKNOWN)
    else:
        return None
    if not get_services(request).llm.models:
        raise _make_refusal(
            "asks for a call, whose arguments a language model writes, and none is set up: set LLM_API_KEY with LLM_MODEL"
        )
    position = found[0]
    name = functions[position]
    if not 0 < len(name) <= TOOL_NAME_CHARS:
        raise InvalidRequestError.at(("body", "tools", position), f"needs a name of 1 to {TOOL_NAME_CHARS} characters")
    inner = _unwrap(tools[position])
    parameters = inner.get("parameters", inner.get("input_schema"))
    schema = NO_PARAMETERS if parameters is None else parameters
    return ForcedTool(name, structured.check_schema(schema, "tools", position))


def _unwrap(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the object that has the name. Chat completions have one more level than the other APIs."""
    inner = value.get("function")
    return inner if isinstance(inner, Mapping) else value


def _read_mode(choice: object) -> tuple[str, frozenset[str]]:
    """Return the mode of a choice and the names that it allows. No name means all."""
    if isinstance(choice, str):
        return choice, frozenset()
    if not isinstance(choice, Mapping):
        return "auto", frozenset()
    kind = choice.get("type")
    if kind == ALLOWED:  # Chat completions have one more level here, too.
        inner = choice.get(ALLOWED)
        listed = inner if isinstance(inner, Mapping) else choice
        named = listed.get("tools")
        names = (
            (_unwrap(tool).get("name") for tool in named if isinstance(tool, Mapping))
            if isinstance(named, list)
            else ()
        )
        return str(listed.get("mode", "auto")), frozenset(name for name in names if isinstance(name, str))
    if kind in NAMED:
        name = _unwrap(choice).get("name")
        return "named", frozenset([name] if isinstance(name, str) else [])
    return kind if isinstance(kind, str) else "auto", frozenset()


def _make_refusal(message: str) -> InvalidRequestError:
    return InvalidRequestError.at(("body", "tool_choice"), message)


def list_ignored_fields(names: Iterable[str], tool: ForcedTool | None, tools: Sequence[Any]) -> tuple[str, ...]:
    """Return the `names` of fields without effect, and `response_format` if a tool is forced.

    A forced tool gives `tool_choice` an effect, and `tools` as well if it is the only tool.
    """
    if tool is None:
        return tuple(names)
    served = ("tool_choice",) if len(tools) > 1 else ("tool_choice", "tools")
    return (*(name for name in names if name not in served), "response_format")
