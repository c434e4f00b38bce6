"""OpenAI's Responses API, in process with OpenAI's client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import openai
import pytest
from tests.unit.presentation.rest.fake_platform import CITATION, REF, SEARCHED, FakeServices

from modules.llm_platform.application.research.events import Done, Reset, SourcesNumbered, Started, Token
from modules.llm_platform.domain.exceptions import WebSearchConnectionError
from modules.llm_platform.domain.research.long_message import MAX_MESSAGE_CHARS
from modules.llm_platform.presentation.rest.compat.chat_completions import RESTARTED

IMAGE = {"type": "input_image", "image_url": "data:,"}


@pytest.fixture
async def sdk(client: httpx2.AsyncClient) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(api_key="key", base_url="http://localhost/v1", http_client=client, max_retries=0)


def check_citation(part: Any) -> None:
    [citation] = part.annotations
    assert (citation.type, citation.url, citation.title) == ("url_citation", REF.url, REF.title)
    assert part.text[citation.start_index : citation.end_index] == "An event loop runs tasks."
    assert (citation.llm_platform["quote"], citation.llm_platform["verdict"]) == (CITATION.quote, "supported")


async def test_answer_has_verified_citations(sdk: openai.AsyncOpenAI, services: FakeServices) -> None:
    response = await sdk.responses.create(model="research-deep", input="What is asyncio?", instructions="Be brief.")
    assert response.output_text == services.answer
    assert response.status == "completed"
    check_citation(response.output[-1].content[0])  # type: ignore[union-attr,index]
    [request] = services.requests
    assert (request.query, request.depth, request.instructions) == ("What is asyncio?", "deep", "Be brief.")
    assert response.usage
    assert response.usage.total_tokens == 0


@pytest.mark.parametrize("model", ["research-shallow", "fake/fake-1"])
async def test_stream_has_the_events_of_the_api_in_order(
    sdk: openai.AsyncOpenAI, services: FakeServices, model: str
) -> None:
    services.searches = (SEARCHED,)
    stream = await sdk.responses.create(model=model, input="What is asyncio?", stream=True)
    events = [event async for event in stream]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    annotation = ["response.output_text.annotation.added"] if model == "research-shallow" else []
    search = [
        "response.output_item.added",
        "response.web_search_call.in_progress",
        "response.web_search_call.searching",
        "response.web_search_call.completed",
        "response.output_item.done",
    ]
    assert [event.type for event in events] == [
        "response.created",
        "response.in_progress",
        *(search if model == "research-shallow" else []),
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        *annotation,
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    last: Any = events[-1]
    assert last.response.output_text == services.answer
    if annotation:
        check_citation(last.response.output[-1].content[0])


async def test_helper_of_the_client_puts_the_stream_together(sdk: openai.AsyncOpenAI, services: FakeServices) -> None:
    async with sdk.responses.stream(model="research-shallow", input="What is asyncio?") as stream:
        _ = [event async for event in stream]
        response = await stream.get_final_response()
    assert response.output_text == services.answer


async def test_offsets_point_into_the_text_that_was_sent(
    sdk: openai.AsyncOpenAI, services: FakeServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model failed half-way: its text cannot be taken back, and the answer follows it."""

    async def restarted(request: Any, *, request_id: str, **options: Any) -> AsyncIterator[Any]:
        yield Started(request_id=request_id)
        yield SourcesNumbered(request_id=request_id, sources=(REF,))
        yield Token(request_id=request_id, text="An event")
        yield Reset(request_id=request_id, reason="fake failed")
        yield Token(request_id=request_id, text=services.answer)
        yield Done(request_id=request_id, response=services._research_response(request, request_id))

    monkeypatch.setattr(sdk._client._transport.app.state.server.platform.research, "stream", restarted)  # type: ignore[attr-defined]
    stream = await sdk.responses.create(model="research-shallow", input="What is asyncio?", stream=True)
    last: Any = [event async for event in stream][-1]
    assert last.response.output_text == f"An event{RESTARTED}{services.answer}"
    check_citation(last.response.output[-1].content[0])
    question: Any = [{"role": "user", "content": "What is asyncio?"}]
    chunks = await sdk.chat.completions.create(model="research-shallow", messages=question, stream=True)
    deltas = [chunk.choices[0].delta async for chunk in chunks]
    text = "".join(delta.content or "" for delta in deltas)
    [citation] = deltas[-1].annotations  # type: ignore[attr-defined]
    position = citation["url_citation"]
    assert text[position["start_index"] : position["end_index"]] == "An event loop runs tasks."


