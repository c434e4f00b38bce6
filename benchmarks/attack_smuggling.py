"""Request smuggling, tried on a server of one's own over loopback: no byte of a body may be read as a request.

    python -m benchmarks.attack_smuggling                          # starts `llm-platform serve`
    python -m benchmarks.attack_smuggling --command "uvicorn modules.llm_platform.asgi:app --port {port}"

Each case is one connection. A request that is hidden in a body has the request id `smuggled`, so an answer with this id shows
that it reached a handler. Prints a line for each case; exit code 1 if a hidden request was answered, or if a head or a chunk
that two readers may read differently was accepted. Then servers that refuse early, with 401 and
429, are tried. Ends by itself in two minutes.
"""

from __future__ import annotations

import argparse
import re
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.attacked_server import SERVE, attacked_server

ANSWER_S = 10.0
QUIET_S = 0.7  # time without a byte: the server waits for more
HIDDEN = b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Request-ID: smuggled\r\n\r\n"
HOST = b"Host: localhost\r\n"
JSON = b"Content-Type: application/json\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
QUESTION = b'{"query": "solar sails"}'
KEY = "a-key-of-another-client-0123456789"
REFUSALS: dict[int, dict[str, str]] = {  # the answer, before the body is read, of a server with these settings
    401: {"LLM_PLATFORM_API_KEYS": KEY},
    429: {"RATE_LIMIT_PER_MINUTE": "1", "RATE_LIMIT_BURST": "1"},
}
EARLY = (  # answered before the body is read
    b"PUT /health",
    b"POST /nothing",
    b"GET /health",
    b"DELETE /research",
    b"POST /page/main.js",
)


@dataclass(frozen=True)
class Attack:
    """Parts that are sent one after the other; after the first, the client waits for an answer if `waits`."""

    name: str
    parts: tuple[bytes, ...]
    is_ambiguous: bool = False  # must be refused
    waits: bool = True


FIRST = Attack("first", (b"POST /search HTTP/1.1\r\n" + HOST + b"Content-Length: 0\r\nConnection: close\r\n\r\n",))


@dataclass(frozen=True)
class Outcome:
    """The statuses that came, and whether the hidden request was answered."""

    statuses: tuple[int, ...]
    is_smuggled: bool
    is_closed: bool


def attacks() -> Iterator[Attack]:
    for start in EARLY:
        yield from _early(start)
    yield from _ambiguous_heads()
    yield from _ambiguous_chunks()


def refused_attacks() -> Iterator[Attack]:
    """For a server of REFUSALS, after a first request, which it may take."""
    for start in (b"POST /research", b"POST /search", b"DELETE /research/threads/x"):
        yield from _early(start)


def _early(start: bytes) -> Iterator[Attack]:
    name = start.decode()
    head = start + b" HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n"
    yield Attack(f"{name}: a request in the late body", (head % len(HIDDEN), HIDDEN))
    next_head = b"POST /nothing HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % len(HIDDEN)
    body = b"\r\nUpgrade:" + b"x" * (len(next_head) - len(b"\r\nUpgrade:"))  # as long as the head that is to vanish
    yield Attack(f"{name}: an Upgrade line in the late body", (head % len(body), body, next_head + HIDDEN))
    chunk = b"%x\r\n%b\r\n0\r\n\r\n" % (len(HIDDEN), HIDDEN)
    yield Attack(f"{name}: a request in late chunks", (start + b" HTTP/1.1\r\n" + HOST + CHUNKED + b"\r\n", chunk))


def _post(headers: bytes, body: bytes) -> tuple[bytes]:
    return (b"POST /research HTTP/1.1\r\n" + JSON + headers + b"\r\n" + body,)


