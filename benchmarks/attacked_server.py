"""A server of one's own for the attack scripts: offline, on a free port of the loopback address, with its memory."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common import stopped_at_the_end, wait_until
from benchmarks.over_http import answers, free_port

SERVE = "modules.llm_platform serve --port {port}"
START_S = 120.0
SETTINGS = {
    "LLM_PLATFORM_OFFLINE": "true",
    "RATE_LIMIT_PER_MINUTE": "0",
    "RATE_LIMIT_GLOBAL_PER_HOUR": "0",
    "LOG_LEVEL": "ERROR",
}


@dataclass(frozen=True)
class AttackedServer:
    """A server that listens, and its process."""

    port: int
    pid: int

    def memory_mb(self) -> float:
        """Resident memory."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def cpu_s(self) -> float:
        """CPU time since the start."""
        ticks = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


@contextmanager
def attacked_server(command: str, folder: Path, **settings: str) -> Iterator[AttackedServer]:
    """Run `python -m COMMAND` until the end of the block."""
    port = free_port()
    (folder / "sails.md").write_text("# Solar sails\n\nSolar sails are pushed by light.\n")
    environment = {
        **os.environ,
        **SETTINGS,
        "LLM_PLATFORM_DATA_DIR": str(folder / "data"),
        "DOCUMENTS_DIR": str(folder),
    }
    words = [sys.executable, "-m", *shlex.split(command.format(port=port))]
    process = subprocess.Popen(words, env={**environment, **settings}, text=True)
    with stopped_at_the_end(process):
        wait_until(lambda: answers(port) or process.poll() is not None, START_S)
        if process.poll() is not None:
            raise SystemExit(f"{words[2]} did not start")
        yield AttackedServer(port, process.pid)
