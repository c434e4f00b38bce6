"""Perplexity's SDK."""

from __future__ import annotations

import json
import time

import perplexity
from checks import ANSWER, KEY, LATE_ERROR, LIMITED_URL, PAGE_URL, QUESTION, URL, check, main, raised

BASE = f"{URL}/perplexity"
MESSAGES = [{"role": "user", "content": QUESTION}]
client = perplexity.Perplexity(api_key=KEY, base_url=BASE, max_retries=0)


def check_answer(answer):
    text = answer.choices[0].message.content
    assert ANSWER in text, text
    assert "[1]" in text, text
    assert answer.citations[0] == answer.search_results[0].url
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens > 0


@check("chat", "chat")
def chat():
    check_answer(client.chat.completions.create(model="sonar", messages=MESSAGES))


@check("chat, deep", "chat")
def deep():
    check_answer(client.chat.completions.create(model="sonar-pro", messages=MESSAGES))


@check("chat, streamed", "stream")
def streamed():
    chunks = list(client.chat.completions.create(model="sonar", messages=MESSAGES, stream=True))
    assert ANSWER in "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert chunks[0].citations
    assert chunks[0].search_results[0].url == chunks[0].citations[0]
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert chunks[-1].usage.total_tokens > 0


@check("chat, async", "chat")
async def chat_async():
    async with perplexity.AsyncPerplexity(api_key=KEY, base_url=BASE, max_retries=0) as async_client:
        check_answer(await async_client.chat.completions.create(model="sonar", messages=MESSAGES))
        stream = await async_client.chat.completions.create(model="sonar", messages=MESSAGES, stream=True)
        assert ANSWER in "".join([chunk.choices[0].delta.content or "" async for chunk in stream])


@check("related questions")
def related():
    answer = client.chat.completions.create(model="sonar", messages=MESSAGES, return_related_questions=True)
    check_answer(answer)
    assert isinstance(answer.related_questions, list)


@check("search", "search")
def search():
    results = client.search.create(query=[QUESTION, "event loop"], max_results=3).results
    assert ANSWER in results[0].snippet
    assert results[0].url
    assert results[0].title


def check_response(response):
    assert response.status == "completed"
    assert ANSWER in response.output_text, response.output_text
    found = next(item for item in response.output if item.type == "search_results")
    assert QUESTION in found.queries[0] or found.queries
    assert found.results[0].id == 1
    assert found.results[0].url
    assert "[1]" in response.output_text
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens > 0


def ended(fetch):
    for _ in range(300):
        found = fetch()
        if found.status not in ("queued", "in_progress", "CREATED", "IN_PROGRESS"):
            return found
        time.sleep(0.1)
    raise AssertionError(found.status)


@check("responses", "chat")
def responses():
    names = [model.id for model in client.models.list().data]
    assert "sonar-pro" in names
    response = client.responses.create(effort="low", input=QUESTION, instructions="Be brief.")
    check_response(response)
    check_response(client.responses.retrieve(response.id))
    again = client.responses.create(
        preset="pro-search", input="What is its event loop?", previous_response_id=response.id, store=False
    )
    assert again.status == "completed"
    raised(perplexity.NotFoundError, lambda: client.responses.retrieve(again.id))
    filters = {"search_domain_filter": ["example.org"], "search_recency_filter": "month"}
    tools = [{"type": "web_search", "filters": filters}]
    check_response(client.responses.create(model="sonar", input=QUESTION, tools=tools, max_steps=1))


@check("responses, streamed", "stream")
def responses_streamed():
    events = list(client.responses.create(effort="medium", input=QUESTION, stream=True))
    kinds = [event.type for event in events]
    for kind in ("created", "reasoning.started", "reasoning.search_queries", "reasoning.search_results"):
        assert f"response.{kind}" in kinds
    deltas = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert ANSWER in deltas
    assert kinds[-1] == "response.completed"
    check_response(events[-1].response)


@check("responses, pages read")
def responses_fetched():
    question = f"What does {PAGE_URL} say about asyncio?"
    response = client.responses.create(effort="low", input=question, tools=[{"type": "fetch_url", "max_urls": 1}])
    [fetched] = [item for item in response.output if item.type == "fetch_url_results"]
    assert [content.url for content in fetched.contents] == [PAGE_URL]
    assert ANSWER in response.output_text


@check("responses, in the background")
def responses_background():
    queued = client.responses.create(effort="medium", input=QUESTION, background=True)
    assert queued.status == "queued"
    check_response(ended(lambda: client.responses.retrieve(queued.id)))
    events = list(client.responses.retrieve(queued.id, stream=True, starting_after=2))
    assert [event.sequence_number for event in events] == list(range(3, len(events) + 3))
    check_response(events[-1].response)
    raised(perplexity.BadRequestError, lambda: client.responses.cancel(queued.id))
    report = client.responses.create(effort="xhigh", input=LATE_ERROR, background=True)
    assert client.responses.cancel(report.id).status == "cancelling"
    assert ended(lambda: client.responses.retrieve(report.id)).status == "cancelled"


@check("async chat")
def async_chat():
    created = client.async_.chat.completions.create(request={"model": "sonar-pro", "messages": MESSAGES})
    assert created.status in ("CREATED", "IN_PROGRESS")
    found = ended(lambda: client.async_.chat.completions.get(created.id))
    assert found.status == "COMPLETED"
    check_answer(found.response)
    assert created.id in [request.id for request in client.async_.chat.completions.list().requests]
    raised(perplexity.NotFoundError, lambda: client.async_.chat.completions.get("nothing"))


@check("errors")
def errors():
    wrong = client.with_options(api_key="not-the-right-key")
    raised(perplexity.AuthenticationError, lambda: wrong.chat.completions.create(model="sonar", messages=MESSAGES))
    raised(
        perplexity.UnprocessableEntityError,
        lambda: client.chat.completions.create(model="sonar", messages=[{"role": "user", "content": "x" * 100_000}]),
    )
    limited = perplexity.Perplexity(api_key=KEY, base_url=f"{LIMITED_URL}/perplexity", max_retries=0)
    caught = raised(perplexity.RateLimitError, lambda: limited.search.create(query=QUESTION), tries=2)
    assert int(caught.response.headers["retry-after"]) > 0


@check("a second turn", "second turn")
def second_turn():
    first = client.chat.completions.create(model="sonar", messages=MESSAGES).choices[0].message
    said = {"role": "assistant", "content": first.content}
    turns = [*MESSAGES, said, {"role": "user", "content": f"{QUESTION} Say it again."}]
    check_answer(client.chat.completions.create(model="sonar", messages=turns))


@check("a schema, and a forced tool", "structure", "tools")
def structure():
    schema = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
    how = {"model": "sonar", "messages": MESSAGES}
    response_format = {"type": "json_schema", "json_schema": {"schema": schema}}
    answer = client.chat.completions.create(response_format=response_format, **how)
    assert ANSWER in json.loads(answer.choices[0].message.content)["answer"]
    tools = [{"type": "function", "function": {"name": "record", "description": "Records.", "parameters": schema}}]
    called = client.chat.completions.create(tools=tools, tool_choice="required", **how).choices[0].message.tool_calls
    assert ANSWER in json.loads(called[0].function.arguments)["answer"]


main()
