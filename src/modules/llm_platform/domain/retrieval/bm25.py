"""Make sparse vectors of passages and questions for BM25.

A vector maps the number of a word to a weight. A word has the same number in every store and on every machine. The store
multiplies the weights by the inverse document frequency when it is queried.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import log
from typing import Final
from zlib import crc32

from modules.llm_platform.domain.text.language import choose_language, load_stop_words
from modules.llm_platform.domain.text.memoized import Memoized
from modules.llm_platform.domain.text.stemming import stem
from modules.llm_platform.domain.text.tokens import fold, split_word_parts, split_words, strip_accents

SATURATION: Final = 1.2  # k1 of BM25
USUAL_WORDS: Final = 150  # the assumed mean length of passages, so that a vector does not depend on other passages
FORM: Final = 4  # version of the word vectors; a collection stores it, because vectors of other versions do not match
MAX_QUESTION_WORDS: Final = 256  # distinct words
MIN_PART_CHARS: Final = 2  # shortest part of a joined word
MEMOIZED_WORDS: Final = 1 << 14
MEMOIZED_JOINED_WORDS: Final = 1 << 12
MEMOIZED_RUNS: Final = 1 << 14

_JOINT = re.compile(r"[_.'’+#-]")
# Matches from a capital inside a word to its end: `UpClass` of setUpClass, `Server` of HTTPServer. A pattern that begins with
# the capital is five times as fast as a pattern of the whole word.
_INNER_CAPITAL = re.compile(r"[A-Z](?:(?<=[a-z].)|(?<=[A-Z].)[a-z]{2})[A-Za-z0-9]*")
_CAMEL_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


@dataclass(frozen=True, slots=True)
class SparseVector:
    """The numbers of words, each once, and their weights."""

    indices: list[int]
    values: list[float]

    def __bool__(self) -> bool:
        return bool(self.indices)


def make_passage_vector(text: str) -> SparseVector:
    """Return the vector of a passage. Frequent words weigh more, and words of long passages weigh less (b of BM25 is 1)."""
    counts = Counter(_list_word_numbers(text))
    return _weigh_counts(counts, sum(counts.values()))


def make_matching_vector(runs: Iterable[str], wanted: Collection[int]) -> SparseVector:
    """Return the entries of `make_passage_vector` for these word numbers, maybe in another order.

    `runs` are the runs of characters between the spaces of the passage. Most runs of a page recur, so each is read once.
    """
    numbers = list(chain.from_iterable(map(_RUN_NUMBERS.__getitem__, runs)))
    return _weigh_counts(Counter(filter(wanted.__contains__, numbers)), len(numbers))


def _weigh_counts(counts: Mapping[int, int], length: int) -> SparseVector:
    """Return the weights of words by their counts in a passage of `length` words."""
    damping = SATURATION * length / USUAL_WORDS
    weights = {count: count * (SATURATION + 1) / (count + damping) for count in set(counts.values())}
    return SparseVector(list(counts), list(map(weights.__getitem__, counts.values())))


def make_question_vector(text: str) -> SparseVector:
    """Return the vector of a question. Stop words count only if the question has no other words (`The Who`)."""
    indices = list(dict.fromkeys(map(_WORD_NUMBERS.__getitem__, _list_question_terms(text))))
    return SparseVector(indices, [1.0] * len(indices))


def score_by_bm25(passages: Sequence[str], question: str) -> list[float]:
    """Return the BM25 score of each passage. A word that is in every one of these passages adds nearly nothing."""
    asked = frozenset(make_question_vector(question).indices)
    vectors = [make_matching_vector(passage.split(), asked) for passage in passages]
    frequency = Counter(index for vector in vectors for index in vector.indices)
    total = len(passages)
    weights = {index: log(1 + (total - frequency[index] + 0.5) / (frequency[index] + 0.5)) for index in asked}
    return [
        sum(weights[index] * value for index, value in zip(vector.indices, vector.values, strict=True))
        for vector in vectors
    ]


def _list_question_terms(text: str) -> list[str]:
    found = split_words(text)
    terms = dict.fromkeys([*found, *(part for word in found if not word.isalnum() for part in _list_parts(word))])
    ignored = load_stop_words(choose_language(text))
    content = [word for word in terms if word not in ignored] or list(terms)
    return content[:MAX_QUESTION_WORDS]


def _list_word_numbers(text: str) -> Iterator[int]:
    """Return the number of each word of a text, then the numbers of the parts of joined words.

    Parts of joined words count too: `loop.run_in_executor` contains `run_in_executor`, `loop`, `run`, `in` and `executor`, and
    `setUpClass` contains `set`, `up` and `class`. Questions are not split at capitals: `setUpClass` asks for that name.
    """
    found = split_words(text)
    joined = [word for word in found if not word.isalnum()]
    return chain(
        map(_WORD_NUMBERS.__getitem__, found),
        chain.from_iterable(map(_PART_NUMBERS.__getitem__, joined)),
        chain.from_iterable(map(_CAMEL_PART_NUMBERS.__getitem__, _find_camel_case_words(text))),
    )


def _list_parts(word: str) -> tuple[str, ...]:
    if not _JOINT.search(word):
        return ()
    # A dict keeps the order, which is the same in every process.
    pieces = dict.fromkeys([*split_word_parts(word), *word.split(".")])
    return tuple(piece for piece in pieces if len(piece) >= MIN_PART_CHARS and piece != word)


def _find_camel_case_words(text: str) -> Iterator[str]:
    """Yield the words with a capital inside. A word with letters beyond ASCII between its capitals comes in parts."""
    end = 0
    for found in _INNER_CAPITAL.finditer(text):
        begin = found.start()
        while begin > end and text[begin - 1].isalnum():  # no further than the end of the last match
            begin -= 1
        end = found.end()
        yield text[begin:end]


def _list_camel_parts(word: str) -> Iterator[str]:
    return (part for part in map(fold, _CAMEL_PART.findall(word)) if len(part) >= MIN_PART_CHARS)


def _get_word_number(word: str) -> int:
    """Return a number for the stem of a word, the same everywhere: `cafes` and `cafés` are one word.

    Two stems collide in one of a million passages.
    """
    return crc32(stem(strip_accents(word)).encode("utf-8", "replace"))


_WORD_NUMBERS: Final = Memoized(_get_word_number, MEMOIZED_WORDS)
_PART_NUMBERS: Final = Memoized(lambda word: tuple(map(_get_word_number, _list_parts(word))), MEMOIZED_JOINED_WORDS)
_CAMEL_PART_NUMBERS: Final = Memoized(
    lambda word: tuple(map(_get_word_number, _list_camel_parts(word))), MEMOIZED_JOINED_WORDS
)
_RUN_NUMBERS: Final = Memoized(lambda run: tuple(_list_word_numbers(run)), MEMOIZED_RUNS)
