"""Find what the first negator of a sentence denies: in "It is not on Monday but on Tuesday", only Monday."""

import re
from collections.abc import Sequence
from typing import Final

from modules.llm_platform.domain.citations.compare.mismatches import find_word
from modules.llm_platform.domain.citations.read.claims import TextFacts
from modules.llm_platform.domain.text.data_files import load_words
from modules.llm_platform.domain.text.negation import is_negator_at
from modules.llm_platform.domain.text.positions import Offset, WordNumber

JOINED_WORDS: Final = 3  # from "and" to the negator of its clause: "and it is not"

_CLAUSE_END: Final = re.compile(r"[,;:.()–—]\s|\s\(|\b(?:but|sondern|aber|mais|sino|pero|ma)\b")
_PRONOUN: Final = re.compile(
    r"(?:it|they|he|she|this|these|es|sie|er|dies|il|elle|ils|elles|cela|él|ella|ellos|esto)\b"
)
_INSERTED: Final = re.compile(r"(?:not|nicht|pas|non)\s[^;:()\s][^;:()]{0,60}?(?=[,.;](?:\s|$)|$)")
_CONTRAST: Final = re.compile(r"(?:,\s)?(?:but|sondern|mais|sino|pero|ma)\b|;\s")


def find_denied_part(sentence: TextFacts, *, is_german: bool) -> range:
    """Return the indices in `folded` of the words that the first negator denies.

    - These are the words of its clause. An enumeration belongs to the clause: "no dogs, cats or birds".
    - Before "but" and its like, it is only the last content word: "The meeting is no longer held on Monday but on Tuesday".
    - "And" before a verb or a negator begins a clause: "Ben has cleaned it and is not willing to go on".
    - A "not" between commas denies only what is with it: "The club, not the council, pays", "It cost £1,140, not £1,410."
    - "Without" and its like deny only what follows them.
    - A clause that begins with a pronoun is about all that comes before: "It was to be held in May; it does not take place".
    - A German verb at the end belongs to the whole sentence: "dienstags, aber nicht montags geöffnet".
    """
    at, text = find_negator(sentence.folded) or WordNumber(0), sentence.text.lower()
    place = find_word(sentence.text, at)[0]
    breaks = list(_CLAUSE_END.finditer(text))
    clause = max((one.end() for one in breaks if one.end() <= place), default=0)
    if (inserted := _INSERTED.match(text, place)) and text[:place].endswith(", "):
        return range(at, sentence.find_position(Offset(inserted.end())))
    after = next((one for one in breaks if one.start() > place and not one[0].startswith(",")), None)
    end = len(sentence.folded) if after is None else sentence.find_position(Offset(after.end()))
    if is_german and _has_shared_verb(sentence, at, end):
        end -= 1
    last = _find_last_denied(sentence, at, end)
    if last is not None and after is not None and _CONTRAST.match(text, after.start()):
        return range(last, end)
    if _PRONOUN.match(text, clause):
        return range(end)
    first = sentence.find_position(Offset(clause))
    return range(at if _is_without(sentence, at) else _find_joined_clause(sentence, at) or first, end)


def _find_joined_clause(sentence: TextFacts, at: WordNumber) -> WordNumber | None:
    """Return the index of the word after an "and" that begins a clause, if a negator is in its first words."""
    words, joins = sentence.folded, load_words("connectives", "conjunctions")
    verbs = load_words("connectives", "auxiliaries")
    for position in range(at - 1, max(-1, at - 1 - JOINED_WORDS), -1):
        if words[position] in joins:
            is_verb = words[position + 1] in verbs or position + 1 == at
            return WordNumber(position + 1) if is_verb else None
    return None


def _has_shared_verb(sentence: TextFacts, at: WordNumber, end: int) -> bool:
    """Return whether a German clause ends in a verb that the negator at an index does not deny."""
    follows_contrast = at > 0 and sentence.folded[at - 1] in load_words("connectives", "adversatives")
    return (follows_contrast or _is_without(sentence, at)) and sentence.words[end - 1].islower()


def _find_last_denied(sentence: TextFacts, at: WordNumber, end: int) -> int | None:
    """Return the index of the last content word after a negator: "not painted yet" denies "painted"."""
    adverbs = load_words("connectives", "until_now")
    denied = (one for one in range(end - 1, at, -1) if sentence.content[one] and sentence.folded[one] not in adverbs)
    return next(denied, None)


def _is_without(sentence: TextFacts, at: WordNumber) -> bool:
    return sentence.folded[at] in load_words("connectives", "without")


def find_negator(words: Sequence[str]) -> WordNumber | None:
    """Return the index of the first negator."""
    return next((WordNumber(at) for at in range(len(words)) if is_negator_at(words, at)), None)
