"""A document's text, put together from its passages."""

from __future__ import annotations

from collections.abc import Iterable

from modules.llm_platform.domain.dtos.retrieval_dtos import Passage

GAP = "\n\n"  # what stood between two passages was blank


def whole_text(passages: Iterable[Passage], limit: int | None = None) -> str:
    """The text that the passages were cut from, in their order; what two of them share is there once. At most `limit`
    characters (None: all).
    """
    text, end = "", 0  # `end`: of what we have, in the document
    for passage in passages:
        overlap = max(0, end - passage.start)
        shared = passage.text[:overlap]
        if passage.start <= end and (not shared or text[-overlap:].startswith(shared)):
            text += passage.text[len(shared) :]
        else:
            text += (GAP if text else "") + passage.text
        end = max(end, passage.start + len(passage.text))
        if limit is not None and len(text) >= limit:
            break
    return text[:limit]
