"""Chat models of every service that speaks OpenAI's protocol, through `AsyncOpenAI`. The services are rows of `KINDS`.

The openai package sends the requests and checks the statuses. Bodies and streams are decoded here, because the package builds
a pydantic object for every chunk (four times the CPU) and passes malformed answers on as strings and None.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterator
from contextlib import aclosing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

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
from modules.llm_platform.infrastructure.http.client import make_client
from modules.llm_platform.infrastructure.http.upstream_fields import count_fields
from modules.llm_platform.infrastructure.llm.errors import (
    library_errors,
    reported_error,
    timeout_error,
    translate_error,
)
from modules.llm_platform.infrastructure.llm.http_client import (
    SharedPoolClient,
    log_requests_as,
    own_headers,
    read_at_most,
)
from modules.llm_platform.infrastructure.llm.kinds import AZURE_API_VERSION, LLMConnection, configuration_error
from modules.llm_platform.infrastructure.llm.streaming import (
    MAX_BODY_BYTES,
    AnswerBuilder,
    InvalidAnswerError,
    ReportedError,
    StreamReader,
    read_answer,
)

if TYPE_CHECKING:
    from openai import AsyncOpenAI

TAIL_S: Final = 2.0  # to wait for usage and [DONE] when the answer itself is complete
DRAIN_S: Final = 0.05  # to wait for the end of the body after [DONE], so that the connection can be reused
PING_TIMEOUT_S: Final = 5.0
NO_KEY: Final = "the key is set by SharedPoolClient"  # the package requires one

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
        self._sdk: AsyncOpenAI | None = None
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

    async def warm_up(self) -> None:
        """Load the client library. A configuration error is raised by the first request."""
        if self._configuration_error is None:
            with suppress(LLMException):
                await self._client()

    async def aclose(self) -> None:
        """Close the client that this object created."""
        client, self._own_client, self._sdk = self._own_client, None, None
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
        sdk = await self._client()
        with log_requests_as(kind):
            return await sdk.post("/chat/completions", cast_to=httpx2.Response, body=body)

    async def _fetch(self, body: dict[str, Any], kind: SentKind) -> bytes:
        response = await self._send(body, kind)
        try:
            content = await read_at_most(response, MAX_BODY_BYTES)
        finally:
            await response.aclose()
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
        except TimeoutError:
            failure = timeout_error(self._connection)
        except library_errors() as error:
            failure = translate_error(error, self._connection)
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

    async def _client(self) -> AsyncOpenAI:
        if self._sdk is None:
            await asyncio.to_thread(_load_openai)  # takes most of a second; other requests continue meanwhile
            self._sdk = self._sdk or self._connect()
        return self._sdk

    def _connect(self) -> AsyncOpenAI:
        import openai

        config = self._connection
        pool = self._shared_client
        if pool is None:
            pool = self._own_client = make_client(config.address or "", config.timeout)
        http = SharedPoolClient(pool, own_headers(config))
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
    """Read the rest of a complete body, so that the connection can serve the next request."""
    with suppress(TimeoutError, *library_errors()):
        async with asyncio.timeout(DRAIN_S):
            await anext(chunks, b"")