async def test_error_in_a_stream_is_a_failed_response(sdk: openai.AsyncOpenAI, services: FakeServices) -> None:
    services.error_after_first_event = WebSearchConnectionError("SearXNG is away: start it")
    for model in ("research-shallow", "fake/fake-1"):
        stream = await sdk.responses.create(model=model, input="What is asyncio?", stream=True)
        last: Any = [event async for event in stream][-1]
        assert (last.type, last.response.status) == ("response.failed", "failed")
        assert last.response.error.message == "SearXNG is away: start it"


async def test_configured_model_gets_the_conversation(sdk: openai.AsyncOpenAI, services: FakeServices) -> None:
    turns: Any = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi", "annotations": []}]},
        {"role": "user", "content": "What is asyncio?"},
    ]
    response = await sdk.responses.create(
        model="fake/fake-1", input=turns, instructions="Be brief.", max_output_tokens=50
    )
    [prompt] = services.requests
    assert [(message.role, message.content) for message in prompt.messages] == [
        ("system", "Be brief."),
        ("user", "Hello"),
        ("assistant", "Hi"),
        ("user", "What is asyncio?"),
    ]
    assert prompt.max_tokens == 50
    assert response.usage
    assert (response.usage.input_tokens, response.usage.output_tokens) == (3, 4)


@pytest.mark.parametrize(
    ("finish_reason", "status", "reason"),
    [
        ("stop", "completed", None),
        ("length", "incomplete", "max_output_tokens"),
        ("content_filter", "incomplete", "content_filter"),
    ],
)
async def test_answer_that_the_service_ended_early_is_incomplete(
    sdk: openai.AsyncOpenAI, services: FakeServices, finish_reason: str, status: str, reason: str | None
) -> None:
    services.llm_fields = {"finish_reason": finish_reason}
    whole = await sdk.responses.create(model="fake/fake-1", input="Hello")
    stream = await sdk.responses.create(model="fake/fake-1", input="Hello", stream=True)
    last: Any = [event async for event in stream][-1]
    assert last.type == f"response.{status}"
    for response in (whole, last.response):
        assert response.status == status
        assert getattr(response.incomplete_details, "reason", None) == reason


async def test_web_search_tool_restricts_the_domains(client: httpx2.AsyncClient, services: FakeServices) -> None:
    tool = {"type": "web_search", "filters": {"allowed_domains": ["python.org"]}, "search_context_size": "low"}
    body = {"model": "research-shallow", "input": "What is asyncio?", "tools": [tool], "user": "u"}
    response = await client.post("/v1/responses", json=body)
    assert services.requests[0].domains == ("python.org",)
    assert response.headers["x-ignored-fields"] == "tools, user"


