"""GPT Researcher's retriever for SearXNG, which takes the address from the environment alone."""

from __future__ import annotations

import os

from checks import ANSWER, KEY, OPEN_URL, QUESTION, URL, check, main
from gpt_researcher.retrievers import SearxSearch


def searched(address):
    os.environ["SEARX_URL"] = address
    [first, *_] = SearxSearch(QUESTION).search(max_results=3)
    assert ANSWER in first["body"]
    assert first["href"]


@check("SearxSearch")
def searx():
    searched(f"{URL}/searxng".replace("://", f"://user:{KEY}@"))


@check("SearxSearch, without an API key")
def searx_open():
    searched(f"{OPEN_URL}/searxng")


main()
