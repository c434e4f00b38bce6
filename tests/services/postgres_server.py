"""A real PostgreSQL on loopback, in a temporary folder that goes with it.

PostgreSQL refuses to run as root, so root starts it as the user `postgres` or `nobody`.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg
from tests.kafka.broker import ROOT, wait_until
from tests.kafka.real_broker import free_port

USER, PASSWORD = "platform", "s3cret-of-the-database"
START_S, STOP_S = 60.0, 60.0
FAST = ("fsync=off", "full_page_writes=off", "shared_buffers=32MB", "max_connections=60", "logging_collector=off")
_TAIL_CHARS = 3000


class PostgresServer:
    """`down` kills it as a crash would, `stop` asks it to end, `up` starts it on its old data."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="postgres-", dir="/tmp"))
        self._data, self.log = self._folder / "data", self._folder / "server.log"
        self.port = free_port()
        self._databases = 0
        self._child: subprocess.Popen[str] | None = None
        self.pid = 0

    def __enter__(self) -> Self:
        try:
            self._make()
            self.up()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def url(self, database: str = "postgres", password: str = PASSWORD) -> str:
        return f"postgresql://{USER}:{password}@127.0.0.1:{self.port}/{database}"

    def new_database(self) -> str:
        """The URL of an empty database."""
        self._databases += 1
        name = f"test_{self._databases}"
        self.execute("postgres", f"CREATE DATABASE {name}")
        return self.url(name)

    def execute(self, database: str, statement: str) -> None:
        url = database if "://" in database else self.url(database)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(statement.encode())

    def up(self) -> None:
        options = [part for each in FAST for part in ("-c", each)]
        command = [
            *_as_other_user(), str(_program("postgres")), "-D", str(self._data), "-h", "127.0.0.1", "-p", str(self.port),
            "-c", "unix_socket_directories=", *options,
        ]  # fmt: skip
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "tests.kafka.child_process", *command], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=log, text=True, cwd=ROOT, start_new_session=True,
            )  # fmt: skip
        self.pid = int(self._child.stdout.readline())  # type: ignore[union-attr]
        wait_until(lambda: self._ended() or self._answers(), "PostgreSQL to start", START_S)
        if self._ended():
            raise RuntimeError(f"PostgreSQL ended:\n{self.log.read_text('utf-8', 'replace')[-_TAIL_CHARS:]}")

    def down(self) -> None:
        """It ends without a checkpoint and drops every connection; `up` recovers from the write-ahead log."""
        os.kill(self.pid, signal.SIGQUIT)
        self._gone()

    def stop(self) -> None:
        """An orderly shutdown, as in an upgrade."""
        os.kill(self.pid, signal.SIGINT)
        self._gone()

    def close(self) -> None:
        if self._child is not None:
            if self.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGQUIT)
            self._gone()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _gone(self) -> None:
        child, self._child = self._child, None
        if child is None:
            raise RuntimeError("PostgreSQL is not running")
        child.stdin.close()  # type: ignore[union-attr]
        child.wait(STOP_S)
        self.pid = 0
        child.stdout.close()  # type: ignore[union-attr]

    def _ended(self) -> bool:
        return self._child is None or self._child.poll() is not None

    def _answers(self) -> bool:
        with contextlib.suppress(psycopg.Error):
            self.execute("postgres", "SELECT 1")
            return True
        return False

    def _make(self) -> None:
        password = self._folder / "password"
        password.write_text(PASSWORD, "utf-8")
        if _as_other_user():
            other = pwd.getpwnam(_other_user())
            for path in (self._folder, password):
                os.chown(path, other.pw_uid, other.pw_gid)
        command = [
            *_as_other_user(), str(_program("initdb")), "-D", str(self._data), "-U", USER, "-A", "scram-sha-256",
            "--pwfile", str(password), "--no-sync", "--encoding", "UTF8", "--locale", "C",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=START_S, cwd="/")
        if done.returncode:
            raise RuntimeError(f"initdb failed:\n{(done.stdout + done.stderr)[-_TAIL_CHARS:]}")


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
