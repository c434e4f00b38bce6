"""A worker of the contract suite as a process of its own, which a test can stop, kill and read."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.guard import network_guard
from tests.kafka.broker import ROOT, wait_until

GUARD = Path(network_guard.__file__).parent
STOP_S = 60.0
START_S = 90.0
TAIL_CHARS = 4000


@dataclass(frozen=True)
class WorkerTold:
    """What a worker of the tests is told, see worker_program.py. `crash_at` ends it with SIGKILL when it has passed
    that point of its loop `crash_after` times.
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
    crash_at: str | None = None
    crash_after: int = 1


class WorkerHandle:
    """`with` starts it and takes care that it ends: orderly, or it stays in its group until its session is over."""

    def __init__(self, told: WorkerTold) -> None:
        self.told = told
        self.log = Path(told.data_dir) / f"{told.name}.log"
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        told = json.dumps({**asdict(self.told), "client": dict(self.told.client)})
        path = os.pathsep.join((str(GUARD), str(ROOT / "src"), str(ROOT)))
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.kafka.worker_program", told],
                cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=log, text=True,
            )  # fmt: skip
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            sys.stderr.write(f"--- {self.told.name}, exit code {self._started().poll()}:\n{self.last_words()}\n")
        if self.running:
            self._end()
        self._started().stdout.close()  # type: ignore[union-attr]

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def ready(self) -> Self:
        """It has told that it began."""
        said = self._started().stdout.readline()  # type: ignore[union-attr]
        assert said == "started\n", f"the worker did not start:\n{self.last_words()}"
        return self

    def stop(self) -> int:
        """SIGTERM, and its exit code."""
        self.ask_to_stop()
        return self._started().wait(STOP_S)

    def ask_to_stop(self) -> None:
        self._started().send_signal(signal.SIGTERM)

    def freeze(self) -> None:
        """As on a machine that is suspended: it holds its connections and says nothing."""
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
        """The exit code of a worker that ends by itself; -9 where a crash point did it."""
        wait_until(lambda: not self.running, "the worker's end", timeout_s)
        return int(self._started().returncode)

    def last_words(self) -> str:
        return self.log.read_text("utf-8", "replace")[-TAIL_CHARS:]

    def _started(self) -> subprocess.Popen[str]:
        assert self._process is not None, "use it with `with`"
        return self._process
