"""Fusing and numbering."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from modules.llm_platform.application.research.search import fuse_results, number_sources
from modules.llm_platform.domain.dtos.research_dtos import Source, SourceRef
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchResponse, WebSearchResultItem


def answer(*urls: str, text: str = "words") -> WebSearchResponse:
    items = tuple(WebSearchResultItem(title=url, url=url, snippet=text) for url in urls)
    return WebSearchResponse(query="q", results=items)


def test_high_in_two_lists_beats_first_in_one() -> None:
    """Reciprocal rank fusion."""
    fused = fuse_results(
        [answer("https://a.test/", "https://b.test/"), answer("https://c.test/", "https://b.test/")], 10
    )
    assert fused[0].url == "https://b.test/"


def test_one_address_stands_once_with_its_longest_text() -> None:
    """Tracking parameters and fragments make no new source."""
    fused = fuse_results(
        [answer("https://a.test/x?utm_source=n", text="short"), answer("https://A.test/x#part", text="longer text")], 10
    )
    assert [item.snippet for item in fused] == ["longer text"]


def test_raw_results_stand_beside_the_numbers() -> None:
    """`raw_results[n - 1].content` is the text that quotes of source n point into."""
    sources, raw = number_sources(fuse_results([answer("https://a.test/", "https://b.test/")], 10))
    assert [source.index for source in sources] == [1, 2]
    assert all(raw[source.index - 1].content == source.text for source in sources)
    assert all(raw[source.index - 1].url == source.url for source in sources)


def test_a_page_read_before_keeps_what_was_read_of_it() -> None:
    """A source of an earlier run is a page's text again, with the share of the page that was kept."""
    items = fuse_results([answer("https://a.test/", "https://b.test/")], 10)
    known = Source(index=4, title="", url="https://a.test/", text="words", text_kind="page", extraction=0.08)
    sources, _ = number_sources(items, [known])
    found = {source.url: (source.text_kind, SourceRef.of(source).extraction) for source in sources}
    assert found == {"https://a.test/": ("page", 0.08), "https://b.test/": ("snippet", None)}


def test_nothing_in_nothing_out() -> None:
    """No answers, no sources."""
    assert number_sources(fuse_results([], 10)) == ((), ())


@given(st.lists(st.lists(st.integers(0, 30), unique=True, max_size=15), max_size=4), st.integers(1, 20))
def test_fusion_keeps_each_address_once_and_never_more_than_the_limit(lists: list[list[int]], limit: int) -> None:
    """For any lists."""
    fused = fuse_results([answer(*(f"https://x.test/{i}" for i in ids)) for ids in lists], limit)
    urls = [item.url for item in fused]
    assert len(urls) == len(set(urls)) == min(limit, len({i for ids in lists for i in ids}))
