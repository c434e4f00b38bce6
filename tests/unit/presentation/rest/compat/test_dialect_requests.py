"""What the clients of another system may send: the request that each form becomes, the fields that are ignored, the limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import httpx2
from tests.support.cases import for_each
from tests.support.limits import most
from tests.unit.presentation.rest.fake_platform import FakeServices, app_client

from modules.llm_platform.domain.dtos.llm_dtos import (
    MAX_ANSWER_TOKENS,
    MAX_CHOICES,
    MAX_MESSAGES,
    MAX_TOOLS,
    LLMRequest,
)
from modules.llm_platform.domain.dtos.request_dtos import (
    MAX_INSTRUCTION_CHARS,
    MAX_STORED_TURNS,
    MAX_URL_CHARS,
    MAX_URLS,
    ResearchRequest,
    ShortMessage,
)
from modules.llm_platform.domain.dtos.site_crawl_dtos import MAX_CRAWL_INSTRUCTION_CHARS, MAX_CRAWL_PAGES
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest
from modules.llm_platform.domain.research.long_message import MAX_MESSAGE_CHARS
from modules.llm_platform.domain.urls.site_names import MAX_SITES
from modules.llm_platform.presentation.rest.compat.tavily.crawl import TavilyCrawlRequest, TavilyMapRequest

DOMAINS = most(ResearchRequest, "domains")
FEW, MANY = MAX_INSTRUCTION_CHARS * 2 // 5, MAX_INSTRUCTION_CHARS * 3 // 4  # less and more than a half
REST = MAX_INSTRUCTION_CHARS - FEW - 1
QUESTION = "What is asyncio?"
ASKED = [{"role": "user", "content": QUESTION}]
LLM = "fake/fake-1"
CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/anthropic/v1/messages"
SONAR, AGENT, ASYNC = "/perplexity/chat/completions", "/perplexity/v1/responses", "/perplexity/async/chat/completions"
FUNCTION = {"type": "function", "function": {"name": "f"}}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
WEB_SEARCH = {"type": "web_search_20250305", "name": "web_search"}
OBJECT = {"type": "object"}
# A conversation with what clients send: an answer before any question, two answers, a question that is no question, parts.
CONVERSATION = [
    {"role": "system", "content": "Be brief."},
    {"role": "assistant", "content": "Lost."},
    {"role": "user", "content": "Who wrote it?"},
    {"role": "assistant", "content": "Guido."},
    {"role": "assistant", "content": "Van Rossum."},
    {"role": "user", "content": "ok"},
    {"role": "user", "content": [{"type": "text", "text": "What is"}, {"type": "text", "text": "asyncio?"}]},
]
UNDERSTOOD = {
    "query": "What is\nasyncio?",
    "instructions": "Be brief.",
    "history": [{"question": "Who wrote it?", "answer": "Guido."}],
}


async def sent(path: str, body: Mapping[str, Any]) -> tuple[httpx2.Response, list[Any]]:
    """Return the response, and the requests that reached a service."""
    services = FakeServices()
    async with app_client(services) as client:
        return await client.post(path, json=body), services.requests


@for_each(
    ("path", "body", "understood", "ignored"),
    [
        (CHAT, {"model": "research-deep", "messages": CONVERSATION, "temperature": 1, "seed": 1, "web_search_options": {},
                "max_tokens": 5, "colour": 1},
         {**UNDERSTOOD, "depth": "deep", "omit_raw": True}, "max_tokens, web_search_options, temperature, seed, colour"),
        (CHAT, {"model": "research-shallow", "messages": ASKED, "n": 1, "stop": "x", "max_completion_tokens": 9, "top_p": 1,
                "frequency_penalty": 0, "presence_penalty": 0, "reasoning_effort": "low", "parallel_tool_calls": True},
         {"query": QUESTION, "omit_raw": True},
         "max_completion_tokens, frequency_penalty, parallel_tool_calls, presence_penalty, reasoning_effort, stop, top_p"),
        (CHAT, {"model": "o3-deep-research", "messages": ASKED,
                "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": OBJECT}}},
         {"query": QUESTION, "depth": "report", "omit_raw": True, "output_schema": OBJECT}, None),
        (CHAT, {"model": "research-shallow", "messages": ASKED, "response_format": {"type": "json_object"}},
         {"query": QUESTION, "omit_raw": True, "output_schema": OBJECT}, None),
        (CHAT, {"model": "research-shallow", "messages": ASKED, "response_format": {"type": "text"}},
         {"query": QUESTION, "omit_raw": True}, None),
        (CHAT, {"model": "research-deep", "messages": [*ASKED, {"role": "assistant", "content": "", "tool_calls": [CALL]},
                                                       {"role": "tool", "content": "5", "tool_call_id": "c"}]},
         {"query": QUESTION, "depth": "deep", "omit_raw": True}, None),
        (RESPONSES, {"model": "research-deep", "input": CONVERSATION, "instructions": "In German.", "max_tool_calls": 6,
                     "previous_response_id": "r-1", "store": False, "include": ["web_search_call.action.sources", "x"],
                     "tools": [{"type": "web_search", "filters": {"allowed_domains": ["python.org"]}, "user_location": {}}]},
         {**UNDERSTOOD, "instructions": "In German.\nBe brief.", "depth": "deep", "omit_raw": True, "domains": ["python.org"],
          "previous_id": "r-1"}, "tools, include"),
        (RESPONSES, {"model": "research-deep", "input": QUESTION, "max_tool_calls": 5, "temperature": 0.5, "store": False,
                     "include": ["web_search_call.action.sources"], "tools": [{"type": "web_search_preview"}]},
         {"query": QUESTION, "omit_raw": True}, "temperature"),
        (RESPONSES, {"model": "research-report", "input": QUESTION, "max_tool_calls": 5, "store": False,
                     "tools": [{"type": "code_interpreter"}], "max_output_tokens": 9, "top_p": 1, "tool_choice": "auto",
                     "parallel_tool_calls": True, "reasoning": {},
                     "text": {"format": {"type": "json_schema", "schema": OBJECT}}},
         {"query": QUESTION, "depth": "report", "omit_raw": True, "output_schema": OBJECT},
         "max_output_tokens, top_p, tool_choice, parallel_tool_calls, reasoning, tools, max_tool_calls"),
        (RESPONSES, {"model": "research-shallow", "store": False, "input": [
            *ASKED, {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "5"}, {"type": "reasoning", "id": "x"}]},
         {"query": QUESTION, "omit_raw": True}, None),
        (MESSAGES, {"model": "research-deep", "max_tokens": 9, "system": "Be brief.", "messages": CONVERSATION[2:],
                    "tools": [{**WEB_SEARCH, "allowed_domains": ["Python.org", "a.example"], "max_uses": 3,
                               "user_location": {"type": "approximate"}}],
                    "tool_choice": {"type": "auto"}, "output_config": {"effort": "low"}},
         {**UNDERSTOOD, "depth": "deep", "omit_raw": True, "domains": ["python.org", "a.example"]},
         "max_tokens, tools.max_uses, tools.user_location, tool_choice, output_config"),
        (MESSAGES, {"model": "research-deep", "max_tokens": 9, "messages": ASKED, "output_format": {"type": "json_schema",
                    "schema": OBJECT}, "tools": [{**WEB_SEARCH, "blocked_domains": ["a.example"], "max_uses": 2},
                                                 {**WEB_SEARCH, "max_uses": 9}, {"type": "web_fetch_20250910"}]},
         {"query": QUESTION, "omit_raw": True, "domains": ["-a.example"], "output_schema": OBJECT},
         "max_tokens, tools.web_fetch"),
        (MESSAGES, {"model": "research-report", "max_tokens": 9, "messages": ASKED, "tools": [{**WEB_SEARCH, "max_uses": 1}],
                    "tool_choice": {"type": "tool", "name": "web_search"},
                    "output_config": {"format": {"type": "json_schema", "schema": OBJECT}}},
         {"query": QUESTION, "depth": "report", "omit_raw": True, "output_schema": OBJECT},
         "max_tokens, tools.max_uses, tool_choice"),
        (SONAR, {"model": "sonar-pro", "messages": CONVERSATION, "search_mode": "academic", "search_recency_filter": "hour",
                 "search_domain_filter": ["python.org", "-a.example"], "search_language_filter": ["de"], "stop": 1},
         {**UNDERSTOOD, "depth": "deep", "sources": ["academic"], "language": "de", "time_range": "day",
          "domains": ["python.org", "-a.example"]}, "search_recency_filter, stop"),
        (SONAR, {"model": "sonar", "messages": ASKED, "search_after_date_filter": "3/1/2026", "search_recency_filter": "week",
                 "last_updated_after_filter": "3/5/2026", "search_before_date_filter": "3/31/2026",
                 "search_language_filter": ["de", "en"], "search_mode": "web", "disable_search": False, "tools": []},
         {"query": QUESTION, "time_range": "week", "freshness": "2026-03-05..2026-03-31"},
         "search_language_filter, last_updated_after_filter, tools, disable_search"),
        (SONAR, {"model": "sonar-deep-research", "messages": ASKED, "stream": True, "return_related_questions": True,
                 "response_format": {"type": "json_schema", "json_schema": {"schema": OBJECT}}},
         {"query": QUESTION, "depth": "report", "output_schema": OBJECT}, "return_related_questions"),
        (AGENT, {"input": CONVERSATION, "effort": "xhigh", "max_steps": 9, "language_preference": "de", "store": False,
                 "previous_response_id": "r-1", "max_output_tokens": 9, "tools": [
                     {"type": "web_search", "user_location": {}, "filters": {
                         "search_domain_filter": ["python.org"], "search_recency_filter": "week",
                         "search_language_filter": ["fr"], "search_after_date_filter": "3/1/2026",
                         "search_before_date_filter": "3/31/2026"}}]},
         {**UNDERSTOOD, "depth": "deep", "language": "de", "omit_raw": True, "time_range": "week", "domains": ["python.org"],
          "freshness": "2026-03-01..2026-03-31", "previous_id": "r-1"}, "tools, max_output_tokens"),
        (AGENT, {"input": QUESTION, "effort": "xhigh", "max_steps": 10, "store": False, "instructions": "Be brief.",
                 "tools": [{"type": "web_search", "filters": {"search_language_filter": ["fr"]}}], "models": ["sonar"]},
         {"query": QUESTION, "depth": "report", "omit_raw": True, "instructions": "Be brief.", "language": "fr"}, "max_steps"),
        (AGENT, {"input": "Read https://a.example/x, and https://a.example/x or https://b.example/).", "model": "openai/gpt-9",
                 "preset": "perplexity/sonar-pro@2", "store": False, "tools": [{"type": "fetch_url", "max_urls": 5}]},
         {"query": "Read https://a.example/x, and https://a.example/x or https://b.example/).", "depth": "report",
          "omit_raw": True, "urls": ["https://a.example/x", "https://b.example/"]}, "model"),
        (AGENT, {"input": "Read https://a.example/x and https://b.example/", "effort": "low", "store": False, "max_steps": 1,
                 "tools": [{"type": "fetch_url", "max_urls": 1}, {"type": "web_search"}]},
         {"query": "Read https://a.example/x and https://b.example/", "depth": "report", "omit_raw": True,
          "urls": ["https://a.example/x"], "sources": ["web"]}, "max_steps"),
        (AGENT, {"input": QUESTION, "effort": "medium", "max_steps": 1, "store": False},
         {"query": QUESTION, "omit_raw": True}, None),
        (AGENT, {"input": QUESTION, "effort": "medium", "max_steps": 2, "store": False},
         {"query": QUESTION, "depth": "deep", "omit_raw": True}, None),
        (AGENT, {"input": QUESTION, "models": ["x", "sonar"], "max_steps": 9, "store": False,
                 "tools": [{"type": "web_search", "filters": {"search_recency_filter": "hour"}}]},
         {"query": QUESTION, "omit_raw": True, "time_range": "day"}, "models, tools"),
        ("/tavily/search", {"query": QUESTION, "topic": "finance", "include_answer": "advanced", "time_range": "year",
                            "exclude_domains": ["a.example"], "start_date": "2026-03-01", "end_date": "2026-03-31"},
         {"query": QUESTION, "depth": "deep", "time_range": "year", "freshness": "2026-03-01..2026-03-31",
          "domains": ["-a.example"]}, "topic"),
        ("/tavily/search", {"query": QUESTION, "topic": "news", "include_answer": True, "include_domains": ["b.example"]},
         {"query": QUESTION, "sources": ["news"], "domains": ["b.example"]}, None),
        ("/tavily/search", {"query": QUESTION, "include_answer": "basic"}, {"query": QUESTION}, None),
        ("/tavily/research", {"input": QUESTION, "model": "pro", "stream": True, "include_domains": ["python.org"],
                              "exclude_domains": ["a.example"], "output_schema": OBJECT, "colour": 1},
         {"query": QUESTION, "depth": "report", "domains": ["python.org", "-a.example"], "output_schema": OBJECT},
         "include_domains, colour"),
        ("/tavily/research", {"input": QUESTION, "model": "mini", "stream": True}, {"query": QUESTION, "depth": "deep"}, None),
        ("/tavily/research", {"input": QUESTION, "stream": True}, {"query": QUESTION, "depth": "deep"}, None),
    ],
)  # fmt: skip
async def test_forms_of_a_question(
    path: str, body: dict[str, Any], understood: dict[str, Any], ignored: str | None
) -> None:
    """Each field sets its part of the research request. Fields without effect are named in the header."""
    response, requests = await sent(path, body)
    assert response.status_code == 200, response.text
    [request] = requests
    assert type(request) is ResearchRequest
    assert request.model_dump() == ResearchRequest.model_validate(understood).model_dump()
    assert response.headers.get("x-ignored-fields") == ignored


@for_each(
    ("path", "body", "understood", "ignored"),
    [
        ("/tavily/search", {"query": "asyncio", "topic": "news", "time_range": "w", "max_results": 0, "chunks_per_source": None,
                            "include_domains": ["python.org"], "exclude_domains": ["a.example"],
                            "start_date": "2026-03-01", "end_date": "2026-03-31"},
         [{"query": "asyncio", "count": 1, "sources": ["news"], "time_range": "week", "freshness": "2026-03-01..2026-03-31",
           "domains": ["python.org", "-a.example"]}], None),
        ("/tavily/search", {"query": "asyncio", "topic": "finance", "time_range": "d"},
         [{"query": "asyncio", "count": 5, "time_range": "day"}], "topic"),
        ("/tavily/search", {"query": "asyncio", "max_results": 20, "time_range": "month", "search_depth": "basic"},
         [{"query": "asyncio", "count": 20, "time_range": "month"}], "search_depth"),
        ("/perplexity/search", {"query": ["asyncio", "tasks"], "max_results": 3, "search_domain_filter": ["python.org"],
                                "search_recency_filter": "month", "search_language_filter": ["de"], "colour": 1,
                                "search_after_date_filter": "3/1/2026", "search_before_date_filter": "3/31/2026"},
         [{"query": query, "count": 3, "freshness": "2026-03-01..2026-03-31", "language": "de", "time_range": "month",
           "domains": ["python.org"]} for query in ("asyncio", "tasks")], "colour"),
        ("/perplexity/search", {"query": "asyncio", "search_recency_filter": "hour"},
         [{"query": "asyncio", "count": 10, "time_range": "day"}], "search_recency_filter"),
        ("/open-webui/search", {"query": "asyncio", "colour": 1}, [{"query": "asyncio", "count": 5}], "colour"),
        ("/open-webui/search", {"query": "asyncio", "count": 2}, [{"query": "asyncio", "count": 2}], None),
    ],
)  # fmt: skip
async def test_forms_of_a_search(
    path: str, body: dict[str, Any], understood: list[dict[str, Any]], ignored: str | None
) -> None:
    """Each query is a search with all filters."""
    response, requests = await sent(path, body)
    assert response.status_code == 200, response.text
    assert [request.model_dump() for request in requests] == [
        WebSearchRequest(**fields).model_dump() for fields in understood
    ]
    assert response.headers.get("x-ignored-fields") == ignored


@for_each(
    ("path", "body", "understood", "ignored"),
    [
        (CHAT, {"model": LLM, "messages": [
            {"role": "system", "content": "Be brief."}, {"role": "developer", "content": "Dev."},
            {"role": "user", "content": "Hi"}, {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "content": "5", "tool_call_id": "c"}],
            "temperature": 1, "top_p": 0.5, "seed": 1, "stop": ["x"], "max_tokens": 5, "max_completion_tokens": 7,
            "tools": [FUNCTION], "tool_choice": "auto", "colour": 1},
         {"messages": [
             {"role": "system", "content": "Be brief."}, {"role": "system", "content": "Dev."},
             {"role": "user", "content": "Hi"},
             {"role": "assistant", "content": "", "tool_calls": [CALL]}, {"role": "tool", "content": "5", "tool_call_id": "c"}],
          "max_tokens": 7, "temperature": 1.0,
          "extra": {"top_p": 0.5, "seed": 1, "stop": ["x"], "tools": [FUNCTION], "tool_choice": "auto"}}, "colour"),
        (CHAT, {"model": LLM, "messages": ASKED, "max_tokens": 5}, {"messages": ASKED, "max_tokens": 5}, None),
        (RESPONSES, {"model": LLM, "instructions": "Be brief.", "input": [
            {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "A"},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
            {"type": "function_call", "call_id": "c2", "name": "f", "arguments": "{}"},
            {"role": "assistant", "content": "B"}, {"type": "function_call_output", "call_id": "c1", "output": "5"},
            {"role": "developer", "content": "Dev."}, {"role": "assistant", "content": "C"},
            {"role": "assistant", "content": "D"}],
            "temperature": 0.5, "top_p": 0.5, "parallel_tool_calls": False, "reasoning": {"effort": "low"},
            "max_output_tokens": 9, "max_tool_calls": 3, "include": ["x"], "store": True,
            "tool_choice": {"type": "function", "name": "f"}, "tools": [{"type": "function", "name": "f", "parameters": {}}],
            "text": {"format": {"type": "json_schema", "name": "a", "schema": {}}}},
         {"messages": [
             {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},
             {"role": "assistant", "content": "A\n\nB", "tool_calls": [{**CALL, "id": "c1"}, {**CALL, "id": "c2"}]},
             {"role": "tool", "content": "5", "tool_call_id": "c1"}, {"role": "system", "content": "Dev."},
             {"role": "assistant", "content": "C"}, {"role": "assistant", "content": "D"}],
          "max_tokens": 9, "temperature": 0.5,
          "extra": {"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
                    "tool_choice": {"type": "function", "function": {"name": "f"}}, "parallel_tool_calls": False,
                    "top_p": 0.5, "reasoning_effort": "low",
                    "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {}}}}},
         "max_tool_calls, include, store"),
        (RESPONSES, {"model": LLM, "input": "Hi", "tool_choice": "auto", "text": {"format": {"type": "json_object"}},
                     "store": False, "include": []},
         {"messages": [{"role": "user", "content": "Hi"}],
          "extra": {"tool_choice": "auto", "response_format": {"type": "json_object"}}}, None),
        (RESPONSES, {"model": LLM, "input": "Hi", "tool_choice": {"type": "none"}, "text": {"format": {"type": "text"}}},
         {"messages": [{"role": "user", "content": "Hi"}], "extra": {"tool_choice": {"type": "none"}}}, None),
        (MESSAGES, {"model": LLM, "max_tokens": MAX_ANSWER_TOKENS + 1, "tool_choice": {"type": "auto"},
                    "output_config": {"effort": "low"},
                    "system": [{"type": "text", "text": "Be"}, {"type": "text", "text": "brief."}],
                    "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": [
                        {"type": "text", "text": "A"}, {"type": "tool_use"}, {"type": "text", "text": "B"}]},
                        {"role": "user", "content": [{"type": "text", "text": "C"}]}]},
         {"messages": [{"role": "system", "content": "Be\nbrief."}, {"role": "user", "content": "Hi"},
                       {"role": "assistant", "content": "AB"}, {"role": "user", "content": "C"}],
          "max_tokens": MAX_ANSWER_TOKENS}, "tool_choice, output_config"),
        (MESSAGES, {"model": LLM, "max_tokens": 9, "messages": ASKED}, {"messages": ASKED, "max_tokens": 9}, None),
    ],
)  # fmt: skip
async def test_forms_of_a_prompt(
    path: str, body: dict[str, Any], understood: dict[str, Any], ignored: str | None
) -> None:
    """A language model gets the turns in order, with the client's limits and the fields that its service supports."""
    response, requests = await sent(path, body)
    assert response.status_code == 200, response.text
    [request] = requests
    wanted = LLMRequest(provider="fake", model="fake-1", as_it_comes=True, **understood)
    assert request.model_dump(mode="json") == wanted.model_dump(mode="json")
    assert response.headers.get("x-ignored-fields") == ignored


