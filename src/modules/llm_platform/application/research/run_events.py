"""The events of a research run on their way to the caller."""

import asyncio

from modules.llm_platform.application.research.events import Done, Planned, ResearchEvent
from modules.llm_platform.application.research.follow_up import describe_answer
from modules.llm_platform.application.research.pipelines import ResearchPipelines
from modules.llm_platform.application.research.run import Run
from modules.llm_platform.application.research.stage_times import StageTimes


class RunEvents:
    """Adds the standalone question to the events of a run, times its stages, and withholds `Done`.

    `done` is the withheld event. The structured output is added to it before the caller gets it.
    """

    def __init__(self, run: Run, stage_times: StageTimes) -> None:
        self.done: Done | None = None
        self._run, self._stage_times = run, stage_times

    def emit(self, event: ResearchEvent) -> None:
        follow_up = self._run.follow_up
        if follow_up is not None and isinstance(event, Planned):
            event = event.model_copy(update={"standalone_query": follow_up.query})
        if not isinstance(event, Done):
            self._stage_times.emit(event)
            return
        if follow_up is not None:
            event = event.model_copy(
                update={"response": describe_answer(event.response, follow_up, self._run.egress_log)}
            )
        self.done = event
        self._stage_times.end_verification()


async def add_output(pipelines: ResearchPipelines, done: Done, run: Run) -> Done:
    """Return the last event, with the structured output if the request has a schema."""
    request = run.original_request
    if pipelines.output is None or request.output_schema is None:
        return done
    until = (pipelines.reporter if request.depth == "report" else pipelines.quick).compute_deadline(run)
    response = await pipelines.output.complete_response(
        done.response, request, has_sources=bool(run.sources), until=until
    )
    latency_ms = round((asyncio.get_running_loop().time() - run.began) * 1000)
    metadata = response.metadata.model_copy(update={"latency_ms": latency_ms})
    return done.model_copy(update={"response": response.model_copy(update={"metadata": metadata})})
