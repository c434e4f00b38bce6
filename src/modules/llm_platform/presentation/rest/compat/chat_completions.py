"""Answer chat completions with a research run. The dialects of Perplexity and OpenAI share this module.

The last message of the user is the question, or contains it. The turns before it are the conversation. System messages are
instructions for the text. A stream consists of `chat.completion.chunk` objects, which
https://platform.openai.com/docs/api-reference/chat-streaming describes.
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
from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.llm_dtos import MAX_MESSAGES, MAX_TOOLS
from modules.llm_platform.domain.dtos.request_dtos import (
    MAX_INSTRUCTION_CHARS,
    MAX_STORED_ANSWER_CHARS,
    MAX_STORED_TURNS,
    MIN_QUESTION_CHARS,
    Depth,
    ResearchRequest,
    ShortMessage,
    Turn,
)
from modules.llm_platform.domain.dtos.source_dtos import SourceRef
from modules.llm_platform.domain.exceptions import OutputError, PreviousResearchNotFoundError
from modules.llm_platform.domain.research.long_message import (
    MAX_MESSAGE_CHARS,
    find_question,
    join_context,
    split_message,
)
from modules.llm_platform.domain.urls.canonical_url import page_url
from modules.llm_platform.presentation.rest.compat import structured
from modules.llm_platform.presentation.rest.compat.content import Content, join_text, require_text
from modules.llm_platform.presentation.rest.http.body import validate
from modules.llm_platform.presentation.rest.http.problems import InvalidRequestError, make_problem
from shared.exceptions import AppException

CHUNKS: Final = "The answer; as a stream, chunks of it, and `[DONE]` at the end."
# A field that is refused may have these values, because they change nothing.
HARMLESS: Final[tuple[object, ...]] = (None, False, "", "none", "auto", [], {}, ["text"], ())
END_OF_STREAM: Final = b"data: [DONE]\n\n"
RESTARTED: Final = "\n\n---\n\nThe model failed here. The text above is void, and a new answer follows.\n\n"
NO_QUESTION: Final = "the last message must have the role user: it is the question"
NO_VALUES: Final = "is too short to fill a schema: ask a question, or leave the format out"
IN_BACKGROUND: Final = "is too short to research in the background: ask a question, or call without background"
TOOL: Final = "tool"  # The role of a turn that has the result of a tool of the client.
NO_PREVIOUS: Final = (
    "no finished response with this id is stored for this API key: leave it out, or send the conversation as input"
)
# This field of an answer has the verified citations, failures and metadata. Clients of the vendors ignore it.
EXTENSION: Final = "llm_platform"


class CompletionMessage(BaseModel, frozen=True):
    """One turn of a conversation. Its content is a text or a list of texts."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Content

    @property
    def text(self) -> str:
        return join_text(self.content)


class OpenaiMessage(CompletionMessage, frozen=True):
    """One turn of a chat. A turn of the assistant may call tools of the client, and a turn of a `tool` has the result."""

    role: Literal["system", "developer", "user", "assistant", "tool"]  # type: ignore[assignment]
    tool_calls: Annotated[tuple[dict[str, Any], ...], Field(max_length=MAX_TOOLS)] | None = None
    tool_call_id: str | None = None
    content: Content | None = None  # type: ignore[assignment]
    name: str | None = None
    reasoning_content: str | None = None

    @model_validator(mode="after")
    def _require_content(self) -> Self:
        if self.content is None and self.role not in ("assistant", TOOL):
            raise PydanticCustomError("content", "needs a content: a text, or a list of parts with texts")
        return self

    @property
    def text(self) -> str:
        return "" if self.content is None else super().text


Messages = Annotated[tuple[OpenaiMessage, ...], Field(min_length=1, max_length=MAX_MESSAGES)]


