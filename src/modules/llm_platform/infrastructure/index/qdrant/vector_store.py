"""A Qdrant server as vector store (qdrant-client 1.20): several writers and readers, on any number of machines.

The schema is in `infrastructure.index.payloads`, which the embedded store shares.
"""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from math import ceil
from typing import TYPE_CHECKING, Any, Final, cast

from modules.llm_platform.domain.dtos import retrieval_dtos as dtos
from modules.llm_platform.domain.exceptions import VectorStoreConfigError
from modules.llm_platform.domain.ports.tracing import NO_SPAN, current_span, database_call
from modules.llm_platform.domain.ports.vector_store import IVectorStore
from modules.llm_platform.domain.text.scripts import replace_surrogates
from modules.llm_platform.infrastructure.index import payloads
from modules.llm_platform.infrastructure.index.hybrid import build_hybrid_query, select_active_filters
from modules.llm_platform.infrastructure.index.qdrant import server as qdrant_server

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient
    from qdrant_client.models import Filter, PointStruct, Record

BATCH_POINTS: Final = 200  # points of one request: about 2 MB of the 32 MB that a server accepts
PAGE_RECORDS: Final = 1000  # records of one request
QDRANT_TIMEOUT_S: Final = 60.0  # limit for one request; a server under load writes slowly
COLLECTION_INFO_TTL_S: Final = 30.0  # lifetime of a collection's cached facts: another process may recreate it


