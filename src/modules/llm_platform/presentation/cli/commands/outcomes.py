"""The commands `outcomes show`, `outcomes forget` and `outcomes replay`, for the stored outcomes of the worker."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, TypeVar

import typer

from modules.llm_platform.domain.dtos.retrieval_dtos import FailedRequest, OutcomeFilter, StoredOutcome
from modules.llm_platform.domain.ports.outcome_store import IFailedRequestStore, IOutcomeStore
from modules.llm_platform.domain.text.counts import format_count
from modules.llm_platform.presentation.cli import options
from modules.llm_platform.presentation.cli.commands.worker import kafka_errors, require_brokers
from modules.llm_platform.presentation.cli.console import Line
from modules.llm_platform.presentation.cli.exit_codes import WRONG_USE, CommandError, run_async
from modules.llm_platform.presentation.cli.options import reject
from modules.llm_platform.presentation.cli.output import print_result
from modules.llm_platform.presentation.cli.setup import CommandContext, configure, get_command_context
from modules.llm_platform.presentation.kafka.contract.requests import Topics
from modules.llm_platform.presentation.kafka.contract.wire_format import without_header
from shared.config import Settings
from shared.logging import printable

if TYPE_CHECKING:
    from modules.llm_platform.presentation.kafka.admin.replay import ReplayResult

Result = TypeVar("Result")
DEFAULT_LIMIT: Final = 20
SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
MAX_AGE_S: Final = 100 * 366 * 86_400.0  # PostgreSQL has no times before 4713 BC, and no outcome is that old.
REMOVAL_BATCH_SIZE: Final = 100
SHOWN: Final = 20  # A dry run lists so many outcomes.
OK: Final = "ok"  # A result has this instead of an error code.
INVALID: Final = "invalid_payload"  # The error code of requests that would fail again and are not stored.
NOT_STORED: Final = (
    "their requests are not stored: start the workers with --keep-failed; until then their senders must repeat them"
)
NEVER_STORED: Final = "requests with invalid_payload fail again and are not stored: their senders must correct them"

outcomes_app = options.make_command_group(
    "Show stored outcomes of the worker, forget them, and replay failed requests."
)

Ids = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Ids of requests; default: any.")]
Status = Annotated[str | None, typer.Option("--status", metavar="KIND", help="Only result, or only failed.")]
Code = Annotated[str | None, typer.Option("--code", metavar="CODE", help="Only failures with this error_code.")]
TopicName = Annotated[
    str | None, typer.Option("--topic", metavar="TOPIC", help="Only outcomes of this topic, or of requests in it.")
]
Tenant = Annotated[str | None, typer.Option("--tenant", metavar="TENANT", help="Only requests of this tenant.")]
OlderThan = Annotated[
    str | None,
    typer.Option("--older-than", metavar="AGE", help="Only outcomes older than this, such as 90s, 30m, 2h or 7d."),
]
NewerThan = Annotated[str | None, typer.Option("--newer-than", metavar="AGE", help="Only outcomes newer than this.")]
DoIt = Annotated[bool, typer.Option("--yes", help="Do it; without this option, only print what would happen.")]
All = Annotated[bool, typer.Option("--all", help="Select all outcomes if no id and no filter is given.")]


def _configure(ctx: typer.Context) -> tuple[CommandContext, Settings]:
    context = get_command_context(ctx)
    return context, configure(context.console, {})


class Selection(NamedTuple):
    """The outcomes that a command line selects.

    - `wanted` is the filter for the store.
    - `ids` are the ids of the requests, or empty for all.
    - `code` is an error code or OK, or None for all.
    """

    wanted: OutcomeFilter
    ids: tuple[str, ...] = ()
    code: str | None = None


class Entry(NamedTuple):
    """A selected outcome.

    - `code` is OK or the error code.
    - `request` is the request that is stored for a replay, or None.
    """

    stored: StoredOutcome
    code: str
    request: FailedRequest | None


@dataclass(slots=True)
class Forgotten:
    """The result of `forget`. The outcomes are not collected, because a store may have millions of them.

    - `shown` are the first outcomes, for a dry run.
    - `ids` are the ids of requests that were named and found.
    """

    matched: int = 0
    removed: int = 0
    shown: list[Entry] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)

    def note(self, entry: Entry, chosen: Selection) -> None:
        self.matched += 1
        if len(self.shown) < SHOWN:
            self.shown.append(entry)
        if chosen.ids:
            self.ids.add(entry.stored.outcome.request_id)


@dataclass(slots=True)
class Failures:
    """The failures that a replay finds. Those without a stored request are counted: a store may have millions of them.

    - `ready` can be replayed.
    - `interrupted` have no outcome: an earlier replay was killed before it sent them.
    - `not_stored` counts the others by their error codes.
    - `ids` are the ids of requests that were named and found.
    """

    ready: list[Entry] = field(default_factory=list)
    interrupted: list[FailedRequest] = field(default_factory=list)
    not_stored: Counter[str] = field(default_factory=Counter)
    ids: set[str] = field(default_factory=set)

    def note(self, entry: Entry, chosen: Selection) -> None:
        if entry.request is None:
            self.not_stored[entry.code] += 1
        else:
            self.ready.append(entry)
        if chosen.ids:
            self.ids.add(entry.stored.outcome.request_id)


@outcomes_app.command(cls=options.Command)
def show(
    ctx: typer.Context,
    ids: Ids = None,
    status: Status = None,
    code: Code = None,
    topic: TopicName = None,
    tenant: Tenant = None,
    older_than: OlderThan = None,
    newer_than: NewerThan = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", metavar="N", min=1, help=f"At most N outcomes; default: {DEFAULT_LIMIT}, with ids all."
        ),
    ] = None,
    as_json: options.PlainJson = False,
) -> None:
    """List outcomes, the newest first; with ids, print them in full."""
    context, settings = _configure(ctx)
    chosen = selection(settings, ids, status, code, topic, tenant, older_than, newer_than)
    scanned = None if chosen.ids else limit or DEFAULT_LIMIT  # each id is looked for, whatever the limit
    entries = _run(context, settings, lambda outcomes, failed: _find_entries(outcomes, failed, chosen, scanned))
    _reject_unknown(chosen, _list_ids(entries))
    entries = entries[:limit]
    lines = []
    for entry in entries:
        lines.append(_render_entry(entry))
        if chosen.ids:
            body = without_header(entry.stored.outcome.body).decode("utf-8", "replace")
            lines.append(Line(f"  {printable(body)}"))
    result = {"outcomes": [_as_json(entry) for entry in entries]}
    print_result(context.console, result, lines or [Line("No outcome matches.")], as_json=as_json)


@outcomes_app.command(cls=options.Command)
def forget(
    ctx: typer.Context,
    ids: Ids = None,
    status: Status = None,
    code: Code = None,
    topic: TopicName = None,
    tenant: Tenant = None,
    older_than: OlderThan = None,
    newer_than: NewerThan = None,
    everything: All = False,
    yes: DoIt = False,
    as_json: options.PlainJson = False,
) -> None:
    """Remove outcomes: a request that is sent again is computed again."""
    context, settings = _configure(ctx)
    chosen = selection(settings, ids, status, code, topic, tenant, older_than, newer_than, everything=everything)
    found = _run(context, settings, lambda outcomes, failed: forget_outcomes(outcomes, failed, chosen, removes=yes))
    _reject_unknown(chosen, found.ids)
    changed = found.matched - found.removed if yes else 0
    result = {"dry_run": not yes, "matched": found.matched, "removed": found.removed, "changed_meanwhile": changed}
    lines = [Line(f"{format_count(found.removed, 'outcome')} forgotten{_describe_changed(changed)}.")]
    if not yes:
        text = f"{format_count(found.matched, 'outcome')} would be forgotten."
        lines = _describe_dry_run(found.shown, found.matched, text)
    print_result(context.console, result, lines, as_json=as_json)


@outcomes_app.command(cls=options.Command)
def replay(
    ctx: typer.Context,
    ids: Ids = None,
    code: Code = None,
    topic: TopicName = None,
    tenant: Tenant = None,
    older_than: OlderThan = None,
    newer_than: NewerThan = None,
    everything: All = False,
    yes: DoIt = False,
    as_json: options.PlainJson = False,
) -> None:
    """Send failed requests again, under their ids; they need workers with --keep-failed."""
    context, settings = _configure(ctx)
    chosen = selection(settings, ids, None, code, topic, tenant, older_than, newer_than, everything=everything)
    chosen = chosen._replace(wanted=chosen.wanted._replace(kind="failed"))
    require_brokers(settings)

    async def work(outcomes: IOutcomeStore, failed: IFailedRequestStore) -> tuple[Failures, ReplayResult | None]:
        found = await find_failures(outcomes, failed, chosen)
        if not yes:
            return found, None
        from modules.llm_platform.presentation.kafka.admin.dev_client import Cluster
        from modules.llm_platform.presentation.kafka.admin.replay import Replayer
        from modules.llm_platform.presentation.kafka.worker.clients import make_client_settings

        brokers, topics = settings.KAFKA_BOOTSTRAP_SERVERS, Topics(settings.kafka_topics())
        replayer = Replayer(Cluster(brokers, make_client_settings(settings), topics), outcomes, failed)
        replayer.check_topics()
        requests = [(entry.request, entry.stored.outcome) for entry in found.ready if entry.request is not None]
        return found, await replayer.replay([*((request, None) for request in found.interrupted), *requests])

    with kafka_errors():
        found, result = _run(context, settings, work)
    _reject_unknown(chosen, found.ids)
    _print_replay(context, found, result, as_json=as_json)


def selection(
    settings: Settings,
    ids: Sequence[str] | None,
    status: str | None,
    code: str | None,
    topic: str | None,
    tenant: str | None,
    older_than: str | None,
    newer_than: str | None,
    *,
    everything: bool = True,
) -> Selection:
    """Return the selection of these options.

    Raises WrongUseError for an invalid option, and CommandError if the options select all outcomes without `everything`.
    """
    if status not in (None, "result", "failed"):
        reject("--status", "must be result or failed")
    if status is not None and code is not None and (status == "result") != (code == OK):
        reject(
            "--code", f"{code} is not a code of --status {status}: results have the code {OK}, and failures have others"
        )
    kind = "failed" if code not in (None, OK) else status
    if not everything and not any((ids, code, topic, tenant, older_than, newer_than, kind)):
        raise CommandError("name requests by id or by a filter, or add --all", WRONG_USE)
    wanted = _with_topic(OutcomeFilter(kind=kind), topic, Topics(settings.kafka_topics()))  # type: ignore[arg-type]
    return Selection(
        wanted._replace(
            request_id=ids[0] if ids and len(ids) == 1 else None,
            tenant=tenant if tenant is not None or settings.KAFKA_TENANT_FIELD else "",
            min_age_s=_parse_age(older_than, "--older-than") or 0.0,
            max_age_s=_parse_age(newer_than, "--newer-than"),
        ),
        tuple(ids or ()),
        code,
    )


def _with_topic(wanted: OutcomeFilter, topic: str | None, topics: Topics) -> OutcomeFilter:
    """Return the filter restricted to the outcomes of a topic, or of the requests in it. Raises WrongUseError."""
    if topic is None:
        return wanted
    for stage in topics.requests:
        if topic == topics.requests[stage]:
            return wanted._replace(stage=stage)
        if topic == topics.results[stage]:
            if wanted.kind == "failed":
                reject("--topic", f"{topic} has results alone: leave out --status and --code")
            return wanted._replace(stage=stage, kind="result")
    if topic != topics.failed:
        reject(
            "--topic", f"must be one of {', '.join([*topics.requests.values(), *topics.written_by(topics.requests)])}"
        )
    if wanted.kind == "result":
        reject("--topic", f"{topic} has failures alone: leave out --status")
    return wanted._replace(kind="failed")


def _parse_age(text: str | None, option: str) -> float | None:
    """Return the seconds of an age such as 30m, at most MAX_AGE_S. Raises WrongUseError that names the option."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,9})([smhd])", text)
    if match is None:
        reject(option, "must be a number and a unit, such as 90s, 30m, 2h or 7d")
    return min(float(match[1]) * SECONDS[match[2]], MAX_AGE_S)


