"""An answer of the index as JSON, and in the shape in which people and files are shown answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modules.llm_platform.domain.dtos.research_dtos import ResearchMetadata, ResearchResponse, SourceRef
from modules.llm_platform.presentation.cli.as_json import dumped

if TYPE_CHECKING:
    from modules.llm_platform.presentation.cli.asking import Answered

QUESTION_CHARS = 300  # of the question as a heading


def answer_json(answered: Answered) -> str:
    """What the answer stage tells (rag-core.md §4.4), without the fields of a request, and what it took."""
    answer = answered.answer
    told = {
        "answer": answer.answer,
        "citations": [each.model_dump(mode="json", exclude_none=True) for each in answer.citations],
        "latency_ms": answered.latency_ms,
        "answered": answer.answered,
        "degraded": [each.model_dump(mode="json") for each in answer.degraded],
        "synthesizer": answer.synthesizer,
        "tokens_used": answer.spent.tokens,
        "cost_usd": answer.spent.cost_usd,
    }
    return dumped(told)


def as_research(answered: Answered) -> ResearchResponse:
    """The answer with its documents as sources; one without an address is shown by its id."""
    answer, spent = answered.answer, answered.answer.spent
    sources = tuple(
        SourceRef(index=number, title=each.title or each.doc_id or "", url=each.url or each.doc_id or "")
        for number, each in enumerate(answer.citations, 1)
    )
    metadata = ResearchMetadata(
        latency_ms=answered.latency_ms,
        tokens_used=spent.tokens,
        cost_usd=spent.cost_usd,
        llm_calls=spent.calls,
        synthesizer=answer.synthesizer,
        language=answered.question.language or "en",
    )
    return ResearchResponse(
        query=answered.question.question[:QUESTION_CHARS],
        depth="shallow",
        synthesis=answer.answer,
        sources=sources,
        degraded=answer.degraded,
        metadata=metadata,
    )
