"""Haystack's generators for OpenAI."""

from __future__ import annotations

from checks import ANSWER, KEY, QUESTION, URL, check, main
from haystack.components.generators.chat import OpenAIChatGenerator, OpenAIResponsesChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.utils import Secret

HOW = {"api_key": Secret.from_token(KEY), "model": "research-shallow", "api_base_url": f"{URL}/v1"}
MESSAGES = [ChatMessage.from_system("Answer briefly."), ChatMessage.from_user(QUESTION)]


@check("OpenAIChatGenerator")
def chat():
    (reply,) = OpenAIChatGenerator(**HOW).run(MESSAGES)["replies"]
    assert ANSWER in reply.text
    assert "[1]" in reply.text


@check("OpenAIChatGenerator, streamed")
def streamed():
    chunks = []
    OpenAIChatGenerator(**HOW, streaming_callback=chunks.append).run(MESSAGES)
    assert ANSWER in "".join(chunk.content for chunk in chunks)


@check("OpenAIResponsesChatGenerator")
def responses():
    (reply,) = OpenAIResponsesChatGenerator(**HOW).run(MESSAGES)["replies"]
    assert ANSWER in reply.text


main()
