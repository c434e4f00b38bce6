"""Chat completions answered by a research run: what the Perplexity and the OpenAI dialect share.

The last message of the user is the question, and the turns before it are its context. System messages are instructions for the
text. A stream is sent as
`chat.completion.chunk` objects; https://platform.openai.com/docs/api-reference/chat-streaming describes them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json
from starlette.types import Scope

from modules.llm_platform.application.research.events import Done, Failed, ResearchEvent, Reset, SourcesNumbered, Token
from modules.llm_platform.domain.dtos import research_dtos as dtos
from modules.llm_platform.domain.dtos.llm_dtos import MAX_MESSAGES
from modules.llm_platform.domain.dtos.web_search_dtos import MAX_QUERY_CHARS
from modules.llm_platform.presentation.rest.http.body import validate
from modules.llm_platform.presentation.rest.http.problems import InvalidRequestError, problem_object
from modules.llm_platform.presentation.rest.http.sse import Event
from shared.exceptions import AppException

CHUNKS: Final = "The answer; as a stream, chunks of it, and `[DONE]` at the end."
HARMLESS: Final[tuple[object, ...]] = (None, False, "", "none", "auto", [], {}, ["text"])  # values of a refused field
MAX_PARTS: Final = 100  # of one message
END_OF_STREAM: Final = b"data: [DONE]\n\n"
RESTARTED: Final = "\n\n---\n\nThe model failed here. The text above is void, and a new answer follows.\n\n"
EXTENSION: Final = "llm_platform"  # field of an answer that their clients ignore: verified citations, failures, metadata


class TextPart(BaseModel):
    """A part of a message. Only text is accepted."""

    model_config = ConfigDict(frozen=True)

    type: Literal["text", "input_text", "output_text"]
    text: str


class CompletionMessage(BaseModel):
    """One turn of a conversation; its content is a text or a list of texts."""

    model_config = ConfigDict(frozen=True)

    role: Literal["system", "developer", "user", "assistant"]
    content: str | Annotated[tuple[TextPart, ...], Field(max_length=MAX_PARTS)]

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content)


Messages = Annotated[tuple[CompletionMessage, ...], Field(min_length=1, max_length=MAX_MESSAGES)]


def research_request(
    messages: Sequence[CompletionMessage], depth: dtos.Depth, *, field: str = "messages", **fields: Any
) -> dtos.ResearchRequest:
    """Return the research for a conversation. Raises InvalidRequestError that names `field`, where the messages were sent."""
    if messages[-1].role != "user":
        raise refused(field, "the last message must be one of the user: it is the question")
    instructions = "\n".join(each.text for each in messages if each.role in ("system", "developer")).strip()
    values = {
        "query": messages[-1].text,
        "depth": depth,
        "instructions": instructions or None,
        "history": _history(messages[:-1]),
        **fields,
    }
    try:
        return validate(dtos.ResearchRequest, values, "body")
    except InvalidRequestError as error:
        for each in error.errors:
            if each["loc"][1] in ("query", "instructions"):
                each["loc"].insert(1, field)
        raise


def _history(messages: Sequence[CompletionMessage]) -> tuple[dtos.Turn, ...]:
    """Return the last turns: each question of the user with the answer behind it. Long ones are cut, as clients send all."""
    turns: list[dtos.Turn] = []
    for message in messages:
        text = message.text.strip()
        if message.role == "user" and text:
            turns.append(dtos.Turn(question=text[:MAX_QUERY_CHARS].strip()))
        elif message.role == "assistant" and turns and not turns[-1].answer:
            turns[-1] = turns[-1].model_copy(update={"answer": text[:dtos.MAX_STORED_ANSWER_CHARS]})
    return tuple(turns[-dtos.MAX_STORED_TURNS:])


def refuse_fields(body: BaseModel, reasons: Mapping[str, str]) -> None:
    """Raise for a field that would change the answer and is not supported."""
    sent = body.model_extra or {}
    for name, reason in reasons.items():
        if sent.get(name) not in HARMLESS:
            raise refused(name, reason)


def refuse_format(answer_format: Mapping[str, Any] | None) -> None:
    """Raise for a `response_format` other than text."""
    if (answer_format or {}).get("type", "text") != "text":
        raise refused("response_format", "only text is supported: leave the field out")


def refused(name: str, message: str) -> InvalidRequestError:
    """Return the error for a field that would change the answer and is not supported."""
    return InvalidRequestError([{"loc": ["body", name], "msg": message, "type": "unsupported"}])


@dataclass(slots=True)
class Completion:
    """One answer in the making. `sources` is the whole numbered list: [n] in the text is `sources[n-1]`.

    `describe(sources, response)` returns the fields that a dialect adds beside `choices`; the response is None while the
    answer is written.
    """

    request_id: str
    model: str
    describe: Callable[[Sequence[dtos.SourceRef], dtos.ResearchResponse | None], Mapping[str, Any]]
    sources: tuple[dtos.SourceRef, ...] = ()
    created: int = field(default_factory=lambda: int(time.time()))
    is_annotated: bool = False  # the message has `annotations`

    def notice(self, event: ResearchEvent) -> None:
        """Take the numbered sources from the events of the research."""
        if isinstance(event, SourcesNumbered):
            self.sources = event.sources

    def whole(self, response: dtos.ResearchResponse) -> dict[str, Any]:
        """Return the answer as one object."""
        message: dict[str, Any] = {"role": "assistant", "content": response.synthesis}
        if self.is_annotated:
            message["annotations"] = chat_annotations(response)
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        return {**self.head("chat.completion"), "choices": [choice], **self.describe(self.sources, response)}

    def chunk(
        self, delta: Mapping[str, Any], finish_reason: str | None = None, response: dtos.ResearchResponse | None = None
    ) -> dict[str, Any]:
        """Return one part of a stream."""
        choice = {"index": 0, "finish_reason": finish_reason, "delta": dict(delta)}
        return {**self.head("chat.completion.chunk"), "choices": [choice], **self.describe(self.sources, response)}

    def head(self, kind: str) -> dict[str, Any]:
        """Return the fields that every object of the answer has."""
        return {"id": self.request_id, "object": kind, "created": self.created, "model": self.model}


class CompletionStream:
    """Encodes the events of a research run: the first chunk has the sources, the last one the usage."""

    def __init__(self, completion: Completion) -> None:
        self._completion = completion
        self._has_begun = False
        self._sent_chars = 0
        self._void_chars = 0  # of a model that failed; the offsets of annotations begin after them

    def encode(self, event: Event) -> bytes:
        if isinstance(event, SourcesNumbered):
            self._completion.notice(event)
            return self._begin()
        if isinstance(event, Token):
            return self._text(event.text)
        if isinstance(event, Reset):
            restarted = self._text(RESTARTED)
            self._void_chars = self._sent_chars
            return restarted
        if isinstance(event, Done):
            return self._begin() + self._end(event.response) + END_OF_STREAM
        if isinstance(event, Failed):
            return self._error(event.problem)
        return b""

    def fail(self, error: AppException, scope: Scope) -> bytes:
        return self._error(problem_object(error, scope))

    def _begin(self) -> bytes:
        """Return the first chunk, once."""
        if self._has_begun:
            return b""
        self._has_begun = True
        return data_part(self._completion.chunk({"role": "assistant", "content": ""}))

    def _text(self, text: str) -> bytes:
        self._sent_chars += len(text)
        return self._begin() + data_part(self._completion.chunk({"content": text}))

    def _end(self, response: dtos.ResearchResponse) -> bytes:
        return data_part(self._completion.chunk({}, "stop", response))

    def _error(self, problem: Mapping[str, Any]) -> bytes:
        return b"event: error\n" + data_part(openai_error(problem)) + END_OF_STREAM


def data_part(value: Mapping[str, Any]) -> bytes:
    return b"data: " + to_json(value) + b"\n\n"


def url_citations(response: dtos.ResearchResponse, shift: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the citations as OpenAI's annotations: the cited sentence and its source; quote and verdict as an extension.

    `shift`: the characters before the answer in the text that the offsets point into.
    """
    sources = {source.index: source for source in response.sources}
    for citation in response.citations:
        if source := sources.get(citation.source_index):
            yield {
                "type": "url_citation",
                "start_index": citation.start + shift,
                "end_index": citation.end + shift,
                "title": source.title,
                "url": source.url,
                EXTENSION: citation.model_dump(exclude={"start", "end"}),
            }