def research_request(
    messages: Sequence[CompletionMessage],
    depth: Depth,
    *,
    field: str | tuple[str | int, ...] = "messages",
    in_background: bool | None = False,
    **fields: Any,
) -> ResearchRequest:
    """Return the research request for a conversation, or a ShortMessage if the last message is too short to search for.

    Text of the last message beyond the question, and of system messages beyond the longest instructions, becomes `context`.
    Calls of tools at the end, such as a hand-off from another model, belong to the question before them.

    - `field` is the name of the list of messages, or the location of the last message. Errors name it.
    - `in_background` is True for a run in the background.
    - `fields` are further fields of the research request.

    Raises InvalidRequestError if the last message is not one of the user, is too long, or is too short for an `output_schema`
    or for a run in the background.
    """
    if isinstance(field, str):
        for number, turn in enumerate(messages):
            require_text(turn.content, field, number, "content")
    messages = messages[: count_turns_up_to_question([message.role for message in messages])]
    position = (field, len(messages) - 1, "content") if isinstance(field, str) else field
    last, text = messages[-1], messages[-1].text.strip()
    if last.role != "user":
        raise InvalidRequestError.at(("body", position[0]), NO_QUESTION)
    if len(text) > MAX_MESSAGE_CHARS:
        limit = f"must have at most {MAX_MESSAGE_CHARS} characters"
        raise InvalidRequestError.at(("body", *position), limit, "string_too_long")
    is_short = len(text) < MIN_QUESTION_CHARS
    if is_short and (fields.get("output_schema") is not None or in_background):
        raise InvalidRequestError.at(
            ("body", *position), IN_BACKGROUND if in_background else NO_VALUES, "string_too_short"
        )
    question, message = split_message(text)
    system_text = "\n".join(message.text for message in messages if message.role in ("system", "developer")).strip()
    instructions, excess = _split_instructions(system_text)
    values = {
        "query": question,
        "depth": depth,
        "context": join_context(message, excess),
        "instructions": instructions or None,
        "history": _make_history(messages[:-1]),
        **fields,
    }
    try:
        return validate(ShortMessage if is_short else ResearchRequest, values, "body")
    except InvalidRequestError as error:
        for problem in error.errors:
            if problem["loc"][1] == "query":
                problem["loc"][1:2] = position
        raise


def depth_within(depth: Depth, searches: int | None, least: int) -> Depth:
    """Return the depth of a run that may make `searches` searches, None for any number.

    A deep run that may make less than `least` becomes a shallow run, which makes one. A report has no such limit.
    """
    return "shallow" if depth == "deep" and searches is not None and searches < least else depth


def count_turns_up_to_question(roles: Sequence[str]) -> int:
    """Return the number of turns up to the question.

    If the last turn is the result of a tool, these are the turns up to the last one of the user. Otherwise they are all turns.
    """
    if not roles or roles[-1] != TOOL:
        return len(roles)
    return next((position + 1 for position in reversed(range(len(roles))) if roles[position] == "user"), len(roles))


