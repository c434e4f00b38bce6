"""Services with OpenAI's embedding protocol fulfil the contract of every embedder, and their failures have our
messages.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.fakes.embedder import EmbedderContract, HashEmbedder
from tests.support.cases import for_each
from tests.support.loopback_upstream import (
    Exchange,
    Handler,
    Loopback,
    hang_up,
    in_turn,
    json_reply,
    reply,
    serving,
    silence,
)

from modules.llm_platform.domain.exceptions import EmbeddingConfigError, EmbeddingError
from modules.llm_platform.domain.privacy import egress_log
from modules.llm_platform.domain.retrieval.embeddable import NoneEmbedder
from modules.llm_platform.infrastructure.models.openai.embedder import BATCH_TEXTS, EmbeddingConnection, OpenAIEmbedder
from shared.exceptions import AppException

KEY = "sk-of-mine-0123456789"
HASH = HashEmbedder()


async def vectors(exchange: Exchange) -> None:
    """A working service that returns vectors of any length, in any order."""
    texts = exchange.json["input"]
    found = await HASH.embed(texts)
    rows = [
        {"index": n, "embedding": [3 * x for x in v or [1.0] * HASH.dimension], "object": "embedding"}
        for n, v in enumerate(found)
    ]
    await json_reply({"object": "list", "data": rows[::-1], "usage": {"prompt_tokens": 5}})(exchange)


@pytest.fixture
async def service() -> AsyncIterator[Loopback]:
    async with serving(vectors) as loopback:
        yield loopback


def an_embedder(url: str, kind: str = "openai", **options: Any) -> OpenAIEmbedder:
    waits: list[float] = options.pop("waits", [])

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await asyncio.sleep(0)

    base = f"{url}/v1" if kind == "openai" else url
    connection = EmbeddingConnection(**{"kind": kind, "model": "small", "base_url": base, "api_key": KEY, **options})
    return OpenAIEmbedder(connection, sleep=sleep)


class TestOpenAIEmbedder(EmbedderContract):
    @pytest.fixture(params=["openai", "azure"])
    async def embedder(self, service: Loopback, request: pytest.FixtureRequest) -> OpenAIEmbedder:
        embedder = an_embedder(service.url, request.param)
        await embedder.embed(["learns how long its vectors are"])
        return embedder


async def test_the_request_has_model_texts_and_key(service: Loopback) -> None:
    """In the form of each kind; a blank text is not sent."""
    for kind in ("openai", "azure"):
        await an_embedder(service.url, kind, api_version="2025-01-01").embed(["one", " ", "two"])
    ours, azure = service.requests
    assert ours.path == "/v1/embeddings"
    assert ours.headers["authorization"] == f"Bearer {KEY}"
    assert ours.json == {"input": ["one", "two"], "model": "small", "encoding_format": "float"}
    assert azure.path == "/openai/deployments/small/embeddings?api-version=2025-01-01"
    assert (azure.headers["api-key"], azure.headers.get("authorization")) == (KEY, None)


async def test_many_texts_are_sent_in_batches(service: Loopback) -> None:
    """By number and length; the vectors are in the order of the texts."""
    texts = [f"text number{number}" for number in range(BATCH_TEXTS * 2 + 5)]
    found = await an_embedder(service.url).embed(texts)
    assert sorted(len(request.json["input"]) for request in service.requests) == [5, BATCH_TEXTS, BATCH_TEXTS]
    assert found[70] == pytest.approx((await HASH.embed(texts[70:71]))[0])
    service.requests.clear()
    long = an_embedder(service.url, model="text-embedding-3-small")
    assert long.dimension == 1536
    with pytest.raises(EmbeddingConfigError, match="64 numbers, not of 1536"):
        await long.embed(["word " * 6000] * 10)
    assert max(len(request.body) for request in service.requests) < 250_000


async def test_a_long_text_is_cut(service: Loopback) -> None:
    """To the window of the service."""
    await an_embedder(service.url).embed(["word " * 5000, "日本語" * 5000])
    first, second = service.requests[0].json["input"]
    assert first.split() == ["word"] * 400
    assert len(second) == 400


@for_each(
    ("handler", "kind", "words", "tries"),
    [
        (reply(401, KEY.encode()), EmbeddingConfigError, "EMBEDDING_API_KEY", 1),
        (reply(403), EmbeddingConfigError, "EMBEDDING_API_KEY", 1),
        (reply(404), EmbeddingConfigError, "EMBEDDING_MODEL", 1),
        (reply(400, b'{"error": "too long"}'), EmbeddingConfigError, "EMBEDDING_MODEL", 1),
        (reply(302, b"", "Location: http://127.0.0.1:9/"), EmbeddingConfigError, "EMBEDDING_BASE_URL", 1),
        (reply(500), EmbeddingError, "500", 4),
        (reply(429), EmbeddingError, "429", 4),
        (reply(429, b"", "Retry-After: 3600"), EmbeddingError, "429", 1),
        (reply(200, b"<html>hello</html>"), EmbeddingError, "web page", 4),
        (reply(200, b"[1]"), EmbeddingError, "JSON", 4),
        (reply(402), EmbeddingConfigError, "EMBEDDING_API_KEY", 1),
        (json_reply({"error": {"message": f"no such thing {KEY}"}}), EmbeddingConfigError, "EMBEDDING_MODEL", 1),
        (json_reply({"error": "no such thing", "data": None}), EmbeddingConfigError, "instead of vectors", 1),
        (json_reply({"error": {"code": 401, "message": KEY}}), EmbeddingConfigError, "EMBEDDING_API_KEY", 1),
        (json_reply({"error": {"message": "exceeded your current quota"}}), EmbeddingConfigError, "quota", 1),
        (json_reply({"error": {"code": "503"}}), EmbeddingError, "503", 4),
        (json_reply({"error": {"message": "Rate limit reached"}}), EmbeddingError, "429", 4),
        (json_reply({"error": {"type": "server_error"}}), EmbeddingError, "500", 4),
        (json_reply({"data": []}), EmbeddingError, "0 vectors for 1", 1),
        (json_reply({"data": [{"index": 7, "embedding": [1.0]}]}), EmbeddingError, "vectors", 1),
        (json_reply({"data": [{"embedding": "AAAA"}]}), EmbeddingError, "invalid vectors", 1),
        (json_reply({"data": [{"embedding": []}]}), EmbeddingError, "invalid vectors", 1),
        (hang_up, EmbeddingError, "closed the connection", 4),
        (silence, EmbeddingError, "in time", 4),
    ],
)
async def test_failures_name_the_remedy(handler: Handler, kind: type[AppException], words: str, tries: int) -> None:
    """The message contains nothing that the service sent. Temporary failures are retried."""
    waits: list[float] = []
    async with serving(handler) as loopback:
        with pytest.raises(kind, match=words) as raised:
            await an_embedder(loopback.url, timeout=0.2 if handler is silence else 60.0, waits=waits).embed(["a text"])
        assert KEY not in raised.value.message
        assert len(waits) == tries - 1
        assert handler is silence or len(loopback.requests) == tries


async def test_a_refused_connection_names_the_setting() -> None:
    """The setting is the service's address."""
    with pytest.raises(EmbeddingError, match="EMBEDDING_BASE_URL"):
        await an_embedder("http://127.0.0.1:9").embed(["a text"])


