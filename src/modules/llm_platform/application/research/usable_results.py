"""What of a provider's answer a report goes on with: a provider may be anybody's code, its results are strangers', and what
the store kept of them may have been carried here from elsewhere.
"""

from __future__ import annotations

from itertools import islice

from modules.llm_platform.application.research.gather import providers_of
from modules.llm_platform.domain.canonical_url import is_openable, is_web_url
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchResponse, WebSearchResultItem

MAX_TITLE_CHARS = 300  # of a result, as of a page
MAX_RESULT_CHARS = 20_000  # of what a provider says of a result: a long summary
DOCUMENTS = "documents"


def usable_results(answer: WebSearchResponse, count: int) -> tuple[WebSearchResultItem, ...]:
    """At most so many results as were asked for, none longer than a result is. Only the documents may name a document:
    what stands on a list of results of the web must not have a file read.
    """
    documents = DOCUMENTS in providers_of(answer)
    may_be_read = is_openable if documents else is_web_url
    items = (item for item in answer.results if may_be_read(item.url))
    return tuple(_cut(item) for item in islice(items, count))


def _cut(item: WebSearchResultItem) -> WebSearchResultItem:
    if len(item.title) <= MAX_TITLE_CHARS and max(len(item.snippet), len(item.summary or "")) <= MAX_RESULT_CHARS:
        return item
    summary = item.summary and item.summary[:MAX_RESULT_CHARS]
    short = {"title": item.title[:MAX_TITLE_CHARS], "snippet": item.snippet[:MAX_RESULT_CHARS], "summary": summary}
    return item.model_copy(update=short)
