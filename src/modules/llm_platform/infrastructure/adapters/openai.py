"""Any service that speaks OpenAI's chat protocol, over `AsyncOpenAI`. Which one, is data: `llm_kinds.KINDS`.

The openai package sends the request and judges its status; bodies and streams are decoded here, because the package
builds a pydantic object for every chunk (four times the CPU) and hands odd answers on as strings and None.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterator
from contextlib import aclosing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

import httpx2

from modules.llm_platform.application.services.llm_service import LLMRegistry
from modules.llm_platform.domain.dtos.llm_dtos import LLMRequest, LLMResponse, LLMStreamPart
from modules.llm_platform.domain.dtos.sent import SentKind
from modules.llm_platform.domain.exceptions import (
    LLMConfigError,
    LLMConnectionError,
    LLMException,
    LLMProviderException,
)
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.redaction import Redactor
from modules.llm_platform.infrastructure.http.client import make_client
from modules.llm_platform.infrastructure.llm.errors import reported_error, too_slow, translate_errors, translated_error
from modules.llm_platform.infrastructure.llm.http_client import BorrowedClient, hold_client, own_headers, read_at_most
from modules.llm_platform.infrastructure.llm.kinds import AZURE_API_VERSION, LLMConnection, configuration_error
from modules.llm_platform.infrastructure.llm.streaming import (
    MAX_BODY_BYTES,
    GrowingAnswer,
    ReportedError,
    StreamReader,
    UnreadableAnswer,
    read_answer,
)

if TYPE_CHECKING:
    from openai import AsyncOpenAI

TAIL_S: Final = 2.0  # how long we wait for usage and [DONE] once the answer itself is complete
DRAIN_S: Final = 0.05  # how long we wait for the end of the body after [DONE], to keep the connection
PING_TIMEOUT_S: Final = 5.0
NO_KEY: Final = "the key is set by BorrowedClient"  # the package insists on one

Value = TypeVar("Value")


class _Clock:
    """Seconds that are left to wait for a service. A slow reader of ours does not use them up."""

    def __init__(self, seconds: float) -> None:
        self.left = seconds


class OpenAIProvider(ILLMProvider):
    """One configured model, asked once for each request: trying again and failing over are policies.

    With `client=None` it opens a client of its own on first use, which `aclose` closes; one that was given stays open.
    """

    def __init__(
        self, config: LLMConnection, client: httpx2.AsyncClient | None = None, redactor: Redactor | None = None
    ) -> None:
        self.name: str = config.name
        self.model: str = config.model
        self.kind = config.kind
        self._connection = config
        self._mistake = configuration_error(config)
        self._redactor = redactor or Redactor((config.api_key,))
        self._given = client
        self._own: httpx2.AsyncClient | None = None
        self._sdk: AsyncOpenAI | None = None
        self._alone = LLMRegistry((self,))

    @property
    def label(self) -> str:
        """Who writes, as people read it: `kimi/kimi-for-coding`."""
        return f"{self.name}/{self.model}"

    async def generate(self, request: LLMRequest) -> LLMResponse:
        body = self._body(request)
        answer = GrowingAnswer(self._connection, request, self._redactor)
        with self._judged(answer):
            fetching = self._fetch(body, request.holds)
            answer.add(read_answer(await self._timed(fetching, _Clock(self._connection.timeout))))
            answer.finish()
            return answer.response()

    async def stream(self, request: LLMRequest) -> AsyncIterator[LLMStreamPart]:
        body = self._body(request) | {"stream": True, "stream_options": {"include_usage": True}}
        answer = GrowingAnswer(self._connection, request, self._redactor)
        clock = _Clock(self._connection.timeout)
        with self._judged(answer):
            response = await self._timed(self._send(body, request.holds), clock)
            try:
                async with aclosing(self._grow(answer, response, clock)) as growth:
                    async for _ in growth:
                        for part in answer.news():
                            yield part
            finally:
                await response.aclose()
            answer.finish()
            for part in answer.news():
                yield part
            yield answer.response()

    async def ping(self) -> str:
        """Ask for the list of models: no tokens, no money."""
        self._check()
        return await self._timed(self._look(), _Clock(min(PING_TIMEOUT_S, self._connection.timeout)))

    async def warm_up(self) -> None:
        """Load the client library; what is wrong with the settings is told at the first request."""
        if self._mistake is None:
            with suppress(LLMException):
                await self._client()

    async def aclose(self) -> None:
        """Close the client that this object opened itself, if it did."""
        own, self._own, self._sdk = self._own, None, None
        if own is not None:
            await own.aclose()

    def _check(self) -> None:
        if self._mistake:
            raise LLMConfigError(self._mistake)

    def _body(self, request: LLMRequest) -> dict[str, Any]:
        self._alone.resolve(request)
        self._check()
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": turn.role, "content": turn.content} for turn in request.messages],
        }
        if request.max_tokens is not None:
            body[self._connection.traits.max_tokens_field] = request.max_tokens
        return body

    async def _send(self, body: dict[str, Any], holds: SentKind) -> httpx2.Response:
        """A response of success, its body unread."""
        sdk = await self._client()
        with hold_client(holds):
            return await sdk.post("/chat/completions", cast_to=httpx2.Response, body=body)

    async def _fetch(self, body: dict[str, Any], holds: SentKind) -> bytes:
        response = await self._send(body, holds)
        try:
            content = await read_at_most(response, MAX_BODY_BYTES)
        finally:
            await response.aclose()
        if content is None:
            raise UnreadableAnswer("more bytes than any answer takes")
        return content

    async def _grow(self, answer: GrowingAnswer, response: httpx2.Response, clock: _Clock) -> AsyncGenerator[None]:
        """Read until the answer is complete, and yield after each read that told something."""
        reader = StreamReader()
        tail = _Clock(TAIL_S)
        async with aclosing(response.aiter_bytes()) as chunks:
            while not reader.done:
                received = await self._next(chunks, answer, clock, tail)
                pieces = reader.feed(received) if received else reader.end()
                for piece in pieces:
                    answer.add(piece)
                if pieces:
                    yield
                if not received:
                    break
            if reader.done:
                await _drain(chunks)
        if not reader.done and answer.finish_reason is None:
            raise LLMConnectionError(f"{self.name} broke off half-way: try again")

    async def _next(self, chunks: AsyncIterator[bytes], answer: GrowingAnswer, clock: _Clock, tail: _Clock) -> bytes:
        """The next bytes, empty at the end. An answer that is complete is not lost for want of its usage."""
        if answer.finish_reason is None:
            return await self._timed(anext(chunks, b""), clock)
        with suppress(LLMConnectionError):
            return await self._timed(anext(chunks, b""), tail)
        return b""

    async def _look(self) -> str:
        import openai

        sdk = await self._client()
        try:
            response = await sdk.get("/models", cast_to=httpx2.Response)
        except openai.NotFoundError:
            return "reachable; it lists no models"
        await response.aclose()
        if "html" in response.headers.get("content-type", ""):
            address = self._connection.settings.address
            raise LLMConfigError(f"{self.name} answered with a web page: check {address}")
        return "reachable"

    async def _timed(self, action: Awaitable[Value], clock: _Clock) -> Value:
        """The action's result, or an error of ours.

        It is raised outside of the handler: errors of the packages below quote the service, which may quote the key.
        """
        failure: LLMException
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(clock.left):
                return await action
        except TimeoutError:
            failure = too_slow(self._connection)
        except translate_errors() as error:
            failure = translated_error(error, self._connection)
        finally:
            clock.left -= loop.time() - began
        raise failure

    @contextmanager
    def _judged(self, answer: GrowingAnswer) -> Iterator[None]:
        """Odd answers become errors of ours, and every error tells what the try cost."""
        try:
            yield
        except UnreadableAnswer as odd:
            address = self._connection.settings.address
            failure: LLMException = LLMProviderException(f"{self.name} answered with {odd}: check {address}")
        except ReportedError as error:
            failure = reported_error(self._connection, error.body)
        except LLMException as error:
            failure = error
        else:
            return
        failure.spent = answer.spent()
        raise failure from None

    async def _client(self) -> AsyncOpenAI:
        if self._sdk is None:
            await asyncio.to_thread(_load_openai)  # most of a second: other requests go on meanwhile
            self._sdk = self._sdk or self._connect()
        return self._sdk

    def _connect(self) -> AsyncOpenAI:
        import openai

        config = self._connection
        pooled = self._given
        if pooled is None:
            pooled = self._own = make_client(config.address or "", config.timeout)
        http = BorrowedClient(pooled, own_headers(config))
        common: dict[str, Any] = {"api_key": NO_KEY, "http_client": http, "max_retries": 0, "timeout": config.timeout}
        if config.traits.deployments:
            version = config.api_version or AZURE_API_VERSION
            return openai.AsyncAzureOpenAI(azure_endpoint=str(config.address), api_version=version, **common)
        return openai.AsyncOpenAI(base_url=config.address, **common)


def _load_openai() -> None:
    try:
        importlib.import_module("openai")
    except ImportError as error:
        raise LLMConfigError('language models need another package: pip install "llm-platform[llm]"') from error


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    """Read the rest of a body that is over, so that the connection can serve the next request."""
    with suppress(TimeoutError, *translate_errors()):
        async with asyncio.timeout(DRAIN_S):
            await anext(chunks, b"")
