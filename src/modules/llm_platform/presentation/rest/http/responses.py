"""What the routes share: the state of the server, JSON responses, and cancellation when the client disconnects."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from fastapi import Request, Response
from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_json
from starlette.types import Receive

from modules.llm_platform.application.platform import LLMPlatform
from modules.llm_platform.application.research.events import ResearchEvent
from modules.llm_platform.domain.dtos.research_dtos import ResearchRequest, ResearchResponse
from modules.llm_platform.domain.ports.rate_limiter import IRateLimiter
from modules.llm_platform.presentation.rest.http.admission import ResearchAdmission
from modules.llm_platform.presentation.rest.http.kept_answers import KeptAnswers
from modules.llm_platform.presentation.rest.http.problems import REQUEST_ID, ClientDisconnectedError, NotServingError
from modules.llm_platform.presentation.rest.http.shutdown import RunningRequests

Answer = TypeVar("Answer")

JSON = "application/json"
ANSWER = "llm_platform.answer"  # key in the ASGI scope: the answer that is sent, for the log line of the request
ERROR = "llm_platform.error"  # key in the ASGI scope: the code of the error that is sent, for the log line
MAX_UPLOADS = 4  # bodies with files that are received at once; each takes up to 50 MB until its files are decoded
MAX_RUNS_OVER_FILES = 8  # concurrent runs; each holds its files and their index, up to 100 MB
TOO_MANY_FILES = "The server reads as many files as it may: try again in a few seconds, or leave the files out"
MAX_CRAWLS = 10  # concurrent crawls; each may hold 50 MB
TOO_MANY_CRAWLS = "The server crawls as many sites as it may: try again in a few seconds"
CALLER = "llm_platform.caller"  # key in the ASGI scope: the Caller, set by GuardMiddleware
SERVER = "llm_platform.server"  # key in the ASGI scope: the ServerState, set by GuardMiddleware
KNOW = "llm_platform.know"  # key in the ASGI scope: called with texts that the client sent, now or in an earlier request


class ServerState:
    """State of one server: `platform` is set while it runs; requests, slots for research runs."""

    def __init__(self, platform: LLMPlatform | None = None, max_researches: int = 0) -> None:
        self.platform = platform
        self.requests = RunningRequests()
        self.researches = ResearchAdmission(max_researches)
        self.uploads = ResearchAdmission(MAX_UPLOADS, refusal=TOO_MANY_FILES)
        self.runs_over_files = ResearchAdmission(MAX_RUNS_OVER_FILES, refusal=TOO_MANY_FILES)
        self.kept_answers = KeptAnswers()
        self.crawls = ResearchAdmission(MAX_CRAWLS, refusal=TOO_MANY_CRAWLS)
        self.streams: Counter[str] = Counter()  # open event streams of background runs, by caller
        # Calls of APIs whose clients ask for their use, keyed by caller and endpoint.
        self.calls: Counter[tuple[str, str]] = Counter()

    @property
    def rate_limiter(self) -> IRateLimiter | None:
        return self.platform.rate_limiter if self.platform is not None else None

    @property
    def is_ready(self) -> bool:
        return self.platform is not None and not self.requests.is_draining


# Plain functions instead of `Depends`, which costs 10 us of CPU each: a tenth of a whole request.


def server_state(request: Request) -> ServerState:
    state: ServerState = request.scope[SERVER]
    return state


def services(request: Request) -> LLMPlatform:
    """Return the platform; NotServingError before the server has started."""
    platform = server_state(request).platform
    if platform is None:
        raise NotServingError
    return platform


def request_id(request: Request) -> str:
    value: str = request.scope[REQUEST_ID]
    return value


def caller_id(request: Request) -> str:
    """Return an identifier of the API key of the request; empty if no keys are set."""
    value: str = request.scope[CALLER].id
    return value


async def run_research(
    request: Request,
    question: ResearchRequest,
    on_event: Callable[[ResearchEvent], None] | None = None,
    *,
    is_stored: bool = False,
) -> ResearchResponse:
    """Return the answer. The research occupies a slot and stops if the client disconnects.

    `on_event` receives the events before the last. `is_stored`: the answer will be stored.
    """
    state = server_state(request)
    over_files = state.runs_over_files.slot() if question.files else nullcontext()
    async with CancelOnDisconnect(request.receive), over_files, state.researches.slot():
        response = await services(request).research.research(
            question, request_id=request_id(request), owner=caller_id(request), on_event=on_event, is_stored=is_stored
        )
    request.scope[ANSWER] = response
    return response


async def run_until_disconnect(request: Request, call: Awaitable[Answer]) -> Answer:
    """Return the answer of a call, which stops if the client disconnects."""
    async with CancelOnDisconnect(request.receive):
        answer = await call
    request.scope[ANSWER] = answer
    return answer


def json_response(
    value: BaseModel,
    *,
    exclude: Mapping[str, Any] | None = None,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return a DTO as JSON. FastAPI does not validate a Response a second time."""
    content = value.__pydantic_serializer__.to_json(value, exclude=dict(exclude) if exclude else None)
    return Response(content, status, headers, JSON)


def stored_response(
    request: Request, value: BaseModel, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return stored research runs or threads of the caller. Their questions and titles come back as they were sent."""
    know_questions(request, value)
    return json_response(value, status=status, headers=headers)


def know_questions(request: Request, value: BaseModel) -> None:
    """Redact no secret that stands in what the caller sent for these research runs and threads."""
    stored = (value, *getattr(value, "researches", ()), *getattr(value, "threads", ()))
    texts = [getattr(one, name, "") for one in stored for name in ("query", "title")]
    asked = getattr(value, "request", None)
    if isinstance(asked, BaseModel):
        texts.append(asked.model_dump_json())
    request.scope[KNOW](*(text.encode() for text in texts if text))


def raw_json_response(value: Mapping[str, Any]) -> Response:
    """Return 200 with the JSON of an upstream, values unchanged."""
    try:
        return Response(to_json(value), media_type=JSON)
    except PydanticSerializationError:  # a lone surrogate, which JSON can escape but UTF-8 cannot encode
        return Response(json.dumps(value), media_type=JSON)


def excluded_fields(model: type[BaseModel]) -> dict[str, Any]:
    """Return the fields that an API model hides, as the `exclude` of `json_response`."""
    return {name: True for name, field in model.model_fields.items() if field.exclude}


class CancelOnDisconnect:
    """`async with CancelOnDisconnect(receive):` cancels its block and raises ClientDisconnectedError on a disconnect.

    Nothing else may read `receive` in the block. The block must end before the last part of the response is sent, because
    servers send the same message then. Works like `asyncio.timeout`.
    """

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._is_disconnected = False

    async def __aenter__(self) -> Self:
        self._task = cast("asyncio.Task[Any]", asyncio.current_task())  # a coroutine always runs in a task
        self._cancelling = self._task.cancelling()
        self._watcher = asyncio.create_task(self._watch())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watcher.cancel()
        if self._is_disconnected and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise ClientDisconnectedError from error

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._is_disconnected = True
        self._task.cancel()
