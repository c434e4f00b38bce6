"""The API of OpenAI: models, chat completions, responses and embeddings (docs/reference/compatible-apis.md).

A model `research-…` answers by a research run; another one is a configured language model. Reference of the vendor:
https://platform.openai.com/docs/api-reference
"""

from __future__ import annotations

import struct
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from fastapi import Request, Response
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from modules.llm_platform.domain.dtos.llm_dtos import MAX_ANSWER_TOKENS, LLMResponse
from modules.llm_platform.domain.dtos.research_dtos import Depth, ResearchResponse, SourceRef
from modules.llm_platform.domain.dtos.retrieval_dtos import Vector
from modules.llm_platform.domain.text.tokens import count_tokens
from modules.llm_platform.presentation.rest.chat_routes import ChatDone, chat_events
from modules.llm_platform.presentation.rest.compat import chat_completions, dialect, openai_models, openai_responses
from modules.llm_platform.presentation.rest.compat import openai_models as models
from modules.llm_platform.presentation.rest.compat.openai_responses import ERROR_STATUSES, generate, llm_request
from modules.llm_platform.presentation.rest.http.body import read_body
from modules.llm_platform.presentation.rest.http.problems import InvalidRequestError
from modules.llm_platform.presentation.rest.http.responses import CancelOnDisconnect, request_id, run_research, services
from modules.llm_platform.presentation.rest.http.sse import Event, EventStream, stream_research
from shared.exceptions import AppException

MAX_INPUTS: Final = 2048  # the vendor's limit
REFUSED: Final = {
    "tools": "tools are not supported: a research run searches by itself",
    "functions": "functions are not supported",
    "tool_choice": "tools are not supported",
    "function_call": "functions are not supported",
    "stop": "stop sequences are not supported",
    "logprobs": "logprobs are not supported",
    "logit_bias": "logit_bias is not supported",
    "modalities": "only text is supported",
    "audio": "only text is supported",
}


class OpenaiStreamOptions(BaseModel):
    """`include_usage`: the last chunk has the tokens."""

    model_config = ConfigDict(frozen=True)

    include_usage: bool = Field(default=False, strict=True)