@pytest.mark.parametrize(
    ("model", "field", "value"),
    [
        ("research-deep", "tools", [{"type": "mcp", "server_label": "x"}]),
        ("fake/fake-1", "tools", [{"type": "web_search"}]),
        ("fake/fake-1", "background", True),
        ("research-deep", "text", {"format": {"type": "grammar"}}),
        ("research-deep", "input", [{"role": "assistant", "content": "Hello"}]),
        ("research-deep", "input", "x" * (MAX_MESSAGE_CHARS + 1)),
        ("research-deep", "input", [{"type": "item_reference", "id": "msg_1"}]),
        ("research-deep", "input", [{"role": "user", "content": [{"type": "input_image", "image_url": "data:,"}]}]),
        ("research-deep", "tools", [{"type": "web_search"}, {"type": "file_search", "vector_store_ids": ["v"]}]),
        ("research-deep", "tools", [{"type": "web_search", "filters": {"allowed_domains": ["no domain"]}}]),
    ],
)
async def test_field_that_cannot_be_served_is_a_400_by_name(
    sdk: openai.AsyncOpenAI, services: FakeServices, model: str, field: str, value: Any
) -> None:
    body: Any = {"model": model, "input": "What is asyncio?", field: value}
    with pytest.raises(openai.BadRequestError) as caught:
        await sdk.responses.create(**body)
    assert (caught.value.param or "").startswith(field)
    assert services.requests == []


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"tools": [{"type": "file_search"}]}, "tools.0: a research run has no such tool"),
        (
            {"tools": [{"type": "web_search", "filters": {"allowed_domains": ["a.org", "a org"]}}]},
            "tools.0.filters.allowed_domains.1: must be the name of a site such as python.org, a domain such as edu, or a host "
            "such as wiki",
        ),
        ({"tools": [{"type": "web_search", "filters": 7}]}, "tools.0.filters: must be a JSON object"),
        ({"input": 7}, "input: must be a valid string"),
        ({"input": [{"role": "user"}]}, "input.0.content: is missing"),
        ({"input": [{"type": "reasoning"}, {"role": "user"}]}, "input.1.content: is missing"),
        ({"input": [{"type": "reasoning"}]}, "input: must have at least 1 item"),
        ({"input": [{"role": "user", "content": "x"}] * 2001}, "input: must have at most 2000 items"),
        ({"input": [{"role": "user", "content": [IMAGE]}]}, "input.0.content.0.type: must be 'text', 'input_text'"),
    ],
)
async def test_error_names_the_place_that_the_client_sent(
    client: httpx2.AsyncClient, body: dict[str, Any], message: str
) -> None:
    response = await client.post("/v1/responses", json={"model": "research-deep", "input": "What is asyncio?", **body})
    assert response.status_code == 400
    assert response.json()["error"]["message"].startswith(message)


CALL = {"type": "function_call", "call_id": "call_1", "name": "transfer_to_researcher", "arguments": "{}"}
RESULT = {
    "type": "function_call_output",
    "call_id": "call_1",
    "output": [{"type": "input_text", "text": '{"assistant": 1}'}],
}


@pytest.mark.parametrize("last", [[], [{"role": "user", "content": "Is trio one?"}]])
async def test_calls_of_tools_in_the_conversation_are_left_out(
    client: httpx2.AsyncClient, services: FakeServices, last: list[dict[str, str]]
) -> None:
    """A hand-off from a language model ends with a call and its result: the last message of the user is the question."""
    sent = [
        {"role": "user", "content": "What is asyncio?"},
        {"role": "assistant", "content": "I ask."},
        CALL,
        RESULT,
        *last,
    ]
    response = await client.post("/v1/responses", json={"model": "research-shallow", "input": sent})
    assert response.status_code == 200, response.text
    [request] = services.requests
    assert request.query == (last[0]["content"] if last else "What is asyncio?")
    assert [turn.answer for turn in request.history] == (["I ask."] if last else [])
    items = (await client.get(f"/v1/responses/{response.json()['id']}/input_items?order=asc")).json()["data"]
    kinds = ["message", "message", "function_call", "function_call_output", *(["message"] if last else [])]
    assert [item["type"] for item in items] == kinds


async def test_result_of_a_call_may_be_parts_of_text(client: httpx2.AsyncClient, services: FakeServices) -> None:
    sent = [{"role": "user", "content": "What is asyncio?"}, CALL, RESULT]
    await client.post("/v1/responses", json={"model": "fake/fake-1", "input": sent})
    [prompt] = services.requests
    assert (prompt.messages[-1].role, prompt.messages[-1].content) == ("tool", '{"assistant": 1}')
