"""OpenAI's Responses API before a configured language model, which is asked for a chat completion."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, assert_never

from fastapi import Request, Response

from modules.llm_platform.domain.dtos.llm_dtos import ChatMessage, ConfiguredModel, LLMRequest, LLMResponse
from modules.llm_platform.domain.research.transcript_task import TranscriptTask
from modules.llm_platform.presentation.rest.chat_routes import ChatDone, ChatEvent, stream_chat
from modules.llm_platform.presentation.rest.compat import chat_completions, dialect, transcripts
from modules.llm_platform.presentation.rest.compat.content import convert_for_model
from modules.llm_platform.presentation.rest.compat.openai.response_request import SAMPLING, OpenaiResponsesRequest
from modules.llm_platform.presentation.rest.compat.openai.response_writer import OpenaiResponseWriter
from modules.llm_platform.presentation.rest.compat.prompts import Place, validate_prompt
from modules.llm_platform.presentation.rest.compat.responses import inputs, runs
from modules.llm_platform.presentation.rest.compat.responses.writer import ResponseEncoder
from modules.llm_platform.presentation.rest.compat.structured import convert_for_chat, is_schema
from modules.llm_platform.presentation.rest.compat.verified_answers import open_check, verify_events
from modules.llm_platform.presentation.rest.http.disconnect import run_until_disconnect
from modules.llm_platform.presentation.rest.http.request_scope import get_caller_id, get_services, request_id
from modules.llm_platform.presentation.rest.http.sse import EventStream

REFUSED: Final = {
    "background": "only the research models run in the background: call this model without background",
}
IGNORED: Final = ("max_tool_calls", "include", "store")
IGNORED_BY_RULES: Final = (*IGNORED, "max_output_tokens", "tools", *SAMPLING)
# Fields of chat completions, and where this API has them.
FIELDS: Final = {"reasoning_effort": "reasoning", "response_format": "text"}


async def respond(request: Request, body: OpenaiResponsesRequest, model: ConfiguredModel) -> Response:
    """Answer with a language model. Its turns are kept for an hour, for `previous_response_id`."""
    chat_completions.refuse_fields(body, REFUSED)
    llm, owner = get_services(request).llm, get_caller_id(request)
    before = await llm.load_kept_turns(owner, body.previous_response_id) if body.previous_response_id else ()
    prompt = _make_prompt(model, body, before)
    turns = prompt.messages[bool(body.instructions) :]  # The next response has instructions of its own.
    writer = _make_writer(request, body)
    checked = writer.checked = open_check(request, prompt)

    async def keep(answer: LLMResponse) -> None:
        if body.store is not False:
            said = ChatMessage(role="assistant", content=answer.content, tool_calls=answer.tool_calls)
            await llm.keep_turns(owner, writer.id, (*turns, said))

    ignored = (
        *(name for name in IGNORED if getattr(body, name)),
        *(FIELDS.get(name, name) for name in model.ignored_fields),
    )
    if body.stream:
        events = _keep_events(verify_events(stream_chat(llm, prompt, writer.id), checked), keep)
        return dialect.report_ignored(
            await EventStream.start_soon(request, events, ResponseEncoder(writer)), body, *ignored
        )
    answer = await run_until_disconnect(request, llm.generate(prompt))
    if checked is not None:
        answer = answer.model_copy(update={"content": await checked.check_whole(answer.content)})
    await keep(answer)
    response = dialect.make_json_answer(writer.of_llm(answer), body, *ignored)
    response.headers.update(checked.headers() if checked is not None else {})
    return response


async def answer_task(request: Request, body: OpenaiResponsesRequest, task: TranscriptTask) -> Response:
    """Answer a task about a transcript with the first language model, and without one by rules.

    Tools that only the research models have are left out, and so is an earlier response: the task has its own transcript.
    """
    functions = tuple(tool for tool in body.tools or () if tool.get("type") == "function")
    dropped: dict[str, Any] = {"previous_response_id": None, "tools": functions or None}
    if not functions:
        dropped["tool_choice"] = None
    model = transcripts.find_model_for_tasks(request)
    if model is not None:
        return await respond(request, body.model_copy(update=dropped), model)
    writer, answer = _make_writer(request, body), transcripts.rule_answer(task, body.text_format)
    if not body.stream:
        return dialect.make_json_answer(writer.of_llm(answer), body, *IGNORED_BY_RULES)
    events = transcripts.make_chat_events(answer, writer.id)
    stream = await EventStream.start_soon(request, events, ResponseEncoder(writer))
    return dialect.report_ignored(stream, body, *IGNORED_BY_RULES)


def _make_writer(request: Request, body: OpenaiResponsesRequest) -> OpenaiResponseWriter:
    envelope = runs.make_envelope(request, body.model, background=False, store=False, echo=body.echo)
    return OpenaiResponseWriter(request_id(request), envelope)


async def _keep_events(
    events: AsyncGenerator[ChatEvent, None], keep: Callable[[LLMResponse], Awaitable[None]]
) -> AsyncGenerator[ChatEvent, None]:
    """Yield the events. The answer is stored before its last event, because a client may refer to it at once."""
    async with aclosing(events):
        async for event in events:
            if isinstance(event, ChatDone):
                await keep(event.response)
            yield event


def _make_prompt(model: ConfiguredModel, body: OpenaiResponsesRequest, before: Sequence[ChatMessage]) -> LLMRequest:
    sent = _join_calls(_list_turns(body.input))
    instructions = ({"role": "system", "content": body.instructions},) if body.instructions else ()
    values: dict[str, Any] = {
        "messages": [*instructions, *before, *(turn for _, turn in sent)],
        "provider": model.provider,
        "model": model.model,
        "max_tokens": body.max_output_tokens,
        "extra": dict(_list_extra_fields(body)),
        "as_it_comes": True,
    }
    if body.temperature is not None:
        values["temperature"] = float(body.temperature)
    first = len(instructions) + len(before)

    def locate(number: int, name: str) -> Place:
        return sent[number - first][0] if number >= first else ("input",)

    return validate_prompt(values, locate, "input", FIELDS)


def _list_turns(sent: str | Sequence[inputs.AnyItem]) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Yield the input as turns of a chat, each with its place in the body. Raises InvalidRequestError for a reference."""
    if isinstance(sent, str):
        yield ("input",), {"role": "user", "content": sent}
        return
    for position, item in enumerate(sent):
        match item:
            case inputs.ItemReference():
                raise inputs.not_stored(position)
            case inputs.FunctionCall():
                function = {"name": item.name, "arguments": item.arguments}
                call = {"id": item.call_id, "type": "function", "function": function}
                yield ("input", position), {"role": "assistant", "content": "", "tool_calls": [call]}
            case inputs.FunctionCallOutput():
                turn = {"role": "tool", **convert_for_model(item.output), "tool_call_id": item.call_id}
                yield ("input", position, "output"), turn
            case chat_completions.CompletionMessage():
                turn = {"role": item.role.replace("developer", "system"), **convert_for_model(item.content)}
                yield ("input", position, "content"), turn
            case inputs.OwnItem():  # The message says what the step found.
                continue
            case _:
                assert_never(item)


