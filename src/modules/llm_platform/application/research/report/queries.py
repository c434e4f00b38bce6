"""What a sub-question asks the search engines, in each language (requirement MS1).

A model writes the queries; where there is none, or it fails, the sub-question is searched as it stands, and by its words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from modules.llm_platform.application.research.model_output.lists import read_strings
from modules.llm_platform.application.research.model_output.streamed_lists import stream_list
from modules.llm_platform.application.research.plan import Chosen, content_words, is_query, similar_questions
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import ChatMessage, LLMRequest
from modules.llm_platform.domain.exceptions import LLMException
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.text.language import detect, language_name, stop_words
from modules.llm_platform.domain.text.tokens import words
from modules.llm_platform.domain.untrusted_text import one_line

QUERIES_VERSION = "1"  # part of the key of what is kept: raise it with every change of the words below
QUERIES_MAX_TOKENS = 1024  # room for a model that thinks before it lists a few lines
SECOND_LANGUAGE = "en"  # where most of what can be read is written
MAX_TOPIC_WORDS = 4  # of the question, added to a sub-question that does not name what it is about
UNUSABLE = "llm_provider: its answer held no search query"

_PROMPT = """\
Write queries for a web search engine that find the best pages about the topic, a side of the question.
Exactly {count}, in this order: {shares}.
A query is 3 to 10 words, as an expert would type it: the subject by its name, then what is to be found out about it. \
Names and terms that need no translation stay as they are; everything else is in the language of its query. \
{variety}No quotation marks, no operators.
Output only the queries, one a line, each after the mark "ЗАПРОС:" (the same mark in every language).

Question: {question}
Topic: {topic}"""
_VARIETY = "Queries in one language differ in their words and look for different pages. "


@dataclass(frozen=True, slots=True)
class Queries:
    """What to search for, no query twice."""

    queries: tuple[str, ...]
    degraded: tuple[Degraded, ...] = ()


def query_languages(question_language: str, wanted: Sequence[str]) -> tuple[str, ...]:
    """The languages to search in: those that are wanted, else the question's and English; none twice."""
    asked = wanted or (question_language, SECOND_LANGUAGE)
    found: dict[str, str] = {}
    for tag in asked:
        found.setdefault(tag.partition("-")[0].lower(), tag)
    return tuple(found.values())


async def search_queries(
    question: str,
    sub_question: str,
    languages: Sequence[str],
    per_language: int,
    llm: ILLMProvider | None,
    *,
    tell: Callable[[str], None],
) -> Queries:
    """Up to `per_language` queries in each language, each told as soon as it is known; a model's failure is in `degraded`."""
    chosen = Chosen(languages[0], limit=per_language * len(languages), tell=tell)
    degraded: tuple[Degraded, ...] = ()
    if llm is not None:
        try:
            answer = await stream_list(llm, _request(question, sub_question, languages, per_language), chosen.take)
        except LLMException as error:
            degraded = (Degraded.of(f"queries/{llm.name}", error),)
        else:
            degraded = answer.degraded
            chosen.take_all(parse(answer.content, f"{question} {sub_question}", languages[0]))
            if not chosen.items:
                degraded = (*degraded, Degraded(component=f"queries/{llm.name}", reason=UNUSABLE))
    if not chosen.items:
        return Queries(_plain(question, sub_question, languages, per_language, tell), degraded)
    return Queries(tuple(chosen.items), degraded)


def parse(text: str, topic: str, language: str) -> list[str]:
    """The queries of a model's answer, in whatever form they come.

    Plain lines may be anything (`None`, a refusal): they count only where one of them has a word of the topic, in whatever
    language the others are.
    """
    listed = read_strings(text, plain=False)
    plain = [] if listed else read_strings(text)
    return listed or (plain if any(similar_questions(line, topic, language) for line in plain) else [])


def _request(question: str, sub_question: str, languages: Sequence[str], per_language: int) -> LLMRequest:
    prompt = _PROMPT.format(
        count=per_language * len(languages),
        shares=", then ".join(f"{per_language} in {language_name(tag)}" for tag in languages),
        variety=_VARIETY if per_language > 1 else "",
        question=one_line(question),
        topic=one_line(sub_question),
    )
    return LLMRequest(messages=(ChatMessage(role="user", content=prompt),), max_tokens=QUERIES_MAX_TOKENS)


def _plain(
    question: str, sub_question: str, languages: Sequence[str], per_language: int, tell: Callable[[str], None]
) -> tuple[str, ...]:
    """The sub-question, then its words alone, with the question's where it does not name what it is about."""
    language = languages[0]
    own = content_words(sub_question, language)
    if not similar_questions(sub_question, question, language):
        own += content_words(question, language)[:MAX_TOPIC_WORDS]
    by_words = {tuple(words(query)): query for query in (" ".join(own), sub_question) if is_query(query)}
    found = tuple(by_words.values())[::-1][: per_language * len(languages)]
    for query in found:
        tell(query)
    return found


# In which language a query of a report is searched (docs/explanation/searching.md).


def query_language(query: str, possible: Sequence[str]) -> str | None:
    """Its own, as one of the tags that are `possible` (pt-BR, not pt); None, for all languages, where nobody can say.

    A query is short, and often too little to tell one language of the world: between two its function words do.
    """
    if found := detect(query):
        return next((tag for tag in possible if tag.partition("-")[0] == found), found)
    if len(possible) == 1:
        return possible[0]
    used = set(words(query))
    met = sorted(((len(used & stop_words(tag)), tag) for tag in possible), reverse=True)
    return met[0][1] if met and met[0][0] > met[1][0] else None