@for_each(
    ("path", "body"),
    [
        (CHAT, {"model": "research-deep", "messages": [{"role": "user", "content": "hi"}]}),
        (SONAR, {"model": "sonar-pro", "messages": [{"role": "user", "content": "hi"}]}),
        (MESSAGES, {"model": "research-deep", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}),
        (RESPONSES, {"model": "research-deep", "input": "hi", "store": False}),
        (AGENT, {"effort": "high", "input": "hi", "store": False}),
        ("/tavily/search", {"query": "hi", "include_answer": "advanced"}),
        ("/tavily/research", {"input": "hi", "stream": True}),
    ],
)
async def test_a_message_that_is_no_question_is_answered_in_words(path: str, body: dict[str, Any]) -> None:
    """Two characters are too short for a research run; three are enough."""
    response, requests = await sent(path, body)
    assert response.status_code == 200, response.text
    assert (type(requests[0]), requests[0].query) == (ShortMessage, "hi")
    longer = {name: "Hi!" if value == "hi" else value for name, value in body.items()}
    if "messages" in body:
        longer["messages"] = [{"role": "user", "content": "Hi!"}]
    _, requests = await sent(path, longer)
    assert type(requests[0]) is ResearchRequest


CHATS: Sequence[tuple[str, Mapping[str, Any], str]] = (
    (CHAT, {"model": "research-deep"}, "messages"),
    (SONAR, {"model": "sonar"}, "messages"),
    (MESSAGES, {"model": "research-deep", "max_tokens": 9}, "messages"),
    (RESPONSES, {"model": "research-deep", "store": False}, "input"),
    (AGENT, {"effort": "low", "store": False}, "input"),
)


