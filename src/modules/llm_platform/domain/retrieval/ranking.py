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
MIN_USABLE_SCORE = 1.0  # a result below it matches nothing of the question
SUBSTANCE_CHARS = 250  # a text of this length gets the full share for its length
MAX_SCORED_CHARS = 2000  # the length of a page's summary

# Shares of the keyword score; together 1.
QUESTION_SHARE, DIRECTION_SHARE, TITLE_SHARE, SUBSTANCE_SHARE = 0.4, 0.3, 0.2, 0.1

MAX_EXACT_CHARS = 4  # a longer word is searched without its ending
MAX_SHORT_ENDING_CHARS = 6  # two letters of a longer word are left off, one of a shorter word

_NO_WORD = re.compile(r"[^\w+#]+")
_UNSPACED = lazy_pattern(f"[{UNSPACED}]")
_JOINED = re.compile(r"(?<=\w)_(?=\w)")


def mean(criteria: Sequence[float]) -> float:
    """Return the mean of at least one criterion, to one decimal."""
    return round(sum(criteria) / len(criteria) + 1e-9, 1)  # 7.25 is 7.3, whatever its last bit


def keyword_score(question: str, direction: str, title: str, text: str, language: str) -> float:
    """Return how well the title and the text match the words of question and direction, 0 to 10 with one decimal.

    Words are compared without their endings, and function words of `language`, the language of the question, do not count.
    """
    asked, aimed = _needles(question, language), _needles(direction, language)
    head = _haystack(title)
    body = head + _haystack(text[:MAX_SCORED_CHARS])
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
    """Return the beginnings of the content words, each once, to search in a haystack."""
    found = [
        part for word in split_words(text) for part in _NO_WORD.split(_JOINED.sub(" ", word)) for part in part.split()
    ]
    stops = load_stop_words(language) | load_stop_words("en")  # a Russian question quotes English words
    return tuple(dict.fromkeys(map(_needle, [word for word in found if word not in stops] or found)))


def _needle(word: str) -> str:
    if _UNSPACED.match(word):
        return word  # may stand anywhere in a run
    if len(word) > MAX_EXACT_CHARS and word.isalpha():
        return " " + word[: -1 if len(word) <= MAX_SHORT_ENDING_CHARS else -2]
    return " " + word


def _haystack(text: str) -> str:
    return f" {_NO_WORD.sub(' ', _JOINED.sub(' ', fold(text)))} "


def _share(needles: Sequence[str], haystack: str) -> float:
    return sum(needle in haystack for needle in needles) / len(needles) if needles else 0.0


def sort_best_first(ranked: Iterable[RankedCandidate]) -> list[RankedCandidate]:
    """Best first; of equals the one found first."""
    return sorted(ranked, key=lambda one: -one.score.value)


def pick_top(
    ranked: Sequence[RankedCandidate], count: int, questions: Sequence[str], *, first: int | None = None
) -> list[RankedCandidate]:
    """Return the best `count` results, so that the `first` (default: all) cover as many sub-questions as possible.

    The first ones include the best usable result of each sub-question; if there are more sub-questions than places, those
    with the best results are chosen. The first ones come best first, then the reserves, best first.
    """
    order = sort_best_first(ranked)
    positions = max(0, count if first is None else min(first, count))
    known = frozenset(questions)
    of_question: dict[str, RankedCandidate] = {}
    for one in order:
        question = one.candidate.question
        if question in known and one.score.value >= MIN_USABLE_SCORE:
            of_question.setdefault(question, one)
    firsts = list(of_question.values())[:positions]
    chosen = set(map(id, firsts))
    rest = [one for one in order if id(one) not in chosen]
    more = positions - len(firsts)
    return [*sort_best_first([*firsts, *rest[:more]]), *rest[more:]][: max(0, count)]
