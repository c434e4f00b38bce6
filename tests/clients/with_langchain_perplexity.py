"""LangChain's Perplexity chat model and retriever. They read the address only from the environment."""

from __future__ import annotations

import os

from checks import ANSWER, KEY, QUESTION, URL, check, main, raised

os.environ |= {"PERPLEXITY_BASE_URL": f"{URL}/perplexity", "PPLX_API_KEY": KEY, "PERPLEXITY_API_KEY": KEY}

import perplexity
from langchain_core.messages import HumanMessage
from langchain_perplexity import ChatPerplexity, PerplexitySearchRetriever

model = ChatPerplexity(model="sonar", max_retries=0)


@check("invoke", "chat")
def invoke():
    message = model.invoke(QUESTION)
    assert ANSWER in message.content
    assert message.additional_kwargs["citations"]
    assert message.usage_metadata["total_tokens"] > 0


@check("stream with citations", "stream")
def stream():
    chunks = list(model.stream(QUESTION))
    assert ANSWER in "".join(chunk.content for chunk in chunks)
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole += chunk
    assert whole.additional_kwargs["citations"]
    assert whole.additional_kwargs["search_results"][0]["url"] == whole.additional_kwargs["citations"][0]


@check("invoke, async", "chat")
async def invoke_async():
    assert ANSWER in (await model.ainvoke(QUESTION)).content


@check("retriever", "search")
def retrieve():
    [first, *_] = PerplexitySearchRetriever(k=3).invoke(QUESTION)
    assert ANSWER in first.page_content
    assert first.metadata["url"]


@check("errors")
def errors():
    raised(perplexity.UnprocessableEntityError, lambda: model.invoke("x" * 40_000))


@check("a second turn", "second turn")
def second_turn():
    turns = [HumanMessage(QUESTION), model.invoke(QUESTION), HumanMessage(f"{QUESTION} Say it again.")]
    assert ANSWER in model.invoke(turns).content


main()
