"""The last event of a research run, to which the structured output is added."""

import asyncio

from modules.llm_platform.application.research import events as research_events
from modules.llm_platform.application.research.context import ResearchContext, StoreSources
from modules.llm_platform.application.research.parts import ResearchParts
from modules.llm_platform.application.research.stage_times import StageTimes
from modules.llm_platform.domain.dtos import research_dtos as dtos


async def with_output(
    parts: ResearchParts,
    done: research_events.Done,
    asked: dtos.ResearchRequest,
    context: ResearchContext,
    *,
    has_sources: bool,
) -> research_events.Done:
    """Return the last event, with the output where the request has a schema. `asked` has its limits as they were sent."""
    if parts.output is None or asked.output_schema is None:
        return done
    until = parts.reporter.end(context) if asked.depth == "report" else parts.quick.end(context)
    response = await parts.output.add_to(done.response, asked, has_sources=has_sources, until=until)
    latency_ms = round((asyncio.get_running_loop().time() - context.began) * 1000)
    metadata = response.metadata.model_copy(update={"latency_ms": latency_ms})
    return done.model_copy(update={"response": response.model_copy(update={"metadata": metadata})})


class FinalEvent:
    """Holds back the last event of a research run, to which the output is added; passes on everything else."""

    def __init__(self, stage_times: StageTimes, store_sources: StoreSources) -> None:
        self.done: research_events.Done | None = None
        self.has_sources = False
        self._stage_times, self._store_sources = stage_times, store_sources

    def emit(self, event: research_events.ResearchEvent) -> None:
        if isinstance(event, research_events.Done):
            self.done = event
            self._stage_times.end_verification()
        else:
            self._stage_times.emit(event)

    async def store_sources(self, sources: tuple[dtos.Source, ...]) -> None:
        self.has_sources = bool(sources)
        await self._store_sources(sources)
