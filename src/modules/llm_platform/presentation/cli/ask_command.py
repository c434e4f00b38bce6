"""`llm-platform ask`: an answer from the indexed documents."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from modules.llm_platform.domain.dtos.research_dtos import ResearchMetadata, ResearchResponse, SourceRef
from modules.llm_platform.domain.dtos.retrieval_dtos import ContextItem, Filters, RagAnswer, RagQuestion
from modules.llm_platform.domain.dtos.web_search_dtos import clean_query
from modules.llm_platform.presentation.cli import options
from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.presentation.cli.exit_codes import exit_codes, run
from modules.llm_platform.presentation.cli.options import to_request, wrong
from modules.llm_platform.presentation.cli.output import Delivery, FileKind, read_given
from modules.llm_platform.presentation.cli.render_json import dumped
from modules.llm_platform.presentation.cli.setup import Wiring, goes_to_jina_unasked, prepare
from modules.llm_platform.presentation.kafka.contract import requests
from modules.llm_platform.presentation.kafka.contract.requests import RequestError
from shared.config import Settings

MAX_TOP_K = 100


def ask(
    ctx: typer.Context,
    question: Annotated[
        str | None,
        typer.Argument(metavar="QUESTION", help="What to answer; left out, it is asked for, or read from standard input."),
    ] = None,
    collection: Annotated[
        str | None, typer.Option("--collection", metavar="NAME", help="The collection to ask; default QDRANT_COLLECTION.")
    ] = None,
    filters: Annotated[
        list[str] | None,
        typer.Option("--filter", metavar="KEY=VALUE", help="Only documents with this value; repeatable, one key with any."),
    ] = None,
    top_k: Annotated[
        int | None,
        typer.Option("--top-k", metavar="N", min=1, max=MAX_TOP_K, help="Documents to answer from; default RAG_TOP_K."),
    ] = None,
    context: Annotated[
        Path | None,
        typer.Option(
            "--context", metavar="FILE.json", exists=True, dir_okay=False,
            help="Answer from this first: a list of {doc_id, snippet, url}.",
        ),
    ] = None,
    language: options.Language = None,
    offline: options.Offline = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON, and nothing else.")] = False,
    output: options.Output = None,
    yes: options.Yes = False,
) -> None:  # fmt: skip
    """Answer a question from the indexed documents."""
    console = Console()
    with exit_codes(console):
        run_ask(
            console,
            ctx.obj,
            options.setting_arguments(offline=offline, QDRANT_COLLECTION=options.collection_named(collection)),
            AskOptions(
                question=question, top_k=top_k, filters=tuple(filters or ()), context_file=context, language=language
            ),
            Delivery(as_json, output, ask=not yes),
        )  # fmt: skip


# The command `ask`: the answer stage in this process.


NO_QUESTION: Final = "there is no question: give it in quotes, or on standard input"
SEEN_BY_JINA: Final = (
    "The addresses of the context are given to r.jina.ai, which fetches them for us. With READERS=direct, not."
)


@dataclass(frozen=True, slots=True)
class AskOptions:
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


def run_ask(
    console: Console, wiring: Wiring, arguments: Mapping[str, Any], order: AskOptions, delivery: Delivery
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


def _question(order: AskOptions, asked: str | None) -> RagQuestion:
    try:
        question = clean_query(asked or "")
    except ValueError:
        wrong("QUESTION", NO_QUESTION)
    context: tuple[ContextItem, ...] = ()
    if order.context_file is not None:
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
    from modules.llm_platform.presentation.cli.render_terminal import NO_MODEL, NO_MODEL_OFFLINE

    return NO_MODEL_OFFLINE if wiring.has_model_online(settings) else NO_MODEL


def _deliver(console: Console, answered: Answered, delivery: Delivery, without_model: str | None) -> None:
    delivery.write(console, lambda kind: _file(answered, kind))
    if delivery.as_json:
        console.verbatim(_json(answered))
    if delivery.on_screen:
        from modules.llm_platform.presentation.cli.render_terminal import render_sources, with_unsupported_marked

        response = as_research(answered)
        console.markdown(with_unsupported_marked(response))
        console.lines(render_sources(response, without_model if response.sources else None))


def _file(answered: Answered, kind: FileKind) -> str:
    if kind == "json":
        return _json(answered) + "\n"
    from modules.llm_platform.presentation.cli.render_document import research_html, research_markdown

    response = as_research(answered)
    return research_html(response) if kind == "html" else research_markdown(response)


def _json(answered: Answered) -> str:

    return answer_json(answered)


# An answer of the index as JSON, and in the shape in which people and files are shown answers.


QUESTION_CHARS = 300  # of the question as a heading


def answer_json(answered: Answered) -> str:
    """What the answer stage tells (requirement RC6), without the fields of a request, and what it took."""
    answer = answered.answer
    told = {
        "answer": answer.answer,
        "citations": [each.model_dump(mode="json", exclude_none=True) for each in answer.citations],
        "latency_ms": answered.latency_ms,
        "answered": answer.answered,
        "degraded": [each.model_dump(mode="json") for each in answer.degraded],
        "synthesizer": answer.synthesizer,
        "tokens_used": answer.spent.tokens,
        "cost_usd": answer.spent.cost_usd,
    }
    return dumped(told)


def as_research(answered: Answered) -> ResearchResponse:
    """The answer with its documents as sources; one without an address is shown by its id."""
    answer, spent = answered.answer, answered.answer.spent
    sources = tuple(
        SourceRef(index=number, title=each.title or each.doc_id or "", url=each.url or each.doc_id or "")
        for number, each in enumerate(answer.citations, 1)
    )
    metadata = ResearchMetadata(
        latency_ms=answered.latency_ms,
        tokens_used=spent.tokens,
        cost_usd=spent.cost_usd,
        llm_calls=spent.calls,
        synthesizer=answer.synthesizer,
        language=answered.question.language or "en",
    )
    return ResearchResponse(
        query=answered.question.question[:QUESTION_CHARS],
        depth="shallow",
        synthesis=answer.answer,
        sources=sources,
        degraded=answer.degraded,
        metadata=metadata,
    )


# The file of `--context`: what an answer shall be made from, as the contract writes it (requirements RC4 and RC5).


OPTION: Final = "--context"
MAX_FILE_KB: Final = 8000
LISTS: Final = ("context", "hits")  # of a request for an answer, of what a search found
WANTED: Final = "a list of {doc_id, snippet, url}, or an object with such a list as “context” or “hits”"


def read_context(path: Path) -> tuple[ContextItem, ...]:
    """The pieces; wrong use when the file holds none that can be read."""
    value = _value(path)
    if isinstance(value, dict):
        value = next((value[name] for name in LISTS if name in value), value)
    if not isinstance(value, list):
        wrong(OPTION, f"{path} must hold {WANTED}")
    try:
        items = requests.context(value)
    except RequestError as error:
        wrong(OPTION, str(error))
    if not items:
        wrong(OPTION, f"{path} holds nothing to answer from")
    return items


def _value(path: Path) -> Any:
    content = read_given(OPTION, path, most_kb=MAX_FILE_KB, what="pieces of context")
    try:
        return json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError):  # UnicodeDecodeError is one
        wrong(OPTION, f"{path} must be JSON in UTF-8: {WANTED}")
