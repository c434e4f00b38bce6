"""Score results by keywords, without a model, and select the best ones."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from modules.llm_platform.domain.dtos.report_dtos import RankedCandidate
from modules.llm_platform.domain.text.language import load_stop_words
from modules.llm_platform.domain.text.lazy_pattern import lazy_pattern
from modules.llm_platform.domain.text.scripts import UNSPACED
from modules.llm_platform.domain.text.tokens import fold, split_words

TOP_SCORE = 10.0
MIN_USABLE_SCORE = 1.0  # a result with a lower score matches nothing of the question
SUBSTANCE_CHARS = 250  # a text of this length gets the full share for its length
MAX_SCORED_CHARS = 2000  # the length of a page's summary

# Shares of the keyword score; together 1.
QUESTION_SHARE, DIRECTION_SHARE, TITLE_SHARE, SUBSTANCE_SHARE = 0.4, 0.3, 0.2, 0.1

MAX_EXACT_CHARS = 4  # a longer word is searched without its ending
MAX_SHORT_ENDING_CHARS = 6  # two letters of a longer word are left off, one of a shorter word

_NO_WORD = re.compile(r"[^\w+#]+")
_UNSPACED = lazy_pattern(f"[{UNSPACED}]")
_JOINED = re.compile(r"(?<=\w)_(?=\w)")


def average_criteria(criteria: Sequence[float]) -> float:
    """Return the mean of at least one criterion, to one decimal."""
    return round(sum(criteria) / len(criteria) + 1e-9, 1)  # 7.25 is 7.3, whatever its last bit


def score_by_keywords(question: str, direction: str, title: str, text: str, language: str) -> float:
    """Return how well the title and the text match the words of the question and the direction, 0 to 10 with one decimal.

    Words are compared without their endings. `language` is the language of the question; its function words do not count.
    """
    asked, aimed = _list_needles(question, language), _list_needles(direction, language)
    head = _make_haystack(title)
    body = head + _make_haystack(text[:MAX_SCORED_CHARS])
    met_question, met_direction = _measure_found_share(asked, body), _measure_found_share(aimed, body)
    met = max(met_question, met_direction)
    score = (
        QUESTION_SHARE * met_question
        + DIRECTION_SHARE * met_direction
        + TITLE_SHARE * max(_measure_found_share(asked, head), _measure_found_share(aimed, head))
        + SUBSTANCE_SHARE * met * min(1.0, len(text) / SUBSTANCE_CHARS)
    )
    return round(TOP_SCORE * score, 1)


@lru_cache(maxsize=256)
def _list_needles(text: str, language: str) -> tuple[str, ...]:
    """Return the beginnings of the content words, each once, to search in a haystack."""
    found = [
        part for word in split_words(text) for part in _NO_WORD.split(_JOINED.sub(" ", word)) for part in part.split()
    ]
    stops = load_stop_words(language) | load_stop_words("en")  # a Russian question quotes English words
    return tuple(dict.fromkeys(map(_make_needle, [word for word in found if word not in stops] or found)))


def _make_needle(word: str) -> str:
    if _UNSPACED.match(word):
        return word  # may be anywhere in a run
    if len(word) > MAX_EXACT_CHARS and word.isalpha():
        return " " + word[: -1 if len(word) <= MAX_SHORT_ENDING_CHARS else -2]
    return " " + word


def _make_haystack(text: str) -> str:
    return f" {_NO_WORD.sub(' ', _JOINED.sub(' ', fold(text)))} "


def _measure_found_share(needles: Sequence[str], haystack: str) -> float:
    return sum(needle in haystack for needle in needles) / len(needles) if needles else 0.0


def sort_best_first(ranked: Iterable[RankedCandidate]) -> list[RankedCandidate]:
    """Return the results, best first. Results with equal scores keep their order."""
    return sorted(ranked, key=lambda one: -one.score.value)


def pick_top(
    ranked: Sequence[RankedCandidate], count: int, questions: Sequence[str], *, first: int | None = None
) -> list[RankedCandidate]:
    """Return the best `count` results: first the ones to use, then the reserves, each best first.

    The first `first` results (default: all) include the best usable result of each sub-question. If there are more
    sub-questions than places, the sub-questions with the best results get a place.
    """
    order = sort_best_first(ranked)
    places = max(0, count if first is None else min(first, count))
    known = frozenset(questions)
    of_question: dict[str, RankedCandidate] = {}
    for one in order:
        question = one.candidate.question
        if question in known and one.score.value >= MIN_USABLE_SCORE:
            of_question.setdefault(question, one)
    firsts = list(of_question.values())[:places]
    chosen = set(map(id, firsts))
    rest = [one for one in order if id(one) not in chosen]
    more = places - len(firsts)
    return [*sort_best_first([*firsts, *rest[:more]]), *rest[more:]][: max(0, count)]