async def _find_entries(
    outcomes: IOutcomeStore, failed: IFailedRequestStore, chosen: Selection, limit: int | None = None
) -> list[Entry]:
    found = []
    async with aclosing(_scan_entries(outcomes, chosen, await failed.list())) as entries:
        async for entry in entries:
            found.append(entry)
            if len(found) == limit:
                break
    return found


async def find_failures(outcomes: IOutcomeStore, failed: IFailedRequestStore, chosen: Selection) -> Failures:
    found, requests = Failures(), await failed.list()
    async with aclosing(_scan_entries(outcomes, chosen, requests)) as entries:
        async for entry in entries:
            found.note(entry, chosen)
    found.interrupted = await _find_interrupted(outcomes, requests, chosen)
    found.ids.update(request.request_id for request in found.interrupted)
    return found


async def _scan_entries(
    outcomes: IOutcomeStore, chosen: Selection, failed: Sequence[FailedRequest]
) -> AsyncGenerator[Entry, None]:
    requests = {(request.stage, request.tenant, request.request_id): request for request in failed}
    async for stored in outcomes.scan(chosen.wanted):
        outcome = stored.outcome
        code = OK
        if outcome.kind != "result":
            body = _parse_body(stored)
            code = str(body.get("error_code", "")) if isinstance(body, dict) else ""
        if (chosen.ids and outcome.request_id not in chosen.ids) or chosen.code not in (None, code):
            continue
        key = outcome.stage, outcome.tenant, outcome.request_id
        yield Entry(stored, code, requests.get(key) if outcome.kind == "failed" else None)


