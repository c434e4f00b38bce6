"""The ports of the servers that tests start."""

from __future__ import annotations

import socket
import subprocess
import sys

from tests.kafka.broker import ROOT
from tests.kafka.child_process import OUTGOING, free_port

PRINT_ONE = "from tests.kafka.child_process import free_port; print(free_port())"


def test_no_two_servers_and_no_connection_get_the_same_port() -> None:
    """No two test servers and no connection get the same port, in this or another process, even before a server
    listens.
    """
    mine = [free_port() for _ in range(20)]
    other = int(subprocess.check_output([sys.executable, "-c", PRINT_ONE], cwd=ROOT))
    assert len({*mine, other}) == 21
    assert not [port for port in mine if port in OUTGOING]
    with socket.create_server(("127.0.0.1", mine[0])):
        pass
