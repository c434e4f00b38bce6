"""What a shallow or deep run takes at most, told before it starts."""

from __future__ import annotations

from tests.support.cases import for_each

from modules.llm_platform import ResearchRequest
from modules.llm_platform.application.research.find.read_pages import FURTHER_PAGES, ReadOptions
from modules.llm_platform.application.research.quick_estimate import estimate_quick
from modules.llm_platform.application.research.quick_tools import QuickTools, ResearchOptions
from modules.llm_platform.application.research.write.extractive_synthesizer import ExtractiveSynthesizer
from modules.llm_platform.testing import FakeWebSearch
from modules.llm_platform.testing.page_reader import FakePageReader


@for_each(("setting", "wish", "pages"), [(None, None, 3), (2, None, 2), (2, 7, 7), (None, 0, 0)])
def test_the_pages_of_the_request_are_counted(setting: int | None, wish: int | None, pages: int) -> None:
    """A request says how many pages are read before the answer is written, and that goes before the setting."""
    writer = ExtractiveSynthesizer()
    options = ResearchOptions(reading=ReadOptions(pages=setting))
    tools = QuickTools(FakeWebSearch([]), writer, writer, pages=FakePageReader({}), options=options)
    request = ResearchRequest(query="What is it?", pages=wish)
    at_most = estimate_quick(tools, request, None, 8000, searches_nothing=False)
    assert at_most.pages == pages * (1 + FURTHER_PAGES)
