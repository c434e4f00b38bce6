"""Documents for the promises of vector stores, and short ways to put them there and to find them."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from hashlib import sha256
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

from modules.llm_platform.domain.dtos.retrieval_dtos import (
    Collection,
    EmbeddedPassage,
    Filters,
    FoundPassage,
    IndexedDocument,
    Passage,
)
from modules.llm_platform.domain.ports.vector_store import IVectorStore
from modules.llm_platform.testing.embedder import DIMENSION, HashEmbedder
from shared.exceptions import AppException

NAME: Final = "contract"
FACTS: Final = Collection(name=NAME, embedder=f"hash/{DIMENSION}", dimension=DIMENSION)
EMBEDDER: Final = HashEmbedder()


async def filled(store: IVectorStore) -> None:
    await store.prepare(FACTS)
    await put(store, "cats", "cats drink milk", "cats sleep on the mat", fields={"kind": ("animal",)})
    await put(store, "dogs", "dogs chase a ball in the garden", fields={"kind": ("animal",)})
    await put(store, "tasks", "a running task is cancelled by calling cancel", fields={"kind": ("code",)})


async def put(store: IVectorStore, doc_id: str, *texts: str, **about: Any) -> IndexedDocument:
    passages = some_passages(doc_id, texts, **about)
    vectors = await EMBEDDER.embed(texts)
    document = a_document(doc_id, texts, about.get("title", ""), about.get("url"))
    embedded = [EmbeddedPassage(*each) for each in zip(passages, vectors, strict=True)]
    await store.replace(NAME, document, embedded)
    return document


def a_document(doc_id: str, texts: Sequence[str], title: str, url: str | None = None) -> IndexedDocument:
    digest = sha256("\n".join(texts).encode(errors="replace")).hexdigest()
    return IndexedDocument(doc_id=doc_id, sha256=digest, passages=len(texts), title=title, url=url)


def some_passages(
    doc_id: str, texts: Sequence[str], title: str = "", fields: Filters | None = None, **about: Any
) -> list[Passage]:
    return [
        Passage(
            id=str(uuid5(NAMESPACE_URL, repr((doc_id, number, text)))),
            doc_id=doc_id, title=title, text=text, start=number * 10, lang="en", fields=fields or {}, **about,
        )
        for number, text in enumerate(texts)
    ]  # fmt: skip


def near(position: int) -> list[float]:
    """A vector that mostly points where all of them do, and a little into a direction of its own."""
    vector = [1.0, *[0.0] * (DIMENSION - 1)]
    vector[position] = 0.1
    return vector


async def found_by(store: IVectorStore, text: str, limit: int = 10) -> list[FoundPassage]:
    (vector,) = await EMBEDDER.embed([text])
    return await store.search(NAME, text, vector, {}, limit)


async def listed(store: IVectorStore) -> list[IndexedDocument]:
    return [each async for each in store.documents(NAME)]


async def failure_of(action: Awaitable[object]) -> AppException:
    try:
        await action
    except AppException as error:
        return error
    raise AssertionError("it did not fail")
