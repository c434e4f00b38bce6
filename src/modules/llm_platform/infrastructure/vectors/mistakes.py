"""What every vector store says of a collection that is not as it should be."""

from __future__ import annotations

from modules.llm_platform.domain.dtos.retrieval_dtos import Collection
from modules.llm_platform.domain.exceptions import VectorStoreConfigError


def no_collection(name: str) -> VectorStoreConfigError:
    return VectorStoreConfigError(f"there is no collection {name!r}: make it with `llm-platform index PATH`")


def another_embedder(there: Collection, wanted: Collection) -> VectorStoreConfigError:
    return VectorStoreConfigError(
        f"the collection {there.name!r} holds vectors of {there.embedder} ({there.dimension} numbers), not of "
        f"{wanted.embedder} ({wanted.dimension}): set EMBEDDER as it was, or another QDRANT_COLLECTION and index anew"
    )


def not_one_of_ours(name: str) -> VectorStoreConfigError:
    return VectorStoreConfigError(
        f"the collection {name!r} was not made by llm-platform: set another QDRANT_COLLECTION and index anew"
    )


def other_words(name: str) -> VectorStoreConfigError:
    return VectorStoreConfigError(
        f"the collection {name!r} was made by another version of llm-platform, whose words ours do not match: set another "
        "QDRANT_COLLECTION and index anew"
    )
