"""The five topics of the contract (rag-core.md §3)."""

from __future__ import annotations

from typing import Final

from modules.llm_platform.domain.dtos.retrieval_dtos import RagStage

REQUEST_TOPICS: Final[dict[RagStage, str]] = {"search": "rag_search_request", "answer": "rag_answer_request"}
RESULT_TOPICS: Final[dict[RagStage, str]] = {"search": "rag_search_result", "answer": "rag_answer_result"}
FAILED_TOPIC: Final = "rag_failed"
STAGE_OF: Final[dict[str, RagStage]] = {topic: stage for stage, topic in REQUEST_TOPICS.items()}
