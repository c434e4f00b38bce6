"""What OpenAIProvider sends: the body and headers of each kind, and nothing that is none of the service's business."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AsyncExitStack

import httpx2
import pytest
from tests.chat_server import ChatServer, answer, spoken

from modules.llm_platform.domain.dtos.llm_dtos import ChatMessage, LLMRequest
from modules.llm_platform.domain.exceptions import LLMConfigError, LLMRequestError
from modules.llm_platform.infrastructure.adapters.openai import OpenAIProvider
from modules.llm_platform.infrastructure.llm.kinds import KINDS, LLMConnection, Variables
from modules.llm_platform.testing.llm import collect, question

KEY = "sk-key-of-mine-0123456789"


@pytest.fixture
async def ask():
    """Ask a provider of some kind one question; gives what its service was sent."""
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


async def test_the_messages_and_the_model_are_sent(ask: Callable) -> None:
    """Roles, words and order of the messages arrive as they were given."""
    turns = [("system", "Be brief."), ("user", "Hi"), ("assistant", "Hello"), ("user", "Why?")]
    messages = tuple(ChatMessage(role=role, content=content) for role, content in turns)
    asked = await ask("openai", LLMRequest(messages=messages))
    assert asked.body == {"model": "m", "messages": [{"role": r, "content": c} for r, c in turns]}
    assert (asked.method, asked.target) == ("POST", "/v1/chat/completions")


async def test_a_stream_asks_for_its_usage(ask: Callable) -> None:
    """Streamed answers tell their usage only when asked to; whole ones are not asked for a stream."""
    streamed = (await ask("openai", streamed=True)).body
    assert streamed["stream"] is True
    assert streamed["stream_options"] == {"include_usage": True}
    assert "stream" not in (await ask("openai")).body


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
async def test_each_kind_has_its_own_name_for_the_longest_answer(ask: Callable, kind: str, name: str) -> None:
    """The limit is sent once, under the name that the service knows."""
    body = (await ask(kind, LLMRequest(messages=question().messages, max_tokens=77))).body
    assert {key: value for key, value in body.items() if "max" in key} == {name: 77}


@pytest.mark.parametrize("kind", KINDS)
async def test_no_temperature_is_ever_sent(ask: Callable, kind: str) -> None:
    """Thinking models refuse a request that names one."""
    for streamed in (False, True):
        assert "temperature" not in (await ask(kind, streamed=streamed)).body


async def test_kimi_gets_its_user_agent_from_the_settings(ask: Callable) -> None:
    """The default is the one that it accepts; the operator's own replaces it; others get our name."""
    assert (await ask("kimi")).headers["user-agent"] == "KimiCLI/0.77"
    assert (await ask("kimi", user_agent="KimiCLI/9.9")).headers["user-agent"] == "KimiCLI/9.9"
    assert (await ask("openai")).headers["user-agent"].startswith("llm-platform")


async def test_azure_is_asked_by_deployment(ask: Callable) -> None:
    """The deployment stands in the path, the version in the query, the key in a header of its own."""
    asked = await ask("azure", api_version="2025-01-01", model="my deployment")
    path, _, query = asked.target.partition("?")
    assert path.endswith("/openai/deployments/my%20deployment/chat/completions")
    assert query == "api-version=2025-01-01"
    assert asked.headers["api-key"] == KEY
    assert "authorization" not in asked.headers


async def test_the_key_is_sent_as_a_bearer(ask: Callable) -> None:
    """A configured key is sent in the usual header; without one nothing is."""
    assert (await ask("openai")).headers["authorization"] == f"Bearer {KEY}"
    assert "authorization" not in (await ask("ollama", api_key="")).headers


async def test_only_our_own_headers_leave(ask: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Telemetry and what OPENAI_… variables say about another account reach no service."""
    monkeypatch.setenv("OPENAI_ORG_ID", "org-of-somebody")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "project-of-somebody")
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-somebody")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/elsewhere")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "Authorization: Bearer key-of-somebody")
    asked = await ask("kimi", streamed=True)
    assert not [value for value in asked.headers.values() if "somebody" in value]
    known = {"host", "content-type", "content-length", "accept", "user-agent", "accept-encoding", "authorization"}
    assert set(asked.headers) == known


async def test_another_model_or_provider_is_not_asked(ask: Callable) -> None:
    """Who names a model that is not this one is told so; naming this one is fine."""
    with pytest.raises(LLMRequestError, match="choose one of m"):
        await ask("openai", question(model="other"))
    assert (await ask("openai", question(model="m", provider="n"))).body["model"] == "m"


@pytest.mark.parametrize(
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
async def test_what_is_missing_is_named_at_the_call(config: dict, says: str) -> None:
    """A setting that is missing or cannot be right stops no start: the call, whole or streamed, and the ping name it."""
    provider = OpenAIProvider(LLMConnection(**{"name": "n", "model": "m", **config}))
    for call in (provider.ping, lambda: provider.generate(question()), lambda: collect(provider, question())):
        with pytest.raises(LLMConfigError, match=says) as caught:
            await call()
        assert caught.value.spent.calls == 0


@pytest.mark.parametrize("address", ["http://[::1", "http://127.0.0.1:70000", "nothing://here", "http://a b"])
async def test_an_address_that_cannot_be_one_is_a_setting(address: str) -> None:
    """An unusable address is the operator's, and its variable is named."""
    provider = OpenAIProvider(LLMConnection(name="n", kind="vllm", model="m", base_url=address))
    for call in (provider.ping, lambda: provider.generate(question()), lambda: collect(provider, question())):
        with pytest.raises(LLMConfigError, match="LLM_BASE_URL"):
            await call()


async def test_without_the_package_the_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra that is missing is named as the line to type."""
    monkeypatch.setitem(sys.modules, "openai", None)
    provider = OpenAIProvider(LLMConnection(name="n", kind="ollama", model="m"))
    with pytest.raises(LLMConfigError) as caught:
        await provider.generate(question())
    assert 'pip install "llm-platform[llm]"' in caught.value.message


async def test_connections_are_reused_and_a_given_client_stays_open() -> None:
    """Whole and streamed answers leave their connection usable; closing the provider closes only what it opened."""
    async with ChatServer(answer(), spoken()).running() as server, httpx2.AsyncClient(trust_env=False) as pooled:
        provider = OpenAIProvider(LLMConnection(name="n", kind="vllm", model="m", base_url=server.url), client=pooled)
        await provider.generate(question())
        for _ in range(3):
            await collect(provider, question())
        await provider.aclose()
        assert server.connections == 1
        assert not pooled.is_closed


async def test_a_client_of_its_own_is_closed_twice_without_harm() -> None:
    """`aclose` ends what was opened, and may be called again."""
    async with ChatServer().running() as server:
        provider = OpenAIProvider(LLMConnection(name="n", kind="vllm", model="m", base_url=server.url))
        await provider.generate(question())
        own = provider._own
        await provider.aclose()
        await provider.aclose()
        assert own is not None
        assert own.is_closed


def test_a_provider_tells_who_it_is() -> None:
    """Name, model and kind can be asked, and a label for people."""
    provider = OpenAIProvider(LLMConnection(name="kimi", kind="kimi", model="kimi-for-coding"))
    assert (provider.name, provider.kind, provider.label) == ("kimi", "kimi", "kimi/kimi-for-coding")
