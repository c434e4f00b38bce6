"""litellm's search with an address of one's own, and its models of OpenAI's protocol."""

from __future__ import annotations

import litellm
from checks import ANSWER, EMBEDDER, KEY, LLM, QUESTION, URL, check, main
from pydantic import BaseModel


def searched(provider):
    found = litellm.search(query=QUESTION, search_provider=provider, api_base=f"{URL}/{provider}", api_key=KEY)
    assert ANSWER in found.results[0].snippet, found


@check("search: perplexity", "search")
def perplexity():
    searched("perplexity")


@check("search: tavily", "search")
def tavily():
    searched("tavily")


@check("search: searxng", "search")
def searxng():
    searched("searxng")


@check("completion", "chat", "stream")
def completion():
    how = {"model": "openai/research-shallow", "api_base": f"{URL}/v1", "api_key": KEY}
    messages = [{"role": "user", "content": QUESTION}]
    answer = litellm.completion(messages=messages, **how)
    assert ANSWER in answer.choices[0].message.content
    chunks = list(litellm.completion(messages=messages, stream=True, **how))
    assert ANSWER in "".join(chunk.choices[0].delta.content or "" for chunk in chunks)


class Summary(BaseModel):
    answer: str


@check("a schema, at both addresses", "structure")
def schema():
    for model, base in (("openai/research-shallow", f"{URL}/v1"), ("anthropic/research-shallow", f"{URL}/anthropic")):
        answer = litellm.completion(
            model=model,
            api_base=base,
            api_key=KEY,
            messages=[{"role": "user", "content": QUESTION}],
            response_format=Summary,
        )
        assert ANSWER in Summary.model_validate_json(answer.choices[0].message.content).answer


@check("embedding", "embeddings")
def embedding():
    answer = litellm.embedding(model=f"openai/{EMBEDDER}", input=["tea"], api_base=f"{URL}/v1", api_key=KEY)
    assert len(answer.data[0]["embedding"]) == 256


@check("a loop of tools, at both addresses", "tools", "second turn")
def loop():
    function = {"name": "today", "description": "Returns the date.", "parameters": {"type": "object", "properties": {}}}
    for model, base in ((f"openai/{LLM}", f"{URL}/v1"), (f"anthropic/{LLM}", f"{URL}/anthropic")):
        how = {"model": model, "api_base": base, "api_key": KEY, "tools": [{"type": "function", "function": function}]}
        messages = [{"role": "user", "content": QUESTION}]
        called = litellm.completion(messages=messages, **how).choices[0].message
        results = [{"role": "tool", "tool_call_id": call.id, "content": ""} for call in called.tool_calls]
        answer = litellm.completion(messages=[*messages, called, *results], **how)
        assert ANSWER in answer.choices[0].message.content


main()
