"""Titles, tags and queries that a chat program asks of a research model: no research run answers them."""

from __future__ import annotations

import json
from typing import Any

from tests.support.cases import for_each
from tests.unit.domain.research.test_transcript_task import QUESTIONS, TASKS, TITLE
from tests.unit.presentation.rest.fake_platform import FakeServices, app_client

from modules.llm_platform.domain.dtos.llm_dtos import LLMRequest
from modules.llm_platform.domain.dtos.research_dtos import ResearchRequest

CHAT = "/v1/chat/completions"
TITLE_SCHEMA = {
    "type": "json_schema",
    "json_schema": {"name": "t", "schema": {"type": "object", "properties": {"title": {"type": "string"}}}},
}


def body_of(messages: list[tuple[str, str]], **fields: Any) -> dict[str, Any]:
    turns = [{"role": role, "content": text} for role, text in messages]
    return {"model": "research-deep", "messages": turns, **fields}


@for_each(("messages", "product", "answer"), TASKS)
async def test_a_model_answers_in_one_call(messages: list[tuple[str, str]], product: str, answer: str) -> None:
    """The first configured model gets the conversation as it is; nothing is searched."""
    services = FakeServices()
    async with app_client(services) as client:
        response = await client.post(CHAT, json=body_of(messages))
    assert response.status_code == 200, response.text
    [request] = services.requests
    assert isinstance(request, LLMRequest)
    assert [turn.content for turn in request.messages] == [text for _, text in messages]
    assert response.json()["model"] == "research-deep"


@for_each(("messages", "product", "answer"), TASKS)
async def test_without_a_model_rules_answer(messages: list[tuple[str, str]], product: str, answer: str) -> None:
    """Whole and streamed, with the usage of no call."""
    services = FakeServices()
    services.models = ()
    async with app_client(services) as client:
        whole = (await client.post(CHAT, json=body_of(messages))).json()
        options = {"stream": True, "stream_options": {"include_usage": True}}
        streamed = await client.post(CHAT, json=body_of(messages, **options))
    assert services.requests == []
    assert whole["choices"][0]["message"] == {"role": "assistant", "content": answer}
    assert whole["usage"]["total_tokens"] == 0
    assert streamed.headers["content-type"].startswith("text/event-stream")
    *parts, end = [line.removeprefix("data: ") for line in streamed.text.splitlines() if line]
    chunks = [json.loads(part) for part in parts]
    assert end == "[DONE]"
    assert chunks[0]["choices"][0]["delta"]["content"] == answer
    assert chunks[1]["choices"][0]["finish_reason"] == "stop"
    assert chunks[2]["usage"]["total_tokens"] == 0


async def test_a_schema_is_filled_by_rules() -> None:
    """A program that asks for a title in a schema gets its object without a model, too."""
    services = FakeServices()
    services.models = ()
    messages = [("user", "Return a concise title for the conversation.\n\nConversation:\nHuman: Is tea healthy?\nAI: Yes.")]
    async with app_client(services) as client:
        answer = (await client.post(CHAT, json=body_of(messages, response_format=TITLE_SCHEMA))).json()
    assert json.loads(answer["choices"][0]["message"]["content"]) == {"title": "Is tea healthy"}


@for_each("question", QUESTIONS)
async def test_questions_are_researched(question: str) -> None:
    """What looks like a task and is none."""
    services = FakeServices()
    async with app_client(services) as client:
        response = await client.post(CHAT, json=body_of([("user", question)]))
    assert response.status_code == 200, response.text
    assert isinstance(services.requests[-1], ResearchRequest)


async def test_a_task_needs_the_key_and_counts() -> None:
    """It is a request as any other."""
    async with app_client(FakeServices(), LLM_PLATFORM_API_KEYS="a-long-random-word") as client:
        assert (await client.post(CHAT, json=body_of([("user", TITLE)]))).status_code == 401
