"""Examples of the routes of Perplexity's API for the OpenAPI document."""

from collections.abc import Mapping
from typing import Any, Final

from modules.llm_platform.presentation.rest.compat.perplexity.models import DEPTHS
from modules.llm_platform.presentation.rest.http.route_example import Example

MESSAGES: Final = [{"role": "user", "content": "What is tea?"}]
ASYNC_RUN: Final[Mapping[str, Any]] = {
    "id": "3f2c8a5e",
    "model": "sonar-deep-research",
    "status": "CREATED",
    "created_at": 1795000000,
}
RESPONSE: Final[Mapping[str, Any]] = {
    "id": "3f2c8a5e",
    "object": "response",
    "created_at": 1795000000,
    "status": "completed",
    "background": False,
    "model": "low",
    "output": [
        {
            "type": "search_results",
            "queries": ["What is tea?"],
            "results": [
                {
                    "id": 1,
                    "title": "Tea",
                    "url": "https://example.org/tea",
                    "source": "web",
                    "snippet": "A drink.",
                    "date": None,
                },
            ],
        },
        {
            "id": "msg_3f2c8a5e",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Tea is a drink [1].", "annotations": []}],
        },
    ],
    "store": True,
    "effort": "low",
}
RESPONSE_EVENTS: Final = (
    'event: response.created\ndata: {"type":"response.created","sequence_number":0,"response":{}}\n\n'
)

EXAMPLES: Final[Mapping[str, Example]] = {
    "post /perplexity/chat/completions": Example(
        {
            "id": "3f2c8a5e",
            "model": "sonar",
            "created": 1795000000,
            "object": "chat.completion",
            "choices": [
                {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "A drink [1]."}},
            ],
            "citations": ["https://example.org/tea"],
            "search_results": [{"title": "Tea", "url": "https://example.org/tea", "source": "web"}],
            "usage": {"prompt_tokens": 310, "completion_tokens": 12, "total_tokens": 322, "num_search_queries": 1},
        },
        {"model": "sonar", "messages": MESSAGES},
        events='data: {"id":"3f2c8a5e","object":"chat.completion.chunk","choices":[]}\n\ndata: [DONE]\n\n',
    ),
    "post /perplexity/search": Example(
        {
            "id": "3f2c8a5e",
            "results": [{"title": "Tea", "url": "https://example.org/tea", "snippet": "A drink.", "date": None}],
        },
        {"query": "What is tea?", "max_results": 3},
    ),
    "post /perplexity/async/chat/completions": Example(
        ASYNC_RUN, {"request": {"model": "sonar-deep-research", "messages": MESSAGES}}
    ),
    "get /perplexity/async/chat/completions": Example(
        {"requests": [ASYNC_RUN], "next_token": None}, parameters={"limit": 20}
    ),
    "get /perplexity/async/chat/completions/{api_request}": Example(
        {**ASYNC_RUN, "status": "IN_PROGRESS", "started_at": 1795000001}, parameters={"api_request": "3f2c8a5e"}
    ),
    "post /perplexity/v1/responses": Example(
        RESPONSE, {"effort": "low", "input": "What is tea?"}, events=RESPONSE_EVENTS
    ),
    "get /perplexity/v1/responses/{response_id}": Example(
        RESPONSE, parameters={"response_id": "3f2c8a5e", "stream": False, "starting_after": -1}, events=RESPONSE_EVENTS
    ),
    "post /perplexity/v1/responses/{response_id}/cancel": Example(
        {"response_id": "3f2c8a5e", "status": "cancelling"}, parameters={"response_id": "3f2c8a5e"}
    ),
    "get /perplexity/v1/models": Example(
        {
            "object": "list",
            "data": [{"id": name, "object": "model", "created": 0, "owned_by": "llm-platform"} for name in DEPTHS],
        }
    ),
}
