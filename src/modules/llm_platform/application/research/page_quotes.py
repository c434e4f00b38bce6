"""A page in short without a model: the sentences that it begins with, and those that bear on the question."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from modules.llm_platform.domain.answer_text import sanitize
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.research_dtos import Source
from modules.llm_platform.domain.language import detect
from modules.llm_platform.domain.quoting.choice import extract
from modules.llm_platform.domain.quoting.question import read_question
from modules.llm_platform.domain.quoting.sentences import Sentence, read_sentences

SENTENCES = 5  # of a short text (mind-search.md §5)
POINTS = 8  # of a long one
OPENING = 2  # sentences of the beginning: what the page is about, before what answers
MIN_CHARS = 40  # a shorter one at the beginning of a page is a menu's or a byline
LOOKED_AT_CHARS = 200_000
OPENING_CHARS = 8_000  # where a page says what it is about
FALLBACK_CHARS = 500  # of a page without a sentence


def quote_page(page: Page, question: str, language: str, *, long: bool) -> str:
    """Sentences as they stand on the page, in its order; points where it is `long`. Empty only where the page is."""
    text = page.text[:LOOKED_AT_CHARS]
    source = Source(index=1, title=page.title, url=page.url, text=text)
    quotes = extract(read_question(question, detect(question) or language), [source]).quotes
    answering = [quote.sentence for quote in quotes]
    count = POINTS if long else SENTENCES
    opening = list(_opening(text, count if not answering else SENTENCES))
    told = list(_each_once([*opening[:OPENING], *answering, *opening[OPENING:]], count))
    if not told:
        return sanitize(text[:FALLBACK_CHARS], ()).strip()
    return sanitize("\n".join(f"- {each}" for each in told) if long else " ".join(told), ()).strip()


def _opening(text: str, count: int) -> Iterable[Sentence]:
    """The first sentences of running text that can stand alone."""
    found = read_sentences(text[:OPENING_CHARS], detect(text) or "en", lambda _: 1)
    return itertools.islice(filter(_stands_alone, found), count)


def _stands_alone(sentence: Sentence) -> bool:
    whole = sentence.whole and not sentence.item and not sentence.row
    return whole and len(sentence.text) >= MIN_CHARS and not sentence.text.endswith((":", "："))


def _each_once(sentences: Iterable[Sentence], count: int) -> Iterable[str]:
    return itertools.islice(dict.fromkeys(each.text.strip() for each in sentences), count)
