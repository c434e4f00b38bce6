"""Runs a command that ends with its parent: the command is terminated when standard input ends.

    python -m tests.kafka.child_process java …

The first line of standard output is the process id of the command. This program exits with the command's exit code.
`ServerProcess` is the parent's side.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.kafka.broker import ROOT, wait_until

GRACE_S = 30.0
START_S = 180.0  # limit on a busy machine; two or three seconds is usual
STOP_S = 60.0
TAIL_CHARS = 3000  # part of a log that an error shows


def _outgoing_ports() -> range:
    """Return the ephemeral ports: the kernel assigns them to outgoing connections and to servers that name no port."""
    try:
        first, last = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text("ascii").split()
    except OSError:  # not Linux
        return range(49_152, 65_536)
    return range(int(first), int(last) + 1)


OUTGOING = _outgoing_ports()
PORTS = sorted(range(20_000, 65_536), key=OUTGOING.__contains__)


class ServerProcess(ABC):
    """A third-party server that cannot outlive its parent. Its folder is deleted at the end.

    `down` kills it like a crash, `stop` asks it to end, `up` starts it on its old data.
    """

    name = ""
    crash_signal, stop_signal = signal.SIGKILL, signal.SIGTERM

    def __init__(self, parent: str | None = None) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix=f"{self.name}-", dir=parent))
        self.log = self._folder / "server.log"
        self._child: subprocess.Popen[str] | None = None
        self.pid = 0

    def __enter__(self) -> Self:
        try:
            self._begin()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _begin(self) -> None:
        self._format()
        self.up()

    @abstractmethod
    def _format(self) -> None:
        """Create what the first start needs."""

    @abstractmethod
    def _command(self) -> Sequence[str]:
        """Return the command that runs the server in the foreground."""

    @abstractmethod
    def _answers(self) -> bool:
        """Return whether the server can be used."""

    def up(self) -> None:
        self.launch()
        self.wait_until_up()

    def launch(self) -> None:
        """Start the process without waiting until it answers."""
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "tests.kafka.child_process", *self._command()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=ROOT,
                start_new_session=True,  # Ctrl-C reaches only this process; the child ends with it
            )
        self.pid = int(self._child.stdout.readline())  # type: ignore[union-attr]

    def wait_until_up(self) -> None:
        wait_until(lambda: self._ended() or self._answers(), f"{self.name} to start", START_S)
        if self._ended():
            raise RuntimeError(
                f"{self.name} ended while it started:\n{self.log.read_text('utf-8', 'replace')[-TAIL_CHARS:]}"
            )

    def down(self) -> None:
        os.kill(self.pid, self.crash_signal)
        self._gone()

    def stop(self) -> None:
        """Shut down cleanly, as for an upgrade."""
        os.kill(self.pid, self.stop_signal)
        self._gone()

    def close(self) -> None:
        if self._child is not None:
            if self.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, self.crash_signal)  # its data is deleted too, so a clean shutdown is not needed
            else:  # interrupted before the pid was known; a signal to 0 would reach this whole process group
                self._child.stdin.close()  # type: ignore[union-attr]  # then the child ends the command
            self._gone()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _gone(self) -> None:
        child, self._child = self._child, None
        if child is None:
            raise RuntimeError(f"{self.name} is not running")
        child.wait(STOP_S)
        self.pid = 0
        child.stdin.close()  # type: ignore[union-attr]
        child.stdout.close()  # type: ignore[union-attr]

    def _ended(self) -> bool:
        return self._child is None or self._child.poll() is not None


def free_port() -> int:
    """Return a port that a server keeps across restarts.

    No outgoing connection takes the port while the server is down, because it is not in OUTGOING while other ports are free.
    No other test process takes it either, because this process holds the UDP port of the same number until it ends.
    """
    for port in PORTS:
        with contextlib.suppress(OSError), socket.socket(type=socket.SOCK_DGRAM) as claim, socket.socket() as probe:
            claim.bind(("127.0.0.1", port))
            probe.bind(("127.0.0.1", port))
            claim.detach()  # keeps the UDP socket open
            return port
    raise RuntimeError("no port is free")


def _follow(child: subprocess.Popen[bytes]) -> None:
    sys.stdin.read()
    child.terminate()
    try:
        child.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        child.kill()


def main(command: list[str]) -> int:
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    threading.Thread(target=_follow, args=(child,), daemon=True).start()
    with contextlib.suppress(BrokenPipeError):  # the parent is gone already, so standard input ends too
        sys.stdout.write(f"{child.pid}\n")
        sys.stdout.flush()
    return child.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
