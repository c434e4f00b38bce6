"""The command `worker`, which answers requests from Kafka, or with `--check` says whether it could."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol, TypeAlias

import typer

from modules.llm_platform.domain.dtos.health_dtos import CheckResult
from modules.llm_platform.domain.exceptions import OutcomeStoreError
from modules.llm_platform.presentation.cli import options
from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.presentation.cli.exit_codes import CommandError, run_async
from modules.llm_platform.presentation.cli.options import reject
from modules.llm_platform.presentation.cli.output import print_check_results
from modules.llm_platform.presentation.cli.setup import get_command_context, load_settings
from modules.llm_platform.presentation.kafka.contract.requests import STAGES, Topics
from shared.config import Settings, SettingsError, unknown_variables
from shared.exceptions import AppException
from shared.logging import configure_logging, logs_json

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError
    from confluent_kafka.admin import AdminClient

    from modules.llm_platform.domain.dtos.retrieval_dtos import RagStage
    from modules.llm_platform.domain.ports.outcome_store import IOutcomeStore
    from modules.llm_platform.presentation.kafka.worker.clients import Callbacks
    from modules.llm_platform.presentation.kafka.worker.worker import Worker, WorkerParts

    BuildParts: TypeAlias = Callable[[Settings], AbstractAsyncContextManager[WorkerParts]]

KAFKA: Final = "kafka"  # The subject of the checks in `doctor`.
KAFKA_PACKAGES: Final = ("confluent_kafka", "prometheus_client")  # The packages of the extra.
STORE_RETRY_S: Final = 10.0  # The pause between attempts to read the id of the outcome store.
# Ports are tried from the default one, so that as many workers run on one machine without WORKER_HTTP_PORT.
MAX_PORTS_TRIED: Final = 100
NOT_INSTALLED: Final = 'Kafka needs a package that is not installed: pip install "llm-platform[kafka]"'
UNREACHABLE: Final = (
    "no broker can be reached: check KAFKA_BOOTSTRAP_SERVERS and security.protocol of KAFKA_CONFIG; `llm-platform "
    "worker --check` shows the cause"
)
NO_TOPIC: Final = "the topic of these requests does not exist: create it, see `llm-platform worker --check`"
NOT_AUTHORIZED: Final = (
    "the brokers do not authorize this user: grant it the missing right. A sender needs the right to write requests and to read "
    "outcomes; `llm-platform worker --check` names the rights of a worker"
)
REMEDIES: Final[Mapping[str, str]] = {  # The keys are the names of librdkafka's errors.
    "_TRANSPORT": UNREACHABLE,
    "_ALL_BROKERS_DOWN": UNREACHABLE,
    "_MSG_TIMED_OUT": UNREACHABLE,
    "_TIMED_OUT": UNREACHABLE,
    "_RESOLVE": UNREACHABLE,
    "_AUTHENTICATION": "the brokers refuse the login: check sasl.username and sasl.password of KAFKA_CONFIG",
    "_UNKNOWN_TOPIC": NO_TOPIC,
    "_UNKNOWN_PARTITION": NO_TOPIC,
    "UNKNOWN_TOPIC_OR_PART": NO_TOPIC,
    "TOPIC_AUTHORIZATION_FAILED": NOT_AUTHORIZED,
    "CLUSTER_AUTHORIZATION_FAILED": NOT_AUTHORIZED,
}

log = logging.getLogger(__name__)


class Report(Protocol):
    """Reports one line about the worker. `fields` are added to the log entry."""

    def __call__(self, level: int, text: str, **fields: object) -> None:
        """Report a line. `level` is a level of `logging`."""


def worker(
    ctx: typer.Context,
    stages: Annotated[
        str | None,
        typer.Option("--stages", metavar="LIST", help="Comma-separated list of search, answer; default: both."),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Check brokers, topics, ACLs, index and model, with one request to the model."),
    ] = False,
    keep_failed: Annotated[
        bool,
        typer.Option(
            "--keep-failed",
            help="Store failed requests with their texts for a day, at most 256 MB, for `outcomes replay`.",
        ),
    ] = False,
    offline: options.Offline = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --check: print JSON.")] = False,
) -> None:
    """Answer requests from Kafka until stopped."""
    console, wiring = get_command_context(ctx)
    arguments = options.make_setting_arguments(offline=offline)
    stage_list = parse_stages(stages)
    if check:
        check_worker(console, wiring.worker_parts, load_kafka_settings(console, arguments), stage_list, as_json=as_json)
        return
    if as_json:
        reject("--json", "needs --check: a worker prints nothing")
    settings = Settings.load(**arguments)
    configure_logging(settings.LOG_LEVEL, settings.LOG_FORMAT, settings.secrets())
    report = _make_reporter(console, settings)
    for warning in unknown_variables():
        report(logging.WARNING, warning)
    require_brokers(settings)
    build_parts = partial(wiring.worker_parts, keep_failed=True) if keep_failed else wiring.worker_parts
    with kafka_errors():
        run_async(run_worker(report, build_parts, settings, stage_list), get_loop_factory())


def load_kafka_settings(console: Console, arguments: Mapping[str, Any]) -> Settings:
    """Return the settings of a command that needs brokers. Raises SettingsError if they name no broker."""
    settings = load_settings(console, arguments)
    require_brokers(settings)
    return settings


def require_brokers(settings: Settings) -> None:
    """Raise SettingsError if the settings name no broker."""
    if not settings.KAFKA_BOOTSTRAP_SERVERS:
        raise SettingsError("KAFKA_BOOTSTRAP_SERVERS names no broker. Example: KAFKA_BOOTSTRAP_SERVERS=localhost:9092")


def _make_reporter(console: Console, settings: Settings) -> Report:
    """Return a function that prints to standard error, or logs if the log is JSON, so that all its lines are JSON."""
    if logs_json(settings.LOG_FORMAT):
        console.error_handler = lambda text: log.error("the worker ends", extra={"reason": text})
        return lambda level, text, **fields: log.log(level, text, extra=fields)
    return lambda level, text, **fields: console.warn(text)


def parse_stages(value: str | None) -> list[RagStage]:
    """Return the stages of a comma-separated list, or all stages for None. Raises WrongUseError for an unknown name."""
    names = list(STAGES) if value is None else [name.strip() for name in value.split(",")]
    if any(name not in STAGES for name in names):
        reject("--stages", "must be a comma-separated list of search and answer, such as search,answer")
    return [stage for stage in STAGES if stage in names]


@contextmanager
def kafka_errors() -> Iterator[None]:
    """Turn a missing package and fatal errors of Kafka's client into CommandError with a remedy."""
    try:
        import prometheus_client  # noqa: F401  The worker imports it only after it has connected.
        from confluent_kafka import KafkaException
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in KAFKA_PACKAGES:
            raise
        raise CommandError(NOT_INSTALLED) from error
    try:
        yield
    except KafkaException as error:
        reason = error.args[0]
        remedy = REMEDIES.get(reason.name())
        text = (
            f"{remedy} ({reason.name()})"
            if remedy
            else f"Kafka's client failed ({reason.name()}: {reason.str()}); see `llm-platform worker --check`"
        )
        raise CommandError(text) from error


