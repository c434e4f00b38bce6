"""Search and research: a question in, an answer out in which every sentence can be traced to its source.

    from modules.llm_platform import ResearchRequest
    from modules.llm_platform.container import build_platform

    async with build_platform() as platform:
        answer = await platform.research.research(ResearchRequest(query="What is asyncio?"))

A name is loaded when it is first asked for (PEP 562): importing this package costs next to nothing. It raises an ImportError
with both paths where a package `shared` of the application hides the one that belongs to this package.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from llm_platform_names import check_shared

if TYPE_CHECKING:
    from modules.llm_platform.application.platform import LLMPlatform
    from modules.llm_platform.application.research.events import ResearchEvent
    from modules.llm_platform.application.services.answer_service import AnswerService
    from modules.llm_platform.application.services.health_service import HealthService
    from modules.llm_platform.application.services.indexing_service import IndexingService
    from modules.llm_platform.application.services.llm_service import LLMRegistry, LLMService
    from modules.llm_platform.application.services.page_service import PageService
    from modules.llm_platform.application.services.research_service import ResearchService
    from modules.llm_platform.application.services.retrieval_service import RetrievalService
    from modules.llm_platform.application.services.store_service import StoreService
    from modules.llm_platform.application.services.web_search_service import WebSearchService
    from modules.llm_platform.domain.dtos.degraded import Degraded
    from modules.llm_platform.domain.dtos.indexing_dtos import IndexProblem, IndexProgress, IndexReport
    from modules.llm_platform.domain.dtos.llm_dtos import (
        ChatMessage,
        LLMRequest,
        LLMReset,
        LLMResponse,
        LLMToken,
        Spending,
        Usage,
    )
    from modules.llm_platform.domain.dtos.page_dtos import Page
    from modules.llm_platform.domain.dtos.report_dtos import PlanRequest, ResearchPlan
    from modules.llm_platform.domain.dtos.research_dtos import (
        Citation,
        CitedClaim,
        HeldSource,
        JudgedClaims,
        RawResult,
        ResearchMetadata,
        ResearchRequest,
        ResearchResponse,
        Source,
        SourceRef,
        Synthesis,
        SynthesisReset,
        SynthesisToken,
    )
    from modules.llm_platform.domain.dtos.retrieval_dtos import (
        Collection,
        ContextItem,
        EmbeddedPassage,
        FoundPassage,
        Hit,
        IndexedDocument,
        Outcome,
        Passage,
        RagAnswer,
        RagCitation,
        RagHits,
        RagQuestion,
        RagSearch,
    )
    from modules.llm_platform.domain.dtos.sent import Sent
    from modules.llm_platform.domain.dtos.store_dtos import (
        Imported,
        StageStats,
        StoredEntry,
        StoredTopic,
        StoreStage,
        StoreStats,
        Topic,
    )
    from modules.llm_platform.domain.dtos.web_search_dtos import (
        VerbatimWebSearchRequest,
        WebSearchRequest,
        WebSearchResponse,
        WebSearchResultItem,
    )
    from modules.llm_platform.domain.exceptions import (
        EmbeddingConfigError,
        EmbeddingError,
        LLMBlockedError,
        LLMBudgetError,
        LLMConfigError,
        LLMConnectionError,
        LLMException,
        LLMProviderException,
        LLMQuotaError,
        LLMRequestError,
        LLMTimeoutError,
        LLMUnavailableError,
        OutcomeStoreError,
        PageBlockedError,
        PageConfigError,
        PageConnectionError,
        PageError,
        PageRequestError,
        PageTimeoutError,
        PriceUnknownError,
        ResearchTimeoutError,
        SourceNotHeldError,
        StoreError,
        TopicNotFoundError,
        VectorStoreConfigError,
        VectorStoreError,
        WebSearchBlockedError,
        WebSearchConfigError,
        WebSearchConnectionError,
        WebSearchError,
        WebSearchRequestError,
        WebSearchTimeoutError,
    )
    from modules.llm_platform.domain.ports.cache import ICache
    from modules.llm_platform.domain.ports.citation_judge import ICitationJudge
    from modules.llm_platform.domain.ports.embedder import IEmbedder
    from modules.llm_platform.domain.ports.health import IHealthProbe
    from modules.llm_platform.domain.ports.llm import ILLMProvider, IWarmUp
    from modules.llm_platform.domain.ports.outcome_store import IOutcomeStore
    from modules.llm_platform.domain.ports.page_reader import IPageReader
    from modules.llm_platform.domain.ports.research_store import IResearchStore
    from modules.llm_platform.domain.ports.synthesizer import ISynthesizer
    from modules.llm_platform.domain.ports.vector_store import IVectorStore
    from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
    from shared.exceptions import AppException

__all__ = [
    "AnswerService",
    "AppException",
    "ChatMessage",
    "Citation",
    "CitedClaim",
    "Collection",
    "ContextItem",
    "Degraded",
    "EmbeddedPassage",
    "EmbeddingConfigError",
    "EmbeddingError",
    "FoundPassage",
    "HealthService",
    "HeldSource",
    "Hit",
    "ICache",
    "ICitationJudge",
    "IEmbedder",
    "IHealthProbe",
    "ILLMProvider",
    "IOutcomeStore",
    "IPageReader",
    "IResearchStore",
    "ISynthesizer",
    "IVectorStore",
    "IWarmUp",
    "IWebSearchProvider",
    "Imported",
    "IndexProblem",
    "IndexProgress",
    "IndexReport",
    "IndexedDocument",
    "IndexingService",
    "JudgedClaims",
    "LLMBlockedError",
    "LLMBudgetError",
    "LLMConfigError",
    "LLMConnectionError",
    "LLMException",
    "LLMPlatform",
    "LLMProviderException",
    "LLMQuotaError",
    "LLMRegistry",
    "LLMRequest",
    "LLMRequestError",
    "LLMReset",
    "LLMResponse",
    "LLMService",
    "LLMTimeoutError",
    "LLMToken",
    "LLMUnavailableError",
    "Outcome",
    "OutcomeStoreError",
    "Page",
    "PageBlockedError",
    "PageConfigError",
    "PageConnectionError",
    "PageError",
    "PageRequestError",
    "PageService",
    "PageTimeoutError",
    "Passage",
    "PlanRequest",
    "PriceUnknownError",
    "RagAnswer",
    "RagCitation",
    "RagHits",
    "RagQuestion",
    "RagSearch",
    "RawResult",
    "ResearchEvent",
    "ResearchMetadata",
    "ResearchPlan",
    "ResearchRequest",
    "ResearchResponse",
    "ResearchService",
    "ResearchTimeoutError",
    "RetrievalService",
    "Sent",
    "Source",
    "SourceNotHeldError",
    "SourceRef",
    "Spending",
    "StageStats",
    "StoreError",
    "StoreService",
    "StoreStage",
    "StoreStats",
    "StoredEntry",
    "StoredTopic",
    "Synthesis",
    "SynthesisReset",
    "SynthesisToken",
    "Topic",
    "TopicNotFoundError",
    "Usage",
    "VectorStoreConfigError",
    "VectorStoreError",
    "VerbatimWebSearchRequest",
    "WebSearchBlockedError",
    "WebSearchConfigError",
    "WebSearchConnectionError",
    "WebSearchError",
    "WebSearchRequest",
    "WebSearchRequestError",
    "WebSearchResponse",
    "WebSearchResultItem",
    "WebSearchService",
    "WebSearchTimeoutError",
]

_HOMES = {
    "modules.llm_platform.application.platform": ("LLMPlatform",),
    "modules.llm_platform.application.research.events": ("ResearchEvent",),
    "modules.llm_platform.application.services.answer_service": ("AnswerService",),
    "modules.llm_platform.application.services.health_service": ("HealthService",),
    "modules.llm_platform.application.services.indexing_service": ("IndexingService",),
    "modules.llm_platform.application.services.llm_service": (
        "LLMRegistry",
        "LLMService",
    ),
    "modules.llm_platform.application.services.page_service": ("PageService",),
    "modules.llm_platform.application.services.research_service": ("ResearchService",),
    "modules.llm_platform.application.services.retrieval_service": ("RetrievalService",),
    "modules.llm_platform.application.services.store_service": ("StoreService",),
    "modules.llm_platform.application.services.web_search_service": ("WebSearchService",),
    "modules.llm_platform.domain.dtos.degraded": ("Degraded",),
    "modules.llm_platform.domain.dtos.indexing_dtos": (
        "IndexProblem",
        "IndexProgress",
        "IndexReport",
    ),
    "modules.llm_platform.domain.dtos.llm_dtos": (
        "ChatMessage",
        "LLMRequest",
        "LLMReset",
        "LLMResponse",
        "LLMToken",
        "Spending",
        "Usage",
    ),
    "modules.llm_platform.domain.dtos.page_dtos": ("Page",),
    "modules.llm_platform.domain.dtos.report_dtos": (
        "PlanRequest",
        "ResearchPlan",
    ),
    "modules.llm_platform.domain.dtos.research_dtos": (
        "Citation",
        "CitedClaim",
        "HeldSource",
        "JudgedClaims",
        "RawResult",
        "ResearchMetadata",
        "ResearchRequest",
        "ResearchResponse",
        "Source",
        "SourceRef",
        "Synthesis",
        "SynthesisReset",
        "SynthesisToken",
    ),
    "modules.llm_platform.domain.dtos.retrieval_dtos": (
        "Collection",
        "ContextItem",
        "EmbeddedPassage",
        "FoundPassage",
        "Hit",
        "IndexedDocument",
        "Outcome",
        "Passage",
        "RagAnswer",
        "RagCitation",
        "RagHits",
        "RagQuestion",
        "RagSearch",
    ),
    "modules.llm_platform.domain.dtos.sent": ("Sent",),
    "modules.llm_platform.domain.dtos.store_dtos": (
        "Imported",
        "StageStats",
        "StoreStage",
        "StoreStats",
        "StoredEntry",
        "StoredTopic",
        "Topic",
    ),
    "modules.llm_platform.domain.dtos.web_search_dtos": (
        "VerbatimWebSearchRequest",
        "WebSearchRequest",
        "WebSearchResponse",
        "WebSearchResultItem",
    ),
    "modules.llm_platform.domain.exceptions": (
        "EmbeddingConfigError",
        "EmbeddingError",
        "LLMBlockedError",
        "LLMBudgetError",
        "LLMConfigError",
        "LLMConnectionError",
        "LLMException",
        "LLMProviderException",
        "LLMQuotaError",
        "LLMRequestError",
        "LLMTimeoutError",
        "LLMUnavailableError",
        "OutcomeStoreError",
        "PageBlockedError",
        "PageConfigError",
        "PageConnectionError",
        "PageError",
        "PageRequestError",
        "PageTimeoutError",
        "PriceUnknownError",
        "ResearchTimeoutError",
        "SourceNotHeldError",
        "StoreError",
        "TopicNotFoundError",
        "VectorStoreConfigError",
        "VectorStoreError",
        "WebSearchBlockedError",
        "WebSearchConfigError",
        "WebSearchConnectionError",
        "WebSearchError",
        "WebSearchRequestError",
        "WebSearchTimeoutError",
    ),
    "modules.llm_platform.domain.ports.cache": ("ICache",),
    "modules.llm_platform.domain.ports.citation_judge": ("ICitationJudge",),
    "modules.llm_platform.domain.ports.embedder": ("IEmbedder",),
    "modules.llm_platform.domain.ports.health": ("IHealthProbe",),
    "modules.llm_platform.domain.ports.llm": (
        "ILLMProvider",
        "IWarmUp",
    ),
    "modules.llm_platform.domain.ports.outcome_store": ("IOutcomeStore",),
    "modules.llm_platform.domain.ports.page_reader": ("IPageReader",),
    "modules.llm_platform.domain.ports.research_store": ("IResearchStore",),
    "modules.llm_platform.domain.ports.synthesizer": ("ISynthesizer",),
    "modules.llm_platform.domain.ports.vector_store": ("IVectorStore",),
    "modules.llm_platform.domain.ports.web_search": ("IWebSearchProvider",),
    "shared.exceptions": ("AppException",),
}
check_shared(__file__)

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