async def forget_outcomes(
    outcomes: IOutcomeStore, failed: IFailedRequestStore, chosen: Selection, *, removes: bool
) -> Forgotten:
    found, batch = Forgotten(), []
    async with aclosing(_scan_entries(outcomes, chosen, await failed.list())) as entries:
        async for entry in entries:
            found.note(entry, chosen)
            batch.append(entry)
            if len(batch) == REMOVAL_BATCH_SIZE:
                found.removed += await _remove(outcomes, failed, batch) if removes else 0
                batch = []
    found.removed += await _remove(outcomes, failed, batch) if removes else 0
    return found


async def _remove(outcomes: IOutcomeStore, failed: IFailedRequestStore, entries: Sequence[Entry]) -> int:
    """Remove outcomes and their stored requests. Return how many outcomes had not changed meanwhile."""
    are_removed = await outcomes.remove([entry.stored.outcome for entry in entries])
    await failed.remove(
        [
            entry.request
            for entry, is_removed in zip(entries, are_removed, strict=True)
            if is_removed and entry.request is not None
        ]
    )
    return sum(are_removed)


def _list_ids(entries: Sequence[Entry]) -> set[str]:
    return {entry.stored.outcome.request_id for entry in entries}


async def _find_interrupted(
    outcomes: IOutcomeStore, failed: Sequence[FailedRequest], chosen: Selection
) -> list[FailedRequest]:
    """Return the matching requests without an outcome, which a replay did not send because it was killed.

    They have no code and no age, so these filters do not apply.
    """
    wanted = chosen.wanted
    requests = [
        request
        for request in failed
        if (not chosen.ids or request.request_id in chosen.ids)
        and wanted.stage in (None, request.stage)
        and wanted.tenant in (None, request.tenant)
    ]
    stored = await outcomes.get_many([(request.stage, request.request_id, request.tenant) for request in requests])
    return [request for request, outcome in zip(requests, stored, strict=True) if outcome is None]


