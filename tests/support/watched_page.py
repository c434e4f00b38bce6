"""A page on loopback that a test edits, and a receiver of webhooks, for tests of watched questions."""

from __future__ import annotations

import asyncio
import base64
import json
from collections import Counter
from typing import Any

from tests.support.loopback_upstream import Exchange, head

QUESTION = "What is the toll on the harbour bridge?"
TOLL = "The toll on the harbour bridge is 12 euros for a car."
NEW_TOLL = "The toll on the harbour bridge is 14 euros for a car."
HOURS = "The bridge is open from 6 in the morning until 11 at night, and lorries need a permit of the port authority."
BUILT = "It was built in 1961 by engineers of the port, and it is repainted every seven years."
SECRET = f"whsec_{base64.b64encode(bytes(range(32))).decode()}"


def page(*paragraphs: str, before: str = "", after: str = "") -> str:
    text = "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs)
    main = f"<main><h1>Harbour bridge</h1>{text}</main>"
    return f"<html><head><title>Harbour bridge</title></head><body>{before}{main}{after}</body></html>"


FIRST = page(TOLL, HOURS, BUILT)
COSMETIC = (
    page(
        TOLL.replace("The toll on the harbour bridge is 12 euros", "On the harbour bridge the toll is 12 euros"),
        HOURS,
        BUILT,
    ),
    page(HOURS, BUILT, TOLL),
    page(BUILT, TOLL, HOURS),
    page(TOLL, HOURS, BUILT, before="<nav><a href='/a'>Home</a> <a href='/b'>Contact</a></nav>"),
    page(TOLL, HOURS, BUILT, after="<footer>Copyright 2026 The port authority</footer>"),
    page(TOLL, HOURS, BUILT, "Book your ferry now and save 20 percent on the second ticket!"),
    page(f"{TOLL} {HOURS} {BUILT}"),
    page(f"<strong>{TOLL}</strong>", f"<em>{HOURS}</em>", BUILT),
    page(TOLL, HOURS, BUILT, before="<div>Today is Thursday.</div>"),
    page(TOLL, f"{HOURS} See the map for the way to the office.", BUILT),
)
CHANGED = page(NEW_TOLL, HOURS, BUILT)


class World:
    """Serves `html` at `/bridge`, and takes webhooks at `/hook`.

    While `is_silent`, requests for the page are not answered, and while `is_deaf`, webhooks are not. `reached` is then
    set.
    """

    def __init__(self, html: str = FIRST) -> None:
        self.html: str | None = html
        self.reads = 0
        self.is_silent = self.is_deaf = False
        self.reached = asyncio.Event()
        self.told: list[dict[str, Any]] = []
        self.ids: Counter[str] = Counter()

    async def handle(self, exchange: Exchange) -> None:
        if exchange.path == "/hook":
            self.told.append(json.loads(exchange.body))
            self.ids[exchange.headers["webhook-id"]] += 1
            if self.is_deaf:
                await self._wait(exchange)
            await exchange.send(head(204))
            return
        self.reads += exchange.path == "/bridge"
        if self.is_silent:
            await self._wait(exchange)
        body, status = ((self.html or "").encode(), 200 if self.html else 503)
        await exchange.send(head(status, "Content-Type: text/html; charset=utf-8", length=len(body)) + body)

    async def _wait(self, exchange: Exchange) -> None:
        self.reached.set()
        await exchange.reader.read()
        raise ConnectionResetError