@for_each(("path", "body", "field"), CHATS)
async def test_a_conversation_is_bounded(path: str, body: Mapping[str, Any], field: str) -> None:
    """The last turns become history, long instructions are split between words and continued as context, and larger
    requests are refused.
    """
    turns = [turn for at in range(MAX_STORED_TURNS + 1) for turn in (
        {"role": "user", "content": f"Question {at}?"}, {"role": "assistant", "content": f"Answer {at}."})]  # fmt: skip
    _, [request] = await sent(path, {**body, field: [*turns, *ASKED]})
    assert [(turn.question, turn.answer) for turn in request.history] == [
        (f"Question {at}?", f"Answer {at}.") for at in range(1, MAX_STORED_TURNS + 1)
    ]
    for count, status in ((MAX_MESSAGES, 200), (MAX_MESSAGES + 1, 400)):
        response, _ = await sent(path, {**body, field: [*ASKED] * count})
        assert response.status_code in (status, 422 if status == 400 else 200), (path, count, response.text)
    for size, is_served in ((MAX_MESSAGE_CHARS, True), (MAX_MESSAGE_CHARS + 1, False)):
        response, requests = await sent(path, {**body, field: [{"role": "user", "content": "w" * size}]})
        assert bool(requests) is is_served, (path, size)


