"""Find claims that take all words from one sentence of the source, but attribute an act or a description wrongly.

The source has all words of such a claim, so the score and the facts do not show the error. Only the order of the words does.
Either the claim gives an act from a subordinate clause to the subject of the main clause, or it gives one option the
description of another option.
"""

import re
from difflib import SequenceMatcher
from itertools import chain
from typing import Final

from modules.llm_platform.domain.citations.read.claims import Claim, TextFacts
from modules.llm_platform.domain.citations.read.words import OPTION, WORD, find_identifiers
from modules.llm_platform.domain.text.data_files import load_words
from modules.llm_platform.domain.text.positions import ClaimWordNumber, WordNumber
from modules.llm_platform.domain.text.sentences import Span
from modules.llm_platform.domain.text.tokens import WORD_WITH_APOSTROPHE, fold

MAX_CLAIM_WORDS: Final = 60  # longer claims are not compared, because aligning words takes quadratic time
MAX_SUBJECT_WORDS: Final = 5  # longest subject at the beginning of a claim
MIN_DESCRIBING_WORDS: Final = 2  # an entry must share this many words with the claim to describe its option

_ENTRY_END = re.compile(r"\n|;\s|[.!?]\s")  # divides a list of options in a sentence
_CODE = re.compile(r"`([^`\n]+)`")
_BREAK = re.compile(r"[,:;()–—]")
_STATEMENT_END = re.compile(r"[.!?;:]")


def is_act_of_another(claim: Claim, sentence: TextFacts) -> bool:
    """Return whether the act of the claim belongs to another subject: it is in a subordinate clause of the sentence.

    "Ina Berg was elected" does not follow from "Ina Berg opened the meeting, in which Ole Hansen was elected". It does follow
    from "Ina Berg, who opened the meeting, was elected" and from "Ina Berg opened the meeting and was elected".
    """
    mine, theirs = claim.facts.folded, sentence.folded
    openers, auxiliaries = load_words("connectives", "subordinators"), load_words("connectives", "auxiliaries")
    if openers.isdisjoint(theirs) or not 0 < len(mine) <= MAX_CLAIM_WORDS or mine[0] not in theirs:
        return False
    blocks = SequenceMatcher(None, mine, theirs, autojunk=False).get_matching_blocks()
    (start, first, size), (resumed, second, _) = blocks[0], blocks[min(1, len(blocks) - 1)]
    subject, rest, between = mine[:size], mine[size : size + 1], theirs[first + size : second]
    if start or resumed != size or size > MAX_SUBJECT_WORDS or not rest or openers.isdisjoint(between[1:]):
        return False
    return (
        any(claim.facts.content[:size])
        and auxiliaries.isdisjoint(subject)  # otherwise the subject has its verb: "plastics are goods that are made"
        and sentence.content[first + size]  # "a study of Bell that was published" continues with its subject
        and between[0] not in mine
        and between[0] not in openers
        and (claim.facts.content[size] or rest[0] in auxiliaries)
        and between[-1] not in load_words("connectives", "shared_subject")
        and not _has_break(sentence, WordNumber(first + size), WordNumber(second))
    )


def _has_break(sentence: TextFacts, begin: WordNumber, end: WordNumber) -> bool:
    """Return whether a comma or the like is before either word, or the end of a statement between them."""
    text = sentence.text.replace("’", "'")
    found = [word.span() for word in WORD_WITH_APOSTROPHE.finditer(text)]
    if len(found) != len(sentence.folded):
        return True
    gaps = [text[found[at - 1][1] : found[at][0]] for at in range(begin, end + 1)]
    return bool(_BREAK.search(gaps[0]) or _BREAK.search(gaps[-1]) or any(map(_STATEMENT_END.search, gaps)))


def is_of_another_entry(claim: Claim, position: ClaimWordNumber, sentence: TextFacts) -> bool:
    """Return whether the claim describes the option at `position` with words that a list has for another option.

    The option of the claim must be in a different entry of the list.
    """
    texts = [text for text in _ENTRY_END.split(sentence.text) if text.strip()]
    if len(texts) == 1:
        return False
    option = claim.words[position].key
    described = {word.key for word in claim.words if word.is_content and word.key != option}
    entries = [
        ({word.removesuffix("()") for word in WORD.findall(fold(text))}, list_program_names(text)) for text in texts
    ]
    shares = [len(keys & described) for keys, _ in entries]
    best = [entry for entry, share in zip(entries, shares, strict=True) if share == max(shares)]
    return (
        max(shares) >= MIN_DESCRIBING_WORDS
        and any(option in keys for keys, _ in entries)
        and not any(option in keys for keys, _ in best)
        and all(named.difference(claim.keys) for _, named in best)
    )


def find_program_name(text: str, name: str) -> Span:
    """Return the span of a folded name of `list_program_names`; the whole text if it has no such word."""
    for found in chain(WORD.finditer(text), OPTION.finditer(text)):
        if fold(found[0].lstrip("-")).removesuffix("()") == name:
            return found.span()
    return 0, len(text)


def list_program_names(text: str) -> frozenset[str]:
    """Return the folded names of program parts and options, and the words of code."""
    words = find_identifiers(text) + [word for code in _CODE.findall(text) for word in WORD.findall(code)]
    return frozenset(fold(word).removesuffix("()") for word in words)
