"""The SDK of Tavily."""

from __future__ import annotations

from checks import ANSWER, KEY, LIMITED_URL, OPEN_URL, PAGE_URL, QUESTION, URL, check, main, raised
from tavily import AsyncTavilyClient, TavilyClient
from tavily.errors import BadRequestError, InvalidAPIKeyError, UsageLimitExceededError

client = TavilyClient(api_key=KEY, api_base_url=f"{URL}/tavily")


@check("search")
def search():
    found = client.search(QUESTION, max_results=3, include_domains=["example.org"], time_range="week")
    assert ANSWER in found["results"][0]["content"]
    assert found["results"][0]["score"] == 1
    assert found["answer"] is None


@check("include_answer")
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


@check("async")
async def search_async():
    async_client = AsyncTavilyClient(api_key=KEY, api_base_url=f"{URL}/tavily")
    assert ANSWER in (await async_client.search(QUESTION))["results"][0]["content"]
    assert ANSWER in (await async_client.extract(PAGE_URL))["results"][0]["raw_content"]


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
    limited = TavilyClient(api_key=KEY, api_base_url=f"{LIMITED_URL}/tavily")
    raised(UsageLimitExceededError, lambda: limited.search(QUESTION), tries=2)


main()