def _parse_body(stored: StoredOutcome) -> Any:
    """Return the JSON value of the outcome's body, or None if it is not JSON."""
    try:
        return json.loads(without_header(stored.outcome.body))
    except (ValueError, RecursionError):
        return None


def _as_json(entry: Entry) -> dict[str, Any]:
    outcome = entry.stored.outcome
    return {
        "stage": outcome.stage,
        "request_id": outcome.request_id,
        "tenant": outcome.tenant or None,
        "status": outcome.kind,
        "code": entry.code,
        "stored_at": datetime.fromtimestamp(entry.stored.stored_at, UTC).isoformat(),
        "bytes": len(outcome.body),
        "can_be_replayed": entry.request is not None,
        "outcome": _parse_body(entry.stored),
    }


def _render_entry(entry: Entry) -> Line:
    outcome = entry.stored.outcome
    when = datetime.fromtimestamp(entry.stored.stored_at).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    owner = f"  tenant {printable(outcome.tenant)}" if outcome.tenant else ""
    replayable = "  can be replayed" if entry.request is not None else ""
    return Line(f"{when}  {outcome.stage:<6}  {entry.code:<17}  {printable(outcome.request_id)}{owner}{replayable}")


def _describe_changed(count: int) -> str:
    return f", {count} skipped that changed in the meantime" if count else ""


