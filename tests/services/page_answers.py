"""Answers in the server's format, for the page to show."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from tests.services.browser import Visit

from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.dtos.research_job_dtos import JobEvent, NewResearchJob
from modules.llm_platform.infrastructure.stores.research_jobs.sqlite import SqliteResearchJobStore

# In the browser: the next stream of a run gets the events of `send(event)`, including earlier ones.
STREAM = """(fetched => {
    let stream;
    const body = new ReadableStream({start: controller => { stream = controller; }});
    window.send = event => stream.enqueue(new TextEncoder().encode(`data: ${JSON.stringify(event)}\\n\\n`));
    window.fetch = (url, options) => {
        if (String(url) !== 'research') return fetched(url, options);
        options.signal.addEventListener('abort', () => stream.error(options.signal.reason));
        return Promise.resolve(new Response(body, {headers: {'Content-Type': 'text/event-stream'}}));
    };
})(window.fetch)
"""
SEND = "event => window.send({request_id: 'r', ...event})"


def response(synthesis: str, **fields: Any) -> dict[str, Any]:
    """Return an answer over one source, as the server sends it."""
    sources = [{"index": 1, "title": "A source", "url": "https://example.org/a"}]
    raw = [
        {
            "title": "A source",
            "url": "https://example.org/a",
            "content": "😀 The owl 🦉 sleeps by day. It hunts at night.",
        }
    ]
    metadata = {
        "latency_ms": 1200,
        "tokens_used": 0,
        "cost_usd": 0,
        "searches": 1,
        "llm_calls": 0,
        "synthesizer": "m",
        "providers": ["x"],
        "language": "en",
        "uncited_sentences": 0,
        "uncited": [],
        "request_id": "r",
        "sent_to": [],
    }
    metadata |= fields.pop("metadata", {})
    base = {"query": "q", "depth": "shallow", "synthesis": synthesis, "sources": sources, "raw_results": raw}
    return {**base, "citations": [], "degraded": [], "metadata": metadata, **fields}


def citation(synthesis: str, statement: str, text: str, quote: str, verdict: str) -> dict[str, Any]:
    start, quote_start = synthesis.index(statement), text.index(quote)
    return {
        "start": start,
        "end": start + len(statement),
        "source_index": 1,
        "quote": quote,
        "quote_start": quote_start,
        "quote_end": quote_start + len(quote),
        "verdict": verdict,
        "score": 1,
        "checked_by": "words",
    }


WORDS = "owls hunt at night by sound and see red light while their feathers keep every flight silent over fields"
SOURCES = [{"index": n, "title": f"Source {n}", "url": f"https://example.org/{n}"} for n in range(1, 13)]
CONTENT = "Owls hunt at night. " * 500
QUOTE = {"quote": "Owls hunt at night.", "quote_start": 0, "quote_end": 19, "score": 1, "checked_by": "words"}
VERDICTS = ["supported"] * 8 + ["partial", "unsupported"]
SETTLED_MS = 1000  # pause after the last event, so that late drawing is included

# In the browser: sends an event for each token of a text in batches, with time to draw between them.
WRITE = """async ([text, end, atOnce]) => {
    const tokens = text.split(new RegExp(`(?<=${end})`));
    for (let place = 0; place < tokens.length; place += atOnce) {
        for (const token of tokens.slice(place, place + atOnce)) send({request_id: 'r', type: 'token', text: token});
        await new Promise(resolve => setTimeout(resolve, 16));
    }
}"""
TOKENS_AT_ONCE = 40
WORD, SENTENCE = " ", r"\. "


def long_answer(parts: int = 27, sentences: int = 20, **fields: Any) -> dict[str, Any]:
    """Return an answer with headings, paragraphs and tables in which every sentence has a citation."""
    chance = random.Random(1)
    text = ""
    citations: list[dict[str, Any]] = []
    for part in range(parts):
        text += f"## Part {part}\n\n"
        for number in range(sentences):
            statement = " ".join(chance.choices(WORDS.split(), k=11)).capitalize()
            span = {"start": len(text), "end": len(text) + len(statement)}
            position = len(citations)
            source = position % len(SOURCES) + 1
            citations.append({**QUOTE, **span, "source_index": source, "verdict": VERDICTS[position % len(VERDICTS)]})
            text += f"{statement} [{source}]." + (" " if (number + 1) % 5 else "\n\n")
        text += "| a | b |\n|---|---:|\n| one | 2 |\n\n"
    raw = [{**source, "content": CONTENT} for source in SOURCES]
    return response(text, citations=citations, sources=SOURCES, raw_results=raw, **fields)


async def begin(visit: Visit) -> None:
    """Ask a question whose stream gets the events of `send(event)`, and send the events up to the sources."""
    await visit.keep_none()
    await visit.page.evaluate(STREAM)
    await visit.ask()
    read = {"type": "read", "url": SOURCES[0]["url"], "status": "read", "chars": 9}
    for event in ({"type": "started"}, read, {"type": "sources", "sources": SOURCES}):
        await visit.page.evaluate(SEND, event)
    await visit.page.wait_for_selector(".source-row")


async def write(visit: Visit, text: str, token_end: str = WORD) -> None:
    await visit.page.evaluate(WRITE, [text, token_end, TOKENS_AT_ONCE])


async def end(visit: Visit, answer: dict[str, Any]) -> None:
    """Send the last events of a run, and wait up to one second after the answer is complete."""
    await visit.page.evaluate(SEND, {"type": "verified", "citations": answer["citations"], "pending": False})
    await visit.page.evaluate(SEND, {"type": "done", "response": answer})
    await visit.answered()
    await visit.page.wait_for_timeout(SETTLED_MS)


async def keep(folder: Path, *runs: tuple[str, dict[str, Any]]) -> None:
    """Store these answers by their ids in this data folder."""
    store = SqliteResearchJobStore(folder / "researches.sqlite3", ttl_days=30)
    try:
        for run_id, answer in runs:
            event = json.dumps({"type": "done", "request_id": run_id, "response": answer})
            job = NewResearchJob(run_id, ResearchRequest(query="Which owls hunt at night?", depth="deep"))
            await store.record(job, [JobEvent(1, "done", event)], None, 1.0)
    finally:
        await store.aclose()