async def test_a_temporary_failure_is_retried() -> None:
    """After Retry-After."""
    waits: list[float] = []
    async with serving(in_turn(reply(503), reply(429, b"", "Retry-After: 7"), vectors)) as loopback:
        (found,) = await an_embedder(loopback.url, waits=waits).embed(["a text"])
    assert found is not None
    assert waits == [0.5, 7]


async def test_a_failed_batch_cancels_the_others() -> None:
    """No request continues."""

    async def second_fails(exchange: Exchange) -> None:
        await (reply(401) if "text 70" in exchange.json["input"] else silence)(exchange)

    async with serving(second_fails) as loopback:
        async with asyncio.timeout(30):
            with pytest.raises(EmbeddingConfigError):
                await an_embedder(loopback.url).embed([f"text {number}" for number in range(100)])
            while loopback.busy:
                await asyncio.sleep(0.01)


async def test_invalid_numbers_give_no_vector() -> None:
    """NaN, null, text and zeros."""
    rows: list[list[Any]] = [[float("nan"), 1.0], [None, 1.0], ["x", 1.0], [0.0, 0.0], [0.0, 2.0], [1e400, 0.0]]
    body = json.dumps({"data": [{"index": n, "embedding": row} for n, row in enumerate(rows)]}).encode()
    async with serving(reply(200, body)) as loopback:
        found = await an_embedder(loopback.url).embed([f"text {number}" for number in range(len(rows))])
    assert found == [None, None, None, None, [0.0, 1.0], None]


