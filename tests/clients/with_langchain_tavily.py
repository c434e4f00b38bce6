"""LangChain's tools of Tavily."""

from __future__ import annotations

from checks import ANSWER, KEY, PAGE_URL, QUESTION, URL, check, main
from langchain_tavily import TavilyExtract, TavilySearch

ADDRESS = {"tavily_api_key": KEY, "api_base_url": f"{URL}/tavily"}


@check("search")
def search():
    found = TavilySearch(max_results=3, include_answer=True, **ADDRESS).invoke({"query": QUESTION})
    assert ANSWER in found["results"][0]["content"]
    assert ANSWER in found["answer"]


@check("search, async")
async def search_async():
    found = await TavilySearch(max_results=3, **ADDRESS).ainvoke({"query": QUESTION})
    assert ANSWER in found["results"][0]["content"]


@check("extract")
def extract():
    found = TavilyExtract(**ADDRESS).invoke({"urls": [PAGE_URL]})
    assert ANSWER in found["results"][0]["raw_content"]


@check("errors")
def errors():
    found = TavilySearch(**{**ADDRESS, "tavily_api_key": "not-the-right-key"}).invoke({"query": QUESTION})
    assert "401" in str(found["error"]), found


main()
