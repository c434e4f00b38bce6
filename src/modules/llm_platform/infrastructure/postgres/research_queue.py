"""The queue of background researches over procrastinate, and its tables in the schema `llm_platform_queue`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from modules.llm_platform.domain.ports.research_queue import IResearchQueue
from modules.llm_platform.domain.task_group import cancel_and_wait
from modules.llm_platform.infrastructure.postgres.pool import (
    APPLICATION_NAME,
    CONNECT_TIMEOUT_S,
    DatabaseError,
    silence_pool_log,
)

if TYPE_CHECKING:
    from procrastinate import App

    from modules.llm_platform.infrastructure.postgres.pool import Connection

log = logging.getLogger(__name__)

SCHEMA: Final = "llm_platform_queue"
NO_TABLES: Final = f"the database has no tables of the queue of researches (schema {SCHEMA}): run `llm-platform store migrate`"
QUEUE: Final = "research"
TASK: Final = "llm_platform.research"
POOL_SIZE: Final = 2  # connections of one process, and one that listens
HEARTBEAT_S: Final = 5.0
STALLED_S: Final = 15.0  # a worker without a heartbeat for so long has vanished
PUT_TIMEOUT_S: Final = 5.0
RETRY_S: Final = 5.0  # after the queue could not be used
STOP_S: Final = 1.0  # for running tasks when the worker stops


class ProcrastinateResearchQueue(IResearchQueue):
    """`url` is DATABASE_URL. Connected at the first call; the tables are those of `llm-platform store migrate`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._opened: App | None = None
        self._lock = asyncio.Lock()
        self._closing = AsyncExitStack()
        self._handle: Callable[[str], Awaitable[None]] | None = None
        self._failure = ""  # why the queue cannot be used

    async def put(self, job_id: str) -> None:
        try:
            async with asyncio.timeout(PUT_TIMEOUT_S):
                app = await self._app()
                await app.configure_task(TASK, queue=QUEUE).defer_async(job_id=job_id)
        except _queue_errors() as error:
            log.warning("research not queued, it is found in the store", extra={"error": type(error).__name__})

    async def run(self, handle: Callable[[str], Awaitable[None]], concurrency: int) -> None:
        self._handle = handle
        while True:
            rescuing: asyncio.Task[None] | None = None
            try:
                app = await self._app()
                if not await app.check_connection_async():
                    raise DatabaseError(NO_TABLES)
                if self._failure:
                    log.info("the queue of researches can be used again")
                self._failure = ""
                rescuing = asyncio.create_task(_rescue(app))
                await app.run_worker_async(
                    queues=[QUEUE], concurrency=concurrency, install_signal_handlers=False, delete_jobs="always",
                    update_heartbeat_interval=HEARTBEAT_S, stalled_worker_timeout=10 * STALLED_S,
                    shutdown_graceful_timeout=STOP_S,
                )  # fmt: skip
            except _queue_errors() as error:
                known = isinstance(error, DatabaseError)
                self._report_failure(str(error) if known else "PostgreSQL cannot be used: see DATABASE_URL")
            finally:
                if rescuing is not None:
                    await cancel_and_wait(rescuing)
            await asyncio.sleep(RETRY_S)

    async def aclose(self) -> None:
        await self._closing.aclose()

    def _report_failure(self, reason: str) -> None:
        """Log a reason once."""
        if reason != self._failure:
            log.warning("the queue of researches cannot be used", extra={"reason": reason})
        self._failure = reason

    async def _app(self) -> App:
        async with self._lock:
            if self._opened is None:
                self._opened = await self._open()
            return self._opened

    async def _open(self) -> App:
        from procrastinate import App, PsycopgConnector

        logging.getLogger("procrastinate").setLevel(logging.CRITICAL)  # our own lines say the same
        silence_pool_log()
        connector = PsycopgConnector(
            conninfo=self._url, kwargs={"application_name": APPLICATION_NAME, "prepare_threshold": None},
            configure=_use_schema, min_size=0, max_size=POOL_SIZE, timeout=CONNECT_TIMEOUT_S,
        )  # fmt: skip
        app = App(connector=connector)

        @app.task(name=TASK, queue=QUEUE)
        async def research(job_id: str) -> None:
            if self._handle is not None:
                await self._handle(job_id)

        await app.open_async()
        self._closing.push_async_callback(app.close_async)
        return app


async def _rescue(app: App) -> None:
    """Queue the ids of vanished workers again."""
    while True:
        with suppress(*_queue_errors()):
            for job in await app.job_manager.get_stalled_jobs(queue=QUEUE, seconds_since_heartbeat=STALLED_S):
                await app.job_manager.retry_job(job)
        await asyncio.sleep(STALLED_S / 3)


async def _use_schema(connection: Connection) -> None:
    await connection.set_autocommit(True)
    await connection.execute(f"SET search_path TO {SCHEMA}".encode())


def _queue_errors() -> tuple[type[Exception], ...]:
    from procrastinate.exceptions import ProcrastinateException
    from psycopg import Error

    return ProcrastinateException, Error, TimeoutError, DatabaseError


async def check_queue(connection: Connection) -> None:
    """Raise DatabaseError unless the tables of the queue exist."""
    if not await _has_tables(connection):
        raise DatabaseError(NO_TABLES)


async def _has_tables(connection: Connection) -> bool:
    found = await connection.execute("SELECT to_regclass(%s) IS NOT NULL", (f"{SCHEMA}.procrastinate_jobs",))
    return bool((await found.fetchone() or (False,))[0])


async def migrate_queue(connection: Connection) -> None:
    """Make the tables of the installed procrastinate, or bring them to its version; part of a transaction of the caller.

    The comment of the schema is the name of the last migration.
    """
    from procrastinate.schema import SchemaManager

    use_schema = f"SET LOCAL search_path TO {SCHEMA}"
    files = sorted(Path(SchemaManager.get_migrations_path()).glob("*.sql"))  # noqa: ASYNC240  a command waits for it
    found: Any = await (
        await connection.execute("SELECT obj_description(to_regnamespace(%s), 'pg_namespace')", (SCHEMA,))
    ).fetchone()
    applied = found[0] if found and await _has_tables(connection) else None
    if applied is None:  # a rest without the table of jobs has nothing to lose: researches are in the store
        recreate = (f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE", f"CREATE SCHEMA {SCHEMA}")
        scripts = [*recreate, use_schema, SchemaManager.get_schema()]
    else:
        scripts = [use_schema, *(each.read_text("utf-8") for each in files if each.name > applied)]
    for script in scripts:
        await connection.execute(script.encode())
    await connection.execute(f"COMMENT ON SCHEMA {SCHEMA} IS '{max(files[-1].name, applied or '')}'".encode())
