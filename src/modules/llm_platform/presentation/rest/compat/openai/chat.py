"""The API of OpenAI: models, chat completions, responses and embeddings (docs/reference/compatible-apis.md).

A model named `research-…` answers with a research run. Any other name stands for a configured language model. The vendor
documents the API at https://platform.openai.com/docs/api-reference.
"""

from __future__ import annotations

import struct
from base64 import b64encode
from collections.abc import AsyncGenerator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Request, Response
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, StringConstraints

from modules.llm_platform.application.research.events import ResearchEvent, RoundStarted
from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.llm_dtos import (
    EXTRA_FIELDS,
    MAX_ANSWER_TOKENS,
    MAX_CHOICES,
    MAX_TOOLS,
    ConfiguredModel,
    LLMRequest,
    LLMResponse,
    Relay,
)
from modules.llm_platform.domain.dtos.request_dtos import Depth
from modules.llm_platform.domain.dtos.source_dtos import SourceRef
from modules.llm_platform.domain.research.transcript_task import TranscriptTask
from modules.llm_platform.domain.text.tokens import count_tokens
from modules.llm_platform.presentation.rest.chat_routes import ChatDone, ChatEvent, ModelPart, stream_chat
from modules.llm_platform.presentation.rest.compat import (
    chat_completions,
    client_tools,
    content,
    dialect,
    prompts,
    structured,
    transcripts,
)
from modules.llm_platform.presentation.rest.compat.chat_completions import OpenaiMessage
from modules.llm_platform.presentation.rest.compat.openai import models, responses, stored_responses
from modules.llm_platform.presentation.rest.compat.openai.examples import EXAMPLES
from modules.llm_platform.presentation.rest.compat.openai.relay import relay_stream, relay_whole
from modules.llm_platform.presentation.rest.compat.openai.responses import ERROR_STATUSES
from modules.llm_platform.presentation.rest.compat.verified_answers import (
    VerifiedAnswer,
    declare_check,
    open_check,
    read_mode,
)
from modules.llm_platform.presentation.rest.http.body import CONVERSATION, read_body
from modules.llm_platform.presentation.rest.http.disconnect import CancelOnDisconnect, run_until_disconnect
from modules.llm_platform.presentation.rest.http.idempotency import answer_once
from modules.llm_platform.presentation.rest.http.problems import InvalidRequestError, NotFoundError
from modules.llm_platform.presentation.rest.http.request_scope import get_services, request_id
from modules.llm_platform.presentation.rest.http.run_research import run_research
from modules.llm_platform.presentation.rest.http.sse import EventStream, stream_research
from shared.exceptions import AppException

router = APIRouter(prefix="/v1", tags=["compatible"])

REASONING: Final = "reasoning_content"  # DeepSeek, Kimi, vLLM and others use this field.
MAX_INPUTS: Final = 2048  # The vendor accepts as many texts in one request.
MAX_STOPS: Final = 16
MAX_BIASES: Final = 1024
# A request may not set these arguments of the function that fills a chat template: the server sets them, or they replace the
# template.
TEMPLATE_ARGUMENTS: Final = frozenset(
    {
        "add_generation_prompt",
        "chat_template",
        "continue_final_message",
        "conversation",
        "documents",
        "max_length",
        "messages",
        "padding",
        "return_assistant_tokens_mask",
        "return_dict",
        "return_tensors",
        "tokenize",
        "tokenizer",
        "tokenizer_kwargs",
        "tools",
        "truncation",
    }
)
IGNORED_BY_RESEARCH: Final = (
    "max_tokens",
    "max_completion_tokens",
    "web_search_options",
    "temperature",
    *sorted(EXTRA_FIELDS - {"response_format", "n"}),
)
ONLY_LLM: Final = "is not supported by a research model: leave it out, or choose a language model as model"
REFUSED_BY_RESEARCH: Final = dict.fromkeys(("logprobs", "logit_bias"), ONLY_LLM)
REFUSED: Final = {
    "functions": "functions are not supported: send tools",
    "function_call": "functions are not supported: send tool_choice",
    "modalities": "only text is supported",
    "audio": "only text is supported",
}


class OpenaiStreamOptions(BaseModel, frozen=True):
    """Options of a stream. With `include_usage` it ends with a chunk that has the number of tokens."""

    include_usage: bool = Field(default=False, strict=True)