class OpenaiChatRequest(dialect.DialectBody):
    """A conversation with a research run or a configured language model."""

    model: models.ModelName
    messages: chat_completions.Messages
    stream: bool | None = Field(default=None, strict=True)
    stream_options: OpenaiStreamOptions | None = None
    max_tokens: int | None = Field(default=None, ge=1, le=MAX_ANSWER_TOKENS, strict=True)
    max_completion_tokens: int | None = Field(default=None, ge=1, le=MAX_ANSWER_TOKENS, strict=True)
    n: Literal[1] | None = None
    response_format: dict[str, Any] | None = None
    web_search_options: dict[str, Any] | None = None

    @property
    def includes_usage(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage


Input = Annotated[str, StringConstraints(min_length=1)]


class OpenaiEmbeddingRequest(dialect.DialectBody):
    """One text or several; tokens are refused, because they belong to the tokenizer of another model."""

    model: models.ModelName
    input: Input | Annotated[tuple[Input, ...], Field(min_length=1, max_length=MAX_INPUTS)]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = Field(default=None, ge=1, strict=True)


class OpenaiChatResponse(BaseModel):
    """A chat completion. `annotations` of the message are the citations of a research."""

    model_config = ConfigDict(extra="allow")

    id: str
    object: str
    created: int
    model: str
    choices: list[dict[str, Any]]
    usage: dict[str, Any]


class OpenaiEmbeddings(BaseModel):
    """The vectors, in order; each has length 1."""

    object: str
    model: str
    data: list[dict[str, Any]]
    usage: dict[str, int]


@models.router.post(
    "/chat/completions",
    **dialect.declaration(
        "Answer a conversation, for clients of OpenAI",
        OpenaiChatRequest,
        OpenaiChatResponse,
        ERROR_STATUSES,
        chat_completions.CHUNKS,
    ),
)
async def chat(request: Request) -> Response:
    body = await read_body(request, OpenaiChatRequest)
    chat_completions.refuse_fields(body, REFUSED)
    chat_completions.refuse_format(body.response_format)
    if body.model in models.DEPTHS:
        return await _research(request, body, models.DEPTHS[body.model])
    return await _chat(request, body)


async def _research(request: Request, body: OpenaiChatRequest, depth: Depth) -> Response:
    question = chat_completions.research_request(body.messages, depth, omit_raw=True)
    completion = chat_completions.Completion(request_id(request), body.model, _describe, is_annotated=True)
    partly_served = ("max_tokens", "max_completion_tokens", "web_search_options")
    if body.stream:
        stream = await stream_research(request, question, ChatStream(completion, body.includes_usage))
        return dialect.report_ignored(stream, body, *partly_served)
    answer = completion.whole(await run_research(request, question))
    return dialect.json_answer(answer, body, *partly_served)


async def _chat(request: Request, body: OpenaiChatRequest) -> Response:
    if body.web_search_options is not None:
        raise chat_completions.refused("web_search_options", "only the research models search")
    max_tokens = body.max_completion_tokens or body.max_tokens
    prompt = llm_request(models.find_llm(request, body.model), body.messages, max_tokens)
    completion = chat_completions.Completion(request_id(request), body.model, _describe)
    if body.stream:
        events = chat_events(services(request).llm, prompt, completion.request_id)
        stream = await EventStream.start(request, events, ChatStream(completion, body.includes_usage))
        return dialect.report_ignored(stream, body)
    answer = await generate(request, prompt)
    message = {"role": "assistant", "content": answer.content}
    choice = {"index": 0, "finish_reason": _finish_reason(answer), "message": message}
    whole = {**completion.head("chat.completion"), "choices": [choice], "usage": _llm_usage(answer)}
    return dialect.json_answer(whole, body)


class ChatStream(chat_completions.CompletionStream):
    """The chunks of OpenAI: annotations in the last delta, and the usage only on request, in a chunk without choices."""

    def __init__(self, completion: chat_completions.Completion, includes_usage: bool) -> None:
        super().__init__(completion)
        self._includes_usage = includes_usage

    def encode(self, event: Event) -> bytes:
        if isinstance(event, ChatDone):
            last = chat_completions.data_part(self._completion.chunk({}, _finish_reason(event.response)))
            return self._begin() + last + self._usage(_llm_usage(event.response)) + chat_completions.END_OF_STREAM
        return super().encode(event)

    def _end(self, response: ResearchResponse) -> bytes:
        delta = {"annotations": chat_completions.chat_annotations(response, self._void_chars)}
        last = {**self._completion.chunk(delta, "stop"), **_extension(response)}
        return chat_completions.data_part(last) + self._usage(chat_completions.token_usage(response))

    def _usage(self, usage: Mapping[str, Any]) -> bytes:
        if not self._includes_usage:
            return b""
        return chat_completions.data_part({**self._completion.head("chat.completion.chunk"), "choices": [], "usage": usage})


def _describe(sources: Sequence[SourceRef], response: ResearchResponse | None) -> Mapping[str, Any]:
    return {} if response is None else {"usage": chat_completions.token_usage(response), **_extension(response)}


def _extension(response: ResearchResponse) -> dict[str, Any]:
    return {chat_completions.EXTENSION: response.model_dump(mode="json", include={"degraded", "metadata"})}


def _finish_reason(answer: LLMResponse) -> str:
    return answer.finish_reason if answer.finish_reason in ("length", "content_filter") else "stop"


def _llm_usage(answer: LLMResponse) -> dict[str, int]:
    usage = answer.usage
    return {**usage.model_dump(), "total_tokens": usage.prompt_tokens + usage.completion_tokens}


@models.router.post(
    "/embeddings",
    **dialect.declaration("Embed texts, for clients of OpenAI", OpenaiEmbeddingRequest, OpenaiEmbeddings, ERROR_STATUSES),
)
async def embed(request: Request) -> Response:
    body = await read_body(request, OpenaiEmbeddingRequest)
    embeddings = services(request).embeddings
    if embeddings.name and body.model != embeddings.name:
        raise models.ModelNotFoundError(f"The model of embeddings is {embeddings.name}.")
    texts = (body.input,) if isinstance(body.input, str) else body.input
    sizes = [count_tokens(text) for text in texts]
    for place, size in enumerate(sizes):
        if size > embeddings.window_tokens:
            raise _invalid_input(place, f"is longer than {embeddings.window_tokens} tokens: embed its parts", "too_long")
    async with CancelOnDisconnect(request.receive):
        vectors = await embeddings.embed(texts)
    data = [
        {"object": "embedding", "index": place, "embedding": _encoded(body, _valid(vector, place))}
        for place, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": sum(sizes), "total_tokens": sum(sizes)}
    answer = {"object": "list", "model": embeddings.name, "data": data, "usage": usage}
    return dialect.json_answer(answer, body)


def _valid(vector: Vector | None, place: int) -> Vector:
    if vector is None:
        raise _invalid_input(place, "has no words that can be embedded", "empty")
    return vector


def _encoded(body: OpenaiEmbeddingRequest, vector: Vector) -> list[float] | str:
    if body.dimensions not in (None, len(vector)):
        raise chat_completions.refused("dimensions", f"the model has {len(vector)} dimensions: leave the field out")
    if body.encoding_format == "float":
        return list(vector)
    return b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _invalid_input(place: int, message: str, kind: str) -> InvalidRequestError:
    return InvalidRequestError([{"loc": ["body", "input", place], "msg": message, "type": kind}])


def _format_error(error: AppException, problem: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
    formatted = chat_completions.openai_error(problem)
    if isinstance(error, models.ModelNotFoundError):
        formatted["error"]["param"] = "model"
    return dialect.status_400(error), formatted


_URL_CITATION: Final = {"start_index": 0, "end_index": 12, "title": "Tea", "url": "https://example.org/tea"}
DIALECT: Final = dialect.Dialect(
    prefix="/v1",
    router=models.router,
    examples={
        **openai_models.EXAMPLES,
        **openai_responses.EXAMPLES,
        ("post", "/v1/chat/completions"): dialect.Example(
            {
                "id": "3f2c8a5e",
                "object": "chat.completion",
                "created": 1_795_000_000,
                "model": "research-shallow",
                "choices": [
                    {
                        "index": 0,
                        "finish_reason": "stop",
                        "message": {
                            "role": "assistant",
                            "content": "Tea is a drink [1].",
                            "annotations": [{"type": "url_citation", "url_citation": _URL_CITATION}],
                        },
                    }
                ],
                "usage": {"prompt_tokens": 310, "completion_tokens": 12, "total_tokens": 322},
            },
            {"model": "research-shallow", "messages": [{"role": "user", "content": "What is tea?"}]},
            events='data: {"id":"3f2c8a5e","object":"chat.completion.chunk","choices":[]}\n\ndata: [DONE]\n\n',
        ),
        ("post", "/v1/embeddings"): dialect.Example(
            {
                "object": "list",
                "model": "wordllama/l2_supercat_256",
                "data": [{"object": "embedding", "index": 0, "embedding": [0.6, 0.8]}],
                "usage": {"prompt_tokens": 4, "total_tokens": 4},
            },
            {"model": "wordllama/l2_supercat_256", "input": "What is tea?", "encoding_format": "float"},
        ),
    },
    format_error=_format_error,
)
