"""OpenAI's Responses API: the answer of a research run or of a configured language model.

Reference of the vendor: https://platform.openai.com/docs/api-reference/responses
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from modules.llm_platform.domain.dtos.request_dtos import Depth
from modules.llm_platform.domain.exceptions import PreviousResearchNotFoundError, ResearchNotFoundError
from modules.llm_platform.presentation.rest.compat import chat_completions, client_tools, dialect, transcripts
from modules.llm_platform.presentation.rest.compat.chat_completions import CompletionMessage
from modules.llm_platform.presentation.rest.compat.openai import response_llm
from modules.llm_platform.presentation.rest.compat.openai.models import find_depth, find_llm
from modules.llm_platform.presentation.rest.compat.openai.response_request import OpenaiResponsesRequest
from modules.llm_platform.presentation.rest.compat.openai.response_writer import OpenaiResponseWriter
from modules.llm_platform.presentation.rest.compat.responses import inputs, runs
from modules.llm_platform.presentation.rest.compat.responses.writer import MESSAGE_ID
from modules.llm_platform.presentation.rest.compat.structured import read_schema
from modules.llm_platform.presentation.rest.compat.verified_answers import declare_check, read_mode
from modules.llm_platform.presentation.rest.http.body import CONVERSATION, read_body
from modules.llm_platform.presentation.rest.http.idempotency import answer_once
from modules.llm_platform.presentation.rest.http.request_scope import get_caller_id, get_services

router = APIRouter(prefix="/v1", tags=["compatible"])

API: Final = runs.ResponsesApi("openai", OpenaiResponseWriter)
ERROR_STATUSES: Final = (404, *dialect.ERROR_STATUSES_400)
REFUSED: Final = {
    "conversation": "conversations are not stored: send previous_response_id, or the whole conversation as input",
    "prompt": "stored prompts are not supported: use instructions",
    "top_logprobs": "logprobs are not supported",
}
STEPS: Final = ("ws_", "rs_")  # ids of searches and of reasoning: the message says what they found
NO_TEXT: Final = inputs.OwnItem(type="web_search_call")


class OpenaiResponse(BaseModel, extra="allow"):
    """A response: an item `web_search_call` for each search, and a message, whose annotations are the citations."""

    id: str
    object: str
    created_at: int
    status: str
    model: str
    output: list[dict[str, Any]]
    usage: dict[str, Any] | None


@router.post(
    "/responses",
    **declare_check(
        dialect.declare_route(
            "Answer a question, for clients of OpenAI's Responses API",
            OpenaiResponsesRequest,
            OpenaiResponse,
            ERROR_STATUSES,
            "The response, queued with `background`; as a stream, the events response.created to response.completed.",
        )
    ),
)
async def respond(request: Request) -> Response:
    sent = await read_body(request, OpenaiResponsesRequest, limit=CONVERSATION)
    read_mode(request)
    chat_completions.refuse_fields(sent, REFUSED)
    body = sent.model_copy(update={"input": await _resolve_references(request, sent.input)})
    depth = find_depth(body.model)
    if depth is None:
        answer = partial(response_llm.respond, request, body, find_llm(request, body.model))
    elif not body.background and (
        task := transcripts.find_task(inputs.read_conversation(body.input, body.instructions).messages)
    ):
        answer = partial(response_llm.answer_task, request, body, task)
    else:
        answer = partial(_research, request, body, body.depth_within(depth))
    return await answer_once(request, body, answer)


async def _research(request: Request, body: OpenaiResponsesRequest, depth: Depth) -> Response:
    tool = client_tools.find_forced_tool(request, body.tools or (), body.tool_choice)
    schema = tool.schema if tool else read_schema(request, body.text_format, body.format_field)
    conversation = inputs.read_conversation(body.input, body.instructions)
    question = chat_completions.research_request(
        conversation.messages,
        depth,
        field=conversation.position,
        in_background=body.background,
        domains=body.domains,
        omit_raw=True,
        previous_id=body.previous_response_id,
        output_schema=schema,
    )
    envelope = runs.make_envelope(
        request,
        body.model,
        background=body.background,
        store=body.store,
        is_json=schema is not None,
        tool=tool.name if tool else "",
        includes=body.include or (),
        echo=body.echo,
        input=inputs.dump_input(body.input),
    )
    run = runs.ResponseRun(API, question, envelope)
    ignored = body.list_ignored_fields(depth, tool)
    if body.stream:
        return dialect.report_ignored(await runs.stream(request, run), body, *ignored)
    return dialect.make_json_answer(await runs.respond(request, run), body, *ignored)


async def _resolve_references(
    request: Request, sent: str | Sequence[inputs.AnyItem]
) -> str | tuple[inputs.AnyItem, ...]:
    """Return the input with stored answers in the place of references to items of earlier responses.

    Clients such as Vercel's AI SDK send these references. Raises InvalidRequestError for an item that is not stored for this
    caller.
    """
    if isinstance(sent, str):
        return sent
    return tuple([await _resolve_item(request, item, position) for position, item in enumerate(sent)])


async def _resolve_item(request: Request, item: inputs.AnyItem, position: int) -> inputs.AnyItem:
    if not isinstance(item, inputs.ItemReference):
        return item
    if item.id.startswith(STEPS):
        return NO_TEXT
    if not item.id.startswith(MESSAGE_ID):
        raise inputs.not_stored(position)
    try:
        text = await _read_stored_answer(request, item.id.removeprefix(MESSAGE_ID))
    except PreviousResearchNotFoundError:
        raise inputs.not_stored(position) from None
    return CompletionMessage(role="assistant", content=text) if text else NO_TEXT


async def _read_stored_answer(request: Request, response_id: str) -> str:
    """Return the text of a stored answer, or the part of it that is stored for follow-up questions.

    Raises PreviousResearchNotFoundError.
    """
    try:
        job = await get_services(request).research_jobs.get(response_id, owner=get_caller_id(request))
    except ResearchNotFoundError:
        return await get_services(request).research.load_stored_answer(response_id, owner=get_caller_id(request))
    if job.response is None:
        raise PreviousResearchNotFoundError
    return job.response.synthesis
