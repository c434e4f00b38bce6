"""Keeps a Python process on this machine: whatever would leave it raises before a packet is sent.

An audit hook and not a patched `socket`: it also sees sockets that C code opens, and no library can undo it.
Names under `.invalid` and `.test` (reserved by RFC 6761: they never exist) fail to resolve as they would anywhere,
so that a test of a wrong address needs no net. Everything else beyond loopback raises ReachedOut, which no code of
ours expects and therefore cannot take for a failure of an upstream.
"""

from __future__ import annotations

import ipaddress
import socket
import sys
from collections.abc import Callable
from typing import Any

LOCAL_NAMES = frozenset({"", "localhost", "ip6-localhost", "localhost.localdomain", "0.0.0.0", "::"})
NEVER_EXIST = (".invalid", ".test")
CONNECTING = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
RESOLVING = frozenset({"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"})

admitted: set[str] = set()  # names and addresses of the service that a live test was given, as long as it runs
attempts: list[str] = []  # also those whose error was swallowed: the fixture in conftest.py fails the test for them


class ReachedOut(RuntimeError):  # noqa: N818  it says what happened
    """Something tried to leave this machine."""


def install() -> None:
    """From now on this process stays on loopback. Once for each process: an audit hook cannot be taken away."""
    sys.addaudithook(_watch)


def _watch(event: str, args: tuple[Any, ...], is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
    if is_finalizing():
        return  # no test runs any more, and the names of this module may be gone before the last socket is
    if event in CONNECTING:
        address = args[1]
        if isinstance(address, tuple) and not _is_local(str(address[0])):
            _refuse(f"{address[0]} port {address[1]}")
    elif event in RESOLVING:
        _check_name(args[0])


def _check_name(host: object) -> None:
    name = host.decode("ascii", "replace") if isinstance(host, (bytes, bytearray)) else host
    if not isinstance(name, str) or _is_local(name) or _is_address(name):
        return  # an address needs no resolver; connecting to it is checked when it happens
    if name.rstrip(".").lower().endswith(NEVER_EXIST):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    if name.lower() != socket.gethostname().lower():
        _refuse(name)


def _refuse(target: str) -> None:
    attempts.append(target)
    raise ReachedOut(f"a test tried to reach {target}: only loopback is allowed; use a fake or a loopback server")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.split("%", 1)[0])
    except ValueError:
        return False
    return True


def _is_local(host: str) -> bool:
    if host in admitted or host.lower() in LOCAL_NAMES or host.lower().endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host.split("%", 1)[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)
