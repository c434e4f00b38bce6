"""Anthropic's Messages API, in process. tests/clients/with_anthropic.py tries it with the vendor's own client."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import httpx2
import pytest
from tests.support.cases import for_each
from tests.unit.presentation.rest.fake_platform import CITATION, HIT, REF, FakeServices, app_client

from modules.llm_platform.application.research import events
from modules.llm_platform.domain.dtos.answer_dtos import ResearchMetadata, ResearchResponse
from modules.llm_platform.domain.dtos.citation_dtos import Citation
from modules.llm_platform.domain.dtos.request_dtos import ShortMessage
from modules.llm_platform.domain.dtos.source_dtos import SourceRef
from modules.llm_platform.domain.exceptions import WebSearchBlockedError, WebSearchConnectionError
from modules.llm_platform.presentation.rest.compat.anthropic.blocks import MessageBlocks
from modules.llm_platform.presentation.rest.compat.anthropic.stream import MessageHead, ResearchStream

MESSAGES = "/anthropic/v1/messages"
QUESTION: list[dict[str, Any]] = [{"role": "user", "content": "What is asyncio?"}]
BODY: dict[str, Any] = {"model": "research-shallow", "max_tokens": 500, "messages": QUESTION}
TOOL: dict[str, Any] = {"type": "web_search_20260318", "name": "web_search"}
OTHER = SourceRef(index=2, title="Threads", url="https://example.org/threads")


def citation(text: str, sentence: str, index: int = 1, **fields: Any) -> Citation:
    start = text.index(sentence)
    values = {"start": start, "end": start + len(sentence), "source_index": index, "verdict": "supported", "score": 0.9}
    return Citation.model_validate({**values, "quote": f"Quote: {sentence}", **fields})


def answer(text: str, *citations: Citation) -> ResearchResponse:
    return ResearchResponse(
        query="q",
        depth="shallow",
        synthesis=text,
        sources=(REF, OTHER),
        citations=citations,
        metadata=ResearchMetadata(latency_ms=1, searches=2, prompt_tokens=30, completion_tokens=4, pages_read=3),
    )


def blocks_of(response: ResearchResponse) -> list[dict[str, Any]]:
    return list(MessageBlocks("r", "q").text(response))


def sent_events(body: bytes) -> list[dict[str, Any]]:
    """Return the events of a stream, and check that each event is named after its type."""
    parts = [part.partition("\ndata: ") for part in body.decode().strip().split("\n\n")]
    found = [json.loads(data) for _, _, data in parts]
    assert [name for name, _, _ in parts] == [f"event: {event['type']}" for event in found]
    return found


def put_together(parts: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the blocks, as the vendor's client puts them together. One is complete before the next begins."""
    blocks: list[dict[str, Any]] = []
    open_block: int | None = None
    for part in parts:
        match part["type"]:
            case "content_block_start":
                assert open_block is None
                open_block = part["index"]
                assert open_block == len(blocks)
                blocks.append(part["content_block"])
            case "content_block_stop":
                assert open_block == part["index"]
                open_block = None
                if written := blocks[-1].pop("partial_json", ""):
                    blocks[-1]["input"] = json.loads(written)
            case "content_block_delta":
                assert open_block == part["index"]
                _fill(blocks[-1], part["delta"])
    return blocks


def _fill(block: dict[str, Any], delta: dict[str, Any]) -> None:
    match delta["type"]:
        case "text_delta":
            block["text"] += delta["text"]
        case "citations_delta":
            block["citations"].append(delta["citation"])
        case "input_json_delta":
            block["partial_json"] = block.get("partial_json", "") + delta["partial_json"]
        case "thinking_delta":
            block["thinking"] += delta["thinking"]


async def test_answer_has_searches_results_and_cited_sentences(
    client: httpx2.AsyncClient, services: FakeServices
) -> None:
    """A cited sentence is a block with its verified quote; the blocks of text together are the synthesis."""
    response = await client.post(MESSAGES, json=BODY)
    message = response.json()
    use, result, text = message["content"]
    assert (use["type"], use["name"], use["input"]) == ("server_tool_use", "web_search", {"query": "What is asyncio?"})
    assert (result["type"], result["tool_use_id"]) == ("web_search_tool_result", use["id"])
    assert [found["url"] for found in result["content"]] == [REF.url]
    assert text["text"] == services.answer
    [cited] = text["citations"]
    assert (cited["type"], cited["url"], cited["title"]) == ("web_search_result_location", REF.url, REF.title)
    assert cited["cited_text"] == CITATION.quote
    assert cited["encrypted_index"]
    assert text["llm_platform"]["citations"][0]["verdict"] == "supported"
    assert (message["stop_reason"], message["type"], message["role"]) == ("end_turn", "message", "assistant")
    assert response.headers["request-id"] == response.headers["x-request-id"] == message["id"].removeprefix("msg_")


