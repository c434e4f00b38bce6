"""The sources of an earlier research run that a follow-up question uses before, or instead of, a search."""

import asyncio
from collections.abc import Sequence
from typing import Final

from modules.llm_platform.application.research.context import FollowUp
from modules.llm_platform.application.research.search import MAX_RESULT_CHARS, wants_latest
from modules.llm_platform.domain.dtos.research_dtos import Source
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchResponse, WebSearchResultItem
from modules.llm_platform.domain.extractive.question import read_question
from modules.llm_platform.domain.extractive.selection import select_quotes
from modules.llm_platform.domain.retrieval.ranking import keyword_score

MAX_REUSED: Final = 5
MIN_REUSED_SCORE: Final = 3.0  # keyword score out of 10
INLINE_CHARS: Final = 30_000  # all sources together; longer ones are searched in a thread


def reusable_sources(follow_up: FollowUp, language: str) -> tuple[Source, ...]:
    """Return the earlier sources that match the question, best first, each at most MAX_RESULT_CHARS long."""
    short = [source.model_copy(update={"text": source.text[:MAX_RESULT_CHARS]}) for source in follow_up.sources]
    query = follow_up.query
    scores = {source.index: keyword_score(query, query, source.title, source.text, language) for source in short}
    matching = [source for source in short if scores[source.index] >= MIN_REUSED_SCORE]
    return tuple(sorted(matching, key=lambda source: -scores[source.index])[:MAX_REUSED])


async def is_answered(follow_up: FollowUp, sources: Sequence[Source], language: str) -> bool:
    """Return whether sentences of the sources answer the question, as asked and as understood. Never for the latest news.

    Both readings count: the topic alone fits the sources of an earlier answer on it.
    """
    if not sources or wants_latest(follow_up.asked) or wants_latest(follow_up.query):
        return False
    questions = [read_question(text, language) for text in dict.fromkeys((follow_up.asked, follow_up.query))]

    def has_quotes() -> bool:
        return all(select_quotes(question, sources).quotes for question in questions)

    is_long = sum(len(source.text) for source in sources) > INLINE_CHARS
    return await asyncio.to_thread(has_quotes) if is_long else has_quotes()


def earlier_results(sources: Sequence[Source]) -> WebSearchResponse:
    items = tuple(
        WebSearchResultItem(title=source.title, url=source.url, snippet=source.text, published_date=source.published)
        for source in sources
    )
    return WebSearchResponse(query="", results=items)
