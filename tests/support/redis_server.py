"""A redis-server on a free loopback port in a separate folder, without persistence."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path
from shutil import which
from types import TracebackType

from tests.kafka.broker import wait_until
from tests.kafka.child_process import free_port

START_S = 60.0


class RedisServer:
    """`start` starts it, and `stop` (SIGTERM) or `kill` (SIGKILL) ends it. A restart keeps the port and loses the data."""

    def __init__(self, folder: Path, *options: str, password: str = "") -> None:
        self._folder = folder
        self._options = [*options, *(["--requirepass", password] if password else [])]
        self._password = password
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://{f':{self._password}@' if self._password else ''}127.0.0.1:{self.port}/0"

    def start(self) -> None:
        program = which("redis-server")
        assert program is not None, "redis-server is not installed: run `make test-services`"
        common = ["--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self._folder), "--save", ""]
        with (self._folder / "redis.log").open("ab") as log:
            self._process = subprocess.Popen([program, *common, *self._options], stdout=log, stderr=log)
        wait_until(self._answers, "redis-server to answer", timeout_s=START_S)

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGCONT)  # a stopped process would not end
            self._process.send_signal(number)
            self._process.wait()
            self._process = None

    def kill(self) -> None:
        self.stop(signal.SIGKILL)

    def freeze(self) -> None:
        """Stop the process without closing its connections, like a machine that is unreachable."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def __enter__(self) -> RedisServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith((b"+PONG", b"-NOAUTH"))
        except OSError:
            return False
