"""gpt-researcher with its defaults (a research report), pointed at SearXNG and the model by its settings.

It counts tokens with a tokenizer that it downloads from OpenAI at its first use, and fails without it. Its dependency litellm
brings the same file, and TIKTOKEN_CACHE_DIR names its folder.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
from pathlib import Path
from typing import Any

from exchange import play


def answer(given: dict[str, Any]) -> dict[str, Any]:
    litellm = importlib.util.find_spec("litellm")
    if litellm and litellm.origin:
        tokenizers = Path(litellm.origin).parent / "litellm_core_utils" / "tokenizers"
        os.environ["TIKTOKEN_CACHE_DIR"] = str(tokenizers)
    model = f"openai:{given['model']}"
    os.environ |= {
        "RETRIEVER": "searx",
        "SEARX_URL": given["searxng_url"],
        "OPENAI_BASE_URL": given["model_url"],
        "OPENAI_API_KEY": "none",
        "FAST_LLM": model,
        "SMART_LLM": model,
        "STRATEGIC_LLM": model,
        "EMBEDDING": "custom:static",
    }
    from gpt_researcher import GPTResearcher  # reads the environment when it is imported

    async def run() -> str:
        researcher = GPTResearcher(query=given["question"], report_type="research_report", verbose=False)
        await researcher.conduct_research()
        return str(await researcher.write_report())

    return {"answer": asyncio.run(run())}


if __name__ == "__main__":
    play(answer)
