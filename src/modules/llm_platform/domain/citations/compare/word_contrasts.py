"""Find words of a claim and of one sentence that say opposite things about the same noun or verb: all and most, for and against.

`contrasts` lists the comparisons with an example of each. The words that they look for are in `contrasts.json`, where words of
one side, such as `until` and `before`, form a group. All words are folded.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from operator import itemgetter
from typing import Final, NamedTuple

from modules.llm_platform.domain.citations.compare.mismatches import SpanPair, find_figure_and_sign, find_word
from modules.llm_platform.domain.citations.compare.number_contrasts import list_numbers_with_words
from modules.llm_platform.domain.citations.read.claims import Claim, TextFacts
from modules.llm_platform.domain.text.data_files import load_data, load_word_groups, load_words
from modules.llm_platform.domain.text.negation import count_negators, load_negation_words
from modules.llm_platform.domain.text.numbers import NumberValues
from modules.llm_platform.domain.text.positions import Offset, WordNumber
from modules.llm_platform.domain.text.sentences import Span
from modules.llm_platform.domain.text.stemming import is_form_of_any
from modules.llm_platform.domain.text.tokens import fold

NOUN_REACH: Final = 4  # a noun is looked for in this many words after its quantifier or preposition
NOUNS_TRIED: Final = 2  # one of the first two content words after a quantifier is its noun: "most of the new rooms"
VERB_REACH: Final = 3  # a verb of voting is looked for in this many words on each side of "for"
MAX_NAME_WORDS: Final = 3  # of a name before brackets
HAN_WORD_CHARS: Final = 2  # most Chinese words, such as the subject at the beginning of a claim and the verb after it

# "74 (82 %) of the " before "90"
_SHARE_OF = re.compile(r"[\d.,]{0,20}\d(?: ?\([^()]{0,40}\))?(?: [^\W\d_]{1,20}){1,4} ")
_BEFORE_WHOLE = re.compile(r"(?:of|von|der|sur|de|di|из|z|out of)(?: the| den| les| los| las)?$")
_ROLE_IN_BRACKETS = re.compile(r" \(([^()\d]{2,40})\)")
_HAN_CLAUSE_END = re.compile(r"[，。；！？,;.!?]|但|而|不过|不過")


class _Person(NamedTuple):
    """A name with a role in brackets after it, both as folded words. `span` delimits the role."""

    name: Sequence[str]
    role: Sequence[str]
    span: Span


# --- quantities


def compare_quantities(claim: Claim, sentence: TextFacts) -> SpanPair | None:
    """Compare "all positions" with "most positions", "only positions" and "74 of the 90 positions"."""
    whole, part = load_words("contrasts", "all"), load_words("contrasts", "part")
    if whole.isdisjoint(claim.facts.folded) or not part.isdisjoint(claim.facts.folded):
        return None
    for at in _find_positions(claim.facts.folded, whole):
        noun = next(iter(_list_content_after(claim.facts, at)), None)
        if noun is None:
            continue
        if _find_quantifier(sentence, whole, noun) is not None:
            return None
        quantifier = _find_quantifier(sentence, part, noun)
        limit = _find_share(sentence, noun) if quantifier is None else find_word(sentence.text, quantifier)
        if limit is not None:
            return find_word(claim.text, at), limit
    return None


def _find_quantifier(sentence: TextFacts, quantifiers: frozenset[str], noun: str) -> WordNumber | None:
    """Return the position of the first of these quantifiers that is before the noun."""
    for at in _find_positions(sentence.folded, quantifiers):
        if is_form_of_any(noun, _list_content_after(sentence, at)[:NOUNS_TRIED]):
            return at
    return None


def _find_share(sentence: TextFacts, noun: str) -> Span | None:
    """Return the span of the smaller number in "74 of the 90 positions" or "of the 90 positions, 74"."""
    figures = [(float(min(values, key=len)), offset) for values, offset in sentence.figures if _is_plain(values)]
    for at, (whole, offset) in enumerate(figures):
        is_whole = _BEFORE_WHOLE.search(sentence.text[:offset].rstrip().casefold())
        if not is_whole or not is_form_of_any(noun, _split_words_after_first(sentence.text[offset:])):
            continue
        before = [one for one in figures[:at][::-1] if _SHARE_OF.fullmatch(sentence.text, one[1], offset)]
        for share, place in (*before, *figures[at + 1 :], *figures[:at][::-1]):
            if share < whole:
                return find_figure_and_sign(sentence.text, place)
    return None


def _is_plain(values: NumberValues) -> bool:
    return all(value.replace(".", "", 1).isdigit() for value in values)


def _split_words_after_first(text: str) -> list[str]:
    """Return the words that may be the noun of the number at the beginning of the text."""
    return [word.strip(".,;:").casefold() for word in text.split()[1 : 1 + NOUN_REACH]]


# --- stances


def compare_stances(claim: Claim, sentence: TextFacts) -> SpanPair | None:
    """Compare "voted for it" with "voted against it", of the same voter."""
    verbs = load_words("contrasts", "stance_verbs")
    if verbs.isdisjoint(claim.facts.folded) or verbs.isdisjoint(sentence.folded):
        return None
    mine, theirs = _find_stance(claim.facts, verbs), _find_stance(sentence, verbs)
    if mine is None or theirs is None:
        return None
    (side, at), (other_side, other_at) = mine, theirs
    voters = [word for word in _list_content_before(claim.facts, at) if word not in verbs]
    if side == other_side or not any(is_form_of_any(word, sentence.folded) for word in voters):
        return None
    return find_word(claim.text, at), find_word(sentence.text, other_at)


def _find_stance(facts: TextFacts, verbs: frozenset[str]) -> tuple[int, WordNumber] | None:
    """Return the side and the position of the first "for" or "against" beside a verb of voting.

    None if there is none, or if the text has both.
    """
    stances = [
        (side, at)
        for side, words in enumerate(load_word_groups("contrasts", "stance"))
        for at in _find_positions(facts.folded, words)
        if not verbs.isdisjoint(facts.folded[max(0, at - VERB_REACH) : at + VERB_REACH])
    ]
    return stances[0] if len({side for side, _ in stances}) == 1 else None


def compare_votes(claim: Claim, sentence: TextFacts) -> SpanPair | None:
    """Compare "adopted unanimously" and "everyone voted for it" with "three votes against"."""
    mine = _find_unanimity(claim.facts)
    if mine is None or _find_unanimity(sentence) is not None or count_negators(claim.facts.folded):
        return None
    numbers = [(sentence.find_position(offset), values) for values, offset in list_numbers_with_words(sentence)]
    if ";" in sentence.text:
        return None  # two votes
    for at in _find_positions(sentence.folded, load_words("contrasts", "dissent")):
        if not load_negation_words().negators.isdisjoint(sentence.folded[max(0, at - VERB_REACH) : at]):
            return None  # "ohne Gegenstimmen"
        near = [(abs(position - at), values) for position, values in numbers if abs(position - at) <= VERB_REACH]
        if near and "0" not in min(near, key=itemgetter(0))[1]:
            return find_word(claim.text, mine), find_word(sentence.text, at)
    return None


def _find_unanimity(facts: TextFacts) -> WordNumber | None:
    """Return the position of a word such as "unanimously", or of "all" beside a verb of voting."""
    unanimous = _find_positions(facts.folded, load_words("contrasts", "unanimous"))
    verbs, whole = load_words("contrasts", "stance_verbs"), load_words("contrasts", "all")
    everyone = [
        at for at in _find_positions(facts.folded, whole) if not verbs.isdisjoint(facts.folded[at : at + NOUN_REACH])
    ]
    return next(iter(unanimous or everyone), None)


# --- times


def compare_times(claim: Claim, sentence: TextFacts) -> SpanPair | None:
    """Compare "after the probation period" with "during the probation period" and "until 30 June" with "after 30 June"."""
    for side, at, noun in _list_times(claim.facts):
        others = [
            (other_side, other_at)
            for other_side, other_at, other_noun in _list_times(sentence)
            if other_noun == noun or is_form_of_any(noun, [other_noun])
        ]
        if others and all(other_side != side for other_side, _ in others) and not _is_about_later(claim, sentence):
            return find_word(claim.text, at), find_word(sentence.text, others[0][1])
    return None


def _is_about_later(claim: Claim, sentence: TextFacts) -> bool:
    """Return whether a claim has a word that only the part after "after that" has: "free until 14 March; after that half"."""
    words = sentence.folded
    at = _find_then(words)
    before, later = sentence.list_content(0, at), sentence.list_content(at + 1, len(words))
    return any(is_form_of_any(word, claim.facts.folded) and not is_form_of_any(word, before) for word in later)


def _find_then(words: Sequence[str]) -> int:
    """Return the index of "then" or of the "after" of "after that"; the number of words without one."""
    then, that = load_words("contrasts", "then"), load_words("contrasts", "that")
    after = load_word_groups("contrasts", "time")[1]
    for at, word in enumerate(words):
        if word in then or (word in after and not that.isdisjoint(words[at + 1 : at + 2])):
            return at
    return len(words)


def _list_times(facts: TextFacts) -> list[tuple[int, WordNumber, str]]:
    """Return the side, the position and the noun of each preposition of time."""
    return [
        (side, at, noun)
        for side, words in enumerate(load_word_groups("contrasts", "time"))
        for at in _find_positions(facts.folded, words)
        if (noun := _find_noun_after(facts, at)) is not None
    ]


def _find_noun_after(facts: TextFacts, at: WordNumber) -> str | None:
    """Return the first content word or number after a preposition, unless another preposition of time is beside it."""
    prepositions = _load_times()
    if at and facts.folded[at - 1] in prepositions:
        return None  # "until after the update"
    for position in range(at + 1, min(len(facts.folded), at + 1 + NOUN_REACH)):
        word = facts.folded[position]
        if word in prepositions:
            return None
        if facts.content[position] or word.isdigit():
            return word
    return None


@cache
def _load_times() -> frozenset[str]:
    return frozenset().union(*load_word_groups("contrasts", "time"))


# --- roles in brackets


def compare_roles(claim: Claim, sentence: TextFacts) -> SpanPair | None:
    """Compare the role of a person with the role in brackets: "Ina Berg (chair), Ole Hansen (treasurer)".

    The claim only gives this person the role of another one, as the only one: "Ole is the chair". "Rouen is in France" is no
    role, and neither is a role or a name that the sentence repeats outside the brackets.
    """
    people = [] if count_negators(claim.facts.folded) else list(_list_people(sentence))
    named = [person for person in people if not set(person.name).isdisjoint(claim.facts.folded)]
    if len(named) != 1:
        return None
    (own,) = named
    ignored = {*own.name, *load_words("connectives", "forms_of_address")}
    said = [word for word in claim.facts.list_content(0, len(claim.facts.folded)) if word not in ignored]
    if not said or any(is_form_of_any(word, own.role) for word in said) or not _is_only_role(claim, said[0]):
        return None
    if any(sum(is_form_of_any(word, [other]) for other in sentence.folded) != 1 for word in (*said, own.name[0])):
        return None
    if any(len(said) == len(other.role) and all(is_form_of_any(word, other.role) for word in said) for other in people):
        return find_word(claim.text, WordNumber(claim.facts.folded.index(said[0]))), own.span
    return None


def _is_only_role(claim: Claim, role: str) -> bool:
    """Return whether a definite article is before a role: "the chair"."""
    at = claim.facts.folded.index(role)
    return at > 0 and claim.facts.folded[at - 1] in load_words("contrasts", "definite")


def _list_people(facts: TextFacts) -> Iterator[_Person]:
    """Yield the names that have a word or a few in brackets after them."""
    for found in _ROLE_IN_BRACKETS.finditer(facts.text):
        first, end = facts.find_position(Offset(found.start(1))), facts.find_position(Offset(found.end(1)))
        role = facts.list_content(first, end)
        name: list[str] = []
        for word in reversed(facts.text[: found.start()].split()[-MAX_NAME_WORDS:]):
            if not word[0].isupper() or not word[-1].isalpha():
                break
            name.append(fold(word))
        name = [word for word in name if word not in load_words("connectives", "forms_of_address")]
        if name and role:
            yield _Person(name, role, found.span(1))


# --- Chinese verbs


def compare_han_verbs(claim: Claim, sentence: TextFacts) -> SpanPair | None:
    """Compare 工会支持 with 工会反对: the same two characters before opposite verbs, in one clause of each text."""
    if claim.text.isascii():
        return None
    for pair in load_data("contrasts")["han"]:
        for own, other in (pair, pair[::-1]):
            if (found := _compare_han_pair(claim.text, sentence.text, own.split(), other.split())) is not None:
                return found
    return None


def _compare_han_pair(claim: str, sentence: str, own: Sequence[str], other: Sequence[str]) -> SpanPair | None:
    """Return the spans of a verb of `own` in the claim, and of a verb of `other` after the same subject in the sentence."""
    if any(verb in claim for verb in other):
        return None
    for verb in own:
        at = claim.find(verb)
        subject = claim[:at].strip()[:HAN_WORD_CHARS] if at >= HAN_WORD_CHARS else ""
        if not subject or subject.isascii():
            continue
        for clause, start in _split_han_clauses(sentence):
            opposite = next((one for one in other if one in clause), None)
            found = clause.find(opposite) if opposite else -1
            if opposite and subject in clause[:found] and not any(word in clause for word in own):
                return (at, at + len(verb)), (start + found, start + found + len(opposite))
    return None


def _split_han_clauses(text: str) -> Iterator[tuple[str, int]]:
    """Yield the clauses of a Chinese text, each with its offset."""
    start = 0
    for cut in _HAN_CLAUSE_END.finditer(text):
        yield text[start : cut.start()], start
        start = cut.end()
    yield text[start:], start


# --- words around a position


def _find_positions(words: Sequence[str], wanted: frozenset[str]) -> list[WordNumber]:
    return [] if wanted.isdisjoint(words) else [WordNumber(at) for at, word in enumerate(words) if word in wanted]


def _list_content_after(facts: TextFacts, at: WordNumber) -> list[str]:
    """Return the content words after a word, at most NOUN_REACH words away."""
    reach = range(at + 1, min(len(facts.folded), at + 1 + NOUN_REACH))
    return [facts.folded[position] for position in reach if facts.content[position]]


def _list_content_before(facts: TextFacts, at: WordNumber) -> list[str]:
    return [word for word, is_content in zip(facts.folded[:at], facts.content, strict=False) if is_content]