class QdrantVectorStore(IVectorStore):
    """The server at `url`. With `client=None` it makes a client of its own on first use, which `aclose` closes."""

    name = "qdrant"

    def __init__(
        self,
        url: str,
        api_key: str = "",
        *,
        timeout: float = QDRANT_TIMEOUT_S,
        client: AsyncQdrantClient | None = None,
    ) -> None:
        self._url = url
        self._api_key = api_key
        self._timeout = timeout
        self._client = client
        self._is_own = client is None
        self._facts: dict[str, tuple[float, dtos.Collection]] = {}  # the time of reading, and what was read

    async def describe(self, collection: str) -> dtos.Collection | None:
        with qdrant_server.translate_errors(collection):
            async with asyncio.timeout(self._timeout):
                return await self._read_collection_info(collection)

    async def prepare(self, collection: dtos.Collection) -> None:
        with qdrant_server.translate_errors(collection.name):
            async with asyncio.timeout(self._timeout):
                there = await self._read_collection_info(collection.name)
                if there is None:
                    await self._make(collection)
                elif (there.embedder, there.dimension) != (collection.embedder, collection.dimension):
                    raise payloads.make_embedder_mismatch(there, collection)

    async def replace(
        self, collection: str, document: dtos.IndexedDocument, passages: Sequence[dtos.EmbeddedPassage]
    ) -> None:
        """Write new passages, delete the old ones, and write the document's point last.

        Readers see one version, or both while the server runs the request. After a crash, the document counts as changed. If
        there are more than BATCH_POINTS passages, earlier requests send the first ones.
        """
        with qdrant_server.translate_errors(collection):
            facts = await self._get_facts(collection)
            points = [qdrant_server.make_passage_point(point) for point in payloads.prepare_points(facts, passages)]
            sent_before = max(0, (len(points) - 1) // BATCH_POINTS * BATCH_POINTS)
            for first in range(0, sent_before, BATCH_POINTS):
                await self._upsert(collection, points[first : first + BATCH_POINTS])
            document_itself = qdrant_server.make_bare_point(
                payloads.make_document_point(document.doc_id), payloads.make_document_payload(document)
            )
            others = qdrant_server.select_points(
                [document.doc_id], payloads.PASSAGE, except_ids=[point.id for point in points]
            )
            async with asyncio.timeout(self._timeout):
                await self._get_client().batch_update_points(
                    collection,
                    qdrant_server.replace_operations(points[sent_before:], others, document_itself),
                    wait=True,
                )

    async def remove(self, collection: str, doc_ids: Sequence[str]) -> None:
        with qdrant_server.translate_errors(collection):
            await self._get_facts(collection)
            for first in range(0, len(doc_ids), PAGE_RECORDS):
                batch = doc_ids[first : first + PAGE_RECORDS]
                await self._forget(collection, batch, payloads.PASSAGE)
                await self._forget(collection, batch, payloads.DOCUMENT)

    async def documents(self, collection: str) -> AsyncIterator[dtos.IndexedDocument]:
        with qdrant_server.translate_errors(collection):
            await self._get_facts(collection)
            async for record in self._scroll_records(
                collection, qdrant_server.build_filter([(payloads.KIND, [payloads.DOCUMENT])])
            ):
                yield payloads.parse_document(record.payload or {})

    async def lookup(self, collection: str, doc_ids: Sequence[str]) -> dict[str, dtos.IndexedDocument]:
        found: dict[str, dtos.IndexedDocument] = {}
        with qdrant_server.translate_errors(collection):
            await self._get_facts(collection)
            client = self._get_client()
            for first in range(0, len(doc_ids), PAGE_RECORDS):
                ids = [payloads.make_document_point(doc_id) for doc_id in doc_ids[first : first + PAGE_RECORDS]]
                async with asyncio.timeout(self._timeout):
                    records = await client.retrieve(collection, ids, with_payload=True)
                found |= {
                    document.doc_id: document
                    for document in (payloads.parse_document(record.payload or {}) for record in records)
                }
        return {doc_id: found[replace_surrogates(doc_id)] for doc_id in doc_ids if replace_surrogates(doc_id) in found}

    async def search(
        self, collection: str, text: str, vector: dtos.Vector | None, filters: dtos.Filters, limit: int
    ) -> list[dtos.FoundPassage]:
        with qdrant_server.translate_errors(collection):
            hybrid = build_hybrid_query(await self._get_facts(collection), text, vector)
            if not hybrid.lists:
                return []
            fields = qdrant_server.build_filter(
                [
                    (payloads.FIELDS, payloads.make_field_texts(key, values))
                    for key, values in select_active_filters(filters)
                ]
            )
            async with asyncio.timeout(self._timeout):
                answer = await self._get_client().query_points(
                    collection, **qdrant_server.make_query(hybrid, fields), limit=limit
                )
            return [
                dtos.FoundPassage(
                    passage=payloads.parse_passage(point.id, point.payload or {}), score=hybrid.score(point.score)
                )
                for point in answer.points
            ]

    async def passages(self, collection: str, doc_id: str) -> list[dtos.Passage]:
        with qdrant_server.translate_errors(collection):
            await self._get_facts(collection)
            fields = qdrant_server.build_filter(
                [(payloads.DOC_ID, [replace_surrogates(doc_id)]), (payloads.KIND, [payloads.PASSAGE])]
            )
            found = [(record.id, record.payload or {}) async for record in self._scroll_records(collection, fields)]
            return [
                payloads.parse_passage(*point)
                for point in sorted(found, key=lambda point: payloads.parse_place(point[1]))
            ]

    async def finish(self, collection: str) -> None:
        """Does nothing: writes to a server are visible at once."""

    async def aclose(self) -> None:
        if self._is_own and self._client is not None:
            client, self._client = self._client, None
            await client.close()

    def _get_client(self) -> AsyncQdrantClient:
        if self._client is None:
            self._client = _connect(self._url, self._api_key, self._timeout)
        return self._client if current_span() is NO_SPAN else cast("AsyncQdrantClient", _TracedClient(self._client))

    async def _get_facts(self, collection: str) -> dtos.Collection:
        """Return the facts of a collection. Raises VectorStoreConfigError without one."""
        read_at, facts = self._facts.get(collection, (0.0, None))
        if facts is None or time.monotonic() - read_at > COLLECTION_INFO_TTL_S:
            async with asyncio.timeout(self._timeout):
                facts = await self._read_collection_info(collection)
            if facts is None:
                raise payloads.no_collection(collection)
        return facts

    async def _read_collection_info(self, collection: str) -> dtos.Collection | None:
        if self._client is None:
            await asyncio.to_thread(_load_client)  # it takes a second or more, in which nothing else would be answered
        client = self._get_client()
        self._facts.pop(collection, None)
        if not await client.collection_exists(collection):
            return None
        records = await client.retrieve(collection, [payloads.FACTS_ID], with_payload=True)
        if not records:
            if qdrant_server.is_unfinished(await client.get_collection(collection)):
                return None  # `prepare` finishes it
            raise payloads.make_unknown_collection(collection)
        facts = payloads.parse_facts(collection, records[0].payload or {})
        self._facts[collection] = time.monotonic(), facts
        return facts

    async def _make(self, facts: dtos.Collection) -> None:
        """Create the collection, its indexes of fields, and last the point of its facts.

        If an earlier run ended before the last step, the rest is done here. Raises VectorStoreConfigError if that run began a
        collection for vectors of another length.
        """
        from qdrant_client import models

        client = self._get_client()
        dense = {payloads.DENSE: models.VectorParams(size=facts.dimension, distance=models.Distance.COSINE)}
        if not await client.collection_exists(facts.name):
            await client.create_collection(
                facts.name,
                vectors_config=dense if facts.dimension else {},
                sparse_vectors_config={payloads.WORDS: models.SparseVectorParams(modifier=models.Modifier.IDF)},
            )
        elif qdrant_server.read_dimension(await client.get_collection(facts.name)) != facts.dimension:
            raise payloads.make_unknown_collection(facts.name)
        for field in payloads.FILTERABLE:
            await client.create_payload_index(facts.name, field, models.PayloadSchemaType.KEYWORD, wait=True)
        await self._upsert(
            facts.name, [qdrant_server.make_bare_point(payloads.FACTS_ID, payloads.make_facts_payload(facts))]
        )

    async def _upsert(self, collection: str, points: list[PointStruct]) -> None:
        async with asyncio.timeout(self._timeout):
            await self._get_client().upsert(collection, points, wait=True)

    async def _forget(self, collection: str, doc_ids: Iterable[str], kind: str) -> None:
        async with asyncio.timeout(self._timeout):
            await self._get_client().delete(collection, qdrant_server.select_points(doc_ids, kind), wait=True)

    async def _scroll_records(self, collection: str, fields: Filter | None) -> AsyncIterator[Record]:
        following: Any = None
        while True:
            async with asyncio.timeout(self._timeout):
                records, following = await self._get_client().scroll(
                    collection, fields, limit=PAGE_RECORDS, offset=following, with_payload=True
                )
            for record in records:
                yield record
            if following is None:
                return


class _TracedClient:
    """The client, with a span for each call."""

    def __init__(self, client: AsyncQdrantClient) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._client, name)

        async def call(*arguments: Any, **options: Any) -> Any:
            with database_call("qdrant", name):
                return await method(*arguments, **options)

        return call


def _load_client() -> None:
    with suppress(ImportError):  # reported by `_connect`
        importlib.import_module("qdrant_client")


def _connect(url: str, api_key: str, timeout: float) -> AsyncQdrantClient:
    try:
        from qdrant_client import AsyncQdrantClient
    except ImportError as error:
        raise VectorStoreConfigError(
            'a Qdrant server needs another package: pip install "llm-platform[qdrant]"'
        ) from error
    # The key is sent as a header: as an argument, the client prints a warning about plain HTTP.
    headers = {"api-key": api_key} if api_key else None
    try:
        return AsyncQdrantClient(
            url=url, headers=headers, timeout=ceil(timeout), check_compatibility=False, trust_env=False
        )
    except ValueError as error:
        raise VectorStoreConfigError(
            "QDRANT_URL is not a valid address: set for instance http://localhost:6333"
        ) from error