async def test_stream_has_the_same_blocks(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """Put together by their index, they are the blocks of the whole answer, and the last events have its end."""
    headers = {"x-request-id": "r-1"}
    whole = (await client.post(MESSAGES, json=BODY, headers=headers)).json()
    streamed = await client.post(MESSAGES, json={**BODY, "stream": True}, headers=headers)
    found = sent_events(streamed.content)
    assert put_together(found) == whole["content"]
    assert found[0] == {
        "type": "message_start",
        "message": {
            **{name: whole[name] for name in ("id", "type", "role", "model")},
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 0, "output_tokens": 0},
        },
    }
    assert found[-1]["type"] == "message_stop"
    assert (found[-2]["delta"]["stop_reason"], found[-2]["usage"]) == ("end_turn", whole["usage"])
    assert found[-2]["llm_platform"] == whole["llm_platform"]


def test_sentences_and_the_text_between_them_are_separate_blocks() -> None:
    """Sentences and the text between them are separate blocks.

    Markers and the following blank belong to their sentence, and a bullet to the next sentence.
    """
    text = "# Tea\n\nTea is a drink. [1][2] Who knows. It is hot [2].\n- It is old [1]\n\nEnd."
    found = blocks_of(
        answer(
            text,
            citation(text, "It is old", quote="old"),
            citation(text, "Tea is a drink."),
            citation(text, "Tea is a drink.", 2, quote="drink"),
            citation(text, "It is hot", 2),
        )
    )
    assert [block["text"] for block in found] == [
        "# Tea\n\n",
        "Tea is a drink. [1][2] ",
        "Who knows. ",
        "It is hot [2].\n",
        "- It is old [1]\n\n",
        "End.",
    ]
    assert [[cited["cited_text"] for cited in block.get("citations", ())] for block in found] == [
        [],
        ["Quote: Tea is a drink.", "drink"],
        [],
        ["Quote: It is hot"],
        ["old"],
        [],
    ]
    assert "".join(block["text"] for block in found) == text


@for_each(
    ("verdict", "quote", "is_cited"),
    [
        ("supported", "q", True),
        ("partial", "q", True),
        ("partial", "", False),
        ("unsupported", "q", False),
        ("unchecked", "q", False),
    ],
)
def test_only_a_supporting_quote_is_a_citation(verdict: str, quote: str, is_cited: bool) -> None:
    """Other sentences stay without a citation, and the extension has their verdicts."""
    text = "Tea is a drink [1]."
    [block] = blocks_of(answer(text, citation(text, "Tea is a drink", verdict=verdict, quote=quote)))
    assert block["text"] == text
    assert ("citations" in block) == is_cited
    assert block["llm_platform"]["citations"][0]["verdict"] == verdict


def test_each_search_has_its_results_and_other_sources_a_pair_of_their_own() -> None:
    """Every cited address is among the results, also one that no search of this run found."""
    blocks = MessageBlocks("r", "question")
    hit = events.FoundResult.of(HIT.model_copy(update={"published_date": "2026-01-02"}))

    def searched(query: str, *results: events.FoundResult) -> events.Searched:
        return events.Searched(
            request_id="r", query=query, provider="fake", count=len(results), cached=False, results=results
        )

    content = [
        block
        for event in (
            events.Started(request_id="r"),
            searched("first", hit),
            searched("second"),
            events.SourcesNumbered(request_id="r", sources=(REF, OTHER)),
        )
        for block in blocks.of(event)
    ]
    uses, results = content[::2], content[1::2]
    assert [use["input"]["query"] for use in uses] == ["first", "second", "question"]
    assert [result["tool_use_id"] for result in results] == [use["id"] for use in uses]
    assert len({use["id"] for use in uses}) == 3
    assert [[found["url"] for found in result["content"]] for result in results] == [[HIT.url], [], [OTHER.url]]
    assert results[0]["content"][0]["page_age"] == "2026-01-02"


