"""Tasks about a transcript, sent to a research model: a language model answers them, or rules do, and no research run."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from fastapi import Request

from modules.llm_platform.application.research.events import Done, ResearchEvent, SourcesNumbered, Started, Token
from modules.llm_platform.application.research.response import add_spending
from modules.llm_platform.domain.dtos.answer_dtos import ResearchMetadata, ResearchResponse
from modules.llm_platform.domain.dtos.llm_dtos import ConfiguredModel, LLMRequest, LLMResponse, LLMToken
from modules.llm_platform.domain.dtos.request_dtos import Depth
from modules.llm_platform.domain.research.transcript_task import TranscriptTask, answer_by_rules, transcript_task
from modules.llm_platform.presentation.rest.chat_routes import ChatEvent, make_chat_event
from modules.llm_platform.presentation.rest.compat import structured
from modules.llm_platform.presentation.rest.compat.chat_completions import TOOL, CompletionMessage
from modules.llm_platform.presentation.rest.http.body import validate
from modules.llm_platform.presentation.rest.http.disconnect import run_until_disconnect
from modules.llm_platform.presentation.rest.http.request_scope import get_services

MAX_TITLE_TOKENS: Final = 2000  # a list of tags or questions in JSON, after some reasoning


def find_task(messages: Iterable[CompletionMessage]) -> TranscriptTask | None:
    """Return the task that a conversation ends with, or None for a question."""
    return transcript_task([(message.role, message.text) for message in messages])


def find_model_for_tasks(request: Request) -> ConfiguredModel | None:
    return next((model for model in get_services(request).llm.models if model.is_complete), None)


def rule_answer(task: TranscriptTask, answer_format: Mapping[str, Any] | None) -> LLMResponse:
    """Return what rules make of the transcript, as an answer of a language model that cost nothing."""
    if structured.is_schema(answer_format) and not task.key:
        task = replace(task, key=task.product, is_list=task.product != "title")
    return LLMResponse(content=answer_by_rules(task), provider="", model="")


async def make_chat_events(answer: LLMResponse, request_id: str) -> AsyncGenerator[ChatEvent, None]:
    for part in (LLMToken(text=answer.content), answer):
        yield make_chat_event(part, request_id)


async def answer_task(
    request: Request,
    task: TranscriptTask,
    messages: Sequence[CompletionMessage],
    depth: Depth,
    answer_format: Mapping[str, Any] | None = None,
) -> ResearchResponse:
    """Return the answer as a research run without sources would give it, for interfaces that have no other answer."""
    model = find_model_for_tasks(request)
    if model is None:
        answer = rule_answer(task, answer_format)
    else:
        turns = []
        for message in messages:
            role: str = message.role
            if role != TOOL:
                turns.append({"role": role.replace("developer", "system"), "content": message.text})
        formatted = (
            structured.convert_for_chat(answer_format)
            if answer_format and structured.is_schema(answer_format)
            else None
        )
        values = {
            "messages": turns,
            "provider": model.provider,
            "model": model.model,
            "max_tokens": MAX_TITLE_TOKENS,
            "extra": {"response_format": formatted} if formatted else {},
            "as_it_comes": True,
        }
        prompt = validate(LLMRequest, values, "body")
        answer = await run_until_disconnect(request, get_services(request).llm.generate(prompt))
    metadata = add_spending(ResearchMetadata(latency_ms=0, synthesizer=answer.model), answer.spent)
    return ResearchResponse(query=task.product, depth=depth, synthesis=answer.content, metadata=metadata)


def make_research_events(answer: ResearchResponse, request_id: str) -> Iterator[ResearchEvent]:
    yield Started(request_id=request_id)
    yield SourcesNumbered(request_id=request_id, sources=())
    yield Token(request_id=request_id, text=answer.synthesis)
    yield Done(request_id=request_id, response=answer)
