"""Examples of the routes of Anthropic's API for the OpenAPI document."""

from collections.abc import Mapping
from typing import Any, Final

from modules.llm_platform.presentation.rest.http.route_example import Example

MODEL: Final = {
    "id": "research-deep",
    "type": "model",
    "display_name": "research-deep",
    "created_at": "1970-01-01T00:00:00Z",
    "lifecycle": "active",
}
QUESTION: Final[Mapping[str, Any]] = {
    "model": "research-shallow",
    "messages": [{"role": "user", "content": "What is tea?"}],
}
CONTENT: Final[list[Mapping[str, Any]]] = [
    {"type": "server_tool_use", "id": "srvtoolu_3f2c8a5e_1", "name": "web_search", "input": {"query": "What is tea?"}},
    {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_3f2c8a5e_1",
        "content": [
            {
                "type": "web_search_result",
                "url": "https://example.org/tea",
                "title": "Tea",
                "encrypted_content": "5b1c",
                "page_age": None,
            },
        ],
    },
    {
        "type": "text",
        "text": "Tea is a drink [1].",
        "citations": [
            {
                "type": "web_search_result_location",
                "url": "https://example.org/tea",
                "title": "Tea",
                "cited_text": "Tea is a drink.",
                "encrypted_index": "9e07",
            },
        ],
    },
]

CHECKED: Final = {"X-Verify": "annotate"}

EXAMPLES: Final[Mapping[str, Example]] = {
    "post /anthropic/v1/messages": Example(
        {
            "id": "msg_3f2c8a5e",
            "type": "message",
            "role": "assistant",
            "model": "research-shallow",
            "content": CONTENT,
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {
                "input_tokens": 310,
                "output_tokens": 12,
                "server_tool_use": {"web_search_requests": 1, "web_fetch_requests": 0},
            },
        },
        {**QUESTION, "max_tokens": 1024},
        parameters=CHECKED,
        events='event: message_start\ndata: {"type":"message_start","message":{}}\n\n',
    ),
    "post /anthropic/v1/messages/count_tokens": Example({"input_tokens": 4}, QUESTION),
    "get /anthropic/v1/models": Example(
        {"data": [MODEL], "has_more": False, "first_id": "research-deep", "last_id": "research-deep"}
    ),
    "get /anthropic/v1/models/{model}": Example(MODEL, parameters={"model": "research-deep"}),
}
