"""Texts of models and people that freeze or fill a server, tried on a server of one's own over loopback.

    python -m benchmarks.attack_texts
    python -m benchmarks.attack_texts --only addresses --source /path/to/another/checkout/src

Sends each text to `POST /verify` while another client asks `GET /health`. Prints the status and the time of the answer, its
size, the longest time that health took, and the growth of the memory; exit code 1 if health took longer than a second or the
memory grew by more than the limit. Ends by itself: a text gets a minute.
"""

from __future__ import annotations

import argparse
import json
import random
import string
import sys
import threading
import time
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.attacked_server import SERVE, AttackedServer, attacked_server

LIMIT_S = 60.0
MAX_HEALTH_S = 1.0
MAX_GROWTH_MB = 64.0
ARCHIVED = "https://web.archive.org/web/2020/https://site{number}.example/page"


def verification(text: str, sources: int = 1, source: str = "Sales rose by 5 %.") -> dict[str, Any]:
    return {"text": text, "sources": [{"index": number, "text": source} for number in range(1, sources + 1)]}


def addresses(count: int) -> dict[str, Any]:
    listed = ";".join(ARCHIVED.format(number=number) for number in range(count))
    return verification(f"Sales rose (see {listed} and others). It is so [1].")


def acronyms() -> dict[str, Any]:
    """Return 6.8 kB of acronyms against 800 kB of sources."""
    chosen = random.Random(1)
    words = (" ".join("".join(chosen.choices(string.ascii_lowercase, k=5)) for _ in range(33_000)) for _ in range(4))
    text = " ".join("".join(chosen.choices(string.ascii_uppercase, k=4)) for _ in range(1360))
    sentences = ". ".join(text[at : at + 200] for at in range(0, len(text), 200))
    return {"text": sentences, "sources": [{"index": at, "text": source} for at, source in enumerate(words, 1)]}


ATTACKS = {
    "nothing": lambda: verification("Sales rose by 5 % [1]."),
    "10 addresses in open parentheses": lambda: addresses(10),
    "16 addresses in open parentheses": lambda: addresses(16),
    "[1-50] in 400 sentences": lambda: verification("Sales rose by 5 % [1-50]. " * 400, 50),
    "[1-200] in 400 sentences": lambda: verification("Sales rose by 5 % [1-200]. " * 400, 200),
    "32,000 question marks": lambda: verification("Sales rose" + "?" * 32_000 + "x [1]."),
    "100,000 underscores in a source": lambda: verification(
        "Sales rose by 5 % [1].", source="_" * 100_000 + " Sales rose."
    ),
    "100,000 blanks in a source": lambda: verification("Sales rose by 5 % [1].", source="a" + " \n" * 50_000 + "b"),
    "acronyms against 800 kB": acronyms,
}


class Watch(threading.Thread):
    """Asks for the health of a server again and again. `longest_s` is the longest time that it took."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._port, self._ended = port, threading.Event()
        self.longest_s = 0.0
        self.start()

    def run(self) -> None:
        while not self._ended.wait(0.05):
            began = time.monotonic()
            self.longest_s = max(self.longest_s, LIMIT_S if ask(self._port, "GET", "/health", None)[0] == 0 else 0.0)
            self.longest_s = max(self.longest_s, time.monotonic() - began)

    def end(self) -> float:
        self._ended.set()
        self.join(LIMIT_S)
        return self.longest_s


def ask(port: int, method: str, path: str, body: dict[str, Any] | None) -> tuple[int, int]:
    """Return the status and the size of an answer; 0 without one."""
    connection = HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    try:
        connection.request(method, path, json.dumps(body) if body else None, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, len(answer.read())
    except OSError:
        return 0, 0
    finally:
        connection.close()


def attack(server: AttackedServer, name: str) -> bool:
    """Send a text, print what came, and return whether the server stayed as it was."""
    body, before = ATTACKS[name](), server.memory_mb()
    watch, began = Watch(server.port), time.monotonic()
    status, size = ask(server.port, "POST", "/verify", body)
    took, health = time.monotonic() - began, watch.end()
    growth = server.memory_mb() - before
    answer = f"{status or '-':>4} {took:7.2f} s {size / 1e6:7.2f} MB"
    print(f"{name:34} {answer}   health {health:6.2f} s   memory {growth:+6.0f} MB", flush=True)
    return status != 0 and health < MAX_HEALTH_S and growth < MAX_GROWTH_MB


def main() -> int:
    parser = argparse.ArgumentParser(description="Hostile texts against a server of one's own, over loopback.")
    parser.add_argument("--command", default=SERVE, help="starts the server; {port} is replaced")
    parser.add_argument("--only", default="", help="a part of the name of an attack")
    parser.add_argument("--source", help="the folder src of another checkout, to compare with")
    options = parser.parse_args()
    settings = {"PYTHONPATH": options.source} if options.source else {}
    has_held = True
    for name in [name for name in ATTACKS if options.only in name]:
        with TemporaryDirectory() as folder, attacked_server(options.command, Path(folder), **settings) as server:
            ask(server.port, "POST", "/verify", ATTACKS["nothing"]())  # what a server loads at its first request
            has_held = attack(server, name) and has_held
    return 0 if has_held else 1


if __name__ == "__main__":
    sys.exit(main())
