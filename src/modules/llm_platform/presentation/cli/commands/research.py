"""The command `research`."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic_core import from_json

from modules.llm_platform.application.research.events import Done, Failed, ResearchEvent
from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.request_dtos import MAX_CONTEXT_CHARS, ResearchRequest
from modules.llm_platform.domain.dtos.uploaded_file_dtos import MAX_FILES_BYTES, UploadedFile
from modules.llm_platform.domain.dtos.web_search_dtos import DOCUMENTS
from modules.llm_platform.domain.exceptions import OutputError, SealError
from modules.llm_platform.domain.research.long_message import MAX_MESSAGE_CHARS, split_message
from modules.llm_platform.presentation.cli import options, setup
from modules.llm_platform.presentation.cli.commands.plan import PlanReview, print_plan, read_plan, store_accepted_plan
from modules.llm_platform.presentation.cli.console import Console, Line
from modules.llm_platform.presentation.cli.exit_codes import CommandError
from modules.llm_platform.presentation.cli.options import build_request, reject
from modules.llm_platform.presentation.cli.output import OutputOptions, Renderers, read_option_file, write_file
from modules.llm_platform.presentation.cli.render import terminal
from modules.llm_platform.presentation.cli.render.csl import render_csl_json
from modules.llm_platform.presentation.cli.render.document import research_html, research_markdown
from modules.llm_platform.presentation.cli.render.json import write_evidence_json_lines, write_json, write_model_json
from modules.llm_platform.presentation.cli.render.progress import LiveAnswer, Progress, report_folder_progress
from shared.config import Settings

if TYPE_CHECKING:
    from modules.llm_platform.application.platform import LLMPlatform

# The context is limited in characters, and UTF-8 takes up to four bytes for one.
MAX_CONTEXT_KB = 4 * MAX_CONTEXT_CHARS // 1024
NO_ANSWER_TO_WRITE = "cannot be combined with --plan-only, which writes no answer: leave out one of them"
# The file may hold white space; the request limits the schema without it.
MAX_SCHEMA_KB = 64

Seal = Callable[[ResearchResponse], bytes]


Depth = Annotated[
    options.DepthName | None,
    typer.Option("--depth", help="shallow (default): one search; deep: three; report: reads whole pages."),
]
PlanFile = Annotated[
    Path | None,
    typer.Option(
        "--plan",
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="The report's sub-questions: one on each line, or JSON.",
    ),
]
PlanOnly = Annotated[bool, typer.Option("--plan-only", help="Print the report's sub-questions, and stop.")]
Urls = Annotated[
    list[str] | None,
    typer.Option(
        "--url", metavar="URL", help="Read this page for the report. Repeatable. Nothing is searched without --sources."
    ),
]
Instructions = Annotated[
    str | None, typer.Option("--instructions", metavar="TEXT", help="How a model writes the text.")
]
Model = Annotated[
    str | None,
    typer.Option("--model", metavar="PROVIDER/MODEL", help="Use only this one of the configured language models."),
]
Files = Annotated[
    list[Path] | None,
    typer.Option(
        "--file",
        metavar="PATH",
        exists=True,
        dir_okay=False,
        readable=True,
        help="Answer from this file. Repeatable, 5 files of 10 MB together. Nothing else is searched without --sources.",
    ),
]
ContextFile = Annotated[
    Path | None,
    typer.Option(
        "--context",
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="Additional text for the model to read.",
    ),
]
Pages = Annotated[
    int | None,
    typer.Option(
        "--pages", metavar="N", help="Web pages to read before a shallow or deep answer, 0 to 10; default: 3 or 4."
    ),
]
Rounds = Annotated[
    int | None,
    typer.Option(
        "--rounds", metavar="N", help="Further search rounds for open questions, 0 to 4; default: deep 1, report 2."
    ),
]
SchemaFile = Annotated[
    Path | None,
    typer.Option(
        "--schema",
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="JSON Schema of an object that a model fills from the text; the object is printed.",
    ),
]
MaxCalls = Annotated[
    int | None, typer.Option("--max-llm-calls", metavar="N", help="Limit on a report's model calls; 0 uses no model.")
]
MaxCost = Annotated[float | None, typer.Option("--max-cost-usd", metavar="USD", help="Limit of a report's cost.")]
MaxSeconds = Annotated[float | None, typer.Option("--max-seconds", metavar="S", help="Limit of a report's duration.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Ignore the stored items of this report.")]
OmitRaw = Annotated[bool, typer.Option("--omit-raw", help="Leave the results out of --json and FILE.json.")]
ShowSent = Annotated[bool, typer.Option("--show-sent", help="List the hosts that received data, and how much.")]
Csl = Annotated[
    Path | None,
    typer.Option("--csl", metavar="FILE.json", help="Write the sources as CSL-JSON, for citation managers."),
]

Evidence = Annotated[
    Path | None,
    typer.Option(
        "--evidence", metavar="FILE.jsonl", help="Write the ledger: for each question the quotes that answer it."
    ),
]


def research(
    ctx: typer.Context,
    question: options.Question = None,
    depth: Depth = None,
    sources: options.Sources = None,
    time_range: options.TimeRange = None,
    freshness: options.Freshness = None,
    domains: options.Domains = None,
    language: options.Language = None,
    plan: PlanFile = None,
    plan_only: PlanOnly = False,
    url: Urls = None,
    instructions: Instructions = None,
    context: ContextFile = None,
    model: Model = None,
    file: Files = None,
    pages: Pages = None,
    rounds: Rounds = None,
    schema: SchemaFile = None,
    max_llm_calls: MaxCalls = None,
    max_cost_usd: MaxCost = None,
    max_seconds: MaxSeconds = None,
    fresh: Fresh = False,
    omit_raw: OmitRaw = False,
    provider: options.Provider = None,
    documents: options.Documents = None,
    offline: options.Offline = False,
    as_json: options.AsJson = False,
    output: options.SealedOutput = None,
    csl: Csl = None,
    evidence: Evidence = None,
    show_sent: ShowSent = False,
    yes: options.Yes = False,
) -> None:
    """Answer a question, with citations that were checked."""
    console, wiring = setup.get_command_context(ctx)
    arguments = options.make_setting_arguments(provider=provider, documents=documents, offline=offline)
    output_options = OutputOptions(
        as_json, output, not yes, csl, evidence, show_sent, prints_object=schema is not None, can_seal=True
    )
    if plan_only:
        _check_plan_only(depth, output_options)
    fields: dict[str, Any] = {
        "depth": "report" if plan_only else depth,
        "time_range": time_range,
        "freshness": freshness,
        "language": language,
        "omit_raw": omit_raw,
        "sources": options.select_source_kinds(sources, documents),
        "domains": options.split_list(domains),
        "urls": tuple(url or ()),
        "instructions": instructions,
        "model": model,
        "pages": pages,
        "rounds": rounds,
        "max_llm_calls": max_llm_calls,
        "max_cost_usd": max_cost_usd,
        "max_seconds": max_seconds,
        "fresh": fresh,
        "plan": read_plan(plan) if plan else None,
        "files": read_files(file or ()),
        "output_schema": read_schema(schema) if schema else None,
    }
    output_options.check(console)
    asked, question_fields = _read_question(console, question, context, prompts_enabled=not yes)
    fields |= question_fields
    request = build_request(ResearchRequest, fields, argument="QUESTION")
    settings = setup.configure(console, arguments)
    if plan_only:
        print_plan(console, wiring, settings, request, as_json=as_json)
        return
    words = list(ctx.meta[options.ARGUMENTS])
    if question is None:  # The terminal or standard input gave the question, which the command that resumes needs.
        words += ["--", asked] if asked.startswith("-") else [asked]
    _ResearchCommand(console, wiring, settings, output_options, fields, words).run(request)


def _read_question(
    console: Console, argument: str | None, context_file: Path | None, *, prompts_enabled: bool
) -> tuple[str, dict[str, str | None]]:
    """Return the text that was asked, and the fields `query` and `context` of the request.

    A text that is too long for a question is a message that contains one. The whole message becomes context, before the text
    of the `--context` file. Raises WrongUseError for more than MAX_MESSAGE_CHARS characters, or a file that cannot be read.
    """
    context = None
    if context_file is not None:
        context = read_option_file("--context", context_file, max_kb=MAX_CONTEXT_KB, content="a text")
    asked = options.read_question(console, argument, prompts_enabled=prompts_enabled)
    if len(asked) > MAX_MESSAGE_CHARS:
        reject("QUESTION", f"must have at most {MAX_MESSAGE_CHARS} characters")
    question, message = split_message(asked)
    return asked, {
        "query": question,
        "context": f"{message}\n\n{context}" if message and context else message or context,
    }


def _check_plan_only(depth: str | None, output_options: OutputOptions) -> None:
    """Raise WrongUseError for an option that `--plan-only` cannot be combined with."""
    for option, path in (
        ("--output", output_options.file),
        ("--csl", output_options.csl),
        ("--evidence", output_options.evidence),
    ):
        if path is not None:
            reject(option, NO_ANSWER_TO_WRITE)
    if output_options.prints_object:
        reject("--schema", NO_ANSWER_TO_WRITE)
    if depth not in (None, "report"):
        reject("--plan-only", f"only a report has a plan: leave out --depth {depth}")


@dataclass(frozen=True, slots=True)
class _ResearchCommand:
    """One call of the command: review the plan with the user, run the research and deliver the answer.

    - `fields` are the fields of the request, as the options give them. A reviewed plan replaces some of them.
    - `words` are the words of the command line, with the question. They are printed as the command that resumes a report.
    """

    console: Console
    wiring: setup.Wiring
    settings: Settings
    output_options: OutputOptions
    fields: Mapping[str, Any]
    words: Sequence[str]

    def run(self, request: ResearchRequest) -> None:
        """Run the request and deliver its answer. Raises CommandError if the research fails."""
        is_keyless = self._print_notices(request)
        with setup.network_remedy(is_keyless=is_keyless):
            review = PlanReview(self.console, self.wiring, self.settings, request)
            is_reviewed = review.is_needed(self.output_options)
            if is_reviewed:
                accepted = {"plan": review.run(), **review.get_remaining_limits()}
                request = build_request(ResearchRequest, {**self.fields, **accepted}, argument="QUESTION")
            with self._resume_hint(request):
                work = partial(self._make_delivery, request, store_plan=is_reviewed)
                response, seal = setup.run_with_platform(self.wiring, self.settings, work)
        answer = review.add_planning_cost(response) if is_reviewed else response
        note = self.wiring.explain_missing_model(self.settings)
        deliver_research(
            self.console, self.output_options, answer, is_live=self._is_live, missing_model_note=note, seal=seal
        )

    def _print_notices(self, request: ResearchRequest) -> bool:
        """Print what is sent to services that nobody configured. Return whether the keyless search gets the query.

        A request with files, or a report on the pages of `--url`, searches nothing unless `--sources` is given.
        """
        if request.files and "sources" not in request.model_fields_set:
            return False
        if request.depth != "report":
            return setup.warn_about_keyless_search(self.console, self.wiring, self.settings)
        searches = not request.urls or "sources" in request.model_fields_set
        is_keyless = False
        providers = self.wiring.search_order(self.settings)
        if searches and providers:
            is_keyless = setup.warn_about_keyless_search(self.console, self.wiring, self.settings)
        if request.urls or (request.sources != (DOCUMENTS,) and providers != (DOCUMENTS,)):
            setup.warn_about_jina(self.console, self.settings)
        return is_keyless

    @contextmanager
    def _resume_hint(self, request: ResearchRequest) -> Iterator[None]:
        """Print on Ctrl-C the command that continues a report whose steps are stored."""
        try:
            yield
        except KeyboardInterrupt:
            if request.depth == "report" and self.settings.STORE_TTL_DAYS:
                # The terminal has echoed ^C: an empty line ends that line.
                blank = [Line()] if self.console.stderr_is_terminal else []
                self.console.print_notes([*blank, Line("Interrupted. Finished steps are stored. To continue, run:")])
                words = [word for word in self.words if word != "--fresh"]
                self.console.print_command(shlex.join(["llm-platform", "research", *words]))
            raise

    @property
    def _is_live(self) -> bool:
        """True if the answer is printed while it is written."""
        options = self.output_options
        return self.console.stdout_is_terminal and options.is_printed and not options.prints_object

    async def _make_delivery(
        self, request: ResearchRequest, platform: LLMPlatform, *, store_plan: bool
    ) -> tuple[ResearchResponse, Seal | None]:
        """Run the research. For a sealed answer, also return what seals it: the platform has the texts of its sources."""
        if not self.output_options.is_sealed:
            return await self._make_answer(request, platform, store_plan=store_plan), None
        platform.seals.check_signer()
        response = await self._make_answer(request, platform, store_plan=store_plan)
        sources = await platform.seals.load_sources(response)
        return response, lambda answer: platform.seals.seal(answer, sources)

    async def _make_answer(
        self, request: ResearchRequest, platform: LLMPlatform, *, store_plan: bool
    ) -> ResearchResponse:
        """Run the research, and show its steps if a terminal is there to show them."""
        if store_plan:
            # Stored before the run, so that the plan survives a process that is killed.
            await store_accepted_plan(platform, request)
        if not self._is_live and not self.console.stderr_is_terminal:
            return await platform.research.research(request, is_stored=self.output_options.is_sealed)
        async with (
            report_folder_progress(self.console, platform),
            aclosing(platform.research.stream(request, is_stored=self.output_options.is_sealed)) as events,
        ):
            return await show_research(self.console, events, is_live=self._is_live)


def read_files(paths: Sequence[Path]) -> tuple[UploadedFile, ...]:
    """Read the files of `--file`.

    Raises WrongUseError if a file is empty, cannot be read, or is larger than MAX_FILES_BYTES. The request limits the number
    of files and their total size.
    """
    files = []
    for path in paths:
        try:
            with path.open("rb") as opened:
                content = opened.read(MAX_FILES_BYTES + 1)
        except OSError as error:
            reject("--file", f"{path} cannot be read ({error.strerror})")
        if not content:
            reject("--file", f"{path} is empty")
        if len(content) > MAX_FILES_BYTES:
            reject("--file", f"{path} is larger than {MAX_FILES_BYTES // 1_000_000} MB")
        files.append(UploadedFile(name=path.name, content=content))
    return tuple(files)


def read_schema(path: Path) -> dict[str, Any]:
    """Read the JSON Schema of the `--schema` file. The request checks the schema itself.

    Raises WrongUseError if the file cannot be read or holds no JSON object.
    """
    text = read_option_file("--schema", path, max_kb=MAX_SCHEMA_KB, content="a schema")
    try:
        schema = from_json(text)
    except ValueError:
        schema = None
    if not isinstance(schema, dict):
        reject("--schema", f"{path} must be a JSON object")
    return schema


async def show_research(console: Console, events: AsyncIterable[ResearchEvent], *, is_live: bool) -> ResearchResponse:
    """Print the steps of a research run as they happen, and return the answer.

    With `is_live`, the text of the answer is printed while it is written. Raises CommandError if the run failed.
    """
    with LiveAnswer(console) as answer:
        progress = Progress(console, answer if is_live else None)
        async for event in events:
            if isinstance(event, Failed):
                raise CommandError.from_status(event.problem["status"], event.problem["detail"])
            if isinstance(event, Done):
                answer.finish()
                return event.response
            progress.show(event)
    raise CommandError("the research run ended without an answer")


def deliver_research(
    console: Console,
    output_options: OutputOptions,
    response: ResearchResponse,
    *,
    is_live: bool,
    missing_model_note: str | None = None,
    seal: Seal | None = None,
) -> None:
    """Print the answer and write the files that the options name.

    - `is_live` is True if `show_research` has printed the text already.
    - `missing_model_note` is printed below the sources.
    - `seal` makes the file of a sealed answer. If it fails, the answer is printed: it may have cost money.

    Raises CommandError if a file cannot be written, or if `--schema` got no object, and SealError.
    """

    def print_answer() -> None:
        if output_options.prints_object:
            # A program parses standard output: without an object, nothing may be printed there.
            if response.output is None:
                raise CommandError(f"{OutputError.of(response.degraded).message}; --json prints the text")
            console.print_verbatim(write_json(response.output))
            return
        marked = terminal.mark_unsupported(response)
        if not is_live:
            console.print_markdown(marked)
        elif blocks := terminal.select_marked_blocks(marked):
            # The text was printed before its citations were checked: print the blocks with unsupported ones again.
            console.print_lines([Line(), Line(terminal.MARKED_NOTICE, "yellow"), Line()])
            console.print_markdown(blocks)
        console.print_lines(terminal.render_sources(response, missing_model_note))

    renderers: Renderers = {
        "json": partial(write_model_json, response),
        "md": partial(research_markdown, response),
        "html": partial(research_html, response),
    }
    if seal is not None:
        renderers["sealed"] = partial(seal, response)
    try:
        output_options.deliver(console, renderers, print_answer)
    except SealError:
        replace(output_options, file=None).deliver(console, renderers, print_answer)
        raise
    finally:  # also if the reader of standard output has closed it, as `| head` does
        if output_options.csl is not None:
            write_file(console, output_options.csl, render_csl_json(response))
        if output_options.evidence is not None:
            write_file(console, output_options.evidence, write_evidence_json_lines(response))
    if output_options.show_sent:
        print_lines = console.print_lines if output_options.is_printed else console.print_notes
        print_lines(terminal.render_egress_log(response.metadata))
