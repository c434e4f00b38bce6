"""Anthropic's SDK."""

from __future__ import annotations

import json

import anthropic
from checks import ANSWER, KEY, LATE_ERROR, LIMITED_URL, LLM, OPEN_URL, QUESTION, URL, check, main, raised

BASE = f"{URL}/anthropic"
MESSAGES = [{"role": "user", "content": QUESTION}]
SEARCH = {"type": "web_search_20260318", "name": "web_search", "max_uses": 5, "blocked_domains": ["example.com"]}
SHAPE = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
RECORD = {"name": "record", "description": "Record the answer.", "input_schema": SHAPE}
client = anthropic.Anthropic(api_key=KEY, base_url=BASE, max_retries=0)


def create(sdk=client, **fields):
    return sdk.messages.create(**{"model": "research-shallow", "max_tokens": 500, "messages": MESSAGES, **fields})


def text_of(message):
    return "".join(block.text for block in message.content if block.type == "text")


def check_message(message):
    assert ANSWER in text_of(message), message
    use = next(block for block in message.content if block.type == "server_tool_use")
    found = next(block for block in message.content if block.type == "web_search_tool_result")
    assert use.name == "web_search"
    assert use.input["query"]
    assert found.tool_use_id == use.id
    cited = [citation for block in message.content if block.type == "text" for citation in block.citations or ()]
    assert ANSWER in cited[0].cited_text, cited
    assert cited[0].type == "web_search_result_location"
    assert cited[0].url in [result.url for result in found.content]
    assert message.stop_reason == "end_turn"
    assert message.usage.output_tokens > 0
    assert message.usage.server_tool_use.web_search_requests > 0


def without_ids(message):
    """Return the blocks without the values that differ between answers."""
    blocks = [block.to_dict() for block in message.content]
    for block in blocks:
        block.pop("id", None)
        block.pop("tool_use_id", None)
        for part in [*(block.get("citations") or ()), *(block.get("content") or ())]:
            part.pop("encrypted_index", None)
            part.pop("encrypted_content", None)
    return blocks


@check("models")
def models():
    names = [model.id for model in client.models.list()]
    assert {"research-shallow", "research-deep", "research-report", LLM} <= set(names), names
    assert client.models.retrieve(LLM).id == LLM


@check("messages", "chat")
def messages():
    message = create(tools=[SEARCH], system="Be brief.")
    check_message(message)
    assert message._request_id


@check("messages, deep", "chat")
def deep():
    check_message(create(model="research-deep"))


@check("messages, streamed", "chat", "stream")
def streamed():
    with client.messages.stream(model="research-shallow", max_tokens=500, messages=MESSAGES, tools=[SEARCH]) as stream:
        events = list(stream)
        message = stream.get_final_message()
    check_message(message)
    assert without_ids(message) == without_ids(create(tools=[SEARCH]))
    assert {"text", "citation", "input_json"} <= {event.type for event in events}
    raw = [event.type for event in create(stream=True)]
    assert raw[0] == "message_start"
    assert raw[-1] == "message_stop"


@check("messages, async", "chat", "stream")
async def messages_async():
    async with anthropic.AsyncAnthropic(api_key=KEY, base_url=BASE, max_retries=0) as async_client:
        check_message(await create(async_client))
        async with async_client.messages.stream(model="research-shallow", max_tokens=500, messages=MESSAGES) as stream:
            assert ANSWER in "".join([text async for text in stream.text_stream])


@check("conversation", "second turn")
def conversation():
    first = create()
    turns = [*MESSAGES, first.to_param(), {"role": "user", "content": "What is asyncio's syntax?"}]
    assert text_of(create(messages=turns))


@check("a schema", "structure")
def schema():
    message = create(output_config={"format": {"type": "json_schema", "schema": SHAPE}})
    assert ANSWER in json.loads(text_of(message))["answer"]


@check("a forced tool", "tools")
def forced_tool():
    message = create(tools=[SEARCH, RECORD], tool_choice={"type": "tool", "name": "record"})
    use = message.content[-1]
    assert (message.stop_reason, use.type, use.name) == ("tool_use", "tool_use", "record")
    assert ANSWER in use.input["answer"], use
    with client.messages.stream(
        model="research-shallow", max_tokens=500, messages=MESSAGES, tools=[RECORD], tool_choice={"type": "any"}
    ) as stream:
        assert ANSWER in stream.get_final_message().content[-1].input["answer"]


@check("language model", "chat", "stream")
def language_model():
    assert ANSWER in text_of(create(model=LLM))
    with client.messages.stream(model=LLM, max_tokens=500, messages=MESSAGES) as stream:
        assert ANSWER in stream.get_final_text()


@check("a language model with a tool of one's own, by its runner of tools", "tools")
def runner():
    called = []

    @anthropic.beta_tool
    def today() -> str:
        """Return the date."""
        called.append("today")
        return ""

    last = client.beta.messages.tool_runner(model=LLM, max_tokens=500, messages=MESSAGES, tools=[today]).until_done()
    assert ANSWER in text_of(last), last
    assert called == ["today"]
    with client.messages.stream(model=LLM, max_tokens=500, messages=MESSAGES, tools=[RECORD]) as stream:
        assert stream.get_final_message().content[0].name == "record"


@check("count_tokens")
def tokens():
    assert client.messages.count_tokens(model="research-deep", messages=MESSAGES).input_tokens > 0


@check("without an API key")
def without_key():
    with_any_key = anthropic.Anthropic(api_key="any", base_url=f"{OPEN_URL}/anthropic", max_retries=0)
    assert ANSWER in text_of(create(with_any_key))


@check("errors")
def errors():
    raised(anthropic.AuthenticationError, lambda: create(client.with_options(api_key="not-the-right-key")))
    raised(anthropic.NotFoundError, lambda: create(model="claude"))
    caught = raised(
        anthropic.BadRequestError, lambda: create(tools=[RECORD], tool_choice={"type": "tool", "name": "f"})
    )
    assert caught.body["error"]["type"] == "invalid_request_error"
    assert caught.request_id
    limited = anthropic.Anthropic(api_key=KEY, base_url=f"{LIMITED_URL}/anthropic", max_retries=0)
    caught = raised(anthropic.RateLimitError, lambda: create(limited), tries=2)
    assert int(caught.response.headers["retry-after"]) > 0


@check("an error of a stream after its beginning is raised")
def late_error():
    def text():
        asked = [{"role": "user", "content": LATE_ERROR}]
        with client.messages.stream(model=LLM, max_tokens=500, messages=asked) as stream:
            return stream.get_final_text()

    caught = raised(anthropic.APIStatusError, text)
    assert caught.status_code == 200
    assert caught.body["error"]["type"] == "api_error", caught.body


@check("a verified answer of a passthrough model, whole and streamed")
def verified():
    given = f"[1] asyncio https://example.org/asyncio\n{ANSWER}.\n\n{QUESTION}"
    asked = {"model": LLM, "max_tokens": 500, "messages": [{"role": "user", "content": given}]}
    plain = client.messages.create(**asked)
    for mode in ("annotate", "mark"):
        message = client.messages.create(**asked, extra_headers={"X-Verify": mode})
        assert message.content[0].text == plain.content[0].text
        assert message.content[0].citations[0].url == "https://example.org/asyncio"
        assert message.evidence[0]["verdict"] == "supported"
        with client.messages.stream(**asked, extra_headers={"X-Verify": mode}) as stream:
            assert stream.get_final_text() == plain.content[0].text
            assert stream.get_final_message().content[0].citations[0].cited_text
            assert stream.get_final_message().stop_reason == "end_turn"


main()
