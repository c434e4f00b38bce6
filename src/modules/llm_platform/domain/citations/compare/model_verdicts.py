"""Limit what the verdict of a language model, or of a support model, may change in a citation that was checked by words.

A model reads untrusted text and may follow instructions in it. It may lower any verdict, but not raise one past a mismatched
number or identifier: such a sentence is at best partial.
"""

import html
import re
from collections.abc import Sequence
from operator import itemgetter
from typing import Final

from modules.llm_platform.domain.citations.read.amounts import list_amounts, use_units
from modules.llm_platform.domain.citations.read.sentences import read_answer
from modules.llm_platform.domain.citations.read.words import IDENTIFIER, WORD, is_unspaced
from modules.llm_platform.domain.dtos.citation_dtos import Citation, ModelVerdict, Verdict
from modules.llm_platform.domain.text.numbers import (
    ALSO_VERBS,
    ISO_DATE,
    NumberValues,
    list_numbers,
    load_date_words,
    load_number_words,
    read_value,
)
from modules.llm_platform.domain.text.positions import Offset
from modules.llm_platform.domain.text.tokens import fold

# How much support a verdict states, to compare it with the highest verdict that a model may give. `unchecked` states none, like
# `unsupported`.
_STATED_SUPPORT: Final[dict[Verdict, int]] = {"unsupported": 0, "unchecked": 0, "partial": 1, "supported": 2}
_LITERAL = re.compile(r"(?<!`)`+([^`]+)`+|(?<![^\s`\"'(])(?:/|--?)\w[\w/.-]*")  # code, paths and flags


def list_claims(answer: str, language: str) -> dict[tuple[int, int], str]:
    """Return the sentences of a sanitised answer without their markers, by the offsets that citations have."""
    return {
        (sentence.start, sentence.end): html.unescape(sentence.claim)
        for sentence in read_answer(answer, language).sentences
    }


def can_be_judged(citation: Citation, claim: str) -> bool:
    """Return whether a model can add something: there is a quote, and the claim is not a supported copy of it."""
    if not citation.quote.strip() or not claim.strip():
        return False
    return citation.verdict != "supported" or not citation.is_verbatim


def apply_model_verdict(citation: Citation, claim: str, verdict: ModelVerdict) -> Citation:
    """Return the citation with the verdict of a model, limited by `find_highest_verdict`. `word_verdict` keeps the old one."""
    by_words = citation.word_verdict or citation.verdict
    highest = find_highest_verdict(by_words, claim, citation.quote)
    final: Verdict = min(verdict, highest, key=_STATED_SUPPORT.__getitem__)
    if citation.verdict == "unchecked" and final == "unsupported":
        final = "unchecked"  # an excerpt, or a text in another language: the page may say it elsewhere
    cells = () if final == "supported" else citation.cells
    judged = {
        "verdict": final,
        "checked_by": "model",
        "word_verdict": by_words,
        "cells": cells,
        "difference": None if final == "supported" else citation.difference,
    }
    return citation.model_copy(update=judged)


def find_highest_verdict(word_verdict: Verdict, claim: str, quote: str) -> ModelVerdict:
    """Return the highest verdict that a model may give to a claim.

    It is `supported` if the word comparison supports the claim, or if the claim has no figures, dates and identifiers. An amount
    that the quote has in another unit counts as the same figure. Otherwise it depends on the lexical verdict:

    - `partial` or `unchecked`: `supported` if the quote has all figures, dates and identifiers of the claim, else `partial`.
    - `unsupported`: `supported` if the quote has exactly the same figures, dates and identifiers in the same order, because then
      the word comparison found another difference; else `partial`.
    """
    if word_verdict == "supported":
        return "supported"
    claim = use_units(claim, list_amounts(quote), quote)
    # The folded words of code spans, paths and flags, which count as identifiers.
    literal = frozenset(fold(word) for found in _LITERAL.finditer(claim) for word in WORD.findall(found[0]))
    mine, theirs = _list_facts(claim, literal), _list_facts(quote, literal)
    if not mine:
        return "supported"
    if word_verdict != "unsupported":
        return "supported" if all(any(fact & other for other in theirs) for fact in mine) else "partial"
    same = len(mine) == len(theirs) and all(fact & other for fact, other in zip(mine, theirs, strict=True))
    return "supported" if same else "partial"


def are_within_limits(citations: Sequence[Citation], answer: str, language: str) -> bool:
    """Return whether all verdicts of models are within the limits of `apply_model_verdict`. This rejects made-up ones."""
    of_models = [citation for citation in citations if citation.checked_by != "words"]
    claims = list_claims(answer, language) if of_models else {}
    return all(_is_within(citation, claims.get((citation.start, citation.end))) for citation in of_models)


def _is_within(citation: Citation, claim: str | None) -> bool:
    words = citation.word_verdict
    if (
        claim is None
        or words not in _STATED_SUPPORT
        or citation.verdict not in _STATED_SUPPORT
        or not citation.quote.strip()
    ):
        return False
    return _STATED_SUPPORT[citation.verdict] <= _STATED_SUPPORT[find_highest_verdict(words, claim, citation.quote)]


def _list_facts(text: str, identifiers: frozenset[str]) -> list[NumberValues]:
    """Return the figures, words for numbers, months, weekdays and identifiers of a text, in order of first occurrence.

    Each is the set of values that it can mean. `identifiers` are words that count as identifiers, whatever they look like.
    """
    numbers, dates = load_number_words(), load_date_words()
    found = list_numbers(text)
    found += [(_make_date(int(match[0][5:7]) - 1), Offset(match.start())) for match in ISO_DATE.finditer(text)]
    for match in WORD.finditer(text):
        word, at = fold(match[0]), Offset(match.start())
        if word in numbers:
            found.append((read_value(numbers[word]), at))
        elif word in dates and not (match[0] == word and word in ALSO_VERBS):
            found.append((_make_date(dates[word]), at))
        elif word in identifiers or _is_identifier(match[0]):
            found.append((frozenset({word.removesuffix("()")}), at))
    return list(dict.fromkeys(values for values, _ in sorted(found, key=itemgetter(1))))


def _make_date(number: int) -> NumberValues:
    return frozenset({f"date {number}"})


def _is_identifier(written: str) -> bool:
    """Return whether the word looks like an identifier: it has a figure, a hyphen, or only capitals.

    A word that is taken for an identifier by mistake may leave a true claim partial.
    """
    if written[0].isdigit() or is_unspaced(written):
        return False
    hyphenated = "-" in written and written.isascii()
    capitals = len(written) > 1 and written.isupper()
    return hyphenated or capitals or any(map(str.isdigit, written)) or IDENTIFIER.match(written) is not None
