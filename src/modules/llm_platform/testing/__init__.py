"""For users who write adapters or test code that uses the platform: fakes, and the promises of each port as test classes."""

from modules.llm_platform.testing.cache import CacheContract
from modules.llm_platform.testing.citation_judge import CitationJudgeContract, FakeCitationJudge
from modules.llm_platform.testing.embedder import EmbedderContract, HashEmbedder
from modules.llm_platform.testing.llm import Death, FakeLLM, LLMProviderContract
from modules.llm_platform.testing.outcome_store import MemoryOutcomeStore, OutcomeStoreContract
from modules.llm_platform.testing.page_reader import (
    FakePageReader,
    PageReaderContract,
    Reading,
    SlowReading,
    made_up_page,
)
from modules.llm_platform.testing.reader_probe import ReaderProbe, probe_reader
from modules.llm_platform.testing.research_store import MemoryResearchStore
from modules.llm_platform.testing.research_store_contract import ResearchStoreContract
from modules.llm_platform.testing.synthesizer import FakeSynthesizer, SynthesizerContract
from modules.llm_platform.testing.vector_store import MemoryVectorStore
from modules.llm_platform.testing.vector_store_contract import VectorStoreContract
from modules.llm_platform.testing.web_search import FakeWebSearch, Looking, Slow, WebSearchProviderContract, result_item

__all__ = [
    "CacheContract",
    "CitationJudgeContract",
    "Death",
    "EmbedderContract",
    "FakeCitationJudge",
    "FakeLLM",
    "FakePageReader",
    "FakeSynthesizer",
    "FakeWebSearch",
    "HashEmbedder",
    "LLMProviderContract",
    "Looking",
    "MemoryOutcomeStore",
    "MemoryResearchStore",
    "MemoryVectorStore",
    "OutcomeStoreContract",
    "PageReaderContract",
    "ReaderProbe",
    "Reading",
    "ResearchStoreContract",
    "Slow",
    "SlowReading",
    "SynthesizerContract",
    "VectorStoreContract",
    "WebSearchProviderContract",
    "made_up_page",
    "probe_reader",
    "result_item",
]