def _refuse_template_arguments(fields: dict[str, Any]) -> dict[str, Any]:
    """Accept switches of a chat template, such as `enable_thinking`, and refuse TEMPLATE_ARGUMENTS.

    Some of those can stop a server of vLLM.
    """
    if fields.keys() & TEMPLATE_ARGUMENTS:
        raise ValueError("may have switches of the template alone, and neither a template nor what the server sets")
    return fields


TemplateFields = Annotated[
    dict[Annotated[str, Field(max_length=100)], bool | int | float | Annotated[str, Field(max_length=1000)] | None],
    Field(max_length=20),
    AfterValidator(_refuse_template_arguments),
]


def _check_biases(value: object) -> object:
    """Refuse an invalid map as a whole. An error inside it would name a key, which is the sender's text."""
    if value is None or (
        isinstance(value, dict)
        and len(value) <= MAX_BIASES
        and all(type(bias) in (int, float) for bias in value.values())
    ):
        return value
    raise ValueError(f"must be an object of at most {MAX_BIASES} numbers, by token")


class OpenaiChatRequest(dialect.DialectBody, frozen=True):
    """A conversation with a research run or a configured language model.

    A language model gets the fields from `temperature` on. A research run ignores or refuses most of them.
    """

    model: models.ModelName
    messages: chat_completions.Messages
    stream: bool | None = Field(default=None, strict=True)
    stream_options: OpenaiStreamOptions | None = None
    max_tokens: int | None = Field(default=None, ge=1, le=MAX_ANSWER_TOKENS, strict=True)
    max_completion_tokens: int | None = Field(default=None, ge=1, le=MAX_ANSWER_TOKENS, strict=True)
    n: int | None = Field(default=None, ge=1, le=MAX_CHOICES, strict=True)
    response_format: dict[str, Any] | None = None
    web_search_options: dict[str, Any] | None = None
    temperature: float | None = Field(default=None, ge=0, le=2, strict=True)
    top_p: float | None = Field(default=None, ge=0, le=1, strict=True)
    frequency_penalty: float | None = Field(default=None, ge=-2, le=2, strict=True)
    presence_penalty: float | None = Field(default=None, ge=-2, le=2, strict=True)
    seed: int | None = Field(default=None, strict=True)
    stop: str | Annotated[tuple[str, ...], Field(max_length=MAX_STOPS)] | None = None
    reasoning_effort: str | None = None
    verbosity: str | None = None
    top_k: int | None = Field(default=None, ge=-1, strict=True)
    min_p: float | None = Field(default=None, ge=0, le=1, strict=True)
    min_tokens: int | None = Field(default=None, ge=0, le=MAX_ANSWER_TOKENS, strict=True)
    repetition_penalty: float | None = Field(default=None, ge=0, le=10, strict=True)
    logprobs: bool | None = Field(default=None, strict=True)
    top_logprobs: int | None = Field(default=None, ge=0, le=20, strict=True)
    logit_bias: Annotated[dict[str, float] | None, BeforeValidator(_check_biases)] = None
    chat_template_kwargs: TemplateFields | None = None
    enable_thinking: bool | None = Field(default=None, strict=True)
    thinking: dict[str, Any] | None = None
    prompt_cache_key: str | None = None
    tools: Annotated[tuple[dict[str, Any], ...], Field(max_length=MAX_TOOLS)] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = Field(default=None, strict=True)

    @property
    def includes_usage(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage


Input = Annotated[str, StringConstraints(min_length=1)]
_Inputs = Annotated[tuple[Input, ...], Field(min_length=1, max_length=MAX_INPUTS)]


def _refuse_tokens(value: object) -> object:
    """Refuse a text, or a list of texts, that is sent as the ids of its tokens."""
    first = value[0] if isinstance(value, list) and value else None
    if isinstance(first, int) or (isinstance(first, list) and first and isinstance(first[0], int)):
        raise ValueError(
            "must be text: ids of tokens belong to the tokenizer of another model. With LangChain, set "
            "OpenAIEmbeddings(check_embedding_ctx_length=False)"
        )
    return value


class OpenaiEmbeddingRequest(dialect.DialectBody, frozen=True):
    """One text or several. Ids of tokens are refused, because they belong to the tokenizer of another model."""

    model: models.ModelName
    input: Annotated[Input | _Inputs, dialect.accept_one_or_several(Input, _Inputs), BeforeValidator(_refuse_tokens)]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = Field(default=None, ge=1, strict=True)


class OpenaiChatResponse(BaseModel, extra="allow"):
    """A chat completion. If a research run answers, the `annotations` of the message are its citations."""

    id: str
    object: str
    created: int
    model: str
    choices: list[dict[str, Any]]
    usage: dict[str, Any]


class OpenaiEmbeddings(BaseModel):
    """The vectors in the order of the texts. Each vector has length 1."""

    object: str
    model: str
    data: list[dict[str, Any]]
    usage: dict[str, int]


@router.post(
    "/chat/completions",
    **declare_check(
        dialect.declare_route(
            "Answer a conversation, for clients of OpenAI",
            OpenaiChatRequest,
            OpenaiChatResponse,
            ERROR_STATUSES,
            chat_completions.CHUNKS,
        )
    ),
)
async def chat(request: Request) -> Response:
    body = await read_body(request, OpenaiChatRequest, limit=CONVERSATION)
    read_mode(request)
    chat_completions.refuse_fields(body, REFUSED)
    return await answer_once(request, body, partial(_answer_body, request, body))


async def _answer_body(request: Request, body: OpenaiChatRequest) -> Response:
    """Answer with a research run, by rules if the conversation is a task about a transcript, or with a language model."""
    if depth := models.find_depth(body.model):
        task = transcripts.find_task(body.messages)
        return await (_answer_task(request, body, task) if task else _research(request, body, depth))
    return await _answer_with_model(request, body, models.find_llm(request, body.model))


@router.post("/completions", include_in_schema=False)
async def complete(request: Request) -> Response:
    """Refuse the API that preceded chat completions. Some clients are still configured to call it."""
    raise NotFoundError(
        "Completions of a prompt are not served: send the prompt as a message to POST /v1/chat/completions."
    )


async def _research(request: Request, body: OpenaiChatRequest, depth: Depth) -> Response:
    chat_completions.refuse_fields(body, REFUSED_BY_RESEARCH)
    if body.n not in (None, 1):
        raise chat_completions.make_refusal("n", ONLY_LLM)
    tool = client_tools.find_forced_tool(request, body.tools or (), body.tool_choice)
    schema = tool.schema if tool else structured.read_schema(request, body.response_format)
    question = chat_completions.research_request(body.messages, depth, omit_raw=True, output_schema=schema)
    completion = chat_completions.Completion(
        request_id(request),
        body.model,
        _describe,
        is_annotated=True,
        is_json=schema is not None,
        tool=tool.name if tool else "",
    )
    partly_served = client_tools.list_ignored_fields(IGNORED_BY_RESEARCH, tool, body.tools or ())
    if body.stream:
        stream = await stream_research(request, question, ChatStream(completion, body.includes_usage))
        return dialect.report_ignored(stream, body, *partly_served)
    rounds: list[RoundStarted] = []

    def collect_rounds(event: ResearchEvent) -> None:
        if isinstance(event, RoundStarted):
            rounds.append(event)

    answer = completion.whole(await run_research(request, question, collect_rounds))
    if rounds:
        answer["choices"][0]["message"][REASONING] = "".join(f"{started.summary()}\n" for started in rounds)
    return dialect.make_json_answer(answer, body, *partly_served)


async def _answer_task(request: Request, body: OpenaiChatRequest, task: TranscriptTask) -> Response:
    """Answer a task about a transcript with one call of a model, or by rules if no model is configured.

    Such a task needs no research run.
    """
    model = transcripts.find_model_for_tasks(request)
    if model is not None:
        return await _answer_with_model(request, body.model_copy(update={"web_search_options": None}), model)
    answer = transcripts.rule_answer(task, body.response_format)
    if body.stream:
        events = transcripts.make_chat_events(answer, request_id(request))
        return dialect.report_ignored(await _stream(request, body, events), body, *IGNORED_BY_RESEARCH)
    return dialect.make_json_answer(_make_completion(request, body, answer), body, *IGNORED_BY_RESEARCH)


async def _answer_with_model(request: Request, body: OpenaiChatRequest, model: ConfiguredModel) -> Response:
    if body.web_search_options is not None:
        raise chat_completions.make_refusal("web_search_options", "only the research models search")
    prompt = _make_prompt(model, body)
    if (checked := open_check(request, prompt)) is not None:
        relayed = await _relay(request, body, prompt, checked)
        return dialect.report_ignored(relayed, body, *model.ignored_fields)
    llm = get_services(request).llm
    if body.stream:
        stream = await _stream(request, body, stream_chat(llm, prompt, request_id(request)))
        return dialect.report_ignored(stream, body, *model.ignored_fields)
    answer = await run_until_disconnect(request, llm.generate(prompt))
    return dialect.make_json_answer(_make_completion(request, body, answer), body, *model.ignored_fields)


async def _relay(request: Request, body: OpenaiChatRequest, prompt: LLMRequest, checked: VerifiedAnswer) -> Response:
    """Answer with the bytes of the service, and with evidence."""
    wish = Relay(bool(body.stream), body.includes_usage)
    prompt = prompt.model_copy(update={"relay": wish, "step_s": 0.0})
    if not body.stream:
        return await relay_whole(request, prompt, checked)
    completion = chat_completions.Completion(request_id(request), body.model, _describe)
    return await relay_stream(request, prompt, checked, completion)


async def _stream(request: Request, body: OpenaiChatRequest, events: AsyncGenerator[ChatEvent, None]) -> EventStream:
    completion = chat_completions.Completion(request_id(request), body.model, _describe)
    return await EventStream.start_soon(request, events, ChatStream(completion, body.includes_usage))


def _make_completion(request: Request, body: OpenaiChatRequest, answer: LLMResponse) -> dict[str, Any]:
    completion = chat_completions.Completion(request_id(request), body.model, _describe)
    choices = [_make_choice(number, choice) for number, choice in enumerate((answer, *answer.others))]
    return {**completion.head("chat.completion"), "choices": choices, "usage": _make_llm_usage(answer)}


def _make_choice(number: int, answer: LLMResponse) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.content}
    if answer.tool_calls:
        message |= {"content": answer.content or None, "tool_calls": answer.tool_calls}
    if answer.reasoning:
        message[REASONING] = answer.reasoning
    choice = {"index": number, "finish_reason": _finish_reason(answer), "message": message}
    return {**choice, "logprobs": {"content": answer.logprobs}} if answer.logprobs else choice