def test_text_is_sent_when_its_citations_are_verified() -> None:
    """A void beginning is never sent; other events are signs of life."""
    stream = ResearchStream(MessageHead("r", "research-shallow"), MessageBlocks("r", "q"))
    text = "Tea is a drink [1]."
    begun = stream.encode(events.Started(request_id="r"))
    parts = [
        stream.encode(events.Token(request_id="r", text="An")),
        stream.encode(events.Reset(request_id="r", reason="failed")),
        stream.encode(events.Token(request_id="r", text=text)),
        stream.encode(events.Done(request_id="r", response=answer(text, citation(text, "Tea is a drink")))),
    ]
    assert [event["type"] for event in sent_events(begun)] == ["message_start", "ping"]
    assert parts[0] == parts[2] == b""
    assert [event["type"] for event in sent_events(parts[1])] == ["ping"]
    [block] = put_together(sent_events(parts[3]))
    assert block["text"] == text


async def test_usage_counts_tokens_searches_and_pages(
    client: httpx2.AsyncClient, services: FakeServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "_research_response", lambda *_: answer("Tea."))
    usage = (await client.post(MESSAGES, json=BODY)).json()["usage"]
    assert usage == {
        "input_tokens": 30,
        "output_tokens": 4,
        "server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 3},
    }


async def test_a_conversation_is_read_with_its_system_prompt(
    client: httpx2.AsyncClient, services: FakeServices
) -> None:
    """An earlier answer is sent back as its blocks: only their text counts, as one text."""
    content = (await client.post(MESSAGES, json=BODY)).json()["content"]
    turns = [
        *QUESTION,
        {"role": "assistant", "content": content},
        {
            "role": "user",
            "content": [{"type": "text", "text": "Who wrote it?", "cache_control": {"type": "ephemeral"}}],
        },
    ]
    body = {
        **BODY,
        "messages": turns,
        "system": [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "In verse."}],
    }
    await client.post(MESSAGES, json=body)
    request = services.requests[-1]
    assert (request.query, request.instructions) == ("Who wrote it?", "Be brief.\nIn verse.")
    assert [(turn.question, turn.answer) for turn in request.history] == [("What is asyncio?", services.answer)]


