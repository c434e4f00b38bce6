"""The sentences that could answer a question, and what is known of each: its terms, its shape, what it hangs on."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from modules.llm_platform.domain.dtos.research_dtos import Source
from modules.llm_platform.domain.language import detect, stop_words
from modules.llm_platform.domain.question import Question, TermMatcher
from modules.llm_platform.domain.sentence_rules import hangs, is_question, tells_nothing
from modules.llm_platform.domain.source_text import Block, Sentence, read_sentences
from modules.llm_platform.domain.text import fold, words

TITLE_CREDIT = 0.6  # a term in the title or heading above counts this much for the sentence
BEFORE_CREDIT = 0.35  # and one in the sentence before
MIN_WORDS = 3
LONG_WORDS = 55
MAX_WORDS = 110
MAX_CODE_LINES = 16
MAX_CODE_CHARS = 900
MAX_LIST_ITEMS = 7
CUT_QUALITY = 0.6  # factors on the score
ITEM_QUALITY = 0.92  # a list item is seldom a sentence
LONG_QUALITY = 0.8
NUMBER_QUALITY = 1.2
REASON_QUALITY = 1.1
DEFINITION_QUALITY = 1.4
OPENING_QUALITY = 1.05
OPENING_SENTENCES = 3
DEFINES_WITHIN_CHARS = 80
DEFINES_WITHIN_WORDS = 5
PREFIX_CHARS = 4  # of a term, looked for in the paragraphs of long sources

_ASIDE = re.compile(r"[(（\[]")
_NUMBER = re.compile(r"\d")
_REASON = re.compile(
    r"\b(?:because|since|due to|so that|reason|therefore|in order to|weil|da|denn|wegen|damit|parce que|car|en "
    r"raison|porque|ya que"
    r"|debido|потому|так как|поскольку|из-за|чтобы|perché|poiché|pois|devido)\b|因为|由于|以便|ため|ので|から|때문",
    re.IGNORECASE,
)
_IS_A = re.compile(
    r"\b(?:(?:is|are|was|were) (?:an?|the|one|any|some)|means|refers to|stands for|(?:ist|sind|war|waren) (?:eine?"
    r"|der|die|das)|bezeichnet|bedeutet"
    r"|(?:est|sont) (?:une?|le|la|les|des)|désigne|(?:es|son) (?:una?|el|la|los|las)|significa|(?:é|são) (?:uma?|o|a"
    r"|os|as)|(?:è|sono) (?:una?|uno|il|lo|la|i|gli|le)"
    r"|это|является|означает|це|jest|is een)\b|\s[—–]\s|是|とは|は|이란|란",
    re.IGNORECASE,
)


@dataclass(slots=True, eq=False)
class Candidate:
    """A sentence and what is known of it: its words, and for each term of the question how well it is met (0 to 1).

    `direct` says that the sentence itself holds a term, `met` counts its heading, its source and the sentence before it, too.
    `fit` is False for what has not the shape of an answer; `quality` scales the score by shape, `passage` is how well the whole
    source fits (0 to 1).
    """

    sentence: Sentence
    source: Source
    rank: int
    question: str
    words: list[str]
    content: frozenset[str]
    met: dict[int, float]
    before: Candidate | None
    direct: bool
    hanging: bool
    fit: bool
    quality: float
    follows: tuple[Block, ...]
    passage: float = 0.0
    score: float = 0.0
    _tells: bool | None = None

    @property
    def tells(self) -> bool:
        """Whether it can stand in an answer at all; found out late, since most candidates are never looked at."""
        if self._tells is None:
            text = self.sentence.text
            self._tells = self.fit and not is_question(text) and not tells_nothing(text, self.question)
        return self._tells


def find_candidates(question: Question, sources: Sequence[Source], matcher: TermMatcher) -> list[Candidate]:
    """All sentences of the sources that are looked at, source after source, as they stand there."""
    relevance = _relevance(question)
    found: list[Candidate] = []
    for rank, source in enumerate(sources):
        judge = _Judge(source, rank, question, matcher)
        for sentence in read_sentences(source.text, judge.language, relevance):
            before = found[-1] if found and found[-1].sentence is sentence.before else None
            found.append(judge.candidate(sentence, before))
    return found


def _relevance(question: Question) -> Callable[[str], int]:
    """How many terms a paragraph seems to hold, by their beginnings: a first look at long sources."""
    starts = sorted({re.escape(term.word[:PREFIX_CHARS]) for term in question.terms}, key=len, reverse=True)
    pattern = re.compile("|".join(starts) or r"(?!)")
    return lambda text: len(set(pattern.findall(fold(text))))


class _Judge:
    """Makes candidates of the sentences of one source."""

    def __init__(self, source: Source, rank: int, question: Question, matcher: TermMatcher) -> None:
        self.language = detect(source.text) or question.language
        self._source, self._rank, self._question, self._matcher = source, rank, question, matcher
        self._stop = stop_words(self.language)
        self._bare = source.text.strip()
        self._headings: dict[str, dict[int, float]] = {}

    def candidate(self, sentence: Sentence, before: Candidate | None) -> Candidate:
        own = words(sentence.text)
        met = met_terms(own, self._matcher)
        heading = self._heading(sentence)
        alone = sentence.text == self._bare  # a bare answer to what the title asks
        follows = _followers(sentence)
        long_enough = alone or len(own) >= MIN_WORDS
        return Candidate(
            sentence=sentence,
            source=self._source,
            rank=self._rank,
            question=self._question.text,
            words=own,
            content=frozenset(word for word in own if word not in self._stop and not self._matcher.matches(word)),
            met=_with_context(met, heading, before.met if before else {}),
            before=before,
            direct=bool(met) or (alone and bool(heading)),
            hanging=hangs(sentence.text, self.language),
            fit=long_enough and len(own) <= MAX_WORDS and follows is not None and not _ASIDE.match(sentence.text),
            quality=_quality(sentence, own, met, self._question),
            follows=follows or (),
        )

    def _heading(self, sentence: Sentence) -> dict[int, float]:
        if sentence.heading not in self._headings:
            above = words(f"{self._source.title} {sentence.heading}")
            self._headings[sentence.heading] = met_terms(above, self._matcher)
        return self._headings[sentence.heading]


def _with_context(
    own: Mapping[int, float], heading: Mapping[int, float], before: Mapping[int, float]
) -> dict[int, float]:
    met = dict(own)
    for around, worth in ((heading, TITLE_CREDIT), (before, BEFORE_CREDIT)):
        for number, credit in around.items():
            met[number] = max(met.get(number, 0.0), worth * credit)
    return met


def met_terms(found: Sequence[str], matcher: TermMatcher) -> dict[int, float]:
    """The terms that these words stand for, each with how well it is met (0 to 1)."""
    met: dict[int, float] = {}
    for word in found:
        for number, credit in matcher.matches(word):
            if credit > met.get(number, 0.0):
                met[number] = credit
    return met


def _followers(sentence: Sentence) -> tuple[Block, ...] | None:
    """The code or list that a sentence with a colon at its end announces; None when it announces something else."""
    if sentence.text[-1] not in ":：":
        return ()
    if not sentence.after:
        return None
    first = sentence.after[0]
    if first.kind == "code":
        fits = first.text.count("\n") < MAX_CODE_LINES and len(first.text) <= MAX_CODE_CHARS
        return (first,) if fits and first.text.strip() else None
    items = tuple(itertools.takewhile(lambda block: block.kind == "item", sentence.after))
    return items if 0 < len(items) <= MAX_LIST_ITEMS else None


def _quality(sentence: Sentence, own: Sequence[str], met: dict[int, float], question: Question) -> float:
    """How much the shape of a sentence speaks for it: whole, of a usual length, of the kind that was asked for."""
    quality = CUT_QUALITY if not sentence.whole else ITEM_QUALITY if sentence.item else 1.0
    if len(own) > LONG_WORDS:
        quality *= LONG_QUALITY
    if question.kind in ("when", "count"):
        quality *= NUMBER_QUALITY if _NUMBER.search(sentence.text) else 1.0
    elif question.kind == "why":
        quality *= REASON_QUALITY if _REASON.search(sentence.text) else 1.0
    elif question.kind == "what":
        quality *= DEFINITION_QUALITY if met and _defines(sentence.text, own, met, question) else 1.0
        quality *= OPENING_QUALITY if sentence.position <= OPENING_SENTENCES else 1.0
    return quality


def _defines(text: str, own: Sequence[str], met: dict[int, float], question: Question) -> bool:
    """Whether the sentence says what its subject is, and the subject is what was asked for."""
    copula = _IS_A.search(text)
    if not copula or copula.start() > DEFINES_WITHIN_CHARS:
        return False
    subject = words(text[: copula.start()])
    asked = {question.terms[number].word for number in met}
    return any(word in asked for word in subject[:DEFINES_WITHIN_WORDS]) and len(own) > len(subject) + 2


def overlap(one: Candidate, other: Candidate) -> float:
    """What two sentences say beyond the question's own words: the shared part, over the shorter one; 0 to 1."""
    if one.words == other.words:
        return 1.0
    return len(one.content & other.content) / max(1, min(len(one.content), len(other.content)))
