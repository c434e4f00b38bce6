"""Pydantic AI over chat completions and Responses."""

from __future__ import annotations

from checks import ANSWER, KEY, LLM, QUESTION, URL, check, main
from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput, PromptedOutput, messages
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

provider = OpenAIProvider(base_url=f"{URL}/v1", api_key=KEY)


class Summary(BaseModel):
    answer: str


@check("chat", "chat")
async def chat():
    result = await Agent(OpenAIChatModel("research-shallow", provider=provider)).run(QUESTION)
    assert ANSWER in result.output
    assert result.usage.output_tokens > 0


@check("chat, streamed", "stream")
async def chat_streamed():
    async with Agent(OpenAIChatModel("research-shallow", provider=provider)).run_stream(QUESTION) as result:
        assert ANSWER in "".join([text async for text in result.stream_text(delta=True)])


@check("responses", "chat")
async def responses():
    result = await Agent(OpenAIResponsesModel("research-shallow", provider=provider)).run(QUESTION)
    assert ANSWER in result.output


@check("responses, a second turn", "second turn")
async def second_turn():
    agent = Agent(OpenAIResponsesModel("research-shallow", provider=provider))
    first = await agent.run(QUESTION)
    assert ANSWER in (await agent.run(QUESTION, message_history=first.all_messages())).output


@check("responses, annotations")
async def annotations():
    model = OpenAIResponsesModel("research-shallow", provider=provider)
    settings = {"openai_include_raw_annotations": True}
    result = await Agent(model, model_settings=settings).run(QUESTION)
    (part,) = (part for part in result.response.parts if isinstance(part, messages.TextPart))
    assert part.provider_details["annotations"][0]["type"] == "url_citation", part


@check("a schema, with a research model", "structure")
async def schema():
    agent = Agent(OpenAIChatModel("research-shallow", provider=provider), output_type=NativeOutput(Summary))
    assert ANSWER in (await agent.run(QUESTION)).output.answer


@check("structured output, its default, over chat and responses", "structure", "tools")
async def structured_output():
    for kind in (OpenAIChatModel, OpenAIResponsesModel):
        agent = Agent(kind("research-shallow", provider=provider), output_type=Summary)
        assert ANSWER in (await agent.run(QUESTION)).output.answer
        async with agent.run_stream(QUESTION) as result:
            assert ANSWER in (await result.get_output()).answer


@check("PromptedOutput, with a research model", "structure")
async def prompted_output():
    agent = Agent(OpenAIChatModel("research-shallow", provider=provider), output_type=PromptedOutput(Summary))
    assert ANSWER in (await agent.run(QUESTION)).output.answer


@check("a passthrough model with a tool of one's own", "tools")
async def own_tool():
    agent = Agent(OpenAIChatModel(LLM, provider=provider))
    called = []

    @agent.tool_plain
    def today() -> str:
        """Return the date."""
        called.append("today")
        return "2026-11-21"

    assert ANSWER in (await agent.run(QUESTION)).output
    assert called == ["today"]


main()
