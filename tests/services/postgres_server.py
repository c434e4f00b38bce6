"""A real PostgreSQL on loopback in a temporary folder.

PostgreSQL refuses to run as root, so root starts it as the user `postgres` or `nobody`.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
from tests.kafka.child_process import START_S, TAIL_CHARS, ServerProcess, free_port

from modules.llm_platform.infrastructure.stores.database.migrations import check_schema
from modules.llm_platform.infrastructure.stores.database.postgres import Database

USER, PASSWORD = "platform", "s3cret-of-the-database"
FAST = ("fsync=off", "full_page_writes=off", "shared_buffers=32MB", "max_connections=60", "logging_collector=off")


class PostgresServer(ServerProcess):
    """`down` stops it without a checkpoint and drops all connections. `up` recovers from the write-ahead log."""

    name = "postgres"
    crash_signal, stop_signal = signal.SIGQUIT, signal.SIGINT

    def __init__(self) -> None:
        super().__init__("/tmp")
        self._data = self._folder / "data"
        self.port = free_port()
        self._databases = 0

    def url(self, database: str = "postgres", password: str = PASSWORD) -> str:
        return f"postgresql://{USER}:{password}@127.0.0.1:{self.port}/{database}"

    def new_database(self) -> str:
        """Return the URL of an empty database."""
        self._databases += 1
        name = f"test_{self._databases}"
        self.execute("postgres", f"CREATE DATABASE {name}")
        return self.url(name)

    def execute(self, database: str, statement: str) -> None:
        url = database if "://" in database else self.url(database)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(statement.encode())

    def _command(self) -> list[str]:
        options = [part for setting in FAST for part in ("-c", setting)]
        return [
            *_as_other_user(),
            str(_program("postgres")),
            "-D",
            str(self._data),
            "-h",
            "127.0.0.1",
            "-p",
            str(self.port),
            "-c",
            "unix_socket_directories=",
            *options,
        ]

    def _answers(self) -> bool:
        with contextlib.suppress(psycopg.Error):
            self.execute("postgres", "SELECT 1")
            return True
        return False

    def _format(self) -> None:
        password = self._folder / "password"
        password.write_text(PASSWORD, "utf-8")
        if _as_other_user():
            other = pwd.getpwnam(_other_user())
            for path in (self._folder, password):
                os.chown(path, other.pw_uid, other.pw_gid)
        command = [
            *_as_other_user(),
            str(_program("initdb")),
            "-D",
            str(self._data),
            "-U",
            USER,
            "-A",
            "scram-sha-256",
            "--pwfile",
            str(password),
            "--no-sync",
            "--encoding",
            "UTF8",
            "--locale",
            "C",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=START_S, cwd="/")
        if done.returncode:
            raise RuntimeError(f"initdb failed:\n{(done.stdout + done.stderr)[-TAIL_CHARS:]}")


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Database]:
    database = Database(url, check_schema)
    yield database
    await database.aclose()


def _program(name: str) -> Path:
    """Debian does not link the server's programs into PATH."""
    found = [*Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), *map(Path, filter(None, [shutil.which(name)]))]
    if not found:
        raise RuntimeError(f"no {name}: `make test-services` installs what it needs")
    return found[0]


def _as_other_user() -> list[str]:
    if os.geteuid() != 0:
        return []
    return ["setpriv", f"--reuid={_other_user()}", "--regid", _group(), "--clear-groups"]


def _other_user() -> str:
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        return "nobody"


def _group() -> str:
    return str(pwd.getpwnam(_other_user()).pw_gid)
