"""Runs a command that ends with its starter: the end of standard input terminates the command.

    python -m tests.kafka.child_process java …

The first line of standard output is the process id of the command; its exit code is returned.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading

GRACE_S = 30.0


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
