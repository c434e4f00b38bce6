"""The SDK of Perplexity."""

from __future__ import annotations

import perplexity
from checks import ANSWER, KEY, LIMITED_URL, QUESTION, URL, check, main, raised

BASE = f"{URL}/perplexity"
MESSAGES = [{"role": "user", "content": QUESTION}]
client = perplexity.Perplexity(api_key=KEY, base_url=BASE, max_retries=0)


def check_answer(answer):
    text = answer.choices[0].message.content
    assert ANSWER in text, text
    assert "[1]" in text, text
    assert answer.citations[0] == answer.search_results[0].url
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens > 0


@check("chat")
def chat():
    check_answer(client.chat.completions.create(model="sonar", messages=MESSAGES))


@check("chat, deep")
def deep():
    check_answer(client.chat.completions.create(model="sonar-pro", messages=MESSAGES))


@check("chat, streamed")
def streamed():
    chunks = list(client.chat.completions.create(model="sonar", messages=MESSAGES, stream=True))
    assert ANSWER in "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert chunks[0].citations
    assert chunks[0].search_results[0].url == chunks[0].citations[0]
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert chunks[-1].usage.total_tokens > 0


@check("chat, async")
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


@check("search")
def search():
    results = client.search.create(query=[QUESTION, "event loop"], max_results=3).results
    assert ANSWER in results[0].snippet
    assert results[0].url
    assert results[0].title


@check("errors")
def errors():
    wrong = client.with_options(api_key="not-the-right-key")
    raised(perplexity.AuthenticationError, lambda: wrong.chat.completions.create(model="sonar", messages=MESSAGES))
    raised(
        perplexity.UnprocessableEntityError,
        lambda: client.chat.completions.create(model="sonar", messages=[{"role": "user", "content": "x" * 501}]),
    )
    limited = perplexity.Perplexity(api_key=KEY, base_url=f"{LIMITED_URL}/perplexity", max_retries=0)
    caught = raised(perplexity.RateLimitError, lambda: limited.search.create(query=QUESTION), tries=2)
    assert int(caught.response.headers["retry-after"]) > 0


main()
