"""A search stays short enough to step through."""

from __future__ import annotations

from scripts.search_path import fake_searxng, plain_search

FUNCTIONS, FILES, CLASSES = 90, 18, 18


async def test_a_plain_search_enters_few_functions_files_and_classes() -> None:
    """Between `web_search.search` and the answer of a SearXNG over HTTP, warm and without a hit of a cache."""
    with fake_searxng() as url:
        found = await plain_search(url)
    functions, files, classes = found.counts()
    assert functions <= FUNCTIONS, sorted(found.functions)
    assert files <= FILES, sorted(found.files)
    assert classes <= CLASSES, sorted(found.classes)