@for_each(
    ("wishes", "instructions", "context"),
    [
        ("w" * MAX_INSTRUCTION_CHARS, "w" * MAX_INSTRUCTION_CHARS, None),
        ("w" * (MAX_INSTRUCTION_CHARS + 1), "w" * MAX_INSTRUCTION_CHARS, "w"),
        ("a" * MANY + "\n" + "b " * MANY, "a" * MANY, "b " * (MANY - 1) + "b"),
        ("a" * MANY + " " + "b" * MANY, "a" * MANY, "b" * MANY),
        ("a" * FEW + " " + "b" * MANY * 2, "a" * FEW + " " + "b" * REST, "b" * (MANY * 2 - REST)),
    ],
)
async def test_long_instructions_are_continued_as_context(wishes: str, instructions: str, context: str | None) -> None:
    """They are cut at the last line or space of their second half, else at the limit; nothing is lost."""
    _, [request] = await sent(
        CHAT, {"model": "research-deep", "messages": [{"role": "system", "content": wishes}, *ASKED]}
    )
    assert (request.instructions, request.context) == (instructions, context)


@for_each(
    ("path", "body", "field", "accepted", "refused"),
    [
        (CHAT, {"model": LLM, "messages": ASKED}, "temperature", [0, 2, 0.5], [-0.1, 2.1, "1", True]),
        (CHAT, {"model": LLM, "messages": ASKED}, "top_p", [0, 1], [-0.1, 1.1, "1"]),
        (CHAT, {"model": LLM, "messages": ASKED}, "frequency_penalty", [-2, 2], [-2.1, 2.1]),
        (CHAT, {"model": LLM, "messages": ASKED}, "presence_penalty", [-2, 2], [-2.1, 2.1]),
        (CHAT, {"model": LLM, "messages": ASKED}, "max_tokens", [1, MAX_ANSWER_TOKENS], [0, MAX_ANSWER_TOKENS + 1, "5"]),
        (CHAT, {"model": LLM, "messages": ASKED}, "max_completion_tokens", [1, MAX_ANSWER_TOKENS], [0, MAX_ANSWER_TOKENS + 1]),
        (CHAT, {"model": LLM, "messages": ASKED}, "seed", [0, -5], ["1", 1.5]),
        (CHAT, {"model": LLM, "messages": ASKED}, "n", [1, MAX_CHOICES, None], [0, MAX_CHOICES + 1, "2"]),
        (CHAT, {"model": LLM, "messages": ASKED}, "stop", ["x", ["x"] * 16], [["x"] * 17, 5]),
        (CHAT, {"model": LLM, "messages": ASKED}, "stream", [False, None], ["false", 0]),
        (CHAT, {"model": LLM, "messages": ASKED}, "parallel_tool_calls", [True], ["true", 1]),
        (CHAT, {"model": LLM, "messages": ASKED}, "tools", [[FUNCTION] * MAX_TOOLS], [[FUNCTION] * (MAX_TOOLS + 1), "f"]),
        (CHAT, {"model": LLM, "messages": ASKED}, "model", [LLM], ["", "m" * 321, None]),
        (CHAT, {"model": LLM}, "messages", [ASKED], [[], None, [{"role": "user"}], [{"role": "cat", "content": "x"}]]),
        (CHAT, {"model": LLM, "messages": ASKED}, "stream_options", [{"include_usage": True}], [{"include_usage": "true"}]),
        (RESPONSES, {"model": LLM, "input": "Hi"}, "temperature", [0, 2], [-0.1, 2.1, "1"]),
        (RESPONSES, {"model": LLM, "input": "Hi"}, "top_p", [0, 1], [-0.1, 1.1, "1"]),
        (RESPONSES, {"model": LLM, "input": "Hi"}, "max_output_tokens", [1, MAX_ANSWER_TOKENS],
         [0, MAX_ANSWER_TOKENS + 1, "5"]),
        (RESPONSES, {"model": LLM, "input": "Hi"}, "max_tool_calls", [1, 10**6], [0, 10**6 + 1, "5"]),
        (RESPONSES, {"model": LLM, "input": "Hi"}, "include", [["x"] * 20], [["x"] * 21]),
        (RESPONSES, {"model": LLM, "input": "Hi"}, "metadata",
         [{f"{at}": "x" for at in range(16)}, {"k" * 64: "v" * 512}],
         [{f"{at}": "x" for at in range(17)}, {"k" * 65: "v"}, {"k": "v" * 513}, {"k": 5}]),
        (RESPONSES, {"model": LLM, "input": "Hi"}, "stream", [False, None], ["false", 0]),
        (RESPONSES, {"model": LLM, "input": "Hi"}, "store", [False, None], ["false", 0]),
        (RESPONSES, {"model": LLM, "input": "Hi"}, "parallel_tool_calls", [False], ["false", 0]),
        (MESSAGES, {"model": LLM, "messages": ASKED}, "max_tokens", [1, 10**9], [0, None, "5"]),
        (MESSAGES, {"model": LLM, "messages": ASKED, "max_tokens": 9}, "stream", [False, None], ["false", 0]),
        (MESSAGES, {"model": LLM, "max_tokens": 9}, "messages",
         [[{"role": "user", "content": [{"type": "text", "text": "x"}] * 1000}]],
         [[], None, [{"role": "user", "content": [{"type": "text", "text": "x"}] * 1001}], [{"role": "user", "content": [
             {"type": "t" * 101}]}], [{"role": "user", "content": [{"type": "image", "source": {}}]}]]),
        (MESSAGES, {"model": "research-deep", "messages": ASKED, "max_tokens": 9}, "tools",
         [[WEB_SEARCH] * MAX_TOOLS, [{**WEB_SEARCH, "allowed_domains": ["a.example"] * DOMAINS}],
          [{**WEB_SEARCH, "max_uses": 1}], [{"type": "web_fetch_20250910"}]],
         [[WEB_SEARCH] * (MAX_TOOLS + 1), [{**WEB_SEARCH, "allowed_domains": ["a.example"] * (MAX_SITES + 1)}],
          [{**WEB_SEARCH, "max_uses": 0}], [{**WEB_SEARCH, "max_uses": "1"}],
          [{**WEB_SEARCH, "allowed_domains": ["a.example x"]}],
          [{**WEB_SEARCH, "allowed_domains": ["a.example"], "blocked_domains": ["b.example"]}],
          [{"type": "web_search_2025"}], [{"type": "code_execution_20260120"}], "f"]),
        (MESSAGES, {"model": "research-deep", "messages": ASKED, "max_tokens": 9}, "tool_choice",
         [{"type": "auto"}, {"type": "tool", "name": "web_fetch"}],
         [{"type": "any"}, {"type": "tool", "name": "bash"}, {"type": "t" * 101}]),
        (SONAR, {"model": "sonar", "messages": ASKED}, "search_domain_filter",
         [["a.example"] * DOMAINS], [["a.example"] * (MAX_SITES + 1), ["x y"]]),
        (SONAR, {"model": "sonar", "messages": ASKED}, "search_language_filter", [["de"] * 10], [["de"] * 11, ["klingon!"]]),
        (SONAR, {"model": "sonar", "messages": ASKED}, "search_recency_filter", ["year", None], ["decade"]),
        (SONAR, {"model": "sonar", "messages": ASKED}, "search_after_date_filter", ["3/31/2026"], ["2026-03-31", 5]),
        (SONAR, {"model": "sonar", "messages": ASKED, "search_after_date_filter": "3/2/2026"}, "search_before_date_filter",
         ["3/2/2026"], ["3/1/2026"]),
        (SONAR, {"model": "sonar", "messages": ASKED, "search_before_date_filter": "3/2/2026"}, "last_updated_after_filter",
         ["3/2/2026"], ["3/3/2026"]),
        (SONAR, {"model": "sonar", "messages": ASKED}, "stream", [False, None, "false"], ["no", 0]),
        (SONAR, {"model": "sonar", "messages": ASKED}, "return_related_questions", [False, None, "false"], ["no", 0]),
        (SONAR, {"messages": ASKED}, "model", ["sonar-reasoning"], ["sonar-x", None]),
        (SONAR, {"model": "sonar", "messages": ASKED}, "disable_search", [False, None], [True]),
        (SONAR, {"model": "sonar", "messages": ASKED}, "last_updated_before_filter", [None], ["3/1/2026"]),
        ("/perplexity/search", {"query": "x"}, "max_results", [1, 20, "5", ""], [0, 21, "21", "five"]),
        ("/perplexity/search", {}, "query", ["x", ["x"] * 5], ["", [], ["x"] * 6, [""]]),
        ("/perplexity/search", {"query": "x"}, "last_updated_before_filter", [None], ["3/1/2026"]),
        (AGENT, {"input": QUESTION, "effort": "low", "store": False}, "max_steps", [1, 100, "5"], [0, 101, "101"]),
        (AGENT, {"input": QUESTION, "effort": "low", "store": False}, "models", [["sonar"] * 5], [["sonar"] * 6, []]),
        (AGENT, {"input": QUESTION, "store": False}, "effort", ["low"], ["", "e" * 321, "unknown", None]),
        (AGENT, {"input": QUESTION, "effort": "low", "store": False}, "max_output_tokens", [1, MAX_ANSWER_TOKENS],
         [0, MAX_ANSWER_TOKENS + 1]),
        (AGENT, {"input": QUESTION, "effort": "low", "store": False}, "tools",
         [[{"type": "fetch_url", "max_urls": 1}], [{"type": "web_search"}] * MAX_TOOLS],
         [[{"type": "fetch_url", "max_urls": 0}], [{"type": "fetch_url", "max_urls": "no"}],
          [{"type": "web_search"}] * (MAX_TOOLS + 1), [{"type": "bash"}], [{}]]),
        (AGENT, {"input": QUESTION, "effort": "low", "store": False}, "profile", [None, ""], ["p"]),
        (AGENT, {"input": QUESTION, "effort": "low", "store": False}, "background", [False, None, "false"], [True, "no"]),
        ("/tavily/search", {"query": "x"}, "max_results", [0, 20, "5", " 5 ", "", "5.0"],
         [-1, 21, "21", "5.5", "0x5", "٥", True]),
        ("/tavily/search", {"query": "x"}, "include_domains", [["a.example"] * MAX_SITES],
         [["a.example"] * (MAX_SITES + 1)]),
        ("/tavily/search", {"query": "x"}, "time_range", ["day", "y", None], ["hour"]),
        ("/tavily/search", {"query": "x"}, "start_date", ["2026-03-31"], [5, "3/31/2026"]),
        ("/tavily/search", {"query": "x", "start_date": "2026-03-02"}, "end_date", ["2026-03-02"], ["2026-03-01"]),
        ("/tavily/search", {"query": "x"}, "include_answer", [False, True, "basic", "True"], ["yes", 1]),
        ("/tavily/search", {"query": "x"}, "include_raw_content", [False, True, "text", "false", ""], ["yes", 1]),
        ("/tavily/extract", {}, "urls", ["https://a.example", ["https://a.example"] * MAX_URLS],
         ["", [], ["https://a.example"] * (MAX_URLS + 1), "https://a.example/" + "a" * MAX_URL_CHARS]),
        ("/tavily/map", {"url": "https://example.org/"}, "max_depth", [1, 5, "1"], [0, 6, "6"]),
        ("/tavily/map", {"url": "https://example.org/"}, "max_breadth", [1, 500, "1"], [0, 501, "0"]),
        ("/tavily/map", {"url": "https://example.org/"}, "limit", [1, 10**6, "1"], [0, "1" * 19]),
        ("/tavily/map", {"url": "https://example.org/"}, "timeout", [1, 150], [0.9, 151]),
        ("/tavily/map", {"url": "https://example.org/"}, "instructions", ["w" * MAX_CRAWL_INSTRUCTION_CHARS],
         ["w" * (MAX_CRAWL_INSTRUCTION_CHARS + 1)]),
        ("/tavily/map", {"url": "https://example.org/"}, "allow_external", [False, None, "false"], ["no", 0]),
        ("/tavily/crawl", {"url": "https://example.org/"}, "chunks_per_source", [1, 5, None, "1"], [0, 6, "6"]),
        ("/tavily/crawl", {"url": "https://example.org/"}, "include_images", [True, "true"], ["yes", 1]),
        ("/tavily/crawl", {"url": "https://example.org/"}, "include_favicon", [True, "true"], ["yes", 1]),
        ("/tavily/research", {"input": QUESTION, "stream": True}, "files", [None, []], [["a"]]),
        ("/open-webui/search", {"query": "x"}, "count", [1, 50], [0, 51, "5"]),
        ("/open-webui/load", {}, "urls", [["https://a.example"] * MAX_URLS],
         [[], ["https://a.example"] * (MAX_URLS + 1), [""]]),
    ],
)  # fmt: skip
async def test_limits_hold_at_their_edge(
    path: str, body: dict[str, Any], field: str, accepted: Sequence[Any], refused: Sequence[Any]
) -> None:
    """The last value that is allowed is served; the next one is refused before any service is asked, and its field is named."""
    services = FakeServices()
    async with app_client(services) as client:
        for value in accepted:
            response = await client.post(path, json={**body, field: value})
            assert response.status_code == 200, (str(value)[:80], response.text[:300])
        served = len(services.requests)
        for value in refused:
            response = await client.post(path, json={**body, field: value})
            assert response.status_code in (400, 422), (str(value)[:80], response.status_code)
            assert field in response.text or (value is True and field == "background"), (
                str(value)[:80],
                response.text[:300],
            )
    assert len(services.requests) == served