def get_loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's event loop, which the server uses too, or None if it is not installed."""
    try:
        import uvloop
    except ModuleNotFoundError:
        return None
    return uvloop.new_event_loop


async def run_worker(report: Report, build_parts: BuildParts, settings: Settings, stages: Sequence[RagStage]) -> None:
    """Run the worker, its HTTP endpoints and its background tasks until a signal stops it."""
    from modules.llm_platform.presentation.garbage_collection import tune_gc
    from modules.llm_platform.presentation.kafka.worker import worker as kafka_worker
    from modules.llm_platform.presentation.kafka.worker.clients import make_client_settings
    from modules.llm_platform.presentation.kafka.worker.http import WorkerHttp, render_metrics

    async with build_parts(settings) as parts:
        worker = kafka_worker.Worker(
            parts.handler,
            kafka_worker.WorkerOptions(
                brokers=settings.KAFKA_BOOTSTRAP_SERVERS,
                group_id=settings.KAFKA_GROUP_ID,
                stages=stages,
                concurrency=settings.KAFKA_CONCURRENCY,
                drain_s=settings.DRAIN_TIMEOUT_S,
                config=make_client_settings(settings),
                topics=Topics(settings.kafka_topics()),
                schemas=parts.schemas,
            ),
            dependencies=parts.dependencies,
        )
        http = WorkerHttp(worker.not_ready, partial(render_metrics, worker, parts.handler.counters, parts.metrics))
        ports_tried = 1 if "WORKER_HTTP_PORT" in settings.model_fields_set else MAX_PORTS_TRIED
        async with http.listening(settings.LLM_PLATFORM_HOST, settings.WORKER_HTTP_PORT, ports_tried) as port:
            _report_start(report, parts, settings, stages, port)
            tune_gc()
            background = [
                asyncio.create_task(
                    kafka_worker.remove_expired_outcomes(parts.outcomes, failed_requests=parts.failed_requests)
                ),
                asyncio.create_task(_watch_group(parts.outcomes, worker, settings, stages)),
            ]
            try:
                with kafka_worker.stop_on_signals(worker.stop):
                    await worker.run()
            finally:
                for task in background:
                    task.cancel()


