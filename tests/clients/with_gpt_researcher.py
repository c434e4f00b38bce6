"""GPT Researcher's retrievers, which take the address from the environment alone."""

from __future__ import annotations

import os

from checks import ANSWER, KEY, OPEN_URL, QUESTION, URL, check, main

os.environ |= {
    "RETRIEVER_ENDPOINT": f"{URL}/gpt-researcher",
    "RETRIEVER_ARG_API_KEY": KEY,
    "RETRIEVER_ARG_COUNT": "3",
}

from gpt_researcher.retrievers import CustomRetriever, SearxSearch


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


@check("CustomRetriever")
def custom():
    [first, *_] = CustomRetriever(QUESTION).search()
    assert ANSWER in first["raw_content"]
    assert first["url"]


main()
