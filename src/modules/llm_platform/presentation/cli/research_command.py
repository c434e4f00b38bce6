"""The command `research`."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from modules.llm_platform.application.platform import LLMPlatform
from modules.llm_platform.application.research.events import Done, Failed
from modules.llm_platform.domain.dtos.research_dtos import ResearchRequest, ResearchResponse
from modules.llm_platform.presentation.cli.console import Console, Line
from modules.llm_platform.presentation.cli.exit_codes import CommandError, run
from modules.llm_platform.presentation.cli.options import to_request, wrong
from modules.llm_platform.presentation.cli.output import Delivery, deliver
from modules.llm_platform.presentation.cli.setup import (
    Wiring,
    goes_to_jina_unasked,
    prepare,
    remedy_named,
    warn_about_network,
)
from shared.config import Settings

if TYPE_CHECKING:
    from modules.llm_platform.application.platform import LLMPlatform
    from modules.llm_platform.presentation.cli.planning import ReviewedPlan


# How far the reading of a named folder is, for a person who waits for an answer from it.


EVERY_S: Final = 2.0  # a folder that is read sooner is not worth a line


@asynccontextmanager
async def report_folder_progress(
    console: Console, platform: LLMPlatform, every_s: float = EVERY_S
) -> AsyncIterator[None]:
    """While the block runs, a line now and then as long as documents are being read."""
    if not console.watched:
        yield
        return
    telling = asyncio.create_task(_tell(console, platform, every_s))
    try:
        yield
    finally:
        telling.cancel()
        await asyncio.wait([telling])


async def _tell(console: Console, platform: LLMPlatform, every_s: float) -> None:
    while True:
        await asyncio.sleep(every_s)
        if now := platform.reading:
            share = f" ({now.done_bytes / now.total_bytes:.0%})" if now.total_bytes else ""
            console.step(f"reading the documents: {now.documents:,} so far{share} …")


NO_QUESTION = "there is no question: give it in quotes, or on standard input"
SEEN_BY_JINA = "The addresses of pages are given to r.jina.ai, which fetches them for us. With READERS=direct, not."
NO_ANSWER_YET = "there is no answer to write where only the plan is printed"
RESUMABLE = "Interrupted. What was finished is stored. To go on from there:"
OF_THE_COMMAND = frozenset({"question", "plan_file", "plan_only", "words"})  # what is no field of a request


@dataclass(frozen=True, slots=True)
class ResearchOptions:
    """What the options ask for; but for the first and those of `OF_THE_COMMAND`, named as the fields of a
    ResearchRequest.
    """

    question: str | None
    depth: str | None = None
    time_range: str | None = None
    language: str | None = None
    omit_raw: bool = False
    sources: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    plan: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    instructions: str | None = None
    max_llm_calls: int | None = None
    max_cost_usd: float | None = None
    max_seconds: float | None = None
    fresh: bool = False
    plan_file: Path | None = None
    plan_only: bool = False
    words: tuple[str, ...] = ()  # as they were typed

    def request(self, question: str) -> ResearchRequest:
        """The request; wrong use when a value is refused."""
        values = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in OF_THE_COMMAND}
        return to_request(ResearchRequest, {"query": question, **values}, argument="QUESTION")

    def again(self, question: str) -> str:
        """The command line that goes on with this research, for a POSIX shell: with its question, and with what is stored."""
        words = [word for word in self.words if word != "--fresh"]
        asked = [] if self.question is not None else [*(["--"] if question.startswith("-") else []), question]
        return shlex.join(["llm-platform", "research", *words, *asked])


def run_research(
    console: Console, wiring: Wiring, arguments: Mapping[str, Any], order: ResearchOptions, delivery: Delivery
) -> None:
    """Research the question and deliver the answer."""
    order = _completed(order, delivery)
    delivery.check(console)
    question = order.question if order.question is not None else console.question("Question:", ask=delivery.ask)
    if question is None:
        wrong("QUESTION", NO_QUESTION)
    request = order.request(question)
    settings = prepare(console, arguments)
    if order.plan_only:
        from modules.llm_platform.presentation.cli.planning import show

        show(console, wiring, settings, request, as_json=delivery.as_json)
        return
    keyless = _warn_about_egress(console, wiring, settings, request)
    live = console.on_terminal and delivery.on_screen
    with remedy_named(keyless=keyless):
        planned = _gone_over(console, wiring, settings, request, delivery)
        if planned is not None:
            request = replace(order, plan=planned.questions, **planned.left(request)).request(question)
        with _resumption_named(console, settings, order, question):
            response = run(_research(console, wiring, settings, request, live=live, accepted=planned is not None))
    if planned is not None:
        response = planned.added_to(response)
    deliver(console, response, delivery, live=live, without_model=_without_model(wiring, settings))


@contextmanager
def _resumption_named(console: Console, settings: Settings, order: ResearchOptions, question: str) -> Iterator[None]:
    """Ctrl-C in a report says how to go on, where anything is stored to go on from."""
    try:
        yield
    except KeyboardInterrupt:
        if order.depth == "report" and settings.STORE_TTL_DAYS:
            console.aside([*([Line()] if console.watched else []), Line(RESUMABLE)])  # behind the terminal's own ^C
            console.to_copy(order.again(question))
        raise


def _completed(order: ResearchOptions, delivery: Delivery) -> ResearchOptions:
    """The order with the plan of its file. Only a report has a plan, so to print one no depth need be named."""
    if order.plan_only:
        for option, path in (("--output", delivery.output), ("--csl", delivery.csl)):
            if path is not None:
                wrong(option, NO_ANSWER_YET)
        if order.depth not in (None, "report"):
            wrong("--plan-only", f"a plan belongs to a report, and --depth {order.depth} asks for none")
        order = replace(order, depth="report")
    if order.plan_file is None:
        return order
    from modules.llm_platform.presentation.cli.planning import read_plan

    return replace(order, plan=read_plan(order.plan_file))


def _warn_about_egress(console: Console, wiring: Wiring, settings: Settings, request: ResearchRequest) -> bool:
    """Say what leaves the machine unasked; whether that is the query, for the keyless web.

    A report may come out of the store, or be made of given pages: then nothing need be searched.
    """
    if request.depth != "report":
        return warn_about_network(console, wiring, settings)
    searches = not request.urls or "sources" in request.model_fields_set
    keyless = searches and bool(wiring.search_order(settings)) and warn_about_network(console, wiring, settings)
    if (request.urls or request.sources != ("documents",)) and goes_to_jina_unasked(settings):
        console.warn(SEEN_BY_JINA)
    return keyless


def _gone_over(
    console: Console, wiring: Wiring, settings: Settings, request: ResearchRequest, delivery: Delivery
) -> ReviewedPlan | None:
    """The plan that a person at the terminal made of the platform's; None where nobody is asked."""
    if request.depth != "report":
        return None
    from modules.llm_platform.presentation.cli.planning import is_reviewed, review_plan

    if not is_reviewed(console, wiring, settings, request, delivery):
        return None
    return review_plan(console, wiring, settings, request)


async def _research(
    console: Console, wiring: Wiring, settings: Settings, request: ResearchRequest, *, live: bool, accepted: bool
) -> ResearchResponse:
    """`accepted`: a person has just agreed to the plan, which is worth keeping should this process be killed."""
    async with wiring.build_platform(settings) as platform:
        if accepted:
            from modules.llm_platform.presentation.cli.planning import keep

            await keep(platform, request)
        if not live and not console.watched:  # nobody reads along: asking the model to stream would be wasted
            return await platform.research.research(request)
        return await _watched(console, platform, request, live=live)


async def _watched(
    console: Console, platform: LLMPlatform, request: ResearchRequest, *, live: bool
) -> ResearchResponse:
    from modules.llm_platform.presentation.cli.progress import LiveAnswer, Progress

    with LiveAnswer(console) as answer:
        progress = Progress(console, answer if live else None)
        async with report_folder_progress(console, platform), aclosing(platform.research.stream(request)) as events:
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
    from modules.llm_platform.presentation.cli.render_terminal import NO_MODEL, NO_MODEL_OFFLINE

    return NO_MODEL_OFFLINE if wiring.has_model_online(settings) else NO_MODEL