@for_each(
    ("fields", "understood", "partly"),
    [
        ({}, {}, ("instructions",)),
        ({"limit": MAX_CRAWL_PAGES}, {"limit": MAX_CRAWL_PAGES}, ("instructions",)),
        ({"limit": MAX_CRAWL_PAGES + 1}, {"limit": MAX_CRAWL_PAGES}, ("instructions", "limit")),
        ({"timeout": 20}, {"timeout_s": 18.0}, ("instructions",)),
        ({"max_depth": 2, "max_breadth": 3, "instructions": "SDK", "allow_external": True, "select_paths": ["a"],
          "select_domains": ["b"], "exclude_paths": ["c"], "exclude_domains": ["d"]},
         {"max_depth": 2, "max_breadth": 3, "instructions": "SDK", "allow_external": True, "select_paths": ("a",),
          "select_domains": ("b",), "exclude_paths": ("c",), "exclude_domains": ("d",)}, ("instructions",)),
    ],
)  # fmt: skip
def test_forms_of_a_crawl(fields: dict[str, Any], understood: dict[str, Any], partly: tuple[str, ...]) -> None:
    """The client's limits apply, up to our maximal number of pages. The crawl ends before the client's timeout."""
    body = TavilyMapRequest.model_validate({"url": "https://example.org/", **fields})
    usual = {
        "url": "https://example.org/", "instructions": None, "max_depth": 1, "max_breadth": 20, "limit": 50, "timeout_s": 135.0,
        "select_paths": (), "select_domains": (), "exclude_paths": (), "exclude_domains": (), "allow_external": False,
    }  # fmt: skip
    request = body.request.model_dump()
    assert request == {**request, **usual, **understood}
    assert body.partly_served == partly


@for_each(
    ("fields", "partly"),
    [
        ({"extract_depth": "advanced", "format": "text", "instructions": "x", "chunks_per_source": 3, "limit": 10**6},
         ("instructions", "limit", "extract_depth", "format")),
        ({"chunks_per_source": 3}, ("instructions", "chunks_per_source")),
        ({"extract_depth": "basic", "format": "markdown"}, ("instructions", "chunks_per_source")),
    ],
)  # fmt: skip
def test_fields_that_a_crawl_does_not_serve(fields: dict[str, Any], partly: tuple[str, ...]) -> None:
    """Excerpts need instructions; there is one depth of extraction, and the format is Markdown."""
    assert TavilyCrawlRequest.model_validate({"url": "https://example.org/", **fields}).partly_served == partly
