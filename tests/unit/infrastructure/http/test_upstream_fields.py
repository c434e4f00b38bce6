"""Unknown and missing fields of the answers of upstreams."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.chat_server import DONE, ChatServer, stream
from tests.chat_server import answer as chat_answer
from tests.fakes.metrics import MemoryMetrics
from tests.loopback_upstream import RECORDINGS, json_reply, recording, serving
from tests.loopback_upstream import reply as reply_with

from modules.llm_platform.domain.metrics import OTHER, UPSTREAM_FIELDS
from modules.llm_platform.infrastructure.adapters.jina_page_reader import JinaPageReader
from modules.llm_platform.infrastructure.adapters.openai.chat import OpenAIProvider
from modules.llm_platform.infrastructure.adapters.openai.embedder import EmbeddingConnection, OpenAIEmbedder
from modules.llm_platform.infrastructure.http.client import make_client
from modules.llm_platform.infrastructure.http.upstream_fields import MISSING, TABLES, UNKNOWN, count_fields
from modules.llm_platform.infrastructure.llm.kinds import LLMConnection
from modules.llm_platform.testing.llm import collect, question

ROW = {"url": "https://a.example", "title": "A", "content": "", "engine": "e"}
ANSWER: dict[str, Any] = {"query": "q", "results": [ROW], "unresponsive_engines": []}
WHOLE = [
    "searxng/01_general_merged_suggestions", "searxng/03_infobox", "searxng/04_news_published", "searxng/05_science_papers",
    "searxng/10_empty_result", "brave/web", "brave/news", "brave/nothing_found", "bocha/wrapped", "bocha/bare",
]  # fmt: skip


def counted(answer: Any, upstream: str = "searxng") -> dict[tuple[str, ...], float]:
    metrics = MemoryMetrics()
    count_fields(metrics, upstream, answer)
    return fields_in(metrics)


def fields_in(metrics: MemoryMetrics) -> dict[tuple[str, ...], float]:
    assert {name for name, *_ in metrics.values} <= {UPSTREAM_FIELDS.name}
    return {tuple(labels): value for (_, *labels), value in metrics.values.items()}


@pytest.mark.parametrize("name", WHOLE)
def test_recorded_answers_are_as_expected(name: str) -> None:
    """What the providers send today counts nothing."""
    assert (RECORDINGS / f"{name}.json").exists()
    assert counted(recording(name), name.partition("/")[0]) == {}


def test_a_missing_field_has_its_name() -> None:
    """Of the answer and of its rows, once an answer however many rows lack it."""
    row = {name: value for name, value in ROW.items() if name != "url"}
    answer = {"query": "q", "results": [row, row]}
    assert counted(answer, "searxng-2") == {
        ("searxng-2", "url", MISSING): 1,
        ("searxng-2", "unresponsive_engines", MISSING): 1,
    }


def test_an_unknown_field_has_no_name() -> None:
    """A server could send a million names: all are `other`."""
    answer = {**ANSWER, "private text": 1, "results": [{**ROW, f"name {number}": 1} for number in range(100)]}
    assert counted(answer) == {("searxng", OTHER, UNKNOWN): 1}


@pytest.mark.parametrize("rows", [None, 5, "text", {"a": 1}, [None, 5, "text", []]])
@pytest.mark.parametrize("upstream", [*TABLES, "documents"])
def test_foreign_types_raise_nothing(rows: Any, upstream: str) -> None:
    """An upstream may send anything."""
    for answer in ({"results": rows}, {"web": rows}, {"data": rows}, {"data": {"webPages": rows}}, {}):
        counted(answer, upstream)


class TestAdapters:
    """Adapters that pass no answer on count its fields themselves, under their own name."""

    @pytest.mark.parametrize("streamed", [False, True])
    @pytest.mark.parametrize(
        ("extra", "usage", "expected"),
        [
            ({}, {"usage": {"prompt_tokens": 1}}, {}),
            ({"id": "c", "system_fingerprint": None}, {"usage": {"prompt_tokens": 1}}, {}),
            ({}, {}, {("backup", "usage", MISSING): 1}),
            ({"a private name": 1}, {"usage": {"prompt_tokens": 1}}, {("backup", OTHER, UNKNOWN): 1}),
        ],
    )
    async def test_models(
        self, streamed: bool, extra: dict[str, Any], usage: dict[str, Any], expected: dict[tuple[str, ...], float]
    ) -> None:
        """Of a stream the first and the last chunk count, once a stream."""
        message = {"role": "assistant", "content": "Yes."}
        choice = {"index": 0, "delta" if streamed else "message": message, "finish_reason": "stop"}
        body = {"choices": [choice], **extra}
        if streamed:
            parts = [body, body, {"choices": [], **usage} if usage else body]
            reply = stream(*(b"data: " + json.dumps(part).encode() + b"\n\n" for part in parts), DONE)
        else:
            reply = chat_answer(json.dumps({**body, **usage}).encode())
        metrics = MemoryMetrics()
        async with ChatServer(reply).running() as server:
            connection = LLMConnection(name="backup", kind="kimi", model="m", base_url=server.url, api_key="k")
            model = OpenAIProvider(connection, metrics=metrics)
            await (collect(model, question()) if streamed else model.generate(question()))
            await model.aclose()
        assert fields_in(metrics) == expected

    @pytest.mark.parametrize(
        ("row", "expected"),
        [
            ({"object": "embedding", "index": 0}, {}),
            ({"kind": "x"}, {("openai/m", "index", MISSING): 1, ("openai/m", OTHER, UNKNOWN): 1}),
        ],
    )
    async def test_embedders(self, row: dict[str, Any], expected: dict[tuple[str, ...], float]) -> None:
        """A vector without an index is that of the text at its place."""
        metrics = MemoryMetrics()
        async with serving(json_reply({"data": [{"embedding": [1.0, 2.0], **row}], "model": "m"})) as service:
            embedder = OpenAIEmbedder(EmbeddingConnection("openai", "m", service.url), metrics=metrics)
            await embedder.embed(["text"])
        assert fields_in(metrics) == expected

    @pytest.mark.parametrize(
        ("head", "expected"),
        [
            ("Title: Loops\n\nURL Source: https://example.org\n\nNumber of Pages: 3\n\n", {}),
            ("Title: \n\nAuthor: A\n\n", {("jina", "URL Source", MISSING): 1, ("jina", OTHER, UNKNOWN): 1}),
        ],
    )
    async def test_jina(self, head: str, expected: dict[tuple[str, ...], float]) -> None:
        """Its fields are the lines above the text; lines of the text are none."""
        metrics = MemoryMetrics()
        body = f"{head}Markdown Content:\nA text.\nWith: a colon\n".encode()
        async with serving(reply_with(200, body, "Content-Type: text/plain")) as service, make_client(service.url) as client:
            await JinaPageReader(base_url=service.url, client=client, metrics=metrics).read("https://example.org")
        assert fields_in(metrics) == expected
