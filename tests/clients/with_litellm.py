"""litellm's search with an address of one's own, and its models of OpenAI's protocol."""

from __future__ import annotations

import litellm
from checks import ANSWER, EMBEDDER, KEY, QUESTION, URL, check, main
from pydantic import BaseModel


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


class Summary(BaseModel):
    answer: str


@check("a schema, at both addresses")
def schema():
    for model, base in (("openai/research-shallow", f"{URL}/v1"), ("anthropic/research-shallow", f"{URL}/anthropic")):
        answer = litellm.completion(
            model=model, api_base=base, api_key=KEY, messages=[{"role": "user", "content": QUESTION}],
            response_format=Summary,
        )
        assert ANSWER in Summary.model_validate_json(answer.choices[0].message.content).answer


@check("embedding")
def embedding():
    answer = litellm.embedding(model=f"openai/{EMBEDDER}", input=["tea"], api_base=f"{URL}/v1", api_key=KEY)
    assert len(answer.data[0]["embedding"]) == 256


main()
