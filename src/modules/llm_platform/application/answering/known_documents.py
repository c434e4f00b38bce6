"""Look up in the index the documents that a context names (rag-core.md §4.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from modules.llm_platform.domain.dtos.retrieval_dtos import Filters, Passage
from modules.llm_platform.domain.ports.vector_store import IVectorStore
from modules.llm_platform.domain.whole_text import whole_text

MAX_TEXT_CHARS: Final = 100_000  # of a document that is named without words of it
LOOKED_UP_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True)
class Known:
    """A document of the index; its text where it was asked for."""

    title: str
    url: str | None
    text: str = ""


class KnownDocuments:
    """The documents of one collection, by id."""

    def __init__(self, store: IVectorStore, collection: str) -> None:
        self._store, self._collection = store, collection

    async def find(self, doc_ids: Collection[str], whole: Collection[str], filters: Filters) -> dict[str, Known]:
        """Those of the documents that the index has and the filters let through; with their text those in `whole`.

        What the filters hide is not there: neither its title nor a word of it is told. Raises the errors of the store.
        """
        to_open = list(doc_ids) if any(filters.values()) else [doc_id for doc_id in doc_ids if doc_id in whole]
        by_name = [doc_id for doc_id in doc_ids if doc_id not in to_open]
        found = await self._store.lookup(self._collection, by_name) if by_name else {}
        known = {doc_id: Known(each.title, each.url) for doc_id, each in found.items()}
        for doc_id, passages in zip(to_open, await self._passages(to_open), strict=True):
            if passages and _passes(passages[0], filters):
                text = whole_text(passages, MAX_TEXT_CHARS) if doc_id in whole else ""
                known[doc_id] = Known(passages[0].title, passages[0].url, text)
        return known

    async def _passages(self, doc_ids: Sequence[str]) -> list[list[Passage]]:
        at_once = asyncio.Semaphore(LOOKED_UP_AT_ONCE)

        async def one(doc_id: str) -> list[Passage]:
            async with at_once:
                return await self._store.passages(self._collection, doc_id)

        return await asyncio.gather(*map(one, doc_ids))


def _passes(passage: Passage, filters: Filters) -> bool:
    """Whether a search with these filters could have found it."""
    return all(not set(values).isdisjoint(passage.fields.get(key, ())) for key, values in filters.items() if values)
