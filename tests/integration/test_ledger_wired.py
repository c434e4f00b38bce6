"""The egress log of whole research runs on the wired platform: `metadata.sent_to` equals what the servers received."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.chat_server import completion, spoken
from tests.support.loopback_upstream import Exchange, Loopback, head, json_reply, reply, serving
from tests.support.reading_pages import html

from modules.llm_platform import LLMPlatform, ResearchRequest
from modules.llm_platform.container import build_platform
from modules.llm_platform.domain.dtos.sent import Sent
from modules.llm_platform.presentation.cli.render.terminal import NOTHING_SENT, render_egress_log
from shared.config import Settings

HERE, THERE = "127.0.0.1", "localhost"  # two names of this machine, which tell searches and pages from models
QUESTION = "What does the event loop run?"
MARK = "Zephyrine"  # appears only in results and pages
WORDS = f"The {MARK} event loop runs callbacks and tasks, one after the other."
SAID = "It runs callbacks [1]."  # appears only in the model's text
KEY = "sk-key-of-a-test-0123"


async def chat(exchange: Exchange) -> None:
    """A model with a constant answer that is neither a plan nor a ranking, so each stage falls back."""
    if exchange.json.get("stream"):
        body = b"".join(part for part in spoken(SAID).parts if isinstance(part, bytes))
        await exchange.send(head(200, "Content-Type: text/event-stream", length=len(body)) + body)
    else:
        await reply(200, completion(SAID), "Content-Type: application/json")(exchange)


@dataclass
class World:
    """A search engine, a site, a model and a page reader on loopback, and the platform that uses them."""

    search: Loopback
    site: Loopback
    model: Loopback
    jina: Loopback
    platform: LLMPlatform

    async def research(self, **wishes: Any) -> tuple[Sent, ...]:
        request = ResearchRequest.model_validate({"query": QUESTION, **wishes})
        return (await self.platform.research.research(request)).metadata.sent_to

    @property
    def asked(self) -> int:
        return sum(len(server.requests) for server in (self.search, self.site, self.model, self.jina))


@asynccontextmanager
async def world(folder: Path, *, model: bool = True, **settings: Any) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        site = await stack.enter_async_context(
            serving(reply(200, html(f"<h1>Loops</h1><p>{WORDS}</p>" * 20), "Content-Type: text/html"))
        )
        rows = [
            {"title": f"Page {n}", "url": f"{site.url}/{n}", "content": WORDS, "engine": "google"} for n in range(1, 4)
        ]
        search = await stack.enter_async_context(serving(json_reply({"results": rows})))
        talk = await stack.enter_async_context(serving(chat))
        jina = await stack.enter_async_context(
            serving(reply(200, f"Title: Loops\n\nMarkdown Content:\n{WORDS * 20}".encode(), "Content-Type: text/plain"))
        )
        models = {
            "LLM_API_KEY": KEY,
            "LLM_BASE_URL": talk.url.replace(HERE, THERE) + "/v1",
            "LLM_MODEL": "m",
            "LLM_RPS": 600_000,
        }
        said = {
            "SEARXNG_URL": search.url,
            "SEARXNG_RPM": 600_000,
            "READERS": "direct",
            "READER_ALLOWED_HOSTS": site.url.removeprefix("http://"),
            "JINA_BASE_URL": jina.url,
            "JINA_API_KEY": KEY,
            "LLM_PLATFORM_DATA_DIR": folder,
            **(models if model else {}),
        }
        platform = await stack.enter_async_context(build_platform(Settings(**(said | settings))))
        yield World(search, site, talk, jina, platform)


def sums(host: str, kind: Any, exchanges: Iterable[Exchange]) -> list[Sent]:
    """Return the expected log entries of requests whose bodies have one kind."""
    bodies = [len(exchange.body) for exchange in exchanges]
    return [Sent(host=host, kind=kind, requests=len(bodies), bytes=sum(bodies))] if bodies else []


def prompts(model: Loopback, *, with_pages: bool) -> list[Exchange]:
    return [exchange for exchange in model.requests if (MARK in exchange.body.decode()) is with_pages]


def by_place(entries: Iterable[Sent]) -> list[Sent]:
    return sorted(entries, key=lambda entry: (entry.host, entry.kind))


@pytest.mark.parametrize("depth", ["shallow", "deep"])
async def test_a_research_run_logs_what_its_servers_received(tmp_path: Path, depth: str) -> None:
    """Queries go to the engine and the planner, and texts to the writer.

    Requests and bytes equal what the servers received.
    """
    async with world(tmp_path) as there:
        ledger = await there.research(depth=depth)
    expected = sums(HERE, "query", there.search.requests)
    expected += sums(THERE, "query", prompts(there.model, with_pages=False))
    expected += sums(THERE, "page text", prompts(there.model, with_pages=True))
    assert list(ledger) == by_place(expected)
    assert len(prompts(there.model, with_pages=True)) == 1
    assert len(prompts(there.model, with_pages=False)) == (depth == "deep")


async def test_a_report_logs_what_its_servers_received(tmp_path: Path) -> None:
    """The site of the pages is logged too. Rankers, summarisers and writers get page text, and planners get a query."""
    async with world(tmp_path) as there:
        ledger = await there.research(depth="report")
    read = sum(len(f"{there.site.url}{exchange.path}") for exchange in there.site.requests)
    expected = sums(HERE, "query", there.search.requests)
    expected += [Sent(host=HERE, kind="url", requests=len(there.site.requests), bytes=read)]
    expected += sums(THERE, "query", prompts(there.model, with_pages=False))
    expected += sums(THERE, "page text", prompts(there.model, with_pages=True))
    assert list(ledger) == by_place(expected)
    assert {entry.kind for entry in ledger if entry.host == THERE} == {"query", "page text"}


async def test_a_page_reader_receives_addresses(tmp_path: Path) -> None:
    """With Jina only the reader's host gets the addresses, and the site is not requested."""
    async with world(tmp_path, model=False, READERS="jina") as there:
        ledger = await there.research(depth="report")
    told = sum(len(exchange.path) for exchange in there.jina.requests)
    urls = [entry for entry in ledger if entry.kind == "url"]
    assert urls == [Sent(host=HERE, kind="url", requests=len(there.jina.requests), bytes=told)]
    assert there.site.requests == []
    assert told > 0


