"""Tavily's SDK."""

from __future__ import annotations

import asyncio
import json
import time

from checks import ANSWER, KEY, LIMITED_URL, OPEN_URL, PAGE_URL, QUESTION, URL, USUAL_URL, check, main, raised
from tavily import AsyncTavilyClient, TavilyClient
from tavily.errors import BadRequestError, ForbiddenError, InvalidAPIKeyError, UsageLimitExceededError

client = TavilyClient(api_key=KEY, api_base_url=f"{URL}/tavily")


@check("search", "search")
def search():
    found = client.search(QUESTION, max_results=3, include_domains=["example.org"], time_range="week")
    assert ANSWER in found["results"][0]["content"]
    assert found["results"][0]["score"] == 1
    assert found["answer"] is None


@check("include_answer", "chat")
def answer():
    found = client.search(QUESTION, include_answer=True)
    assert ANSWER in found["answer"]
    assert "[1]" in found["answer"]
    assert ANSWER in client.qna_search(QUESTION)


@check("extract")
def extract():
    found = client.extract([PAGE_URL, "http://127.0.0.1:1/private"])
    assert ANSWER in found["results"][0]["raw_content"]
    assert found["failed_results"][0]["url"] == "http://127.0.0.1:1/private"


@check("crawl")
def crawl():
    found = client.crawl(PAGE_URL, max_depth=2, limit=10, instructions="tasks", timeout=60)
    assert found["base_url"] == PAGE_URL
    assert [result["url"] for result in found["results"]] == [PAGE_URL, f"{PAGE_URL}/tasks"]
    assert all(ANSWER in result["raw_content"] for result in found["results"])
    assert "robots.txt" in found["failed_results"][0]["error"]
    assert client.crawl(PAGE_URL, exclude_paths=["/tasks$"], timeout=60)["results"][1:] == []


@check("map")
def map_site():
    assert client.map(PAGE_URL, select_paths=["/tasks$"])["results"] == [PAGE_URL, f"{PAGE_URL}/tasks"]


def ended(task):
    for _ in range(300):
        found = client.get_research(task["request_id"], include_usage=True)
        if found["status"] not in ("pending", "in_progress"):
            return found
        time.sleep(0.2)
    raise AssertionError(found)


@check("research", "chat")
def research():
    task = client.research(QUESTION, model="mini")
    assert (task["status"], task["input"], task["model"]) == ("pending", QUESTION, "mini")
    found = ended(task)
    assert found["status"] == "completed", found
    assert ANSWER in found["content"]
    assert "[1]" in found["content"].partition("## Sources")[0]
    assert found["sources"][0]["url"] in found["content"]
    assert found["usage"]["searches"] > 0


@check("research: apa, mla, chicago")
def styles():
    for style, heading in (("apa", "## References"), ("mla", "## Works Cited"), ("chicago", "## Bibliography")):
        found = ended(client.research(QUESTION, citation_format=style))
        assert heading in found["content"]
        assert "(“asyncio" in found["content"]


@check("research, streamed", "stream")
def research_stream():
    text = b"".join(client.research(QUESTION, model="mini", stream=True)).decode()
    chunks = [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data: ")]
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert ANSWER in "".join(delta.get("content", "") for delta in deltas)
    calls = [call["name"] for delta in deltas for call in delta.get("tool_calls", {}).get("tool_call", ())]
    assert "WebSearch" in calls
    assert deltas[-1]["sources"][0]["title"] == "asyncio"
    assert text.endswith("event: done\n\n")


@check("async")
async def search_async():
    async_client = AsyncTavilyClient(api_key=KEY, api_base_url=f"{URL}/tavily")
    assert ANSWER in (await async_client.search(QUESTION))["results"][0]["content"]
    assert ANSWER in (await async_client.extract(PAGE_URL))["results"][0]["raw_content"]
    assert len((await async_client.map(PAGE_URL))["results"]) == 3
    assert len((await async_client.crawl(PAGE_URL))["results"]) == 2
    task = await async_client.research(QUESTION)
    assert (await async_client.get_research(task["request_id"]))["status"] in ("pending", "in_progress", "completed")
    stream = await async_client.research(QUESTION, stream=True)
    assert ANSWER in b"".join([part async for part in stream]).decode()


@check("ten at once")
async def ten_at_once():
    """The SDK does not retry, so each call must succeed on the first try."""
    usual = AsyncTavilyClient(api_key=KEY, api_base_url=f"{USUAL_URL}/tavily")
    for found in await asyncio.gather(*(usual.search(QUESTION) for _ in range(10))):
        assert ANSWER in found["results"][0]["content"]


@check("without an API key")
def no_key():
    keyless = TavilyClient(api_key="unused", api_base_url=f"{OPEN_URL}/tavily")
    assert keyless.search(QUESTION)["results"]


@check("errors")
def errors():
    wrong = TavilyClient(api_key="not-the-right-key", api_base_url=f"{URL}/tavily")
    raised(InvalidAPIKeyError, lambda: wrong.search(QUESTION))
    caught = raised(BadRequestError, lambda: client.search(QUESTION, max_results=99))
    assert "max_results" in str(caught)
    assert "max_depth" in str(raised(BadRequestError, lambda: client.crawl(PAGE_URL, max_depth=9)))
    assert "model" in str(raised(BadRequestError, lambda: client.research(QUESTION, model="max")))
    assert "robots.txt" in str(raised(ForbiddenError, lambda: client.crawl(f"{PAGE_URL}/private")))
    raised(InvalidAPIKeyError, lambda: wrong.get_research("1"))
    limited = TavilyClient(api_key=KEY, api_base_url=f"{LIMITED_URL}/tavily")
    raised(UsageLimitExceededError, lambda: limited.search(QUESTION), tries=2)


main()
