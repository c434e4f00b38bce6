"""One `POST /verify` as an amplifier, tried on a server of one's own over loopback: what other servers get of it.

    python -m benchmarks.attack_verify_fanout

Four hosts of the attacker (127.0.0.2 to 127.0.0.5) redirect each page four times, the last time to a page of a fifth host, the
victim (127.0.0.9). Texts cite 160 and 200 such pages, 10 pages without a redirect, and 20 without. Prints for each text the
requests that all hosts and the victim got, the states of the sources, and how many requests the rate limit of the caller, with
its default settings, has counted. Exit code 1 if the victim got more than MAX_PAGES_PER_HOST requests, or a caller with ordinary
texts was refused a source. Ends by itself in two minutes.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.attacked_server import SERVE, attacked_server

ATTACKERS = ("127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5")
VICTIM = "127.0.0.9"
REDIRECTS = 4  # on the hosts of the attacker, before the one to the victim
MAX_PAGES_PER_HOST = 60
PAGE = b"<html><title>Tea</title><body><p>Tea is a drink that is made of leaves and water.</p></body></html>"
ANSWER_S = 150.0
DEFAULT_LIMITS = {"RATE_LIMIT_PER_MINUTE": "30", "RATE_LIMIT_BURST": "5", "RATE_LIMIT_GLOBAL_PER_HOUR": "1000"}


@dataclass(frozen=True)
class Text:
    """A text that cites `pages` pages, each with redirects to the victim or none."""

    name: str
    pages: int
    redirects: int
    is_ordinary: bool = False

    def body(self, port: int) -> bytes:
        addresses = [
            f"http://{ATTACKERS[number % len(ATTACKERS)]}:{port}/{self.redirects}/{self.name}/{number}"
            for number in range(self.pages)
        ]
        sentences = [f"Tea number {number} is a drink [{number}]." for number in range(1, self.pages + 1)]
        entries = [f"[{number}] {address}" for number, address in enumerate(addresses, 1)]
        return json.dumps({"text": "\n\n".join((" ".join(sentences), "\n".join(entries)))}).encode()


TEXTS = (
    Text("10-pages", 10, 0, is_ordinary=True),
    Text("20-pages", 20, 0, is_ordinary=True),
    Text("160-redirects", 160, 1),
    Text("200-long-redirects", 200, REDIRECTS + 1),
)


class Hosts(BaseHTTPRequestHandler):
    """Pages of all hosts. `seen` counts requests by host."""

    protocol_version = "HTTP/1.1"
    seen: ClassVar[Counter[str]] = Counter()

    def do_GET(self) -> None:
        host, _, port = self.headers["Host"].partition(":")
        self.seen[host] += 1
        left, *rest = self.path.strip("/").split("/")
        if left.isdigit() and int(left):
            target = VICTIM if int(left) == 1 else host
            self.send_response(302)
            self.send_header("Location", f"http://{target}:{port}/{int(left) - 1}/{'/'.join(rest)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *arguments: object) -> None:
        """Print nothing: thousands of requests come."""


@contextmanager
def serving() -> Iterator[int]:
    """Yield the port at which all hosts answer."""
    server = ThreadingHTTPServer(("127.0.0.2", 0), Hosts)
    port = server.server_address[1]
    servers = [server, *(ThreadingHTTPServer((host, port), Hosts) for host in (*ATTACKERS[1:], VICTIM))]
    for each in servers:
        threading.Thread(target=each.serve_forever, daemon=True).start()
    try:
        yield port
    finally:
        for each in servers:
            each.shutdown()
            each.server_close()


def remaining(port: int) -> int:
    """Return how many requests the limit of the caller still allows at once. This request is counted, too."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/research", timeout=ANSWER_S) as answer:
            headers = answer.headers
    except urllib.error.HTTPError as error:  # 429
        headers = error.headers
    return int(headers["RateLimit"].partition("r=")[2].partition(";")[0])


def attack(text: Text, port: int, pages_port: int) -> bool:
    """Send the text, print what came of it, and return whether all is as it should be."""
    Hosts.seen.clear()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/verify", text.body(pages_port), {"Content-Type": "application/json"}
    )
    began = time.monotonic()
    with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
        counts = json.load(answer)["counts"]
    seconds = time.monotonic() - began
    states = {name: counts[name] for name in ("read", "refused", "late", "dead", "no_text") if counts[name]}
    victim = Hosts.seen[VICTIM]
    print(
        f"{text.name}: {Hosts.seen.total()} requests to other servers, {victim} to the victim, sources {states}, "
        f"{seconds:.1f} s, then {remaining(port)} of 5 requests at once are left to the caller"
    )
    return victim <= MAX_PAGES_PER_HOST and (not text.is_ordinary or states == {"read": text.pages})


def main() -> int:
    with TemporaryDirectory() as folder, serving() as pages_port:
        settings = {
            **DEFAULT_LIMITS,
            "LLM_PLATFORM_OFFLINE": "false",
            "READER_ALLOWED_HOSTS": "127.0.0.0/8",
            "READERS": "direct",
        }
        with attacked_server(SERVE, Path(folder), **settings) as server:
            results = []
            for text in TEXTS:
                time.sleep(10.0)  # fills the bucket of the caller
                results.append(attack(text, server.port, pages_port))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
