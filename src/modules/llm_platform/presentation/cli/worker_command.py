"""The command `worker`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from pydantic import SecretStr

from modules.llm_platform.application.services.doctor_service import CheckResult
from modules.llm_platform.domain.exceptions import OutcomeStoreError
from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.presentation.cli.doctor_command import print_check_results
from modules.llm_platform.presentation.cli.exit_codes import CommandError, run
from modules.llm_platform.presentation.cli.options import wrong
from modules.llm_platform.presentation.kafka.contract.requests import REQUEST_TOPICS
from modules.llm_platform.presentation.kafka.worker.worker import WorkerParts
from modules.llm_platform.presentation.rest.server import tune_gc
from shared.config import Settings, SettingsError, unknown_variables
from shared.exceptions import AppException
from shared.logging import configure_logging, logs_json

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient

    from modules.llm_platform.domain.dtos.retrieval_dtos import RagStage
    from modules.llm_platform.domain.ports.outcome_store import IOutcomeStore
    from modules.llm_platform.presentation.kafka.worker.clients import Config
    from modules.llm_platform.presentation.kafka.worker.worker import Worker


OF_THE_EXTRA: Final = ("confluent_kafka", "prometheus_client")
STORE_AGAIN_S: Final = 10.0  # until the store of outcomes is asked again for its id
NOT_INSTALLED: Final = 'Kafka needs a package that is not installed: pip install "llm-platform[kafka]"'
NO_BROKERS: Final = "KAFKA_BOOTSTRAP_SERVERS names no broker. Example: KAFKA_BOOTSTRAP_SERVERS=localhost:9092"

PORTS_TRIED: Final = 100  # from the default one on: as many workers on one machine need not be told their ports

NOBODY_THERE: Final = (
    "no broker can be reached: is KAFKA_BOOTSTRAP_SERVERS right, and does KAFKA_CONFIG say how to log in?"
)
NO_TOPIC: Final = "the topic of these requests is not there: create it, see `llm-platform worker --check`"
NOT_ALLOWED: Final = (
    "the user of KAFKA_CONFIG may not do that: it wants the right to write requests and to read outcomes"
)
REMEDIES: Final[Mapping[str, str]] = {  # by the client's names of its errors
    "_TRANSPORT": NOBODY_THERE,
    "_ALL_BROKERS_DOWN": NOBODY_THERE,
    "_MSG_TIMED_OUT": NOBODY_THERE,
    "_TIMED_OUT": NOBODY_THERE,
    "_RESOLVE": NOBODY_THERE,
    "_AUTHENTICATION": "the brokers refuse the login: check the user and the password in KAFKA_CONFIG",
    "_UNKNOWN_TOPIC": NO_TOPIC,
    "_UNKNOWN_PARTITION": NO_TOPIC,
    "UNKNOWN_TOPIC_OR_PART": NO_TOPIC,
    "TOPIC_AUTHORIZATION_FAILED": NOT_ALLOWED,
    "CLUSTER_AUTHORIZATION_FAILED": NOT_ALLOWED,
}

log = logging.getLogger(__name__)

MakeParts = Callable[[Settings], AbstractAsyncContextManager[WorkerParts]]


class Tell(Protocol):
    """Takes one line for whoever starts a worker; `about` are fields of the log."""

    def __call__(self, level: int, text: str, **about: object) -> None:
        """`level` is one of logging's."""


def run_worker_command(console: Console, parts: MakeParts, arguments: Mapping[str, Any], stages: str | None) -> None:
    """Work until stopped. CommandError when the extra is missing, SettingsError when settings are missing or wrong."""
    wanted = stages_of(stages)
    settings = Settings.load(**arguments)
    configure_logging(settings.LOG_LEVEL, settings.LOG_FORMAT, settings.secrets())
    tell = _teller(console, settings)
    for warning in unknown_variables():
        tell(logging.WARNING, warning)
    with kafka_errors():
        run(_work(tell, parts, _with_brokers(settings), wanted), quick_loop())


def check(
    console: Console, parts: MakeParts, arguments: Mapping[str, Any], stages: str | None, *, as_json: bool
) -> None:
    """Say whether the worker could work, a line for each thing; CommandError when something forbids it."""
    wanted = stages_of(stages)
    settings = kafka_settings(console, arguments)
    configure_logging("ERROR", settings.LOG_FORMAT, settings.secrets())
    console.step("asking the brokers …")
    with kafka_errors():
        admin, complaints = _admin(settings)
        found = [
            *_asked(admin, complaints, settings, wanted), *run(_of_the_parts(parts, admin, settings, wanted))
        ]  # fmt: skip
    print_check_results(console, found, as_json=as_json)


