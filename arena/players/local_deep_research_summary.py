"""local-deep-research's quick summary with its defaults, pointed at SearXNG and the model by its settings."""

from __future__ import annotations

import os
from typing import Any

from exchange import play


def answer(given: dict[str, Any]) -> dict[str, Any]:
    os.environ["LDR_DATA_DIR"] = given["data_dir"]
    from local_deep_research.api import quick_summary
    from local_deep_research.api.settings_utils import create_settings_snapshot

    settings = create_settings_snapshot(
        {
            "llm.provider": "openai_endpoint",
            "llm.model": given["model"],
            "llm.openai_endpoint.url": given["model_url"],
            "llm.openai_endpoint.api_key": "none",
            "search.tool": "searxng",
            "search.engine.web.searxng.default_params.instance_url": given["searxng_url"],
        }
    )
    found = quick_summary(query=given["question"], settings_snapshot=settings, search_tool="searxng")
    sources = [
        {"index": int(source.get("index") or number), "url": source.get("link") or source.get("url") or ""}
        for number, source in enumerate(found.get("sources") or (), 1)
        if isinstance(source, dict)
    ]
    return {"answer": str(found["summary"]), "sources": sources}


if __name__ == "__main__":
    play(answer)
