"""Call chat models of services with OpenAI's protocol. The services are the rows of `KINDS`."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from typing import Any, Final, TypeVar

import httpx2

from modules.llm_platform.domain import exceptions
from modules.llm_platform.domain.dtos.llm_dtos import ChatMessage, LLMRequest, LLMStreamPart, Relay
from modules.llm_platform.domain.llm.model_progress import watch_model
from modules.llm_platform.domain.ports.llm import BROKEN_OFF, ILLMProvider, LLMRegistry
from modules.llm_platform.domain.privacy.redaction import Redactor
from modules.llm_platform.infrastructure.http.client import (
    Upstream,
    get_body_end,
    get_user_agent,
    make_client,
    read_body,
    read_chunks,
)
from modules.llm_platform.infrastructure.http.errors import TRANSPORT_ERRORS
from modules.llm_platform.infrastructure.models.kinds import LLMConnection, find_configuration_error
from modules.llm_platform.infrastructure.models.openai import errors
from modules.llm_platform.infrastructure.models.openai.answer_builder import AnswerBuilder
from modules.llm_platform.infrastructure.models.openai.deltas import InvalidAnswerError, ReportedError
from modules.llm_platform.infrastructure.models.openai.event_stream import StreamReader
from modules.llm_platform.infrastructure.models.openai.gathering import gather_chunks
from modules.llm_platform.infrastructure.models.openai.relay import RelayBuilder
from modules.llm_platform.infrastructure.models.openai.sdk import OpenAIClient, begin_loading

MAX_MODELS_BYTES: Final = 4 << 20  # The list of a gateway has hundreds of models.
MIN_CONTEXT_TOKENS: Final = 512
MAX_CONTEXT_TOKENS: Final = 100_000_000
MAX_NAMED_MODELS: Final = 8  # An error lists at most this many models of the service.
MAX_NAME_CHARS: Final = 80  # Longer names are cut.
MAX_CALL_S: Final = 3600.0  # The limit for a service that never stops sending. Most callers have an earlier deadline.
LOADING_PAUSE_S: Final = 1.0  # The pause between two tries while a server loads its model.
TAIL_S: Final = 2.0  # The wait for the usage and [DONE] after the answer itself is complete.
DRAIN_S: Final = 0.05  # The wait for the end of the body after [DONE], so that the connection can be reused.
PING_TIMEOUT_S: Final = 5.0
SCHEMA_NAME: Final = "answer"
CONTEXT_TIMEOUT_S: Final = 2.0  # The limit for asking a local service for its context window.

NO_ANSWER: Final = "{name} did not answer within {seconds:g} s: try again, or raise LLM_TIMEOUT_S"
STOPPED: Final = "{name} stopped responding (no token for {seconds:g} s): try again, or raise LLM_IDLE_TIMEOUT_S"
TOO_LONG: Final = (
    "{name} was still writing after {seconds:g} s: request fewer tokens (max_tokens), or lower LLM_MAX_TOKENS"
)

Value = TypeVar("Value")


class _TimeLimit:
    """The time left to wait for a service. The time that a slow reader of the stream takes does not count.

    - `seconds` is the limit, and `left_s` is the rest of it.
    - `message` is the text of the error, with {name} and {seconds}.
    """

    def __init__(self, seconds: float, message: str = NO_ANSWER) -> None:
        self.seconds = self.left_s = seconds
        self.message = message


class OpenAIProvider(ILLMProvider):
    """One configured model. Each request is sent once, because retries and failover are policies of their own.

    Without `client`, the first request creates a client, which `aclose` closes. A given client stays open.
    """

    def __init__(
        self,
        config: LLMConnection,
        client: httpx2.AsyncClient | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        self.name: str = config.name
        self.model: str = config.model
        self.kind = config.kind
        self.is_free = config.cost_usd(1, 1) == 0.0
        is_fixed = config.temperature is not None or not config.traits.accepts_temperature
        self.ignored_fields = ("temperature",) if is_fixed else ()
        self._connection = config
        self._configuration_error = find_configuration_error(config)
        self._redactor = redactor or Redactor((config.api_key,))
        self._shared_client = client
        self._own_client: httpx2.AsyncClient | None = None
        self._client: OpenAIClient | None = None
        self._registry = LLMRegistry((self,))
        self._knows_context = False
        self._learned_context: int | None = None
        self._refused: set[str] = set()  # The optional fields that the service has refused.

    @property
    def label(self) -> str:
        """The provider and the model, such as `kimi/kimi-for-coding`."""
        return f"{self.name}/{self.model}"

    async def stream(self, request: LLMRequest) -> AsyncGenerator[LLMStreamPart]:
        body = self._write_body(request)
        client = await self._ensure_client()
        builder = AnswerBuilder if request.relay is None else RelayBuilder
        answer = builder(self._connection, request, self._redactor)
        first = self._choose_first_limit(request)
        async with watch_model(answer.meter.measure_progress):
            with self._translate_errors(answer):
                response = await self._send(client, body, request, first)
                try:
                    async with aclosing(self._read_stream(answer, response, request.step_s, first)) as reads:
                        async for _ in reads:
                            for part in answer.take_new_parts():
                                yield part
                finally:
                    await response.aclose()
                answer.finish()
                for part in answer.take_new_parts():
                    yield part
                yield answer.build_response()

    @property
    def is_complete(self) -> bool:
        """True if no setting is missing or invalid."""
        return self._configuration_error is None

    def begin_loading(self) -> None:
        """Load the openai package in a thread, so that a search and the loading take their time together."""
        if self._configuration_error is None:
            begin_loading()

    async def ping(self) -> str:
        """Request the list of models, which costs no tokens, and return a short status.

        Raises LLMConfigError for a missing or invalid setting and if the service lists its models without the configured one,
        and another LLMException if the request fails.
        """
        self._check_configuration()
        client = await self._ensure_client()
        return await self._run_within(
            self._check_models(client), _TimeLimit(min(PING_TIMEOUT_S, self._connection.timeout))
        )

    async def context_tokens(self) -> int | None:
        """Return the context window in tokens, or None if it is unknown.

        A local service is asked if the window is not configured.
        """
        if self._connection.context or not self._connection.is_local:
            return self._connection.context
        if not self._knows_context and self._configuration_error is None:
            limit = _TimeLimit(min(CONTEXT_TIMEOUT_S, self._connection.timeout))
            with suppress(exceptions.LLMException):  # The call of the model reports the error.
                models = await self._run_within(self._list_models(await self._ensure_client()), limit) or []
                self._learned_context = _find_context_window(models, self.model)
                self._knows_context = True
        return self._learned_context

    async def aclose(self) -> None:
        """Close the client that this object created."""
        client, self._own_client, self._client = self._own_client, None, None
        if client is not None:
            await client.aclose()

    def _choose_first_limit(self, request: LLMRequest) -> _TimeLimit:
        """Return the wait for the first text. A relayed answer that is not a stream is complete with it."""
        if request.relay is not None and not request.relay.streams:
            return _TimeLimit(MAX_CALL_S, TOO_LONG)
        return _TimeLimit(self._connection.timeout)

    def _check_configuration(self) -> None:
        if self._configuration_error:
            raise exceptions.LLMConfigError(self._configuration_error)

    def _write_body(self, request: LLMRequest) -> dict[str, Any]:
        """Return the JSON object to send. Raises LLMException for another provider or model, or for wrong settings."""
        self._registry.resolve(request)
        self._check_configuration()
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [_write_message(message) for message in request.messages],
        }
        if request.max_tokens is not None:
            body[self._connection.max_tokens_field] = request.max_tokens
        if request.temperature is not None and self._connection.traits.accepts_temperature:
            configured = self._connection.temperature
            body["temperature"] = request.temperature if configured is None else configured
        if request.json_schema is not None:
            # Services refuse a strict schema that leaves anything open, and a schema of the caller may do so.
            is_strict = not request.is_callers_schema
            schema = {"name": SCHEMA_NAME, "schema": request.json_schema, "strict": is_strict}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        relay = request.relay or Relay(streams=True, includes_usage=True)
        usage = {"stream_options": {"include_usage": True}} if relay.includes_usage else {}
        return body | request.extra | ({"stream": True, **usage} if relay.streams else {})

    async def _send(
        self, client: OpenAIClient, body: dict[str, Any], request: LLMRequest, limit: _TimeLimit
    ) -> httpx2.Response:
        """Return a successful response with its body unread. Wait while the server loads its model.

        If the service refuses an optional field that the platform adds, no request has that field again. If it refuses the
        caller's schema, this request is sent without it. Raises LLMException if it refuses another field of the caller.
        """
        while True:
            sent = {name: value for name, value in body.items() if name in request.extra or name not in self._refused}
            response = await self._run_within(
                client.post("/chat/completions", sent, sent_kind=request.data_kind), limit
            )
            if response.is_success:
                return response
            content = errors.decode_error(response.content)
            if wrong := errors.find_refused_extra(self._connection, response.status_code, content, request.extra):
                raise wrong
            ours = {name: value for name, value in sent.items() if name not in request.extra}
            if request.is_callers_schema and errors.is_schema_refused(response.status_code, content, ours):
                body = {name: value for name, value in sent.items() if name != "response_format"}
            elif field := errors.find_refused_field(response.status_code, content, ours):
                self._refused.update((field, "stream_options") if field == "stream" else (field,))
            elif errors.is_loading(response.status_code, content) and self._can_wait(limit):
                await self._run_within(asyncio.sleep(LOADING_PAUSE_S), limit)
            else:
                raise errors.make_status_error(self._connection, response.status_code, content, response.headers)

    def _can_wait(self, limit: _TimeLimit) -> bool:
        """Return whether a server may continue loading its model: no longer than others may take for their first text."""
        return limit.seconds - limit.left_s + LOADING_PAUSE_S < self._connection.timeout

    async def _read_stream(
        self, answer: AnswerBuilder, response: httpx2.Response, step_s: float, limit: _TimeLimit
    ) -> AsyncGenerator[None]:
        """Read until the answer is complete, and yield after each read that adds deltas to the answer."""
        reader = StreamReader()
        tail, whole = _TimeLimit(TAIL_S), _TimeLimit(MAX_CALL_S, TOO_LONG)
        async with aclosing(gather_chunks(read_chunks(response), step_s, get_body_end(response))) as chunks:
            while not reader.done and not answer.is_looping:
                received = await self._receive_chunk(chunks, answer, limit, tail, whole)
                has_new, known = answer.receive_bytes(received), answer.meter.chars
                for delta in reader.feed(received) if received else reader.end():
                    answer.add(delta)
                    has_new = True
                if answer.meter.chars > known:
                    limit = _TimeLimit(self._connection.idle_timeout, STOPPED)
                if has_new:
                    yield
                if not received:
                    break
            if reader.done:
                # Read the rest of a complete body, so that the connection can serve the next request.
                with suppress(*TRANSPORT_ERRORS):
                    async with asyncio.timeout(DRAIN_S):
                        await anext(chunks, b"")
        if not (reader.done or answer.is_looping) and answer.finish_reason is None:
            raise exceptions.LLMConnectionError(BROKEN_OFF.format(name=self.name))

    async def _receive_chunk(
        self,
        chunks: AsyncIterator[bytes],
        answer: AnswerBuilder,
        limit: _TimeLimit,
        tail: _TimeLimit,
        whole: _TimeLimit,
    ) -> bytes:
        """Return the next bytes, or none at the end.

        After the finish reason, a failure counts as the end of the body: only the usage is lost.
        """
        if not answer.has_ended:
            left_s = limit.left_s
            received = await self._run_within(anext(chunks, b""), limit if left_s < whole.left_s else whole)
            whole.left_s -= left_s - limit.left_s
            return received
        with suppress(exceptions.LLMConnectionError):
            return await self._run_within(anext(chunks, b""), tail)
        return b""

    async def _check_models(self, client: OpenAIClient) -> str:
        """Return what the list of models shows. Raises LLMConfigError if it does not have the configured model."""
        models = await self._list_models(client)
        if models is None:
            return "reachable; it lists no models"
        # llama.cpp's server has one model, which answers whatever name a request has.
        if len(models) == 1 and models[0].get("owned_by") == "llamacpp":
            return "reachable; it serves its one model under any name"
        names = {name for model in models for name in _list_names(model) if name.isprintable()}
        # Azure lists base models, while the configured name names a deployment.
        if names and self.model not in names and not self._connection.traits.deployments:
            known = ", ".join(name[:MAX_NAME_CHARS] for name in sorted(names)[:MAX_NAMED_MODELS])
            setting = self._connection.settings.model
            raise exceptions.LLMConfigError(f"{self.name} has no model {self.model!r}: set {setting} to one of {known}")
        return "reachable"

    async def _list_models(self, client: OpenAIClient) -> list[dict[str, Any]] | None:
        """Return the entries of the list of models, or None if the service has no such list."""
        response = await client.get("/models")
        if response.status_code == httpx2.codes.NOT_FOUND:
            return None
        if not response.is_success:
            refusal = errors.decode_error(response.content)
            raise errors.make_status_error(self._connection, response.status_code, refusal, response.headers)
        body = await read_body(response, MAX_MODELS_BYTES) or b""
        if "html" in response.headers.get("content-type", ""):
            address = self._connection.settings.address
            raise exceptions.LLMConfigError(f"{self.name} answered with a web page: check {address}")
        listed = errors.decode_error(body)
        if isinstance(listed, dict) and listed.get("error"):  # some gateways send errors with status 200
            raise errors.read_reported_error(self._connection, listed)
        entries = listed.get("data") if isinstance(listed, dict) else None
        return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []

    async def _run_within(self, action: Awaitable[Value], limit: _TimeLimit) -> Value:
        """Return the result of the action within the limit. Transport errors and timeouts become an LLMException.

        It is raised outside of the handler, so that it has no context: the libraries' errors may quote the service's text,
        which may contain the key.
        """
        failure: exceptions.LLMException
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            async with asyncio.timeout(limit.left_s):
                return await action
        except TRANSPORT_ERRORS as error:
            failure = errors.make_transport_error(
                self._connection, error, limit.message.format(name=self.name, seconds=limit.seconds)
            )
        finally:
            limit.left_s -= loop.time() - started
        raise failure

    @contextmanager
    def _translate_errors(self, answer: AnswerBuilder) -> Iterator[None]:
        """Turn invalid answers inside the block into an LLMException, and add the cost so far to each error."""
        try:
            yield
        except InvalidAnswerError as error:
            address = self._connection.settings.address
            failure: exceptions.LLMException = exceptions.LLMProviderException(
                f"{self.name} answered with {error}: check {address}"
            )
        except ReportedError as error:
            failure = errors.read_reported_error(self._connection, error.body)
        except exceptions.LLMException as error:
            failure = error
        else:
            return
        failure.spent = answer.price_spending()
        raise failure from None

    async def _ensure_client(self) -> OpenAIClient:
        """Return the client, ready for requests. The time to load its package does not count as time of the service."""
        if self._client is None:
            self._client = self._connect()
        await self._client.load()
        return self._client

    def _connect(self) -> OpenAIClient:
        config = self._connection
        if self._shared_client is None:
            self._own_client = make_client(config.address or "", config.timeout)
        upstream = Upstream(
            self.name,
            config.address or "",
            setting=config.settings.address,
            timeout=config.timeout,
            read_timeout=MAX_CALL_S,  # Each wait has a _TimeLimit.
            client=self._shared_client or self._own_client,
            headers={
                "User-Agent": config.user_agent or config.traits.user_agent or get_user_agent(),
                "Accept-Encoding": "identity",  # A compressed stream may arrive late, and a compressed body may expand.
            },
            errors=errors.LLM_FAMILY,
        )
        return OpenAIClient(upstream, config.api_key, config.traits.version(config.api_version))


def _write_message(message: ChatMessage) -> dict[str, Any]:
    sent: dict[str, Any] = {"role": message.role, "content": list(message.parts) or message.content}
    if message.tool_calls:
        sent |= {"content": message.content or None, "tool_calls": list(message.tool_calls)}
    if message.tool_call_id is not None:
        sent["tool_call_id"] = message.tool_call_id
    if message.name is not None:
        sent["name"] = message.name
    if message.reasoning:
        sent["reasoning_content"] = message.reasoning
    return sent


def _list_names(model: dict[str, Any]) -> Iterator[str]:
    """Yield the names under which an entry of a list of models can be requested."""
    aliases = model.get("aliases")
    for name in (model.get("id"), *(aliases if isinstance(aliases, list) else ())):
        if isinstance(name, str):
            yield name
            yield name.removesuffix(":latest")  # Ollama adds this tag to a name without one.


def _find_context_window(models: Sequence[dict[str, Any]], name: str) -> int | None:
    """Return the context window of a model in tokens: `max_model_len` of vLLM's list, or `meta.n_ctx` of llama.cpp's."""
    entry = next((model for model in models if name in _list_names(model)), models[0] if len(models) == 1 else {})
    meta = entry.get("meta")
    sizes = (entry.get("max_model_len"), meta.get("n_ctx") if isinstance(meta, dict) else None)
    return next(
        (size for size in sizes if type(size) is int and MIN_CONTEXT_TOKENS <= size <= MAX_CONTEXT_TOKENS), None
    )