def _make_prompt(model: ConfiguredModel, body: OpenaiChatRequest) -> LLMRequest:
    """Return the request to the model. The service gets the fields of EXTRA_FIELDS unchanged."""
    values: dict[str, Any] = {
        "messages": [_turn(message) for message in body.messages],
        "provider": model.provider,
        "model": model.model,
        "max_tokens": body.max_completion_tokens or body.max_tokens,
        "extra": body.model_dump(include=set(EXTRA_FIELDS), exclude_none=True),
        "as_it_comes": True,
    }
    if structured.is_schema(body.response_format):
        values["extra"]["response_format"] = structured.convert_for_chat(body.response_format or {})
    if body.temperature is not None:
        values["temperature"] = float(body.temperature)
    return prompts.validate_prompt(values, _locate_field)


def _locate_field(number: int, name: str) -> prompts.Place:
    return "messages", number, {"parts": "content", "reasoning": REASONING}.get(name, name)


def _turn(message: OpenaiMessage) -> dict[str, Any]:
    turn: dict[str, Any] = {
        "role": message.role.replace("developer", "system"),
        **content.convert_for_model(message.content),
    }
    if message.tool_calls:
        turn["tool_calls"] = message.tool_calls
    turn |= {"name": message.name, "reasoning": message.reasoning_content or ""}
    return turn if message.tool_call_id is None else {**turn, "tool_call_id": message.tool_call_id}


