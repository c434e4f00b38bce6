"""The public names of `modules.llm_platform`: module to the names that it defines.

This table is the only list. `modules/llm_platform/__init__.py` loads the names from it on first access;
`make docs` writes `__init__.pyi` from it for type checkers and editors. A public name is never removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_NAMES: Final[Mapping[str, str]] = {
    "modules.llm_platform.application.platform": "LLMPlatform",
    "modules.llm_platform.application.rag.indexing": "IndexingService",
    "modules.llm_platform.application.rag.retrieval": "RetrievalService",
    "modules.llm_platform.application.research.events": "ResearchEvent",
    "modules.llm_platform.application.services.answer_service": "AnswerService",
    "modules.llm_platform.application.services.embedding_service": "EmbeddingService",
    "modules.llm_platform.application.services.health_service": "HealthService",
    "modules.llm_platform.application.services.llm_service": "LLMService",
    "modules.llm_platform.application.services.page_service": "PageService",
    "modules.llm_platform.application.services.research_job_service": "ResearchJobService",
    "modules.llm_platform.application.services.research_service": "ResearchService",
    "modules.llm_platform.application.services.store_service": "StoreService",
    "modules.llm_platform.application.services.web_search_service": "WebSearchService",
    "modules.llm_platform.domain.dtos.degraded": "Degraded",
    "modules.llm_platform.domain.dtos.indexing_dtos": "IndexProblem IndexProgress IndexReport",
    "modules.llm_platform.domain.dtos.llm_dtos": (
        "ChatMessage ConfiguredModel LLMRequest LLMReset LLMResponse LLMToken Spending Usage"
    ),
    "modules.llm_platform.domain.dtos.page_dtos": "Page",
    "modules.llm_platform.domain.dtos.report_dtos": "PlanRequest ResearchPlan",
    "modules.llm_platform.domain.dtos.research_dtos": (
        "Citation CitedClaim HeldSource JudgedClaims RawResult ResearchMetadata ResearchRequest ResearchResponse "
        "Source SourceRef StoredTurns Synthesis SynthesisReset SynthesisToken Turn"
    ),
    "modules.llm_platform.domain.dtos.research_job_dtos": (
        "ClaimedJob EventPage JobEvent NewResearchJob ResearchJob ResearchJobDetail ResearchJobPage ResearchProgress "
        "WebhookDelivery WebhookState"
    ),
    "modules.llm_platform.domain.dtos.retrieval_dtos": (
        "Collection ContextItem EmbeddedPassage FoundPassage Hit IndexedDocument Outcome OutcomeFilter Passage RagAnswer "
        "RagCitation RagHits RagQuestion RagSearch StoredOutcome"
    ),
    "modules.llm_platform.domain.dtos.sent": "Sent",
    "modules.llm_platform.domain.dtos.store_dtos": (
        "Imported StageStats StoreStage StoreStats StoredEntry StoredTopic Topic"
    ),
    "modules.llm_platform.domain.dtos.web_search_dtos": (
        "VerbatimWebSearchRequest WebSearchRequest WebSearchResponse WebSearchResultItem"
    ),
    "modules.llm_platform.domain.exceptions": (
        "BackgroundError DailyBudgetError EmbeddingConfigError EmbeddingError LLMBlockedError LLMBudgetError LLMConfigError "
        "LLMConnectionError LLMException LLMProviderException LLMQuotaError LLMRequestError LLMTimeoutError "
        "LLMUnavailableError OutcomeStoreError PageBlockedError PageConfigError PageConnectionError PageError PageRequestError "
        "PageTimeoutError PreviousResearchNotFoundError PriceUnknownError ResearchCancelledError ResearchInterruptedError "
        "ResearchNotFoundError ResearchQueueFullError ResearchTimeoutError SchemaRegistryError "
        "SourceNotHeldError SpendingStoreError StoreError StoreUnavailableError TopicNotFoundError "
        "VectorStoreBusyError VectorStoreConfigError VectorStoreError WebSearchBlockedError WebSearchConfigError "
        "WebSearchConnectionError WebSearchError WebSearchRequestError WebSearchTimeoutError "
        "WebSearchUnavailableError WebhookError"
    ),
    "modules.llm_platform.domain.ports.cache": "ICache",
    "modules.llm_platform.domain.ports.citation_judge": "ICitationJudge",
    "modules.llm_platform.domain.ports.embedder": "IEmbedder",
    "modules.llm_platform.domain.ports.health": "IHealthProbe",
    "modules.llm_platform.domain.ports.llm": "ILLMProvider LLMRegistry",
    "modules.llm_platform.domain.ports.outcome_store": "IOutcomeStore",
    "modules.llm_platform.domain.ports.page_reader": "IPageReader",
    "modules.llm_platform.domain.ports.research_job_store": "IResearchJobStore LeaseLostError",
    "modules.llm_platform.domain.ports.research_store": "IResearchStore",
    "modules.llm_platform.domain.ports.synthesizer": "ISynthesizer SynthesisRequest",
    "modules.llm_platform.domain.ports.vector_store": "IVectorStore",
    "modules.llm_platform.domain.ports.web_search": "IWebSearchProvider",
    "shared.exceptions": "AppException",
}
MODULE_OF: Final[Mapping[str, str]] = {name: module for module, names in _NAMES.items() for name in names.split()}
