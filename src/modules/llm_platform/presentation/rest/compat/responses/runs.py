"""Research runs for the Responses APIs: start them, stream them, and find, follow and remove them later."""

import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final

from fastapi import Path, Query, Request, Response

from modules.llm_platform.application.research import events as research_events
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.dtos.research_job_dtos import JobEvent, ResearchJobDetail
from modules.llm_platform.domain.exceptions import BackgroundError, ResearchNotFoundError
from modules.llm_platform.presentation.rest.compat import chat_completions
from modules.llm_platform.presentation.rest.compat.responses.writer import (
    NOTHING_SENT,
    Envelope,
    Object,
    ResponseEncoder,
    ResponseWriter,
)
from modules.llm_platform.presentation.rest.compat.structured import write_json
from modules.llm_platform.presentation.rest.http.problems import BadRequestError
from modules.llm_platform.presentation.rest.http.request_scope import get_caller_id, get_services, request_id
from modules.llm_platform.presentation.rest.http.run_research import run_research
from modules.llm_platform.presentation.rest.http.sse import HEARTBEAT, EventStream, stream_research
from modules.llm_platform.presentation.rest.research_job_routes import check_streams, follow

DONE: Final = "done"  # type of the last event of a run with an answer
MAX_EVENT: Final = (1 << 53) - 1  # every client can read numbers up to this
NOT_STORED: Final = "a background response is stored until it is fetched: leave store out"
# Of a foreground answer; its text is in Done.
STORED_EVENTS: Final = (
    research_events.Started,
    research_events.Planned,
    research_events.Searched,
    research_events.Read,
    research_events.SourcesNumbered,
    research_events.Done,
)
ResponseId = Annotated[str, Path(description="`id` of a response")]
StartingAfter = Annotated[
    int, Query(ge=NOTHING_SENT, le=MAX_EVENT, description="`sequence_number` of the last event that was received")
]


@dataclass(frozen=True, slots=True)
class ResponsesApi:
    """The Responses API of one vendor. `name` marks its stored runs: an id of another API does not exist in this one."""

    name: str
    writer: Callable[[str, Envelope], ResponseWriter]


@dataclass(frozen=True, slots=True)
class ResponseRun:
    """A run that a client asked for."""

    api: ResponsesApi
    question: ResearchRequest
    envelope: Envelope


def make_envelope(
    request: Request, model: str, *, background: bool | None, store: bool | None, **fields: Any
) -> Envelope:
    """Return the envelope. `store` is true unless the client or the settings say otherwise. Raises InvalidRequestError."""
    if background and store is False:
        raise chat_completions.make_refusal("store", NOT_STORED)
    is_stored = store is not False and get_services(request).research_jobs.is_storing
    return Envelope(
        model=model,
        created_at=int(time.time()),
        background=bool(background),
        store=is_stored or bool(background),
        **fields,
    )


async def respond(request: Request, run: ResponseRun) -> Object:
    """Return the whole response of a foreground run, or the queued one of a background run."""
    if run.envelope.background:
        writer = await _submit(request, run)
        return writer.response("queued")
    events: list[research_events.ResearchEvent] = []
    answer = await run_research(request, run.question, events.append)
    if run.envelope.is_json:
        write_json(answer)  # raises OutputError before the run is stored as a good one
    writer = run.api.writer(request_id(request), run.envelope)
    events.append(research_events.Done(request_id=writer.id, response=answer))
    await _record(request, run, writer, events)
    return writer.whole(events)


async def stream(request: Request, run: ResponseRun) -> Response:
    """Return the events of a run. The events of a background run can be followed again later."""
    if run.envelope.background:
        check_streams(request)  # what is refused is not queued, and costs nothing
        return _follow(request, await _submit(request, run), NOTHING_SENT)
    writer = run.api.writer(request_id(request), run.envelope)
    record = partial(_record, request, run, writer)
    return await stream_research(request, run.question, ResponseEncoder(writer), record)


async def find_job(request: Request, api: str, job_id: str) -> ResearchJobDetail:
    """Return a run of the caller that this API submitted. Raises ResearchNotFoundError."""
    job = await get_services(request).research_jobs.get(job_id, owner=get_caller_id(request))
    if job.api != api:
        raise ResearchNotFoundError
    return job


async def read_stored_events(request: Request, job_id: str) -> list[research_events.ResearchEvent]:
    """Return the events of a run of the caller that are stored now. Raises ResearchNotFoundError."""
    stored = await get_services(request).research_jobs.list_stored_events(job_id, owner=get_caller_id(request))
    return [event for row in stored if (event := research_events.parse_event(row.data))]


