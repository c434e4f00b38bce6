"""The command `research`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from modules.llm_platform.application.research.events import Done, Failed
from modules.llm_platform.domain.dtos.research_dtos import ResearchRequest, ResearchResponse
from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.presentation.cli.exit_codes import CommandError, run
from modules.llm_platform.presentation.cli.options import to_request, wrong
from modules.llm_platform.presentation.cli.output_file import Delivery, FileKind
from modules.llm_platform.presentation.cli.preparing import mind_the_network, prepare, remedy_named
from modules.llm_platform.presentation.cli.wiring import Wiring
from shared.config import Settings

if TYPE_CHECKING:
    from modules.llm_platform.application.platform import LLMPlatform

NO_QUESTION = "there is no question: give it in quotes, or on standard input"


@dataclass(frozen=True, slots=True)
class ResearchOrder:
    """What the options ask for; but for the first, named as the fields of a ResearchRequest."""

    question: str | None
    depth: str | None = None
    time_range: str | None = None
    language: str | None = None
    omit_raw: bool = False
    sources: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()

    def request(self, question: str) -> ResearchRequest:
        """The request; wrong use when a value is refused."""
        values = asdict(self)
        del values["question"]
        return to_request(ResearchRequest, {"query": question, **values}, argument="QUESTION")


def carry_out(
    console: Console, wiring: Wiring, arguments: Mapping[str, Any], order: ResearchOrder, delivery: Delivery
) -> None:
    """Research the question and deliver the answer."""
    delivery.check(console)
    question = order.question if order.question is not None else console.question("Question:", ask=delivery.ask)
    if question is None:
        wrong("QUESTION", NO_QUESTION)
    request = order.request(question)
    settings = prepare(console, arguments)
    keyless = mind_the_network(console, wiring, settings)
    live = console.on_terminal and delivery.on_screen
    with remedy_named(keyless=keyless):
        response = run(_research(console, wiring, settings, request, live=live))
    _deliver(console, response, delivery, live=live, without_model=_without_model(wiring, settings))


async def _research(
    console: Console, wiring: Wiring, settings: Settings, request: ResearchRequest, *, live: bool
) -> ResearchResponse:
    async with wiring.build_platform(settings) as platform:
        if not live and not console.watched:  # nobody reads along: asking the model to stream would be wasted
            return await platform.research.research(request)
        return await _watched(console, platform, request, live=live)


async def _watched(
    console: Console, platform: LLMPlatform, request: ResearchRequest, *, live: bool
) -> ResearchResponse:
    from modules.llm_platform.presentation.cli.live import LiveAnswer, Progress

    with LiveAnswer(console) as answer:
        progress = Progress(console, answer if live else None)
        async with aclosing(platform.research.stream(request)) as events:
            async for event in events:
                if isinstance(event, Failed):
                    raise CommandError.of(event.problem["status"], event.problem["detail"])
                if isinstance(event, Done):
                    answer.finish()
                    return event.response
                progress.show(event)
    raise CommandError("the research ended without an answer")


def _without_model(wiring: Wiring, settings: Settings) -> str | None:
    """What to say about quotes where no language model could be asked at all."""
    if wiring.has_model(settings):
        return None
    from modules.llm_platform.presentation.cli.for_people import NO_MODEL, NO_MODEL_OFFLINE

    return NO_MODEL_OFFLINE if wiring.has_model_online(settings) else NO_MODEL


def _deliver(
    console: Console, response: ResearchResponse, delivery: Delivery, *, live: bool, without_model: str | None
) -> None:
    delivery.write(console, lambda kind: _file(response, kind))
    if delivery.as_json:
        from modules.llm_platform.presentation.cli.as_json import research_json

        console.verbatim(research_json(response))
    if delivery.on_screen:
        from modules.llm_platform.presentation.cli.for_people import beneath

        if not live:
            console.markdown(response.synthesis)
        console.lines(beneath(response, without_model))


def _file(response: ResearchResponse, kind: FileKind) -> str:
    if kind == "json":
        from modules.llm_platform.presentation.cli.as_json import research_json

        return research_json(response) + "\n"
    from modules.llm_platform.presentation.cli.for_files import research_html, research_markdown

    return research_html(response) if kind == "html" else research_markdown(response)
