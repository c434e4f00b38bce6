"""Haystack's generators for OpenAI."""

from __future__ import annotations

import json

from checks import ANSWER, KEY, LLM, QUESTION, URL, check, main
from haystack.components.generators.chat import OpenAIChatGenerator, OpenAIResponsesChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import Tool
from haystack.utils import Secret

HOW = {"api_key": Secret.from_token(KEY), "model": "research-shallow", "api_base_url": f"{URL}/v1"}
MESSAGES = [ChatMessage.from_system("Answer briefly."), ChatMessage.from_user(QUESTION)]


@check("OpenAIChatGenerator", "chat")
def chat():
    (reply,) = OpenAIChatGenerator(**HOW).run(MESSAGES)["replies"]
    assert ANSWER in reply.text
    assert "[1]" in reply.text


@check("OpenAIChatGenerator, streamed", "stream")
def streamed():
    chunks = []
    OpenAIChatGenerator(**HOW, streaming_callback=chunks.append).run(MESSAGES)
    assert ANSWER in "".join(chunk.content for chunk in chunks)


@check("OpenAIResponsesChatGenerator", "chat")
def responses():
    (reply,) = OpenAIResponsesChatGenerator(**HOW).run(MESSAGES)["replies"]
    assert ANSWER in reply.text


@check("a second turn", "second turn")
def second_turn():
    generator = OpenAIChatGenerator(**HOW)
    (first,) = generator.run(MESSAGES)["replies"]
    (reply,) = generator.run([*MESSAGES, first, ChatMessage.from_user(f"{QUESTION} Say it again.")])["replies"]
    assert ANSWER in reply.text


@check("a passthrough model with a tool of one's own, and a schema", "tools", "structure")
def loop():
    today = Tool(
        name="today", description="Returns the date.", parameters={"type": "object", "properties": {}}, function=str
    )
    generator = OpenAIChatGenerator(**{**HOW, "model": LLM}, tools=[today])
    (called,) = generator.run(MESSAGES)["replies"]
    (result,) = [ChatMessage.from_tool("", origin=call) for call in called.tool_calls]
    (reply,) = generator.run([*MESSAGES, called, result])["replies"]
    assert ANSWER in reply.text
    schema = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
    wanted = {"response_format": {"type": "json_schema", "json_schema": {"name": "summary", "schema": schema}}}
    (filled,) = OpenAIChatGenerator(**HOW, generation_kwargs=wanted).run(MESSAGES)["replies"]
    assert ANSWER in json.loads(filled.text)["answer"]


main()
