"""Find the short section that a question asks for by its heading: "When is the next meeting?" beside "## Next meeting".

The section says only "Tuesday 15 April, 19:00, at Bronwen's house", and the question has none of these words. The heading has the
words of the question, and the section has what the question asks for: a date, an amount or a name.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Final

from modules.llm_platform.domain.extractive.candidates import Candidate
from modules.llm_platform.domain.extractive.quantities import find_date
from modules.llm_platform.domain.extractive.question import Question
from modules.llm_platform.domain.extractive.table_words import (
    add_word_parts,
    fold_words,
    load_word_list,
    matches_any_word,
    split_cell,
)
from modules.llm_platform.domain.text.data_files import load_data, load_words
from modules.llm_platform.domain.text.language import load_stop_words
from modules.llm_platform.domain.text.negation import count_negators
from modules.llm_platform.domain.text.sentences import is_question
from modules.llm_platform.domain.text.tokens import fold

MAX_SENTENCES: Final = 3  # a longer section says more than what its heading names
MIN_HEADING_WORDS: Final = 2  # "Meeting" alone may be about any meeting
MAX_ELSEWHERE: Final = 1  # a word such as "committee" in the other sections; two say more than the heading
KINDS: Final = ("date", "amount", "person", "place", "open")

_NUMBERING: Final = re.compile(r"^(?:\d{1,2}[.)]|§ ?\d{1,3})\s+")
_TIME: Final = re.compile(r"\b\d{1,2}(?::|\.| ?h ?)\d{2}\b|\b\d{1,2} ?(?:am|pm|uhr|h)\b", re.IGNORECASE)
_DIGIT: Final = re.compile(r"\d")
_NAME: Final = re.compile(r"(?<!^)\b[A-ZÀ-Þ][\w’'-]+|^[A-ZÀ-Þ][\w’'-]+ [A-ZÀ-Þ]")


def find_headed_section(question: Question, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the sentences of the only short section whose heading the question names; empty if it is uncertain."""
    kind = _read_kind(question)
    if kind is None or len(question.parts) > 1 or count_negators(fold_words(question.text)):
        return []
    sections: dict[tuple[int, str], list[Candidate]] = {}
    for one in candidates:
        if one.sentence.heading and not one.sentence.is_announcement:
            sections.setdefault((one.source_rank, one.sentence.heading), []).append(one)
    found = [section for section in sections.values() if _is_asked(section, question, kind, candidates)]
    if len(found) != 1:
        return []
    first, *rest = sorted(found[0], key=lambda one: one.sentence.position)
    return [_add_lead(first), *(one for one in rest if one.sentence.before is not None)]


def _add_lead(first: Candidate) -> Candidate:
    """Return the first sentence of a section with its heading as its lead, without a number: "Next meeting: Tuesday"."""
    lead = _NUMBERING.sub("", first.sentence.heading).rstrip(":： ")
    if first.lead or is_question(lead):
        return first
    return replace(first, form=replace(first.form, lead=lead, shown=f"{lead}: {first.sentence.text}"))


def _read_kind(question: Question) -> str | None:
    """Return what the question asks for; None for "why" and "is it". A question without a question word is open."""
    words = fold_words(question.text)
    asking = [(kind, word) for word in words for kind in KINDS if word in _load_kind(kind)]
    if not asking:
        openings: str = load_data("question_openings").get(question.language, "")
        return "open" if words and words[0] not in openings.split() else None
    kinds = [kind for kind, _ in asking]
    return next((kind for kind in kinds if kind != "open"), "open")


@cache
def _load_kind(kind: str) -> frozenset[str]:
    return frozenset(map(fold, load_words("headed_sections", kind)))


def _is_asked(section: Sequence[Candidate], question: Question, kind: str, candidates: Sequence[Candidate]) -> bool:
    """Return whether the question has all words of the heading, and the section has a date, an amount or a name if one is asked.

    The other words of the question are in the names of the document, or say what is asked for. One may be elsewhere in it.
    """
    if len(section) > MAX_SENTENCES or any(one.sentence.row or not one.is_quotable for one in section):
        return False
    first = section[0]
    stop_words = load_stop_words(question.language) - load_word_list("next")
    heading = [word for word in fold_words(first.sentence.heading) if word.isalpha() and word not in stop_words]
    words, asked = fold_words(question.text), [term.word for term in question.terms]
    if len(heading) < MIN_HEADING_WORDS or not all(matches_any_word(word, words) for word in heading):
        return False
    names = fold_words(f"{first.source.title} {first.found_in.name}")
    named = [*heading, *names, *add_word_parts(split_cell(first.source.url))]
    of_document = [one for one in candidates if one.source_rank == first.source_rank]
    said = {asked[number] for one in of_document for number in one.own_credits}
    is_of_kind = frozenset(word for name in KINDS for word in _load_kind(name))
    left = [word for word in asked if word not in is_of_kind and not matches_any_word(word, named)]
    return len(left) <= MAX_ELSEWHERE and said.issuperset(left) and _has_kind(section, kind)


def _has_kind(section: Sequence[Candidate], kind: str) -> bool:
    text = " ".join(one.sentence.text for one in section)
    if kind == "date":
        return _TIME.search(text) is not None or _has_date(text)
    if kind == "amount":
        return _DIGIT.search(text) is not None
    return kind not in ("person", "place") or _NAME.search(text) is not None


def _has_date(text: str) -> bool:
    try:
        return find_date(text.casefold()) is not None
    except ValueError:
        return False
