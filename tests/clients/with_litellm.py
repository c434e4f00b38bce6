"""litellm's search with a custom address, and its OpenAI-compatible models."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import httpx
import litellm
from checks import ANSWER, EMBEDDER, KEY, LLM, QUESTION, URL, check, main
from litellm.proxy.types_utils.utils import get_instance_fn
from litellm.types.utils import Choices, Delta, Message, ModelResponse, ModelResponseStream, StreamingChoices
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


@check("the guardrail of deploy/litellm")
def guardrail():
    """The LiteLLM proxy loads the file and calls both hooks in this way."""
    os.environ |= {"LLM_PLATFORM_URL": URL}
    folder = Path(__file__).parents[2] / "deploy/litellm"
    loaded = get_instance_fn("llm_platform_verify.VerifyGuardrail", config_file_path=str(folder / "config.yaml"))
    patient = httpx.AsyncClient(timeout=60, headers={"Authorization": f"Bearer {KEY}"})
    hook = loaded(client=patient, guardrail_name="llm-platform-verify", event_hook="post_call", default_on=True)
    data = {"messages": [{"role": "user", "content": f"[1] asyncio\n{ANSWER}.\n\n{QUESTION}"}]}
    text = f"{ANSWER} [1]."

    async def chunks():
        yield ModelResponseStream(choices=[StreamingChoices(delta=Delta(content=text))])
        yield ModelResponseStream(choices=[StreamingChoices(delta=Delta(), finish_reason="stop")])

    async def run():
        whole = ModelResponse(choices=[Choices(message=Message(content=text))])
        return (
            await hook.async_post_call_success_hook(data, None, whole),
            [chunk async for chunk in hook.async_post_call_streaming_iterator_hook(None, chunks(), data)],
        )

    answer, streamed = asyncio.run(run())
    assert answer.choices[0].message.content == text
    for found in (answer, streamed[-1]):
        assert found.model_dump()["evidence_counts"] == {"supported": 1, "contradicts": 0, "absent": 0, "unchecked": 0}
    assert streamed[0].choices[0].delta.content == text


main()
