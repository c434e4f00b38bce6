"""The OpenAI API, in process with OpenAI's client. tests/services/test_clients.py runs other versions over HTTP."""

from __future__ import annotations

import base64
import struct
from typing import Any

import httpx2
import openai
import pytest
from tests.unit.presentation.rest.fake_platform import CITATION, EMBEDDER, REF, FakeServices, app_client

from modules.llm_platform.domain.exceptions import WebSearchConnectionError
from modules.llm_platform.domain.ports.rate_limiter import RateLimit, RateLimits
from modules.llm_platform.domain.research.long_message import MAX_MESSAGE_CHARS
from modules.llm_platform.domain.retrieval.embeddable import NoneEmbedder
from modules.llm_platform.infrastructure.limits.memory_rate_limiter import MemoryRateLimiter

QUESTION: Any = [{"role": "user", "content": "What is asyncio?"}]
KEY = "long-enough-key"


@pytest.fixture
async def sdk(client: httpx2.AsyncClient) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(api_key=KEY, base_url="http://localhost/v1", http_client=client, max_retries=0)


async def test_models_are_researches_configured_models_and_the_embedder(sdk: openai.AsyncOpenAI) -> None:
    names = [model.id async for model in sdk.models.list()]
    assert names == ["research-shallow", "research-deep", "research-report", "fake/fake-1", EMBEDDER]
    assert (await sdk.models.retrieve("fake/fake-1")).owned_by == "fake"
    with pytest.raises(openai.NotFoundError) as caught:
        await sdk.models.retrieve("gpt-4")
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")


@pytest.mark.parametrize("depth", ["shallow", "deep", "report"])
async def test_research_model_answers_with_annotations(
    sdk: openai.AsyncOpenAI, services: FakeServices, depth: str
) -> None:
    answer = await sdk.chat.completions.create(model=f"research-{depth}", messages=QUESTION)
    assert services.requests[0].depth == depth
    message = answer.choices[0].message
    assert message.annotations
    assert message.content
    [citation] = [annotation.url_citation for annotation in message.annotations]
    assert (citation.url, citation.title) == (REF.url, REF.title)
    assert message.content[citation.start_index : citation.end_index] == "An event loop runs tasks."
    assert (citation.llm_platform["quote"], citation.llm_platform["verdict"]) == (CITATION.quote, "supported")  # type: ignore[attr-defined]
    assert answer.usage
    assert answer.usage.total_tokens == 0


async def test_stream_ends_with_annotations_and_on_request_with_the_usage(sdk: openai.AsyncOpenAI) -> None:
    for include in (True, False):
        stream = await sdk.chat.completions.create(
            model="research-shallow", messages=QUESTION, stream=True, stream_options={"include_usage": include}
        )
        chunks = [chunk async for chunk in stream]
        deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
        assert "".join(delta.content or "" for delta in deltas) == "An event loop runs tasks. [1]"
        assert deltas[0].role == "assistant"
        assert deltas[-1].annotations[0]["url_citation"]["url"] == REF.url  # type: ignore[attr-defined]
        assert [bool(chunk.usage) for chunk in chunks[-2:]] == [False, include]


