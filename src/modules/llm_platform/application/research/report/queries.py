"""Write the search queries for a sub-question, in each language.

A model writes them. Without a model, or if it fails, the sub-question and its content words are the queries.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from modules.llm_platform.application.research.model_output.lists import make_list_request, read_strings, stream_list
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import LLMRequest
from modules.llm_platform.domain.dtos.report_dtos import PlanRequest
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.dtos.web_search_dtos import DOCUMENTS, SourceKind
from modules.llm_platform.domain.exceptions import LLMException
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.ports.tracing import stage
from modules.llm_platform.domain.research.content_words import content_words, shares_content_word
from modules.llm_platform.domain.research.question_selector import QuestionSelector, is_query
from modules.llm_platform.domain.text.language import (
    detect_language,
    get_language_name,
    get_primary_subtag,
    load_stop_words,
)
from modules.llm_platform.domain.text.tokens import split_words
from modules.llm_platform.domain.untrusted.untrusted_text import one_line

QUERIES_VERSION = "2"  # part of store keys: raise it when the prompt changes
QUERIES_MAX_TOKENS = 1024  # room for a model that thinks before it lists a few lines
SECOND_LANGUAGE = "en"  # most pages are written in English
MAX_QUERY_WORDS = 15  # a longer query of a model is a sentence, which engines answer badly
MAX_TOPIC_WORDS = 4  # words of the question that are added to a sub-question without its topic
UNUSABLE = "llm_provider: its answer contained no search query; the sub-question and its words are searched"

PROMPT = """\
Write queries for a web search engine that find the best pages about the topic, a side of the question.
Exactly {count}, in this order: {shares}.
A query is 3 to 10 words, as an expert would type it: the subject by its name, then what is to be found out about it. \
Names and terms that need no translation stay as they are; everything else is in the language of its query. \
No quotation marks, no operators.
Output only the queries, one a line, each after the mark "{mark}:" (the same mark in every language).

Question: {question}
Topic: {topic}"""
QUERY_MARKS = {"ru": "ЗАПРОС"}  # keyed by the language of the question, as SUB_QUESTION_MARKS
QUERY_MARK = "Query"


@dataclass(frozen=True, slots=True)
class QueryTask:
    """The task to write a query for a sub-question in each of `languages`. The first is the language of the question."""

    question: str
    sub_question: str
    languages: Sequence[str]

    @property
    def language(self) -> str:
        return self.languages[0]

    @property
    def written(self) -> tuple[str, str]:
        """The texts that a query may repeat."""
        return self.question, self.sub_question


@dataclass(frozen=True, slots=True)
class Queries:
    queries: tuple[str, ...]
    degraded: tuple[Degraded, ...] = ()


def select_source_kinds(asked: ResearchRequest | PlanRequest) -> tuple[tuple[SourceKind, ...], ...]:
    """Return the groups of source kinds, one for each search: all web kinds, and documents.

    There is none if the request names addresses and no sources.
    """
    if asked.urls and "sources" not in asked.model_fields_set:
        return ()
    web = tuple(kind for kind in asked.sources if kind != DOCUMENTS)
    documents: tuple[SourceKind, ...] = (DOCUMENTS,) if DOCUMENTS in asked.sources else ()
    return tuple(kinds for kinds in (web, documents) if kinds)


def choose_query_languages(question_language: str, configured: Sequence[str]) -> tuple[str, ...]:
    """Return the configured languages, or the language of the question and English, without repetition."""
    candidates = configured or (question_language, SECOND_LANGUAGE)
    found: dict[str, str] = {}
    for tag in candidates:
        found.setdefault(get_primary_subtag(tag), tag)
    return tuple(found.values())


@stage("queries")
async def plan_search_queries(task: QueryTask, llm: ILLMProvider | None, *, emit: Callable[[str], None]) -> Queries:
    """Return the queries, and emit each as soon as it is known."""
    selected = QuestionSelector(task.language, written=task.written, limit=len(task.languages), emit=emit)
    degraded: tuple[Degraded, ...] = ()

    def take(query: str) -> None:
        if len(query.split()) <= MAX_QUERY_WORDS:
            selected.add(query)

    if llm is not None:
        try:
            answer = await stream_list(llm, _make_request(task), take)
        except LLMException as error:
            degraded = (Degraded.of(f"queries/{llm.name}", error),)
        else:
            degraded = answer.degraded
            for query in parse(answer.content, " ".join(task.written), task.language):
                take(query)
            if not selected.items:
                degraded = (*degraded, Degraded(component=f"queries/{llm.name}", reason=UNUSABLE))
    if not selected.items:
        return Queries(_make_fallback_queries(task, emit), degraded)
    return Queries(tuple(selected.items), degraded)


def parse(text: str, topic: str, language: str) -> list[str]:
    """Return the queries in a model's answer, in any list format.

    Plain lines may be a refusal, so they count only if one of them shares a word with the topic.
    """
    listed = read_strings(text, plain=False)
    plain = [] if listed else read_strings(text)
    return listed or (plain if any(shares_content_word(line, topic, language) for line in plain) else [])


def _make_request(task: QueryTask) -> LLMRequest:
    prompt = PROMPT.format(
        count=len(task.languages),
        shares=", then ".join(f"1 in {get_language_name(tag)}" for tag in task.languages),
        mark=QUERY_MARKS.get(get_primary_subtag(task.language), QUERY_MARK),
        question=one_line(task.question),
        topic=one_line(task.sub_question),
    )
    return make_list_request(prompt, QUERIES_MAX_TOKENS)


def _make_fallback_queries(task: QueryTask, emit: Callable[[str], None]) -> tuple[str, ...]:
    """Return the sub-question and a query of its content words.

    If the sub-question shares no word with the question, words of the question are added, because it does not name its topic.
    """
    own = content_words(task.sub_question, task.language)
    if not shares_content_word(task.sub_question, task.question, task.language):
        own += content_words(task.question, task.language)[:MAX_TOPIC_WORDS]
    candidates = [query for query in (" ".join(own), task.sub_question) if is_query(query, task.written)]
    by_words = {tuple(split_words(query)): query for query in candidates}
    found = tuple(by_words.values())[::-1][: len(task.languages)]
    for query in found:
        emit(query)
    return found


def detect_query_language(query: str, languages: Sequence[str]) -> str | None:
    """Return the language of a query, as the matching tag of `languages` (pt-BR, not pt); None if it is unknown.

    If a query is too short to detect its language, its function words decide among `languages`.
    """
    if found := detect_language(query):
        return next((tag for tag in languages if get_primary_subtag(tag) == found), found)
    if len(languages) == 1:
        return languages[0]
    used = set(split_words(query))
    matches = sorted(((len(used & load_stop_words(tag)), tag) for tag in languages), reverse=True)
    return matches[0][1] if matches and matches[0][0] > matches[1][0] else None
