"""The plan of a research run: three search queries of a deep one (docs/reference/http.md), or up to three sub-questions of a
report.

A model writes them; a decomposition by rules completes its list, and replaces it if no model is configured.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from modules.llm_platform.application.research.context import ResearchContext
from modules.llm_platform.application.research.events import Planned
from modules.llm_platform.application.research.model_output.lists import list_request, read_strings, stream_list
from modules.llm_platform.domain.concurrency.deadline import deadline_in
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, LLMRequest, Spending
from modules.llm_platform.domain.dtos.report_dtos import ResearchPlan
from modules.llm_platform.domain.dtos.web_search_dtos import MAX_QUERY_CHARS, clean_query
from modules.llm_platform.domain.exceptions import LLMException
from modules.llm_platform.domain.ports.cache import ICache
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.ports.tracing import stage
from modules.llm_platform.domain.research.store_key import store_key
from modules.llm_platform.domain.search.query_syntax import has_foreign_syntax
from modules.llm_platform.domain.text.data_files import load_data
from modules.llm_platform.domain.text.language import language_name, stop_words
from modules.llm_platform.domain.text.tokens import words
from modules.llm_platform.domain.untrusted.untrusted_text import one_line

LATE_PLAN = "timeout: the model did not plan in time; the question was split without it"
MAX_QUESTIONS = 3
MIN_QUESTION_CHARS = 3
PLAN_MAX_TOKENS = 1024  # leaves room for reasoning before the list
PLAN_VERSION = "2"  # Part of the keys of cached plans: raise it with every change of PROMPT.
SUB_QUESTIONS_VERSION = "2"  # Part of the keys of stored reports: raise it with every change of REPORT_PROMPT.
UNUSABLE = "llm_provider: its answer contained no sub-question; the question was split without it"
PARTIAL = "llm_provider: its only sub-question leaves out a part of the question; the question was split without it"
MAX_REJECTED = 12  # sub-questions that the prompt names as rejected, the last ones
WORD_STEM_CHARS = 4  # words with the same first letters count as forms of one word
MAX_TOPIC_WORDS = 12  # a longer query finds nothing
MAX_TOPIC_CHARS = 200

PROMPT = """Split the question into {count} web searches that together answer it. Each covers another side of it and can be
understood without the others. Keep names and terms as they are; write in the language of the question.
Output only the searches, one per line, each starting with "Question:".

Question: {question}"""

REPORT_PROMPT = """\
Break the question down into up to {count} sub-questions, whose answers together make a report on it.
Each asks for one thing, is short and clear, and is understood without the others: it names what it is about. They cover \
different sides without overlap, first of all those that the question itself names. Names and terms stay as they are.
{rejected}Write in {language}. Output only the sub-questions, one a line, each after the mark "{mark}:".

