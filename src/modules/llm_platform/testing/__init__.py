"""Fakes of the ports, and a contract class per port: tests that every adapter of the port must pass."""

from modules.llm_platform.testing.cache import CacheContract
from modules.llm_platform.testing.citation_judge import CitationJudgeContract, FakeCitationJudge
from modules.llm_platform.testing.embedder import EmbedderContract, HashEmbedder
from modules.llm_platform.testing.failed_request_store import FailedRequestStoreContract, MemoryFailedRequestStore
from modules.llm_platform.testing.llm import BrokenStream, FakeLLM, LLMProviderContract
from modules.llm_platform.testing.metrics import MemoryMetrics, MetricsContract
from modules.llm_platform.testing.outcome_store import MemoryOutcomeStore, OutcomeStoreContract
from modules.llm_platform.testing.page_reader import FakePageReader, PageCase, PageReaderContract, SlowPage, sample_page
from modules.llm_platform.testing.reader_probe import ReaderProbe, probe_reader
from modules.llm_platform.testing.research_job_store import MemoryResearchJobStore, ResearchJobStoreContract
from modules.llm_platform.testing.research_store import MemoryResearchStore
from modules.llm_platform.testing.research_store_contract import ResearchStoreContract
from modules.llm_platform.testing.schema_registry import MemorySchemaRegistry, SchemaRegistryContract
from modules.llm_platform.testing.spending_store import SpendingStoreContract
from modules.llm_platform.testing.synthesizer import FakeSynthesizer, SynthesizerContract
from modules.llm_platform.testing.tracing import EndedSpan, MemoryTracer, TracerContract
from modules.llm_platform.testing.vector_store import MemoryVectorStore
from modules.llm_platform.testing.vector_store_contract import VectorStoreContract
from modules.llm_platform.testing.web_search import (
    FakeWebSearch,
    SearchCase,
    SlowSearch,
    WebSearchProviderContract,
    result_item,
)

__all__ = [
    "BrokenStream",
    "CacheContract",
    "CitationJudgeContract",
    "EmbedderContract",
    "EndedSpan",
    "FailedRequestStoreContract",
    "FakeCitationJudge",
    "FakeLLM",
    "FakePageReader",
    "FakeSynthesizer",
    "FakeWebSearch",
    "HashEmbedder",
    "LLMProviderContract",
    "MemoryFailedRequestStore",
    "MemoryMetrics",
    "MemoryOutcomeStore",
    "MemoryResearchJobStore",
    "MemoryResearchStore",
    "MemorySchemaRegistry",
    "MemoryTracer",
    "MemoryVectorStore",
    "MetricsContract",
    "OutcomeStoreContract",
    "PageCase",
    "PageReaderContract",
    "ReaderProbe",
    "ResearchJobStoreContract",
    "ResearchStoreContract",
    "SchemaRegistryContract",
    "SearchCase",
    "SlowPage",
    "SlowSearch",
    "SpendingStoreContract",
    "SynthesizerContract",
    "TracerContract",
    "VectorStoreContract",
    "WebSearchProviderContract",
    "probe_reader",
    "result_item",
    "sample_page",
]
