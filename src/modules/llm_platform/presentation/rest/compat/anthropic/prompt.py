"""A conversation of the Messages API as the prompt of a configured language model, in the form of chat completions.

Reference of the vendor: https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/implement-tool-use
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from modules.llm_platform.domain.dtos.llm_dtos import MAX_ANSWER_TOKENS, ConfiguredModel, LLMRequest
from modules.llm_platform.domain.text.tokens import count_tokens
from modules.llm_platform.presentation.rest.compat import chat_completions, client_tools, structured
from modules.llm_platform.presentation.rest.compat.anthropic.request import (
    AnthropicMessagesRequest,
    AnthropicTokensRequest,
    AnthropicTool,
    AnthropicToolChoice,
    ContentBlock,
)
from modules.llm_platform.presentation.rest.compat.prompts import validate_prompt
from modules.llm_platform.presentation.rest.http.body import validate

MEDIA_TOKENS: Final = 1600  # An image or a page of a file: the vendor's own estimate for a large image.
FORWARDED: Final = ("top_p", "top_k")
DOCUMENT_TAGS: Final = ("document", "passage", "file", "chunk")  # The gateway reads each as a passage.
FIELDS: Final = {"stop": "stop_sequences", "response_format": "output_config"}  # fields of chat completions, and ours
CHOICES: Final = {"auto": "auto", "any": "required", "none": "none"}

NO_BLOCK: Final = "a language model takes text, images, documents, and tools with their results"

Turn = dict[str, Any]


def make_llm_request(model: ConfiguredModel, body: AnthropicTokensRequest) -> LLMRequest:
    """Return the prompt. Raises InvalidRequestError that names what a language model cannot get."""
    turns = list(_list_turns(body))
    values: Turn = {
        "messages": [turn for _, turn in turns],
        "provider": model.provider,
        "model": model.model,
        "extra": dict(_list_extra_fields(body)),
        "as_it_comes": True,
    }
    if isinstance(body, AnthropicMessagesRequest):
        values["max_tokens"] = min(body.max_tokens, MAX_ANSWER_TOKENS)
        if body.temperature is not None:
            values["temperature"] = float(body.temperature)
    return validate_prompt(values, lambda number, name: (turns[number][0],), names=FIELDS)


def count_prompt_tokens(prompt: LLMRequest) -> int:
    """Return the tokens of a prompt with its tools, as this server counts them."""
    said = [text for turn in prompt.messages for text in (turn.content, turn.reasoning)]
    calls = [json.dumps(turn.tool_calls) for turn in prompt.messages if turn.tool_calls]
    tools = [json.dumps(prompt.extra["tools"])] if "tools" in prompt.extra else []
    media = sum(1 for turn in prompt.messages for part in turn.parts if part["type"] != "text")
    return sum(map(count_tokens, [*said, *calls, *tools])) + MEDIA_TOKENS * media


def _list_turns(body: AnthropicTokensRequest) -> Iterator[tuple[str, Turn]]:
    """Yield the turns of a chat, each with the name of the field that it comes from."""
    if body.system:
        yield "system", {"role": "system", "content": _join_text(body.system, "system")}
    for position, turn in enumerate(body.messages):
        field = f"messages.{position}.content"
        if turn.role == "system":
            yield field, {"role": "system", "content": _join_text(turn.content, field)}
        elif isinstance(turn.content, str):
            yield field, {"role": turn.role, "content": turn.content}
        elif turn.role == "assistant":
            yield field, _read_reply(turn.content)
        else:
            yield from ((field, read) for read in _read_turns(turn.content, field))


def _join_text(content: str | Sequence[ContentBlock], field: str) -> str:
    if isinstance(content, str):
        return content
    for position, block in enumerate(content):
        if block.type != "text":
            raise chat_completions.make_refusal(f"{field}.{position}", NO_BLOCK)
    return "\n".join(block.text or "" for block in content)


def _read_reply(blocks: Sequence[ContentBlock]) -> Turn:
    """Return what the model said: text, calls of tools, and its thoughts. Searches of a research model are in its text."""
    calls = [
        {
            "id": _get_string(block, "id"),
            "type": "function",
            "function": {
                "name": _get_string(block, "name"),
                "arguments": json.dumps(_get_extra_fields(block).get("input") or {}),
            },
        }
        for block in blocks
        if block.type == "tool_use" and _get_string(block, "name")
    ]
    return {
        "role": "assistant",
        "content": "".join(block.text or "" for block in blocks if block.type == "text"),
        "reasoning": "\n".join(_get_string(block, "thinking") for block in blocks if block.type == "thinking"),
        "tool_calls": calls,
    }


def _read_turns(blocks: Sequence[ContentBlock], field: str) -> Iterator[Turn]:
    """Yield the results of tools, each a turn of its own right after the calls, then what the user says and shows."""
    parts: list[Turn] = []
    for position, block in enumerate(blocks):
        if block.type != "tool_result":
            parts.append(_convert_block(block, f"{field}.{position}"))
            continue
        content = _get_extra_fields(block).get("content")
        inner = content if isinstance(content, list) else [{"type": "text", "text": content}] if content else []
        shown = [_convert_block(found, f"{field}.{position}.content") for found in map(_check_block, inner)]
        texts = [part["text"] for part in shown if part["type"] == "text"]
        yield {"role": "tool", "content": "\n".join(texts), "tool_call_id": _get_string(block, "tool_use_id")}
        parts.extend(part for part in shown if part["type"] != "text")  # Services accept only texts from a tool.
    texts = [part["text"] for part in parts if part["type"] == "text"]
    if len(texts) < len(parts):
        yield {"role": "user", "content": "\n".join(texts), "parts": parts}
    elif parts or not blocks:
        yield {"role": "user", "content": "\n".join(texts)}


def _check_block(value: object) -> ContentBlock:
    return validate(ContentBlock, value if isinstance(value, dict) else {"type": "text", "text": str(value)}, "body")


def _convert_block(block: ContentBlock, field: str) -> Turn:
    """Return a block as a part of chat completions. Raises InvalidRequestError for one without its data."""
    more = _get_extra_fields(block)
    if block.type == "text":
        return {"type": "text", "text": block.text or ""}
    if block.type == "search_result":
        text = _make_document(
            _get_string(block, "title"), _get_string(block, "source"), _join_texts(more.get("content"))
        )
        return {"type": "text", "text": text}
    if block.type not in ("image", "document"):
        raise chat_completions.make_refusal(field, NO_BLOCK)
    source = more.get("source")
    known: Mapping[str, Any] = source if isinstance(source, dict) else {}
    data, media_type = known.get("data"), known.get("media_type")
    if block.type == "document" and known.get("type") in ("text", "content"):
        text = data if isinstance(data, str) else _join_texts(known.get("content"))
        return {"type": "text", "text": _make_document(_get_string(block, "title"), "", text)}
    if known.get("type") != "base64" or not isinstance(data, str) or not isinstance(media_type, str):
        raise chat_completions.make_refusal(field, "must contain its data: send base64, not a URL or a file id")
    url = f"data:{media_type};base64,{data}"
    if block.type == "image":
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "file", "file": {"filename": _get_string(block, "title") or "document", "file_data": url}}


def _make_document(title: str, source: str, text: str) -> str:
    """Return a document as the vendor advises to write it into a prompt. The tag is one that the text does not close."""
    folded = text.lower()
    tag = next((tag for tag in DOCUMENT_TAGS if f"</{tag}" not in folded), None)
    if tag is None:
        tag, text = DOCUMENT_TAGS[0], text.replace("</", "< /")
    named = {"title": title, "source": source}
    heads = [f"<{name}>{' '.join(value.replace('<', ' ').split())}</{name}>" for name, value in named.items() if value]
    return "\n".join([f"<{tag}>", *heads, "<document_content>", text, "</document_content>", f"</{tag}>"])


def _join_texts(content: object) -> str:
    """Return a text, or the texts of a list of blocks."""
    if isinstance(content, str):
        return content
    return "\n".join(_get_string(_check_block(found), "text") for found in content) if isinstance(content, list) else ""


def _get_extra_fields(block: ContentBlock) -> Mapping[str, Any]:
    return block.model_extra or {}


def _get_string(block: ContentBlock, name: str) -> str:
    value = getattr(block, name, None)
    return value if isinstance(value, str) else ""


def _list_extra_fields(body: AnthropicTokensRequest) -> Iterator[tuple[str, Any]]:
    """Yield the fields that the service gets, in the form of chat completions."""
    functions = [_convert_tool(tool, position) for position, tool in enumerate(body.tools or ())]
    if functions:
        yield "tools", functions
    if not isinstance(body, AnthropicMessagesRequest):
        return
    if body.tool_choice is not None and functions:
        yield "tool_choice", _convert_choice(body.tool_choice, {function["function"]["name"] for function in functions})
        if (body.tool_choice.model_extra or {}).get("disable_parallel_tool_use") is True:
            yield "parallel_tool_calls", False
    if body.stop_sequences:
        yield "stop", list(body.stop_sequences)
    for name in FORWARDED:
        if (value := getattr(body, name)) is not None:
            yield name, value
    answer_format, _ = body.answer_format
    if answer_format is not None:
        is_schema = structured.is_schema(answer_format)
        yield "response_format", structured.convert_for_chat(answer_format) if is_schema else answer_format


def _convert_tool(tool: Any, position: int) -> Turn:
    more: Mapping[str, Any] = getattr(tool, "model_extra", None) or {}
    if not isinstance(tool, AnthropicTool) or tool.type not in (None, "custom") or not tool.name:
        raise chat_completions.make_refusal(
            f"tools.{position}",
            "a language model takes functions of the client alone, and only the research models search: leave it out",
        )
    described = {"description": more["description"]} if isinstance(more.get("description"), str) else {}
    parameters = more.get("input_schema")
    schema = client_tools.NO_PARAMETERS if parameters is None else parameters
    return {"type": "function", "function": {"name": tool.name, **described, "parameters": schema}}


def _convert_choice(choice: AnthropicToolChoice, names: set[str]) -> str | Turn:
    if choice.type == "tool":
        if choice.name not in names:
            raise chat_completions.make_refusal("tool_choice", client_tools.UNKNOWN)
        return {"type": "function", "function": {"name": choice.name}}
    if choice.type not in CHOICES:
        raise chat_completions.make_refusal("tool_choice", "must have the type auto, any, tool or none")
    return CHOICES[choice.type]
