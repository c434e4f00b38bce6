"""The Messages API of Anthropic: the answer of a research run or of a configured language model.

Reference of the vendor: https://docs.anthropic.com/en/api/messages
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from modules.llm_platform.application.research.events import ResearchEvent
from modules.llm_platform.domain.dtos.llm_dtos import ConfiguredModel
from modules.llm_platform.domain.dtos.request_dtos import Depth, ResearchRequest
from modules.llm_platform.domain.research.transcript_task import TranscriptTask
from modules.llm_platform.domain.text.tokens import count_tokens
from modules.llm_platform.presentation.rest.chat_routes import stream_chat
from modules.llm_platform.presentation.rest.compat import (
    chat_completions,
    client_tools,
    dialect,
    structured,
    transcripts,
)
from modules.llm_platform.presentation.rest.compat.anthropic import models
from modules.llm_platform.presentation.rest.compat.anthropic.blocks import MessageBlocks, make_model_blocks
from modules.llm_platform.presentation.rest.compat.anthropic.examples import EXAMPLES
from modules.llm_platform.presentation.rest.compat.anthropic.prompt import count_prompt_tokens, make_llm_request
from modules.llm_platform.presentation.rest.compat.anthropic.request import (
    AnthropicMessagesRequest,
    AnthropicTokensRequest,
    AnthropicTool,
)
from modules.llm_platform.presentation.rest.compat.anthropic.stream import (
    ChatStream,
    MessageHead,
    ResearchStream,
    make_error_object,
    make_llm_end,
    research_end,
)
from modules.llm_platform.presentation.rest.compat.openai.responses import ERROR_STATUSES
from modules.llm_platform.presentation.rest.compat.verified_answers import (
    declare_check,
    open_check,
    read_mode,
    verify_events,
)
from modules.llm_platform.presentation.rest.http.body import CONVERSATION, read_body
from modules.llm_platform.presentation.rest.http.disconnect import run_until_disconnect
from modules.llm_platform.presentation.rest.http.idempotency import answer_once
from modules.llm_platform.presentation.rest.http.request_scope import get_services, request_id
from modules.llm_platform.presentation.rest.http.run_research import run_research
from modules.llm_platform.presentation.rest.http.sse import EventStream, stream_research
from shared.exceptions import AppException

router = APIRouter(prefix="/anthropic/v1", tags=["compatible"])


class AnthropicMessage(BaseModel, extra="allow"):
    """A message. Its blocks of text are the answer. Those of cited sentences have the verified quotes."""

    id: str
    type: str
    role: str
    model: str
    content: list[dict[str, Any]]
    stop_reason: str | None
    stop_sequence: str | None
    usage: dict[str, Any]


class AnthropicTokens(BaseModel):
    """The number of tokens, as this server counts them."""

    input_tokens: int


@router.post(
    "/messages",
    **declare_check(
        dialect.declare_route(
            "Answer a question, for clients of Anthropic",
            AnthropicMessagesRequest,
            AnthropicMessage,
            ERROR_STATUSES,
            "The message; as a stream, the events message_start to message_stop.",
        )
    ),
)
async def create_message(request: Request) -> Response:
    body = await read_body(request, AnthropicMessagesRequest, limit=CONVERSATION)
    read_mode(request)
    head = MessageHead(request_id(request), body.model)
    answering = models.find(get_services(request), body.model)
    if isinstance(answering, ConfiguredModel):
        return await answer_once(request, body, partial(_answer_with_model, request, body, head, answering))
    if task := transcripts.find_task(body.conversation):
        return await answer_once(request, body, partial(_answer_task, request, body, head, task))
    return await answer_once(request, body, partial(_research, request, body, head, body.depth_within(answering)))


@router.post(
    "/messages/count_tokens",
    **dialect.declare_route(
        "Count the tokens of a conversation, for clients of Anthropic",
        AnthropicTokensRequest,
        AnthropicTokens,
        ERROR_STATUSES,
    ),
)
async def count_message_tokens(request: Request) -> Response:
    body = await read_body(request, AnthropicTokensRequest, limit=CONVERSATION)
    answering = models.find(get_services(request), body.model)
    if isinstance(answering, ConfiguredModel):
        return dialect.make_json_answer({"input_tokens": count_prompt_tokens(make_llm_request(answering, body))}, body)
    return dialect.make_json_answer(
        {"input_tokens": sum(count_tokens(turn.text) for turn in body.conversation)}, body, "tools"
    )


async def _research(request: Request, body: AnthropicMessagesRequest, head: MessageHead, depth: Depth) -> Response:
    body.refuse_server_tools()
    tool = client_tools.find_forced_tool(request, body.sent_tools, body.forcing_choice)
    question = _make_question(request, body, depth, tool)
    is_json, name = question.output_schema is not None, tool.name if tool else ""
    blocks = MessageBlocks(
        head.request_id, question.query, is_json=is_json, tool=name, shows_thinking=body.shows_thinking
    )
    ignored = tuple(body.list_ignored_fields(depth, tool))
    if body.stream:
        stream = await stream_research(request, question, ResearchStream(head, blocks))
        return dialect.report_ignored(stream, body, *ignored)
    content: list[dict[str, Any]] = []

    def note(event: ResearchEvent) -> None:
        content.extend(blocks.of(event))

    answer = await run_research(request, question, note)
    content.extend(blocks.text(answer))
    return dialect.make_json_answer(head.message(content, research_end(answer, blocks.tool)), body, *ignored)


def _make_question(
    request: Request, body: AnthropicMessagesRequest, depth: Depth, tool: client_tools.ForcedTool | None
) -> ResearchRequest:
    conversation = body.conversation
    asked = chat_completions.count_turns_up_to_question([turn.role for turn in conversation])
    position = ("messages", asked - 1 - (len(conversation) - len(body.messages)), "content")
    return chat_completions.research_request(
        conversation,
        depth,
        field=position,
        domains=body.domains,
        omit_raw=True,
        output_schema=tool.schema if tool else structured.read_schema(request, *body.answer_format),
    )


async def _answer_task(
    request: Request, body: AnthropicMessagesRequest, head: MessageHead, task: TranscriptTask
) -> Response:
    """Answer a task about a transcript with the first language model, and without one by rules."""
    functions = tuple(
        tool for tool in body.tools or () if isinstance(tool, AnthropicTool) and tool.type in (None, "custom")
    )
    dropped: dict[str, Any] = {"tools": functions or None} if functions else {"tools": None, "tool_choice": None}
    model = transcripts.find_model_for_tasks(request)
    if model is not None:
        return await _answer_with_model(request, body.model_copy(update=dropped), head, model)
    answer = transcripts.rule_answer(task, body.answer_format[0])
    ignored = tuple(body.list_ignored_fields("shallow", None))
    if body.stream:
        events = transcripts.make_chat_events(answer, head.request_id)
        return dialect.report_ignored(await EventStream.start_soon(request, events, ChatStream(head)), body, *ignored)
    content = list(make_model_blocks(answer, head.request_id, shows_thinking=False))
    return dialect.make_json_answer(head.message(content, make_llm_end(answer)), body, *ignored)


async def _answer_with_model(
    request: Request, body: AnthropicMessagesRequest, head: MessageHead, model: ConfiguredModel
) -> Response:
    prompt = make_llm_request(model, body)
    llm = get_services(request).llm
    shows_thinking = body.shows_thinking
    ignored = tuple(body.ignored_by_llm)
    checked = open_check(request, prompt)
    if body.stream:
        events = verify_events(stream_chat(llm, prompt, head.request_id), checked)
        encoder = ChatStream(head, shows_thinking=shows_thinking, checked=checked)
        return dialect.report_ignored(await EventStream.start_soon(request, events, encoder), body, *ignored)
    answer = await run_until_disconnect(request, llm.generate(prompt))
    if checked is not None:
        answer = answer.model_copy(update={"content": await checked.check_whole(answer.content)})
    content = list(make_model_blocks(answer, head.request_id, shows_thinking=shows_thinking, checked=checked))
    response = dialect.make_json_answer(head.message(content, make_llm_end(answer, checked)), body, *ignored)
    response.headers.update(checked.headers() if checked is not None else {})
    return response


def _format_error(error: AppException, problem: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
    return dialect.choose_status_400(error), make_error_object(problem)


DIALECT: Final = dialect.Dialect(
    prefix="/anthropic",
    clients="clients of Anthropic: base URL `http://localhost:8000/anthropic`",
    routers=(models.router, router),
    format_error=_format_error,
    examples=EXAMPLES,
    request_id_header=b"request-id",
    read_paths={"/anthropic/v1/messages/count_tokens"},
)
