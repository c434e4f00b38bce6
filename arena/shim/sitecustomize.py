"""Names of the arena lead to loopback, and every other name to nothing, which is noted. Python imports this file at its start.

It does what lines in /etc/hosts and a firewall would do, without the rights of an administrator. It touches the lookup of names
and nothing else of a player. ARENA_STRANGERS is the file for the names of strangers; without it nothing is changed.
"""

import os
import socket

_LOCAL = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0", "::", ""})
_NOTES = os.environ.get("ARENA_STRANGERS")
_lookup = socket.getaddrinfo


def _getaddrinfo(host, *args, **options):  # type: ignore[no-untyped-def]
    name = host.decode("ascii", "replace") if isinstance(host, bytes) else host
    if name is None or name.lower().rstrip(".") in _LOCAL or name.startswith("127."):
        return _lookup(host, *args, **options)
    if name.lower().endswith(".test"):
        return _lookup("127.0.0.1", *args, **options)
    with open(_NOTES, "a", encoding="utf-8") as notes:  # noqa: PTH123
        notes.write(name + "\n")
    raise socket.gaierror(socket.EAI_NONAME, "not a host of the arena")


if _NOTES:
    socket.getaddrinfo = _getaddrinfo
    socket.gethostbyname = lambda host: _getaddrinfo(host, 0, socket.AF_INET)[0][4][0]