async def test_a_long_message_and_a_short_one_are_answered(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """What exceeds a question is its context. Less than a question is answered in words; one that is too long is named."""
    text = f"{'Some notes on loops. ' * 40}\n\nWhat is asyncio?"
    long, short, longer = [
        await client.post(
            MESSAGES, json={**BODY, "system": "Be brief.", "messages": [{"role": "user", "content": message}]}
        )
        for message in (text, "hi", "x" * 40_000)
    ]
    assert (long.status_code, short.status_code, longer.status_code) == (200, 200, 400)
    first, second = services.requests
    assert (first.query, first.context) == ("What is asyncio?", text)
    assert isinstance(second, ShortMessage)
    assert longer.json()["error"]["message"].startswith("messages.0.content: ")


@for_each(
    ("tool", "domains"),
    [
        ({**TOOL, "allowed_domains": ["Python.org", "Example.net"]}, ("python.org", "example.net")),
        ({**TOOL, "type": "web_search_20250305", "blocked_domains": ["x.org"]}, ("-x.org",)),
        ({**TOOL, "type": "web_search_20260209"}, ()),
        ({"type": "web_fetch_20260318", "name": "web_fetch"}, ()),
    ],
)
async def test_the_web_search_of_every_date_restricts_the_domains(
    client: httpx2.AsyncClient, services: FakeServices, tool: dict[str, Any], domains: tuple[str, ...]
) -> None:
    assert (await client.post(MESSAGES, json={**BODY, "tools": [tool]})).status_code == 200
    assert services.requests[-1].domains == domains


@for_each(
    ("model", "max_uses", "depth", "is_named"),
    [
        ("research-deep", 1, "shallow", False),
        ("research-deep", 2, "shallow", False),
        ("research-deep", 3, "deep", True),
        ("research-shallow", 5, "shallow", False),
        ("research-report", 1, "report", True),
    ],
)
async def test_max_uses_bounds_the_searches_or_is_named(
    client: httpx2.AsyncClient, services: FakeServices, model: str, max_uses: int, depth: str, is_named: bool
) -> None:
    """One search is a shallow run. The searches of a report are not limited by it, and the header says so."""
    body = {**BODY, "model": model, "tools": [{**TOOL, "max_uses": max_uses}]}
    response = await client.post(MESSAGES, json=body)
    assert services.requests[-1].depth == depth
    assert ("tools.max_uses" in response.headers["x-ignored-fields"]) == is_named


async def test_fields_without_effect_are_named(client: httpx2.AsyncClient) -> None:
    location = {"type": "approximate", "city": "Oslo"}
    extras = {
        "temperature": 0.1,
        "top_p": 0.9,
        "stop_sequences": ["x"],
        "thinking": {"type": "disabled"},
        "metadata": {},
    }
    tools = [{**TOOL, "user_location": location}, {"type": "web_fetch_20250910", "name": "web_fetch"}]
    response = await client.post(MESSAGES, json={**BODY, "tools": tools, **extras})
    named = response.headers["x-ignored-fields"].split(", ")
    assert named == ["max_tokens", "tools.user_location", "tools.web_fetch", *extras]


@for_each(
    ("fields", "message"),
    [
        (
            {"tools": [TOOL, {"type": "code_execution_20260120", "name": "x"}]},
            "tools: a research model has no such tool",
        ),
        (
            {"tools": [{**TOOL, "allowed_domains": ["a.org"], "blocked_domains": ["b.org"]}]},
            "tools: allowed_domains and",
        ),
        (
            {"tools": [{**TOOL, "allowed_domains": ["a.org b.org"]}]},
            "tools.0.web_search.allowed_domains.0: must be the name",
        ),
        (
            {"tools": [{**TOOL, "allowed_domains": ["-a.org"]}]},
            "tools.0.web_search.allowed_domains.0: must be the name",
        ),
        ({"tools": [{**TOOL, "max_uses": 0}]}, "tools.0.web_search.max_uses: "),
        ({"messages": []}, "messages: "),
        (
            {"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]},
            "messages.0.content: only blocks",
        ),
        ({"system": [{"type": "image", "source": {}}]}, "system: only blocks"),
        ({"messages": [*QUESTION, {"role": "assistant", "content": "Hello"}]}, "messages: the last message must have"),
        ({"max_tokens": None}, "max_tokens: "),
        ({"model": "fake/fake-1", "tools": [TOOL]}, "tools.0: a language model takes functions of the client"),
    ],
)
async def test_what_cannot_be_served_is_a_400_that_says_why(
    client: httpx2.AsyncClient, services: FakeServices, fields: dict[str, Any], message: str
) -> None:
    response = await client.post(MESSAGES, json={**BODY, **fields})
    error = response.json()
    assert response.status_code == 400
    assert (error["type"], error["error"]["type"]) == ("error", "invalid_request_error")
    assert error["error"]["message"].startswith(message)
    assert error["request_id"] == response.headers["request-id"]
    assert services.requests == []


@for_each(
    ("error", "status", "kind"),
    [
        (WebSearchBlockedError("quota", retry_after_s=9), 503, "api_error"),
        (ValueError("secret"), 500, "api_error"),
    ],
)
async def test_errors_of_the_server_have_the_shape_of_the_api(error: Exception, status: int, kind: str) -> None:
    services = FakeServices()
    services.error = error
    async with app_client(services) as client:
        response = await client.post(MESSAGES, json=BODY)
    assert (response.status_code, response.json()["error"]["type"]) == (status, kind)
    assert "secret" not in response.text


async def test_statuses_have_the_types_of_the_api(services: FakeServices) -> None:
    """A wrong key, an unknown model, too many runs and a large body have the API's error types.

    The key is read from `x-api-key`.
    """
    async with app_client(services, LLM_PLATFORM_API_KEYS="right-key", MAX_CONCURRENT_RESEARCHES=1) as client:
        client.headers["x-api-key"] = "right-key"
        refused = await client.post(MESSAGES, json=BODY, headers={"x-api-key": "wrong-key"})
        unknown = await client.post(MESSAGES, json={**BODY, "model": "claude"})
        large = await client.post(MESSAGES, json={**BODY, "system": "x" * 2**23})
        right = await client.post(MESSAGES, json=BODY)
    kinds = [(answer.status_code, answer.json()["error"]["type"]) for answer in (refused, unknown, large)]
    assert kinds == [(401, "authentication_error"), (404, "not_found_error"), (413, "request_too_large")]
    assert "GET /anthropic/v1/models" in unknown.json()["error"]["message"]
    assert right.status_code == 200


@for_each("model", ["research-shallow", "fake/fake-1"])
async def test_an_error_in_a_stream_is_its_last_event(
    client: httpx2.AsyncClient, services: FakeServices, model: str
) -> None:
    services.error_after_first_event = WebSearchConnectionError("SearXNG is away: start it")
    response = await client.post(MESSAGES, json={**BODY, "model": model, "stream": True})
    last = sent_events(response.content)[-1]
    assert (last["type"], last["error"]) == ("error", {"type": "api_error", "message": "SearXNG is away: start it"})


@for_each("stream", [False, True])
async def test_configured_model_gets_the_conversation(
    client: httpx2.AsyncClient, services: FakeServices, stream: bool
) -> None:
    """Its text is one block."""
    turns = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}, *QUESTION]
    body = {**BODY, "model": "fake/fake-1", "messages": turns, "system": "Be brief.", "stream": stream}
    response = await client.post(MESSAGES, json=body)
    content = put_together(sent_events(response.content)) if stream else response.json()["content"]
    assert content == [{"type": "text", "text": services.answer}]
    prompt = services.requests[-1]
    assert [(message.role, message.content) for message in prompt.messages] == [
        ("system", "Be brief."),
        ("user", "Hello"),
        ("assistant", "Hi"),
        ("user", "What is asyncio?"),
    ]
    assert prompt.max_tokens == 500


