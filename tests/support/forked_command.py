"""Commands as processes that are forked from one which has imported the program: each starts in a tenth of a second."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path
from unittest.mock import patch

from modules.llm_platform.__main__ import wiring
from modules.llm_platform.container import build_platform  # noqa: F401  imported before the fork
from modules.llm_platform.presentation.cli.main import run
from modules.llm_platform.presentation.rest import server  # noqa: F401  imported before the fork

ROOT = Path(__file__).resolve().parents[2]
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([__name__])


@dataclass(frozen=True)
class ForkedCommand:
    """A running command. `output` is the file of its standard output, `errors` that of its errors."""

    process: BaseProcess
    output: Path
    errors: Path

    @property
    def pid(self) -> int:
        return self.process.pid or 0

    @property
    def returncode(self) -> int | None:
        """The exit code, minus the signal that ended it; None while it runs."""
        return self.process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def terminate(self) -> None:
        self.process.terminate()

    def kill(self) -> None:
        self.process.kill()

    @property
    def has_failed(self) -> bool:
        """Whether it ended by itself, and not well."""
        return (self.process.exitcode or 0) > 0

    async def wait(self) -> int:
        """Wait for its end, and return its exit code. Only one caller waits at a time."""
        ended, loop = asyncio.Event(), asyncio.get_running_loop()
        loop.add_reader(self.process.sentinel, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(self.process.sentinel)
        await asyncio.to_thread(self.process.join)
        return self.process.exitcode or 0


@asynccontextmanager
async def forked(arguments: Sequence[str], env: Mapping[str, str], errors: Path) -> AsyncIterator[ForkedCommand]:
    """The command in a process of its own, which is killed with SIGKILL at the end of the block if it runs then."""
    output = errors.with_suffix(".output")
    errors.parent.mkdir(parents=True, exist_ok=True)
    errors.write_bytes(b"")  # an address of an earlier server may stand there
    _start_fork_server()
    process = FORKS.Process(target=_run, args=(tuple(arguments), dict(env), output, errors))
    process.start()
    command = ForkedCommand(process, output, errors)
    try:
        yield command
    finally:
        process.kill()
        await command.wait()


@cache
def _start_fork_server() -> None:
    """Python 3.11 does not tell the fork server our path, and then it imports nothing before a fork, without a word:
    https://github.com/python/cpython/issues/117378
    """
    path = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(ROOT / "src"), str(ROOT)])
    with patch.dict(os.environ, PYTHONPATH=path):
        forkserver.ensure_running()


def _run(arguments: Sequence[str], env: Mapping[str, str], output: Path, errors: Path) -> None:
    os.environ.clear()
    os.environ.update(env)
    for number, path in ((1, output), (2, errors)):
        with path.open("wb") as file:
            os.dup2(file.fileno(), number)
    code = run(arguments, wiring())
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
