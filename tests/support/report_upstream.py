"""SearXNG, a reader and a model at one loopback address, for reports in separate processes."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from tests.support.loopback_upstream import Exchange, Loopback, head
from tests.support.report_world import ReportModel, some_pages, stage_of

from modules.llm_platform.domain.dtos.llm_dtos import ChatMessage, LLMRequest

TEXT = "Heat pumps move heat. Heat pumps work in cold winters, down to some 25 degrees below zero. "
TITLES = list(some_pages(12).values())


@dataclass
class Upstream:
    """SearXNG, the reader and the model on one address. From request number `silent_from` on nobody is answered, and no page is
    sent from page number `silent_pages_from` on. After `most_answers` answers there are no more, whatever arrives at once.

    `faults` say what "search", "read", "page" and "model" do instead: a status, "hang", "reset" or "garbage".
    """

    silent_from: int = 10_000
    silent_pages_from: int = 10_000
    most_answers: int = 10_000
    faults: Mapping[str, str] = field(default_factory=dict)
    answered: Counter[str] = field(default_factory=Counter)
    under_way: int = 0
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    seen: int = 0
    _model: ReportModel = field(default_factory=ReportModel)

    async def handle(self, exchange: Exchange) -> None:
        self.seen += 1
        self.under_way += 1
        try:
            await self._handle(exchange)
        finally:
            self.under_way -= 1

    async def _handle(self, exchange: Exchange) -> None:
        if self.seen > self.silent_from:
            self.reached.set()
            await exchange.reader.read()
            return
        await asyncio.sleep(0.01)
        if fault := self.faults.get(_part(exchange.path)):
            await _misbehave(exchange, fault)
            return
        name, body, kind = await self._answer(exchange)
        if self.answered.total() >= self.most_answers:
            self.reached.set()
        pages = sum(part.startswith("read ") for part in self.answered)
        if self.reached.is_set() or (name.startswith("read ") and pages >= self.silent_pages_from):
            await exchange.reader.read()
            return
        self.answered[name] += 1
        await exchange.send(head(200, f"Content-Type: {kind}", length=len(body)) + body)

    async def _answer(self, exchange: Exchange) -> tuple[str, bytes, str]:
        if exchange.path.startswith("/search"):
            query = exchange.form["q"]
            site = f"http://{exchange.headers['host']}/pages"
            results = [
                {"url": f"{site}/{number}", "title": title, "content": f"About {title}."}
                for number, title in enumerate(TITLES)
            ]
            found = {"query": query, "results": results, "unresponsive_engines": []}
            return f"search {query}", json.dumps(found).encode(), "application/json"
        if exchange.path.startswith("/r/"):
            url = unquote(exchange.path.removeprefix("/r/"))
            title = TITLES[int(url.rpartition("/")[2])]
            text = f"Title: {title}\n\nURL Source: {url}\n\nMarkdown Content:\n{TEXT} {title} says so."
            return f"read {url}", text.encode(), "text/plain"
        if exchange.path.startswith("/pages/"):
            title = TITLES[int(exchange.path.rpartition("/")[2])]
            page = f"<html><title>{title}</title><body><h1>{title}</h1><p>{TEXT * 10}</p></body></html>"
            return f"page {exchange.path}", page.encode(), "text/html"
        asked = exchange.json
        messages = tuple(ChatMessage(**message) for message in asked["messages"])
        request = LLMRequest(messages=messages)
        answer = await self._model.generate(request)
        digest = hashlib.sha256(exchange.body).hexdigest()[:8]
        name = f"{stage_of(request)} {digest}"
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        if asked.get("stream"):
            delta = {"role": "assistant", "content": answer.content}
            chunk = {"choices": [{"index": 0, "delta": delta, "finish_reason": "stop"}]}
            frames = [json.dumps(chunk), json.dumps({"choices": [], "usage": usage}), "[DONE]"]
            return name, "".join(f"data: {frame}\n\n" for frame in frames).encode(), "text/event-stream"
        message = {"role": "assistant", "content": answer.content}
        whole = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}
        return name, json.dumps(whole).encode(), "application/json"


def _part(path: str) -> str:
    return {"search": "search", "r": "read", "pages": "page"}.get(path.split("/")[1].partition("?")[0], "model")


async def _misbehave(exchange: Exchange, fault: str) -> None:
    if fault == "hang":
        await exchange.reader.read()
    elif fault == "reset":
        exchange.writer.transport.abort()
    elif fault == "garbage":
        await exchange.send(head(200, "Content-Type: application/json", length=8) + b"{broken!")
    else:
        await exchange.send(head(int(fault), "Content-Type: text/plain", length=0))


def environment(loopback: Loopback, data: Path) -> Mapping[str, str]:
    return {**os.environ, **report_settings(loopback, data)}


def report_settings(loopback: Loopback, data: Path) -> dict[str, str]:
    return {
        "SEARXNG_URL": loopback.url,
        "LLM_BASE_URL": f"{loopback.url}/v1",
        "LLM_API_KEY": "k",
        "LLM_MODEL": "scripted",
        "JINA_BASE_URL": f"{loopback.url}/r",
        "LLM_RPS": "1000",
        "SEARXNG_RPM": "60000",
        "JINA_RPS": "1000",
        "READER_ALLOWED_HOSTS": "127.0.0.1",
        "LLM_PLATFORM_DATA_DIR": str(data),
        "RATE_LIMIT_PER_MINUTE": "0",
    }