def chat_annotations(response: dtos.ResearchResponse, shift: int = 0) -> list[dict[str, Any]]:
    """Return the annotations of a chat message, which have the fields one level deeper than those of the Responses API."""
    return [
        {"type": citation.pop("type"), "url_citation": citation} for citation in url_citations(response, shift)
    ]


def token_usage(response: dtos.ResearchResponse) -> dict[str, Any]:
    """Return the tokens of all model calls of the research; 0 where no model was used."""
    metadata = response.metadata
    return {
        "prompt_tokens": metadata.prompt_tokens,
        "completion_tokens": metadata.completion_tokens,
        "total_tokens": metadata.tokens_used,
    }


def extension(response: dtos.ResearchResponse) -> dict[str, Any]:
    """Return what the format has no field for: the verified citations, the failures and the metadata."""
    return {EXTENSION: response.model_dump(mode="json", include={"citations", "degraded", "metadata"})}


def openai_error(problem: Mapping[str, Any]) -> dict[str, Any]:
    """Return an error as the OpenAI and Perplexity clients read it. `message` names the first invalid field."""
    errors = problem.get("errors") or []
    parameter = ".".join(map(str, errors[0]["loc"][1:])) if errors and errors[0]["loc"][1:] else None
    message = f"{parameter}: {errors[0]['msg']}" if parameter else problem["detail"]
    kind = "invalid_request_error" if problem["status"] < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "param": parameter, "code": problem["code"]}}
