"""The command `ask`: the answer stage in this process."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from modules.llm_platform.domain.dtos.retrieval_dtos import ContextItem, Filters, RagAnswer, RagQuestion
from modules.llm_platform.domain.dtos.web_search_dtos import clean_query
from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.presentation.cli.exit_codes import run
from modules.llm_platform.presentation.cli.options import to_request, wrong
from modules.llm_platform.presentation.cli.output_file import Delivery, FileKind
from modules.llm_platform.presentation.cli.preparing import goes_to_jina_unasked, prepare
from modules.llm_platform.presentation.cli.wiring import Wiring
from shared.config import Settings

NO_QUESTION: Final = "there is no question: give it in quotes, or on standard input"
SEEN_BY_JINA: Final = (
    "The addresses of the context are given to r.jina.ai, which fetches them for us. With READERS=direct, not."
)


@dataclass(frozen=True, slots=True)
class AskOrder:
    """What the options ask for; `filters` as they were typed."""

    question: str | None
    top_k: int | None = None
    filters: tuple[str, ...] = ()
    context_file: Path | None = None
    language: str | None = None


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer, what was asked, and how many milliseconds it took."""

    question: RagQuestion
    answer: RagAnswer
    latency_ms: int


def carry_out(
    console: Console, wiring: Wiring, arguments: Mapping[str, Any], order: AskOrder, delivery: Delivery
) -> None:
    """Answer the question and deliver the answer."""
    delivery.check(console)
    question = _question(order, order.question or console.question("Question:", ask=delivery.ask))
    settings = prepare(console, arguments)
    if any(item.url and not item.snippet for item in question.context) and goes_to_jina_unasked(settings):
        console.warn(SEEN_BY_JINA)
    console.step("looking for an answer …")
    answered = run(_ask(wiring, settings, question))
    _deliver(console, answered, delivery, _without_model(wiring, settings))


def filters_of(typed: Sequence[str]) -> Filters:
    """`key=value` of each option: values of one key are alternatives. Wrong use for anything else."""
    found: dict[str, tuple[str, ...]] = {}
    for each in typed:
        key, _, value = (part.strip() for part in each.partition("="))
        if not key or not value:
            wrong("--filter", "must be key=value, such as lang=en")
        found[key] = (*found.get(key, ()), value)
    return found


def _question(order: AskOrder, asked: str | None) -> RagQuestion:
    try:
        question = clean_query(asked or "")
    except ValueError:
        wrong("QUESTION", NO_QUESTION)
    context: tuple[ContextItem, ...] = ()
    if order.context_file is not None:
        from modules.llm_platform.presentation.cli.context_file import read_context

        context = read_context(order.context_file)
    values = {
        "question": question, "context": context, "top_k": order.top_k, "language": order.language,
        "filters": filters_of(order.filters),
    }  # fmt: skip
    return to_request(RagQuestion, values, argument="QUESTION")


async def _ask(wiring: Wiring, settings: Settings, question: RagQuestion) -> Answered:
    async with wiring.build_platform(settings) as platform:
        begun = time.monotonic()
        answer = await platform.answers.answer(question, stand_in=True)
        return Answered(question, answer, round((time.monotonic() - begun) * 1000))


def _without_model(wiring: Wiring, settings: Settings) -> str | None:
    """What to say about quotes where no language model could be asked at all."""
    if wiring.has_model(settings):
        return None
    from modules.llm_platform.presentation.cli.for_people import NO_MODEL, NO_MODEL_OFFLINE

    return NO_MODEL_OFFLINE if wiring.has_model_online(settings) else NO_MODEL


def _deliver(console: Console, answered: Answered, delivery: Delivery, without_model: str | None) -> None:
    delivery.write(console, lambda kind: _file(answered, kind))
    if delivery.as_json:
        console.verbatim(_json(answered))
    if delivery.on_screen:
        from modules.llm_platform.presentation.cli.answer_view import as_research
        from modules.llm_platform.presentation.cli.for_people import beneath, with_unsupported_marked

        response = as_research(answered)
        console.markdown(with_unsupported_marked(response))
        console.lines(beneath(response, without_model if response.sources else None))


def _file(answered: Answered, kind: FileKind) -> str:
    if kind == "json":
        return _json(answered) + "\n"
    from modules.llm_platform.presentation.cli.answer_view import as_research
    from modules.llm_platform.presentation.cli.for_files import research_html, research_markdown

    response = as_research(answered)
    return research_html(response) if kind == "html" else research_markdown(response)


def _json(answered: Answered) -> str:
    from modules.llm_platform.presentation.cli.answer_view import answer_json

    return answer_json(answered)