def _describe_dry_run(entries: Sequence[Entry], count: int, text: str) -> list[Line]:
    more = [Line(f"… and {count - SHOWN} more")] if count > SHOWN else []
    return [*map(_render_entry, entries[:SHOWN]), *more, Line(text), Line("Nothing was changed. Add --yes to do it.")]


def _print_replay(context: CommandContext, found: Failures, result: ReplayResult | None, *, as_json: bool) -> None:
    ready, interrupted, not_stored = found.ready, found.interrupted, found.not_stored.total()
    sent, changed, unsent = (result.sent, len(result.changed), len(result.unsent)) if result else (0, 0, 0)
    fields = {
        "dry_run": result is None,
        "matched": len(ready) + not_stored,
        "interrupted": len(interrupted),
        "sent": sent,
        "changed_meanwhile": changed,
        "not_accepted": unsent,
        "not_stored": not_stored,
    }
    lines = [Line(f"{format_count(sent, 'request')} sent{_describe_changed(changed)}.")]
    if result is None:
        again = f" and {format_count(len(interrupted), 'request')} of an interrupted replay" if interrupted else ""
        lines = _describe_dry_run(ready, len(ready), f"{format_count(len(ready), 'request')}{again} would be sent.")
    print_result(context.console, fields, lines, as_json=as_json)
    if unsent:
        raise CommandError(f"the brokers did not accept {format_count(unsent, 'request')}: replay again")
    if not_stored:
        reason = NEVER_STORED if set(found.not_stored) == {INVALID} else NOT_STORED
        raise CommandError(f"{format_count(not_stored, 'failure')} cannot be replayed: {reason}")


def _reject_unknown(chosen: Selection, known: Collection[str]) -> None:
    if missing := [wanted_id for wanted_id in chosen.ids if wanted_id not in known]:
        raise CommandError(f"no stored outcome matches {', '.join(map(printable, missing))}")


def _run(
    context: CommandContext,
    settings: Settings,
    work: Callable[[IOutcomeStore, IFailedRequestStore], Awaitable[Result]],
) -> Result:
    async def open_and_work() -> Result:
        if context.wiring.outcome_stores is None:
            raise CommandError("this program has no outcome stores")
        async with context.wiring.outcome_stores(settings) as (outcomes, failed):
            return await work(outcomes, failed)

    return run_async(open_and_work())
