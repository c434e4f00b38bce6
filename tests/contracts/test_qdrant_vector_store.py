"""The store on a Qdrant server fulfils the contract of every store: with the client's in-memory mode, and with a real
server if QDRANT_TEST_URL is set.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, cast
from uuid import NAMESPACE_URL, uuid5

import pytest
from httpx import Headers, ReadTimeout
from tests.fakes.tracing import tracing
from tests.fakes.vector_store_contract import (
    COLLECTION,
    COLLECTION_NAME,
    OpenAgain,
    VectorStoreContract,
    fill_store,
    list_documents,
)
from tests.support.cases import for_each
from tests.support.loopback_upstream import Handler, drip, hang_up, json_reply, reply, serving, silence

from modules.llm_platform.domain.dtos.retrieval_dtos import Collection, EmbeddedPassage, IndexedDocument, Passage
from modules.llm_platform.domain.exceptions import VectorStoreConfigError, VectorStoreError
from modules.llm_platform.infrastructure.index.qdrant import vector_store as qdrant_vector_store
from modules.llm_platform.infrastructure.index.qdrant.vector_store import BATCH_POINTS, QdrantVectorStore
from modules.llm_platform.testing.waiting import error_of
from shared.exceptions import AppException

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient

KEY = "qdrant-key-of-mine"

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect in the local Qdrant")


def client_in_memory() -> AsyncQdrantClient:
    """Return an in-memory client.

    Importing the package takes half a second, so processes that only collect these tests do not import it.
    """
    from qdrant_client import AsyncQdrantClient

    return AsyncQdrantClient(":memory:")


@pytest.fixture
async def client() -> AsyncIterator[AsyncQdrantClient]:
    client = client_in_memory()
    yield client
    await client.close()


class TestQdrantInMemory(VectorStoreContract):
    """Replacing a document scans all documents in memory, so pages are smaller and "many" is fewer."""

    many = 110

    @pytest.fixture
    def store(self, client: AsyncQdrantClient, monkeypatch: pytest.MonkeyPatch) -> QdrantVectorStore:
        monkeypatch.setattr(qdrant_vector_store, "PAGE_RECORDS", 100)
        return QdrantVectorStore("http://localhost:6333", client=client)

    @pytest.fixture
    def open_again(self, client: AsyncQdrantClient) -> OpenAgain:
        async def again() -> QdrantVectorStore:
            return QdrantVectorStore("http://localhost:6333", client=client)

        return again


class TestTracedQdrant(TestQdrantInMemory):
    """The same contract with a span around each call of the client."""

    @pytest.fixture
    def store(self, client: AsyncQdrantClient, monkeypatch: pytest.MonkeyPatch) -> QdrantVectorStore:
        monkeypatch.setattr(qdrant_vector_store, "PAGE_RECORDS", 100)
        monkeypatch.setattr(qdrant_vector_store, "current_span", lambda: None)  # which is not NO_SPAN
        return QdrantVectorStore("http://localhost:6333", client=client)


async def test_calls_are_spans(client: AsyncQdrantClient) -> None:
    """Each span has the name of the client's method, and contains nothing of the search."""
    store = QdrantVectorStore("http://localhost:6333", client=client)
    await store.prepare(COLLECTION)
    with tracing() as ended:
        await store.search(COLLECTION_NAME, "a private question", None, {}, 3)
    assert [span.name for span in ended] == ["qdrant collection_exists", "qdrant retrieve", "qdrant query_points"]
    assert ended[2].attributes == {
        "db.system.name": "qdrant",
        "db.operation.name": "query_points",
        "llm_platform.result": "ok",
    }