class ChatStream(chat_completions.CompletionStream):
    """Encodes events as OpenAI's chunks.

    The last delta has the annotations. A chunk without choices has the usage, if the request asks for it.
    """

    def __init__(self, completion: chat_completions.Completion, includes_usage: bool) -> None:
        super().__init__(completion)
        self._includes_usage = includes_usage

    def encode(self, event: ResearchEvent | ChatEvent) -> bytes:
        if isinstance(event, RoundStarted):
            return self._begin() + self._chunk(0, {REASONING: f"{event.summary()}\n"}, {})
        if isinstance(event, ModelPart):
            part = event.part
            fields = {"content": part.text, REASONING: part.reasoning, "tool_calls": part.tool_calls}
            delta = {name: value for name, value in fields.items() if value}
            logprobs = {"logprobs": {"content": part.logprobs}} if part.logprobs else {}
            return self._begin() + self._chunk(part.choice, delta, logprobs)
        if isinstance(event, ChatDone):
            answers = (event.response, *event.response.others)
            ends = [self._chunk(number, {}, {}, _finish_reason(answer)) for number, answer in enumerate(answers)]
            usage = self._encode_usage(_make_llm_usage(event.response))
            return self._begin() + b"".join(ends) + usage + chat_completions.END_OF_STREAM
        return super().encode(event)

    def _chunk(
        self, number: int, delta: Mapping[str, Any], more: Mapping[str, Any], finish_reason: str | None = None
    ) -> bytes:
        """Return a chunk of answer `number`. `more` are the fields of the choice beside its delta."""
        choice = {"index": number, "finish_reason": finish_reason, "delta": delta, **more}
        return chat_completions.encode_data_part(
            {**self._completion.head("chat.completion.chunk"), "choices": [choice]}
        )

    def _end(self, response: ResearchResponse) -> bytes:
        delta = {"annotations": self._completion.annotations(response, self._void_chars)}
        last = {**self._completion.chunk(delta, self._completion.finish_reason), **_make_extension(response)}
        return chat_completions.encode_data_part(last) + self._encode_usage(chat_completions.make_token_usage(response))

    def _encode_usage(self, usage: Mapping[str, Any]) -> bytes:
        if not self._includes_usage:
            return b""
        return chat_completions.encode_data_part(
            {**self._completion.head("chat.completion.chunk"), "choices": [], "usage": usage}
        )


