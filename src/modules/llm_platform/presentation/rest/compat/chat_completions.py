"""Chat completions answered by a research run: what the Perplexity and the OpenAI dialect share.

The last message of the user is the question, or contains it. The turns before it are the conversation. System messages are
instructions for the text. A stream is sent as
`chat.completion.chunk` objects; https://platform.openai.com/docs/api-reference/chat-streaming describes them.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, Self, assert_never

from pydantic import BaseModel, Field, model_validator
from pydantic_core import PydanticCustomError, to_json
from starlette.types import Scope

from modules.llm_platform.application.research.events import (
    Done,
    Failed,
    Planned,
    PlatformEvent,
    Read,
    ResearchEvent,
    Reset,
    RoundStarted,
    Searched,
    SourcesNumbered,
    Token,
)
from modules.llm_platform.domain.dtos import research_dtos as dtos
from modules.llm_platform.domain.dtos.llm_dtos import MAX_MESSAGES, MAX_TOOLS
from modules.llm_platform.domain.exceptions import OutputError, PreviousResearchNotFoundError
from modules.llm_platform.domain.research.long_message import (
    MAX_MESSAGE_CHARS,
    join_context,
    question_of,
    split_message,
)
from modules.llm_platform.domain.urls.canonical_url import page_url
from modules.llm_platform.presentation.rest.compat import structured
from modules.llm_platform.presentation.rest.compat.content import Content, require_text, text_of
from modules.llm_platform.presentation.rest.http.body import validate
from modules.llm_platform.presentation.rest.http.problems import InvalidRequestError, problem_object
from shared.exceptions import AppException

CHUNKS: Final = "The answer; as a stream, chunks of it, and `[DONE]` at the end."
HARMLESS: Final[tuple[object, ...]] = (None, False, "", "none", "auto", [], {}, ["text"], ())  # values of a refused field
END_OF_STREAM: Final = b"data: [DONE]\n\n"
RESTARTED: Final = "\n\n---\n\nThe model failed here. The text above is void, and a new answer follows.\n\n"
NO_QUESTION: Final = "the last message must be one of the user: it is the question"
NO_VALUES: Final = "is too short to fill a schema: ask a question, or leave the format out"
IN_BACKGROUND: Final = "is too short to research in the background: ask a question, or call without background"
TOOL: Final = "tool"  # role of a turn that is about a call of a tool of the client
PREVIOUS_ID: Final = "previous_response_id"
NO_PREVIOUS: Final = (
    "no finished response with this id is stored for this API key: leave it out, or send the conversation as input"
)
EXTENSION: Final = "llm_platform"  # field of an answer that their clients ignore: verified citations, failures, metadata


class CompletionMessage(BaseModel, frozen=True):
    """One turn of a conversation; its content is a text or a list of texts."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Content

    @property
    def text(self) -> str:
        return text_of(self.content)


class OpenaiMessage(CompletionMessage, frozen=True):
    """One turn of a chat. One of the assistant may call tools of the client, one of a `tool` has the result."""

    role: Literal["system", "developer", "user", "assistant", "tool"]  # type: ignore[assignment]
    tool_calls: Annotated[tuple[dict[str, Any], ...], Field(max_length=MAX_TOOLS)] | None = None
    tool_call_id: str | None = None
    content: Content | None = None  # type: ignore[assignment]

    name: str | None = None
    reasoning_content: str | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.content is None and self.role not in ("assistant", TOOL):
            raise PydanticCustomError("missing", "needs a content")
        return self

    @property
    def text(self) -> str:
        return "" if self.content is None else super().text


Messages = Annotated[tuple[OpenaiMessage, ...], Field(min_length=1, max_length=MAX_MESSAGES)]