def _report_start(
    report: Report, parts: WorkerParts, settings: Settings, stages: Sequence[RagStage], port: int
) -> None:
    address = f"http://{settings.LLM_PLATFORM_HOST}:{port}"
    report(
        logging.INFO,
        f"answering {' and '.join(stages)} requests; status at {address}/ready and {address}/metrics",
        port=port,
    )
    topics = " and ".join(Topics(settings.kafka_topics()).read_by(stages))
    brokers = settings.KAFKA_BOOTSTRAP_SERVERS
    report(
        logging.INFO,
        f"reading {topics} as group {settings.KAFKA_GROUP_ID} from {', '.join(brokers)}",
        brokers=brokers,
    )
    if settings.WORKER_HTTP_PORT not in (0, port):
        taken = f"port {settings.WORKER_HTTP_PORT} is taken, so readiness and metrics are on port {port}"
        report(logging.WARNING, f"{taken}; to choose another port, set WORKER_HTTP_PORT", port=port)
    report(logging.INFO, f"outcomes are shared by {parts.outcomes.reach}")
    for note in parts.notes:
        report(logging.WARNING, note)


async def _watch_group(outcomes: IOutcomeStore, worker: Worker, settings: Settings, stages: Sequence[RagStage]) -> None:
    """Mark the commits with the id of the outcome store as soon as it can be read, and check the group periodically."""
    from modules.llm_platform.presentation.kafka.worker.group_watch import GroupWatch, commit_metadata
    from modules.llm_platform.presentation.kafka.worker.known_brokers import GroupReader

    store_id = await _store_id(outcomes)
    worker.consumer.committer.metadata = commit_metadata(store_id)
    topics = Topics(settings.kafka_topics())
    read, written = topics.read_by(stages), topics.written_by(stages)
    reader = GroupReader(partial(_make_group_reader, settings))
    await GroupWatch(reader, settings.KAFKA_GROUP_ID, read, written, store_id).watch()


async def _store_id(outcomes: IOutcomeStore) -> str:
    """Return the id of the store as soon as it can be used. Until then, /ready reports the errors of the store."""
    while True:
        try:
            return await outcomes.identity()
        except OutcomeStoreError:
            await asyncio.sleep(STORE_RETRY_S)


def check_worker(
    console: Console, build_parts: BuildParts, settings: Settings, stages: Sequence[RagStage], *, as_json: bool
) -> None:
    """Print a line for each check of what the worker needs. Raises CommandError that names the checks that failed."""
    configure_logging("ERROR", settings.LOG_FORMAT, settings.secrets())
    console.print_progress("checking brokers and dependencies …")
    with kafka_errors():
        admin, errors = _make_admin(settings)
        results = [
            *_check_brokers(admin, errors, settings, stages),
            *run_async(_check_dependencies(build_parts, settings, stages)),
        ]
    print_check_results(console, results, as_json=as_json)


