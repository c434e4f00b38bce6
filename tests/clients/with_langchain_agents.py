"""LangChain's chat models for OpenAI's and Anthropic's APIs in LangGraph agents."""

from __future__ import annotations

from checks import ANSWER, EMBEDDER, KEY, LLM, QUESTION, URL, check, main
from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from langchain_tavily import TavilySearch
from pydantic import BaseModel

ASKED = {"messages": [{"role": "user", "content": QUESTION}]}


class Summary(BaseModel):
    """A summary."""

    answer: str


@tool
def today() -> str:
    """Return the date."""
    return ""


def openai(model, **fields):
    return ChatOpenAI(model=model, api_key=KEY, base_url=f"{URL}/v1", max_retries=0, **fields)


def anthropic(model, **fields):
    return ChatAnthropic(model=model, api_key=KEY, base_url=f"{URL}/anthropic", max_retries=0, max_tokens=500, **fields)


def check_loop(state):
    assert [message.type for message in state["messages"]] == ["human", "ai", "tool", "ai"], state
    assert ANSWER in state["messages"][-1].text, state["messages"][-1]


@check("ChatOpenAI with TavilySearch in an agent", "chat", "search", "tools")
def agent_with_search():
    search = TavilySearch(tavily_api_key=KEY, api_base_url=f"{URL}/tavily")
    state = create_agent(openai(LLM), [search]).invoke(ASKED)
    check_loop(state)
    assert ANSWER in state["messages"][2].text, state["messages"][2]


@check("ChatAnthropic with a tool that returns nothing in an agent", "chat", "stream", "tools")
def agent_of_anthropic():
    agent = create_agent(anthropic(LLM), [today])
    check_loop(agent.invoke(ASKED))
    assert ANSWER in "".join(message.text for message, _ in agent.stream(ASKED, stream_mode="messages"))


@check("ChatAnthropic and ChatOpenAI: structured output of a research model", "structure")
def structured():
    for model in (anthropic("research-shallow"), openai("research-shallow")):
        assert ANSWER in model.with_structured_output(Summary).invoke(QUESTION).answer
    by_tool = openai("research-shallow").with_structured_output(Summary, method="function_calling")
    assert ANSWER in by_tool.invoke(QUESTION).answer


@check("a second turn of an agent", "second turn")
def second_turn():
    for agent in (create_agent(openai(LLM), [today]), create_agent(anthropic(LLM), [today])):
        messages = [*agent.invoke(ASKED)["messages"], HumanMessage(f"{QUESTION} Say it again.")]
        assert ANSWER in agent.invoke({"messages": messages})["messages"][-1].text


@check("OpenAIEmbeddings as the how-to sets it", "embeddings")
def embeddings():
    how = {"model": EMBEDDER, "api_key": KEY, "base_url": f"{URL}/v1", "max_retries": 0}
    first, second = OpenAIEmbeddings(**how, check_embedding_ctx_length=False).embed_documents(
        [QUESTION, "What is tea?"]
    )
    assert len(first) == len(second) == 256


main()
