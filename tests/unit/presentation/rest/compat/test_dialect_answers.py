"""What clients of the compatible APIs read: every field of an answer, the events of a stream, and errors in the
vendor's format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import httpx2
from tests.support.cases import for_each
from tests.unit.presentation.rest.fake_platform import CITATION, HIT, PAGE, REF, SEARCHED, FakeServices, app_client

from modules.llm_platform.application.research.events import FoundResult
from modules.llm_platform.domain.dtos.answer_dtos import ResearchMetadata, ResearchResponse
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.exceptions import (
    LLMBlockedError,
    PageBlockedError,
    PageConnectionError,
    PageError,
    PreviousResearchNotFoundError,
    WebSearchBlockedError,
    WebSearchTimeoutError,
)
from shared.exceptions import AppException

QUESTION = "What is asyncio?"
TEXT = "An event loop runs tasks. [1]"
ASKED = [{"role": "user", "content": QUESTION}]
LLM = "fake/fake-1"
CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/anthropic/v1/messages"
SONAR, AGENT = "/perplexity/chat/completions", "/perplexity/v1/responses"
# Numbers that are all different, so that no field has the value of another one by chance.
NUMBERS = {"latency_ms": 1500, "prompt_tokens": 11, "completion_tokens": 22, "tokens_used": 34, "searches": 3, "pages_read": 2,
           "cost_usd": 0.5, "llm_calls": 4}  # fmt: skip
DATED = HIT.model_copy(update={"published_date": "2026-01-02"})


class NumberedServices(FakeServices):
    """Answers with numbers in their metadata, a part that failed, and a search whose result has a day."""

    def __init__(self) -> None:
        super().__init__()
        self.found = self.found.model_copy(update={"results": (DATED,)})
        self.searches = (SEARCHED.model_copy(update={"results": (FoundResult.of(DATED),)}),)
        self.degraded = (Degraded(component="web", reason="captcha"),)

    def _research_response(self, request: ResearchRequest, request_id: str | None) -> ResearchResponse:
        response = super()._research_response(request, request_id)
        return response.model_copy(update={"metadata": ResearchMetadata(request_id="ID", **NUMBERS)})


async def sent(path: str, body: Mapping[str, Any], services: FakeServices | None = None) -> httpx2.Response:
    async with app_client(services or NumberedServices()) as client:
        return await client.post(path, json=body)


def readable(response: httpx2.Response) -> str:
    """Return the text with `ID` for the request id and 0 for times."""
    text = response.text.replace(response.headers["x-request-id"], "ID")
    text = re.sub(r'"(created|created_at|completed_at)":\d+', r'"\1":0', text)
    return re.sub(r'"response_time":[\d.]+', '"response_time":0', text)


def data_of(response: httpx2.Response) -> list[Any]:
    lines = [line[6:] for line in readable(response).splitlines() if line.startswith("data: ")]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


METADATA = ResearchMetadata(request_id="ID", **NUMBERS).model_dump(mode="json")
DEGRADED = [{"component": "web", "reason": "captcha", "until": None}]
EXTENSION = {"degraded": DEGRADED, "metadata": METADATA}
WITH_CITATIONS = {**EXTENSION, "citations": [CITATION.model_dump(mode="json")]}
VERDICT = CITATION.model_dump(mode="json", exclude={"start", "end"})
PLACE = {"start_index": 0, "end_index": 25, "title": REF.title, "url": REF.url, "llm_platform": VERDICT}
ANNOTATION = {"type": "url_citation", **PLACE}
CHAT_ANNOTATION = {"type": "url_citation", "url_citation": PLACE}
CHAT_USAGE = {"prompt_tokens": 11, "completion_tokens": 22, "total_tokens": 34}
LLM_USAGE = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}


def completion(model: str, message: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": TEXT, **message}}
    return {"id": "ID", "object": "chat.completion", "created": 0, "model": model, "choices": [choice], **fields}


def chunk(model: str, delta: Mapping[str, Any], finish_reason: str | None = None, **fields: Any) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": finish_reason, "delta": delta}
    return {"id": "ID", "object": "chat.completion.chunk", "created": 0, "model": model, "choices": [choice], **fields}


def usage_of_responses(prompt: int, completion: int) -> dict[str, Any]:
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": completion,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": prompt + completion,
    }


SONAR_USAGE = {**CHAT_USAGE, "num_search_queries": 3,
               "cost": {"input_tokens_cost": 0.0, "output_tokens_cost": 0.0, "total_cost": 0.5}}  # fmt: skip
SONAR_RESULT = {"title": REF.title, "url": REF.url, "source": "web"}
SONAR_FIELDS = {"citations": [REF.url],
                "search_results": [{**SONAR_RESULT, "snippet": HIT.snippet, "date": "2026-01-02"}],
                "usage": SONAR_USAGE, "llm_platform": WITH_CITATIONS}  # fmt: skip
OPENAI_ECHO = {
    "frequency_penalty": 0.0, "incomplete_details": None, "parallel_tool_calls": False, "presence_penalty": 0.0,
    "prompt_cache_key": None, "reasoning": None, "safety_identifier": None, "service_tier": "default", "temperature": 1.0,
    "tool_choice": "auto", "top_logprobs": 0, "top_p": 1.0, "truncation": "disabled", "instructions": None,
    "max_output_tokens": None, "max_tool_calls": None, "metadata": {}, "previous_response_id": None,
    "text": {"format": {"type": "text"}}, "tools": [], "error": None,
}  # fmt: skip
SEARCH_CALL = {"id": "ws_ID_0", "type": "web_search_call", "status": "completed",
               "action": {"type": "search", "query": SEARCHED.query, "queries": [SEARCHED.query]}}  # fmt: skip
OUTPUT_TEXT = {"type": "output_text", "text": TEXT, "annotations": [ANNOTATION]}
OPENAI_TEXT = {**OUTPUT_TEXT, "logprobs": []}
HEAD = {"id": "ID", "object": "response", "created_at": 0, "status": "completed", "background": False, "store": False}


def message(*parts: Mapping[str, Any], status: str = "completed") -> dict[str, Any]:
    return {"id": "msg_ID", "type": "message", "role": "assistant", "status": status, "content": list(parts)}


AGENT_RESULT = {
    "id": 1,
    "title": REF.title,
    "url": REF.url,
    "source": "web",
    "snippet": HIT.snippet,
    "date": "2026-01-02",
}
AGENT_ITEM = {"type": "search_results", "queries": [SEARCHED.query], "results": [AGENT_RESULT]}
AGENT_RESPONSE = {
    **HEAD, "model": "low", "output": [AGENT_ITEM, message(OUTPUT_TEXT)], "effort": "low", "preset": None,
    "previous_response_id": None, "llm_platform": EXTENSION, "usage": {
        "input_tokens": 11, "output_tokens": 22, "total_tokens": 34,
        "tool_calls_details": {"search_web": {"invocation": 1}, "fetch_url": {"invocation": 0}},
        "cost": {"currency": "USD", "input_cost": 0.0, "output_cost": 0.0, "total_cost": 0.5},
    },
}  # fmt: skip
OPENAI_RESPONSE = {
    **HEAD, **OPENAI_ECHO, "model": "research-shallow", "output": [SEARCH_CALL, message(OPENAI_TEXT)], "completed_at": 0,
    "usage": usage_of_responses(11, 22), "llm_platform": EXTENSION,
}  # fmt: skip
TAVILY_RESULT = {"title": HIT.title, "url": HIT.url, "content": HIT.snippet, "raw_content": None,
                 "published_date": "2026-01-02", "score": 1.0}  # fmt: skip
TAVILY_END = {"response_time": 0, "request_id": "ID"}
TAVILY_SEARCH = {"follow_up_questions": None, "answer": None, "images": [], **TAVILY_END}
SITE = {"base_url": "https://example.org/", "failed_results": [], "llm_platform": {"stopped": None}, **TAVILY_END}
SITE_PAGES = [{"url": url, "title": "A page", "raw_content": f"Text of {url}", "images": []}
              for url in ("https://example.org/", "https://example.org/a")]  # fmt: skip


@for_each(
    ("path", "body", "answer"),
    [
        (CHAT, {"model": "research-shallow", "messages": ASKED},
         completion("research-shallow", {"annotations": [CHAT_ANNOTATION]}, usage=CHAT_USAGE, llm_platform=EXTENSION)),
        (CHAT, {"model": LLM, "messages": ASKED}, completion(LLM, {}, usage=LLM_USAGE)),
        (RESPONSES, {"model": "research-shallow", "input": QUESTION, "store": False}, OPENAI_RESPONSE),
        (RESPONSES, {"model": LLM, "input": QUESTION},
         {**HEAD, **OPENAI_ECHO, "model": LLM, "output": [message({**OPENAI_TEXT, "annotations": []})], "completed_at": 0,
          "usage": usage_of_responses(3, 4)}),
        (MESSAGES, {"model": LLM, "max_tokens": 9, "messages": ASKED},
         {"id": "msg_ID", "type": "message", "role": "assistant", "model": LLM, "content": [{"type": "text", "text": TEXT}],
          "stop_reason": "end_turn", "stop_sequence": None, "usage": {"input_tokens": 3, "output_tokens": 4}}),
        (SONAR, {"model": "sonar", "messages": ASKED}, completion("sonar", {}, **SONAR_FIELDS)),
        ("/perplexity/search", {"query": "x"},
         {"id": "ID", "results": [{"title": HIT.title, "url": HIT.url, "snippet": HIT.snippet, "date": "2026-01-02"}]}),
        (AGENT, {"effort": "low", "input": QUESTION, "store": False}, AGENT_RESPONSE),
        ("/tavily/search", {"query": "x"}, {**TAVILY_SEARCH, "query": "x", "results": [TAVILY_RESULT]}),
        ("/tavily/search", {"query": "x", "include_raw_content": True},
         {**TAVILY_SEARCH, "query": "x", "results": [{**TAVILY_RESULT, "raw_content": PAGE.text}]}),
        ("/tavily/search", {"query": QUESTION, "include_answer": True},
         {**TAVILY_SEARCH, "query": QUESTION, "answer": TEXT, "results": [TAVILY_RESULT]}),
        ("/tavily/search", {"query": "hi", "include_answer": True},
         {**TAVILY_SEARCH, "query": "hi", "answer": TEXT, "results": [TAVILY_RESULT]}),
        ("/tavily/extract", {"urls": ["https://a.example/"]},
         {"results": [{"url": "https://a.example/", "raw_content": PAGE.text, "title": PAGE.title, "images": []}],
          "failed_results": [], **TAVILY_END}),
        ("/tavily/map", {"url": "https://example.org/"}, {**SITE, "results": [page["url"] for page in SITE_PAGES]}),
        ("/tavily/crawl", {"url": "https://example.org/"}, {**SITE, "results": SITE_PAGES}),
        ("/tavily/crawl", {"url": "https://example.org/", "include_favicon": True},
         {**SITE, "results": [{**page, "favicon": None} for page in SITE_PAGES]}),
        ("/open-webui/search", {"query": "x"}, [{"link": HIT.url, "title": HIT.title, "snippet": HIT.snippet}]),
        ("/open-webui/load", {"urls": ["https://a.example/"]},
         [{"page_content": PAGE.text, "metadata": {"source": "https://a.example/", "title": PAGE.title}}]),
    ],
)  # fmt: skip
async def test_every_field_of_an_answer(path: str, body: dict[str, Any], answer: Any) -> None:
    """Every field of the vendor's answer is filled from its source: text, sources, dates, tokens, searches or cost."""
    response = await sent(path, body)
    assert response.status_code == 200
    assert json.loads(readable(response)) == answer


