"""For users who write adapters or test code that uses the platform: fakes, and the promises of each port as test classes."""

from modules.llm_platform.testing.cache import CacheContract
from modules.llm_platform.testing.llm import Death, FakeLLM, LLMProviderContract
from modules.llm_platform.testing.synthesizer import FakeSynthesizer, SynthesizerContract
from modules.llm_platform.testing.web_search import FakeWebSearch, Looking, Slow, WebSearchProviderContract, result_item

__all__ = [
    "CacheContract",
    "Death",
    "FakeLLM",
    "FakeSynthesizer",
    "FakeWebSearch",
    "LLMProviderContract",
    "Looking",
    "Slow",
    "SynthesizerContract",
    "WebSearchProviderContract",
    "result_item",
]
