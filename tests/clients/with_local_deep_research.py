"""local-deep-research's SearXNG engine, unchanged. It reads the HTML result page, not JSON."""

from __future__ import annotations

import os

os.environ["LDR_BOOTSTRAP_ALLOW_UNENCRYPTED"] = "true"  # this program opens no database

from checks import ANSWER, KEY, OPEN_URL, QUESTION, URL, check, main
from local_deep_research.web_search_engines.engines.search_engine_searxng import SearXNGSearchEngine


def engine_of(address):
    engine = SearXNGSearchEngine(instance_url=address, include_full_content=False, settings_snapshot={})
    assert engine.is_available
    return engine


@check("SearXNGSearchEngine", "search")
def with_key():
    engine = engine_of(f"{URL}/searxng".replace("://", f"://user:{KEY}@"))
    [first, *_] = engine.results(QUESTION)
    assert ANSWER in first["snippet"]
    assert first["title"]
    assert first["link"].startswith("http")
    assert ANSWER in str(engine.run(QUESTION))


@check("documents of the server, which it drops: they have no address of the web")
def without_key():
    assert engine_of(f"{OPEN_URL}/searxng").results(QUESTION) == []


main()
