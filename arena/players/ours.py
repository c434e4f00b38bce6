"""This project's command line: ours.py shallow|deep|report|quotes. `quotes` is a shallow answer without a model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from exchange import play

QUOTES = "quotes"


def answer(given: dict[str, Any]) -> dict[str, Any]:
    depth = sys.argv[1]
    settings = {
        "SEARXNG_URL": given["searxng_url"],
        "SEARCH_PROVIDERS": "searxng",
        "READERS": "direct",
        "READER_ALLOWED_HOSTS": "127.0.0.0/8",  # by default no page on loopback is read
        "LLM_PLATFORM_DATA_DIR": given["data_dir"],
        # A busy machine must not change an answer: by default a page is waited for 1.2 s, and the encoder 5 s.
        "READ_S": "10",
        "ANSWER_ENCODER_TIMEOUT_S": "60",
    }
    if depth != QUOTES:
        settings |= {"LLM_BASE_URL": given["model_url"], "LLM_MODEL": given["model"]}
    words = [sys.executable, "-m", "modules.llm_platform", "research", given["question"], "--json", "--yes"]
    words += ["--depth", "shallow" if depth == QUOTES else depth, "--output", f"{given['transcript']}.sealed.zip"]
    done = subprocess.run(words, env=os.environ | settings, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.returncode)
    response = json.loads(done.stdout)
    sources = [{"index": source["index"], "url": source["url"]} for source in response["sources"]]
    metadata = response["metadata"]
    return {
        "answer": response["synthesis"],
        "sources": sources,
        "seconds": metadata["latency_ms"] / 1000,
        "own_tokens": metadata["tokens_used"],
        "synthesizer": metadata["synthesizer"],
    }


if __name__ == "__main__":
    play(answer)