Question: {question}"""
SUB_QUESTION_MARKS = {"ru": "ПОДЗАПРОС"}  # a mark in another script makes small models change the language
SUB_QUESTION_MARK = "Sub-question"  # used for all other languages
_REJECTED = "The reader has seen and does not want these, so find other sides: {others}\n"

_QUOTES = "\"'“”„«»()¿¡"
_ENDS = "?？.!,;:。！，；："  # kept at the start of a line: .NET is a name
_AND = re.compile(
    r"\s*[;?？；。]\s+|\s*,\s+|\s+(?:and|or|versus|vs\.?|und|oder|et|ou|y|e|o|i|и|или|та)\s+|(?:以及|还有|和|与|、|と)",
    re.I,
)
_CLAUSE = re.compile(
    r"\s*[;?？；。]\s+|\s*[,，]\s*(?:(?:and|or|und|oder|et|ou|y|e|o|i|и|или|та)\s+)?|\s+(?:and|und|et|y|e|i|и|та)\s+",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Plan:
    """Distinct questions to search, and what the plan cost.

    `by_model`: a model wrote at least one of them and its answer was not cut off.
    """

    questions: tuple[str, ...]
    spent: Spending = NOTHING_SPENT
    degraded: tuple[Degraded, ...] = ()
    by_model: bool = False


@dataclass(frozen=True, slots=True)
class SearchPlanner:
    """Plans the searches of shallow and deep research runs: with `llm` for at most `timeout_s`, by rules without it.

    - `cache` has the questions of deep runs for `ttl_s`; None disables it.
    - `models` names the models that plan, for its keys.
    """

    llm: ILLMProvider | None
    timeout_s: float
    cache: ICache[ResearchPlan] | None = None
    ttl_s: float = 0.0
    models: str = ""

    async def plan(self, context: ResearchContext) -> Plan:
        """Return the question itself for a shallow run, else its searches, which are emitted."""
        question, language, follow_up = context.request.query, context.language, context.follow_up
        if context.request.depth == "shallow":
            return Plan((question,))
        if follow_up and follow_up.questions:  # the model planned them when it read the question; the cost is counted there
            planned = Plan(follow_up.questions, by_model=True)
        else:
            try:
                async with deadline_in(self.timeout_s):
                    planned = await self._cached_plan(question, language)
            except TimeoutError:
                planned = replace(
                    await plan(question, language, None),
                    spent=Spending(calls=1),  # the call is paid for, its tokens are unknown
                    degraded=(Degraded(component="plan", reason=LATE_PLAN),),
                )
        context.emit(Planned(request_id=context.request_id, questions=planned.questions))
        return planned

    async def _cached_plan(self, question: str, language: str) -> Plan:
        """Return the cached plan of the same question, or a new one; a degraded plan is not cached."""
        if self.cache is None or self.llm is None or self.ttl_s <= 0:
            return await plan(question, language, self.llm)
        key = store_key(version=PLAN_VERSION, model=self.models or self.llm.name, language=language, deep=question)
        if cached := usable_plan(await self.cache.get(key), question):
            return Plan(cached.questions)
        made = await plan(question, language, self.llm)
        if made.by_model and not made.degraded:
            value = ResearchPlan(query=question, language=language, questions=made.questions, planner=self.llm.name)
            await self.cache.set(key, value, self.ttl_s)
        return made


@stage("plan")
async def plan(question: str, language: str, llm: ILLMProvider | None) -> Plan:
    """Three questions. If the model fails, `degraded` reports it and the decomposition is used."""
    if llm is None:
        return Plan(distinct_questions(decompose_question(question, language), language, written=(question,)))
    prompt = PROMPT.format(count=MAX_QUESTIONS, question=question)
    request = list_request(prompt, PLAN_MAX_TOKENS)
    try:
        answer = await llm.generate(request)
    except LLMException as error:
        degraded = (Degraded.of(f"plan/{llm.name}", error),)
        by_rules = distinct_questions(decompose_question(question, language), language, written=(question,))
        return Plan(by_rules, error.spent, degraded)
    planned = distinct_questions(parse_questions(answer.content, question, language), language, written=(question,))
    questions = distinct_questions([*planned, *decompose_question(question, language)], language, written=(question,))
    by_model = bool(planned) and answer.finish_reason == "stop"
    return Plan(questions, answer.spent, answer.degraded, by_model)


@stage("plan")
async def sub_questions(
    question: str,
    language: str,
    llm: ILLMProvider | None,
    *,
    other_than: Sequence[str] = (),
    emit: Callable[[str], None],
) -> Plan:
    """Up to three sub-questions, each emitted as soon as it is known; none of the rejected ones in `other_than`.

    A model may plan fewer than three. If it plans none, breaks off, or plans one that leaves out a part of the question, the
    decomposition completes the plan, and `degraded` says why.
    """
    selected = QuestionSelector(language, written=(question,), taken=other_than, emit=emit)
    degraded: tuple[Degraded, ...] = ()
    spent, is_complete = NOTHING_SPENT, False
    if llm is not None:
        try:
            answer = await stream_list(llm, _report_request(question, language, other_than), selected.add)
        except LLMException as error:
            spent, degraded = error.spent, (Degraded.of(f"plan/{llm.name}", error),)
        else:
            spent, degraded = answer.spent, answer.degraded
            selected.add_all(parse_questions(answer.content, question, language))  # reads lines without the prefix too
            planned = selected.items
            is_complete = len(planned) > 1 or any(
                other_than or _covers(sub_question, question, language) for sub_question in planned
            )
            if not is_complete:
                reason = PARTIAL if planned else UNUSABLE
                degraded = (*degraded, Degraded(component=f"plan/{llm.name}", reason=reason))
    if not is_complete:
        selected.add_all(aspect_questions(question, language))
    if not selected.items:  # all of them were rejected before
        selected = QuestionSelector(language, written=(question,), emit=emit)
        selected.add_all(aspect_questions(question, language))
    return Plan(tuple(selected.items), spent, degraded)


def _report_request(question: str, language: str, other_than: Sequence[str]) -> LLMRequest:
    rejected = _REJECTED.format(others=" | ".join(map(one_line, other_than[-MAX_REJECTED:]))) if other_than else ""
    prompt = REPORT_PROMPT.format(
        count=MAX_QUESTIONS,
        rejected=rejected,
        language=language_name(language),
        mark=SUB_QUESTION_MARKS.get(language.partition("-")[0], SUB_QUESTION_MARK),
        question=one_line(question),
    )
    return list_request(prompt, PLAN_MAX_TOKENS)


def parse_questions(text: str, question: str, language: str) -> list[str]:
    """Return the questions of a model's answer, in any of its formats.

    A plain line (`Sure, here they are:`) counts only if it shares a content word with the question.
    """
    listed = read_strings(text, plain=False)
    return listed or [line for line in read_strings(text) if shares_content_word(line, question, language)]


def shares_content_word(text: str, question: str, language: str) -> bool:
    """Return whether the two texts share a content word, in any inflection."""
    return not _stems(text, language).isdisjoint(_stems(question, language))


def _covers(sub_question: str, question: str, language: str) -> bool:
    """Return whether the sub-question shares a content word with each part of the question, in any inflection."""
    parts = [part for part in _CLAUSE.split(question) if content_words(part, language)]
    return all(shares_content_word(sub_question, part, language) for part in parts)


def _stems(text: str, language: str) -> set[str]:
    return {word[:WORD_STEM_CHARS] for word in _content_key(text, language)}


def usable_plan(stored: ResearchPlan | None, question: str) -> ResearchPlan | None:
    """A stored plan of the question with the questions that may be searched for, MAX_QUESTIONS at most; None without any."""
    questions = (
        tuple(sub_question for sub_question in stored.questions if is_query(sub_question, (question,)))
        if stored
        else ()
    )
    return stored.model_copy(update={"questions": questions[:MAX_QUESTIONS]}) if stored and questions else None


def decompose_question(question: str, language: str) -> list[str]:
    """Return the question, its parts, then aspects of its topic."""
    topic = content_words(question, language)
    parts = [part.strip(" ?？.!") for part in _AND.split(question)]
    parts = [_with_topic(part, topic, language) for part in parts if len(content_words(part, language)) >= 1]
    subject = (" ".join(topic[:MAX_TOPIC_WORDS]) or question)[:MAX_TOPIC_CHARS].rstrip()
    aspects = [f"{subject} {aspect}" for aspect in _aspects(language)]
    return [question, *(parts if len(parts) > 1 else []), *aspects]


def _aspects(language: str) -> list[str]:
    """Aspects that a search for the bare topic misses, in the language or in English."""
    by_language: dict[str, list[str]] = load_data("aspects")
    return by_language.get(language.partition("-")[0], by_language["en"])


def aspect_questions(question: str, language: str) -> list[str]:
    """Sub-questions that can be headings: the parts of the question if each is a question itself, else the question and its
    aspects.
    """
    parts = [part.strip(" ?？.!") for part in _CLAUSE.split(question)]
    if len(parts) > 1 and all(_is_question(part, language) for part in parts):
        mark = question[-1] if question.endswith(("?", "？")) else ""
        return [f"{part[0].upper()}{part[1:]}{mark}" for part in parts]
    bare = question.rstrip(" ?？.!。")[:MAX_TOPIC_CHARS]
    aspects = _aspects(language)
    return [question, *(f"{bare}: {aspect}" for aspect in aspects if not shares_content_word(aspect, question, language))]


def _is_question(part: str, language: str) -> bool:
    """Return whether the part starts with a function word, as questions do, and has content words."""
    first, *rest = words(part) or [""]
    return bool(rest) and first in stop_words(language) and bool(content_words(part, language))


def content_words(text: str, language: str) -> list[str]:
    """Return the words without the stop words, as written."""
    stops = stop_words(language)
    return [
        word.strip(_QUOTES).rstrip(_ENDS)
        for word in text.split()
        if (folded := words(word)) and not all(w in stops for w in folded)
    ]


def _with_topic(part: str, topic: Sequence[str], language: str) -> str:
    """Return the part, with words of the topic if it has a single content word."""
    own = content_words(part, language)
    missing = [word for word in topic if word not in part]
    return part if len(own) > 1 or not missing else " ".join([part, *missing[:3]])


class QuestionSelector:
    """Collects the first `limit` valid questions that differ from each other and from those in `taken`; emits each one.

    `written` are the texts of the reader, as in `is_query`.
    """

    def __init__(
        self,
        language: str,
        *,
        written: Iterable[str],
        taken: Iterable[str] = (),
        limit: int = MAX_QUESTIONS,
        emit: Callable[[str], None] | None = None,
    ) -> None:
        self.items: list[str] = []
        self._language, self._limit, self._emit = language, limit, emit
        self._written = tuple(written)
        self._seen = {_content_key(question, language) for question in taken}

    def add(self, question: str) -> None:
        if len(self.items) == self._limit or not is_query(question, self._written):
            return
        key = _content_key(question, self._language)
        if key in self._seen:
            return
        self._seen.add(key)
        self.items.append(question)
        if self._emit:
            self._emit(question)

    def add_all(self, questions: Iterable[str]) -> None:
        for question in questions:
            self.add(question)


def distinct_questions(
    questions: Iterable[str],
    language: str,
    taken: Iterable[str] = (),
    limit: int = MAX_QUESTIONS,
    *,
    written: Iterable[str],
) -> tuple[str, ...]:
    """Return the questions that a QuestionSelector accepts."""
    selected = QuestionSelector(language, written=written, taken=taken, limit=limit)
    selected.add_all(questions)
    return tuple(selected.items)


def is_query(question: str, written: Iterable[str]) -> bool:
    """Return whether a question of a model, an engine or a store may be searched for.

    Providers accept it (valid length, visible characters, encodable as UTF-8), and its addresses, operators and bangs stand in
    one of the texts that the reader wrote.
    """
    try:
        question.encode()
        is_accepted = MIN_QUESTION_CHARS <= len(clean_query(question)) <= MAX_QUERY_CHARS
    except ValueError:  # a lone surrogate is a UnicodeEncodeError
        return False
    return is_accepted and not has_foreign_syntax(question, written)


def _content_key(question: str, language: str) -> frozenset[str]:
    """Return the words without stop words: questions with equal keys find the same."""
    found = frozenset(words(question)) or frozenset(question.split())  # emoji alone are a query too
    return found - stop_words(language) or found