async def test_every_field_of_a_message() -> None:
    """Anthropic: the search with its results, the cited sentence with its quote, and tokens, searches and pages."""
    body = {"model": "research-shallow", "max_tokens": 9, "messages": ASKED}
    answer = json.loads(readable(await sent(MESSAGES, body)))
    called, found, text = answer.pop("content")
    usage = {"input_tokens": 11, "output_tokens": 22,
             "server_tool_use": {"web_search_requests": 3, "web_fetch_requests": 2}}  # fmt: skip
    assert answer == {
        "id": "msg_ID",
        "type": "message",
        "role": "assistant",
        "model": "research-shallow",
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": usage,
        "llm_platform": EXTENSION,
    }
    query = {"query": SEARCHED.query}
    assert called == {"type": "server_tool_use", "id": "srvtoolu_ID_1", "name": "web_search", "input": query}
    [result] = found.pop("content")
    assert found == {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_ID_1"}
    opaque = result.pop("encrypted_content")
    assert result == {"type": "web_search_result", "url": HIT.url, "title": HIT.title, "page_age": "2026-01-02"}
    [located] = text.pop("citations")
    index = located.pop("encrypted_index")
    assert located == {
        "type": "web_search_result_location",
        "url": REF.url,
        "title": REF.title,
        "cited_text": CITATION.quote,
    }
    assert (len(opaque), len(index), opaque == index) == (24, 24, False)
    assert text == {"type": "text", "text": TEXT, "llm_platform": {"citations": [VERDICT]}}
    events = data_of(await sent(MESSAGES, {**body, "stream": True}))
    kinds = ["content_block_start", "content_block_delta", "content_block_stop"]
    started = [event for event in events if event["type"] != "ping"]
    assert [event["type"] for event in started] == [
        "message_start", *kinds, kinds[0], kinds[2], kinds[0], kinds[1], kinds[1], kinds[2], "message_delta", "message_stop",
    ]  # fmt: skip
    begun = {"input_tokens": 0, "output_tokens": 0}
    assert started[0]["message"] == {
        "id": "msg_ID",
        "type": "message",
        "role": "assistant",
        "model": "research-shallow",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": begun,
    }
    assert [event["index"] for event in started[1:-2]] == [0, 0, 0, 1, 1, 2, 2, 2, 2]
    assert started[1]["content_block"] == {**called, "input": {}}
    assert started[2]["delta"]["type"] == "input_json_delta"
    assert json.loads(started[2]["delta"]["partial_json"]) == query
    assert started[4]["content_block"]["content"][0]["url"] == HIT.url
    assert started[6]["content_block"] == {**text, "text": "", "citations": []}
    assert started[7]["delta"]["type"] == "citations_delta"
    assert started[7]["delta"]["citation"]["cited_text"] == CITATION.quote
    assert started[8]["delta"] == {"type": "text_delta", "text": TEXT}
    assert started[-2] == {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": usage,
        "llm_platform": EXTENSION,
    }


async def test_a_citation_of_a_pdf_opens_its_page() -> None:
    """The address of a PDF citation ends with `#page=`. The address of a document in a folder is unchanged."""

    class CitesPdf(FakeServices):
        def _research_response(self, request: ResearchRequest, request_id: str | None) -> ResearchResponse:
            source, citation = REF.model_copy(update={"url": address}), CITATION.model_copy(update={"page": 15})
            cited = {"sources": (source,), "citations": (citation,)}
            return super()._research_response(request, request_id).model_copy(update=cited)

    services = CitesPdf()
    for url, shown in (("https://a.example/b.pdf#x", "https://a.example/b.pdf#page=15"), ("docs/b.pdf", "docs/b.pdf")):
        address = url
        chat = await sent("/v1/chat/completions", {"model": "research-shallow", "messages": ASKED}, services)
        [annotation] = chat.json()["choices"][0]["message"]["annotations"]
        body = {"model": "research-shallow", "max_tokens": 9, "messages": ASKED}
        [located] = (await sent(MESSAGES, body, services)).json()["content"][-1]["citations"]
        assert (annotation["url_citation"]["url"], located["url"]) == (shown, shown)
        assert annotation["url_citation"]["llm_platform"]["page"] == 15
        agent = (await sent(AGENT, {"effort": "low", "input": QUESTION}, services)).json()
        assert agent["output"][-1]["content"][0]["annotations"][0]["url"] == shown
        response = (await sent(RESPONSES, {"model": "research-shallow", "input": QUESTION}, services)).json()
        assert response["output"][-1]["content"][0]["annotations"][0]["url"] == shown


async def test_perplexity_opens_the_page_of_a_pdf() -> None:
    """The whole answer and the last chunk name it; the first chunk is sent before the text is written, so it cannot."""

    class CitesPdf(FakeServices):
        def _research_response(self, request: ResearchRequest, request_id: str | None) -> ResearchResponse:
            cited = {"citations": (CITATION.model_copy(update={"page": 15}),)}
            return super()._research_response(request, request_id).model_copy(update=cited)

    shown = f"{REF.url}#page=15"
    body = {"model": "sonar", "messages": ASKED}
    answer = (await sent(SONAR, body, CitesPdf())).json()
    assert (answer["citations"], answer["search_results"][0]["url"]) == ([shown], shown)
    chunks = (await sent(SONAR, {**body, "stream": True}, CitesPdf())).text
    first, *_, last = [json.loads(line[6:]) for line in chunks.splitlines() if line.startswith("data: {")]
    assert (first["citations"], last["citations"]) == ([REF.url], [shown])


async def test_chunks_of_a_chat() -> None:
    """A role, the text, the annotations with the reason to stop, and the usage where a client asks for it."""
    for model, delta, usage, more in (
        ("research-shallow", {"annotations": [CHAT_ANNOTATION]}, CHAT_USAGE, {"llm_platform": EXTENSION}),
        (LLM, {}, LLM_USAGE, {}),
    ):
        body = {"model": model, "messages": ASKED, "stream": True}
        first, text = chunk(model, {"role": "assistant", "content": ""}), chunk(model, {"content": TEXT})
        last = chunk(model, delta, "stop", **more)
        assert data_of(await sent(CHAT, body)) == [first, text, last, "[DONE]"]
        counted = {**chunk(model, {}), "choices": [], "usage": usage}
        with_usage = {**body, "stream_options": {"include_usage": True}}
        assert data_of(await sent(CHAT, with_usage)) == [first, text, last, counted, "[DONE]"]
    known = {"citations": [REF.url], "search_results": [SONAR_RESULT]}
    assert data_of(await sent(SONAR, {"model": "sonar", "messages": ASKED, "stream": True})) == [
        chunk("sonar", {"role": "assistant", "content": ""}, **known), chunk("sonar", {"content": TEXT}, **known),
        chunk("sonar", {}, "stop", **SONAR_FIELDS), "[DONE]",
    ]  # fmt: skip


async def test_messages_with_tool_calls_have_content_only_if_there_is_text() -> None:
    """The content of a message with tool calls is null if there is no text, and otherwise the text before the calls."""
    call = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    services = NumberedServices()
    services.tool_calls = (call,)
    for text, content in ((TEXT, TEXT), ("", None)):
        services.answer = text
        answer = (await sent(CHAT, {"model": LLM, "messages": ASKED}, services)).json()
        [choice] = answer["choices"]
        assert choice["message"] == {"role": "assistant", "content": content, "tool_calls": [call]}
        assert choice["finish_reason"] == "tool_calls"


def part(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", **fields}


def text_part(kind: str, position: int, **fields: Any) -> dict[str, Any]:
    return part(kind, item_id="msg_ID", output_index=position, content_index=0, **fields)


async def test_events_of_a_response() -> None:
    """Events of OpenAI and Perplexity are numbered, and the last event has the complete response."""
    body = {"model": "research-shallow", "input": QUESTION, "store": False, "stream": True}
    begun = {**HEAD, **OPENAI_ECHO, "status": "in_progress", "model": "research-shallow", "output": [], "usage": None,
             "completed_at": None}  # fmt: skip
    delta = {"delta": TEXT, "logprobs": []}
    empty = {**OPENAI_TEXT, "text": "", "annotations": []}
    names = ("in_progress", "searching", "completed")
    steps = [part(f"web_search_call.{name}", output_index=0, item_id="ws_ID_0") for name in names]
    expected = [
        part("created", response=begun), part("in_progress", response=begun),
        part("output_item.added", output_index=0, item={**SEARCH_CALL, "status": "in_progress"}), *steps,
        part("output_item.done", output_index=0, item=SEARCH_CALL),
        part("output_item.added", output_index=1, item=message(status="in_progress")),
        text_part("content_part.added", 1, part=empty), text_part("output_text.delta", 1, **delta),
        text_part("output_text.annotation.added", 1, annotation_index=0, annotation=ANNOTATION),
        text_part("output_text.done", 1, text=TEXT, logprobs=[]), text_part("content_part.done", 1, part=OPENAI_TEXT),
        part("output_item.done", output_index=1, item=message(OPENAI_TEXT)), part("completed", response=OPENAI_RESPONSE),
    ]  # fmt: skip
    events = data_of(await sent(RESPONSES, body))
    assert [event.pop("sequence_number") for event in events] == list(range(len(expected)))
    assert events == expected
    response = await sent(AGENT, {"effort": "low", "input": QUESTION, "store": False, "stream": True})
    events = data_of(response)
    begun = {**HEAD, "status": "in_progress", "model": "low", "output": [], "effort": "low", "preset": None,
             "previous_response_id": None}  # fmt: skip
    expected = [
        part("created", response=begun), part("in_progress", response=begun), part("reasoning.started"),
        part("reasoning.search_queries", queries=[SEARCHED.query]), part("reasoning.search_results", results=[AGENT_RESULT]),
        part("reasoning.stopped"), part("output_item.added", output_index=0, item=AGENT_ITEM),
        part("output_item.done", output_index=0, item=AGENT_ITEM),
        part("output_item.added", output_index=1, item=message(status="in_progress")),
        text_part("output_text.delta", 1, delta=TEXT), text_part("output_text.done", 1, text=TEXT),
        part("output_item.done", output_index=1, item=message(OUTPUT_TEXT)), part("completed", response=AGENT_RESPONSE),
    ]  # fmt: skip
    assert [event.pop("sequence_number") for event in events] == list(range(len(expected)))
    assert events == expected
    named = [line[7:] for line in response.text.splitlines() if line.startswith("event: ")]
    assert named == [event["type"] for event in expected]


async def test_chunks_of_a_research_of_tavily() -> None:
    """Each search as a call and its response, the text, the list of sources, the sources, and the end."""
    for model, named in (("mini", "mini"), ("auto", "mini"), ("pro", "pro")):
        response = await sent("/tavily/research", {"input": QUESTION, "stream": True, "model": model})
        chunks = data_of(response)
        head = {"id": "ID", "object": "chat.completion.chunk", "model": named, "created": 0}
        assert all(chunk == {**head, "choices": chunk["choices"]} for chunk in chunks)
        source = {"title": REF.title, "url": REF.url}

        def call(name: str, number: int, arguments: str, **more: Any) -> dict[str, Any]:
            return {"name": name, "id": f"call_{number}", "arguments": arguments, **more}

        assert [chunk["choices"] for chunk in chunks] == [
            [{"index": 0, "delta": {"role": "assistant", **delta}}] for delta in (
                {"tool_calls": {"type": "tool_call", "tool_call": [
                    call("WebSearch", 1, "Searching", queries=[SEARCHED.query])]}},
                {"tool_calls": {"type": "tool_response", "tool_response": [
                    call("WebSearch", 1, "WebSearch is finished", sources=[{**source, "favicon": None}])]}},
                {"tool_calls": {"type": "tool_call", "tool_call": [call("Generating", 2, "Writing the answer")]}},
                {"content": TEXT},
                {"tool_calls": {"type": "tool_response", "tool_response": [call("Generating", 2, "Generating is finished")]}},
                {"content": f"\n\n## Sources\n\n- [1] {REF.title}. 2026-01-02. <{REF.url}>\n"},
                {"sources": [{**source, "index": 1}]},
            )
        ]  # fmt: skip
        assert response.text.endswith("\n\nevent: done\n\n")


REQUESTS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "openai": (CHAT, {"model": "research-shallow", "messages": ASKED}),
    "responses": (RESPONSES, {"model": "research-shallow", "input": QUESTION, "store": False}),
    "anthropic": (MESSAGES, {"model": "research-shallow", "max_tokens": 9, "messages": ASKED}),
    "sonar": (SONAR, {"model": "sonar", "messages": ASKED}),
    "agent": (AGENT, {"effort": "low", "input": QUESTION, "store": False}),
    "tavily": ("/tavily/search", {"query": "x"}),
    "open-webui": ("/open-webui/search", {"query": "x"}),
}


def openai_error(code: str, message: str, kind: str, param: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def sonar_error(status: int, code: str, message: str, param: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": code, "param": param, "code": status}}


def anthropic_error(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "ID"}


NO_PREVIOUS = (
    "no finished response with this id is stored for this API key: leave it out, or send the conversation as input"
)


@for_each(
    ("client", "error", "status", "body"),
    [
        *((name, WebSearchTimeoutError("Too late."), 503, openai_error("web_search_timeout", "Too late.", "server_error"))
          for name in ("openai", "responses")),
        ("openai", LLMBlockedError("Blocked."), 503, openai_error("llm_blocked", "Blocked.", "server_error")),
        ("responses", PreviousResearchNotFoundError(), 404,
         openai_error("previous_research_not_found", f"previous_response_id: {NO_PREVIOUS}", "invalid_request_error",
                      "previous_response_id")),
        *((name, WebSearchTimeoutError("Too late."), 503, sonar_error(503, "web_search_timeout", "Too late."))
          for name in ("sonar", "agent")),
        ("anthropic", WebSearchTimeoutError("Too late."), 503, anthropic_error("api_error", "Too late.")),
        ("anthropic", WebSearchBlockedError("Blocked."), 503, anthropic_error("api_error", "Blocked.")),
        ("anthropic", PreviousResearchNotFoundError("Gone."), 404, anthropic_error("not_found_error", "Gone.")),
        ("tavily", WebSearchTimeoutError("Too late."), 503, {"detail": {"error": "Too late."}}),
        ("tavily", PageBlockedError("Blocked."), 403, {"detail": {"error": "Blocked."}}),
        ("tavily", PageError("None."), 400, {"detail": {"error": "None."}}),
        ("tavily", PageConnectionError("None."), 400, {"detail": {"error": "None."}}),
    ],
)  # fmt: skip
async def test_an_error_has_the_shape_of_its_clients(
    client: str, error: AppException, status: int, body: Mapping[str, Any]
) -> None:
    """Status, type and message are in the vendor's error object, without other fields."""
    services = NumberedServices()
    services.error = error
    path, sent_body = REQUESTS[client]
    response = await sent(path, sent_body, services)
    assert (response.status_code, json.loads(readable(response))) == (status, body)


@for_each(
    ("client", "field", "status", "body"),
    [
        ("openai", "stream", 400,
         openai_error("invalid_request", "stream: must be true or false", "invalid_request_error", "stream")),
        ("responses", "stream", 400,
         openai_error("invalid_request", "stream: must be true or false", "invalid_request_error", "stream")),
        ("sonar", "stream", 422, sonar_error(422, "invalid_request", "stream: must be true or false", "stream")),
        ("agent", "stream", 422, sonar_error(422, "invalid_request", "stream: must be true or false", "stream")),
        ("anthropic", "stream", 400, anthropic_error("invalid_request_error", "stream: must be true or false")),
        ("tavily", "max_results", 400, {"detail": {"error": "max_results: must be a valid integer"}}),
    ],
)  # fmt: skip
async def test_a_wrong_field_is_named_in_the_shape_of_its_clients(
    client: str, field: str, status: int, body: Mapping[str, Any]
) -> None:
    path, sent_body = REQUESTS[client]
    response = await sent(path, {**sent_body, field: "yes"})
    assert (response.status_code, json.loads(readable(response))) == (status, body)


@for_each("client", ["openai", "responses", "sonar", "agent", "anthropic"])
async def test_a_stream_that_fails_says_so(client: str) -> None:
    """After the first event the status is sent: the last event has the error of the clients, and only the end follows."""
    services = NumberedServices()
    services.error_after_first_event = WebSearchTimeoutError("Too late.")
    path, body = REQUESTS[client]
    response = await sent(path, {**body, "stream": True}, services)
    events = [event for event in data_of(response) if event != "[DONE]"]
    last = events[-1]
    if client in ("openai", "sonar"):
        assert "event: error\n" in response.text
        assert response.text.endswith("data: [DONE]\n\n")
        expected = openai_error("web_search_timeout", "Too late.", "server_error")
        assert last == (expected if client == "openai" else sonar_error(503, "web_search_timeout", "Too late."))
    elif client == "anthropic":
        assert last == anthropic_error("api_error", "Too late.")
    elif client == "agent":
        error = {"message": "Too late.", "code": "web_search_timeout", "type": "Service Unavailable"}
        assert (last["type"], last["error"]) == ("response.failed", error)
    else:
        assert (last["type"], last["response"]["status"]) == ("response.failed", "failed")
        assert last["response"]["error"] == {"code": "server_error", "message": "Too late."}


@for_each("prefix", ["/v1", "/perplexity/v1", "/anthropic/v1"])
async def test_models_are_listed_and_found(prefix: str) -> None:
    """Each listed model can be fetched. An unknown model is an error that names the parameter."""
    async with app_client(NumberedServices()) as client:
        listed = (await client.get(f"{prefix}/models")).json()
        if prefix.startswith("/perplexity"):
            assert [model["id"] for model in listed["data"]] == [
                "sonar", "sonar-pro", "sonar-reasoning", "sonar-reasoning-pro", "sonar-deep-research"]  # fmt: skip
            return
        for model in listed["data"]:
            assert (await client.get(f"{prefix}/models/{model['id']}")).json() == model
        missing = await client.get(f"{prefix}/models/none")
    names = [model["id"] for model in listed["data"]]
    assert names[:4] == ["research-shallow", "research-deep", "research-report", LLM]
    assert missing.status_code == 404
    if prefix == "/v1":
        assert missing.json()["error"]["param"] == "model"
        owners = ["llm-platform", "llm-platform", "llm-platform", "fake", "wordllama"]
        assert [(model["object"], model["owned_by"]) for model in listed["data"]] == [
            ("model", owner) for owner in owners
        ]
        assert listed["object"] == "list"
    else:
        assert (listed["has_more"], listed["first_id"], listed["last_id"]) == (False, names[0], names[-1])
        assert all(model["display_name"] == model["id"] for model in listed["data"])
        assert {(model["type"], model["lifecycle"]) for model in listed["data"]} == {("model", "active")}
