"""Examples of the routes of Tavily's API for the OpenAPI document."""

from collections.abc import Mapping
from typing import Any, Final

from modules.llm_platform.presentation.rest.http.route_example import Example

RESEARCH_ID: Final = "3f2c8a5e9d7b4c61a0e4f19b7d2c6a58-numbered"
END: Final[Mapping[str, Any]] = {"response_time": 0.42, "request_id": "3f2c8a5e"}
CALLS: Final = {"search_usage": 12, "extract_usage": 3, "crawl_usage": 1, "map_usage": 0, "research_usage": 2}

EXAMPLES: Final[Mapping[str, Example]] = {
    "post /tavily/search": Example(
        {
            "query": "What is tea?",
            "follow_up_questions": None,
            "answer": None,
            "images": [],
            "results": [
                {
                    "title": "Tea",
                    "url": "https://example.org/tea",
                    "content": "Tea is a drink.",
                    "raw_content": None,
                    "published_date": None,
                    "score": 1.0,
                },
            ],
            **END,
        },
        {"query": "What is tea?", "max_results": 3},
    ),
    "post /tavily/extract": Example(
        {
            "results": [
                {"url": "https://example.org/tea", "raw_content": "Tea is a drink.", "title": "Tea", "images": []},
            ],
            "failed_results": [],
            **END,
        },
        {"urls": ["https://example.org/tea"]},
    ),
    "post /tavily/crawl": Example(
        {
            "base_url": "https://example.org/",
            "results": [
                {"url": "https://example.org/tea", "title": "Tea", "raw_content": "Tea is a drink.", "images": []},
            ],
            "failed_results": [{"url": "https://example.org/gone", "error": "There is no such page (404)"}],
            **END,
            "llm_platform": {"stopped": None},
        },
        {"url": "https://example.org/", "max_depth": 1, "limit": 10},
    ),
    "post /tavily/map": Example(
        {
            "base_url": "https://example.org/",
            "results": ["https://example.org/", "https://example.org/tea"],
            "failed_results": [],
            **END,
            "llm_platform": {"stopped": None},
        },
        {"url": "https://example.org/", "select_paths": ["/tea.*"]},
    ),
    "post /tavily/research": Example(
        {
            "request_id": RESEARCH_ID,
            "created_at": "2026-11-20T12:00:00Z",
            "status": "pending",
            "input": "What is tea?",
            "model": "mini",
            "response_time": 0.02,
        },
        {"input": "What is tea?", "model": "mini", "citation_format": "numbered"},
        events='data: {"id":"3f2c8a5e","object":"chat.completion.chunk","model":"mini","choices":[]}\n\nevent: done\n\n',
    ),
    "get /tavily/research/{request_id}": Example(
        {
            "request_id": RESEARCH_ID,
            "status": "completed",
            "response_time": 12.5,
            "created_at": "2026-11-20T12:00:00Z",
            "content": "Tea is a drink [1].\n\n## Sources\n\n- [1] Tea. <https://example.org/tea>\n",
            "sources": [{"title": "Tea", "url": "https://example.org/tea", "index": 1}],
        },
        parameters={"request_id": RESEARCH_ID},
        accepted={"request_id": RESEARCH_ID, "status": "in_progress", "response_time": 3.5},
    ),
    "get /tavily/usage": Example(
        {
            "key": {"usage": 18, "limit": None, **CALLS},
            "account": {
                "current_plan": "llm-platform",
                "plan_usage": 18,
                "plan_limit": None,
                "paygo_usage": 0,
                "paygo_limit": None,
                **CALLS,
            },
        }
    ),
}
