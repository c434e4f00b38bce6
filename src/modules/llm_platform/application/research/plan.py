"""The first stage: what to look for. A deep research searches three questions (docs/reference/http.md), a report
answers up to three sub-questions (requirement MS1).

A model makes them where there is one; a plain decomposition fills what it leaves open, and serves alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from modules.llm_platform.application.research.model_output.lists import read_strings
from modules.llm_platform.application.research.model_output.streamed_lists import stream_list
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, ChatMessage, LLMRequest, Spending
from modules.llm_platform.domain.dtos.web_search_dtos import MAX_QUERY_CHARS, clean_query
from modules.llm_platform.domain.exceptions import LLMException
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.text.language import language_name, stop_words
from modules.llm_platform.domain.text.tokens import words
from modules.llm_platform.domain.untrusted_text import one_line

LATE_PLAN = "timeout: the model did not plan in time, the question was taken apart without it"
QUESTIONS = 3
MIN_QUESTION_CHARS = 3
PLAN_MAX_TOKENS = 1024  # room for a model that thinks before it lists three lines
PLAN_VERSION = "1"  # part of the key of what is kept: raise it with every change of the words of the prompts
UNUSABLE = "llm_provider: its answer held no sub-question; the question was taken apart without it"
MAX_REFUSED = 12  # sub-questions that are named to the model as not wanted, the last ones
KIN_CHARS = 4  # two words that begin with the same four letters are forms of one word, or nearly
MAX_TOPIC_WORDS = 12  # a longer topic finds nothing, with more words after it still less
MAX_TOPIC_CHARS = 200

PROMPT = """Split the question into {count} web searches that together answer it. Each covers another side of it and can be
understood without the others. Keep names and terms as they are; write in the language of the question.
Output only the searches, one per line, each starting with "Question:".

Question: {question}"""

REPORT_PROMPT = """\
Break the question down into up to {count} sub-questions, whose answers together make a report on it.
Each asks for one thing, is short and clear, and is understood without the others: it names what it is about. They cover \
different sides without overlap, first of all those that the question itself names. Names and terms stay as they are.
{refused}Write in {language}. Output only the sub-questions, one a line, each after the mark "ПОДЗАПРОС:" (the same mark in \
every language).