async def test_client_is_imported_outside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The import takes a second or more, and must not delay other requests or the deadlines of other checks."""
    threads: list[int] = []
    monkeypatch.setattr(qdrant_vector_store, "_load_client", lambda: threads.append(threading.get_ident()))
    async with serving(reply(503)) as server:
        store = a_store(server.url)
        await error_of(store.describe(COLLECTION_NAME), VectorStoreError)
        await error_of(store.describe(COLLECTION_NAME), VectorStoreError)
        await store.aclose()
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()


def a_store(url: str, timeout: float = 5.0) -> QdrantVectorStore:
    return QdrantVectorStore(url, KEY, timeout=timeout)


@pytest.mark.parametrize(
    ("handler", "kind", "words"),
    [
        (reply(401, KEY.encode()), VectorStoreConfigError, "QDRANT_API_KEY"),
        (reply(403), VectorStoreConfigError, "QDRANT_API_KEY"),
        (reply(400, KEY.encode()), VectorStoreConfigError, "QDRANT_URL"),
        (reply(500, KEY.encode()), VectorStoreError, "500"),
        (reply(503), VectorStoreError, "503"),
        (reply(429, b"{}", "Retry-After: 5"), VectorStoreError, "rate of requests"),
        (reply(200, b"<html>"), VectorStoreConfigError, "QDRANT_URL"),
        (json_reply({"hello": KEY}), VectorStoreConfigError, "QDRANT_URL"),
        (reply(302, b"", "Location: http://127.0.0.1:9/"), VectorStoreConfigError, "QDRANT_URL"),
        (hang_up, VectorStoreError, "QDRANT_URL"),
        (silence, VectorStoreError, "in time"),
        (drip, VectorStoreError, "in time"),
    ],
)
async def test_failures(handler: Handler, kind: type[AppException], words: str) -> None:
    """Each error has its remedy and contains nothing that the server sent. No failure is an empty answer."""
    import qdrant_client  # noqa: F401  the import would count against the deadline of the first call

    async with serving(handler) as loopback:
        store = a_store(loopback.url, timeout=0.3 if words == "in time" else 10.0)
        try:
            for asking in (store.describe("x"), store.search("x", "a", None, {}, 1), store.prepare(COLLECTION)):
                with pytest.raises(AppException, match=words) as raised:
                    await asking
                assert type(raised.value) is kind
                assert KEY not in raised.value.message
                assert raised.value.__cause__ is None or KEY not in str(raised.value.__cause__)
            assert loopback.requests[0].headers["api-key"] == KEY
        finally:
            await store.aclose()


async def test_the_server_is_unavailable() -> None:
    """The message names the setting of the address. The server may be available at the next call."""
    store = a_store("http://127.0.0.1:9")
    with pytest.raises(VectorStoreError, match="QDRANT_URL") as raised:
        await store.search("x", "a", None, {}, 1)
    assert raised.value.retryable
    await store.aclose()


async def test_an_invalid_address() -> None:
    """An invalid address is reported before anything is sent."""
    with pytest.raises(VectorStoreConfigError, match="QDRANT_URL"):
        await a_store("http://[::bad").describe("x")


async def test_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has the install command."""
    monkeypatch.setitem(sys.modules, "qdrant_client", None)
    with pytest.raises(VectorStoreConfigError, match=r'pip install "llm-platform\[qdrant\]"'):
        await a_store("http://127.0.0.1:9").describe("x")


async def test_a_collection_of_another_program(client: AsyncQdrantClient) -> None:
    """A collection of another program is neither read nor written."""
    await client.create_collection(COLLECTION_NAME, vectors_config={})
    store = QdrantVectorStore("http://localhost:6333", client=client)
    for asking in (
        store.describe(COLLECTION_NAME),
        store.prepare(COLLECTION),
        store.search(COLLECTION_NAME, "x", None, {}, 1),
    ):
        with pytest.raises(VectorStoreConfigError, match="not made by llm-platform"):
            await asking


