"""Options that several commands share, and their conversion to settings and requests."""

import unicodedata
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, TypeVar

import typer
from pydantic import BaseModel, TypeAdapter, ValidationError
from typer.core import TyperCommand

from modules.llm_platform.domain.dtos.research_job_dtos import MAX_LISTED
from modules.llm_platform.domain.ports.tracing import NO_TRACER, ITracer
from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.presentation.cli.exit_codes import exit_codes
from modules.llm_platform.presentation.cli.setup import CommandContext, command_trace
from modules.llm_platform.presentation.validation_messages import write_validation_message
from shared.setting_types import CollectionName

# typer reads the annotations of a command at run time and shows a Literal as a choice.
DepthName = Literal["shallow", "deep", "report"]
TimeRangeName = Literal["day", "week", "month", "year"]

AsJson = Annotated[bool, typer.Option("--json", help="Print the JSON of the HTTP interface, and nothing else.")]
PlainJson = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")]
Output = Annotated[
    Path | None, typer.Option("--output", metavar="FILE", help="Write the result to FILE.md, FILE.html or FILE.json.")
]
SealedOutput = Annotated[
    Path | None,
    typer.Option(
        "--output",
        metavar="FILE",
        help="Write the answer to FILE.md, FILE.html, FILE.json or, with its sources, to FILE.sealed.zip.",
    ),
]
Provider = Annotated[
    str | None,
    typer.Option(
        "--provider",
        help="Use only this search provider.",
        callback=lambda ctx, value: _check_provider(ctx, value),
        autocompletion=lambda ctx: list(_list_providers(ctx)),
    ),
]
Documents = Annotated[
    Path | None,
    typer.Option(
        "--documents",
        metavar="DIR",
        exists=True,
        readable=True,
        help="Search only this folder or file.",
    ),
]
Question = Annotated[
    str | None,
    typer.Argument(metavar="QUESTION", help="If left out, it is read from the terminal or from standard input."),
]
Language = Annotated[
    str | None,
    typer.Option(
        "--language", metavar="TAG", help="Such as en or pt-BR; default: the language of the question or text."
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not prompt for input or confirmation.")]
Offline = Annotated[bool, typer.Option("--offline", help="Send nothing to other machines.")]
ListLimit = Annotated[int, typer.Option("--limit", metavar="N", min=1, max=MAX_LISTED, help="At most this many.")]
Before = Annotated[str | None, typer.Option("--before", metavar="ID", help="Only entries older than this one.")]
Sources = Annotated[
    str | None,
    typer.Option("--sources", metavar="LIST", help="Comma-separated list of web, news, academic, documents."),
]
TimeRange = Annotated[TimeRangeName | None, typer.Option("--time-range", help="Only results of the last day, week, …")]
Freshness = Annotated[
    str | None,
    typer.Option("--freshness", metavar="WHEN", help="oneDay, oneWeek, oneMonth, oneYear, a date, or DATE..DATE."),
]
Domains = Annotated[
    str | None,
    typer.Option(
        "--domains", metavar="LIST", help="Comma-separated: python.org includes a site, -python.org excludes it."
    ),
]
Collection = Annotated[
    str | None,
    typer.Option(
        "--collection",
        metavar="NAME",
        help="The collection of documents; default QDRANT_COLLECTION.",
        callback=lambda value: _check_collection_name(value),
    ),
]

Request = TypeVar("Request", bound=BaseModel)

ERROR = "Error: "  # The prefix that typer puts before the message.
ARGUMENTS = "modules.llm_platform.arguments"  # Key of a context's `meta`: the words after the name of the command.
PROVIDER = "provider"  # The option whose choices the wiring names.
SERVERS = frozenset({"serve", "worker", "mcp"})  # Commands that run until stopped. They have no trace of their own.
OPTION_NAMES: Mapping[str, str] = {  # Fields whose option has another name.
    "urls": "--url",
    "files": "--file",
    "output_schema": "--schema",
}

# What to use instead of an option that only other commands have, by command and option.
OTHER_WAYS: Mapping[tuple[str | None, str], str] = {
    ("ask", "--documents"): (
        "Index the folder with `llm-platform index DIR` before you ask, or use `llm-platform research` with --documents."
    ),
    ("verify", "--documents"): "Name the folder with --sources.",
}

ITEM_FORMATS: Mapping[str, str] = {  # The message about fields that are lists, instead of their pattern.
    "engines": "must be a name of at most 60 letters, digits, spaces, ., - and _",
}

EMOJI = "So"  # The Unicode category of most emoji, which can be searched for.
NO_QUESTION = "there is no question: pass it as an argument in quotes, or on standard input"


class WrongUseError(typer.BadParameter):
    """A refused value: exit code 2. On a terminal the message is wrapped between words."""

    def format_message(self) -> str:
        return Console().wrap_for_stderr(f"{ERROR}{super().format_message()}").removeprefix(ERROR)


def reject(option: str, message: str) -> NoReturn:
    raise WrongUseError(message, param_hint=option)


def make_setting_arguments(
    *, provider: str | None = None, documents: Path | None = None, offline: bool = False, **others: Any
) -> dict[str, Any]:
    """Return the options as arguments of Settings.

    Raises WrongUseError for options that exclude each other, and for `documents` that are neither a folder nor a file.
    """
    if documents is not None and provider not in (None, "documents"):
        reject("--provider", f"--documents searches only that folder: leave out --provider {provider} or --documents")
    if offline and provider not in (None, "documents"):
        reject("--provider", f"{provider} needs a network: leave out --offline or --provider {provider}")
    if documents is not None and not (documents.is_dir() or documents.is_file()):  # It is a pipe or a device.
        reject("--documents", f"{documents} is neither a folder nor a file")
    search_provider = "documents" if documents is not None else provider
    arguments = {
        "SEARCH_PROVIDERS": (search_provider,) if search_provider else None,
        "DOCUMENTS_DIR": documents,
        "LLM_PLATFORM_OFFLINE": offline or None,
        **others,
    }
    return {name: value for name, value in arguments.items() if value is not None}


def read_question(console: Console, question: str | None, *, prompts_enabled: bool) -> str:
    """Return the question from the command line, else from the terminal or standard input.

    Raises WrongUseError if there is none, or if it has neither a letter, a digit nor an emoji.
    """
    if question is None:
        question = console.read_question("Question:", prompts_enabled=prompts_enabled)
    if question is None or not question.strip():
        reject("QUESTION", NO_QUESTION)
    if not any(sign.isalnum() or unicodedata.category(sign) == EMOJI for sign in question):
        reject("QUESTION", "must contain a word")
    return question


def split_list(value: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (value or "").split(",") if part.strip())


def select_source_kinds(value: str | None, documents: Path | None) -> tuple[str, ...]:
    """Return the kinds of `--sources`: documents if only a folder is named, or none for the default."""
    return split_list(value) or (("documents",) if documents else ())


def parse_filters(options: Sequence[str] | None) -> dict[str, tuple[str, ...]]:
    """Return the `--filter KEY=VALUE` options by key. Several values of one key are alternatives."""
    filters: dict[str, tuple[str, ...]] = {}
    for option in options or ():
        key, _, value = (part.strip() for part in option.partition("="))
        if not key or not value:
            reject("--filter", "must be KEY=VALUE, such as lang=en")
        filters[key] = (*filters.get(key, ()), value)
    return filters


def build_request(model: type[Request], values: Mapping[str, Any], *, argument: str) -> Request:
    """Return the request with these fields, without None and empty tuples.

    Raises WrongUseError that names the option of a refused field, or `argument` if the field is `query` or `text`.
    """
    try:
        return model.model_validate({name: value for name, value in values.items() if value not in (None, ())})
    except ValidationError as error:
        detail = error.errors(include_input=False)[0]
        field, *position = detail["loc"]
        option = (
            argument
            if field in ("query", "text")
            else OPTION_NAMES.get(str(field), f"--{str(field).replace('_', '-')}")
        )
        item = f"number {position[0] + 1} " if position and isinstance(position[0], int) else ""
        is_format = detail["type"] == "string_pattern_mismatch" and field in ITEM_FORMATS
        message = ITEM_FORMATS[str(field)] if is_format else write_option_message(detail["type"], detail["msg"])
        reject(option, item + message)


def write_option_message(kind: str, message: str) -> str:
    """Return a message of pydantic that follows the name of an option."""
    if kind == "string_pattern_mismatch":
        return "is not in the expected format"
    if kind == "report_only":
        return "belongs to a report: add --depth report, or leave it out"
    return write_validation_message(kind, message)


def make_command_group(help_text: str) -> typer.Typer:
    return typer.Typer(help=help_text, no_args_is_help=True, rich_markup_mode=None)


class Command(TyperCommand):
    """A command that ends with the exit codes of `exit_codes`, words every refusal alike, and names the search providers
    in its help.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta[ARGUMENTS] = tuple(args)
        for argument in takewhile(lambda one: one != "--", args):
            name = argument.partition("=")[0]
            if hint := OTHER_WAYS.get((self.name, name)):
                ctx.fail(f"No such option: {name}. {hint}")
        for option in self.params:
            if option.name == PROVIDER and (names := _list_providers(ctx)):
                option.metavar = f"<{'|'.join(names)}>"
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            if not error.message:  # An argument is missing, which its own class describes.
                raise
            message = write_option_message("", error.message)
            raise WrongUseError(message, error.ctx, error.param, error.param_hint) from error

    def invoke(self, ctx: Any) -> Any:
        context: CommandContext = ctx.obj
        name = ctx.command_path.partition(" ")[2]
        with exit_codes(context.console):
            tracer: ITracer = NO_TRACER
            if name not in SERVERS:
                tracer = context.wiring.command_tracer(context.console, offline=bool(ctx.params.get("offline")))
            with command_trace(tracer, name):
                return super().invoke(ctx)


def _check_collection_name(value: str | None) -> str | None:
    try:
        return None if value is None else TypeAdapter(CollectionName).validate_python(value)
    except ValidationError:
        reject(
            "--collection", "must be a name of at most 63 letters, digits, - and _ that begins with a letter or digit"
        )


def _list_providers(ctx: typer.Context) -> tuple[str, ...]:
    return ctx.obj.wiring.search_providers() if isinstance(ctx.obj, CommandContext) else ()


def _check_provider(ctx: typer.Context, value: str | None) -> str | None:
    if value is not None and not ctx.resilient_parsing and value not in (names := _list_providers(ctx)):
        raise typer.BadParameter(f"{value!r} is not one of {', '.join(map(repr, names))}.", ctx=ctx)
    return value
