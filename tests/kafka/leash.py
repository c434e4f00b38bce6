"""Runs a command that cannot outlive who started it: when our standard input ends, so does the command.

    python -m tests.kafka.leash java …

The first line on standard output is the command's process id; its exit code is ours.
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
