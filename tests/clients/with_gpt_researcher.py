"""GPT Researcher with the server's search, language model and embeddings. All read the address only from the environment."""

from __future__ import annotations

import os
from types import SimpleNamespace

from checks import ANSWER, EMBEDDER, KEY, LLM, OPEN_URL, PAGE_URL, PAGE_WORD, QUESTION, URL, check, main
from gpt_researcher.retrievers import SearxSearch


def searched(address):
    os.environ["SEARX_URL"] = address
    [first, *_] = SearxSearch(QUESTION).search(max_results=3)
    assert ANSWER in first["body"]
    assert first["href"]


@check("SearxSearch", "search")
def searx():
    searched(f"{URL}/searxng".replace("://", f"://user:{KEY}@"))


@check("SearxSearch, without an API key", "search")
def searx_open():
    searched(f"{OPEN_URL}/searxng")


@check("EMBEDDING=custom", "embeddings")
def embeddings():
    os.environ.update(OPENAI_BASE_URL=f"{URL}/v1", OPENAI_API_KEY=KEY, EMBEDDING=f"custom:{EMBEDDER}")
    from gpt_researcher.config import Config
    from gpt_researcher.memory import Memory

    config = Config()
    memory = Memory(config.embedding_provider, config.embedding_model, **config.embedding_kwargs)
    first, second = memory.get_embeddings().embed_documents([QUESTION, "What is tea?"])
    assert len(first) == len(second) > 0


@check("a whole report: search, model and embeddings", "search", "chat", "stream", "embeddings")
async def report():
    """GPT Researcher searches, reads the page that it finds, selects passages by embedding, and writes the report."""
    import tiktoken
    from gpt_researcher import GPTResearcher

    # It estimates prices with a downloaded tokenizer. Counting words is enough here.
    tiktoken.get_encoding = lambda name: SimpleNamespace(encode=str.split)
    os.environ.update(
        RETRIEVER="searx",
        SEARX_URL=f"{URL}/searxng".replace("://", f"://user:{KEY}@"),
        SCRAPER="bs",
        MAX_ITERATIONS="1",
        OPENAI_BASE_URL=f"{URL}/v1",
        OPENAI_API_KEY=KEY,
        EMBEDDING=f"custom:{EMBEDDER}",
        **dict.fromkeys(("FAST_LLM", "SMART_LLM", "STRATEGIC_LLM"), f"openai:{LLM}"),
    )
    researcher = GPTResearcher(query=f"{QUESTION} {PAGE_WORD}", report_type="research_report", verbose=False)
    context = await researcher.conduct_research()
    assert ANSWER in str(context), context
    assert f"{PAGE_URL}/tutorial" in researcher.get_source_urls()
    assert ANSWER in await researcher.write_report()


main()
