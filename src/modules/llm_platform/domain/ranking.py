"""How good a result is without a model's word for it, and which results go on (requirements MS3 and MS6)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from modules.llm_platform.domain.dtos.report_dtos import RankedCandidate
from modules.llm_platform.domain.text.language import stop_words
from modules.llm_platform.domain.text.tokens import fold, words

TOP_SCORE = 10.0
USABLE_FROM = 1.0  # points: below it a result met nothing of what was asked, and takes no other's place
SUBSTANCE_CHARS = 250  # a snippet of this length says something
LOOKED_AT_CHARS = 2000  # of a text: what a summary of a page has, more than any snippet

# What the keyword score is made of; together 1.
QUESTION_SHARE, DIRECTION_SHARE, TITLE_SHARE, SUBSTANCE_SHARE = 0.4, 0.3, 0.2, 0.1

WHOLE_WORD_CHARS = 4  # a word up to this length is looked for as it is, a longer one without its ending
LONG_WORD_CHARS = 6  # from the next letter on, endings of two letters are left off

_NO_WORD = re.compile(r"[^\w+#]+")
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af]"
)
_JOINED = re.compile(r"(?<=\w)_(?=\w)")


def mean(criteria: Sequence[float]) -> float:
    """The mean of at least one criterion, to one decimal."""
    return round(sum(criteria) / len(criteria) + 1e-9, 1)  # 7.25 is 7.3, whatever its last bit


def keyword_score(question: str, direction: str, title: str, text: str, language: str) -> float:
    """0 to 10 with one decimal: how many words of the question and of the direction stand in the title and in the text.

    Words count without their endings, function words of `language` (of the question) do not count. 0 means that no word is met.
    """
    asked, aimed = _needles(question, language), _needles(direction, language)
    head = _haystack(title)
    body = head + _haystack(text[:LOOKED_AT_CHARS])
    met_question, met_direction = _share(asked, body), _share(aimed, body)
    met = max(met_question, met_direction)
    score = (
        QUESTION_SHARE * met_question
        + DIRECTION_SHARE * met_direction
        + TITLE_SHARE * max(_share(asked, head), _share(aimed, head))
        + SUBSTANCE_SHARE * met * min(1.0, len(text) / SUBSTANCE_CHARS)
    )
    return round(TOP_SCORE * score, 1)


@lru_cache(maxsize=256)
def _needles(text: str, language: str) -> tuple[str, ...]:
    """What to look for in a haystack: the beginnings of the words that carry meaning, each once."""
    found = [part for word in words(text) for part in _NO_WORD.split(_JOINED.sub(" ", word)) for part in part.split()]
    stops = stop_words(language) | stop_words("en")  # a Russian question quotes English words
    return tuple(dict.fromkeys(map(_needle, [word for word in found if word not in stops] or found)))


def _needle(word: str) -> str:
    if _UNSPACED.match(word):
        return word  # stands anywhere in its script
    if len(word) > WHOLE_WORD_CHARS and word.isalpha():
        return " " + word[: -1 if len(word) <= LONG_WORD_CHARS else -2]
    return " " + word


def _haystack(text: str) -> str:
    return f" {_NO_WORD.sub(' ', _JOINED.sub(' ', fold(text)))} "


def _share(needles: Sequence[str], haystack: str) -> float:
    return sum(needle in haystack for needle in needles) / len(needles) if needles else 0.0


def ranked_order(ranked: Iterable[RankedCandidate]) -> list[RankedCandidate]:
    """Best first; of equals the one found first."""
    return sorted(ranked, key=lambda one: -one.score.value)


def pick_top(
    ranked: Sequence[RankedCandidate], count: int, questions: Sequence[str], *, first: int | None = None
) -> list[RankedCandidate]:
    """The best `count` of all; the `first` of them (all, if not given) hold one for each sub-question that has a usable one.

    Best first, then those who stand in where one of them cannot be read, best first. Where there are more such sub-questions
    than places, those with the best results have them.
    """
    order = ranked_order(ranked)
    places = max(0, count if first is None else min(first, count))
    wanted = frozenset(questions)
    of_question: dict[str, RankedCandidate] = {}
    for one in order:
        question = one.candidate.question
        if question in wanted and one.score.value >= USABLE_FROM:
            of_question.setdefault(question, one)
    firsts = list(of_question.values())[:places]
    held = set(map(id, firsts))
    rest = [one for one in order if id(one) not in held]
    more = places - len(firsts)
    return [*ranked_order([*firsts, *rest[:more]]), *rest[more:]][: max(0, count)]
