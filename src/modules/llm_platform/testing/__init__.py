"""Fakes for programs that use the platform, and contract classes for authors of providers, page readers and stores."""

from modules.llm_platform.testing.llm import BrokenStream, FakeLLM
from modules.llm_platform.testing.page_reader import FakePageReader, PageCase, PageReaderContract, SlowPage, sample_page
from modules.llm_platform.testing.reader_probe import ReaderProbe, probe_reader
from modules.llm_platform.testing.research_store import MemoryResearchStore
from modules.llm_platform.testing.research_store_contract import ResearchStoreContract
from modules.llm_platform.testing.web_search import (
    FakeWebSearch,
    SearchCase,
    SlowSearch,
    WebSearchProviderContract,
    result_item,
)

__all__ = [
    "BrokenStream",
    "FakeLLM",
    "FakePageReader",
    "FakeWebSearch",
    "MemoryResearchStore",
    "PageCase",
    "PageReaderContract",
    "ReaderProbe",
    "ResearchStoreContract",
    "SearchCase",
    "SlowPage",
    "SlowSearch",
    "WebSearchProviderContract",
    "probe_reader",
    "result_item",
    "sample_page",
]
