"""smolagents always sends `stop`."""

from __future__ import annotations

from checks import ANSWER, KEY, LLM, QUESTION, URL, check, main
from smolagents import ChatMessage, MessageRole, OpenAIServerModel

MESSAGES = [ChatMessage(role=MessageRole.USER, content=[{"type": "text", "text": QUESTION}])]


def model(name):
    return OpenAIServerModel(model_id=name, api_base=f"{URL}/v1", api_key=KEY)


@check("a research model", "chat")
def research():
    answer = model("research-shallow").generate(MESSAGES, stop_sequences=["Observation:", "Calling tools:"])
    assert ANSWER in answer.content
    assert answer.token_usage.output_tokens > 0


@check("a research model, streamed", "stream")
def streamed():
    parts = model("research-shallow").generate_stream(MESSAGES, stop_sequences=["Observation:"])
    assert ANSWER in "".join(part.content or "" for part in parts)


@check("a passthrough model", "chat")
def passthrough():
    assert ANSWER in model(LLM).generate(MESSAGES, stop_sequences=["Observation:"]).content


main()
