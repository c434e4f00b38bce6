"""Limits of this process: CPU time and time for one document, memory and files, no environment and no network."""

import contextlib
import ctypes
import signal
from collections.abc import Iterator
from types import FrameType

CPU_SECONDS = 10.0  # CPU time for one document; on a busy machine, the elapsed time is a multiple of it
WALL_SECONDS = 60.0  # elapsed time for one document; only a parser that waits without computing takes that long
MEMORY_BYTES = 380_000_000  # address space, in which a page of 5 MB with 300,000 tags fits
MAX_WRITTEN_BYTES = 1_000_000  # largest file: a compiled module of a library is one
MAX_OPEN_FILES = 64
OOM_SCORE = 900  # highest is 1000: where memory runs out, the kernel ends a parser before the server

_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_PR_SET_NO_NEW_PRIVS = 38


class OutOfTimeError(BaseException):
    """`cpu_limit` was exceeded. Not an Exception, because libraries swallow those."""


@contextlib.contextmanager
def document_limits(cpu_seconds: float, wall_seconds: float) -> Iterator[None]:
    """End this process when a document takes too long, even if the parent has ended.

    SIGPROF limits the CPU time. Unlike SIGXCPU of RLIMIT_CPU, it writes no core dump and starts anew with each document.
    SIGALRM limits the elapsed time, one second after the limit that the parent enforces. Windows has neither signal.
    """
    if not hasattr(signal, "setitimer"):
        yield
        return
    signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
    signal.setitimer(signal.ITIMER_REAL, wall_seconds + 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


def measure_cpu_seconds_left() -> float:
    """Return the CPU time that `document_limits` leaves, in seconds. It is infinite outside of it."""
    left = signal.getitimer(signal.ITIMER_PROF)[0] if hasattr(signal, "getitimer") else 0.0
    return left or float("inf")


@contextlib.contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    """Raise OutOfTimeError when work in Python takes longer than this. Only in the parser's process, which has one thread."""
    if measure_cpu_seconds_left() == float("inf"):
        yield
        return
    signal.signal(signal.SIGVTALRM, _end_out_of_time)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _end_out_of_time(number: int, frame: FrameType | None) -> None:
    raise OutOfTimeError


def confine() -> None:
    """Give up the rights that a parser does not need, for this process, as far as the system permits.

    The process cannot start a program with more rights, or another process. It cannot reach a network if it may have a network
    namespace of its own, as root, or if users may create namespaces.
    """
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:  # noqa: PTH123
        file.write(str(OOM_SCORE))
    with contextlib.suppress(OSError, AttributeError, TypeError):  # only Linux has it
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if (
            libc.unshare(_CLONE_NEWNET) != 0
        ):  # only root may; the user namespace would take root's right to read all files
            libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET)
    try:
        import resource
    except ImportError:  # Windows
        return
    limits = {
        "RLIMIT_AS": MEMORY_BYTES,
        "RLIMIT_CORE": 0,
        "RLIMIT_FSIZE": MAX_WRITTEN_BYTES,
        "RLIMIT_NOFILE": MAX_OPEN_FILES,
        "RLIMIT_NPROC": 0,
    }
    for name, most in limits.items():
        # macOS does not support all of them; a lower limit stays.
        with contextlib.suppress(AttributeError, ValueError, OSError):
            resource.setrlimit(getattr(resource, name), (most, most))