def research_request(
    messages: Sequence[CompletionMessage],
    depth: dtos.Depth,
    *,
    field: str | tuple[str | int, ...] = "messages",
    in_background: bool | None = False,
    **fields: Any,
) -> dtos.ResearchRequest:
    """Return the research for a conversation; a ShortMessage if the last message is too short to search for.

    What the last message has beyond a question, and the system messages beyond the instructions, are its `context`. Calls of
    tools at the end, such as a hand-off from another model, belong to the question before them. Raises InvalidRequestError
    that names where the last message was sent: `field` is the list of messages, or the place itself. A short message has
    nothing for an `output_schema`, or to do `in_background`.
    """
    if isinstance(field, str):
        for number, turn in enumerate(messages):
            require_text(turn.content, field, number, "content")
    messages = messages[: length_up_to_question([message.role for message in messages])]
    position = (field, len(messages) - 1, "content") if isinstance(field, str) else field
    last, text = messages[-1], messages[-1].text.strip()
    if last.role != "user":
        raise InvalidRequestError.at(("body", position[0]), NO_QUESTION)
    if len(text) > MAX_MESSAGE_CHARS:
        limit = f"must have at most {MAX_MESSAGE_CHARS} characters"
        raise InvalidRequestError.at(("body", *position), limit, "string_too_long")
    is_short = len(text) < dtos.MIN_QUESTION_CHARS
    if is_short and (fields.get("output_schema") is not None or in_background):
        raise InvalidRequestError.at(
            ("body", *position), IN_BACKGROUND if in_background else NO_VALUES, "string_too_short"
        )
    question, message = split_message(text)
    wishes = "\n".join(message.text for message in messages if message.role in ("system", "developer")).strip()
    instructions, more = _split_instructions(wishes)
    values = {
        "query": question,
        "depth": depth,
        "context": join_context(message, more),
        "instructions": instructions or None,
        "history": _history(messages[:-1]),
        **fields,
    }
    try:
        return validate(dtos.ShortMessage if is_short else dtos.ResearchRequest, values, "body")
    except InvalidRequestError as error:
        for problem in error.errors:
            if problem["loc"][1] == "query":
                problem["loc"][1:2] = position
        raise


def depth_within(depth: dtos.Depth, searches: int | None, least: int) -> dtos.Depth:
    """Return the depth of a run that may make so many searches: a deep one that may make less than `least` is a shallow one,
    which makes one. A report has no such limit.
    """
    return "shallow" if depth == "deep" and searches is not None and searches < least else depth


def length_up_to_question(roles: Sequence[str]) -> int:
    """Return how many turns end with the question: where calls of tools are the last ones, those up to the last of the user."""
    if not roles or roles[-1] != TOOL:
        return len(roles)
    return next((position + 1 for position in reversed(range(len(roles))) if roles[position] == "user"), len(roles))


