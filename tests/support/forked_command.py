"""Processes that are forked from a process with the imported program, which start in a tenth of a second.

`forked` runs a command for an asyncio test, and `ForkedPython` replaces `subprocess.Popen([sys.executable, "-c", …])`.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache
from multiprocessing import connection, forkserver, reduction
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import IO, Any, Self
from unittest.mock import patch

from modules.llm_platform.container import build_platform  # noqa: F401  imported before the fork
from modules.llm_platform.presentation.cli.main import run  # noqa: F401  imported before the fork
from modules.llm_platform.presentation.rest import server  # noqa: F401  imported before the fork

ROOT = Path(__file__).resolve().parents[2]
FORKS = multiprocessing.get_context("forkserver")
# The second module imports what some test programs need. The test processes themselves do not import it.
FORKS.set_forkserver_preload([__name__, "tests.support.forked_imports"])
# Programs whose arguments are the command line: `llm-platform` and `uvicorn`.
COMMAND_LINE = "from modules.llm_platform.__main__ import main; main()"
UVICORN = "import sys; sys.path.insert(0, ''); from uvicorn.main import main; main()"
PIPE = subprocess.PIPE
# The exit status of a process can be read once. Without this lock a thread that starts another process could read it too.
_ENDS = Lock()


@dataclass(frozen=True)
class ForkedCommand:
    """A running command. `output` is the file of its standard output, and `errors` the file of its standard error."""

    process: BaseProcess
    output: Path
    errors: Path

    @property
    def pid(self) -> int:
        return self.process.pid or 0

    @property
    def returncode(self) -> int | None:
        """The exit code, or minus the signal number, or None while the process runs."""
        return self.process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def terminate(self) -> None:
        self.process.terminate()

    def kill(self) -> None:
        self.process.kill()

    @property
    def has_failed(self) -> bool:
        """Whether the process ended by itself with an error."""
        return (self.process.exitcode or 0) > 0

    async def wait(self) -> int:
        """Wait for the end and return the exit code. Only one caller may wait at a time."""
        ended, loop = asyncio.Event(), asyncio.get_running_loop()
        loop.add_reader(self.process.sentinel, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(self.process.sentinel)
        await asyncio.to_thread(self.process.join)
        return self.process.exitcode or 0


@asynccontextmanager
async def forked(
    arguments: Sequence[str], env: Mapping[str, str], errors: Path, program: str = COMMAND_LINE
) -> AsyncIterator[ForkedCommand]:
    """Run the command in a separate process, which is killed with SIGKILL at the end of the block if it still runs."""
    output = errors.with_suffix(".output")
    errors.parent.mkdir(parents=True, exist_ok=True)
    errors.write_bytes(b"")  # the file might contain the address of an earlier server
    _start_fork_server()
    process = FORKS.Process(target=_run, args=(program, tuple(arguments), dict(env), output, errors))
    process.start()
    command = ForkedCommand(process, output, errors)
    try:
        yield command
    finally:
        process.kill()
        await command.wait()


@dataclass(frozen=True)
class _Descriptor:
    """A file descriptor that the fork inherits. Pickle returns its number in the fork."""

    number: int

    def __reduce__(self) -> tuple[Callable[[Any], int], tuple[Any]]:
        return _detach, (reduction.DupFd(self.number),)


def _detach(descriptor: Any) -> int:
    return int(descriptor.detach())


class ForkedPython:
    """`subprocess.Popen([sys.executable, "-c", program, *arguments], text=True, env=env, …)` without the start of Python and
    without the imports. Its methods are those of Popen. A stream is PIPE, a file or its number, or None for the null device.

    Python itself is not started: options of the interpreter, streams that are closed at the start and the imports of a
    program are for tests with a process of their own. With `warn_as_error` each warning is an error, as with `-W error`.
    """

    def __init__(
        self,
        program: str,
        *arguments: str | Path,
        env: Mapping[str, str] | None = None,
        cwd: str | Path = ".",
        stdin: int | None = None,
        stdout: int | IO[Any] | None = None,
        stderr: int | IO[Any] | None = None,
        warn_as_error: bool = False,
    ) -> None:
        _start_fork_server()
        null = os.open(os.devnull, os.O_RDWR)
        ours: list[IO[str] | None] = [None, None, None]
        theirs = [null, null, null]
        for number, stream in enumerate((stdin, stdout, stderr)):
            if stream == PIPE:
                ends = os.pipe()
                theirs[number] = ends[number > 0]
                ours[number] = os.fdopen(ends[number == 0], "w" if number == 0 else "r", encoding="utf-8")
            elif stream is not None:
                theirs[number] = os.dup(stream if isinstance(stream, int) else stream.fileno())
        self.stdin, self.stdout, self.stderr = ours
        words, streams = [*map(str, arguments)], [_Descriptor(number) for number in theirs]
        variables = dict(os.environ if env is None else env)
        self._process = FORKS.Process(
            target=_run_program, args=(program, words, variables, streams, str(cwd), warn_as_error)
        )
        try:
            with _ENDS:
                self._process.start()
        finally:
            for number in {*theirs, null}:
                os.close(number)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close_streams()
        self.wait()

    @property
    def pid(self) -> int:
        return self._process.pid or 0

    @property
    def returncode(self) -> int | None:
        with _ENDS:
            return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()

    def wait(self, timeout: float | None = None) -> int:
        connection.wait([self._process.sentinel], timeout)
        if (code := self.returncode) is None:
            raise subprocess.TimeoutExpired("forked program", timeout or 0.0)
        return code

    def communicate(self, input: str | None = None, timeout: float | None = None) -> tuple[str, str]:  # noqa: A002  as in Popen
        """Return the standard output and standard error until the end, or "" without a pipe."""
        if self.stdin is not None:
            with suppress(BrokenPipeError):  # the process may end without reading
                if input:
                    self.stdin.write(input)
                self.stdin.close()
        with ThreadPoolExecutor(2) as threads:
            texts = [threads.submit(stream.read) if stream else None for stream in (self.stdout, self.stderr)]
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()  # closing the streams lets the threads end
                raise
            out, err = (text.result() if text else "" for text in texts)
        self._close_streams()
        return out, err

    def _close_streams(self) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()


def run_forked(
    program: str,
    *arguments: str | Path,
    timeout: float,
    input: str = "",  # noqa: A002  as in subprocess.run
    env: Mapping[str, str] | None = None,
    cwd: str | Path = ".",
) -> subprocess.CompletedProcess[str]:
    """`subprocess.run` of a ForkedPython, whose output is captured."""
    with ForkedPython(program, *arguments, env=env, cwd=cwd, stdin=PIPE, stdout=PIPE, stderr=PIPE) as process:
        out, err = process.communicate(input, timeout)
    return subprocess.CompletedProcess(arguments, process.wait(), out, err)


@cache
def _start_fork_server() -> None:
    """Python 3.11 does not pass sys.path to the fork server, which then silently imports nothing before a fork:
    https://github.com/python/cpython/issues/117378
    """
    path = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(ROOT / "src"), str(ROOT)])
    with patch.dict(os.environ, PYTHONPATH=path):
        forkserver.ensure_running()


def _run(program: str, arguments: Sequence[str], env: Mapping[str, str], output: Path, errors: Path) -> None:
    written = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    streams = (os.open(os.devnull, os.O_RDONLY), os.open(output, written), os.open(errors, written))
    _run_program(program, arguments, env, streams)


def _run_program(
    program: str,
    arguments: Sequence[str],
    env: Mapping[str, str],
    streams: Sequence[int],
    cwd: str = ".",
    warn_as_error: bool = False,
) -> None:
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)
    sys.argv = ["llm-platform", *arguments]
    if warn_as_error:
        warnings.simplefilter("error")
    exec(compile(program, "<program of a test>", "exec"), {"__name__": "__main__"})
