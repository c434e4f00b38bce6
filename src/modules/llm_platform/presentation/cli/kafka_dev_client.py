"""The commands `kafka send` and `kafka tail`."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.presentation.cli.exit_codes import CommandError
from modules.llm_platform.presentation.cli.options import wrong
from modules.llm_platform.presentation.cli.worker_command import client_settings, kafka_errors, kafka_settings
from modules.llm_platform.presentation.kafka.contract.requests import FAILED_TOPIC, REQUEST_TOPICS, RESULT_TOPICS
from shared.logging import configure_logging, printable

if TYPE_CHECKING:
    from modules.llm_platform.domain.dtos.retrieval_dtos import RagStage
    from modules.llm_platform.presentation.kafka.admin.dev_client import Cluster, OutcomeTail
    from modules.llm_platform.presentation.kafka.contract.outcomes import IncomingRecord


TEXT_FIELD = {"search": "query", "answer": "question"}


@dataclass(frozen=True, slots=True)
class Sending:
    """What the command line said. `text` that begins with { is sent as it is."""

    text: str
    stage: RagStage
    request_id: str | None
    top_k: int | None
    filters: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        """Whether it is the whole message."""
        return self.text.lstrip().startswith("{")


def run_send(console: Console, sending: Sending, wait_s: float) -> None:
    """Send it and wait for its outcome, which of a message without a readable id is told by its place. CommandError when none
    comes in time.
    """
    message = _message(sending)
    with _connected(console) as cluster:
        from modules.llm_platform.presentation.kafka.admin import dev_client
        from modules.llm_platform.presentation.kafka.contract.requests import READ_AT_MOST_BYTES, read_message

        request_id = read_message(sending.stage, message, READ_AT_MOST_BYTES).request_id  # as the worker reads it
        key = request_id.encode() if request_id else None
        if not wait_s:
            console.warn(f"sent to {dev_client.send_request(cluster, REQUEST_TOPICS[sending.stage], message, key, {})}")
            return
        with _tailing(cluster, from_start=False) as watching:
            place = dev_client.send_request(cluster, REQUEST_TOPICS[sending.stage], message, key, {})
            console.step(f"sent to {place}")
            told_as = request_id or place.made_up_id
            for outcome in watching.outcomes(wait_s):
                if is_outcome_of(outcome, sending.stage, told_as):
                    console.verbatim(printable(_text(outcome)))
                    return
    raise CommandError(
        f"no outcome of {printable(told_as)} within {wait_s:g} s: does a worker run? See `llm-platform worker --check`"
    )


def run_tail(
    console: Console,
    *,
    from_start: bool,
    count: int | None,
    seconds: float | None,
    request_id: str | None,
    as_json: bool,
) -> None:
    """Print outcomes until there were so many, so long, or Ctrl-C."""
    with _connected(console) as cluster, _tailing(cluster, from_start=from_start) as watching:
        left = count
        for outcome in watching.outcomes(seconds):
            if request_id is not None and _said(outcome).get("request_id") != request_id:
                continue
            where = "" if as_json else f"{outcome.topic}/{outcome.partition}/{outcome.offset} "
            console.verbatim(printable(where + _text(outcome)))
            console.out.flush()
            left = None if left is None else left - 1
            if left == 0:
                return


def _message(sending: Sending) -> bytes:
    """The bytes to send: those that were typed, whatever they are, or a request made of a question. Wrong use for options that
    the request has no place for.
    """
    _check_options(sending)
    if sending.is_whole:
        return sending.text.encode("utf-8", "surrogateescape")
    request_id = sending.request_id or f"{sending.stage}-{uuid.uuid4()}"
    message: dict[str, Any] = {"request_id": request_id, TEXT_FIELD[sending.stage]: sending.text}
    if sending.top_k is not None:
        message["top_k"] = sending.top_k
    if sending.filters:
        message["filters"] = _filters(sending.filters)
    try:
        return json.dumps(message, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        wrong("TEXT", "must be UTF-8, options too; other bytes go only with a whole message")


def _check_options(sending: Sending) -> None:
    given = {"--id": sending.request_id, "--top-k": sending.top_k, "--filter": sending.filters}
    for option, value in given.items():
        if value in (None, ()):
            continue
        if sending.is_whole:
            wrong(option, "goes with a question in words: a whole message says this itself")
        if option != "--id" and sending.stage == "answer":
            wrong(option, "is for searches: leave it out, or leave out --stage answer")
    if sending.request_id == "":
        wrong("--id", "is empty: name the request, or leave it out for a new id")


def _filters(written: tuple[str, ...]) -> dict[str, list[str]]:
    filters: dict[str, list[str]] = {}
    for each in written:
        name, sign, value = each.partition("=")
        if not name or not sign:
            wrong("--filter", "must be KEY=VALUE, such as lang=en")
        filters.setdefault(name, []).append(value)
    return filters


@contextmanager
def _connected(console: Console) -> Iterator[Cluster]:
    settings = kafka_settings(console, {})
    configure_logging("ERROR", settings.LOG_FORMAT, settings.secrets())
    with kafka_errors():
        from modules.llm_platform.presentation.kafka.admin.dev_client import Cluster

        yield Cluster(settings.KAFKA_BOOTSTRAP_SERVERS, client_settings(settings))


@contextmanager
def _tailing(cluster: Cluster, *, from_start: bool) -> Iterator[OutcomeTail]:
    from modules.llm_platform.presentation.kafka.admin.dev_client import OutcomeTail

    watching = OutcomeTail(cluster, from_start=from_start)
    try:
        yield watching
    finally:
        watching.close()


def _text(outcome: IncomingRecord) -> str:
    return (outcome.value or b"").decode("utf-8", "replace")


def is_outcome_of(outcome: IncomingRecord, stage: RagStage, request_id: str) -> bool:
    """Whether it is what became of that request: each stage has ids of its own, and they share the topic of failures."""
    said = _said(outcome)
    of_stage = said.get("stage") == stage if outcome.topic == FAILED_TOPIC else outcome.topic == RESULT_TOPICS[stage]
    return of_stage and said.get("request_id") == request_id


def _said(outcome: IncomingRecord) -> Mapping[str, Any]:
    """Its fields; none where anybody wrote something else into the topic."""
    try:
        message = json.loads(outcome.value or b"")
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}
