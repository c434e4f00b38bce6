"""The commands `kafka send`, `kafka tail` and `kafka asyncapi`: try the Kafka contract from a shell."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from modules.llm_platform.presentation.cli import options
from modules.llm_platform.presentation.cli.commands.worker import kafka_errors, load_kafka_settings
from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.presentation.cli.exit_codes import CommandError
from modules.llm_platform.presentation.cli.options import reject
from modules.llm_platform.presentation.cli.render.json import write_json
from modules.llm_platform.presentation.cli.setup import get_command_context, load_settings
from modules.llm_platform.presentation.kafka.contract.requests import MAX_PARSED_BYTES, Topics, parse_request
from modules.llm_platform.presentation.kafka.contract.wire_format import without_header
from shared.logging import configure_logging, printable

if TYPE_CHECKING:
    from modules.llm_platform.presentation.kafka.admin.dev_client import Cluster
    from modules.llm_platform.presentation.kafka.contract.outcomes import IncomingRecord

StageName = Literal["search", "answer"]
TEXT_FIELDS: Final[Mapping[StageName, str]] = {"search": "query", "answer": "question"}
DEFAULT_WAIT_S: Final = 60.0  # the partitions of a killed worker are reassigned after 45

kafka_app = options.make_command_group("Try the Kafka contract: send a request, print outcomes, print the contract.")


@kafka_app.command(cls=options.Command)
def send(
    ctx: typer.Context,
    text: Annotated[
        str,
        typer.Argument(metavar="TEXT", help="The query or question; text that begins with { is a complete message."),
    ],
    stage: Annotated[StageName, typer.Option("--stage", help="The stage that answers.")] = "search",
    request_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="The request's id and key; default: a new one.")
    ] = None,
    top_k: Annotated[
        int | None, typer.Option("--top-k", metavar="N", min=1, help="Number of documents to find; only with search.")
    ] = None,
    filters: Annotated[
        list[str] | None,
        typer.Option(
            "--filter", metavar="KEY=VALUE", help="Only documents with this value; repeatable; only with search."
        ),
    ] = None,
    wait: Annotated[
        float,
        typer.Option("--wait", metavar="SECONDS", min=0, help="How long to wait for the outcome; 0: do not wait."),
    ] = DEFAULT_WAIT_S,
) -> None:
    """Send one request, and print its outcome."""
    console, _ = get_command_context(ctx)
    if text.lstrip().startswith("{"):
        _reject_options({"--id": request_id, "--top-k": top_k, "--filter": filters}, "a complete message has its own")
        message = text.encode("utf-8", "surrogateescape")
    else:
        message = _request_message(stage, text, request_id, top_k, filters)
    with _connect(console) as cluster:
        from modules.llm_platform.presentation.kafka.admin.dev_client import OutcomeTail, send_request

        sent_id = parse_request(stage, message, MAX_PARSED_BYTES).request_id  # parsed as the worker does
        key = sent_id.encode() if sent_id else None
        if not wait:
            console.warn(f"sent to {send_request(cluster, cluster.topics.requests[stage], message, key, {})}")
            return
        with closing(OutcomeTail(cluster, from_start=False)) as tail:
            position = send_request(cluster, cluster.topics.requests[stage], message, key, {})
            console.print_progress(f"sent to {position}")
            outcome_id = sent_id or position.fallback_request_id
            for outcome in tail.outcomes(wait):
                if is_outcome_of(outcome, cluster.topics, stage, outcome_id):
                    console.print_verbatim(printable(_render_outcome(outcome)))
                    return
    raise CommandError(
        f"no outcome of {printable(outcome_id)} within {wait:g} s: is a worker running? Run `llm-platform worker --check`"
    )


@kafka_app.command(cls=options.Command)
def tail(
    ctx: typer.Context,
    from_start: Annotated[bool, typer.Option("--from-start", help="Include the outcomes that exist already.")] = False,
    count: Annotated[
        int | None, typer.Option("--count", metavar="N", min=1, help="Stop after N outcomes; default: at Ctrl-C.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option("--seconds", metavar="S", min=0, help="Stop after S seconds; default: at Ctrl-C.")
    ] = None,
    request_id: Annotated[str | None, typer.Option("--id", metavar="ID", help="Only outcomes of this request.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print only the messages, one on each line.")] = False,
) -> None:
    """Print outcomes as they arrive."""
    console, _ = get_command_context(ctx)
    with _connect(console) as cluster:
        from modules.llm_platform.presentation.kafka.admin.dev_client import OutcomeTail

        with closing(OutcomeTail(cluster, from_start=from_start)) as outcome_tail:
            printed = 0
            for outcome in outcome_tail.outcomes(seconds):
                if request_id is not None and _read_outcome_fields(outcome).get("request_id") != request_id:
                    continue
                position = "" if as_json else f"{outcome.topic}/{outcome.partition}/{outcome.offset} "
                console.print_verbatim(printable(position + _render_outcome(outcome)))
                console.out.flush()
                printed += 1
                if printed == count:
                    return


@kafka_app.command(cls=options.Command)
def asyncapi(ctx: typer.Context) -> None:
    """Print the AsyncAPI document of the contract, with the topics of KAFKA_CONFIG."""
    from modules.llm_platform.presentation.kafka.contract.schemas import asyncapi as document

    console, _ = get_command_context(ctx)
    console.print_verbatim(write_json(document(Topics(load_settings(console, {}).kafka_topics()))))


def _request_message(
    stage: StageName, text: str, request_id: str | None, top_k: int | None, filters: list[str] | None
) -> bytes:
    """Return the JSON of a request. Raises WrongUseError for an argument that is invalid or not for the stage."""
    if stage == "answer":
        message = "is only for searches: leave it out, or leave out --stage answer"
        _reject_options({"--top-k": top_k, "--filter": filters}, message)
    if request_id == "":
        reject("--id", "is empty: name the request, or leave it out for a new id")
    request: dict[str, Any] = {"request_id": request_id or f"{stage}-{uuid.uuid4()}", TEXT_FIELDS[stage]: text}
    if top_k is not None:
        request["top_k"] = top_k
    if filters:
        request["filters"] = options.parse_filters(filters)
    try:
        return json.dumps(request, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        reject("TEXT", "must be UTF-8, and options too; only a complete message may have other bytes")


def _reject_options(values: Mapping[str, object], message: str) -> None:
    for option, value in values.items():
        if value is not None and value != []:
            reject(option, message)


@contextmanager
def _connect(console: Console) -> Iterator[Cluster]:
    settings = load_kafka_settings(console, {})
    configure_logging("ERROR", settings.LOG_FORMAT, settings.secrets())
    with kafka_errors():
        from modules.llm_platform.presentation.kafka.admin.dev_client import Cluster
        from modules.llm_platform.presentation.kafka.worker.clients import make_client_settings

        yield Cluster(settings.KAFKA_BOOTSTRAP_SERVERS, make_client_settings(settings), Topics(settings.kafka_topics()))


def is_outcome_of(outcome: IncomingRecord, topics: Topics, stage: StageName, request_id: str) -> bool:
    """Return whether a record is the outcome of this request.

    The stages share the topic of failures, and each stage has its own ids.
    """
    fields = _read_outcome_fields(outcome)
    if outcome.topic == topics.failed:
        return fields.get("stage") == stage and fields.get("request_id") == request_id
    return outcome.topic == topics.results[stage] and fields.get("request_id") == request_id


def _render_outcome(outcome: IncomingRecord) -> str:
    return without_header(outcome.value or b"").decode("utf-8", "replace")


def _read_outcome_fields(outcome: IncomingRecord) -> Mapping[str, Any]:
    try:
        message = json.loads(without_header(outcome.value or b""))
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}
