"""The questions, their keys, and what an answer is by its key: right, wrong, mixed or a refusal."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, Literal

from arena.web import FrozenWeb

QUESTIONS: Final = Path(__file__).resolve().parent / "questions.jsonl"
MORE_QUESTIONS: Final = QUESTIONS.with_name("more_questions.jsonl")  # written later, from the same pages
KINDS: Final = ("single", "two hops", "comparison", "changed", "disputed", "unanswerable")
Result = Literal["right", "wrong", "declined", "crashed"]

_MARKUP = re.compile(r"[*`_]+|(?<=\d),(?=\d{3}\b)")  # and the commas of thousands
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_PAST = re.compile(
    r"\b(?:19|20)\d\d\b|\b(?:was|were|until|before|previous(?:ly)?|predecessor|former(?:ly)?|earlier|old|outdated|no longer"
    r"|used to|planned|originally|up from|instead of|rather than|not)\b",
    re.IGNORECASE,
)
_REFUSAL = re.compile(
    r"\b(?:do|does|did|is|are|was|were|could|can|has|have)(?:\s+not|n[’']t)\s+(?:\w+\s+){0,3}?(?:answer|contain|say|state|mention"
    r"|specif\w*|provid\w*|include|give|given|list|find|found|stated|mentioned|known|available|disclosed?)\b"
    r"|\bcannot\s+(?:\w+\s+){0,2}?(?:answer|find|say|determine|be (?:answered|determined|found))"
    r"|\b(?:no|any|insufficient|not enough)\s+(?:\w+\s+){0,2}?(?:information|mention|source|data|answer|evidence)"
    r"|\bI (?:do not|don[’']t) know\b|\bunable to (?:find|answer|determine)\b|\bnothing (?:in|was found|answers)\b"
    r"|\bnot (?:stated|specified|mentioned|provided|given|available|disclosed)\b|\bno sources? (?:says?|answers?|states?)\b",
    re.IGNORECASE,
)
_CONDITION = re.compile(
    r"\b(?:if|when|unless|where|while)\b", re.IGNORECASE
)  # "If nothing is specified, it is 900 seconds."
REFUSAL_SENTENCES: Final = 2  # a refusal says so at the beginning


@dataclass(frozen=True, slots=True)
class Question:
    """A question and its key.

    - `facts`: of each a right answer has one spelling. None: the pages do not answer it.
    - `wrong`: a right answer has none of them.
    - `outdated`: a right answer has none of them in a sentence that does not speak of the past.
    - `pages`: where the facts stand.
    """

    id: str
    kind: str
    text: str
    facts: tuple[tuple[str, ...], ...]
    wrong: tuple[tuple[str, ...], ...]
    outdated: tuple[tuple[str, ...], ...]
    pages: tuple[str, ...]


def read_questions(path: Path = QUESTIONS) -> list[Question]:
    return [_question(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines() if line]


def _question(row: dict[str, Any]) -> Question:
    facts, wrong, outdated = (
        tuple(tuple(fact.split("|")) for fact in row[name]) for name in ("facts", "wrong", "outdated")
    )
    return Question(row["id"], row["kind"], row["question"], facts, wrong, outdated, tuple(row["pages"]))


def in_turn(questions: Sequence[Question]) -> list[Question]:
    """Return the questions so that the kinds take turns: the first ten are of all kinds."""
    by_kind = [[question for question in questions if question.kind == kind] for kind in KINDS]
    longest = max(map(len, by_kind))
    return [kind[place] for place in range(longest) for kind in by_kind if place < len(kind)]


def score(question: Question, answer: str) -> Result:
    """Return what an answer is by its key. A refusal of a question that the pages answer is `declined`, whatever follows it.

    For a question without an answer `right` is a refusal and everything else `wrong`. A text that begins with the facts refuses
    nothing, even if its next sentence has the words of a refusal.
    """
    is_refused = is_refusal(answer) and not (question.facts and has_facts(question.facts, _take_beginning(answer)))
    if not question.facts:
        return "right" if is_refused else "wrong"
    if is_refused:
        return "wrong" if _is_misled(question, answer) else "declined"
    is_right = has_facts(question.facts, answer) and not _is_misled(question, answer)
    return "right" if is_right else "wrong"


def _is_misled(question: Question, answer: str) -> bool:
    """Return whether the answer has something wrong, or something outdated in a sentence that does not speak of the past."""
    plain = _plain(answer)
    if any(_has(spelling, plain) for group in question.wrong for spelling in group):
        return True
    return any(
        _has(spelling, _plain(sentence)) and not _PAST.search(_without(sentence, spelling))
        for group in question.outdated
        for spelling in group
        for sentence in _SENTENCE.split(answer)
    )


def _without(sentence: str, spelling: str) -> str:
    return sentence.replace(spelling, " ")


def is_refusal(answer: str) -> bool:
    sentences = _split_beginning(answer)
    return not sentences or any(map(_refuses, sentences))


def _take_beginning(answer: str) -> str:
    """Return what stands before the sentence that refuses."""
    return " ".join(takewhile(lambda sentence: not _refuses(sentence), _split_beginning(answer)))


def _split_beginning(answer: str) -> list[str]:
    sentences = [sentence for sentence in _SENTENCE.split(answer.strip()) if any(map(str.isalnum, sentence))]
    return sentences[:REFUSAL_SENTENCES]


def _refuses(sentence: str) -> bool:
    return _REFUSAL.search(sentence) is not None and not _CONDITION.search(sentence)


def has_facts(facts: Iterable[Sequence[str]], text: str) -> bool:
    plain = _plain(text)
    return all(any(_has(spelling, plain) for spelling in fact) for fact in facts)


def _plain(text: str) -> str:
    return " ".join(_MARKUP.sub("", text).casefold().split())


def _has(spelling: str, plain: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(_plain(spelling))}(?!\w|\.\d)", plain) is not None


def missing_facts(questions: Iterable[Question], web: FrozenWeb) -> Iterator[str]:
    """Yield the questions whose pages are not there or, together, lack the facts of a right answer."""
    for question in questions:
        pages = [web.by_place.get(place) for place in question.pages]
        if missing := [place for place, page in zip(question.pages, pages, strict=True) if page is None]:
            yield f"{question.id}: there is no page {', '.join(missing)}"
            continue
        text = "\n".join(f"{page.title}\n{page.text}" for page in pages if page)
        for fact in question.facts:
            if not has_facts([fact], text):
                yield f"{question.id}: no page has {'|'.join(fact)}"
