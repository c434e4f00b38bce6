"""Stored responses of OpenAI's Responses API: fetched, followed, cancelled and removed by the client that created them."""

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel

from modules.llm_platform.presentation.rest.compat import chat_completions, dialect
from modules.llm_platform.presentation.rest.compat.openai.response_request import MAX_INCLUDES
from modules.llm_platform.presentation.rest.compat.openai.responses import API, OpenaiResponse
from modules.llm_platform.presentation.rest.compat.responses import runs
from modules.llm_platform.presentation.rest.compat.responses.writer import NOTHING_SENT, Envelope, Object
from modules.llm_platform.presentation.rest.http.openapi import declare_data_stream

router = APIRouter(prefix="/v1", tags=["compatible"])

ERRORS: Final = dialect.declare_errors(400, 404)
MAX_ITEMS: Final = 100
ITEMS: Final = 20  # items of a page, unless `limit` says otherwise
STREAM: Final = "The response as it is now; with `stream`, its events after `starting_after`."

# The client of the vendor sends lists with brackets.
Includes = Annotated[
    list[str], Query(alias="include[]", max_length=MAX_INCLUDES, description="As in POST /v1/responses")
]
# Not in the OpenAPI document: in the languages of generated clients both have one name.
PlainIncludes = Annotated[list[str], Query(alias="include", max_length=MAX_INCLUDES, include_in_schema=False)]


class DeletedOpenaiResponse(BaseModel):
    """A response that is no longer stored."""

    id: str
    object: str
    deleted: bool


class OpenaiInputItems(BaseModel):
    """The messages that a response was created from."""

    object: str
    data: list[dict[str, Any]]
    first_id: str | None
    last_id: str | None
    has_more: bool


@router.get(
    "/responses/{response_id}",
    summary="A stored response, for clients of OpenAI's Responses API",
    response_model=OpenaiResponse,
    responses={**ERRORS, **declare_data_stream(STREAM)},
)
async def get_response(
    request: Request,
    response_id: runs.ResponseId,
    stream: Annotated[bool, Query(description="Send the events")] = False,
    starting_after: runs.StartingAfter = NOTHING_SENT,
    includes: Includes = [],  # noqa: B006  FastAPI copies it
    plain_includes: PlainIncludes = [],  # noqa: B006
) -> Response:
    wished = (*includes, *plain_includes)
    if stream:
        return await runs.resume(request, API, response_id, starting_after, wished)
    return dialect.make_json_response(await runs.retrieve(request, API, response_id, wished))


@router.post(
    "/responses/{response_id}/cancel",
    summary="Cancel a background response, for clients of OpenAI's Responses API",
    response_model=OpenaiResponse,
    responses=ERRORS,
)
async def cancel_response(request: Request, response_id: runs.ResponseId) -> Response:
    job = await runs.find_job(request, API.name, response_id)
    if job.status != "cancelled":  # a second call returns the same
        job = await runs.cancel(request, API, response_id)
    return dialect.make_json_response(await runs.read_current(request, API, job))


@router.delete(
    "/responses/{response_id}",
    summary="Remove a stored response, for clients of OpenAI's Responses API",
    response_model=DeletedOpenaiResponse,
    responses=ERRORS,
)
async def delete_response(request: Request, response_id: runs.ResponseId) -> Response:
    await runs.delete(request, API, response_id)
    return dialect.make_json_response({"id": response_id, "object": "response", "deleted": True})


@router.get(
    "/responses/{response_id}/input_items",
    summary="The input of a stored response, for clients of OpenAI's Responses API",
    response_model=OpenaiInputItems,
    responses=ERRORS,
)
async def list_input_items(
    request: Request,
    response_id: runs.ResponseId,
    limit: Annotated[int, Query(ge=1, le=MAX_ITEMS)] = ITEMS,
    order: Annotated[Literal["asc", "desc"], Query(description="`desc`: the last message first")] = "desc",
    after: Annotated[str | None, Query(description="`last_id` of the page before")] = None,
) -> Response:
    job = await runs.find_job(request, API.name, response_id)
    items = list(_list_input_items(job.id, Envelope.model_validate(job.client_request).input))
    if order == "desc":
        items.reverse()
    start = next((position + 1 for position, item in enumerate(items) if item["id"] == after), 0)
    page = items[start : start + limit]
    names = [item["id"] for item in page] or [None]
    return dialect.make_json_response(
        {
            "object": "list",
            "data": page,
            "first_id": names[0],
            "last_id": names[-1],
            "has_more": start + limit < len(items),
        }
    )


def _list_input_items(response_id: str, sent: Any) -> Iterator[Object]:
    messages = [{"role": "user", "content": sent}] if isinstance(sent, str) else sent or []
    for position, message in enumerate(messages):
        if message.get("type") in ("function_call", "function_call_output"):
            yield {"id": f"fc_{response_id}_{position}", "status": "completed", **message}
            continue
        text = chat_completions.CompletionMessage.model_validate(message).text
        is_answer = message["role"] == "assistant"
        part = (
            {"type": "output_text", "text": text, "annotations": []}
            if is_answer
            else {"type": "input_text", "text": text}
        )
        name = f"msg_{response_id}_{position}"
        yield {"id": name, "type": "message", "role": message["role"], "status": "completed", "content": [part]}
