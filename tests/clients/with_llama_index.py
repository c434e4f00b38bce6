"""LlamaIndex's OpenAI-compatible models."""

from __future__ import annotations

import openai
from checks import ANSWER, KEY, QUESTION, URL, check, main, raised
from llama_index.core.llms import ChatMessage
from llama_index.llms.openai import OpenAIResponses
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel

MESSAGES = [ChatMessage(role="system", content="Answer briefly."), ChatMessage(role="user", content=QUESTION)]


def like(**fields):
    return OpenAILike(model="research-shallow", api_base=f"{URL}/v1", api_key=KEY, max_retries=0, **fields)


@check("OpenAILike with is_chat_model=True", "chat", "stream")
def chat():
    model = like(is_chat_model=True)
    assert ANSWER in model.chat(MESSAGES).message.content
    assert ANSWER in model.complete(QUESTION).text
    assert ANSWER in "".join(part.delta for part in model.stream_chat(MESSAGES))


@check("OpenAILike without it is told the address to use")
def completions():
    caught = raised(openai.NotFoundError, lambda: like().complete(QUESTION))
    assert "/v1/chat/completions" in str(caught), caught


class Summary(BaseModel):
    """A summary."""

    answer: str


@check("OpenAILike: structured output of a research model by a tool", "tools", "structure")
def structured():
    model = like(is_chat_model=True, is_function_calling_model=True).as_structured_llm(Summary)
    assert ANSWER in model.complete(QUESTION).raw.answer


@check("OpenAIResponses", "chat")
def responses():
    model = OpenAIResponses(
        model="research-shallow", api_base=f"{URL}/v1", api_key=KEY, max_retries=0, context_window=32000
    )
    answer = model.chat(MESSAGES)
    assert ANSWER in answer.message.content
    assert answer.additional_kwargs["annotations"][0].type == "url_citation", answer.additional_kwargs


@check("a second turn", "second turn")
def second_turn():
    model = like(is_chat_model=True)
    turns = [*MESSAGES, model.chat(MESSAGES).message, ChatMessage(role="user", content=f"{QUESTION} Say it again.")]
    assert ANSWER in model.chat(turns).message.content


main()
