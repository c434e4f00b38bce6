"""What the openai package adds to a request, reads from the environment or does with a response does not reach a service."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing

import anyio
import httpx2
import pytest
from tests.fakes.llm_contract import collect, question
from tests.support.cases import for_each
from tests.support.chat_server import ChatServer, Reply
from tests.support.loopback_upstream import Loopback, json_reply, reply, serving

from modules.llm_platform.domain.dtos.llm_dtos import ChatMessage, LLMRequest
from modules.llm_platform.domain.exceptions import (
    EmbeddingConfigError,
    LLMConfigError,
    LLMConnectionError,
    LLMException,
)
from modules.llm_platform.domain.package import package_version
from modules.llm_platform.infrastructure.models.kinds import AZURE_API_VERSION, KINDS, LLMConnection
from modules.llm_platform.infrastructure.models.openai.chat import OpenAIProvider
from modules.llm_platform.infrastructure.models.openai.embedder import EmbeddingConnection, OpenAIEmbedder
from modules.llm_platform.infrastructure.models.openai.sdk import MAX_ERROR_BYTES
from shared.exceptions import AppException

KEY = "sk-key-of-mine-0123456789"
PLATFORM = f"llm-platform/{package_version()}"
USER_AGENTS = {"kimi": "KimiCLI/0.77"}
INSTALL = r'pip install "llm-platform\[llm\]"'
# All variables that the package reads, and one header that the last of them adds or replaces.
VARIABLES = {
    "OPENAI_API_KEY": "sk-of-another",
    "OPENAI_ADMIN_KEY": "sk-of-an-admin",
    "OPENAI_ORG_ID": "org",
    "OPENAI_PROJECT_ID": "project",
    "OPENAI_WEBHOOK_SECRET": "secret",
    "OPENAI_BASE_URL": "http://127.0.0.1:9",
    "OPENAI_API_VERSION": "2001-01-01",
    "OPENAI_API_TYPE": "azure",
    "AZURE_OPENAI_API_KEY": "azure-of-another",
    "AZURE_OPENAI_AD_TOKEN": "token",
    "AZURE_OPENAI_ENDPOINT": "http://127.0.0.1:9",
    "OPENAI_CUSTOM_HEADERS": "Authorization: Bearer x\napi-key: x\nUser-Agent: x\nAccept: x\nX-More: x\nHost: x",
    "HTTP_PROXY": "http://127.0.0.1:9",
}


@pytest.fixture(params=["no variable", "all variables"])
def environment(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "all variables":
        for name, value in VARIABLES.items():
            monkeypatch.setenv(name, value)


@pytest.fixture
async def service() -> AsyncIterator[Loopback]:
    vector = {"data": [{"index": 0, "embedding": [0.6, 0.8]}], "choices": [{"message": {"content": "Yes."}}]}
    async with serving(json_reply(vector)) as loopback:
        yield loopback


def key_headers(kind: str, key: str) -> dict[str, str]:
    if not key:
        return {}
    return {"api-key": key} if kind == "azure" else {"authorization": f"Bearer {key}"}


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize(
    ("kind", "key"),
    [(kind, KEY) for kind in KINDS]
    + [(kind, "") for kind, traits in KINDS.items() if traits.serves_others or not traits.needs_key],
)
async def test_a_chat_sends_these_headers_and_no_others(service: Loopback, kind: str, key: str) -> None:
    """To the configured address, with the configured key or none, whatever the environment says."""
    provider = OpenAIProvider(LLMConnection("n", kind, "m", service.url, key))
    await provider.generate(question())
    await provider.ping()
    await provider.aclose()
    chat, models = service.requests
    shared = {
        "host": service.url.removeprefix("http://"),
        "accept": "application/json",
        "accept-encoding": "identity",
        "user-agent": USER_AGENTS.get(kind, PLATFORM),
        **key_headers(kind, key),
    }
    assert chat.headers == {**shared, "content-type": "application/json", "content-length": str(len(chat.body))}
    assert models.headers == shared
    version = f"?api-version={AZURE_API_VERSION}"
    paths = {"azure": (f"/openai/deployments/m/chat/completions{version}", f"/openai/models{version}")}
    assert (chat.path, models.path) == paths.get(kind, ("/chat/completions", "/models"))


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize(("kind", "key"), [("openai", KEY), ("openai", ""), ("azure", KEY)])
async def test_embeddings_send_these_headers_and_no_others(service: Loopback, kind: str, key: str) -> None:
    """To the configured address, with the configured key or none, whatever the environment says."""
    await OpenAIEmbedder(EmbeddingConnection(kind, "m", service.url, key)).embed(["a text"])
    [request] = service.requests
    assert request.headers == {
        "host": service.url.removeprefix("http://"),
        "accept": "application/json",
        "accept-encoding": "gzip, deflate",
        "user-agent": PLATFORM,
        "content-type": "application/json",
        "content-length": str(len(request.body)),
        **key_headers(kind, key),
    }
    azure = f"/openai/deployments/m/embeddings?api-version={AZURE_API_VERSION}"
    assert request.path == (azure if kind == "azure" else "/embeddings")


def test_the_package_cannot_switch_on_logs() -> None:
    """OPENAI_LOG gives the process no handler, and no line of the package."""
    program = (
        "import logging; from modules.llm_platform.infrastructure.models.openai.sdk import load_openai\n"
        "load_openai(); assert not logging.getLogger().handlers\n"
        "assert logging.getLogger('openai').getEffectiveLevel() == logging.WARNING"
    )
    subprocess.run(
        [sys.executable, "-c", program], env={"OPENAI_LOG": "debug", "PYTHONPATH": "src"}, check=True, timeout=120
    )


async def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """In every call, and in no constructor."""
    monkeypatch.setitem(sys.modules, "openai", None)
    provider = OpenAIProvider(LLMConnection("mine", "vllm", "m", "http://127.0.0.1:9"))
    for call in (provider.ping, lambda: provider.generate(question()), lambda: collect(provider, question())):
        with pytest.raises(LLMConfigError, match=f"^mine needs another package: {INSTALL}$") as caught:
            await call()
        assert caught.value.spent.calls == 0
    await provider.aclose()
    embedder = OpenAIEmbedder(EmbeddingConnection("openai", "m", "http://127.0.0.1:9"))
    with pytest.raises(EmbeddingConfigError, match=f"^openai/m needs another package: {INSTALL}$"):
        await embedder.embed(["a text"])


async def test_half_of_a_surrogate_pair_is_replaced(service: Loopback) -> None:
    """UTF-8 cannot hold it, and the package would raise an error."""
    provider = OpenAIProvider(LLMConnection("n", "vllm", "m", service.url))
    await provider.generate(LLMRequest(messages=(ChatMessage(role="user", content="caf\u00e9 \ud83d"),)))
    await provider.aclose()
    assert service.requests[0].json["messages"] == [{"role": "user", "content": "caf\u00e9 ?"}]


@for_each("charset", ["base64", "idna", "utf-16", "unknown"])
async def test_the_body_of_an_error_is_read_as_its_bytes_are(charset: str) -> None:
    """A charset that the service declares makes no error of another kind: the package would decode the text with it."""
    body = b'{"error": {"code": "context_length_exceeded"}}'
    async with serving(reply(400, body, f"Content-Type: application/json; charset={charset}")) as loopback:
        provider = OpenAIProvider(LLMConnection("n", "vllm", "m", loopback.url))
        with pytest.raises(LLMException, match="messages are too long"):
            await provider.generate(question())
        await provider.aclose()


async def _chat(url: str) -> None:
    async with aclosing(OpenAIProvider(LLMConnection("n", "vllm", "m", url))) as provider:
        await provider.generate(question())


async def _embed(url: str) -> None:
    await OpenAIEmbedder(EmbeddingConnection("openai", "m", url)).embed(["a text"])


@for_each("call", [_chat, _embed])
async def test_an_error_without_end_is_not_read_to_its_end(call: Callable[[str], Awaitable[None]]) -> None:
    """The package reads the body of an error whole, and gets a part of it."""
    server = ChatServer(Reply((b"x" * MAX_ERROR_BYTES,) * 1000, status=400))
    async with server.running(), asyncio.timeout(60):
        with pytest.raises(AppException):
            await call(server.url)
    assert server.sent < 500 * MAX_ERROR_BYTES


async def test_an_error_that_httpx2_passes_on_is_a_lost_connection() -> None:
    """anyio raises it below TLS, through a proxy."""

    def end(request: httpx2.Request) -> httpx2.Response:
        raise anyio.EndOfStream

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(end)) as client:
        provider = OpenAIProvider(LLMConnection("n", "vllm", "m", "http://127.0.0.1:9"), client)
        with pytest.raises(LLMConnectionError, match="closed the connection unexpectedly"):
            await provider.generate(question())


@for_each("status", [302, 408, 409, 429, 500, 503])
async def test_the_package_neither_retries_nor_follows_redirects(status: int) -> None:
    """Retries and failover are separate policies, and no prompt is sent to an address that is not configured."""
    async with serving(reply(status, b"", "Location: /elsewhere", "Retry-After: 0")) as loopback:
        provider = OpenAIProvider(LLMConnection("n", "vllm", "m", loopback.url))
        with pytest.raises(LLMException):
            await provider.generate(question())
        await provider.aclose()
    assert [request.path for request in loopback.requests] == ["/chat/completions"]
