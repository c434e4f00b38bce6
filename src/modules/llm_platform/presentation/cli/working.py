"""The command `worker`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pydantic import SecretStr

from modules.llm_platform.application.services.doctor_service import Finding
from modules.llm_platform.domain.exceptions import OutcomeStoreError
from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.presentation.cli.examining import finding_lines
from modules.llm_platform.presentation.cli.exit_codes import CommandError, run
from modules.llm_platform.presentation.kafka.parts import WorkerParts
from modules.llm_platform.presentation.kafka.topics import REQUEST_TOPICS
from modules.llm_platform.presentation.rest.heap import settle_heap
from shared.config import Settings, SettingsError, unknown_variables
from shared.logging import configure_logging

if TYPE_CHECKING:
    from modules.llm_platform.domain.dtos.retrieval_dtos import RagStage
    from modules.llm_platform.presentation.kafka.client_config import Config

OF_THE_EXTRA: Final = "confluent_kafka"
NOT_INSTALLED: Final = 'Kafka needs a package that is not installed: pip install "llm-platform[kafka]"'
NO_BROKERS: Final = "KAFKA_BOOTSTRAP_SERVERS names no broker. Example: KAFKA_BOOTSTRAP_SERVERS=localhost:9092"

MakeParts = Callable[[Settings], AbstractAsyncContextManager[WorkerParts]]


def carry_out(console: Console, parts: MakeParts, arguments: Mapping[str, Any], stages: str | None) -> None:
    """Work until stopped. CommandError when the extra is missing, SettingsError when settings are missing or wrong."""
    settings = kafka_settings(console, arguments)
    configure_logging(settings.LOG_LEVEL, settings.LOG_FORMAT, settings.secrets())
    with kafka_errors():
        run(_work(console, parts, settings, stages_of(stages)), quick_loop())


def check(
    console: Console, parts: MakeParts, arguments: Mapping[str, Any], stages: str | None, *, as_json: bool
) -> None:
    """Say whether the worker could work, a line for each thing; CommandError when something forbids it."""
    settings = kafka_settings(console, arguments)
    configure_logging("ERROR", settings.LOG_FORMAT, settings.secrets())
    console.step("asking the brokers …")
    with kafka_errors():
        found = [*_asked(settings, stages_of(stages)), *run(_of_the_parts(parts, settings))]
    if as_json:
        from modules.llm_platform.presentation.cli.as_json import dumped

        checks = [{"subject": each.subject, "verdict": each.verdict, "text": each.text} for each in found]
        console.verbatim(dumped({"checks": checks}))
    else:
        console.lines(finding_lines(found))
    failed = [each.subject for each in found if each.verdict == "failed"]
    if failed:
        raise CommandError(f"not well: {', '.join(failed)}")


def kafka_settings(console: Console, arguments: Mapping[str, Any]) -> Settings:
    """The settings, which name brokers. SettingsError."""
    settings = Settings.load(**arguments)
    for warning in unknown_variables():
        console.warn(warning)
    if not settings.KAFKA_BOOTSTRAP_SERVERS:
        raise SettingsError(NO_BROKERS)
    return settings


def client_settings(settings: Settings) -> Config:
    """KAFKA_CONFIG with its secrets, for the client."""
    given = settings.KAFKA_CONFIG.items()
    return {name: value.get_secret_value() if isinstance(value, SecretStr) else value for name, value in given}


def stages_of(listed: str | None) -> list[RagStage]:
    """Of a comma list; all without one. SettingsError for a name that is none."""
    named = [name.strip() for name in listed.split(",")] if listed else list(REQUEST_TOPICS)
    if unknown := [name for name in named if name not in REQUEST_TOPICS]:
        raise SettingsError(f"--stages: {unknown[0]!r} is no stage. Example: --stages search,answer")
    return [stage for stage in REQUEST_TOPICS if stage in named]


@contextmanager
def kafka_errors() -> Iterator[None]:
    """What Kafka's client cannot get over becomes the one line that ends the command."""
    try:
        from confluent_kafka import KafkaException
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != OF_THE_EXTRA:
            raise
        raise CommandError(NOT_INSTALLED) from error
    try:
        yield
    except KafkaException as error:
        said = error.args[0]
        raise CommandError(f"Kafka's client is beyond help ({said.name()}): {said.str()}") from error


def quick_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The event loop that the server has as well, where it is installed; None is Python's own."""
    try:
        import uvloop
    except ModuleNotFoundError:
        return None
    return uvloop.new_event_loop


async def _work(console: Console, make_parts: MakeParts, settings: Settings, stages: Sequence[RagStage]) -> None:
    from modules.llm_platform.presentation.kafka.figures import figures_text
    from modules.llm_platform.presentation.kafka.upkeep import keep_clean
    from modules.llm_platform.presentation.kafka.worker import Worker, WorkerOptions, stopped_by_signals
    from modules.llm_platform.presentation.kafka.worker_http import WorkerHttp

    async with make_parts(settings) as parts:
        worker = Worker(
            parts.handler,
            WorkerOptions(
                brokers=settings.KAFKA_BOOTSTRAP_SERVERS, group_id=settings.KAFKA_GROUP_ID, stages=stages,
                concurrency=settings.KAFKA_CONCURRENCY, drain_s=settings.DRAIN_TIMEOUT_S,
                config=client_settings(settings),
            ),
        )  # fmt: skip
        http = WorkerHttp(worker.not_ready, partial(figures_text, worker, parts.handler.counts))
        async with http.listening(settings.LLM_PLATFORM_HOST, settings.WORKER_HTTP_PORT) as port:
            for line in (_says(settings, stages, port), f"outcomes are shared by {parts.outcomes.reach}", *parts.notes):
                console.warn(line)
            settle_heap()
            cleaning = asyncio.create_task(keep_clean(parts.outcomes))
            try:
                with stopped_by_signals(worker.stop):
                    await worker.run()
            finally:
                cleaning.cancel()


def _says(settings: Settings, stages: Sequence[RagStage], port: int) -> str:
    address = f"http://{settings.LLM_PLATFORM_HOST}:{port}"
    return f"working on {' and '.join(stages)} requests; {address}/ready and {address}/metrics say how it is"


def _asked(settings: Settings, stages: Sequence[RagStage]) -> Iterator[Finding]:
    from modules.llm_platform.presentation.kafka.check import Wanted, findings
    from modules.llm_platform.presentation.kafka.client_config import admin_config
    from modules.llm_platform.presentation.kafka.clients import make_admin
    from modules.llm_platform.presentation.kafka.outcomes import OUTCOME_BYTES

    admin = make_admin(admin_config(settings.KAFKA_BOOTSTRAP_SERVERS, client_settings(settings)))
    yield Finding("KAFKA_CONFIG", "ok", "changes nothing that the delivery promise needs")
    yield from findings(admin, Wanted(settings.KAFKA_GROUP_ID, stages, OUTCOME_BYTES))


async def _of_the_parts(make_parts: MakeParts, settings: Settings) -> list[Finding]:
    async with make_parts(settings) as parts:
        try:
            await parts.outcomes.get("search", "")
        except OutcomeStoreError as error:
            found = Finding("outcomes", "failed", error.message)
        else:
            found = Finding("outcomes", "ok", f"shared by {parts.outcomes.reach}")
        return [found, *(Finding("note", "warning", note) for note in parts.notes)]
