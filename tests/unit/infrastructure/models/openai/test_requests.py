"""What OpenAIProvider sends: the body and headers for each kind, and no unnecessary data."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack

import httpx2
import pytest
from tests.fakes.llm_contract import collect, question
from tests.support.cases import for_each
from tests.support.chat_server import ChatServer, answer, spoken

from modules.llm_platform.domain.dtos.llm_dtos import ChatMessage, LLMRequest
from modules.llm_platform.domain.exceptions import LLMConfigError, LLMRequestError
from modules.llm_platform.infrastructure.models.kinds import KINDS, LLMConnection, Variables
from modules.llm_platform.infrastructure.models.openai.chat import OpenAIProvider

KEY = "sk-key-of-mine-0123456789"


@pytest.fixture
async def send():
    """Send one request with a provider of this kind; returns what its service received."""
    async with AsyncExitStack() as stack:

        async def _ask(kind: str, request: LLMRequest | None = None, streamed: bool = False, **config):
            server = await stack.enter_async_context(ChatServer(spoken() if streamed else answer()).running())
            provider = OpenAIProvider(
                LLMConnection(
                    **{"name": "n", "kind": kind, "model": "m", "base_url": server.url, "api_key": KEY, **config}
                )
            )
            stack.push_async_callback(provider.aclose)
            request = request or question()
            await (collect(provider, request) if streamed else provider.generate(request))
            return server.asked[-1]

        yield _ask


async def test_messages_and_model_are_sent(send: Callable) -> None:
    """In order and unchanged."""
    turns = [("system", "Be brief."), ("user", "Hi"), ("assistant", "Hello"), ("user", "Why?")]
    messages = tuple(ChatMessage(role=role, content=content) for role, content in turns)
    request = await send("openai", LLMRequest(messages=messages))
    assert request.body == {
        "model": "m",
        "messages": [{"role": r, "content": c} for r, c in turns],
        "temperature": 0.0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert (request.method, request.target) == ("POST", "/v1/chat/completions")


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("openai", "max_completion_tokens"),
        ("kimi", "max_completion_tokens"),
        ("azure", "max_completion_tokens"),
        ("aitunnel", "max_tokens"),
        ("ollama", "max_tokens"),
        ("vllm", "max_tokens"),
    ],
)
async def test_each_kind_has_its_field_for_max_tokens(send: Callable, kind: str, name: str) -> None:
    """The limit is sent once."""
    body = (await send(kind, LLMRequest(messages=question().messages, max_tokens=77))).body
    assert {key: value for key, value in body.items() if "max" in key} == {name: 77}


@pytest.mark.parametrize("kind", KINDS)
async def test_the_temperature_of_the_request_is_sent(send: Callable, kind: str) -> None:
    """Never to Kimi, and not where the request leaves it to the service."""
    assert (await send(kind)).body.get("temperature") == (None if kind == "kimi" else 0.0)
    assert "temperature" not in (await send(kind, LLMRequest(messages=question().messages, temperature=None))).body


async def test_the_schema_of_an_answer_is_sent(send: Callable) -> None:
    """In `response_format`, which no request without a schema has."""
    schema = {"type": "object", "properties": {}}
    body = (await send("vllm", LLMRequest(messages=question().messages, json_schema=schema))).body
    wanted = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}
    assert body["response_format"] == wanted
    assert "response_format" not in (await send("vllm")).body


async def test_a_configured_temperature_replaces_that_of_the_request() -> None:
    """LLM_TEMPERATURE."""
    async with ChatServer().running() as server:
        config = LLMConnection(name="n", kind="openai", model="m", base_url=server.url, temperature=0.7)
        provider = OpenAIProvider(config)
        await provider.generate(question())
        await provider.aclose()
        assert server.asked[0].body["temperature"] == 0.7


async def test_kimi_gets_its_configured_user_agent(send: Callable) -> None:
    """Other services get the default."""
    assert (await send("kimi")).headers["user-agent"] == "KimiCLI/0.77"
    assert (await send("kimi", user_agent="KimiCLI/9.9")).headers["user-agent"] == "KimiCLI/9.9"
    assert (await send("openai")).headers["user-agent"].startswith("llm-platform")


async def test_azure_requests_name_the_deployment(send: Callable) -> None:
    """The deployment is in the path, the version in the query, and the key in its own header."""
    request = await send("azure", api_version="2025-01-01", model="my deployment")
    path, _, query = request.target.partition("?")
    assert path.endswith("/openai/deployments/my%20deployment/chat/completions")
    assert query == "api-version=2025-01-01"
    assert request.headers["api-key"] == KEY
    assert "authorization" not in request.headers


async def test_names_of_azure_are_quoted(send: Callable) -> None:
    """Deployment and version cannot add a part to the path or the query."""
    request = await send("azure", api_version="a&b", model="../m")
    assert request.target.endswith("/openai/deployments/..%2Fm/chat/completions?api-version=a%26b")


@for_each("deployment", [".", ".."])
async def test_a_deployment_cannot_be_a_step_in_the_path(send: Callable, deployment: str) -> None:
    """It is a wrong setting, and nothing is sent."""
    with pytest.raises(LLMConfigError, match="AZURE_OPENAI_DEPLOYMENT"):
        await send("azure", model=deployment)


async def test_the_key_is_sent_as_bearer_token(send: Callable) -> None:
    """Without a key there is no header."""
    assert (await send("openai")).headers["authorization"] == f"Bearer {KEY}"
    assert "authorization" not in (await send("ollama", api_key="")).headers


async def test_only_our_own_headers_are_sent(send: Callable) -> None:
    """Nothing about the machine."""
    request = await send("kimi", streamed=True)
    known = {"host", "content-type", "content-length", "accept", "user-agent", "accept-encoding", "authorization"}
    assert set(request.headers) == known


async def test_another_model_or_provider_is_a_request_error(send: Callable) -> None:
    """Naming this one is accepted."""
    with pytest.raises(LLMRequestError, match="choose one of m"):
        await send("openai", question(model="other"))
    assert (await send("openai", question(model="m", provider="n"))).body["model"] == "m"


@for_each(
    ("config", "says"),
    [
        ({"kind": "openai"}, "set LLM_API_KEY"),
        ({"kind": "kimi"}, "set KIMI_API_KEY"),
        ({"kind": "azure", "base_url": "http://127.0.0.1:9"}, "set AZURE_OPENAI_API_KEY"),
        ({"kind": "azure", "api_key": KEY}, "set AZURE_OPENAI_ENDPOINT"),
        ({"kind": "aitunnel"}, "set AITUNNEL_API_KEY"),
        ({"kind": "aitunnel", "api_key": KEY, "model": ""}, "set AITUNNEL_MODEL"),
        ({"kind": "openai", "variables": Variables.listed("mine")}, "set api_key of mine in LLM_PROVIDERS"),
        ({"kind": "openai", "api_key": "clé-secrète"}, "LLM_API_KEY contains characters"),
        ({"kind": "openai", "api_key": "sk-with-line-end\n"}, "LLM_API_KEY contains characters"),
        ({"kind": "kimi", "api_key": KEY, "user_agent": "Кими"}, "KIMI_USER_AGENT must be plain ASCII"),
    ],
)
async def test_missing_settings_are_reported_at_the_call(config: dict, says: str) -> None:
    """By `generate`, `stream` and `ping`, not at the start."""
    provider = OpenAIProvider(LLMConnection(**{"name": "n", "model": "m", **config}))
    for call in (provider.ping, lambda: provider.generate(question()), lambda: collect(provider, question())):
        with pytest.raises(LLMConfigError, match=says) as caught:
            await call()
        assert caught.value.spent.calls == 0


@for_each("address", ["http://[::1", "http://127.0.0.1:70000", "nothing://here", "http://a b"])
async def test_an_invalid_address_is_a_config_error(address: str) -> None:
    """It names the setting."""
    provider = OpenAIProvider(LLMConnection(name="n", kind="vllm", model="m", base_url=address))
    for call in (provider.ping, lambda: provider.generate(question()), lambda: collect(provider, question())):
        with pytest.raises(LLMConfigError, match="LLM_BASE_URL"):
            await call()


async def test_connections_are_reused_and_a_given_client_stays_open() -> None:
    """Streamed and complete answers leave the connection usable."""
    async with ChatServer(answer(), spoken()).running() as server, httpx2.AsyncClient(trust_env=False) as pooled:
        provider = OpenAIProvider(LLMConnection(name="n", kind="vllm", model="m", base_url=server.url), client=pooled)
        await provider.generate(question())
        for _ in range(3):
            await collect(provider, question())
        await provider.aclose()
        assert server.connections == 1
        assert not pooled.is_closed


async def test_a_created_client_may_be_closed_twice() -> None:
    """`aclose` is idempotent."""
    async with ChatServer().running() as server:
        provider = OpenAIProvider(LLMConnection(name="n", kind="vllm", model="m", base_url=server.url))
        await provider.generate(question())
        own = provider._own_client
        await provider.aclose()
        await provider.aclose()
        assert own is not None
        assert own.is_closed


def test_a_provider_has_name_model_kind_and_label() -> None:
    """The label is for people."""
    provider = OpenAIProvider(LLMConnection(name="kimi", kind="kimi", model="kimi-for-coding"))
    assert (provider.name, provider.kind, provider.label) == ("kimi", "kimi", "kimi/kimi-for-coding")
