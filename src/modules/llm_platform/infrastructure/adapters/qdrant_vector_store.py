"""A Qdrant server as vector store (qdrant-client 1.20): several writers and readers, on any number of machines.

The schema is that of `infrastructure.vectors.payloads`, which the embedded store shares.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from modules.llm_platform.domain.dtos.retrieval_dtos import (
    Collection,
    EmbeddedPassage,
    Filters,
    FoundPassage,
    IndexedDocument,
    Passage,
    Vector,
)
from modules.llm_platform.domain.exceptions import VectorStoreConfigError
from modules.llm_platform.domain.ports.vector_store import IVectorStore
from modules.llm_platform.infrastructure.vectors.hybrid import chosen, question
from modules.llm_platform.infrastructure.vectors.payloads import (
    DENSE,
    DOC_ID,
    DOCUMENT,
    FACTS_ID,
    FIELDS,
    INDEXED,
    KIND,
    PASSAGE,
    WORDS,
    another_embedder,
    clean,
    document_of,
    document_payload,
    document_point,
    facts_of,
    facts_payload,
    field_texts,
    no_collection,
    not_one_of_ours,
    passage_of,
    prepared,
)
from modules.llm_platform.infrastructure.vectors.qdrant_server import (
    bare_point,
    in_this_order,
    matching,
    passage_point,
    query,
    theirs,
    translated,
)

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient
    from qdrant_client.models import Filter, PointStruct, Record

BATCH_POINTS: Final = 200  # sent at once: about 2 MB, of the 32 MB that a server takes
PAGE: Final = 1000  # records asked for at once
TIMEOUT_S: Final = 60.0  # of one request; a server under load writes slowly
FACTS_FOR_S: Final = 30.0  # that a collection's facts are remembered: somebody may make it anew with another embedder
NOT_INSTALLED: Final = 'a Qdrant server needs another package: pip install "llm-platform[qdrant]"'


class QdrantVectorStore(IVectorStore):
    """The server at `url`. With `client=None` it makes a client of its own on first use, which `aclose` closes."""

    name = "qdrant"

    def __init__(
        self,
        url: str,
        api_key: str = "",
        *,
        timeout: float = TIMEOUT_S,
        client: AsyncQdrantClient | None = None,
    ) -> None:
        self._url = url
        self._api_key = api_key
        self._timeout = timeout
        self._client = client
        self._is_own = client is None
        self._facts: dict[str, tuple[float, Collection]] = {}  # when they were read

    async def describe(self, collection: str) -> Collection | None:
        with translated(collection):
            async with asyncio.timeout(self._timeout):
                return await self._read_facts(collection)

    async def prepare(self, collection: Collection) -> None:
        with translated(collection.name):
            async with asyncio.timeout(self._timeout):
                there = await self._read_facts(collection.name)
                if there is None:
                    await self._make(collection)
                elif (there.embedder, there.dimension) != (collection.embedder, collection.dimension):
                    raise another_embedder(there, collection)

    async def replace(self, collection: str, document: IndexedDocument, passages: Sequence[EmbeddedPassage]) -> None:
        """The new passages come before the old ones go, and the document's own point is the last: a reader finds one form
        of it or, while the server carries one request out, both; a writer that dies half-way leaves a document that counts as
        changed. Of a document of more than BATCH_POINTS passages the first ones go ahead in requests of their own.
        """
        with translated(collection):
            facts = await self._known(collection)
            points = [passage_point(each) for each in prepared(facts, passages)]
            ahead = max(0, (len(points) - 1) // BATCH_POINTS * BATCH_POINTS)
            for first in range(0, ahead, BATCH_POINTS):
                await self._upsert(collection, points[first : first + BATCH_POINTS])
            itself = bare_point(document_point(document.doc_id), document_payload(document))
            others = theirs([document.doc_id], PASSAGE, keep=[point.id for point in points])
            async with asyncio.timeout(self._timeout):
                await self._connected().batch_update_points(
                    collection, in_this_order(points[ahead:], others, itself), wait=True
                )

    async def remove(self, collection: str, doc_ids: Sequence[str]) -> None:
        with translated(collection):
            await self._known(collection)
            for first in range(0, len(doc_ids), PAGE):
                batch = doc_ids[first : first + PAGE]
                await self._forget(collection, batch, PASSAGE)
                await self._forget(collection, batch, DOCUMENT)

    async def documents(self, collection: str) -> AsyncIterator[IndexedDocument]:
        with translated(collection):
            await self._known(collection)
            async for record in self._records(collection, matching([(KIND, [DOCUMENT])])):
                yield document_of(record.payload or {})

    async def lookup(self, collection: str, doc_ids: Sequence[str]) -> dict[str, IndexedDocument]:
        found: dict[str, IndexedDocument] = {}
        with translated(collection):
            await self._known(collection)
            client = self._connected()
            for first in range(0, len(doc_ids), PAGE):
                ids = [document_point(doc_id) for doc_id in doc_ids[first : first + PAGE]]
                async with asyncio.timeout(self._timeout):
                    records = await client.retrieve(collection, ids, with_payload=True)
                found |= {
                    document.doc_id: document for document in (document_of(each.payload or {}) for each in records)
                }
        return {doc_id: found[clean(doc_id)] for doc_id in doc_ids if clean(doc_id) in found}

    async def search(
        self, collection: str, text: str, vector: Vector | None, filters: Filters, limit: int
    ) -> list[FoundPassage]:
        with translated(collection):
            asked = question(await self._known(collection), text, vector, limit)
            if not asked.lists:
                return []
            only = matching([(FIELDS, field_texts(key, values)) for key, values in chosen(filters)])
            async with asyncio.timeout(self._timeout):
                answer = await self._connected().query_points(collection, **query(asked, only), limit=limit)
            return [
                FoundPassage(passage=passage_of(point.id, point.payload or {}), score=asked.score(point.score))
                for point in answer.points
            ]

    async def passages(self, collection: str, doc_id: str) -> list[Passage]:
        with translated(collection):
            await self._known(collection)
            only = matching([(DOC_ID, [clean(doc_id)]), (KIND, [PASSAGE])])
            found = [(record.id, record.payload or {}) async for record in self._records(collection, only)]
            return [passage_of(*each) for each in sorted(found, key=lambda each: each[1]["place"])]

    async def finish(self, collection: str) -> None:
        """What a server was given, it shows at once."""

    async def aclose(self) -> None:
        if self._is_own and self._client is not None:
            client, self._client = self._client, None
            await client.close()

    def _connected(self) -> AsyncQdrantClient:
        if self._client is None:
            self._client = _connect(self._url, self._api_key, self._timeout)
        return self._client

    async def _known(self, collection: str) -> Collection:
        """The facts of a collection that has to be there."""
        read_at, facts = self._facts.get(collection, (0.0, None))
        if facts is None or time.monotonic() - read_at > FACTS_FOR_S:
            async with asyncio.timeout(self._timeout):
                facts = await self._read_facts(collection)
            if facts is None:
                raise no_collection(collection)
        return facts

    async def _read_facts(self, collection: str) -> Collection | None:
        client = self._connected()
        self._facts.pop(collection, None)
        if not await client.collection_exists(collection):
            return None
        records = await client.retrieve(collection, [FACTS_ID], with_payload=True)
        if not records:
            raise not_one_of_ours(collection)
        facts = facts_of(collection, records[0].payload or {})
        self._facts[collection] = time.monotonic(), facts
        return facts

    async def _make(self, facts: Collection) -> None:
        from qdrant_client import models

        client = self._connected()
        dense = {DENSE: models.VectorParams(size=facts.dimension, distance=models.Distance.COSINE)}
        await client.create_collection(
            facts.name,
            vectors_config=dense if facts.dimension else {},
            sparse_vectors_config={WORDS: models.SparseVectorParams(modifier=models.Modifier.IDF)},
        )
        for field in INDEXED:
            await client.create_payload_index(facts.name, field, models.PayloadSchemaType.KEYWORD, wait=True)
        await self._upsert(facts.name, [bare_point(FACTS_ID, facts_payload(facts))])

    async def _upsert(self, collection: str, points: list[PointStruct]) -> None:
        async with asyncio.timeout(self._timeout):
            await self._connected().upsert(collection, points, wait=True)

    async def _forget(self, collection: str, doc_ids: Iterable[str], kind: str) -> None:
        async with asyncio.timeout(self._timeout):
            await self._connected().delete(collection, theirs(doc_ids, kind), wait=True)

    async def _records(self, collection: str, only: Filter | None) -> AsyncIterator[Record]:
        following: Any = None
        while True:
            async with asyncio.timeout(self._timeout):
                records, following = await self._connected().scroll(
                    collection, only, limit=PAGE, offset=following, with_payload=True
                )
            for record in records:
                yield record
            if following is None:
                return


def _connect(url: str, api_key: str, timeout: float) -> AsyncQdrantClient:
    try:
        from qdrant_client import AsyncQdrantClient
    except ImportError as error:
        raise VectorStoreConfigError(NOT_INSTALLED) from error
    # The key goes as a header of our own: given as a key, it makes the package warn on stderr about plain HTTP.
    headers = {"api-key": api_key} if api_key else None
    try:
        return AsyncQdrantClient(
            url=url, headers=headers, timeout=ceil(timeout), check_compatibility=False, trust_env=False
        )
    except ValueError as error:
        raise VectorStoreConfigError(
            "QDRANT_URL is no usable address: set for instance http://localhost:6333"
        ) from error
