"""Pipelined requests whose answers are never read, tried on a server of one's own over loopback: its memory stays bounded.

    python -m benchmarks.attack_pipelining
    python -m benchmarks.attack_pipelining --seconds 60 --connections 1

Each connection sends small requests without a key as fast as the server reads, and reads nothing. Prints the resident memory of
the server before, at its highest, and after; exit code 1 if it grew by more than the limit. Ends by itself.
"""

from __future__ import annotations

import argparse
import select
import socket
import sys
import time
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.attacked_server import SERVE, AttackedServer, attacked_server

REQUESTS = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" * 2000
MAX_GROWTH_MB = 64.0  # the server's own background work included
# Requests of a client that reads its answers; what a server loads at its first requests is loaded then.
WARM_REQUESTS = 300
AFTER_S = 5.0


def attack(server: AttackedServer, seconds: float, connections: int) -> tuple[float, float]:
    """Return the MB that were sent, and the highest memory."""
    sockets = [_connection(server.port) for _ in range(connections)]
    unsent = dict.fromkeys(sockets, REQUESTS)
    sent, highest, until = 0, server.memory_mb(), time.monotonic() + seconds
    while time.monotonic() < until:
        for ready in select.select([], list(unsent), [], 0.25)[1]:
            try:
                count = ready.send(unsent[ready])
            except OSError:  # the server closed the connection: a new one continues
                del unsent[ready]
                ready.close()
                unsent[_connection(server.port)] = REQUESTS
                continue
            sent += count
            unsent[ready] = unsent[ready][count:] or REQUESTS
        highest = max(highest, server.memory_mb())
    for connection in unsent:
        connection.close()
    return sent / 1e6, highest


def warm_up(port: int) -> None:
    """Ask as ordinary clients do."""
    connection = HTTPConnection("127.0.0.1", port)
    for _ in range(WARM_REQUESTS):
        connection.request("GET", "/health")
        connection.getresponse().read()
    connection.close()


def _connection(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setblocking(False)
    return connection


def main() -> int:
    parser = argparse.ArgumentParser(description="Pipelined requests against a server of one's own, over loopback.")
    parser.add_argument("--command", default=SERVE, help="starts the server; {port} is replaced")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--connections", type=int, default=1)
    options = parser.parse_args()
    with TemporaryDirectory() as folder, attacked_server(options.command, Path(folder)) as server:
        warm_up(server.port)
        before = server.memory_mb()
        sent, highest = attack(server, options.seconds, options.connections)
        time.sleep(AFTER_S)
        after = server.memory_mb()
    print(f"sent {sent:.1f} MB; memory {before:.0f} MB before, {highest:.0f} MB at its highest, {after:.0f} MB after")
    return 1 if highest - before > MAX_GROWTH_MB else 0


if __name__ == "__main__":
    sys.exit(main())