def _ambiguous_heads() -> Iterator[Attack]:
    length = b"Content-Length: %d\r\n" % len(QUESTION)
    heads = {
        "CL.TE": (length + CHUNKED, b"0\r\n\r\n" + HIDDEN),
        "TE.CL": (CHUNKED + b"Content-Length: 4\r\n", b"%x\r\n%b\r\n0\r\n\r\n" % (len(HIDDEN), HIDDEN)),
        "Content-Length twice": (length + b"Content-Length: 0\r\n", QUESTION),
        "equal Content-Length twice": (length * 2, QUESTION),
        "a list of lengths": (b"Content-Length: 24, 24\r\n", QUESTION),
        "a signed length": (b"Content-Length: +24\r\n", QUESTION),
        "a length in hex": (b"Content-Length: 0x18\r\n", QUESTION),
        "blank before the colon": (length + b"Transfer-Encoding : chunked\r\n", b"0\r\n\r\n" + HIDDEN),
        "chunked twice": (CHUNKED * 2, b"0\r\n\r\n" + HIDDEN),
        "another coding": (b"Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n" + HIDDEN),
        "chunked is not last": (b"Transfer-Encoding: chunked, identity\r\n", b"0\r\n\r\n" + HIDDEN),
        "folded header": (b"Transfer-Encoding:\r\n chunked\r\n" + length, b"0\r\n\r\n" + HIDDEN),
        "Host twice": (b"Host: evil.test\r\n" + length, QUESTION),
        "a header without a name": (b": x\r\n" + length, QUESTION),
        "NUL in a header": (b"X-A: a\x00b\r\n" + length, QUESTION),
    }
    for name, (headers, body) in heads.items():
        yield Attack(name, _post(HOST + headers, body), is_ambiguous=True)
    lines = b"POST /research HTTP/1.1\n" + (JSON + HOST + length).replace(b"\r\n", b"\n") + b"\n" + QUESTION
    yield Attack("LF only", (lines,), is_ambiguous=True)


def _ambiguous_chunks() -> Iterator[Attack]:
    size = b"%x" % len(QUESTION)
    bodies = {
        "no hexadecimal size": b"zz\r\n" + QUESTION + b"\r\n0\r\n\r\n",
        "negative size": b"-1\r\n" + QUESTION + b"\r\n0\r\n\r\n",
        "size that overflows": b"f" * 17 + b"\r\n" + QUESTION + b"\r\n0\r\n\r\n",
        "size in 0x": b"0x" + size + b"\r\n" + QUESTION + b"\r\n0\r\n\r\n",
        "blank before the size": b" " + size + b"\r\n" + QUESTION + b"\r\n0\r\n\r\n",
        "LF after the size": size + b"\n" + QUESTION + b"\r\n0\r\n\r\n",
        "LF in an extension": size + b";a\n" + QUESTION + b"\r\n0\r\n\r\n",
        "no end of the chunk": size + b"\r\n" + QUESTION + b"0\r\n\r\n",
        "LF after the chunk": size + b"\r\n" + QUESTION + b"\n0\r\n\r\n",
    }
    for name, body in bodies.items():
        yield Attack(f"chunk: {name}", _post(HOST + CHUNKED, body + HIDDEN), is_ambiguous=True)


def attempt(port: int, attack: Attack) -> Outcome:
    """Carry out the attack; the parts after the first are sent although the connection may be closed."""
    received, is_closed = b"", False
    with socket.create_connection(("127.0.0.1", port), ANSWER_S) as connection:
        for part in attack.parts:
            try:
                connection.sendall(part)
            except OSError:
                is_closed = True
                break
            more, is_closed = _read(connection)
            received += more
        if not is_closed:
            more, is_closed = _read(connection)
            received += more
    statuses = tuple(int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", received) if status != b"100")
    return Outcome(statuses, b"x-request-id: smuggled" in received.lower(), is_closed)


def _read(connection: socket.socket) -> tuple[bytes, bool]:
    """Return what comes until the server is quiet, and whether it closed the connection."""
    received = b""
    connection.settimeout(QUIET_S)
    until = time.monotonic() + ANSWER_S
    try:
        while time.monotonic() < until:
            part = connection.recv(1 << 16)
            if not part:
                return received, True
            received += part
    except TimeoutError:
        return received, False
    except OSError:
        return received, True
    return received, False


def fault(attack: Attack, outcome: Outcome) -> str:
    """Return what is wrong with the outcome; empty if it is right."""
    if outcome.is_smuggled:
        return "the hidden request was answered"
    if attack.is_ambiguous and any(status < 400 for status in outcome.statuses):
        return "accepted"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description="Request smuggling against a server of one's own, over loopback.")
    parser.add_argument("--command", default=SERVE, help="starts the server; {port} is replaced")
    command: str = parser.parse_args().command
    faults = 0
    for settings in ({}, *REFUSALS.values()):
        with TemporaryDirectory() as folder, attacked_server(command, Path(folder), **settings) as server:
            if settings:
                print(f"with {', '.join(settings)}:")
                attempt(server.port, FIRST)
            for attack in refused_attacks() if settings else attacks():
                outcome = attempt(server.port, attack)
                found = fault(attack, outcome)
                faults += bool(found)
                print(f"{'FAULT' if found else 'ok':5} {attack.name}: {list(outcome.statuses)} {found}", flush=True)
    print(f"{faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
