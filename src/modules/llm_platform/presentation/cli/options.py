"""What may stand on the command line, once for all commands, and what it means for the settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, TypeVar

import typer
from pydantic import BaseModel, TypeAdapter, ValidationError
from typer.core import TyperCommand

from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.presentation.cli.setup import Wiring
from shared.config import CollectionName

# typer reads the annotations of a command at run time and shows a Literal as a choice.
ReaderName = Literal["jina", "direct"]
DepthName = Literal["shallow", "deep", "report"]
TimeRangeName = Literal["day", "week", "month", "year"]

AsJson = Annotated[bool, typer.Option("--json", help="Print the answer of the HTTP interface, and nothing else.")]
Output = Annotated[
    Path | None, typer.Option("--output", metavar="FILE", help="Write the answer to FILE.md, FILE.html or FILE.json.")
]
Provider = Annotated[
    str | None,
    typer.Option(
        "--provider", help="Search with this provider alone.",
        callback=lambda ctx, value: _known_provider(ctx, value), autocompletion=lambda ctx: list(_providers(ctx)),
    ),
]  # fmt: skip
Documents = Annotated[
    Path | None,
    typer.Option(
        "--documents", metavar="DIR", exists=True, readable=True,
        help="Search this folder, or this file, and nothing else.",
    ),
]  # fmt: skip
Language = Annotated[
    str | None, typer.Option("--language", metavar="TAG", help="Such as en or pt-BR; default: the question's language.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Ask no questions.")]
Offline = Annotated[bool, typer.Option("--offline", help="Do nothing that leaves this machine.")]
Sources = Annotated[
    str | None, typer.Option("--sources", metavar="LIST", help="Comma list of web, news, academic, documents.")
]
TimeRange = Annotated[TimeRangeName | None, typer.Option("--time-range", help="Only what is this recent.")]
Domains = Annotated[
    str | None, typer.Option("--domains", metavar="LIST", help="Comma list: python.org keeps it, -python.org drops it.")
]
Depth = Annotated[
    DepthName | None,
    typer.Option(
        "--depth", help="shallow (default): one search; deep: three; report: whole pages, read and written up."
    ),
]
OmitRaw = Annotated[bool, typer.Option("--omit-raw", help="Leave the results out of --json and FILE.json.")]
PlanFile = Annotated[
    Path | None,
    typer.Option(
        "--plan", metavar="FILE", exists=True, dir_okay=False,
        help="The report's sub-questions: one on each line, or JSON.",
    ),
]  # fmt: skip
PlanOnly = Annotated[bool, typer.Option("--plan-only", help="Print the report's sub-questions, and stop.")]
Urls = Annotated[
    list[str] | None,
    typer.Option("--url", metavar="URL", help="Read this page for the report; alone, no search is made. Repeatable."),
]
Instructions = Annotated[
    str | None, typer.Option("--instructions", metavar="TEXT", help="Your wishes for the text of the report.")
]
MaxCalls = Annotated[
    int | None, typer.Option("--max-llm-calls", metavar="N", help="A report asks models this often at most; 0: never.")
]
MaxCost = Annotated[
    float | None, typer.Option("--max-cost-usd", metavar="USD", help="A report costs this much at most.")
]
MaxSeconds = Annotated[
    float | None, typer.Option("--max-seconds", metavar="S", help="A report takes this long at most.")
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Take nothing from the store: make the report anew.")]
ShowSent = Annotated[bool, typer.Option("--show-sent", help="Show which hosts were sent what, and how much.")]
Csl = Annotated[
    Path | None,
    typer.Option("--csl", metavar="FILE.json", help="Write the sources as CSL-JSON, for citation managers."),
]

Request = TypeVar("Request", bound=BaseModel)

ERROR = "Error: "  # what stands before the message of wrong use
WORDS = "modules.llm_platform.words"  # in a context's `meta`: what was typed behind the name of the command
PROVIDER = "provider"  # the option whose choices the wiring knows
OPTION_OF: Mapping[str, str] = {"urls": "--url"}  # where the option is not called like the field

COLLECTION_RULES = "must be a name of letters, digits, - and _, 63 at most, that begins with a letter or digit"

_SHOULD = re.compile(r"^(?:Input|String|Tuple) should\b")


class WrongUse(typer.BadParameter):
    """A value that is refused; on a terminal its message breaks between words."""

    def format_message(self) -> str:
        return Console().beside(f"{ERROR}{super().format_message()}").removeprefix(ERROR)


def setting_arguments(
    *, provider: str | None = None, documents: Path | None = None, offline: bool = False, **others: Any
) -> dict[str, Any]:
    """The command line as arguments of Settings; wrong use when its parts contradict each other."""
    if documents is not None and provider not in (None, "documents"):
        wrong("--provider", f"--documents searches that folder and nothing else, so {provider} has no part in it")
    if offline and provider not in (None, "documents"):
        wrong("--provider", f"{provider} needs a network, and --offline allows none")
    chosen = "documents" if documents is not None else provider
    given = {
        "SEARCH_PROVIDERS": (chosen,) if chosen else None,
        "DOCUMENTS_DIR": documents,
        "LLM_PLATFORM_OFFLINE": offline or None,
        **others,
    }
    return {name: value for name, value in given.items() if value is not None}


def collection_named(collection: str | None) -> str | None:
    """The collection of `--collection`; wrong use for a name that it cannot have."""
    try:
        return None if collection is None else TypeAdapter(CollectionName).validate_python(collection)
    except ValidationError:
        wrong("--collection", COLLECTION_RULES)


def listed(value: str | None) -> tuple[str, ...]:
    """The parts of a comma list."""
    return tuple(part.strip() for part in (value or "").split(",") if part.strip())


def source_kinds(value: str | None, documents: Path | None) -> tuple[str, ...]:
    """The kinds of sources that are wanted; a folder is asked for documents unless something else is said."""
    return listed(value) or (("documents",) if documents else ())


def to_request(kind: type[Request], values: Mapping[str, Any], *, argument: str) -> Request:
    """The request that the options describe; a value that it refuses is wrong use, under the option's name. `argument`
    is what the command calls its query.
    """
    try:
        return kind.model_validate({name: value for name, value in values.items() if value not in (None, ())})
    except ValidationError as error:
        detail = error.errors(include_input=False)[0]
        field, *place = detail["loc"]
        option = argument if field == "query" else OPTION_OF.get(str(field), f"--{str(field).replace('_', '-')}")
        which = f"number {place[0] + 1} " if place and isinstance(place[0], int) else ""
        wrong(option, which + in_our_words(detail["type"], detail["msg"]))


def wrong(option: str, text: str) -> NoReturn:
    """Wrong use: exit code 2, with the option's name and what to do."""
    raise WrongUse(text, param_hint=option)


