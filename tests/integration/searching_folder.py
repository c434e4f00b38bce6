"""A program that searches a named folder with the wired platform. The tests of concurrent processes run it."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from modules.llm_platform.container import build_platform
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest
from shared.config import Settings


async def search(folder: Path, data: Path, query: str) -> None:
    """Print "searching", and then the found URLs and degradations as JSON."""
    settings = Settings(DOCUMENTS_DIR=folder, LLM_PLATFORM_DATA_DIR=data, LLM_PLATFORM_OFFLINE=True)
    async with build_platform(settings) as platform:
        sys.stdout.write("searching\n")
        sys.stdout.flush()
        answer = await platform.web_search.search(WebSearchRequest(query=query, count=50))
    told = {
        "urls": [item.url for item in answer.results],
        "degraded": [str(degradation) for degradation in answer.degraded],
    }
    sys.stdout.write(json.dumps(told) + "\n")


def main() -> None:
    asyncio.run(search(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
