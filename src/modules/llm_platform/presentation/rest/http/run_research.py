"""A research run whose whole answer is the response."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from fastapi import Request

from modules.llm_platform.application.research.events import ResearchEvent
from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.request_dtos import MIN_QUESTION_CHARS, ResearchRequest, ShortMessage
from modules.llm_platform.domain.research.long_message import split_message
from modules.llm_platform.presentation.rest.http.body import validate
from modules.llm_platform.presentation.rest.http.disconnect import CancelOnDisconnect
from modules.llm_platform.presentation.rest.http.ignored_fields import tell_ignored_fields
from modules.llm_platform.presentation.rest.http.request_scope import (
    ANSWER,
    get_caller_id,
    get_server_state,
    get_services,
    request_id,
)


async def run_research(
    request: Request,
    question: ResearchRequest,
    on_event: Callable[[ResearchEvent], None] | None = None,
    *,
    owner: str | None = None,
    is_stored: bool = False,
) -> ResearchResponse:
    """Return the answer. The research occupies a slot and stops if the client disconnects.

    - `on_event` receives the events before the last.
    - `owner` is the caller, by default the caller of the request.
    - `is_stored` is True if the answer will be stored.
    """
    owner = get_caller_id(request) if owner is None else owner
    state = get_server_state(request)
    over_files = state.runs_over_files.slot() if question.files else nullcontext()
    async with CancelOnDisconnect(request.receive), over_files, state.researches.slot():
        response = await get_services(request).research.research(
            question, request_id=request_id(request), owner=owner, on_event=on_event, is_stored=is_stored
        )
    response = tell_ignored_fields(request, response)
    request.scope[ANSWER] = response
    return response


async def answer_message(request: Request, message: str, **fields: Any) -> ResearchResponse:
    """Return the answer to a message of any length (`LongQuery`): its question is searched, the whole of it is the context.

    One that is too short for a question is answered in words, without a search. `fields` are fields of ResearchRequest.
    """
    question, context = split_message(message)
    kind = ShortMessage if len(question) < MIN_QUESTION_CHARS else ResearchRequest
    return await run_research(request, validate(kind, {"query": question, "context": context, **fields}, "body"))
