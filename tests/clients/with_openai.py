"""OpenAI's SDK at /v1 and at /perplexity."""

from __future__ import annotations

import asyncio
import time

import openai
from checks import (
    ANSWER,
    BUSY_ONCE,
    EMBEDDER,
    KEY,
    LATE_ERROR,
    LIMITED_URL,
    LLM,
    OPEN_URL,
    QUESTION,
    URL,
    USUAL_URL,
    check,
    main,
    raised,
)
from pydantic import BaseModel

MESSAGES = [{"role": "user", "content": QUESTION}]


class Summary(BaseModel):
    """A summary."""

    answer: str


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


@check("chat", "chat")
def chat():
    check_answer(client.chat.completions.create(model="research-shallow", messages=MESSAGES))
    answer = client.chat.completions.create(model=LLM, messages=MESSAGES, max_tokens=50)
    assert ANSWER in answer.choices[0].message.content
    assert answer.usage.total_tokens > 0


@check("chat, deep", "chat")
def deep():
    check_answer(client.chat.completions.create(model="research-deep", messages=MESSAGES))


@check("chat, streamed", "stream")
def streamed():
    for model in ("research-shallow", LLM):
        stream = client.chat.completions.create(
            model=model, messages=MESSAGES, stream=True, stream_options={"include_usage": True}
        )
        chunks = list(stream)
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        assert ANSWER in text
        assert chunks[-1].usage.total_tokens > 0


@check("chat, async", "chat")
async def chat_async():
    async with openai.AsyncOpenAI(api_key=KEY, base_url=f"{URL}/v1", max_retries=0) as async_client:
        check_answer(await async_client.chat.completions.create(model="research-shallow", messages=MESSAGES))
        stream = await async_client.responses.create(model="research-shallow", input=QUESTION, stream=True)
        assert [event.type async for event in stream][-1] == "response.completed"


def ended(response):
    for _ in range(300):
        response = client.responses.retrieve(response.id)
        if response.status not in ("queued", "in_progress"):
            return response
        time.sleep(0.1)
    raise AssertionError(response.status)


@check("responses", "chat")
def responses():
    response = client.responses.create(
        model="research-shallow",
        input=QUESTION,
        tools=[{"type": "web_search"}],
        include=["web_search_call.action.sources"],
    )
    call, message = response.output
    assert (call.type, call.status, call.action.type, call.action.query) == (
        "web_search_call",
        "completed",
        "search",
        QUESTION,
    )
    assert call.action.sources[0].url
    check_citation(response.output_text, message.content[0].annotations[0])
    assert response.usage.total_tokens > 0
    assert ANSWER in client.responses.create(model=LLM, input=QUESTION).output_text


@check("responses, streamed", "stream")
def responses_streamed():
    with client.responses.stream(model="research-shallow", input=QUESTION) as stream:
        kinds = [event.type for event in stream]
        response = stream.get_final_response()
    assert "response.output_text.annotation.added" in kinds
    assert kinds.index("response.web_search_call.completed") < kinds.index("response.output_text.delta")
    check_citation(response.output_text, response.output[-1].content[0].annotations[0])


@check("responses, stored", "second turn")
def responses_stored():
    response = client.responses.create(model="research-shallow", input=QUESTION, metadata={"team": "a"})
    assert client.responses.retrieve(response.id) == response
    [item] = client.responses.input_items.list(response.id)
    assert item.content[0].text == QUESTION
    again = client.responses.create(
        model="research-shallow", input="What is its event loop?", previous_response_id=response.id, store=False
    )
    assert again.previous_response_id == response.id
    raised(openai.NotFoundError, lambda: client.responses.retrieve(again.id))
    client.responses.delete(response.id)
    raised(openai.NotFoundError, lambda: client.responses.retrieve(response.id))


@check("responses, in the background")
def responses_background():
    queued = client.responses.create(model="research-deep", input=QUESTION, background=True)
    assert queued.status == "queued"
    response = ended(queued)
    check_citation(response.output_text, response.output[-1].content[0].annotations[0])
    raised(openai.BadRequestError, lambda: client.responses.cancel(response.id))
    report = client.responses.create(model="o3-deep-research", input=LATE_ERROR, background=True)
    assert client.responses.cancel(report.id).status == "cancelled"
    assert client.responses.retrieve(report.id).status == "cancelled"
    caught = raised(openai.BadRequestError, lambda: client.responses.create(model=LLM, input=QUESTION, background=True))
    assert caught.param == "background"


@check("responses, stream resumed")
def responses_resumed():
    seen = []
    # An open httpx stream may lock its pool forever when it is garbage-collected, so it is closed.
    with client.responses.create(model="research-deep", input=QUESTION, background=True, stream=True) as cut_off:
        for event in cut_off:
            seen.append(event)
            if event.type == "response.web_search_call.completed":
                break  # the connection is gone
    name = seen[0].response.id
    rest = list(client.responses.retrieve(name, stream=True, starting_after=seen[-1].sequence_number))
    assert [event.sequence_number for event in seen + rest] == list(range(len(seen + rest)))
    assert rest[-1].type == "response.completed"
    assert rest[-1].response == client.responses.retrieve(name)
    with client.responses.stream(response_id=name, starting_after=seen[-1].sequence_number) as stream:
        assert [event.sequence_number for event in stream] == [event.sequence_number for event in rest]


@check("embeddings", "embeddings")
def embeddings():
    coded = client.embeddings.create(model=EMBEDDER, input=[QUESTION, "tea"]).data
    plain = client.embeddings.create(model=EMBEDDER, input=[QUESTION, "tea"], encoding_format="float").data
    assert [len(embedding.embedding) for embedding in coded] == [256, 256]
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