def kafka_settings(console: Console, arguments: Mapping[str, Any]) -> Settings:
    """The settings, which name brokers. SettingsError."""
    settings = Settings.load(**arguments)
    for warning in unknown_variables():
        console.warn(warning)
    return _with_brokers(settings)


def _with_brokers(settings: Settings) -> Settings:
    if not settings.KAFKA_BOOTSTRAP_SERVERS:
        raise SettingsError(NO_BROKERS)
    return settings


def _teller(console: Console, settings: Settings) -> Tell:
    """Lines for whoever starts a worker: entries of the log where that is JSON, so that nothing else stands among them."""
    if logs_json(settings.LOG_FORMAT):
        console.failed = lambda text: log.error("the worker ends", extra={"reason": text})
        return lambda level, text, **about: log.log(level, text, extra=about)
    return lambda level, text, **about: console.warn(text)


def client_settings(settings: Settings) -> Config:
    """KAFKA_CONFIG with its secrets, for the client."""
    given = settings.KAFKA_CONFIG.items()
    return {name: value.get_secret_value() if isinstance(value, SecretStr) else value for name, value in given}


def stages_of(listed: str | None) -> list[RagStage]:
    """Of a comma list; all without one. Wrong use for a name that is none."""
    named = list(REQUEST_TOPICS) if listed is None else [name.strip() for name in listed.split(",")]
    if any(name not in REQUEST_TOPICS for name in named):
        wrong("--stages", "must be a comma list of search and answer, such as search,answer")
    return [stage for stage in REQUEST_TOPICS if stage in named]


@contextmanager
def kafka_errors() -> Iterator[None]:
    """What Kafka's client cannot get over becomes the one line that ends the command."""
    try:
        import prometheus_client  # noqa: F401  looked for here, since the worker imports it when it is half started
        from confluent_kafka import KafkaException
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in OF_THE_EXTRA:
            raise
        raise CommandError(NOT_INSTALLED) from error
    try:
        yield
    except KafkaException as error:
        said = error.args[0]
        remedy = REMEDIES.get(said.name())
        text = (
            f"Kafka's client is beyond help ({said.name()}): {said.str()}"
            if remedy is None
            else f"{remedy} ({said.name()})"
        )
        raise CommandError(text) from error


def quick_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The event loop that the server has as well, where it is installed; None is Python's own."""
    try:
        import uvloop
    except ModuleNotFoundError:
        return None
    return uvloop.new_event_loop


async def _work(tell: Tell, make_parts: MakeParts, settings: Settings, stages: Sequence[RagStage]) -> None:
    from modules.llm_platform.presentation.kafka.worker.http import WorkerHttp, metrics_text
    from modules.llm_platform.presentation.kafka.worker.worker import (
        Worker,
        WorkerOptions,
        remove_expired_outcomes,
        stopped_by_signals,
    )

    async with make_parts(settings) as parts:
        worker = Worker(
            parts.handler,
            WorkerOptions(
                brokers=settings.KAFKA_BOOTSTRAP_SERVERS, group_id=settings.KAFKA_GROUP_ID, stages=stages,
                concurrency=settings.KAFKA_CONCURRENCY, drain_s=settings.DRAIN_TIMEOUT_S,
                stall_s=settings.KAFKA_STALL_S, config=client_settings(settings),
            ),
            dependencies=parts.dependencies,
        )  # fmt: skip
        http = WorkerHttp(worker.not_ready, partial(metrics_text, worker, parts.handler.counts))
        tried = 1 if "WORKER_HTTP_PORT" in settings.model_fields_set else PORTS_TRIED
        async with http.listening(settings.LLM_PLATFORM_HOST, settings.WORKER_HTTP_PORT, tried) as port:
            tell(logging.INFO, _says(settings, stages, port), port=port)
            tell(logging.INFO, _reads(settings, stages), brokers=settings.KAFKA_BOOTSTRAP_SERVERS)
            for line in _port_note(settings, port):
                tell(logging.WARNING, line, port=port)
            tell(logging.INFO, f"outcomes are shared by {parts.outcomes.reach}")
            for note in parts.notes:
                tell(logging.WARNING, note)
            tune_gc()
            beside = [
                asyncio.create_task(remove_expired_outcomes(parts.outcomes)),
                asyncio.create_task(_watch_group(parts.outcomes, worker, settings, stages)),
            ]
            try:
                with stopped_by_signals(worker.stop):
                    await worker.run()
            finally:
                for task in beside:
                    task.cancel()


