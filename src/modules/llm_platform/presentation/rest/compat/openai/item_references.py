"""References to items of earlier responses, which clients such as Vercel's AI SDK send in the place of the items."""

from collections.abc import Sequence
from typing import Final

from fastapi import Request

from modules.llm_platform.domain.exceptions import PreviousResearchNotFoundError, ResearchNotFoundError
from modules.llm_platform.presentation.rest.compat.chat_completions import CompletionMessage
from modules.llm_platform.presentation.rest.compat.responses import inputs
from modules.llm_platform.presentation.rest.compat.responses.writer import MESSAGE_ID
from modules.llm_platform.presentation.rest.http.request_scope import caller_id, services

STEPS: Final = ("ws_", "rs_")  # ids of searches and of reasoning: the message says what they found

NO_TEXT: Final = inputs.OwnItem(type="web_search_call")


async def resolve(request: Request, sent: str | Sequence[inputs.AnyItem]) -> str | tuple[inputs.AnyItem, ...]:
    """Return the input with stored answers in the place of references to them.

    Raises InvalidRequestError for an item that is not stored for this caller.
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
        text = await _answer(request, item.id.removeprefix(MESSAGE_ID))
    except PreviousResearchNotFoundError:
        raise inputs.not_stored(position) from None
    return CompletionMessage(role="assistant", content=text) if text else NO_TEXT


async def _answer(request: Request, response_id: str) -> str:
    """Return the text of a stored answer, or the part of it that is stored for follow-up questions.

    Raises PreviousResearchNotFoundError.
    """
    try:
        job = await services(request).research_jobs.get(response_id, owner=caller_id(request))
    except ResearchNotFoundError:
        return await services(request).research.stored_answer(response_id, owner=caller_id(request))
    if job.response is None:
        raise PreviousResearchNotFoundError
    return job.response.synthesis