@pytest.mark.parametrize("step", ["create_payload_index", "upsert"])
async def test_a_collection_whose_creation_was_interrupted_is_finished(
    client: AsyncQdrantClient, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The creation may be interrupted by Ctrl-C or a stopping server.

    Until it is finished, the collection does not exist, and does not count as another program's.
    """

    async def end(*_: Any, **__: Any) -> None:
        raise asyncio.CancelledError

    store = QdrantVectorStore("http://localhost:6333", client=client)
    with monkeypatch.context() as patch:
        patch.setattr(client, step, end)
        with pytest.raises(asyncio.CancelledError):
            await store.prepare(COLLECTION)
    assert await store.describe(COLLECTION_NAME) is None
    with pytest.raises(VectorStoreConfigError, match="llm-platform index"):
        await store.search(COLLECTION_NAME, "x", None, {}, 1)
    with pytest.raises(VectorStoreConfigError, match="QDRANT_COLLECTION"):
        await store.prepare(COLLECTION.model_copy(update={"dimension": COLLECTION.dimension + 1}))
    await fill_store(store)
    assert await store.describe(COLLECTION_NAME) == COLLECTION
    assert len(await list_documents(store)) == 3


async def test_collection_recreated_by_another_process(
    client: AsyncQdrantClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a while, a collection that another machine created again is read with its new metadata."""
    store = QdrantVectorStore("http://localhost:6333", client=client)
    await store.prepare(COLLECTION)
    await store.search(COLLECTION_NAME, "x", None, {}, 1)
    await client.delete_collection(COLLECTION_NAME)
    await QdrantVectorStore("http://localhost:6333", client=client).prepare(
        Collection(name=COLLECTION_NAME, embedder="e", dimension=2)
    )
    monkeypatch.setattr(qdrant_vector_store, "COLLECTION_INFO_TTL_S", 0.0)
    assert await store.search(COLLECTION_NAME, "x", [1.0, 0.0], {}, 1) == []


@pytest.mark.parametrize("count", [1, BATCH_POINTS, BATCH_POINTS + 1])
async def test_no_reader_misses_a_document_that_is_replaced(
    client: AsyncQdrantClient, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """Between any two steps of a replacement, the document is found and listed in its old or new form, or in both.

    The request that adds the last new passage removes the old form.
    """
    store = QdrantVectorStore("http://localhost:6333", client=client)
    await store.prepare(COLLECTION)
    old = IndexedDocument(doc_id="a", sha256="old", passages=1)
    await store.replace(COLLECTION_NAME, old, [a_passage("old words")])
    all_at_once, seen = client.batch_update_points, []

    async def step_by_step(collection: str, operations: list[Any], **more: Any) -> None:
        for operation in operations:
            await all_at_once(collection, [operation], **more)
            found = await store.search(COLLECTION_NAME, "words", None, {}, 2 * BATCH_POINTS)
            seen.append({hit.passage.text.partition(" ")[0] for hit in found})
            assert await store.lookup(COLLECTION_NAME, ["a"])

    monkeypatch.setattr(client, "batch_update_points", step_by_step)
    passages = [a_passage(f"new words {number}") for number in range(count)]
    await store.replace(COLLECTION_NAME, old.model_copy(update={"sha256": "new", "passages": count}), passages)
    assert seen == [{"old", "new"}, {"new"}, {"new"}]
    assert len(await store.passages(COLLECTION_NAME, "a")) == count


async def test_a_writer_that_is_killed_half_way(client: AsyncQdrantClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A document whose replacement was interrupted counts as changed, so the mixture is never used as its new form."""
    from qdrant_client.http.exceptions import ResponseHandlingException

    store = QdrantVectorStore("http://localhost:6333", client=client)
    await store.prepare(COLLECTION)
    old = IndexedDocument(doc_id="a", sha256="old", passages=1)
    await store.replace(COLLECTION_NAME, old, [a_passage("old words")])

    all_at_once = client.batch_update_points

    async def died(collection: str, operations: list[Any], **more: Any) -> None:
        await all_at_once(collection, operations[:1], **more)
        raise ResponseHandlingException(ConnectionError("died"))

    with monkeypatch.context() as patch:
        patch.setattr(client, "batch_update_points", died)
        with pytest.raises(VectorStoreError):
            await store.replace(COLLECTION_NAME, old.model_copy(update={"sha256": "new"}), [a_passage("new words")])
    assert (await store.lookup(COLLECTION_NAME, ["a"]))["a"].sha256 == "old"
    await store.replace(COLLECTION_NAME, old.model_copy(update={"sha256": "new"}), [a_passage("new words")])
    assert [passage.text for passage in await store.passages(COLLECTION_NAME, "a")] == ["new words"]


def a_passage(text: str) -> EmbeddedPassage:
    return EmbeddedPassage(Passage(id=str(uuid5(NAMESPACE_URL, text)), doc_id="a", title="", text=text), None)


async def test_its_own_client_is_closed() -> None:
    """The store closes the client that it created, and leaves a given client open."""
    async with serving(json_reply({"result": {"exists": False}, "status": "ok", "time": 0.0})) as loopback:
        store = a_store(loopback.url)
        assert await store.describe("x") is None
        await store.aclose()
        await store.aclose()
    client = client_in_memory()
    given = QdrantVectorStore("", client=client)
    await given.aclose()
    assert not await client.collection_exists("x")
    await client.close()


@pytest.mark.live
@pytest.mark.live_qdrant
class TestQdrantServer(VectorStoreContract):
    """Runs on a real server if QDRANT_TEST_URL is set, and removes its two collections afterwards."""

    @pytest.fixture
    async def store(self) -> AsyncIterator[QdrantVectorStore]:
        from qdrant_client import AsyncQdrantClient

        client = AsyncQdrantClient(
            os.environ["QDRANT_TEST_URL"], api_key=os.environ.get("QDRANT_TEST_API_KEY"), check_compatibility=False
        )
        for name in (COLLECTION_NAME, "other"):
            if await client.collection_exists(name):  # data of somebody else must not be removed
                pytest.fail(f"the server holds a collection {name!r}, which these tests would replace: remove it first")
        yield QdrantVectorStore("", client=client)
        for name in (COLLECTION_NAME, "other"):
            await client.delete_collection(name)
        await client.close()

    @pytest.fixture
    async def open_again(self) -> AsyncIterator[OpenAgain]:
        stores: list[QdrantVectorStore] = []

        async def again() -> QdrantVectorStore:
            stores.append(QdrantVectorStore(os.environ["QDRANT_TEST_URL"], os.environ.get("QDRANT_TEST_API_KEY", "")))
            return stores[-1]

        yield again
        for store in stores:
            await store.aclose()


class Failing:
    """A client whose server returns something unexpected."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def collection_exists(self, _: str) -> bool:
        raise self._error


def rare_failures() -> Iterator[tuple[Exception, type[AppException], str]]:
    from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

    yield OSError("no route"), VectorStoreError, "QDRANT_URL"
    yield KeyError("payload"), VectorStoreConfigError, "not made by"
    for status, body, kind, words in (
        (404, b'{"status": {"error": "x"}}', VectorStoreConfigError, "index PATH"),
        (404, b"<html>nginx", VectorStoreConfigError, "another program"),
        (404, b"[]", VectorStoreConfigError, "another program"),
        (409, b"", VectorStoreError, "409"),
        (422, b"", VectorStoreConfigError, "1.16"),
    ):
        yield UnexpectedResponse(status, "reason", body, Headers()), kind, words
    yield ResponseHandlingException(ReadTimeout("slow")), VectorStoreError, "in time"


@for_each("error, kind, words", rare_failures)
async def test_rare_failures(error: Exception, kind: type[AppException], words: str) -> None:
    """Any exception of the client becomes an error of the store."""
    store = QdrantVectorStore("", client=cast("AsyncQdrantClient", Failing(error)))
    with pytest.raises(kind, match=words):
        await store.describe("x")
