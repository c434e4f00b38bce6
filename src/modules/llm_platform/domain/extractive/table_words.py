"""Split the cells of a table into words, and find these in a question, in the same or another form."""

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Final

from modules.llm_platform.domain.extractive.question import Question, has_same_stem
from modules.llm_platform.domain.text.data_files import load_words
from modules.llm_platform.domain.text.language import load_stop_words
from modules.llm_platform.domain.text.tokens import fold, split_word_parts, split_words, strip_accents

_GENITIVE: Final = re.compile(r"['’]s?$")
OTHER_MEANINGS: Final = {  # words that ask or add in another language: German "was", Italian "come", Spanish "y"
    "en": frozenset(("was", "come")),
    "fr": frozenset(("y",)),
}
CACHED_CELLS: Final = 8192  # size of each cache of what was read from cells
MIN_ACT_LETTERS: Final = 3
AGENT_ENDINGS: Final = ("er", "ers", "r", "rs", "or", "ors", "ist", "ists")


@cache
def load_word_list(name: str, language: str = "") -> frozenset[str]:
    """Return a list of `table_questions.json`: words of all languages, without words with another meaning in `language`."""
    return frozenset(map(fold, load_words("table_questions", name))) - OTHER_MEANINGS.get(language, frozenset())


@cache
def load_row_question_words() -> frozenset[str]:
    """Return the words by which a question asks for rows, such as "which", "who", "list" and "how many"."""
    lists = ("choosing", "persons", "listing", "fillers", "counting", "asking_else")
    return frozenset().union(*map(load_word_list, lists))


def asks_for_rows(question: Question) -> bool:
    """Return whether a question asks for rows (which, who, how many) and not for a cell."""
    words = fold_words(question.text)
    return any(not load_word_list(kind).isdisjoint(words) for kind in ("counting", "choosing"))


def is_genitive(word: str) -> bool:
    return _GENITIVE.search(word) is not None


def strip_genitive(word: str) -> str:
    return _GENITIVE.sub("", word)


def list_content_words(question: Question) -> list[str]:
    """Return the words of the question without function words, and without the ending of a genitive: `Anna's` names Anna."""
    stop_words = load_stop_words(question.language)
    words = (strip_genitive(word) for word in fold_words(question.text))
    return [word for word in words if word not in stop_words]


def add_word_parts(words: Sequence[str]) -> list[str]:
    """Return the words and their parts: `Fauré-Requiem` names Fauré and his requiem."""
    return [*words, *(part for word in words for part in split_word_parts(word) if part != word)]


def is_cell_named(cell: Sequence[str], content: Sequence[str]) -> bool:
    """Return whether the question has all words of a cell. A number alone names nothing."""
    return any(not word.isdigit() for word in cell) and all(matches_any_word(word, content) for word in cell)


def matches_any_word(word: str, words: Sequence[str]) -> bool:
    return any(matches_word(word, other) for other in words)


def matches_word(one: str, other: str) -> bool:
    """Return whether two folded words are the same, forms of one, or a verb and its doer; with or without their accents."""
    one, other = strip_accents(one), strip_accents(other)
    if one == other:
        return True
    are_words = one.isalpha() and other.isalpha()
    return are_words and (has_same_stem(one, other) or _is_agent(one, other) or _is_agent(other, one))


def _is_agent(noun: str, act: str) -> bool:
    """Return whether a noun names who does something: `first aiders` have first aid, and a `Key holder` holds a key."""
    is_long = len(act) >= MIN_ACT_LETTERS and act not in load_word_list("gradable")  # `older` is no agent
    return is_long and noun.startswith(act) and noun.removeprefix(act) in AGENT_ENDINGS


@lru_cache(maxsize=CACHED_CELLS)
def split_cell(text: str) -> tuple[str, ...]:
    return tuple(fold_words(text.replace("_", " ")))


def fold_words(text: str) -> list[str]:
    return [fold(word) for word in split_words(text)]