def _split_instructions(text: str) -> tuple[str, str]:
    """Return the instructions, cut at a line or between words, and the rest."""
    if len(text) <= dtos.MAX_INSTRUCTION_CHARS:
        return text, ""
    head = text[: dtos.MAX_INSTRUCTION_CHARS]
    end = next(
        (position for mark in ("\n", " ") if (position := head.rfind(mark)) > dtos.MAX_INSTRUCTION_CHARS // 2),
        len(head),
    )
    return text[:end].rstrip(), text[end:].lstrip()


def _history(messages: Sequence[CompletionMessage]) -> tuple[dtos.Turn, ...]:
    """Return the last turns: each question of the user with the answer behind it. Long ones are cut, as clients send all."""
    turns: list[tuple[str, str]] = []
    for message in messages:
        text = message.text.strip()
        if message.role == "user" and len(text) >= dtos.MIN_QUESTION_CHARS:
            turns.append((text, ""))
        elif message.role == "assistant" and turns and not turns[-1][1]:
            turns[-1] = turns[-1][0], text
    return tuple(
        dtos.Turn(question=question_of(question[:MAX_MESSAGE_CHARS]), answer=answer[:dtos.MAX_STORED_ANSWER_CHARS])
        for question, answer in turns[-dtos.MAX_STORED_TURNS:]
    )


def refuse_fields(body: BaseModel, reasons: Mapping[str, str]) -> None:
    """Raise for a field that would change the answer and is not supported."""
    for name, reason in reasons.items():
        if getattr(body, name, None) not in HARMLESS:
            raise refused(name, reason)


def refused(name: str, message: str) -> InvalidRequestError:
    """Return the error for a field that would change the answer and is not supported."""
    return InvalidRequestError.at(("body", name), message)


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
    is_json: bool = False  # its content is the JSON text of `output`
    tool: str = ""  # the tool of the client that the message calls, with `output` as arguments

    def notice(self, event: ResearchEvent) -> None:
        """Take the numbered sources from the events of the research."""
        if isinstance(event, SourcesNumbered):
            self.sources = event.sources

    def content(self, response: dtos.ResearchResponse) -> str:
        """Return the text of the message. Raises OutputError if it is JSON, and the schema was not filled."""
        return structured.json_text(response) if self.is_json else response.synthesis

    def annotations(self, response: dtos.ResearchResponse, shift: int = 0) -> list[dict[str, Any]]:
        """Return the annotations of the message. Those of JSON are its markers: the sentences stand in another text."""
        if self.tool:
            return []
        if not self.is_json:
            return chat_annotations(url_citations(response, shift))
        return chat_annotations(structured.marker_annotations(self.content(response), response))

    @property
    def finish_reason(self) -> str:
        return "tool_calls" if self.tool else "stop"

    def call(self, response: dtos.ResearchResponse) -> dict[str, Any]:
        """Return the call of the tool. Raises OutputError if the schema was not filled."""
        function = {"name": self.tool, "arguments": structured.json_text(response)}
        return {"id": f"call_{self.request_id}", "type": "function", "function": function}

    def whole(self, response: dtos.ResearchResponse) -> dict[str, Any]:
        """Return the answer as one object."""
        message: dict[str, Any] = {"role": "assistant", "content": None if self.tool else self.content(response)}
        if self.tool:
            message["tool_calls"] = [self.call(response)]
        if self.is_annotated:
            message["annotations"] = self.annotations(response)
        choice = {"index": 0, "finish_reason": self.finish_reason, "message": message}
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
    """Encodes the events of a research run: the first chunk has the sources, the last one the usage.

    A JSON text is one chunk at the end: it is made of the finished answer.
    """

    @staticmethod
    def format_problem(problem: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return an error as the clients read it."""
        return openai_error(problem)

    def __init__(self, completion: Completion) -> None:
        self._completion = completion
        self._has_begun = False
        self._sent_chars = 0
        self._void_chars = 0  # characters of a model that failed; the offsets of annotations begin after them

    def encode(self, event: ResearchEvent) -> bytes:
        if isinstance(event, PlatformEvent):
            return b""
        match event:
            case Planned() | Searched() | Read() | RoundStarted():
                return b""  # the first chunk has the sources, so no step is sent before
            case SourcesNumbered():
                self._completion.notice(event)
                return self._begin()
            case Token():
                return b"" if self._completion.is_json else self._text(event.text)
            case Reset():
                if self._completion.is_json:
                    return b""
                restarted = self._text(RESTARTED)
                self._void_chars = self._sent_chars
                return restarted
            case Done():
                return self._done(event)
            case Failed():
                return self._error(event.problem)
            case _:
                assert_never(event)

    def fail(self, error: AppException, scope: Scope) -> bytes:
        return self._error(problem_object(error, scope))

    def _done(self, event: Done) -> bytes:
        text = b""
        try:
            if self._completion.tool:
                delta = {"tool_calls": [{"index": 0, **self._completion.call(event.response)}]}
                text = self._begin() + data_part(self._completion.chunk(delta))
            elif self._completion.is_json:
                text = self._text(self._completion.content(event.response))
        except OutputError as error:
            return self._error(error.problem(instance=f"/research/{event.request_id}", request_id=event.request_id))
        return self._begin() + text + self._end(event.response) + END_OF_STREAM

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
        return data_part(self._completion.chunk({}, self._completion.finish_reason, response))

    def _error(self, problem: Mapping[str, Any]) -> bytes:
        return b"event: error\n" + data_part(self.format_problem(problem)) + END_OF_STREAM


def data_part(value: Mapping[str, Any]) -> bytes:
    return b"data: " + to_json(value) + b"\n\n"


def url_citations(response: dtos.ResearchResponse, shift: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the citations as OpenAI's annotations: the cited sentence and its source; quote and verdict as an extension.

    The address of a PDF names the page of the quote.
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
                "url": page_url(source.url, citation.page),
                EXTENSION: citation.model_dump(exclude={"start", "end"}),
            }


def chat_annotations(citations: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the annotations of a chat message, which have the fields one level deeper than those of the Responses API."""
    return [{"type": citation.pop("type"), "url_citation": citation} for citation in citations]


def token_usage(response: dtos.ResearchResponse) -> dict[str, Any]:
    """Return the tokens of all model calls of the research; 0 where no model was used."""
    metadata = response.metadata
    return {
        "prompt_tokens": metadata.prompt_tokens,
        "completion_tokens": metadata.completion_tokens,
        "total_tokens": metadata.tokens_used,
    }


def extension(response: dtos.ResearchResponse, *, has_citations: bool = True) -> dict[str, Any]:
    """Return what the format has no field for: failures, metadata, the verified citations unless they are annotations, and
    the text that they point into where the message is JSON.
    """
    fields = {"degraded", "metadata"}
    if response.output is not None:
        fields |= {"citations", "synthesis"}
    elif has_citations:
        fields |= {"citations"}
    return {EXTENSION: response.model_dump(mode="json", include=fields)}


def openai_error(problem: Mapping[str, Any]) -> dict[str, Any]:
    """Return an error as the clients of OpenAI read it. `message` names the first invalid field."""
    errors = problem.get("errors") or []
    if problem["code"] == PreviousResearchNotFoundError.code:
        errors = [{"loc": ["body", PREVIOUS_ID], "msg": NO_PREVIOUS}]
    parameter = ".".join(map(str, errors[0]["loc"][1:])) if errors and errors[0]["loc"][1:] else None
    message = f"{parameter}: {errors[0]['msg']}" if parameter else problem["detail"]
    kind = "invalid_request_error" if problem["status"] < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "param": parameter, "code": problem["code"]}}