def _join_calls(turns: Iterable[tuple[Place, dict[str, Any]]]) -> list[tuple[Place, dict[str, Any]]]:
    """Return the turns with calls and a text of the assistant that follow one another in one turn, as models expect them."""
    joined: list[tuple[Place, dict[str, Any]]] = []
    for place, turn in turns:
        at, before = joined[-1] if joined and joined[-1][1]["role"] == "assistant" else (place, {})
        if before and turn.get("tool_calls"):
            joined[-1] = at, {**before, "tool_calls": [*before.get("tool_calls", ()), *turn["tool_calls"]]}
        elif before.get("tool_calls") and turn["role"] == "assistant":
            joined[-1] = at, {**before, "content": "\n\n".join(filter(None, (before["content"], turn["content"])))}
        else:
            joined.append((place, turn))
    return joined


def _list_extra_fields(body: OpenaiResponsesRequest) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a chat completion that its service gets unchanged."""
    if body.tools:
        yield "tools", [_convert_tool(tool, position) for position, tool in enumerate(body.tools)]
    choice = body.tool_choice
    if isinstance(choice, str) or (choice is not None and choice.get("type") != "function"):
        yield "tool_choice", choice
    elif choice is not None:
        yield "tool_choice", {"type": "function", "function": _drop_field(choice, "type")}
    for name in ("parallel_tool_calls", "top_p"):
        if (value := getattr(body, name)) is not None:
            yield name, value
    if effort := (body.reasoning or {}).get("effort"):
        yield "reasoning_effort", effort
    text_format = body.text_format
    if text_format and is_schema(text_format):
        yield "response_format", convert_for_chat(text_format)
    elif text_format and text_format.get("type", "text") != "text":
        yield "response_format", text_format


def _convert_tool(tool: Mapping[str, Any], position: int) -> Mapping[str, Any]:
    if tool.get("type") != "function":
        raise chat_completions.make_refusal(
            f"tools.{position}",
            "a language model takes functions only, and only the research models search: leave it out",
        )
    if isinstance(tool.get("function"), Mapping):
        return tool  # The tool already has the form of chat completions.
    return {"type": "function", "function": _drop_field(tool, "type")}


def _drop_field(value: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: member for key, member in value.items() if key != name}
