"""The command `ask`: the answer stage of the worker, in this process."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from modules.llm_platform.domain.citations.show.source_pages import format_pages
from modules.llm_platform.domain.dtos.answer_dtos import ResearchMetadata, ResearchResponse
from modules.llm_platform.domain.dtos.retrieval_dtos import ContextItem, RagAnswer, RagQuestion
from modules.llm_platform.domain.dtos.source_dtos import SourceRef
from modules.llm_platform.domain.dtos.web_search_dtos import clean_query
from modules.llm_platform.domain.urls.canonical_url import page_url
from modules.llm_platform.presentation.cli import options
from modules.llm_platform.presentation.cli.options import build_request, reject
from modules.llm_platform.presentation.cli.output import OutputOptions, Renderers, read_option_file
from modules.llm_platform.presentation.cli.render.document import research_html, research_markdown
from modules.llm_platform.presentation.cli.render.json import write_json
from modules.llm_platform.presentation.cli.render.terminal import mark_unsupported, render_sources
from modules.llm_platform.presentation.cli.setup import (
    configure,
    get_command_context,
    run_with_platform,
    warn_about_jina,
)
from modules.llm_platform.presentation.kafka.contract import requests
from modules.llm_platform.presentation.kafka.contract.requests import RequestError

if TYPE_CHECKING:
    from modules.llm_platform.application.platform import LLMPlatform

ASK_TOP_K: Final = 100
MAX_HEADING_CHARS: Final = 300  # A longer question is cut in the heading.
ASK_CONTEXT_KB: Final = 8000
CONTEXT_FIELDS: Final = ("context", "hits")  # An answer request has the first, a search result the second.
CONTEXT_FORMAT: Final = "a list of {doc_id, snippet, url}, or an object with such a list as “context” or “hits”"


class TimedAnswer(NamedTuple):
    """An answer with its question and its duration in milliseconds."""

    question: RagQuestion
    answer: RagAnswer
    latency_ms: int


def ask(
    ctx: typer.Context,
    question: options.Question = None,
    collection: options.Collection = None,
    filters: Annotated[
        list[str] | None,
        typer.Option(
            "--filter",
            metavar="KEY=VALUE",
            help="Only documents with this value. Repeatable: several values of one key are alternatives.",
        ),
    ] = None,
    top_k: Annotated[
        int | None,
        typer.Option(
            "--top-k", metavar="N", min=1, max=ASK_TOP_K, help="Number of documents to answer from; default RAG_TOP_K."
        ),
    ] = None,
    context: Annotated[
        Path | None,
        typer.Option(
            "--context",
            metavar="FILE.json",
            exists=True,
            dir_okay=False,
            help="Passages to answer from before the collection: a list of {doc_id, snippet, url}.",
        ),
    ] = None,
    language: options.Language = None,
    offline: options.Offline = False,
    as_json: options.PlainJson = False,
    output: options.Output = None,
    yes: options.Yes = False,
) -> None:
    """Answer a question from the indexed documents."""
    console, wiring = get_command_context(ctx)
    output_options = OutputOptions(as_json, output, prompts_enabled=not yes)
    output_options.check(console)
    try:
        cleaned = clean_query(options.read_question(console, question, prompts_enabled=not yes))
    except ValueError as error:
        reject("QUESTION", str(error))
    values = {
        "question": cleaned,
        "context": read_context(context) if context else (),
        "filters": options.parse_filters(filters),
        "top_k": top_k,
        "language": language,
    }
    request = build_request(RagQuestion, values, argument="QUESTION")
    settings = configure(console, options.make_setting_arguments(offline=offline, QDRANT_COLLECTION=collection))
    if any(item.url and not item.snippet for item in request.context):
        warn_about_jina(console, settings)
    console.print_progress("answering …")
    timed = run_with_platform(wiring, settings, partial(_find_answer, request))
    response = as_research(timed)

    def print_answer() -> None:
        console.print_markdown(mark_unsupported(response))
        console.print_lines(
            render_sources(response, wiring.explain_missing_model(settings) if response.sources else None)
        )

    renderers: Renderers = {
        "json": partial(write_answer_json, timed),
        "md": partial(research_markdown, response),
        "html": partial(research_html, response),
    }
    output_options.deliver(console, renderers, print_answer)


async def _find_answer(request: RagQuestion, platform: LLMPlatform) -> TimedAnswer:
    started = time.monotonic()
    answer = await platform.answers.answer(request, use_fallback=True, cites_closest=True)
    return TimedAnswer(request, answer, round((time.monotonic() - started) * 1000))


def write_answer_json(timed: TimedAnswer) -> str:
    """Return the JSON of the answer stage without the fields of a request, with the duration."""
    answer = timed.answer
    return write_json(
        {
            "answer": answer.answer,
            "citations": [citation.model_dump(mode="json", exclude_none=True) for citation in answer.citations],
            "latency_ms": timed.latency_ms,
            "answered": answer.answered,
            "degraded": [degradation.model_dump(mode="json") for degradation in answer.degraded],
            "synthesizer": answer.synthesizer,
            "tokens_used": answer.spent.tokens,
            "cost_usd": answer.spent.cost_usd,
        }
    )


def as_research(timed: TimedAnswer) -> ResearchResponse:
    """Return the answer in the form that the renderers read.

    A document without title or address has its id in their place. One with pages has the page of its first quote.
    """
    answer = timed.answer
    sources = tuple(
        SourceRef(
            index=number,
            title=", ".join(
                filter(None, (citation.title or citation.doc_id, format_pages(filter(None, [citation.page]))))
            ),
            url=page_url(citation.url or citation.doc_id or "", citation.page),
        )
        for number, citation in enumerate(answer.citations, 1)
    )
    metadata = ResearchMetadata(
        latency_ms=timed.latency_ms,
        **answer.spent.metadata(),
        synthesizer=answer.synthesizer,
        language=timed.question.language or "en",
    )
    return ResearchResponse(
        query=timed.question.question[:MAX_HEADING_CHARS],
        depth="shallow",
        synthesis=answer.answer,
        sources=sources,
        degraded=answer.degraded,
        metadata=metadata,
    )


def read_context(path: Path) -> tuple[ContextItem, ...]:
    """Return the passages of the `--context` file, in the format of the Kafka contract.

    Raises WrongUseError for any other file.
    """
    text = read_option_file("--context", path, max_kb=ASK_CONTEXT_KB, content="passages")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        reject("--context", f"{path} must be JSON: {CONTEXT_FORMAT}")
    if isinstance(value, dict):
        value = next((value[name] for name in CONTEXT_FIELDS if name in value), value)
    if not isinstance(value, list):
        reject("--context", f"{path} must contain {CONTEXT_FORMAT}")
    try:
        items = requests.parse_context(value)
    except RequestError as error:
        reject("--context", str(error))
    if not items:
        reject("--context", f"{path} contains no passage with text or an address")
    return items