Question: {question}"""
_REFUSED = "The reader has seen and does not want these, so find other sides: {others}\n"

_QUOTES = "\"'“”„«»()¿¡"
_ENDS = "?？.!,;:。！，；："  # not taken off the beginning: .NET is a name
_AND = re.compile(
    r"\s*[;?？；。]\s+|\s*,\s+|\s+(?:and|or|versus|vs\.?|und|oder|et|ou|y|e|o|i|и|или|та)\s+|(?:以及|还有|和|与|、|と)",
    re.I,
)
_CLAUSE = re.compile(
    r"\s*[;?？；。]\s+|\s*[,，]\s*(?:(?:and|or|und|oder|et|ou|y|e|o|i|и|или|та)\s+)?|\s+(?:and|und|et|y|e|i|и|та)\s+",
    re.I,
)


# Sides of a topic that searching for the bare topic misses, by language.
_ASPECTS = {
    "en": ("how it works", "problems and limits"),
    "de": ("Funktionsweise", "Probleme und Grenzen"),
    "fr": ("fonctionnement", "problèmes et limites"),
    "es": ("cómo funciona", "problemas y límites"),
    "it": ("come funziona", "problemi e limiti"),
    "pt": ("como funciona", "problemas e limites"),
    "ru": ("как это работает", "проблемы и ограничения"),
    "zh": ("原理", "问题与局限"),
    "ja": ("仕組み", "課題"),
    "nl": ("hoe het werkt", "problemen en beperkingen"),
    "pl": ("jak to działa", "problemy i ograniczenia"),
    "uk": ("як це працює", "проблеми та обмеження"),
    "tr": ("nasıl çalışır", "sorunlar ve sınırlar"),
    "ko": ("작동 원리", "문제점과 한계"),
    "ar": ("كيف يعمل", "المشاكل والقيود"),
    "hi": ("कैसे काम करता है", "समस्याएँ और सीमाएँ"),
}


@dataclass(frozen=True, slots=True)
class Plan:
    """The questions to search, none of them twice, and what making them took.

    `by_model`: a model wrote at least one of them and came to its own end, so that asking it again would give no more.
    """

    questions: tuple[str, ...]
    spent: Spending = NOTHING_SPENT
    degraded: tuple[Degraded, ...] = ()
    by_model: bool = False


async def plan(question: str, language: str, llm: ILLMProvider | None) -> Plan:
    """Three questions; a model that fails is reported in `degraded`, and the decomposition serves."""
    if llm is None:
        return Plan(distinct(decompose_question(question, language), language))
    prompt = PROMPT.format(count=QUESTIONS, question=question)
    ask = LLMRequest(messages=(ChatMessage(role="user", content=prompt),), max_tokens=PLAN_MAX_TOKENS)
    try:
        answer = await llm.generate(ask)
    except LLMException as error:
        degraded = (Degraded.of(f"plan/{llm.name}", error),)
        return Plan(distinct(decompose_question(question, language), language), error.spent, degraded)
    written = parse(answer.content, question, language)
    found = distinct([*written, *decompose_question(question, language)], language)
    by_model = bool(written) and answer.finish_reason == "stop"
    return Plan(found, answer.spent, answer.degraded, by_model)


async def sub_questions(
    question: str,
    language: str,
    llm: ILLMProvider | None,
    *,
    other_than: Sequence[str] = (),
    tell: Callable[[str], None],
) -> Plan:
    """Up to three sub-questions, each told as soon as it is known; `other_than` were looked at and not wanted.

    A model's plan may be shorter than three. Where it has none, or breaks off, the decomposition fills the rest, the question
    itself first; `degraded` says why. What is told is the plan, in its order.
    """
    chosen = Chosen(language, taken=other_than, tell=tell)
    degraded: tuple[Degraded, ...] = ()
    spent, whole = NOTHING_SPENT, False
    if llm is not None:
        try:
            answer = await stream_list(llm, _report_request(question, language, other_than), chosen.take)
        except LLMException as error:
            spent, degraded = error.spent, (Degraded.of(f"plan/{llm.name}", error),)
        else:
            spent, degraded = answer.spent, answer.degraded
            chosen.take_all(parse(answer.content, question, language))  # lines without a prefix, or with several
            whole = bool(chosen.items)
            if not whole:
                degraded = (*degraded, Degraded(component=f"plan/{llm.name}", reason=UNUSABLE))
    if not whole:
        chosen.take_all(aspect_questions(question, language))
    if not chosen.items:  # everything that we could think of was refused
        chosen = Chosen(language, tell=tell)
        chosen.take_all(aspect_questions(question, language))
    return Plan(tuple(chosen.items), spent, degraded)


def _report_request(question: str, language: str, other_than: Sequence[str]) -> LLMRequest:
    refused = _REFUSED.format(others=" | ".join(map(one_line, other_than[-MAX_REFUSED:]))) if other_than else ""
    prompt = REPORT_PROMPT.format(
        count=QUESTIONS, refused=refused, language=language_name(language), question=one_line(question)
    )
    return LLMRequest(messages=(ChatMessage(role="user", content=prompt),), max_tokens=PLAN_MAX_TOKENS)


def parse(text: str, question: str, language: str) -> list[str]:
    """The questions of a model's answer, in whatever form they come.

    A plain line may be anything (`None`, `Sure, here they are:`): it counts only with a word of the question in it.
    """
    listed = read_strings(text, plain=False)
    return listed or [line for line in read_strings(text) if similar_questions(line, question, language)]


def similar_questions(text: str, question: str, language: str) -> bool:
    """Whether the text has a word of the question, in whatever form; function words do not count."""
    return not _beginnings(text, language).isdisjoint(_beginnings(question, language))


def _beginnings(text: str, language: str) -> set[str]:
    return {word[:KIN_CHARS] for word in _meaning(text, language)}


def decompose_question(question: str, language: str) -> list[str]:
    """The question, its parts, then sides of its topic: what a person would search without thinking long."""
    topic = content_words(question, language)
    parts = [part.strip(" ?？.!") for part in _AND.split(question)]
    parts = [_with_topic(part, topic, language) for part in parts if len(content_words(part, language)) >= 1]
    subject = (" ".join(topic[:MAX_TOPIC_WORDS]) or question)[:MAX_TOPIC_CHARS].rstrip()
    aspects = [f"{subject} {aspect}" for aspect in _ASPECTS.get(language.partition("-")[0], _ASPECTS["en"])]
    return [question, *(parts if len(parts) > 1 else []), *aspects]


def aspect_questions(question: str, language: str) -> list[str]:
    """Sub-questions that can stand as headings: the parts of the question where each is a question of its own, else the
    question and sides of it.
    """
    parts = [part.strip(" ?？.!") for part in _CLAUSE.split(question)]
    if len(parts) > 1 and all(_asks(part, language) for part in parts):
        mark = question[-1] if question.endswith(("?", "？")) else ""
        return [f"{part[0].upper()}{part[1:]}{mark}" for part in parts]
    bare = question.rstrip(" ?？.!。")[:MAX_TOPIC_CHARS]
    aspects = _ASPECTS.get(language.partition("-")[0], _ASPECTS["en"])
    return [question, *(f"{bare}: {aspect}" for aspect in aspects if not similar_questions(aspect, question, language))]


def _asks(part: str, language: str) -> bool:
    """Whether the part begins as questions do, with a function word, and says something after it."""
    first, *rest = words(part) or [""]
    return bool(rest) and first in stop_words(language) and bool(content_words(part, language))


def content_words(text: str, language: str) -> list[str]:
    """The words of a question that a search needs, as they were written."""
    stops = stop_words(language)
    return [
        word.strip(_QUOTES).rstrip(_ENDS)
        for word in text.split()
        if (folded := words(word)) and not all(w in stops for w in folded)
    ]


def _with_topic(part: str, topic: Sequence[str], language: str) -> str:
    """A part that stands alone: one content word says little without the topic that the others share."""
    own = content_words(part, language)
    missing = [word for word in topic if word not in part]
    return part if len(own) > 1 or not missing else " ".join([part, *missing[:3]])


class Chosen:
    """The first `limit` usable questions that ask for something else than those before them and those `taken`.

    Each is told when it is taken.
    """

    def __init__(
        self,
        language: str,
        *,
        taken: Iterable[str] = (),
        limit: int = QUESTIONS,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self.items: list[str] = []
        self._language, self._limit, self._tell = language, limit, tell
        self._seen = {_meaning(question, language) for question in taken}

    def take(self, question: str) -> None:
        if len(self.items) == self._limit or not is_query(question):
            return
        meaning = _meaning(question, self._language)
        if meaning in self._seen:
            return
        self._seen.add(meaning)
        self.items.append(question)
        if self._tell:
            self._tell(question)

    def take_all(self, questions: Iterable[str]) -> None:
        for question in questions:
            self.take(question)


def distinct(
    questions: Iterable[str], language: str, taken: Iterable[str] = (), limit: int = QUESTIONS
) -> tuple[str, ...]:
    """What is `Chosen` of these questions."""
    chosen = Chosen(language, taken=taken, limit=limit)
    chosen.take_all(questions)
    return tuple(chosen.items)


def is_query(question: str) -> bool:
    """Whether providers take it: neither too short nor too long, something in it can be seen, all of it can be sent."""
    try:
        question.encode()
        return MIN_QUESTION_CHARS <= len(clean_query(question)) <= MAX_QUERY_CHARS
    except ValueError:  # half a character, too
        return False


def _meaning(question: str, language: str) -> frozenset[str]:
    """What a search engine sees of it: two questions with the same words, stop words apart, are one."""
    found = frozenset(words(question)) or frozenset(question.split())  # signs alone (three emoji) are a query too
    return found - stop_words(language) or found