@check("ten at once")
async def ten_at_once():
    """All calls are answered: the SDK's two retries honour Retry-After for calls above the limit."""
    async with openai.AsyncOpenAI(api_key=KEY, base_url=f"{USUAL_URL}/v1") as usual:
        create = usual.chat.completions.create
        for answer in await asyncio.gather(*(create(model="research-shallow", messages=MESSAGES) for _ in range(10))):
            assert ANSWER in answer.choices[0].message.content
        embed = usual.embeddings.create
        await asyncio.gather(*(embed(model=EMBEDDER, input=QUESTION) for _ in range(10)))


@check("without an API key")
def no_key():
    keyless = openai.OpenAI(api_key="unused", base_url=f"{OPEN_URL}/v1", max_retries=0)
    check_answer(keyless.chat.completions.create(model="research-shallow", messages=MESSAGES))


@check("errors")
def errors():
    wrong = client.with_options(api_key="not-the-right-key")
    raised(openai.AuthenticationError, lambda: wrong.models.list())
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    other = {"type": "function", "function": {"name": "g"}}
    create = client.chat.completions.create
    caught = raised(
        openai.BadRequestError,
        lambda: create(model="research-shallow", messages=MESSAGES, tools=tools, tool_choice=other),
    )
    assert caught.param == "tool_choice"
    sonar = client.with_options(base_url=f"{URL}/perplexity").chat.completions.create
    wrong_filter = {"search_domain_filter": ["a b"]}
    raised(openai.UnprocessableEntityError, lambda: sonar(model="sonar", messages=MESSAGES, extra_body=wrong_filter))
    limited = client.with_options(base_url=f"{LIMITED_URL}/v1")
    caught = raised(
        openai.RateLimitError,
        lambda: limited.chat.completions.create(model="research-shallow", messages=MESSAGES),
        tries=2,
    )
    assert len([limited.models.list() for _ in range(10)]) == 10
    assert int(caught.response.headers["retry-after"]) > 0


@check("chat, a second turn", "second turn")
def second_turn():
    for model in ("research-shallow", LLM):
        first = client.chat.completions.create(model=model, messages=MESSAGES).choices[0].message
        turns = [*MESSAGES, first, {"role": "user", "content": f"{QUESTION} Say it again."}]
        answer = client.chat.completions.create(model=model, messages=turns)
        assert ANSWER in answer.choices[0].message.content


@check("a loop of tools, and a schema", "tools", "structure")
def loop():
    function = {"name": "today", "description": "Returns the date.", "parameters": {"type": "object", "properties": {}}}
    how = {"model": LLM, "tools": [{"type": "function", "function": function}]}
    called = client.chat.completions.create(messages=MESSAGES, **how).choices[0].message
    results = [{"role": "tool", "tool_call_id": call.id, "content": ""} for call in called.tool_calls]
    assert len(results) == 1
    answer = client.chat.completions.create(messages=[*MESSAGES, called, *results], **how)
    assert ANSWER in answer.choices[0].message.content
    parsed = client.chat.completions.parse(model="research-shallow", messages=MESSAGES, response_format=Summary)
    assert ANSWER in parsed.choices[0].message.parsed.answer


@check("errors of a stream: an early one is a status and tried again, a late one is raised")
def stream_errors():
    def text(question, retries=0):
        how = {"model": LLM, "messages": [{"role": "user", "content": question}], "stream": True}
        chunks = client.with_options(max_retries=retries).chat.completions.create(**how)
        return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)

    assert ANSWER in text(f"{BUSY_ONCE} {time.time()}", retries=2)
    caught = raised(openai.APIError, lambda: text(LATE_ERROR))
    assert not isinstance(caught, openai.APIStatusError), caught
    assert caught.body["type"] == "server_error", caught.body


@check("a verified answer of a passthrough model, whole and streamed, with chat and responses")
def verified():
    """A client without gateway support reads the same answer. A client with support finds the evidence."""
    given = f"[1] asyncio https://example.org/asyncio\n{ANSWER}.\n\n{QUESTION}"
    how = {"model": LLM, "messages": [{"role": "user", "content": given}]}
    plain = client.chat.completions.create(**how)
    for mode in ("annotate", "mark"):
        headers = {"X-Verify": mode}
        raw = client.chat.completions.with_raw_response.create(**how, extra_headers=headers)
        assert raw.headers["X-Evidence"].startswith("supported=1, contradicts=0"), raw.headers
        answer = raw.parse()
        assert answer.choices[0].message.content == plain.choices[0].message.content
        assert answer.choices[0].message.annotations[0].url_citation.url == "https://example.org/asyncio"
        assert answer.evidence[0]["verdict"] == "supported"
        with client.chat.completions.stream(**how, extra_headers=headers) as stream:
            for _ in stream:
                pass
            final = stream.get_final_completion()
        assert final.choices[0].message.content == plain.choices[0].message.content
        assert final.choices[0].finish_reason == "stop"
        chunks = list(client.chat.completions.create(**how, stream=True, extra_headers=headers))
        assert chunks[-1].evidence[0]["verdict"] == "supported"
        asked = {"model": LLM, "input": given, "extra_headers": headers}
        response = client.responses.create(**asked)
        assert response.output[0].content[0].annotations[0].url == "https://example.org/asyncio"
        assert response.evidence[0]["verdict"] == "supported"
        with client.responses.stream(**asked) as stream:
            for _ in stream:
                pass
            assert stream.get_final_response().output_text == response.output_text


main()
