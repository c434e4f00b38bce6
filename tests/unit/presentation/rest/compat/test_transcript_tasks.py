"""Titles, tags and queries that a chat program asks of a research model: no research run answers them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.support.cases import for_each
from tests.unit.domain.research.test_transcript_task import QUESTIONS, TASKS, TITLE
from tests.unit.presentation.rest.fake_platform import FakeServices, app_client

from modules.llm_platform.domain.dtos.llm_dtos import LLMRequest
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest

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
    """The first configured model gets the conversation unchanged, and nothing is searched."""
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
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks[:-1]) == answer
    assert chunks[-2]["choices"][0]["finish_reason"] == "stop"
    assert chunks[-1]["usage"]["total_tokens"] == 0


async def test_a_schema_is_filled_by_rules() -> None:
    """Without a model, a title requested in a schema is made by rules."""
    services = FakeServices()
    services.models = ()
    messages = [
        ("user", "Return a concise title for the conversation.\n\nConversation:\nHuman: Is tea healthy?\nAI: Yes.")
    ]
    async with app_client(services) as client:
        answer = (await client.post(CHAT, json=body_of(messages, response_format=TITLE_SCHEMA))).json()
    assert json.loads(answer["choices"][0]["message"]["content"]) == {"title": "Is tea healthy"}


def _input(messages: list[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"role": role, "content": text} for role, text in messages]


def _anthropic(messages: list[tuple[str, str]]) -> dict[str, Any]:
    system = "\n".join(text for role, text in messages if role == "system")
    turns = _input([message for message in messages if message[0] != "system"])
    return {"model": "research-deep", "max_tokens": 500, "messages": turns, **({"system": system} if system else {})}


DOORS = [  # the path, the body of a conversation, and the text of its answer
    (
        "/v1/responses",
        lambda messages: {"model": "research-deep", "input": _input(messages)},
        lambda answer: answer["output"][-1]["content"][0]["text"],
    ),
    ("/anthropic/v1/messages", _anthropic, lambda answer: "".join(block["text"] for block in answer["content"])),
    (
        "/perplexity/chat/completions",
        lambda messages: {"model": "sonar-pro", "messages": _input(messages)},
        lambda answer: answer["choices"][0]["message"]["content"],
    ),
    (
        "/perplexity/v1/responses",
        lambda messages: {"model": "sonar-pro", "input": _input(messages)},
        lambda answer: next(item for item in answer["output"] if item["type"] == "message")["content"][0]["text"],
    ),
]


@for_each(("path", "body", "text"), DOORS)
async def test_every_interface_of_a_research_model_recognises_a_task(
    path: str, body: Callable[..., dict[str, Any]], text: Callable[[Any], str]
) -> None:
    """One call of the first model answers all of them, whole and streamed; a research run never does."""
    for messages, _, _ in TASKS:
        services = FakeServices()
        async with app_client(services) as client:
            whole = await client.post(path, json=body(messages))
            streamed = await client.post(path, json={**body(messages), "stream": True})
        assert whole.status_code == 200, whole.text
        assert text(whole.json()) == services.answer
        assert "An event loop" in streamed.text
        assert [type(request) for request in services.requests] == [LLMRequest, LLMRequest]
        assert all(text in "\n".join(turn.content for turn in services.requests[0].messages) for _, text in messages)


@for_each(("path", "body", "text"), DOORS)
async def test_every_interface_answers_a_task_by_rules_without_a_model(
    path: str, body: Callable[..., dict[str, Any]], text: Callable[[Any], str]
) -> None:
    for messages, _, answer in TASKS:
        services = FakeServices()
        services.models = ()
        async with app_client(services) as client:
            whole = await client.post(path, json=body(messages))
            streamed = await client.post(path, json={**body(messages), "stream": True})
        assert whole.status_code == 200, whole.text
        assert text(whole.json()) == answer
        assert streamed.status_code == 200
        assert json.dumps(answer)[1:-1] in streamed.text.replace("\\u", "\\u")
        assert services.requests == []


@for_each(("path", "body", "text"), DOORS)
async def test_every_interface_researches_a_question_about_a_chat(
    path: str, body: Callable[..., dict[str, Any]], text: Callable[[Any], str]
) -> None:
    services = FakeServices()
    async with app_client(services) as client:
        response = await client.post(path, json=body([("user", QUESTIONS[0])]))
    assert response.status_code == 200, response.text
    assert isinstance(services.requests[-1], ResearchRequest)


@for_each(("path", "body", "text"), DOORS)
async def test_every_interface_takes_a_task_that_is_longer_than_a_question(
    path: str, body: Callable[..., dict[str, Any]], text: Callable[[Any], str]
) -> None:
    """A transcript is read by the model, or its first question by rules, so the limit of a message is not for it."""
    services = FakeServices()
    said = "".join(f"USER: Is tea healthy? {number}\nASSISTANT: Yes.\n" for number in range(2000))
    task = f"### Task:\nGenerate a concise title.\n### Chat History:\n<chat_history>\n{said}</chat_history>"
    async with app_client(services) as client:
        response = await client.post(path, json=body([("user", task)]))
    assert response.status_code == 200, response.text
    assert text(response.json()) == services.answer


@for_each("question", QUESTIONS)
async def test_questions_are_researched(question: str) -> None:
    """A question that resembles a task is researched."""
    services = FakeServices()
    async with app_client(services) as client:
        response = await client.post(CHAT, json=body_of([("user", question)]))
    assert response.status_code == 200, response.text
    assert isinstance(services.requests[-1], ResearchRequest)


async def test_a_task_needs_the_key_and_counts() -> None:
    """It is a request as any other."""
    async with app_client(FakeServices(), LLM_PLATFORM_API_KEYS="a-long-random-word") as client:
        assert (await client.post(CHAT, json=body_of([("user", TITLE)]))).status_code == 401
