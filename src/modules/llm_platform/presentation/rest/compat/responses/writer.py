"""The response objects of the Responses APIs (OpenAI's, and the Agent API of Perplexity) and the events of their streams.

Both are made from the events of a research run by the same writer. The events are stored with a background run, so what a
stream sends, and under which `sequence_number`, is the same each time: it can be resumed, also after a restart.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, assert_never

from pydantic import BaseModel
from pydantic_core import to_json
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
from modules.llm_platform.domain.dtos.llm_dtos import LLMResponse
from modules.llm_platform.domain.exceptions import OutputError, ResearchCancelledError
from modules.llm_platform.presentation.rest.chat_routes import ChatDone, ChatEvent, ModelPart
from modules.llm_platform.presentation.rest.compat import chat_completions, structured
from modules.llm_platform.presentation.rest.http.problems import make_problem
from shared.exceptions import AppException

Object = dict[str, Any]
Step = Planned | Searched | Read | RoundStarted | SourcesNumbered | ModelPart
MESSAGE_ID: Final = "msg_"  # prefix of a message id, followed by the id of the response
NOTHING_SENT: Final = -1  # the number before the first event of a stream


class Envelope(BaseModel, extra="ignore", frozen=True):
    """The values of a request that its response repeats. They are stored with the run.

    - `echo` has the fields of the response that have the value of the request.
    - `includes` names further fields that the client wants to see.
    - `is_json` is True if the text of the answer is its `output` as JSON.
    - `tool` is the name of the client's tool that the answer calls with that `output`, or empty.
    """

    model: str
    created_at: int
    background: bool = False
    store: bool = False
    is_json: bool = False
    tool: str = ""
    includes: tuple[str, ...] = ()
    echo: dict[str, Any] = {}
    input: Any = None


class ResponseWriter(ABC):
    """Writes one response. `parts` yields the parts of a stream for an event. After the last, `final` is the whole object."""

    unused: Mapping[str, Any] = {}  # fields that the vendor's clients expect

    def __init__(self, response_id: str, envelope: Envelope) -> None:
        self.id = response_id
        self.envelope = envelope
        self.output: list[Object] = []
        self.final: Object | None = None
        self.ended_at: int | None = None  # The end of a background run, in seconds since 1970.
        self._text = ""
        self._void = ""  # The text up to the end of the last notice that the answer begins anew.
        self._position: int | None = None  # The index of the message in the output.
        self._is_created = self._is_started = False

    @property
    def message_id(self) -> str:
        return f"{MESSAGE_ID}{self.id}"

    def response(self, status: str, output: Sequence[Mapping[str, Any]] = (), **fields: Any) -> Object:
        envelope = self.envelope
        return {
            "id": self.id,
            "object": "response",
            "created_at": envelope.created_at,
            "status": status,
            "background": envelope.background,
            "model": envelope.model,
            "output": list(output),
            "store": envelope.store,
            **self.unused,
            **envelope.echo,
            **fields,
        }

    def message(self, status: str, *parts: Mapping[str, Any]) -> Object:
        return {"id": self.message_id, "type": "message", "role": "assistant", "status": status, "content": list(parts)}

    def part(self, text: str, annotations: Sequence[Mapping[str, Any]] = ()) -> Object:
        return {"type": "output_text", "text": text, "annotations": list(annotations)}

    def begin(self) -> Iterator[Object]:
        """Yield what a stream sends before the first event, once."""
        if not self._is_created:
            self._is_created = True
            yield from self._create()

    def parts(self, event: ResearchEvent | ChatEvent) -> Iterator[Object]:
        """Yield the objects of the vendor's stream for this event, without their `sequence_number`."""
        yield from self.begin()
        if not self._is_started and not isinstance(event, Failed):
            self._is_started = True
            yield from self._start()
        if isinstance(event, PlatformEvent):
            return
        match event:
            case Token() | Reset():
                yield from () if self.envelope.is_json else self._write(event)
            case Done():
                yield from self._finish_research(event.response)
            case ChatDone():
                yield from self._finish(event.response.content, event.response)
            case Failed():
                yield from self._fail(event.problem)
            case Planned() | Searched() | Read() | RoundStarted() | SourcesNumbered() | ModelPart():
                yield from self._step(event)
            case _:
                assert_never(event)

    def whole(self, events: Sequence[ResearchEvent]) -> Object:
        """Return the object after these events. The last one ends the run."""
        for event in events:
            for _ in self.parts(event):
                pass
        return self.final or self.response("in_progress")

    def of_llm(self, answer: LLMResponse) -> Object:
        for _ in self._finish(answer.content, answer):
            pass
        return self.final or {}

    def failed(self, problem: Mapping[str, Any]) -> Object:
        if problem.get("code") == ResearchCancelledError.code:
            return self.response("cancelled")
        is_limit = problem.get("status") == HTTPStatus.TOO_MANY_REQUESTS
        error = {"code": "rate_limit_exceeded" if is_limit else "server_error", "message": problem.get("detail", "")}
        return self.response("failed", error=error)

    @abstractmethod
    def _create(self) -> Iterator[Object]: ...

    @abstractmethod
    def _start(self) -> Iterator[Object]: ...

    @abstractmethod
    def _step(self, event: Step) -> Iterator[Object]:
        """Yield what is sent for an event that is neither text nor an end."""

    @abstractmethod
    def _open_text(self) -> Iterator[Object]:
        """Yield the events before the text, and set `_position`."""

    @abstractmethod
    def _close(self, text: str, answer: ResearchResponse | LLMResponse) -> Iterator[Object]:
        """Yield what is sent after the text, and set `final`."""

    @abstractmethod
    def _fail(self, problem: Mapping[str, Any]) -> Iterator[Object]: ...

    def _write(self, event: Token | Reset) -> Iterator[Object]:
        """Yield the text. What was sent cannot be taken back: a notice follows it, then the new answer."""
        if isinstance(event, Token):
            yield from self._delta(event.text)
        elif self._text:
            yield from self._delta(chat_completions.RESTARTED)
            self._void = self._text

    def _finish_research(self, answer: ResearchResponse) -> Iterator[Object]:
        text = answer.synthesis
        if self.envelope.is_json:
            try:
                text = structured.write_json(answer)
            except OutputError as error:
                yield from self._fail(error.problem(instance=f"/research/{self.id}", request_id=self.id))
                return
        if self.envelope.tool:
            yield from self._finish_call(text, answer)
        else:
            yield from self._finish(self._void + text, answer)

    @abstractmethod
    def _finish_call(self, arguments: str, answer: ResearchResponse) -> Iterator[Object]:
        """Yield what is sent for an answer that calls the tool of the envelope, and set `final`."""

    def _finish(self, text: str, answer: ResearchResponse | LLMResponse) -> Iterator[Object]:
        if rest := text[len(self._text) :]:  # A stored foreground answer, or one in JSON, sends no tokens.
            yield from self._delta(rest)
        yield from self._ensure_open()
        yield from self._close(text, answer)

    def _delta(self, text: str) -> Iterator[Object]:
        yield from self._ensure_open()
        self._text += text
        yield self._text_part("output_text.delta", delta=text)

    def _ensure_open(self) -> Iterator[Object]:
        if self._position is None:
            yield from self._open_text()

    def _add_item(self, item: Object) -> int:
        self.output.append(item)
        return len(self.output) - 1

    def _make_annotations(self, answer: ResearchResponse) -> list[Object]:
        if self.envelope.is_json:
            return list(structured.make_marker_annotations(structured.write_json(answer), answer))
        return list(chat_completions.make_url_citations(answer, len(self._void)))

    def _text_part(self, kind: str, **fields: Any) -> Object:
        return self._part(kind, item_id=self.message_id, output_index=self._position, content_index=0, **fields)

    @staticmethod
    def _part(kind: str, **fields: Any) -> Object:
        return {"type": f"response.{kind}", **fields}


class ResponseEncoder:
    """Encodes a stream. Events have a `sequence_number` that counts up from 0. Those up to `after` were sent before."""

    def __init__(self, writer: ResponseWriter, after: int = NOTHING_SENT) -> None:
        self._writer = writer
        self._after = after
        self._next = 0

    def begin(self) -> bytes:
        return b"".join(map(self._encode_frame, self._writer.begin()))

    def encode(self, event: ResearchEvent | ChatEvent) -> bytes:
        return b"".join(map(self._encode_frame, self._writer.parts(event)))

    def fail(self, error: AppException, scope: Scope) -> bytes:
        return self.encode(Failed(request_id=self._writer.id, problem=make_problem(error, scope)))

    def _encode_frame(self, part: Object) -> bytes:
        number, self._next = self._next, self._next + 1
        if number <= self._after:
            return b""
        data = to_json({"type": part["type"], "sequence_number": number, **part})
        return f"event: {part['type']}\ndata: ".encode() + data + b"\n\n"
