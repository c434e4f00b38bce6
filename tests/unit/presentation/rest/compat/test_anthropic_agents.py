"""A tool loop over Anthropic's Messages API with a language model that speaks OpenAI's protocol.

The requests are those of Claude Code, of the tool runner of Anthropic's SDK, and of ChatAnthropic in LangGraph.
tests/clients has the packages themselves.
"""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
from tests.support.cases import for_each
from tests.unit.presentation.rest.compat.anthropic.test_messages import put_together, sent_events
from tests.unit.presentation.rest.fake_platform import FakeServices, app_client

from modules.llm_platform.domain.dtos.llm_dtos import LLMToken, Usage

MESSAGES = "/anthropic/v1/messages"
TOKENS = f"{MESSAGES}/count_tokens"
LLM = "fake/fake-1"
BASH: dict[str, Any] = {
    "name": "Bash",
    "description": "Runs a command.",
    "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
}
CALL = {"id": "call_1", "type": "function", "function": {"name": "Bash", "arguments": '{"command": "ls"}'}}
CACHED = {"cache_control": {"type": "ephemeral"}}
PIXEL = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
# One request of Claude Code in the middle of its work, shortened.
CLAUDE_CODE: dict[str, Any] = {
    "model": "claude-sonnet-4-5-20250929",
    "max_tokens": 32000,
    "stream": True,
    "temperature": 1,
    "metadata": {"user_id": "user_0_account__session_1"},
    "thinking": {"type": "adaptive"},
    "output_config": {"effort": "high"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "system": [
        {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.0"},
        {"type": "text", "text": "You are Claude Code.", **CACHED},
    ],
    "tools": [{**BASH, "type": "custom", "eager_input_streaming": True, **CACHED}],
    "messages": [
        {"role": "user", "content": [
            {"type": "text", "text": "<system-reminder>Today is Sunday.</system-reminder>"},
            {"type": "text", "text": "List the files.", **CACHED},
        ]},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "A listing.", "signature": "c2ln"},
            {"type": "redacted_thinking", "data": "eHg="},
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}},
            {"type": "tool_use", "id": "toolu_2", "name": "Bash", "input": {}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": ""},
            {"type": "tool_result", "tool_use_id": "toolu_2", "is_error": True, "content": [
                {"type": "text", "text": "No command."}, {"type": "image", "source": PIXEL},
            ], **CACHED},
            {"type": "text", "text": "<system-reminder>Be brief.</system-reminder>"},
        ]},
        {"role": "system", "content": "The user is away."},
    ],
}  # fmt: skip


@pytest.fixture
def services() -> FakeServices:
    services = FakeServices()
    services.replacements = {"claude-haiku-*": "research-shallow", "claude-*": LLM}
    return services


async def test_turns_of_claude_code_reach_the_model_as_a_chat(
    client: httpx2.AsyncClient, services: FakeServices
) -> None:
    """Tool results directly follow their calls, whatever text the user adds.

    An image of a tool result is sent as a user image.
    """
    response = await client.post(
        f"{MESSAGES}?beta=true", json=CLAUDE_CODE, headers={"anthropic-beta": "claude-code-20250219"}
    )
    assert response.status_code == 200, response.text
    [prompt] = services.requests
    assert [(turn.role, turn.content) for turn in prompt.messages] == [
        ("system", "x-anthropic-billing-header: cc_version=2.1.0\nYou are Claude Code."),
        ("user", "<system-reminder>Today is Sunday.</system-reminder>\nList the files."),
        ("assistant", "I look."),
        ("tool", ""),
        ("tool", "No command."),
        ("user", "<system-reminder>Be brief.</system-reminder>"),
        ("system", "The user is away."),
    ]
    assistant, first, _, shown = prompt.messages[2:6]
    assert [json.loads(call["function"]["arguments"]) for call in assistant.tool_calls] == [{"command": "ls"}, {}]
    assert (assistant.reasoning, first.tool_call_id) == ("A listing.", "toolu_1")
    assert shown.parts[0]["image_url"]["url"] == "data:image/png;base64,AAAA"
    assert (prompt.max_tokens, prompt.temperature, prompt.model) == (32000, 1.0, "fake-1")
    function = {"name": "Bash", "description": "Runs a command.", "parameters": BASH["input_schema"]}
    assert prompt.extra == {"tools": [{"type": "function", "function": function}]}
    assert set(response.headers["x-ignored-fields"].split(", ")) == {
        "thinking",
        "output_config",
        "metadata",
        "context_management",
    }


