"""OpenAIProvider fulfils the contract of the port with a service on loopback, for every kind."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.fakes.llm_contract import LLMProviderContract
from tests.support.chat_server import ChatServer, Reply, answer, chunk, spoken, stream

from modules.llm_platform.infrastructure.models.kinds import KINDS, LLMConnection
from modules.llm_platform.infrastructure.models.openai.chat import OpenAIProvider

NOBODY_LISTENS = "http://127.0.0.1:9/v1"


class BothWays(ChatServer):
    """Streams if the request asks for a stream, and otherwise answers at once."""

    async def _send(self, reply: Reply, writer) -> None:  # type: ignore[no-untyped-def]
        await super()._send(spoken() if self.asked[-1].body.get("stream") else answer(), writer)


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _provider(kind: str, address: str) -> OpenAIProvider:
    return OpenAIProvider(LLMConnection(name="here", kind=kind, model="small", base_url=address, api_key="key-of-mine"))


async def _serving(server: ChatServer, kind: str) -> AsyncIterator[OpenAIProvider]:
    async with server.running():
        provider = _provider(kind, server.url)
        yield provider
        await provider.aclose()


class TestOpenAIProvider(LLMProviderContract):
    @pytest.fixture
    async def provider(self, kind: str) -> AsyncIterator[OpenAIProvider]:
        async for served in _serving(BothWays(), kind):
            yield served

    @pytest.fixture
    async def failing(self, kind: str) -> AsyncIterator[OpenAIProvider]:
        provider = _provider(kind, NOBODY_LISTENS)
        yield provider
        await provider.aclose()

    @pytest.fixture
    async def slow(self, kind: str) -> AsyncIterator[OpenAIProvider]:
        async for served in _serving(ChatServer(Reply(ending="hang")), kind):
            yield served

    @pytest.fixture
    async def dying(self, kind: str) -> AsyncIterator[OpenAIProvider]:
        async for served in _serving(ChatServer(stream(chunk("An event"), 0.01, ending="drop")), kind):
            yield served
