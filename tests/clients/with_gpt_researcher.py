"""GPT Researcher: its retriever for SearXNG, and its embeddings. Both take the address from the environment alone."""

from __future__ import annotations

import os

from checks import ANSWER, EMBEDDER, KEY, OPEN_URL, QUESTION, URL, check, main
from gpt_researcher.retrievers import SearxSearch


def searched(address):
    os.environ["SEARX_URL"] = address
    [first, *_] = SearxSearch(QUESTION).search(max_results=3)
    assert ANSWER in first["body"]
    assert first["href"]


@check("SearxSearch")
def searx():
    searched(f"{URL}/searxng".replace("://", f"://user:{KEY}@"))


@check("SearxSearch, without an API key")
def searx_open():
    searched(f"{OPEN_URL}/searxng")


@check("EMBEDDING=custom")
def embeddings():
    os.environ.update(OPENAI_BASE_URL=f"{URL}/v1", OPENAI_API_KEY=KEY, EMBEDDING=f"custom:{EMBEDDER}")
    from gpt_researcher.config import Config
    from gpt_researcher.memory import Memory

    config = Config()
    memory = Memory(config.embedding_provider, config.embedding_model, **config.embedding_kwargs)
    first, second = memory.get_embeddings().embed_documents([QUESTION, "What is tea?"])
    assert len(first) == len(second) > 0


main()
