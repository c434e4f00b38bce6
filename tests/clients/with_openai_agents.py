"""OpenAI's Agents SDK over Responses and chat completions."""

from __future__ import annotations

import agents
import openai
from checks import ANSWER, KEY, LLM, QUESTION, URL, check, main

agents.set_tracing_disabled(True)


def sdk():
    """Return a new client. Each check has its own event loop, and a client belongs to one loop."""
    return openai.AsyncOpenAI(api_key=KEY, base_url=f"{URL}/v1", max_retries=0)


def responses(**fields):
    model = agents.OpenAIResponsesModel(model="research-shallow", openai_client=sdk())
    return agents.Agent(name="Researcher", instructions="Answer briefly.", model=model, **fields)


def check_responses(result):
    assert ANSWER in result.final_output, result.final_output
    message = next(item for item in result.raw_responses[0].output if item.type == "message")
    annotation = message.content[0].annotations[0]
    assert annotation.type == "url_citation"
    assert ANSWER in message.content[0].text[annotation.start_index : annotation.end_index]


@check("responses", "chat")
async def plain():
    check_responses(await agents.Runner.run(responses(), QUESTION))


@check("responses, with its web search tool", "chat", "tools")
async def hosted_tool():
    check_responses(await agents.Runner.run(responses(tools=[agents.WebSearchTool()]), QUESTION))


@check("responses, streamed", "stream")
async def streamed():
    result = agents.Runner.run_streamed(responses(), QUESTION)
    kinds = [event.data.type async for event in result.stream_events() if event.type == "raw_response_event"]
    assert "response.output_text.delta" in kinds
    check_responses(result)


@check("responses, a second turn", "second turn")
async def second_turn():
    first = await agents.Runner.run(responses(), QUESTION)
    check_responses(
        await agents.Runner.run(responses(), [*first.to_input_list(), {"role": "user", "content": QUESTION}])
    )


@check("a hand-off from a passthrough model", "tools")
async def hand_off():
    model = agents.OpenAIResponsesModel(model=LLM, openai_client=sdk())
    assistant = agents.Agent(name="Assistant", model=model, handoffs=[responses()])
    result = await agents.Runner.run(assistant, QUESTION)
    assert (result.last_agent.name, ANSWER in result.final_output) == ("Researcher", True), result.final_output


@check("chat", "chat")
async def chat():
    model = agents.OpenAIChatCompletionsModel(model="research-shallow", openai_client=sdk())
    result = await agents.Runner.run(agents.Agent(name="Researcher", model=model), QUESTION)
    assert ANSWER in result.final_output


@check("chat, a passthrough model with a tool that returns nothing", "tools")
async def own_tool():
    called = []

    @agents.function_tool
    def today() -> str:
        """Return the date."""
        called.append("today")
        return ""

    model = agents.OpenAIChatCompletionsModel(model=LLM, openai_client=sdk())
    result = await agents.Runner.run(agents.Agent(name="Assistant", model=model, tools=[today]), QUESTION)
    assert ANSWER in result.final_output
    assert called == ["today"]


main()