async def test_another_dimension_is_a_config_error(service: Loopback) -> None:
    """The service may have changed its model."""
    rows = {"data": [{"embedding": [1.0, 0.0]}]}
    async with serving(in_turn(vectors, json_reply(rows))) as loopback:
        embedder = an_embedder(loopback.url)
        await embedder.embed(["a text"])
        assert embedder.dimension == HASH.dimension
        with pytest.raises(EmbeddingConfigError, match="EMBEDDING_MODEL"):
            await embedder.embed(["a text"])


@for_each(
    ("options", "missing"),
    [
        ({"model": "", "base_url": "http://127.0.0.1:9"}, "EMBEDDING_MODEL"),
        ({"model": "m", "base_url": None, "api_key": ""}, "EMBEDDING_API_KEY"),
        ({"kind": "azure", "model": "m", "base_url": None}, "EMBEDDING_BASE_URL"),
        ({"kind": "azure", "model": "..", "base_url": "http://127.0.0.1:9"}, "EMBEDDING_MODEL"),
    ],
)
async def test_missing_settings_are_reported_at_the_call(options: dict[str, Any], missing: str) -> None:
    """By name."""
    embedder = OpenAIEmbedder(EmbeddingConnection(**{"kind": "openai", "api_key": KEY, **options}))
    with pytest.raises(EmbeddingConfigError, match=missing):
        await embedder.embed(["a text"])


@pytest.mark.parametrize("key", ["schlüssel", "two\nlines", " blank"])
async def test_a_key_that_is_invalid_in_a_header_is_named_by_its_setting(service: Loopback, key: str) -> None:
    """The message does not contain the key. It is raised when a text is embedded, not when the embedder is built."""
    embedder = OpenAIEmbedder(EmbeddingConnection("openai", "m", service.url, api_key=key))
    with pytest.raises(EmbeddingConfigError, match="EMBEDDING_API_KEY") as raised:
        await embedder.embed(["text"])
    assert key not in str(raised.value)


async def test_a_local_service_needs_no_key(service: Loopback) -> None:
    """No header is sent."""
    await an_embedder(service.url, api_key="").embed(["a text"])
    assert "authorization" not in service.requests[0].headers


async def test_requests_are_logged(service: Loopback) -> None:
    """Host, kind and size."""
    with egress_log.open_egress_log() as noted:
        await an_embedder(service.url).embed(["a text"])
    (sent,) = noted.sent()
    assert (sent.host, sent.kind, sent.requests) == ("127.0.0.1", "page text", 1)


async def test_the_none_embedder_returns_no_vectors() -> None:
    """Its dimension is 0."""
    assert await NoneEmbedder().embed(["a", "b"]) == [None, None]
    assert NoneEmbedder().dimension == 0