def _split_instructions(text: str) -> tuple[str, str]:
    """Return the instructions, cut at a line or between words, and the text beyond MAX_INSTRUCTION_CHARS."""
    if len(text) <= MAX_INSTRUCTION_CHARS:
        return text, ""
    head = text[:MAX_INSTRUCTION_CHARS]
    end = next(
        (position for mark in ("\n", " ") if (position := head.rfind(mark)) > MAX_INSTRUCTION_CHARS // 2),
        len(head),
    )
    return text[:end].rstrip(), text[end:].lstrip()


def _make_history(messages: Sequence[CompletionMessage]) -> tuple[Turn, ...]:
    """Return the last turns, each with a question of the user and its answer.

    Long questions and answers are cut, because clients send the whole conversation.
    """
    turns: list[tuple[str, str]] = []
    for message in messages:
        text = message.text.strip()
        if message.role == "user" and len(text) >= MIN_QUESTION_CHARS:
            turns.append((text, ""))
        elif message.role == "assistant" and turns and not turns[-1][1]:
            turns[-1] = turns[-1][0], text
    return tuple(
        Turn(question=find_question(question[:MAX_MESSAGE_CHARS]), answer=answer[:MAX_STORED_ANSWER_CHARS])
        for question, answer in turns[-MAX_STORED_TURNS:]
    )


def refuse_fields(body: BaseModel, reasons: Mapping[str, str]) -> None:
    """Raise InvalidRequestError for a field that is not supported and would change the answer.

    `reasons` has the message for each such field.
    """
    for name, reason in reasons.items():
        if getattr(body, name, None) not in HARMLESS:
            raise make_refusal(name, reason)


def make_refusal(name: str, message: str) -> InvalidRequestError:
    return InvalidRequestError.at(("body", name), message)


@dataclass(slots=True)
class Completion:
    """An answer of a research run while it is written.

    - `describe(sources, response)` returns the fields that a dialect adds beside `choices`. The response is None until the
      answer is complete.
    - `sources` is the whole numbered list: [n] in the text is `sources[n-1]`.
    - `created` is the time of the answer in seconds since 1970.
    - `is_annotated` is True if the message has `annotations`.
    - `is_json` is True if the content of the message is the JSON text of `output`.
    - `tool` is the name of the client's tool that the message calls with `output` as arguments, or empty.
    """

    request_id: str
    model: str
    describe: Callable[[Sequence[SourceRef], ResearchResponse | None], Mapping[str, Any]]
    sources: tuple[SourceRef, ...] = ()
    created: int = field(default_factory=lambda: int(time.time()))
    is_annotated: bool = False
    is_json: bool = False
    tool: str = ""

    def collect_sources(self, event: ResearchEvent) -> None:
        """Store the numbered sources if the event has them. Other events are ignored."""
        if isinstance(event, SourcesNumbered):
            self.sources = event.sources

    def content(self, response: ResearchResponse) -> str:
        """Return the text of the message. Raises OutputError if it has to be JSON and the run did not fill the schema."""
        return structured.write_json(response) if self.is_json else response.synthesis

    def annotations(self, response: ResearchResponse, shift: int = 0) -> list[dict[str, Any]]:
        """Return the annotations of the message. `shift` is the number of characters before the answer in its text.

        If the message is JSON, the annotations mark its `[n]`, because the cited sentences are not in the message.
        """
        if self.tool:
            return []
        if not self.is_json:
            return make_chat_annotations(make_url_citations(response, shift))
        return make_chat_annotations(structured.make_marker_annotations(self.content(response), response))

    @property
    def finish_reason(self) -> str:
        return "tool_calls" if self.tool else "stop"

    def tool_call(self, response: ResearchResponse) -> dict[str, Any]:
        """Return the call of the client's tool. Raises OutputError if the run did not fill the schema."""
        function = {"name": self.tool, "arguments": structured.write_json(response)}
        return {"id": f"call_{self.request_id}", "type": "function", "function": function}

    def whole(self, response: ResearchResponse) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": None if self.tool else self.content(response)}
        if self.tool:
            message["tool_calls"] = [self.tool_call(response)]
        if self.is_annotated:
            message["annotations"] = self.annotations(response)
        choice = {"index": 0, "finish_reason": self.finish_reason, "message": message}
        return {**self.head("chat.completion"), "choices": [choice], **self.describe(self.sources, response)}

    def chunk(
        self, delta: Mapping[str, Any], finish_reason: str | None = None, response: ResearchResponse | None = None
    ) -> dict[str, Any]:
        choice = {"index": 0, "finish_reason": finish_reason, "delta": dict(delta)}
        return {**self.head("chat.completion.chunk"), "choices": [choice], **self.describe(self.sources, response)}

    def head(self, kind: str) -> dict[str, Any]:
        """Return the fields that all objects of the answer have. `kind` is the type of the object."""
        return {"id": self.request_id, "object": kind, "created": self.created, "model": self.model}


class CompletionStream:
    """Encodes the events of a research run. The first chunk has the sources, and the last one the usage.

    If the content of the message is JSON, it is one chunk at the end, because it is made from the complete answer.
    """

    @staticmethod
    def format_problem(problem: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return an error in the form that the clients read."""
        return make_openai_error(problem)

    def __init__(self, completion: Completion) -> None:
        self._completion = completion
        self._has_begun = False
        self._sent_chars = 0
        # The number of characters up to the end of the last RESTARTED. The offsets of annotations start after them.
        self._void_chars = 0

    def encode(self, event: ResearchEvent) -> bytes:
        if isinstance(event, PlatformEvent):
            return b""
        match event:
            case Planned() | Searched() | Read() | RoundStarted():
                return b""  # The first chunk has the sources, so nothing is sent before they are known.
            case SourcesNumbered():
                self._completion.collect_sources(event)
                return self._begin()
            case Token():
                return b"" if self._completion.is_json else self._encode_text(event.text)
            case Reset():
                if self._completion.is_json:
                    return b""
                restarted = self._encode_text(RESTARTED)
                self._void_chars = self._sent_chars
                return restarted
            case Done():
                return self._encode_done(event)
            case Failed():
                return self._encode_error(event.problem)
            case _:
                assert_never(event)

    def fail(self, error: AppException, scope: Scope) -> bytes:
        return self._encode_error(make_problem(error, scope))

    def _encode_done(self, event: Done) -> bytes:
        text = b""
        try:
            if self._completion.tool:
                delta = {"tool_calls": [{"index": 0, **self._completion.tool_call(event.response)}]}
                text = self._begin() + encode_data_part(self._completion.chunk(delta))
            elif self._completion.is_json:
                text = self._encode_text(self._completion.content(event.response))
        except OutputError as error:
            return self._encode_error(
                error.problem(instance=f"/research/{event.request_id}", request_id=event.request_id)
            )
        return self._begin() + text + self._end(event.response) + END_OF_STREAM

    def _begin(self) -> bytes:
        """Return the first chunk, or nothing if it has been sent."""
        if self._has_begun:
            return b""
        self._has_begun = True
        return encode_data_part(self._completion.chunk({"role": "assistant", "content": ""}))

    def _encode_text(self, text: str) -> bytes:
        self._sent_chars += len(text)
        return self._begin() + encode_data_part(self._completion.chunk({"content": text}))

    def _end(self, response: ResearchResponse) -> bytes:
        return encode_data_part(self._completion.chunk({}, self._completion.finish_reason, response))

    def _encode_error(self, problem: Mapping[str, Any]) -> bytes:
        return b"event: error\n" + encode_data_part(self.format_problem(problem)) + END_OF_STREAM


def encode_data_part(value: Mapping[str, Any]) -> bytes:
    return b"data: " + to_json(value) + b"\n\n"


def make_url_citations(response: ResearchResponse, shift: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the citations as OpenAI's annotations, which have the position of the cited sentence and its source.

    Quote and verdict are in the field EXTENSION. The address of a PDF names the page of the quote. `shift` is the number of
    characters before the answer in the text that the positions refer to.
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


def make_chat_annotations(citations: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the annotations in the form of a chat message, with their fields one level deeper than in the Responses API."""
    return [{"type": citation.pop("type"), "url_citation": citation} for citation in citations]


def make_token_usage(response: ResearchResponse) -> dict[str, Any]:
    metadata = response.metadata
    return {
        "prompt_tokens": metadata.prompt_tokens,
        "completion_tokens": metadata.completion_tokens,
        "total_tokens": metadata.tokens_used,
    }


def make_extension(response: ResearchResponse, *, has_citations: bool = True) -> dict[str, Any]:
    """Return the values that the format has no field for: failures, metadata, and the verified citations.

    Citations are left out if the message has them as annotations (`has_citations` is False). For an answer in JSON, both the
    citations and the text that they refer to are included.
    """
    fields = {"degraded", "metadata"}
    if response.output is not None:
        fields |= {"citations", "synthesis"}
    elif has_citations:
        fields |= {"citations"}
    return {EXTENSION: response.model_dump(mode="json", include=fields)}


def make_openai_error(problem: Mapping[str, Any]) -> dict[str, Any]:
    """Return an error in the form that clients of OpenAI read. Its `message` names the first invalid field."""
    errors = problem.get("errors") or []
    if problem["code"] == PreviousResearchNotFoundError.code:
        errors = [{"loc": ["body", "previous_response_id"], "msg": NO_PREVIOUS}]
    parameter = ".".join(map(str, errors[0]["loc"][1:])) if errors and errors[0]["loc"][1:] else None
    message = f"{parameter}: {errors[0]['msg']}" if parameter else problem["detail"]
    kind = "invalid_request_error" if problem["status"] < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "param": parameter, "code": problem["code"]}}
