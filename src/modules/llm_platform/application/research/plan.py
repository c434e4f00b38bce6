"""Stage one of a deep research: three different questions to search (interface.md, POST /research).

A model makes them where there is one; what it leaves open is filled by a plain decomposition, which also serves alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, ChatMessage, LLMRequest, Spending
from modules.llm_platform.domain.dtos.web_search_dtos import MAX_QUERY_CHARS, clean_query
from modules.llm_platform.domain.exceptions import LLMException
from modules.llm_platform.domain.language import stop_words
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.text import words

QUESTIONS = 3
MIN_QUESTION_CHARS = 3
PLAN_MAX_TOKENS = 1024  # room for a model that thinks before it lists three lines
MAX_PLAN_LINES = 50
MAX_TOPIC_WORDS = 12  # a longer topic finds nothing, with more words after it still less
MAX_TOPIC_CHARS = 200

PROMPT = """Split the question into {count} web searches that together answer it. Each covers another side of it and can be
understood without the others. Keep names and terms as they are; write in the language of the question.
Output only the searches, one per line, each starting with "Question:".

Question: {question}"""

_PREFIX = re.compile(
    r"^\W*(?:sub-?)?(?:question|query|search|подзапрос|запрос|вопрос|frage|suche|pregunta|recherche|问题|查询)\s*\d*\s*[:：]\s*",
    re.I,
)
_BULLET = re.compile(r"^\s*(?:[-*•–]|\(?\d{1,2}[.):])\s+")
_QUOTES = "\"'“”„«»()¿¡"
_ENDS = "?？.!,;:。！，；："  # not taken off the beginning: .NET is a name
_JSON_LIST = re.compile(r"\[.*\]", re.S)
_AND = re.compile(
    r"\s*[;?？；。]\s+|\s*,\s+|\s+(?:and|or|versus|vs\.?|und|oder|et|ou|y|e|o|i|и|или|та)\s+|(?:以及|还有|和|与|、|と)",
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
    """The questions to search, none of them twice, and what making them took."""

    questions: tuple[str, ...]
    spent: Spending = NOTHING_SPENT
    degraded: tuple[Degraded, ...] = ()


async def plan(question: str, language: str, llm: ILLMProvider | None) -> Plan:
    """Three questions; a model that fails is reported in `degraded`, and the decomposition serves."""
    if llm is None:
        return Plan(distinct(decompose(question, language), language))
    prompt = PROMPT.format(count=QUESTIONS, question=question)
    ask = LLMRequest(messages=(ChatMessage(role="user", content=prompt),), max_tokens=PLAN_MAX_TOKENS)
    try:
        answer = await llm.generate(ask)
    except LLMException as error:
        degraded = (Degraded.of(f"plan/{llm.name}", error),)
        return Plan(distinct(decompose(question, language), language), error.spent, degraded)
    found = [*parse(answer.content, question, language), *decompose(question, language)]
    return Plan(distinct(found, language), answer.spent, answer.degraded)


def parse(text: str, question: str, language: str) -> list[str]:
    """The questions of a model's answer: lines with a prefix, else a JSON list, else bullets, else plain lines.

    A plain line may be anything (`None`, `Sure, here they are:`): it counts only with a word of the question in it.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()][:MAX_PLAN_LINES]
    prefixed = [_PREFIX.sub("", line) for line in lines if _PREFIX.match(line)]
    listed = _json_strings(text)
    bulleted = [_BULLET.sub("", line) for line in lines if _BULLET.match(line)]
    plain = [line for line in lines if not _meaning(question, language).isdisjoint(words(line))]
    return [_tidy(item) for item in prefixed or listed or bulleted or plain]


def _json_strings(text: str) -> list[str]:
    found = _JSON_LIST.search(text)
    try:
        items = json.loads(found.group()) if found else []
    except (ValueError, RecursionError):
        return []
    return [item for item in items if isinstance(item, str)] if isinstance(items, list) else []


def _tidy(item: str) -> str:
    return item.strip().strip("\"'`*_<>«»“”„ ").replace("\x00", "")


def decompose(question: str, language: str) -> list[str]:
    """The question, its parts, then sides of its topic: what a person would search without thinking long."""
    topic = _content(question, language)
    parts = [part.strip(" ?？.!") for part in _AND.split(question)]
    parts = [_with_topic(part, topic, language) for part in parts if len(_content(part, language)) >= 1]
    subject = (" ".join(topic[:MAX_TOPIC_WORDS]) or question)[:MAX_TOPIC_CHARS].rstrip()
    aspects = [f"{subject} {aspect}" for aspect in _ASPECTS.get(language.partition("-")[0], _ASPECTS["en"])]
    return [question, *(parts if len(parts) > 1 else []), *aspects]


def _content(text: str, language: str) -> list[str]:
    stops = stop_words(language)
    return [
        word.strip(_QUOTES).rstrip(_ENDS)
        for word in text.split()
        if (folded := words(word)) and not all(w in stops for w in folded)
    ]


def _with_topic(part: str, topic: Sequence[str], language: str) -> str:
    """A part that stands alone: one content word says little without the topic that the others share."""
    own = _content(part, language)
    missing = [word for word in topic if word not in part]
    return part if len(own) > 1 or not missing else " ".join([part, *missing[:3]])


def distinct(
    questions: Iterable[str], language: str, taken: Iterable[str] = (), limit: int = QUESTIONS
) -> tuple[str, ...]:
    """The first `limit` usable questions that ask for something else than those before them and those `taken`."""
    seen = {_meaning(question, language) for question in taken}
    kept: list[str] = []
    for question in questions:
        meaning = _meaning(question, language)
        if _is_query(question) and meaning not in seen:
            seen.add(meaning)
            kept.append(question)
        if len(kept) == limit:
            break
    return tuple(kept)


def _is_query(question: str) -> bool:
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