@pytest.mark.parametrize("streamed", [False, True])
async def test_calls_come_back_as_blocks(client: httpx2.AsyncClient, services: FakeServices, streamed: bool) -> None:
    """Thinking, text, then each call with its arguments; the stream and the whole message are the same."""
    second = {"id": "call_2", "type": "function", "function": {"name": "Bash", "arguments": "{}"}}
    services.llm_tokens = (
        LLMToken(text="", reasoning="Let me "), LLMToken(text="I look.", reasoning="see."),
        LLMToken(text="", tool_calls=({"index": 0, "id": "call_1", "function": {"name": "Bash", "arguments": '{"comm'}},)),
        LLMToken(text="", tool_calls=(
            {"index": 0, "function": {"arguments": 'and": "ls"}'}},
            {"index": 1, "id": "call_2", "function": {"name": "Bash", "arguments": "{}"}},
        )),
    )  # fmt: skip
    services.llm_fields = {
        "content": "I look.",
        "reasoning": "Let me see.",
        "tool_calls": (CALL, second),
        "finish_reason": "tool_calls",
        "usage": Usage(prompt_tokens=30, completion_tokens=4, cached_tokens=20),
    }
    response = await client.post(MESSAGES, json={**CLAUDE_CODE, "stream": streamed})
    events = sent_events(response.content) if streamed else []
    content = put_together(events) if streamed else response.json()["content"]
    end = events[-2] if streamed else response.json()
    stop_reason = end["delta"]["stop_reason"] if streamed else end["stop_reason"]
    assert content == [
        {"type": "thinking", "thinking": "Let me see.", "signature": ""},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "call_1", "name": "Bash", "input": {"command": "ls"}},
        {"type": "tool_use", "id": "call_2", "name": "Bash", "input": {}},
    ]
    assert stop_reason == "tool_use"
    assert end["usage"] == {"input_tokens": 10, "output_tokens": 4, "cache_read_input_tokens": 20}


