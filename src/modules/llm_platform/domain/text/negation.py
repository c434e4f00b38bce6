"""Negation and opposites: find the words by which one text denies what another one affirms.

"The lock was not forced" denies "The lock was forced", and "The gate is closed" has the opposite of "The gate is open".
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Final

from modules.llm_platform.domain.text.data_files import load_data
from modules.llm_platform.domain.text.lazy_pattern import lazy_pattern
from modules.llm_platform.domain.text.numbers import load_number_words
from modules.llm_platform.domain.text.stemming import is_form_of_any
from modules.llm_platform.domain.text.tokens import WORD_WITH_APOSTROPHE, fold

SCOPE_WORDS: Final = 2  # a denied word is this near to its negator
FOLLOWING_WORDS: Final = 4  # a negator with a content word among so many words after it denies nothing before it
EVIDENCE_SCOPE_WORDS: Final = 9  # words after "no evidence", all of them denied
NEIGHBOUR_WORDS: Final = 4  # words on each side of an opposite that show what it is about
MIN_NEIGHBOUR_LETTERS: Final = 4
MIN_CLAUSE_WORDS: Final = 2  # shortest clause that is compared
SHORT_CLAUSE: Final = 4  # words of a clause that has no verb of its own
SAME_CLAUSE: Final = 0.6  # share of the words of a clause that the other text has

_CLAUSE_END = re.compile(
    r"[,;:.!?()–—]\s|\b(?:but|although|though|while|whereas|so|that|which|who|where|when|if|unless|because"
    r"|aber|sondern|während|wenn|falls|weil|mais|qui|si|quand|pero|cuando|ma|quando|а|но|если|когда)\b"
)
_HAN_NEGATION = lazy_pattern(
    "(?:不得|不能|不会|不會|不可|不是|并不|並不|没有|沒有|禁止|无法|無法|从不|從不|不|没|沒|无|無|未|非|勿|别)([\u4e00-\u9fff]{2})"
)
_KANA_NEGATION = re.compile("([\u3040-\u30ff\u4e00-\u9fff]{2,5}?)(?:ない|ません|なかった|なく|ず(?!つ))")
_PARTICLES = "はがをもにでとのへや、"


@dataclass(frozen=True, slots=True)
class NegationWords:
    """Word lists of many languages, folded.

    - `soft` words deny without saying exactly what ("except", "fails").
    - `ambiguous` ones may stand for a negation ("drops support").
    - `evidence` words extend a negation to what follows them ("no evidence that").
    - `only` words after a negator deny nothing ("not only the nurses").
    - `than` words after a negator and a word of `comparatives` before a number state a limit: "no more than eight".
    - `opposites` maps a word to its pairs of opposites: the number of each pair, and the side of the word (0 or 1).
    """

    negators: frozenset[str]
    soft: frozenset[str]
    ambiguous: frozenset[str]
    evidence: frozenset[str]
    only: frozenset[str]
    comparatives: frozenset[str]
    than: frozenset[str]
    opposites: Mapping[str, tuple[tuple[int, int], ...]]


@cache
def load_negation_words() -> NegationWords:
    data = load_data("negation")
    opposites: dict[str, tuple[tuple[int, int], ...]] = {}
    for number, pair in enumerate(data["opposites"]):
        for side, listed in enumerate(pair):
            for word in listed.split():
                opposites[word] = (*opposites.get(word, ()), (number, side))
    names = "negators", "soft_negators", "ambiguous", "evidence", "only", "comparatives", "than"
    negators, soft, ambiguous, evidence, only, comparatives, than = (frozenset(data[name].split()) for name in names)
    return NegationWords(negators, soft, ambiguous, evidence, only, comparatives, than, opposites)


def count_negators(words: Sequence[str]) -> int:
    negators = load_negation_words().negators
    return 0 if negators.isdisjoint(words) else sum(is_negator_at(words, at) for at in range(len(words)))


def is_negator_at(words: Sequence[str], at: int) -> bool:
    """Return whether the word at an index is a negator: not the "not" of "not only" and of "not more than eight"."""
    known = load_negation_words()
    if words[at] not in known.negators or not known.only.isdisjoint(words[at + 1 : at + 2]):
        return False
    is_compared = not known.comparatives.isdisjoint(words[at + 1 : at + 2])
    is_limit = is_compared and not known.than.isdisjoint(words[at + 2 : at + 3])
    return not (is_limit and any(word[0].isdigit() or word in load_number_words() for word in words[at + 3 : at + 4]))


def is_denied_at(before: Sequence[str], after: Sequence[str]) -> bool:
    """Return whether a copy is denied by the words around it: a negator right beside it, or "no evidence that" before it."""
    known = load_negation_words()
    if not known.negators.isdisjoint([*before[-1:], *after[:1]]):
        return True
    return not known.negators.isdisjoint(before) and not known.evidence.isdisjoint(before)


def list_denied_words(words: Sequence[str], is_content: Sequence[bool]) -> list[str]:
    """Return the content words that the negators deny.

    This is the first content word within SCOPE_WORDS after a negator. If none follows within FOLLOWING_WORDS, it is the last one
    within SCOPE_WORDS before the negator. After a negated evidence word ("no evidence that"), it is every content word in the
    next EVIDENCE_SCOPE_WORDS words.
    """
    known = load_negation_words()
    found: list[str] = []
    if known.negators.isdisjoint(words):
        return found
    for position in range(len(words)):
        if not is_negator_at(words, position):
            continue
        denied = next(
            (at for at in range(position + 1, min(len(words), position + 1 + SCOPE_WORDS)) if is_content[at]), None
        )
        if denied is None:
            if not any(is_content[position + 1 : position + 1 + FOLLOWING_WORDS]):
                found += [words[at] for at in range(max(0, position - SCOPE_WORDS), position) if is_content[at]][-1:]
        elif words[denied] in known.evidence:
            scope = range(denied, min(len(words), denied + EVIDENCE_SCOPE_WORDS))
            found += [words[at] for at in scope if is_content[at]]
        else:
            found.append(words[denied])
    return found


def denies_clause(denied: Sequence[str], text: str, other: str, denied_there: Sequence[str]) -> bool:
    """Return whether a text denies one of the words `denied` that `other` affirms, in clauses of nearly the same words."""
    if not denied or has_unclear_negation(other):
        return False
    clauses, affirmed = _split_clauses(text), list_undenied_words(other)
    negators, here = load_negation_words().negators, list_undenied_words(text)
    for clause in clauses:
        if negators.isdisjoint(clause):
            continue
        words = [word for word in clause if len(word) >= MIN_NEIGHBOUR_LETTERS and word not in negators]
        shared = sum(is_form_of_any(word, affirmed) for word in words)
        if len(words) >= MIN_CLAUSE_WORDS and shared >= SAME_CLAUSE * len(words):
            said = [word for word in denied if word in clause and is_form_of_any(word, affirmed)]
            if any(not is_form_of_any(word, denied_there) and not is_form_of_any(word, here) for word in said):
                return True
    return False


def list_denied_clauses(text: str) -> list[list[str]]:
    """Return the words of each clause after the first that only negates one or two words: "but no water damage".

    The negator and words of fewer than MIN_NEIGHBOUR_LETTERS letters are left out.
    """
    negators = load_negation_words().negators
    found = []
    for clause in _split_clauses(text)[1:]:
        words = [word for word in clause if len(word) >= MIN_NEIGHBOUR_LETTERS and word not in negators]
        if not negators.isdisjoint(clause[:2]) and 0 < len(words) <= MIN_CLAUSE_WORDS and len(clause) <= SHORT_CLAUSE:
            found.append(words)
    return found


def list_undenied_words(text: str) -> list[str]:
    """Return the folded words of the clauses without a negator."""
    known = load_negation_words()
    clauses = _split_clauses(text)
    return [
        word
        for before, clause in zip([[], *clauses], clauses, strict=False)
        if known.negators.isdisjoint(clause)
        and (known.negators.isdisjoint(before) or known.evidence.isdisjoint(before[-1:]))
        for word in clause
    ]


def list_words_beside_negators(text: str) -> list[str]:
    """Return the folded words of the clauses with a negator, without short words and the negators."""
    negators = load_negation_words().negators
    denying = [clause for clause in _split_clauses(text) if not negators.isdisjoint(clause)]
    return [
        word for clause in denying for word in clause if len(word) >= MIN_NEIGHBOUR_LETTERS and word not in negators
    ]


def has_unclear_negation(text: str) -> bool:
    """Return whether a word may stand for a negation ("drops support"), or denies without saying exactly what ("fails")."""
    known, words = load_negation_words(), WORD_WITH_APOSTROPHE.findall(fold(text))
    return not (known.ambiguous.isdisjoint(words) and known.soft.isdisjoint(words))


def _split_clauses(text: str) -> list[list[str]]:
    """Return the folded words of each clause, without the "not" of "not only" and of "not more than eight"."""
    known = load_negation_words()
    clauses = [WORD_WITH_APOSTROPHE.findall(clause) for clause in _CLAUSE_END.split(fold(text).replace("’", "'"))]
    if (known.only | known.comparatives).isdisjoint(chain.from_iterable(clauses)):
        return clauses
    return [
        [word for at, word in enumerate(words) if word not in known.negators or is_negator_at(words, at)]
        for words in clauses
    ]


def has_opposite(mine: Sequence[str], theirs: Sequence[str]) -> bool:
    """Return whether one text has a word, and the other text has its opposite among the same neighbours."""
    opposites = load_negation_words().opposites
    if opposites.keys().isdisjoint(mine):
        return False
    sides = [(position, *pair) for position, word in enumerate(mine) if word in opposites for pair in opposites[word]]
    present = {(pair, side) for _, pair, side in sides}
    for position, pair, side in sides:
        if (pair, 1 - side) in present:
            continue  # this text has both
        near, closest = _list_neighbours(mine, position), [-1, -1]
        for at, word in enumerate(theirs):
            for their_pair, their_side in opposites.get(word, ()):
                if their_pair == pair:
                    closest[their_side] = max(closest[their_side], len(near & _list_neighbours(theirs, at)))
        if closest[1 - side] > max(0, closest[side]):
            return True
    return False


def _list_neighbours(words: Sequence[str], position: int) -> set[str]:
    around = words[max(0, position - NEIGHBOUR_WORDS) : position + NEIGHBOUR_WORDS + 1]
    return {word for word in around if len(word) >= MIN_NEIGHBOUR_LETTERS and word != words[position]}


def contradicts_unspaced(mine: str, theirs: str) -> bool:
    """Return whether a Chinese or Japanese text denies what the other one affirms."""
    own, other = _list_denied_pairs(mine), _list_denied_pairs(theirs)
    if len(own) == len(other) == 1:
        return False  # each text denies one thing, maybe in other words
    return any(_affirms(theirs, pair, other) for pair in own) or any(_affirms(mine, pair, own) for pair in other)


def _list_denied_pairs(text: str) -> list[str]:
    """Return the two characters beside each negation."""
    chinese = [found[1] for found in _HAN_NEGATION.finditer(text)]
    return chinese + [found[1].lstrip(_PARTICLES)[:2] for found in _KANA_NEGATION.finditer(text)]


def _affirms(text: str, pair: str, denied: Sequence[str]) -> bool:
    return len(pair) == 2 and pair in text and pair not in denied
