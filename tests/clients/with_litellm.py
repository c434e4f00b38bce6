"""litellm's search with an address of one's own, and its models of OpenAI's protocol."""

from __future__ import annotations

import litellm
from checks import ANSWER, EMBEDDER, KEY, QUESTION, URL, check, main


def searched(provider):
    found = litellm.search(query=QUESTION, search_provider=provider, api_base=f"{URL}/{provider}", api_key=KEY)
    assert ANSWER in found.results[0].snippet, found


@check("search: perplexity")
def perplexity():
    searched("perplexity")


@check("search: tavily")
def tavily():
    searched("tavily")


@check("search: searxng")
def searxng():
    searched("searxng")


@check("completion")
def completion():
    how = {"model": "openai/research-shallow", "api_base": f"{URL}/v1", "api_key": KEY}
    messages = [{"role": "user", "content": QUESTION}]
    answer = litellm.completion(messages=messages, **how)
    assert ANSWER in answer.choices[0].message.content
    chunks = list(litellm.completion(messages=messages, stream=True, **how))
    assert ANSWER in "".join(chunk.choices[0].delta.content or "" for chunk in chunks)


@check("embedding")
def embedding():
    answer = litellm.embedding(model=f"openai/{EMBEDDER}", input=["tea"], api_base=f"{URL}/v1", api_key=KEY)
    assert len(answer.data[0]["embedding"]) == 256


main()
