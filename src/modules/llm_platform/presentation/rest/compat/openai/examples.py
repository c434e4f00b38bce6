"""Examples of the routes of OpenAI's API for the OpenAPI document."""

from collections.abc import Mapping
from typing import Any, Final

from modules.llm_platform.presentation.rest.compat.openai.response_writer import UNUSED
from modules.llm_platform.presentation.rest.http.route_example import Example

MODEL: Final = {"id": "research-deep", "object": "model", "created": 0, "owned_by": "llm-platform"}
ANSWER: Final[Mapping[str, Any]] = {
    "type": "output_text",
    "text": "Tea is a drink [1].",
    "annotations": [
        {"type": "url_citation", "start_index": 0, "end_index": 14, "title": "Tea", "url": "https://example.org/tea"},
    ],
    "logprobs": [],
}
RESPONSE: Final[Mapping[str, Any]] = {
    "id": "3f2c8a5e",
    "object": "response",
    "created_at": 1795000000,
    "status": "completed",
    "background": False,
    "model": "research-shallow",
    "output": [
        {
            "id": "ws_3f2c8a5e_0",
            "type": "web_search_call",
            "status": "completed",
            "action": {"type": "search", "query": "What is tea?", "queries": ["What is tea?"]},
        },
        {"id": "msg_3f2c8a5e", "type": "message", "role": "assistant", "status": "completed", "content": [ANSWER]},
    ],
    "store": True,
    **UNUSED,
    "usage": {
        "input_tokens": 310,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 12,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 322,
    },
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "previous_response_id": None,
    "text": {"format": {"type": "text"}},
    "tools": [],
}

CHECKED: Final = {"X-Verify": "annotate"}

EXAMPLES: Final[Mapping[str, Example]] = {
    "get /v1/models": Example({"object": "list", "data": [MODEL]}),
    "get /v1/models/{model}": Example(MODEL, parameters={"model": "research-deep"}),
    "post /v1/responses": Example(
        RESPONSE,
        {"model": "research-shallow", "input": "What is tea?"},
        parameters=CHECKED,
        events='event: response.created\ndata: {"type":"response.created","sequence_number":0,"response":{}}\n\n',
    ),
    "get /v1/responses/{response_id}": Example(
        RESPONSE,
        parameters={"response_id": "3f2c8a5e", "stream": False, "starting_after": -1},
        events='event: response.queued\ndata: {"type":"response.queued","sequence_number":1,"response":{}}\n\n',
    ),
    "post /v1/responses/{response_id}/cancel": Example(
        {**RESPONSE, "status": "cancelled"}, parameters={"response_id": "3f2c8a5e"}
    ),
    "delete /v1/responses/{response_id}": Example(
        {"id": "3f2c8a5e", "object": "response", "deleted": True}, parameters={"response_id": "3f2c8a5e"}
    ),
    "get /v1/responses/{response_id}/input_items": Example(
        {
            "object": "list",
            "data": [
                {
                    "id": "msg_3f2c8a5e_0",
                    "type": "message",
                    "role": "user",
                    "status": "completed",
                    "content": [{"type": "input_text", "text": "What is tea?"}],
                },
            ],
            "first_id": "msg_3f2c8a5e_0",
            "last_id": "msg_3f2c8a5e_0",
            "has_more": False,
        },
        parameters={"response_id": "3f2c8a5e", "limit": 20},
    ),
    "post /v1/chat/completions": Example(
        {
            "id": "3f2c8a5e",
            "object": "chat.completion",
            "created": 1795000000,
            "model": "research-shallow",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "stop",
                    "message": {
                        "role": "assistant",
                        "content": "Tea is a drink [1].",
                        "annotations": [
                            {
                                "type": "url_citation",
                                "url_citation": {
                                    "start_index": 0,
                                    "end_index": 12,
                                    "title": "Tea",
                                    "url": "https://example.org/tea",
                                },
                            },
                        ],
                    },
                },
            ],
            "usage": {"prompt_tokens": 310, "completion_tokens": 12, "total_tokens": 322},
        },
        {"model": "research-shallow", "messages": [{"role": "user", "content": "What is tea?"}]},
        parameters=CHECKED,
        events='data: {"id":"3f2c8a5e","object":"chat.completion.chunk","choices":[]}\n\ndata: [DONE]\n\n',
    ),
    "post /v1/embeddings": Example(
        {
            "object": "list",
            "model": "wordllama/l2_supercat_256",
            "data": [{"object": "embedding", "index": 0, "embedding": [0.6, 0.8]}],
            "usage": {"prompt_tokens": 4, "total_tokens": 4},
        },
        {"model": "wordllama/l2_supercat_256", "input": "What is tea?", "encoding_format": "float"},
    ),
}
