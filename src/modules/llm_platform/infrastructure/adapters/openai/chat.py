"""Chat models of every service that speaks OpenAI's protocol. The services are rows of `KINDS`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterator
from contextlib import aclosing, contextmanager, suppress
from typing import Any, Final, TypeVar

import httpx2

from modules.llm_platform.domain.dtos.llm_dtos import LLMRequest, LLMResponse, LLMStreamPart
from modules.llm_platform.domain.dtos.sent import SentKind
from modules.llm_platform.domain.exceptions import (
    LLMConfigError,
    LLMConnectionError,
    LLMException,
    LLMProviderException,
)
from modules.llm_platform.domain.ports.llm import ILLMProvider, LLMRegistry
from modules.llm_platform.domain.ports.metrics import NO_METRICS, IMetrics
from modules.llm_platform.domain.redaction import Redactor
from modules.llm_platform.infrastructure.http.client import Upstream, make_client, read_body, user_agent
from modules.llm_platform.infrastructure.http.errors import TRANSPORT_ERRORS
from modules.llm_platform.infrastructure.http.upstream_fields import count_fields
from modules.llm_platform.infrastructure.llm.errors import decode_error, reported_error, status_error, transport_error
from modules.llm_platform.infrastructure.llm.kinds import LLMConnection, configuration_error
from modules.llm_platform.infrastructure.llm.streaming import (
    MAX_BODY_BYTES,
    AnswerBuilder,
    InvalidAnswerError,
    ReportedError,
    StreamReader,
    read_answer,
)

MAX_ERROR_BYTES: Final = 65_536
TAIL_S: Final = 2.0  # to wait for usage and [DONE] when the answer itself is complete
DRAIN_S: Final = 0.05  # to wait for the end of the body after [DONE], so that the connection can be reused
PING_TIMEOUT_S: Final = 5.0

Value = TypeVar("Value")


class _TimeBudget:
    """The seconds left to wait for a service. The time that a slow reader of the stream takes does not count."""

    def __init__(self, seconds: float) -> None:
        self.left_s = seconds


class OpenAIProvider(ILLMProvider):
    """One configured model. Each request is sent once: retries and failover are policies.

    Without a `client` it creates one on first use and closes it in `aclose`; a given one stays open.
    """

    def __init__(
        self,
        config: LLMConnection,
        client: httpx2.AsyncClient | None = None,
        redactor: Redactor | None = None,
        metrics: IMetrics = NO_METRICS,
    ) -> None:
        self.name: str = config.name
        self.model: str = config.model
        self.kind = config.kind
        self._connection = config
        self._configuration_error = configuration_error(config)
        self._redactor = redactor or Redactor((config.api_key,))
        self._metrics = metrics
        self._shared_client = client
        self._own_client: httpx2.AsyncClient | None = None
        self._upstream: Upstream | None = None
        self._registry = LLMRegistry((self,))

    @property
    def label(self) -> str:
        """Provider and model, for instance `kimi/kimi-for-coding`."""
        return f"{self.name}/{self.model}"

    async def generate(self, request: LLMRequest) -> LLMResponse:
        body = self._body(request)
        answer = AnswerBuilder(self._connection, request, self._redactor)
        with self._translated(answer):
            content = await self._timed(self._fetch(body, request.data_kind), _TimeBudget(self._connection.timeout))
            answer.add(read_answer(content))
            answer.finish()
            count_fields(self._metrics, self.name, answer.raw, "chat")
            return answer.response()

    async def stream(self, request: LLMRequest) -> AsyncIterator[LLMStreamPart]:
        body = self._body(request) | {"stream": True, "stream_options": {"include_usage": True}}
        answer = AnswerBuilder(self._connection, request, self._redactor)
        budget = _TimeBudget(self._connection.timeout)
        with self._translated(answer):
            response = await self._timed(self._send(body, request.data_kind), budget)
            try:
                async with aclosing(self._read_stream(answer, response, budget)) as reads:
                    async for _ in reads:
                        for part in answer.new_parts():
                            yield part
            finally:
                await response.aclose()
            answer.finish()
            count_fields(self._metrics, self.name, answer.raw, "chat")
            for part in answer.new_parts():
                yield part
            yield answer.response()

    async def ping(self) -> str:
        """Request the list of models, which costs no tokens."""
        self._check_configuration()
        return await self._timed(self._list_models(), _TimeBudget(min(PING_TIMEOUT_S, self._connection.timeout)))

    async def aclose(self) -> None:
        """Close the client that this object created."""
        client, self._own_client, self._upstream = self._own_client, None, None
        if client is not None:
            await client.aclose()

    def _check_configuration(self) -> None:
        if self._configuration_error:
            raise LLMConfigError(self._configuration_error)

    def _body(self, request: LLMRequest) -> dict[str, Any]:
        self._registry.resolve(request)  # raises for another provider or model
        self._check_configuration()
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": message.role, "content": message.content} for message in request.messages],
        }
        if request.max_tokens is not None:
            body[self._connection.traits.max_tokens_field] = request.max_tokens
        return body

    async def _send(self, body: dict[str, Any], kind: SentKind) -> httpx2.Response:
        """A successful response with its body unread."""
        path = self._path("/chat/completions", self.model)
        return await self._successful(await self._connected().open(path, body, kind))

    async def _successful(self, response: httpx2.Response) -> httpx2.Response:
        """The response, still unread. Raises the LLMException for a status other than 2xx."""
        if response.is_success:
            return response
        body = await read_body(response, MAX_ERROR_BYTES) or b""
        raise status_error(self._connection, response.status_code, decode_error(body), response.headers)

    async def _fetch(self, body: dict[str, Any], kind: SentKind) -> bytes:
        content = await read_body(await self._send(body, kind), MAX_BODY_BYTES)
        if content is None:
            raise InvalidAnswerError("more bytes than the limit for an answer")
        return content

    async def _read_stream(
        self, answer: AnswerBuilder, response: httpx2.Response, budget: _TimeBudget
    ) -> AsyncGenerator[None]:
        """Read until the answer is complete, and yield after each read that brought deltas."""
        reader = StreamReader()
        tail = _TimeBudget(TAIL_S)
        async with aclosing(response.aiter_bytes()) as chunks:
            while not reader.done:
                received = await self._next_chunk(chunks, answer, budget, tail)
                has_new = False
                for delta in reader.feed(received) if received else reader.end():
                    answer.add(delta)
                    has_new = True
                if has_new:
                    yield
                if not received:
                    break
            if reader.done:
                await _drain(chunks)
        if not reader.done and answer.finish_reason is None:
            raise LLMConnectionError(f"{self.name} broke off half-way: try again")

    async def _next_chunk(
        self, chunks: AsyncIterator[bytes], answer: AnswerBuilder, budget: _TimeBudget, tail: _TimeBudget
    ) -> bytes:
        """The next bytes, empty at the end. A failure after the finish reason only costs the usage."""
        if answer.finish_reason is None:
            return await self._timed(anext(chunks, b""), budget)
        with suppress(LLMConnectionError):
            return await self._timed(anext(chunks, b""), tail)
        return b""

    async def _list_models(self) -> str:
        response = await self._connected().open(self._path("/models"))
        if response.status_code == httpx2.codes.NOT_FOUND:
            await response.aclose()
            return "reachable; it lists no models"
        response = await self._successful(response)
        await response.aclose()
        if "html" in response.headers.get("content-type", ""):
            address = self._connection.settings.address
            raise LLMConfigError(f"{self.name} answered with a web page: check {address}")
        return "reachable"

    async def _timed(self, action: Awaitable[Value], budget: _TimeBudget) -> Value:
        """The result of the action, or an LLMException.

        It is raised outside of the handler, so that it has no context: errors of the libraries quote the service, which
        may quote the key.
        """
        failure: LLMException
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            async with asyncio.timeout(budget.left_s):
                return await action
        except TRANSPORT_ERRORS as error:
            failure = transport_error(self._connection, error)
        finally:
            budget.left_s -= loop.time() - started
        raise failure

    @contextmanager
    def _translated(self, answer: AnswerBuilder) -> Iterator[None]:
        """Turns invalid answers into an LLMException and adds the cost so far to every error."""
        try:
            yield
        except InvalidAnswerError as error:
            address = self._connection.settings.address
            failure: LLMException = LLMProviderException(f"{self.name} answered with {error}: check {address}")
        except ReportedError as error:
            failure = reported_error(self._connection, error.body)
        except LLMException as error:
            failure = error
        else:
            return
        failure.spent = answer.spent()
        raise failure from None

    def _path(self, operation: str, deployment: str = "") -> str:
        return self._connection.traits.path(operation, self._connection.api_version, deployment)

    def _connected(self) -> Upstream:
        if self._upstream is None:
            self._upstream = self._connect()
        return self._upstream

    def _connect(self) -> Upstream:
        config = self._connection
        if self._shared_client is None:
            self._own_client = make_client(config.address or "", config.timeout)
        headers = {
            "User-Agent": config.user_agent or config.traits.user_agent or user_agent(),
            "Accept-Encoding": "identity",  # streams arrive unbuffered, and no body expands
            **config.traits.key_headers(config.api_key),
        }
        return Upstream(
            self.name,
            config.address or "",
            setting=config.settings.address,
            timeout=config.timeout,
            client=self._shared_client or self._own_client,
            headers=headers,
        )


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    """Read the rest of a complete body, so that the connection can serve the next request."""
    with suppress(*TRANSPORT_ERRORS):
        async with asyncio.timeout(DRAIN_S):
            await anext(chunks, b"")