async def test_a_report_from_the_store_sends_nothing(tmp_path: Path) -> None:
    """A replay requests no server, and its log is empty."""
    async with world(tmp_path) as there:
        first = await there.research(depth="report")
        asked = there.asked
        again = await there.research(depth="report")
        assert there.asked == asked
    assert first
    assert again == ()


async def test_cached_content_is_not_sent_again(tmp_path: Path) -> None:
    """A repeated shallow run uses the cached search and synthesis."""
    async with world(tmp_path) as there:
        assert await there.research()
        assert await there.research() == ()
        assert there.asked == 2


@pytest.mark.parametrize("depth", ["shallow", "report"])
async def test_what_was_sent_for_a_cached_answer_is_still_reported(tmp_path: Path, depth: str) -> None:
    """An answer from the cache or the store lists separately what was sent when it was made, also on the third request."""
    async with world(tmp_path) as there:
        request = ResearchRequest(query=QUESTION, depth=depth)
        made, *again = [(await there.platform.research.research(request)).metadata for _ in range(3)]
    assert (bool(made.sent_to), made.cached_sent_to) == (True, ())
    for metadata in again:
        assert (metadata.sent_to, metadata.cached_sent_to) == ((), made.sent_to)


async def test_cached_and_new_requests_are_logged_separately(tmp_path: Path) -> None:
    """At another depth, one search comes from the cache and is logged as sent earlier.

    The model requests are logged as sent now.
    """
    async with world(tmp_path) as there:
        await there.research()
        metadata = (await there.platform.research.research(ResearchRequest(query=QUESTION, depth="deep"))).metadata
    (earlier,) = [sent for sent in metadata.cached_sent_to if sent.host == HERE]
    assert (earlier.kind, earlier.requests) == ("query", 1)
    assert [sent for sent in metadata.sent_to if sent.host == THERE]


async def test_concurrent_runs_have_separate_logs(tmp_path: Path) -> None:
    """Concurrent runs over the same clients each log the bytes of their query and one writer call."""
    async with world(tmp_path) as there:
        queries = ["loop " + "x" * length for length in range(1, 13)]
        ledgers = await asyncio.gather(*(there.research(query=query) for query in queries))
    sent_for = {exchange.form["q"]: len(exchange.body) for exchange in there.search.requests}
    for query, ledger in zip(queries, ledgers, strict=True):
        asked = re.compile(f"{query}(?!x)")
        (mine,) = [exchange for exchange in there.model.requests if asked.search(exchange.body.decode())]
        assert list(ledger) == [
            Sent(host=HERE, kind="query", requests=1, bytes=sent_for[query]),
            Sent(host=THERE, kind="page text", requests=1, bytes=len(mine.body)),
        ]


@pytest.mark.parametrize("depth", ["shallow", "deep", "report"])
async def test_offline_nothing_is_sent(tmp_path: Path, depth: str) -> None:
    """An offline run over documents sends nothing to a configured engine, reader or API."""
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "loops.md").write_text(f"# Loops\n\n{WORDS}\n", encoding="utf-8")
    offline = {"LLM_PLATFORM_OFFLINE": True, "DOCUMENTS_DIR": notes, "LLM_BASE_URL": "https://model.invalid/v1"}
    async with world(tmp_path / "data", **offline) as there:
        request = ResearchRequest(query=QUESTION, depth=depth, sources=("documents",))
        answer = await there.platform.research.research(request)
    assert there.asked == 0
    assert answer.metadata.sent_to == ()
    assert answer.sources
    assert [line.text for line in render_egress_log(answer.metadata)][-1] == NOTHING_SENT


async def test_the_log_contains_no_secret(tmp_path: Path) -> None:
    """The log contains hosts, kinds and numbers, but no key, path or word of the question."""
    async with world(tmp_path) as there:
        ledger = await there.research(depth="report")
    text = json.dumps([entry.model_dump() for entry in ledger])
    assert not any(word in text for word in (KEY, "/v1", "/search", "event", "loop"))