def _describe(sources: Sequence[SourceRef], response: ResearchResponse | None) -> Mapping[str, Any]:
    return (
        {} if response is None else {"usage": chat_completions.make_token_usage(response), **_make_extension(response)}
    )


def _make_extension(response: ResearchResponse) -> dict[str, Any]:
    return chat_completions.make_extension(response, has_citations=False)


def _finish_reason(answer: LLMResponse) -> str:
    return answer.finish_reason if answer.finish_reason in ("length", "content_filter", "tool_calls") else "stop"


def _make_llm_usage(answer: LLMResponse) -> dict[str, Any]:
    counted = answer.usage
    usage: dict[str, Any] = {
        "prompt_tokens": counted.prompt_tokens,
        "completion_tokens": counted.completion_tokens,
        "total_tokens": counted.prompt_tokens + counted.completion_tokens,
    }
    if counted.cached_tokens is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": counted.cached_tokens}
    if counted.reasoning_tokens is not None:
        usage["completion_tokens_details"] = {"reasoning_tokens": counted.reasoning_tokens}
    return usage


@router.post(
    "/embeddings",
    **dialect.declare_route(
        "Embed texts, for clients of OpenAI", OpenaiEmbeddingRequest, OpenaiEmbeddings, ERROR_STATUSES
    ),
)
async def embed(request: Request) -> Response:
    body = await read_body(request, OpenaiEmbeddingRequest)
    embeddings = get_services(request).embeddings
    if embeddings.name and body.model != embeddings.name:
        raise models.ModelNotFoundError(f"There is no such embedding model: send model {embeddings.name}.")
    texts = (body.input,) if isinstance(body.input, str) else body.input
    sizes = [count_tokens(text) for text in texts]
    for position, size in enumerate(sizes):
        if size > embeddings.window_tokens:
            message = f"is longer than {embeddings.window_tokens} tokens: embed its parts"
            raise InvalidRequestError.at(("body", "input", position), message, "too_long")
    async with CancelOnDisconnect(request.receive):
        vectors = await embeddings.embed(texts)
    data = []
    for position, vector in enumerate(vectors):
        if vector is None:
            raise InvalidRequestError.at(("body", "input", position), "has no words that can be embedded", "empty")
        if body.dimensions not in (None, len(vector)):
            raise chat_completions.make_refusal(
                "dimensions", f"the model has {len(vector)} dimensions: leave the field out"
            )
        numbers: list[float] | str
        if body.encoding_format == "float":
            numbers = list(vector)
        else:  # Clients decode little-endian 32-bit floats.
            numbers = b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
        data.append({"object": "embedding", "index": position, "embedding": numbers})
    usage = {"prompt_tokens": sum(sizes), "total_tokens": sum(sizes)}
    answer = {"object": "list", "model": embeddings.name, "data": data, "usage": usage}
    return dialect.make_json_answer(answer, body)


def _format_error(error: AppException, problem: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
    formatted = chat_completions.make_openai_error(problem)
    if isinstance(error, models.ModelNotFoundError):
        formatted["error"]["param"] = "model"
    return dialect.choose_status_400(error), formatted


DIALECT: Final = dialect.Dialect(
    prefix="/v1",
    clients="clients of OpenAI: base URL `http://localhost:8000/v1`",
    routers=(models.router, responses.router, stored_responses.router, router),
    format_error=_format_error,
    examples=EXAMPLES,
    read_paths={"/v1/embeddings"},
)
