"""The SDK of OpenAI: at /v1, and at /perplexity."""

from __future__ import annotations

import openai
from checks import ANSWER, EMBEDDER, KEY, LIMITED_URL, LLM, OPEN_URL, QUESTION, URL, check, main, raised

MESSAGES = [{"role": "user", "content": QUESTION}]
client = openai.OpenAI(api_key=KEY, base_url=f"{URL}/v1", max_retries=0)


def check_citation(text, citation):
    cited = text[citation.start_index : citation.end_index]
    assert ANSWER in cited, cited
    assert "[1]" not in cited, cited
    assert citation.llm_platform["verdict"] == "supported", citation
    assert ANSWER in citation.llm_platform["quote"]


def check_answer(answer):
    message = answer.choices[0].message
    check_citation(message.content, message.annotations[0].url_citation)
    assert answer.usage.total_tokens > 0


@check("models")
def models():
    names = [model.id for model in client.models.list()]
    assert {"research-shallow", "research-deep", "research-report", LLM, EMBEDDER} == set(names), names
    assert client.models.retrieve(LLM).owned_by == "openai"
    raised(openai.NotFoundError, lambda: client.models.retrieve("gpt-4"))


@check("chat")
def chat():
    check_answer(client.chat.completions.create(model="research-shallow", messages=MESSAGES))
    answer = client.chat.completions.create(model=LLM, messages=MESSAGES, max_tokens=50)
    assert ANSWER in answer.choices[0].message.content
    assert answer.usage.total_tokens > 0


@check("chat, deep")
def deep():
    check_answer(client.chat.completions.create(model="research-deep", messages=MESSAGES))


@check("chat, streamed")
def streamed():
    for model in ("research-shallow", LLM):
        stream = client.chat.completions.create(
            model=model, messages=MESSAGES, stream=True, stream_options={"include_usage": True}
        )
        chunks = list(stream)
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        assert ANSWER in text
        assert chunks[-1].usage.total_tokens > 0


@check("chat, async")
async def chat_async():
    async with openai.AsyncOpenAI(api_key=KEY, base_url=f"{URL}/v1", max_retries=0) as async_client:
        check_answer(await async_client.chat.completions.create(model="research-shallow", messages=MESSAGES))
        stream = await async_client.responses.create(model="research-shallow", input=QUESTION, stream=True)
        assert [event.type async for event in stream][-1] == "response.completed"


@check("responses")
def responses():
    response = client.responses.create(model="research-shallow", input=QUESTION, tools=[{"type": "web_search"}])
    check_citation(response.output_text, response.output[0].content[0].annotations[0])
    assert response.usage.total_tokens > 0
    assert ANSWER in client.responses.create(model=LLM, input=QUESTION).output_text


@check("responses, streamed")
def responses_streamed():
    with client.responses.stream(model="research-shallow", input=QUESTION) as stream:
        kinds = [event.type for event in stream]
        response = stream.get_final_response()
    assert "response.output_text.annotation.added" in kinds
    check_citation(response.output_text, response.output[0].content[0].annotations[0])


@check("embeddings")
def embeddings():
    coded = client.embeddings.create(model=EMBEDDER, input=[QUESTION, "tea"]).data
    plain = client.embeddings.create(model=EMBEDDER, input=[QUESTION, "tea"], encoding_format="float").data
    assert [len(each.embedding) for each in coded] == [256, 256]
    for one, other in zip(coded, plain, strict=True):
        assert max(abs(a - b) for a, b in zip(one.embedding, other.embedding, strict=True)) < 1e-6


@check("at /perplexity")
def at_perplexity():
    sonar = client.with_options(base_url=f"{URL}/perplexity")
    answer = sonar.chat.completions.create(model="sonar", messages=MESSAGES)
    assert ANSWER in answer.choices[0].message.content
    assert answer.citations
    chunks = list(sonar.chat.completions.create(model="sonar", messages=MESSAGES, stream=True))
    assert ANSWER in "".join(chunk.choices[0].delta.content or "" for chunk in chunks)


@check("without an API key")
def no_key():
    keyless = openai.OpenAI(api_key="unused", base_url=f"{OPEN_URL}/v1", max_retries=0)
    check_answer(keyless.chat.completions.create(model="research-shallow", messages=MESSAGES))


@check("errors")
def errors():
    wrong = client.with_options(api_key="not-the-right-key")
    raised(openai.AuthenticationError, lambda: wrong.models.list())
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    create = client.chat.completions.create
    caught = raised(
        openai.BadRequestError, lambda: create(model="research-shallow", messages=MESSAGES, tools=tools)
    )
    assert caught.param == "tools"
    sonar = client.with_options(base_url=f"{URL}/perplexity").chat.completions.create
    raised(openai.UnprocessableEntityError, lambda: sonar(model="sonar", messages=MESSAGES, tools=tools))
    limited = client.with_options(base_url=f"{LIMITED_URL}/v1")
    caught = raised(openai.RateLimitError, lambda: limited.models.list(), tries=2)
    assert int(caught.response.headers["retry-after"]) > 0


main()
