"""Runs a command that ends with its starter: the end of standard input terminates the command.

    python -m tests.kafka.child_process java …

The first line of standard output is the process id of the command; its exit code is returned. `ServerProcess` is the side of
the starter.
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
START_S = 180.0  # limit on a busy machine; two or three seconds are usual
STOP_S = 60.0
TAIL_CHARS = 3000  # part of a log that an error shows


def _outgoing_ports() -> range:
    """Return the ports from which the kernel takes one for a connection, and for a server that names none."""
    try:
        first, last = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text("ascii").split()
    except OSError:  # not Linux
        return range(49_152, 65_536)
    return range(int(first), int(last) + 1)


OUTGOING = _outgoing_ports()
PORTS = sorted(range(20_000, 65_536), key=OUTGOING.__contains__)


class ServerProcess(ABC):
    """A server of others that cannot outlive its starter, in a folder that goes with it.

    `down` kills it as a crash would, `stop` asks it to end, `up` starts it on its old data.
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
        """Make what the first start needs."""

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
        """Start the process, without waiting for what it says."""
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "tests.kafka.child_process", *self._command()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=ROOT,
                start_new_session=True,  # Ctrl-C is for us; the child ends with us
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
        """An orderly shutdown, as in an upgrade."""
        os.kill(self.pid, self.stop_signal)
        self._gone()

    def close(self) -> None:
        if self._child is not None:
            if self.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, self.crash_signal)  # its data goes too: no need to be polite
            else:  # interrupted before it was said; a signal to 0 would be for our whole group
                self._child.stdin.close()  # type: ignore[union-attr]  # the child ends it then
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
    """Return a port for a server that clients find there again after a restart.

    While the server is down no connection gets it as its own: it is none of OUTGOING, as long as there are others. No other
    process of the tests gets it either: this one keeps the UDP port of the same number until it ends.
    """
    for port in PORTS:
        with contextlib.suppress(OSError), socket.socket(type=socket.SOCK_DGRAM) as claim, socket.socket() as probe:
            claim.bind(("127.0.0.1", port))
            probe.bind(("127.0.0.1", port))
            claim.detach()  # it stays open
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
    with contextlib.suppress(BrokenPipeError):  # who started us is gone already: our standard input ends, too
        sys.stdout.write(f"{child.pid}\n")
        sys.stdout.flush()
    return child.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