def in_our_words(kind: str, text: str) -> str:
    """What pydantic says of a value, as one says it to a person who typed it."""
    if kind == "string_pattern_mismatch":
        return "is written in a way that is not understood"
    if kind == "report_only":
        return "belongs to a report: add --depth report, or leave it out"
    return _SHOULD.sub("must", text.removeprefix("Value error, ").partition(", unable to")[0])


def _providers(ctx: typer.Context) -> tuple[str, ...]:
    """The names of the search providers: who wires them knows them."""
    return ctx.obj.search_providers() if isinstance(ctx.obj, Wiring) else ()


def _known_provider(ctx: typer.Context, value: str | None) -> str | None:
    if value is not None and not ctx.resilient_parsing and value not in (names := _providers(ctx)):
        raise typer.BadParameter(f"{value!r} is not one of {', '.join(map(repr, names))}.", ctx=ctx)
    return value


class Command(TyperCommand):
    """A command whose refusals read the same, whether typer refuses a value or a request does. It remembers its words, and
    its help names the search providers.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta[WORDS] = tuple(args)
        for option in self.params:
            if option.name == PROVIDER and (names := _providers(ctx)):
                option.metavar = f"<{'|'.join(names)}>"
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            raise WrongUse(in_our_words("", error.message), error.ctx, error.param, error.param_hint) from error
