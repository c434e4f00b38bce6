"""What other modules may hold on to. A name is added here on purpose and removed never."""

from __future__ import annotations

import modules.llm_platform as platform

NAMES = [
    "AppException",
    "ChatMessage",
    "Citation",
    "Degraded",
    "HealthService",
    "HeldSource",
    "ICache",
    "IHealthProbe",
    "ILLMProvider",
    "IPageReader",
    "IResearchStore",
    "ISynthesizer",
    "IWarmUp",
    "IWebSearchProvider",
    "Imported",
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
    "Page",
    "PageBlockedError",
    "PageConfigError",
    "PageConnectionError",
    "PageError",
    "PageRequestError",
    "PageService",
    "PageTimeoutError",
    "PlanRequest",
    "PriceUnknownError",
    "RawResult",
    "ResearchEvent",
    "ResearchMetadata",
    "ResearchPlan",
    "ResearchRequest",
    "ResearchResponse",
    "ResearchService",
    "ResearchTimeoutError",
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


def test_the_public_names() -> None:
    """Every name of `__all__` is promised, sorted and there; nothing is public by accident."""
    assert sorted(platform.__all__) == list(platform.__all__)
    assert [name for name in NAMES if name not in platform.__all__] == []
    assert [name for name in platform.__all__ if name not in NAMES] == []
    assert all(hasattr(platform, name) for name in platform.__all__)


def test_public_names_come_from_the_inside() -> None:
    """The door leads to domain and application alone: no adapter, no framework stands behind a public name."""
    homes = {getattr(platform, name).__module__ for name in platform.__all__ if isinstance(getattr(platform, name), type)}
    inside = ("modules.llm_platform.domain", "modules.llm_platform.application", "shared.exceptions")
    assert [home for home in sorted(homes) if not home.startswith(inside)] == []