async def _watch_group(outcomes: IOutcomeStore, worker: Worker, settings: Settings, stages: Sequence[RagStage]) -> None:
    """Mark the commits with the id of the store, as soon as that can be read, and look at the group now and again."""
    from modules.llm_platform.presentation.kafka.contract.requests import FAILED_TOPIC, RESULT_TOPICS
    from modules.llm_platform.presentation.kafka.worker.group_watch import GroupWatch, commit_metadata

    store_id = await _identity(outcomes)
    worker.reader.commits.metadata = commit_metadata(store_id)
    admin, _ = _admin(settings)
    read = [REQUEST_TOPICS[stage] for stage in stages]
    written = [*(RESULT_TOPICS[stage] for stage in stages), FAILED_TOPIC]
    await GroupWatch(admin, settings.KAFKA_GROUP_ID, read, written, store_id).watch()


async def _identity(outcomes: IOutcomeStore) -> str:
    """As soon as the store can be used; that it cannot is told elsewhere."""
    while True:
        try:
            return await outcomes.identity()
        except OutcomeStoreError:
            await asyncio.sleep(STORE_AGAIN_S)


def _port_note(settings: Settings, port: int) -> Iterator[str]:
    wanted = settings.WORKER_HTTP_PORT
    if port != wanted and wanted:
        yield f"port {wanted} is taken, so readiness and metrics are on port {port}; WORKER_HTTP_PORT chooses another"


def _says(settings: Settings, stages: Sequence[RagStage], port: int) -> str:
    address = f"http://{settings.LLM_PLATFORM_HOST}:{port}"
    return f"working on {' and '.join(stages)} requests; {address}/ready and {address}/metrics say how it is"


def _reads(settings: Settings, stages: Sequence[RagStage]) -> str:
    topics = " and ".join(REQUEST_TOPICS[stage] for stage in stages)
    return f"reading {topics} as group {settings.KAFKA_GROUP_ID} from {', '.join(settings.KAFKA_BOOTSTRAP_SERVERS)}"


def _admin(settings: Settings) -> tuple[AdminClient, list[KafkaError]]:
    """A client that only asks, and the list in which it complains."""
    from modules.llm_platform.presentation.kafka.worker.clients import admin_config, make_admin

    complaints: list[KafkaError] = []
    config = admin_config(settings.KAFKA_BOOTSTRAP_SERVERS, client_settings(settings))
    return make_admin(config, {"error_cb": complaints.append}), complaints


def _asked(
    admin: AdminClient, complaints: Sequence[KafkaError], settings: Settings, stages: Sequence[RagStage]
) -> Iterator[CheckResult]:
    from modules.llm_platform.presentation.kafka.admin.acls import RequiredAcl
    from modules.llm_platform.presentation.kafka.admin.check import check_results, producer_id_refused
    from modules.llm_platform.presentation.kafka.contract.outcomes import OUTCOME_BYTES
    from modules.llm_platform.presentation.kafka.worker.clients import producer_config

    config = client_settings(settings)
    yield CheckResult("KAFKA_CONFIG", "ok", "changes nothing that the delivery promise needs")
    user = config.get("sasl.username")
    wanted = RequiredAcl(settings.KAFKA_GROUP_ID, stages, OUTCOME_BYTES, None if user is None else str(user))
    refused = partial(producer_id_refused, producer_config(settings.KAFKA_BOOTSTRAP_SERVERS, config))
    yield from check_results(admin, wanted, refused, complaints)


async def _of_the_parts(
    make_parts: MakeParts, admin: AdminClient, settings: Settings, stages: Sequence[RagStage]
) -> list[CheckResult]:
    """Each dependency is used once as a request would: an answer of a few words from the model, a write of the store."""
    from modules.llm_platform.presentation.kafka.worker.dependencies import outcome_of
    from modules.llm_platform.presentation.kafka.worker.group_watch import ASK_S, of_stores

    async with make_parts(settings) as parts:
        parts.dependencies.only_for(stages)
        asked = list(parts.dependencies)
        told = await asyncio.gather(*(outcome_of(each.call) for each in asked))
        found = [
            CheckResult(each.name, "failed", said.message)
            if isinstance(said, AppException)
            else CheckResult(each.name, "ok", said)
            for each, said in zip(asked, told, strict=True)
        ]
        with suppress(OutcomeStoreError):  # it has been said above
            topics, store_id = [REQUEST_TOPICS[stage] for stage in stages], await parts.outcomes.identity()
            found += of_stores(admin, settings.KAFKA_GROUP_ID, topics, store_id, ASK_S)
        return [*found, *(CheckResult("note", "warning", note) for note in parts.notes)]