def check_brokers(settings: Settings) -> list[CheckResult]:
    """Return the problems that `worker --check` finds at the brokers, after one line for all checks that passed.

    Errors of the settings are results, too, and are not raised.
    """
    try:
        with kafka_errors():
            admin, errors = _make_admin(settings)
            results = list(_check_brokers(admin, errors, settings, STAGES))
    except (CommandError, SettingsError) as error:
        return [CheckResult(KAFKA, "failed", str(error))]
    problems = [replace(result, subject=f"{KAFKA} {result.subject}") for result in results if result.verdict != "ok"]
    if any(problem.verdict == "failed" for problem in problems):
        return problems
    passed = len(results) - len(problems)
    brokers = ", ".join(settings.KAFKA_BOOTSTRAP_SERVERS)
    return [CheckResult(KAFKA, "ok", f"{brokers}: {passed} checks of brokers, topics and rights passed"), *problems]


def _make_admin(settings: Settings) -> tuple[AdminClient, list[KafkaError]]:
    """Return an admin client, and the list to which its errors are appended."""
    from modules.llm_platform.presentation.kafka.worker.clients import (
        make_admin,
        make_admin_config,
        make_client_settings,
    )

    errors: list[KafkaError] = []
    config = make_admin_config(settings.KAFKA_BOOTSTRAP_SERVERS, make_client_settings(settings))
    return make_admin(config, {"error_cb": errors.append}), errors


def _make_group_reader(settings: Settings, callbacks: Callbacks | None = None) -> Consumer:
    from modules.llm_platform.presentation.kafka.worker.clients import make_client_settings, make_group_reader

    config = make_client_settings(settings)
    return make_group_reader(settings.KAFKA_BOOTSTRAP_SERVERS, settings.KAFKA_GROUP_ID, config, callbacks)


def _check_brokers(
    admin: AdminClient, errors: Sequence[KafkaError], settings: Settings, stages: Sequence[RagStage]
) -> Iterator[CheckResult]:
    from modules.llm_platform.presentation.kafka.admin.check import WorkerRequirements, check_cluster, query_producer_id
    from modules.llm_platform.presentation.kafka.contract.outcomes import DEFAULT_RECORD_BYTES
    from modules.llm_platform.presentation.kafka.worker.clients import make_client_settings, make_producer_config

    config = make_client_settings(settings)
    yield CheckResult("KAFKA_CONFIG", "ok", "changes nothing that the delivery guarantee requires")
    user = config.get("sasl.username")
    username = None if user is None else str(user)
    requirements = WorkerRequirements(
        settings.KAFKA_GROUP_ID, stages, DEFAULT_RECORD_BYTES, username, Topics(settings.kafka_topics())
    )
    query = partial(query_producer_id, make_producer_config(settings.KAFKA_BOOTSTRAP_SERVERS, config))
    yield from check_cluster(admin, requirements, query, errors)


async def _check_dependencies(
    build_parts: BuildParts, settings: Settings, stages: Sequence[RagStage]
) -> list[CheckResult]:
    """Use each dependency once as a request would: a short answer from the model, a write to the store."""
    from modules.llm_platform.presentation.kafka.worker.dependencies import run_probe
    from modules.llm_platform.presentation.kafka.worker.group_watch import QUERY_TIMEOUT_S, check_stores

    async with build_parts(settings) as parts:
        parts.dependencies.restrict_to(stages)
        dependencies = list(parts.dependencies)
        outcomes = await asyncio.gather(*(run_probe(dependency.call) for dependency in dependencies))
        results = [
            CheckResult(dependency.name, "failed", outcome.explain())
            if isinstance(outcome, AppException)
            else CheckResult(dependency.name, "ok", outcome)
            for dependency, outcome in zip(dependencies, outcomes, strict=True)
        ]
        with suppress(OutcomeStoreError):  # reported above
            topics, store_id = Topics(settings.kafka_topics()).read_by(stages), await parts.outcomes.identity()
            results += check_stores(_make_group_reader(settings), topics, store_id, QUERY_TIMEOUT_S)
        if parts.schemas is not None:
            results += await parts.schemas.check(stages)
        return [*results, *(CheckResult("note", "warning", note) for note in parts.notes)]