async def test_models_are_listed_and_tokens_counted(client: httpx2.AsyncClient) -> None:
    models = (await client.get("/anthropic/v1/models")).json()
    assert [model["id"] for model in models["data"]] == [
        "research-shallow",
        "research-deep",
        "research-report",
        "fake/fake-1",
    ]
    assert (models["has_more"], models["first_id"], models["last_id"]) == (False, "research-shallow", "fake/fake-1")
    assert (await client.get("/anthropic/v1/models/fake/fake-1")).json() == models["data"][-1]
    assert (await client.get("/anthropic/v1/models/claude")).status_code == 404
    body = {"model": "research-deep", "messages": QUESTION}
    few = (await client.post(f"{MESSAGES}/count_tokens", json=body)).json()["input_tokens"]
    more = (await client.post(f"{MESSAGES}/count_tokens", json={**body, "system": "Be brief."})).json()["input_tokens"]
    assert more > few > 0
    unknown = await client.post(f"{MESSAGES}/count_tokens", json={**body, "model": "claude"})
    assert unknown.status_code == 404


SCHEMA = {"type": "object", "properties": {"says": {"type": "string"}}, "required": ["says"]}
FORMAT = {"type": "json_schema", "schema": SCHEMA}


@for_each("wish", [{"output_config": {"format": FORMAT}}, {"output_format": FORMAT}])
@for_each("streamed", [False, True])
async def test_text_is_the_json_of_a_schema(wish: dict[str, Any], streamed: bool) -> None:
    """The JSON text is one block without citations, because their positions refer to the original text."""
    services = FakeServices()
    async with app_client(services) as client:
        response = await client.post(MESSAGES, json={**BODY, **wish, "stream": streamed})
    assert services.requests[0].output_schema == SCHEMA
    assert "x-ignored-fields" in response.headers
    assert not {"output_config", "output_format"} & set(response.headers["x-ignored-fields"].split(", "))
    events_of_answer = sent_events(response.content) if streamed else []
    message = events_of_answer[-2] if streamed else response.json()
    [text] = [
        block
        for block in (put_together(events_of_answer) if streamed else message["content"])
        if block["type"] == "text"
    ]
    assert json.loads(text["text"]) == services.output
    assert "citations" not in text
    assert (message["llm_platform"]["synthesis"], len(message["llm_platform"]["citations"])) == (services.answer, 1)


async def test_schema_that_was_not_filled_is_an_error(client: httpx2.AsyncClient, services: FakeServices) -> None:
    services.output = None
    body = {**BODY, "output_config": {"format": FORMAT}}
    whole = await client.post(MESSAGES, json=body)
    assert (whole.status_code, whole.json()["error"]["type"]) == (502, "api_error")
    last = sent_events((await client.post(MESSAGES, json={**body, "stream": True})).content)[-1]
    assert (last["type"], last["error"]) == ("error", whole.json()["error"])


@for_each(
    ("body", "message"),
    [
        ({"output_config": {"format": {"type": "json_schema"}}}, "output_config.format: needs a JSON Schema"),
        ({"output_format": {"type": "grammar"}}, "output_format: must have the type"),
        ({"tool_choice": {"type": "tool", "name": "f"}}, "tool_choice: names no function of tools"),
    ],
)
async def test_format_or_choice_that_cannot_be_served_is_refused(body: dict[str, Any], message: str) -> None:
    async with app_client() as client:
        response = await client.post(MESSAGES, json={**BODY, **body})
    assert response.status_code == 400
    assert response.json()["error"]["message"].startswith(message)


async def test_choice_of_the_web_search_is_named_as_ignored(client: httpx2.AsyncClient) -> None:
    """A research run searches in any case."""
    sent = {
        **BODY,
        "tools": [TOOL],
        "tool_choice": {"type": "tool", "name": "web_search"},
        "output_config": {"effort": "low"},
    }
    response = await client.post(MESSAGES, json=sent)
    assert response.headers["x-ignored-fields"] == "max_tokens, tool_choice, output_config"
