"""LangChain's Tavily tools."""

from __future__ import annotations

import time

from checks import ANSWER, KEY, PAGE_URL, QUESTION, URL, check, main
from langchain_tavily import TavilyCrawl, TavilyExtract, TavilyGetResearch, TavilyMap, TavilyResearch, TavilySearch

ADDRESS = {"tavily_api_key": KEY, "api_base_url": f"{URL}/tavily"}


@check("search", "search")
def search():
    found = TavilySearch(max_results=3, include_answer=True, **ADDRESS).invoke({"query": QUESTION})
    assert ANSWER in found["results"][0]["content"]
    assert ANSWER in found["answer"]


@check("search, async", "search")
async def search_async():
    found = await TavilySearch(max_results=3, **ADDRESS).ainvoke({"query": QUESTION})
    assert ANSWER in found["results"][0]["content"]


@check("extract")
def extract():
    found = TavilyExtract(**ADDRESS).invoke({"urls": [PAGE_URL]})
    assert ANSWER in found["results"][0]["raw_content"]


@check("crawl, map")
def crawl():
    found = TavilyCrawl(**ADDRESS).invoke({"url": PAGE_URL, "limit": 10})
    assert all(ANSWER in result["raw_content"] for result in found["results"])
    assert TavilyMap(**ADDRESS).invoke({"url": PAGE_URL})["results"][0] == PAGE_URL


@check("research", "chat")
def research():
    task = TavilyResearch(**ADDRESS).invoke({"input": QUESTION})
    tool = TavilyGetResearch(**ADDRESS)
    for _ in range(300):
        found = tool.invoke({"request_id": task["request_id"]})
        if found.get("status") not in ("pending", "in_progress"):
            break
        time.sleep(0.2)
    assert ANSWER in found["content"], found


@check("research, streamed", "stream")
def research_stream():
    stream = TavilyResearch(**ADDRESS).invoke({"input": QUESTION, "model": "mini", "stream": True})
    assert ANSWER in b"".join(stream).decode()


@check("errors")
def errors():
    found = TavilySearch(**{**ADDRESS, "tavily_api_key": "not-the-right-key"}).invoke({"query": QUESTION})
    assert "401" in str(found["error"]), found


main()
