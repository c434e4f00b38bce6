"""A worker of the contract suite in a separate process. A test can stop it, kill it and read its log."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.kafka.broker import wait_until
from tests.support.forked_command import PIPE, ForkedPython

STOP_S = 120.0  # limit on a busy machine; a drain without a broker takes half a minute at most
START_S = 90.0
TAIL_CHARS = 4000
PROGRAM = "from tests.kafka.worker_program import main; main()"


@dataclass(frozen=True)
class WorkerConfig:
    """The configuration of a test worker, see worker_program.py. `crash_at`: the crash point that kills the worker when it
    passes it for the `crash_after`th time. `database_url`: outcomes are in PostgreSQL. Without it they are in a file of
    `data_dir`.
    """

    bootstrap: str
    data_dir: str
    client: Mapping[str, str | int]
    group: str = "contract"
    name: str = "worker"
    concurrency: int = 16
    timeout_s: float = 30.0
    max_message_bytes: int = 1_000_000
    drain_s: float = 10.0
    database_url: str | None = None
    crash_at: str | None = None
    crash_after: int = 1


class WorkerHandle:
    """`with` starts the worker and stops it cleanly. A killed worker would stay in its group until its session times out."""

    def __init__(self, config: WorkerConfig) -> None:
        self.config = config
        self.log = Path(config.data_dir) / f"{config.name}.log"
        self._process: ForkedPython | None = None

    def __enter__(self) -> Self:
        argument = json.dumps({**vars(self.config), "client": dict(self.config.client)})
        with self.log.open("ab") as log:
            self._process = ForkedPython(PROGRAM, argument, stdout=PIPE, stderr=log)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            sys.stderr.write(f"--- {self.config.name}, exit code {self._started().poll()}:\n{self.log_tail()}\n")
        if self.running:
            self._end()
        self._started().stdout.close()  # type: ignore[union-attr]

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def ready(self) -> Self:
        """Wait until the worker has started, or has ended at its crash point. Other threads may pass the crash point first."""
        line = self._started().stdout.readline()  # type: ignore[union-attr]
        is_ready = line == "started\n" or (self.config.crash_at and self._started().wait(STOP_S) == -signal.SIGKILL)
        assert is_ready, f"the worker did not start:\n{self.log_tail()}"
        return self

    def stop(self) -> int:
        """Send SIGTERM and return the exit code."""
        self.ask_to_stop()
        return self._started().wait(STOP_S)

    def ask_to_stop(self) -> None:
        self._started().send_signal(signal.SIGTERM)

    def freeze(self) -> None:
        """Suspend the process. Its connections stay open."""
        self._started().send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._started().send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._started().kill()
        self._started().wait(STOP_S)

    def _end(self) -> None:
        try:
            self.stop()
        except subprocess.TimeoutExpired:
            self.kill()

    def wait_for_end(self, timeout_s: float = START_S) -> int:
        """Return the exit code of a worker that ends by itself. The code is -9 if a crash point killed it."""
        wait_until(lambda: not self.running, "the worker's end", timeout_s)
        return int(self._started().returncode)

    def log_tail(self) -> str:
        return self.log.read_text("utf-8", "replace")[-TAIL_CHARS:]

    def _started(self) -> ForkedPython:
        assert self._process is not None, "use it with `with`"
        return self._process