async def retrieve(request: Request, api: ResponsesApi, response_id: str, includes: tuple[str, ...] = ()) -> Object:
    """Return the response as it is now. Raises ResearchNotFoundError."""
    return await read_current(request, api, await find_job(request, api.name, response_id), includes)


async def read_current(
    request: Request, api: ResponsesApi, job: ResearchJobDetail, includes: tuple[str, ...] = ()
) -> Object:
    writer = _make_writer(api, job, includes)
    if job.problem is not None:
        return writer.failed(job.problem)
    if job.response is None:
        return writer.response("queued" if job.status == "queued" else "in_progress")
    return writer.whole(await read_stored_events(request, job.id))


async def resume(
    request: Request, api: ResponsesApi, response_id: str, after: int = NOTHING_SENT, includes: tuple[str, ...] = ()
) -> Response:
    """Return the stream of a stored response after the event with this `sequence_number`. Raises ResearchNotFoundError."""
    return _follow(request, _make_writer(api, await find_job(request, api.name, response_id), includes), after)


async def cancel(request: Request, api: ResponsesApi, response_id: str) -> ResearchJobDetail:
    """Stop a background run that has not ended. Raises ResearchNotFoundError, BadRequestError."""
    job = await find_job(request, api.name, response_id)
    if job.status in ("queued", "running"):
        job = await get_services(request).research_jobs.cancel(response_id, owner=get_caller_id(request))
        if job.status == "cancelled":
            return job  # any other run ended in the meantime
    raise BadRequestError(
        f"The response is {get_current_status(job)}: only a background response that runs can be cancelled."
    )


async def delete(request: Request, api: ResponsesApi, response_id: str) -> None:
    """Remove a stored response. Raises ResearchNotFoundError."""
    await find_job(request, api.name, response_id)
    await get_services(request).research_jobs.delete(response_id, owner=get_caller_id(request))


def get_current_status(job: ResearchJobDetail) -> str:
    """Return the status of a run in the words of the vendors."""
    return {"running": "in_progress", "done": "completed"}.get(job.status, job.status)


async def _submit(request: Request, run: ResponseRun) -> ResponseWriter:
    try:
        job = await get_services(request).research_jobs.submit(
            run.question,
            owner=get_caller_id(request),
            api=run.api.name,
            client_request=run.envelope.model_dump(mode="json"),
        )
    except BackgroundError as error:
        error.field = "background"
        raise
    return run.api.writer(job.id, run.envelope)


async def _record(
    request: Request, run: ResponseRun, writer: ResponseWriter, events: Sequence[research_events.ResearchEvent]
) -> None:
    """Store the run. The `store` of the response says whether that succeeded."""
    if not run.envelope.store:
        return
    stored = [event for event in events if isinstance(event, STORED_EVENTS)]
    is_stored = await get_services(request).research_jobs.record(
        run.question,
        stored,
        owner=get_caller_id(request),
        api=run.api.name,
        client_request=run.envelope.model_dump(mode="json"),
    )
    writer.envelope = run.envelope.model_copy(update={"store": is_stored})


def _make_writer(api: ResponsesApi, job: ResearchJobDetail, includes: tuple[str, ...] = ()) -> ResponseWriter:
    envelope = Envelope.model_validate(job.client_request)
    if includes:
        envelope = envelope.model_copy(update={"includes": (*envelope.includes, *includes)})
    writer = api.writer(job.id, envelope)
    writer.ended_at = _get_end(job)
    return writer


def _get_end(job: ResearchJobDetail) -> int | None:
    """Return the time at which a background run ended, or None for any other run."""
    is_background = job.client_request.get("background") and job.finished_at is not None
    return int(job.finished_at.timestamp()) if is_background and job.finished_at else None


def _follow(request: Request, writer: ResponseWriter, after: int) -> Response:
    encoder = ResponseEncoder(writer, after)

    def encode(event: JobEvent) -> bytes:
        decoded = research_events.parse_event(event.data)
        return encoder.encode(decoded) if decoded else b""

    return EventStream(
        _stream_until_end(request, writer, follow(request, writer.id)), encode, encoder.begin() or HEARTBEAT
    )


async def _stream_until_end(
    request: Request, writer: ResponseWriter, events: AsyncGenerator[JobEvent, None]
) -> AsyncGenerator[JobEvent, None]:
    """Yield the events of a run. The writer knows when it ended before it gets the last one."""
    async with aclosing(events):
        async for event in events:
            if event.type == DONE:
                with suppress(ResearchNotFoundError):  # it was removed meanwhile
                    owner = get_caller_id(request)
                    writer.ended_at = _get_end(await get_services(request).research_jobs.get(writer.id, owner=owner))
            yield event