async def test_configured_model_answers_and_keeps_to_max_tokens(
    sdk: openai.AsyncOpenAI, services: FakeServices
) -> None:
    answer = await sdk.chat.completions.create(
        model="fake/fake-1",
        messages=[{"role": "developer", "content": "Be brief."}, *QUESTION],
        max_completion_tokens=7,
    )
    [prompt] = services.requests
    assert (prompt.provider, prompt.model, prompt.max_tokens) == ("fake", "fake-1", 7)
    assert [message.role for message in prompt.messages] == ["system", "user"]
    assert answer.choices[0].message.content == services.answer
    assert answer.usage
    assert answer.usage.total_tokens == 7
    stream = await sdk.chat.completions.create(
        model="fake/fake-1", messages=QUESTION, max_tokens=9, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == services.answer
    assert services.requests[-1].max_tokens == 9
    assert chunks[-1].usage
    assert chunks[-1].usage.total_tokens == 7
    assert chunks[-2].choices[0].finish_reason == "stop"


async def test_the_newer_name_of_a_limit_counts(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """A client that sends both, for servers old and new, gets the limit of the field that replaced the other."""
    body = {"model": "fake/fake-1", "messages": QUESTION, "max_tokens": 900, "max_completion_tokens": 7}
    assert (await client.post("/v1/chat/completions", json=body)).status_code == 200
    assert services.requests[0].max_tokens == 7


async def test_a_configured_model_does_not_search(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """`web_search_options` asks for sources, which only a research run has: it is refused by name and costs nothing."""
    body = {"model": "fake/fake-1", "messages": QUESTION, "web_search_options": {}}
    response = await client.post("/v1/chat/completions", json=body)
    assert (response.status_code, response.json()["error"]["param"]) == (400, "web_search_options")
    assert services.requests == []


async def test_error_in_a_stream_is_raised(sdk: openai.AsyncOpenAI, services: FakeServices) -> None:
    services.error_after_first_event = WebSearchConnectionError("SearXNG is away: start it")
    for model in ("research-shallow", "fake/fake-1"):
        stream = await sdk.chat.completions.create(model=model, messages=QUESTION, stream=True)
        with pytest.raises(openai.APIError, match="SearXNG is away"):
            _ = [chunk async for chunk in stream]


@pytest.mark.parametrize(
    ("model", "field", "value"),
    [
        ("research-deep", "tool_choice", "required"),
        ("research-deep", "response_format", {"type": "grammar"}),
        ("research-deep", "response_format", {"type": "json_schema", "json_schema": {"name": "a"}}),
        ("research-deep", "response_format", {"type": "json_schema", "json_schema": {"schema": {"type": "array"}}}),
        ("fake/fake-1", "functions", [{"name": "f"}]),
        ("fake/fake-1", "temperature", 3),
        ("fake/fake-1", "presence_penalty", False),
        ("research-deep", "n", 2),
        ("research-deep", "logprobs", True),
        ("research-deep", "messages", [{"role": "assistant", "content": "Hello"}]),
        ("research-deep", "messages", [{"role": "user", "content": "x" * (MAX_MESSAGE_CHARS + 1)}]),
        ("fake/fake-1", "web_search_options", {}),
        ("fake/fake-1", "messages", [{"role": "user", "content": None}]),
        ("fake/fake-1", "max_tokens", 0),
    ],
)
async def test_field_that_cannot_be_served_is_a_400_by_name(
    sdk: openai.AsyncOpenAI, services: FakeServices, model: str, field: str, value: Any
) -> None:
    body = {"model": model, "messages": QUESTION, field: value}
    with pytest.raises(openai.BadRequestError) as caught:
        await sdk.chat.completions.create(**body)
    assert (caught.value.param or "").startswith(field)
    assert services.requests == []


@pytest.mark.parametrize(
    "fields", [{"chat_template": "{{ 1 }}"}, {"tokenize": True}, {"a": {"b": []}}, {"a": "x" * 1001}]
)
async def test_template_gets_switches_alone(client: httpx2.AsyncClient, services: FakeServices, fields: Any) -> None:
    """A template of a caller, or a long value in one, can stop a server of models."""
    body = {"model": "fake/fake-1", "messages": QUESTION, "chat_template_kwargs": fields}
    response = await client.post("/v1/chat/completions", json=body)
    assert (response.status_code, services.requests) == (400, [])
    assert response.json()["error"]["param"].startswith("chat_template_kwargs")


async def test_fields_without_effect_are_named(client: httpx2.AsyncClient) -> None:
    turns = [*QUESTION, {"role": "assistant", "content": "A library."}, {"role": "user", "content": "And tasks?"}]
    body = {"model": "research-shallow", "messages": turns, "max_tokens": 5, "temperature": 0.1, "tools": []}
    response = await client.post("/v1/chat/completions", json=body)
    assert response.headers["x-ignored-fields"] == "max_tokens, temperature, tools"
    body = {"model": "fake/fake-1", "messages": turns, "max_tokens": 5}
    assert "x-ignored-fields" not in (await client.post("/v1/chat/completions", json=body)).headers


async def test_errors_have_the_types_of_the_client(services: FakeServices) -> None:
    limiter = MemoryRateLimiter(RateLimits(RateLimit("client", 1, 60, 1), RateLimit("server", 9, 3600, 9)))
    async with app_client(services, rate_limiter=limiter, LLM_PLATFORM_API_KEYS=KEY) as client:
        sdk = openai.AsyncOpenAI(api_key="wrong", base_url="http://localhost/v1", http_client=client, max_retries=0)
        with pytest.raises(openai.AuthenticationError):
            await sdk.models.list()
        sdk = sdk.with_options(api_key=KEY)
        await sdk.chat.completions.create(model="research-shallow", messages=QUESTION)
        with pytest.raises(openai.RateLimitError) as caught:
            await sdk.chat.completions.create(model="research-shallow", messages=QUESTION)
        assert int(caught.value.response.headers["retry-after"]) > 0
    services.error = WebSearchConnectionError("SearXNG is away: start it")
    async with app_client(services) as client:
        sdk = openai.AsyncOpenAI(api_key=KEY, base_url="http://localhost/v1", http_client=client, max_retries=0)
        with pytest.raises(openai.InternalServerError, match="SearXNG is away"):
            await sdk.chat.completions.create(model="research-deep", messages=QUESTION)


async def test_embeddings_are_the_same_in_both_formats(sdk: openai.AsyncOpenAI, client: httpx2.AsyncClient) -> None:
    answer = await sdk.embeddings.create(model=EMBEDDER, input=["solar sails", "tea"])
    assert [len(embedding.embedding) for embedding in answer.data] == [64, 64]
    assert answer.usage.prompt_tokens == 3
    body = {"model": EMBEDDER, "input": "tea"}
    plain = (await client.post("/v1/embeddings", json=body)).json()["data"][0]["embedding"]
    coded = (await client.post("/v1/embeddings", json={**body, "encoding_format": "base64"})).json()["data"][0][
        "embedding"
    ]
    assert list(struct.unpack("<64f", base64.b64decode(coded))) == pytest.approx(plain)
    assert answer.data[1].embedding == pytest.approx(plain)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("input", []),
        ("input", ""),
        ("input", ["tea", "\u200b"]),
        ("input", ["tea"] * 2049),
        ("input", [[1, 2, 3]]),
        ("input", "tea " * 600),
        ("dimensions", 10),
        ("encoding_format", "hex"),
    ],
)
async def test_text_that_cannot_be_embedded_is_a_400(sdk: openai.AsyncOpenAI, field: str, value: Any) -> None:
    body = {"model": EMBEDDER, "input": "tea", field: value}
    with pytest.raises(openai.BadRequestError) as caught:
        await sdk.embeddings.create(**body)
    assert (caught.value.param or "").startswith(field)


@pytest.mark.parametrize("tokens", [[40, 1097], [[40, 1097], [2028]]])
async def test_ids_of_tokens_are_refused_with_the_remedy(sdk: openai.AsyncOpenAI, tokens: Any) -> None:
    """They are LangChain's default, and ids of another tokenizer: the error names its setting."""
    with pytest.raises(openai.BadRequestError, match="check_embedding_ctx_length=False") as caught:
        await sdk.embeddings.create(model=EMBEDDER, input=tokens)
    assert caught.value.param == "input"
    assert "1097" not in str(caught.value)


async def test_another_embedding_model_is_not_replaced(sdk: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match=EMBEDDER):
        await sdk.embeddings.create(model="text-embedding-3-small", input="tea")


async def test_embeddings_without_an_embedder_name_the_remedy(sdk: openai.AsyncOpenAI, services: FakeServices) -> None:
    services.embedder = NoneEmbedder('keyword search only: pip install "llm-platform[retrieval]"')
    async with app_client(services) as client:
        sdk = openai.AsyncOpenAI(api_key=KEY, base_url="http://localhost/v1", http_client=client, max_retries=0)
        assert "none" not in [model.id async for model in sdk.models.list()]
        with pytest.raises(openai.InternalServerError, match=r"pip install .*EMBEDDER") as caught:
            await sdk.embeddings.create(model=EMBEDDER, input="tea")
    assert caught.value.status_code == 503


async def test_completions_name_the_address_to_use(client: httpx2.AsyncClient) -> None:
    """404 in the shape of OpenAI, whatever is sent."""
    for body in ({"model": "research-shallow", "prompt": "What is asyncio?"}, {}):
        answer = await client.post("/v1/completions", json=body)
        assert answer.status_code == 404
        error = answer.json()["error"]
        assert "POST /v1/chat/completions" in error["message"]
        assert (error["type"], error["code"]) == ("invalid_request_error", "not_found")


async def test_question_before_the_last_calls_of_tools_is_researched(
    client: httpx2.AsyncClient, services: FakeServices
) -> None:
    """Another model has called a tool and hands the conversation over; a conversation without a question is refused."""
    call = {"id": "c", "type": "function", "function": {"name": "transfer", "arguments": "{}"}}
    handed_over: list[dict[str, Any]] = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "{}"},
    ]
    body = {"model": "research-shallow", "messages": [{"role": "user", "content": "What is asyncio?"}, *handed_over]}
    response = await client.post("/v1/chat/completions", json=body)
    assert response.status_code == 200, response.text
    assert (services.requests[0].query, services.requests[0].history) == ("What is asyncio?", ())
    refused = await client.post("/v1/chat/completions", json={**body, "messages": handed_over})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "messages")
