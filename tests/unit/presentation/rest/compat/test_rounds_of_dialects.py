"""A further round of a research run, in the formats of other vendors: one line of reasoning where their clients read that."""

from __future__ import annotations

import json
from typing import Any

from tests.unit.presentation.rest.compat.test_dialect_answers import (
    AGENT,
    ASKED,
    CHAT,
    MESSAGES,
    QUESTION,
    RESPONSES,
    SONAR,
    data_of,
    readable,
    sent,
)
from tests.unit.presentation.rest.fake_platform import SEARCHED, FakeServices

from modules.llm_platform.application.research.events import RoundStarted

BEGUN = RoundStarted(request_id="", number=1, of=2, open=("Who?",), queries=("Owls height", "Owls age"))
LINE = "Search round 1 of 2. Open: Who? Queries: Owls height · Owls age"
SUMMARY = {"type": "summary_text", "text": LINE}
ITEM = {"id": "rs_ID_1", "type": "reasoning", "summary": [SUMMARY], "status": "completed"}
FURTHER = SEARCHED.model_copy(update={"query": "Owls height"})


async def answered(path: str, *again: RoundStarted, **body: Any) -> Any:
    services = FakeServices()
    services.searches = (SEARCHED, BEGUN, *again, FURTHER)
    response = await sent(path, body, services)
    assert response.status_code == 200
    return data_of(response) if body.get("stream") else json.loads(readable(response))


async def test_the_responses_api_has_an_item_of_reasoning() -> None:
    """The reasoning item stands between the searches of the first round and those of the next, in plain and streamed
    responses. The repeated steps of an interrupted run are reported once.
    """
    body = {"model": "research-deep", "input": QUESTION}
    answer = await answered(RESPONSES, BEGUN, **body)
    assert [item["type"] for item in answer["output"]] == ["web_search_call", "reasoning", "web_search_call", "message"]
    assert answer["output"][1] == ITEM
    parts = [part for part in await answered(RESPONSES, **body, stream=True) if part.get("output_index") == 1]
    assert [part["type"].removeprefix("response.") for part in parts] == [
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
    ]
    assert (parts[0]["item"]["summary"], parts[2]["delta"], parts[-1]["item"]) == ([], LINE, ITEM)


async def test_a_message_of_chat_has_reasoning_content() -> None:
    """`content` has only the answer, so that its offsets match the citations."""
    body = {"model": "research-deep", "messages": ASKED}
    message = (await answered(CHAT, **body))["choices"][0]["message"]
    assert message["reasoning_content"] == f"{LINE}\n"
    assert LINE not in message["content"]
    first, second, *_ = [part["choices"][0]["delta"] for part in (await answered(CHAT, **body, stream=True))[:-1]]
    assert (first, second) == ({"role": "assistant", "content": ""}, {"reasoning_content": f"{LINE}\n"})


async def test_a_message_of_anthropic_thinks_where_the_client_asks_for_that() -> None:
    """A client that did not ask gets the blocks that it knows."""
    body = {"model": "research-deep", "messages": ASKED, "max_tokens": 100}
    assert "thinking" not in [block["type"] for block in (await answered(MESSAGES, **body))["content"]]
    body["thinking"] = {"type": "enabled", "budget_tokens": 1024}
    content = (await answered(MESSAGES, **body))["content"]
    assert content[2] == {"type": "thinking", "thinking": LINE, "signature": ""}
    parts = [part for part in await answered(MESSAGES, **body, stream=True) if part.get("index") == 2]
    assert [part.get("delta", {}).get("thinking", "") for part in parts] == ["", LINE, "", ""]
    assert parts[2]["delta"] == {"type": "signature_delta", "signature": ""}


async def test_the_agent_of_perplexity_tells_its_thought_with_the_first_search_of_a_round() -> None:
    """The thought is a field of an event that the clients know."""
    parts = await answered(AGENT, model="high", input=QUESTION, stream=True)
    searches = [part for part in parts if part["type"] == "response.reasoning.search_queries"]
    assert [(part["queries"], part.get("thought")) for part in searches] == [
        ([SEARCHED.query], None),
        (["Owls height"], LINE),
    ]


async def test_the_first_chunk_of_perplexity_has_the_sources() -> None:
    """Clients read the sources only from the first chunk, so no chunk may announce a round before it."""
    parts = await answered(SONAR, model="sonar-pro", messages=ASKED, stream=True)
    assert parts[0]["citations"]
    assert LINE not in json.dumps(parts, ensure_ascii=False)


async def test_a_research_of_tavily_plans_again() -> None:
    """A round is a step of planning, with its response."""
    parts = await answered("/tavily/research", input=QUESTION, model="pro", stream=True)
    assert json.dumps(parts, ensure_ascii=False).count(LINE) == 1
