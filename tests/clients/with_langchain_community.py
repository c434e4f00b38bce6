"""LangChain's SearxSearchWrapper."""

from __future__ import annotations

from checks import ANSWER, KEY, OPEN_URL, QUESTION, URL, check, main, raised
from langchain_community.utilities import SearxSearchWrapper

ADDRESSES = (f"{URL}/searxng", f"{URL}/searxng/", f"{URL}/searxng/search")
HEADERS = {"Authorization": f"Bearer {KEY}"}


@check("run", "search")
def run():
    for address in ADDRESSES:
        assert ANSWER in SearxSearchWrapper(searx_host=address, headers=HEADERS).run(QUESTION)


@check("results", "search")
def results():
    [first, *_] = SearxSearchWrapper(searx_host=ADDRESSES[0], headers=HEADERS).results(QUESTION, num_results=3)
    assert ANSWER in first["snippet"]
    assert first["title"]
    assert first["link"]
    assert first["engines"]


@check("async", "search")
async def run_async():
    wrapper = SearxSearchWrapper(searx_host=ADDRESSES[2], headers=HEADERS)
    assert ANSWER in await wrapper.arun(QUESTION)


@check("key as password", "search")
def password():
    address = ADDRESSES[0].replace("://", f"://user:{KEY}@")
    assert ANSWER in SearxSearchWrapper(searx_host=address).run(QUESTION)


@check("without an API key", "search")
def no_key():
    assert ANSWER in SearxSearchWrapper(searx_host=f"{OPEN_URL}/searxng").run(QUESTION)


@check("errors")
def errors():
    wrong = SearxSearchWrapper(searx_host=ADDRESSES[0])
    assert "API key" in str(raised(ValueError, lambda: wrong.run(QUESTION)))


main()