async def test_thinking_that_was_not_asked_for_is_not_sent(client: httpx2.AsyncClient, services: FakeServices) -> None:
    services.llm_tokens = (LLMToken(text="", reasoning="Hm."), LLMToken(text="Yes."))
    services.llm_fields = {"content": "Yes.", "reasoning": "Hm."}
    for fields in ({}, {"thinking": {"type": "disabled"}}):
        body = {"model": LLM, "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}], **fields}
        assert [block["type"] for block in (await client.post(MESSAGES, json=body)).json()["content"]] == ["text"]
        streamed = await client.post(MESSAGES, json={**body, "stream": True})
        assert [block["type"] for block in put_together(sent_events(streamed.content))] == ["text"]


async def test_calls_whose_parts_come_by_turns_are_whole(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """A block ends before the next one begins, so a call that begins too early is sent at the end."""
    parts = [(0, '{"comm'), (1, '{"command":'), (0, 'and": "a"}'), (1, ' "b"}'), (2, '{"command": "c"}')]
    services.llm_tokens = tuple(
        LLMToken(
            text="", tool_calls=({"index": index, "id": f"c{index}", "function": {"name": name, "arguments": text}},)
        )
        for (index, text), name in zip(parts, ("Bash", "Bash", "", "", "Bash"), strict=True)
    )
    response = await client.post(MESSAGES, json=CLAUDE_CODE)
    blocks = put_together(sent_events(response.content))
    assert {block["id"]: block["input"] for block in blocks} == {
        "c0": {"command": "a"},
        "c1": {"command": "b"},
        "c2": {"command": "c"},
    }


@pytest.mark.parametrize("between", [LLMToken(text="So"), LLMToken(text="", reasoning="So")])
async def test_text_between_the_parts_of_a_call_does_not_divide_it(
    client: httpx2.AsyncClient, services: FakeServices, between: LLMToken
) -> None:
    """The text is a block after the call and before another pending call."""
    calls = [(0, "Bash", '{"command": '), (1, "Bash", '{"command": "b"}'), (0, "", '"a"}')]
    first, second, rest = (
        LLMToken(
            text="", tool_calls=({"index": index, "id": f"c{index}", "function": {"name": name, "arguments": text}},)
        )
        for index, name, text in calls
    )
    services.llm_tokens = (first, between, second, between, rest)
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    response = await client.post(MESSAGES, json={**CLAUDE_CODE, **thinking})
    blocks = put_together(sent_events(response.content))
    assert [block.get("input") or block.get("text") or block.get("thinking") for block in blocks] == [
        {"command": "a"},
        "SoSo",
        {"command": "b"},
    ]


@for_each(
    ("fields", "extra"),
    [
        ({"tool_choice": {"type": "any"}}, {"tool_choice": "required"}),
        ({"tool_choice": {"type": "none"}}, {"tool_choice": "none"}),
        ({"tool_choice": {"type": "tool", "name": "Bash", "disable_parallel_tool_use": True}},
         {"tool_choice": {"type": "function", "function": {"name": "Bash"}}, "parallel_tool_calls": False}),
        ({"stop_sequences": ["\n\nHuman:"], "top_p": 0.5, "top_k": 4}, {"stop": ["\n\nHuman:"], "top_p": 0.5, "top_k": 4}),
        ({"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
         {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}}}}),
    ],
)  # fmt: skip
async def test_fields_have_their_counterparts(fields: dict[str, Any], extra: dict[str, Any]) -> None:
    services = FakeServices()
    async with app_client(services) as client:
        body = {"model": LLM, "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}], "tools": [BASH]}
        response = await client.post(MESSAGES, json={**body, **fields})
    assert response.status_code == 200, response.text
    found = {name: value for name, value in services.requests[0].extra.items() if name != "tools"}
    assert json.loads(json.dumps(found)) == extra
    assert "x-ignored-fields" not in response.headers


async def test_prefill_is_the_last_turn(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """The model continues the prefill if its service can."""
    turns = [{"role": "user", "content": "A haiku."}, {"role": "assistant", "content": "Here is"}]
    assert (await client.post(MESSAGES, json={"model": LLM, "max_tokens": 9, "messages": turns})).status_code == 200
    assert [(turn.role, turn.content) for turn in services.requests[0].messages][-1] == ("assistant", "Here is")


async def test_names_of_the_vendor_are_answered_as_the_setting_says(
    client: httpx2.AsyncClient, services: FakeServices
) -> None:
    """The first pattern that fits counts, and may name a depth of research; the answer has the name that was sent."""
    body = {"max_tokens": 9, "messages": [{"role": "user", "content": "What is asyncio?"}]}
    small = await client.post(MESSAGES, json={**body, "model": "claude-haiku-4-5"})
    large = await client.post(MESSAGES, json={**body, "model": "claude-opus-4-1[1m]"})
    assert (small.json()["model"], large.json()["model"]) == ("claude-haiku-4-5", "claude-opus-4-1[1m]")
    assert (services.requests[0].depth, services.requests[1].model) == ("shallow", "fake-1")
    assert (await client.get("/anthropic/v1/models/claude-sonnet-4-5")).json()["id"] == "claude-sonnet-4-5"
    services.replacements["claude-sonnet-*"] = "x"
    for name in ("gpt-5", "gone-1"):
        services.replacements.setdefault("gone-*", "openai/gone")
        missing = await client.post(MESSAGES, json={**body, "model": name})
        assert (missing.status_code, missing.json()["error"]["type"]) == (404, "not_found_error")
    assert "ANTHROPIC_MODELS" in missing.json()["error"]["message"]


async def test_tokens_count_the_tools_and_their_results(client: httpx2.AsyncClient) -> None:
    """What a client compares with the window of its model: the whole prompt, without asking the model."""
    body = {
        name: value
        for name, value in CLAUDE_CODE.items()
        if name in ("model", "messages", "system", "tools", "thinking")
    }
    counted = (await client.post(f"{TOKENS}?beta=true", json=body)).json()["input_tokens"]
    body["tools"] = [{**BASH, "description": "word " * 500}]
    with_words = (await client.post(TOKENS, json=body)).json()["input_tokens"]
    assert 400 < with_words - counted < 600
    assert counted > 1600


async def test_token_counting_requires_a_key() -> None:
    """Keys, size limits and the shape of errors are those of the other routes."""
    services = FakeServices()
    async with app_client(services, LLM_PLATFORM_API_KEYS="a-long-enough-key") as client:
        body = {"model": LLM, "messages": [{"role": "user", "content": "Hello"}]}
        refused = await client.post(TOKENS, json=body)
        client.headers["x-api-key"] = "a-long-enough-key"
        large = await client.post(TOKENS, json={**body, "system": "x" * 2**23})
        counted = await client.post(TOKENS, json=body)
    kinds = [(answer.status_code, answer.json()["error"]["type"]) for answer in (refused, large)]
    assert kinds == [(401, "authentication_error"), (413, "request_too_large")]
    assert (counted.status_code, services.requests) == (200, [])


HIDDEN = "169.254.169.254"


@for_each(
    ("fields", "position"),
    [
        ({"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": f"http://{HIDDEN}"}}]}]},
         "messages.0.content.0"),
        ({"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "file", "file_id": HIDDEN}}]}]},
         "messages.0.content.0"),
        ({"messages": [{"role": "user", "content": [{"type": "document", "source": {"type": "url", "url": HIDDEN}}]}]},
         "messages.0.content.0"),
        ({"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [
            {"type": "image", "source": {"type": "url", "url": HIDDEN}}]}]}]}, "messages.0.content.0.content"),
        ({"messages": [{"role": "user", "content": [{"type": "container_upload", "file_id": HIDDEN}]}]},
         "messages.0.content.0"),
        ({"messages": [{"role": "user", "content": [{"type": "image", "source": HIDDEN}]}]}, "messages.0.content.0"),
        ({"system": [{"type": "image", "source": PIXEL}]}, "system.0"),
        ({"tools": [BASH, {"type": "web_search_20250305", "name": "web_search"}]}, "tools.1"),
        ({"tools": [{"type": "mcp_toolset", "mcp_server_name": HIDDEN}]}, "tools.0"),
        ({"tools": [{"input_schema": {}}]}, "tools.0"),
        ({"tools": [BASH], "tool_choice": {"type": "tool", "name": HIDDEN}}, "tool_choice"),
        ({"tools": [BASH], "tool_choice": {"type": HIDDEN}}, "tool_choice"),
        ({"tools": [BASH] * 513}, "tools"),
        ({"tools": [{**BASH, "description": "x" * (1 << 20)}]}, "tools"),
        ({"stop_sequences": ["x"] * 17}, "stop_sequences"),
    ],
)  # fmt: skip
async def test_what_cannot_be_forwarded_is_named_without_what_was_sent(fields: dict[str, Any], position: str) -> None:
    """No address reaches a service, and a vendor tool is not a function."""
    services = FakeServices()
    async with app_client(services) as client:
        body = {"model": LLM, "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}], **fields}
        response = await client.post(MESSAGES, json=body)
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert (error["type"], error["message"].startswith(position)) == ("invalid_request_error", True), error
    assert HIDDEN not in response.text
    assert services.requests == []


@for_each(
    "arguments",
    ["{", '["ls"]', "null", '"ls"', "", "{}"],
)
async def test_arguments_that_are_no_object_break_nothing(arguments: str) -> None:
    """A model may write invalid arguments. The tool is called with the text it can use, and reports the fault."""
    services = FakeServices()
    call = {"id": "", "type": "function", "function": {"name": "Bash", "arguments": arguments}}
    services.llm_fields = {"content": "", "tool_calls": (call,), "finish_reason": "tool_calls"}
    async with app_client(services) as client:
        response = await client.post(MESSAGES, json={**CLAUDE_CODE, "model": LLM, "stream": False})
    [block] = response.json()["content"]
    assert (block["input"], bool(block["id"])) == ({}, True)
