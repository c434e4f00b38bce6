"""The sentences that could answer a question, and what is known of each: its terms, its shape, what it hangs on."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from modules.llm_platform.domain.dtos.research_dtos import Source
from modules.llm_platform.domain.language import detect, stop_words
from modules.llm_platform.domain.quoting.blocks import Block
from modules.llm_platform.domain.quoting.leads import Leads, followers
from modules.llm_platform.domain.quoting.question import Question, TermMatcher, symbols
from modules.llm_platform.domain.quoting.rules import hangs, is_question, shows_beside, tells_nothing
from modules.llm_platform.domain.quoting.sentences import Sentence, sentences_in
from modules.llm_platform.domain.quoting.shape import Shape, qualities
from modules.llm_platform.domain.text import fold, words

TITLE_CREDIT = 0.6  # a term in the title or heading above counts this much for the sentence
BEFORE_CREDIT = 0.35  # and one in the sentence before
CODE_CREDIT = 0.85  # and one in the code that the sentence announces
LONG_CREDIT = 0.35  # and one in long code, or in a table that is quoted whole: its row is the better answer
LONG_CODE_WORDS = 30
CODE_TERMS = 2  # of the question in code make it an answer, whatever its heading
MIN_WORDS = 3
MAX_WORDS = 110
LANGUAGE_CHARS = 1500  # of a source, to tell its language
PREFIX_CHARS = 4  # of a term, looked for in the paragraphs of long sources

_ASIDE = re.compile(r"[(（\[\]）)}>,;/=&]")  # begun in the middle, or said in passing


@dataclass(slots=True, eq=False)
class Candidate:
    """A sentence and what is known of it: its words, and for each term of the question how well it is met (0 to 1).

    `lead` stands above it in the source and is said before it, so that a reader knows what it is about. `direct` says that
    the sentence itself (with that) holds a term, `met` counts its heading, its source and the sentence before it, too.
    `fit` is False for what has not the shape of an answer; `qualities` scale the score by shape, one for each part of the
    question; `follows` are the blocks that it announces, `above` is code that it speaks of; `passage` is how well the whole
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
    qualities: tuple[float, ...]
    follows: tuple[Block, ...]
    lead: str = ""
    above: Block | None = None
    passage: float = 0.0
    score: float = 0.0
    _tells: bool | None = None

    @property
    def tells(self) -> bool:
        """Whether it can stand in an answer at all; found out late, since most candidates are never looked at."""
        if self._tells is None:
            text = self.sentence.text
            self._tells = (
                self.fit
                and not is_question(text)
                and not tells_nothing(text, self.question)
                and (bool(self.follows) or not shows_beside(text))
            )
        return self._tells


def find_candidates(
    question: Question, sources: Sequence[Source], texts: Sequence[Sequence[Block]], matcher: TermMatcher
) -> list[Candidate]:
    """All sentences of the sources that are looked at, source after source, as they stand there; `texts` are their blocks."""
    relevance = _relevance(question)
    found: list[Candidate] = []
    for rank, (source, blocks) in enumerate(zip(sources, texts, strict=True)):
        judge = _Judge(source, rank, question, matcher)
        for sentence in sentences_in(blocks, judge.language, relevance):
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
        self.language = detect(source.text[:LANGUAGE_CHARS]) or question.language
        self._source, self._rank, self._question, self._matcher = source, rank, question, matcher
        self._stop = stop_words(self.language)
        self._bare = source.text.strip()
        self._above: dict[tuple[str, ...], dict[int, float]] = {}
        self._leads = Leads(source.title, self.language, matcher)
        self._how = "how" in question.kinds
        self._has_symbols = bool(symbols(question.text))

    def candidate(self, sentence: Sentence, before: Candidate | None) -> Candidate:
        hanging = hangs(sentence.text, self.language)
        lead = self._leads.before(sentence, hanging=hanging)
        code_above = self._leads.code(sentence) if hanging and not lead else None
        shown = f"{lead}: {sentence.text}" if lead else sentence.text
        own = words(" ".join((shown, *sentence.columns)) if sentence.columns else shown)
        met = met_terms([*own, *symbols(shown)] if self._has_symbols else own, self._matcher)
        headings = self._terms_above(sentence)
        follows = followers(sentence, how=self._how)
        code = words(follows[0].text) if follows and follows[0].kind != "item" else []
        coded = met_terms(code, self._matcher)
        alone = sentence.text == self._bare  # a bare answer to what the title asks
        context = (
            (headings, TITLE_CREDIT),
            (before.met if before else {}, BEFORE_CREDIT),
            (coded, _worth(follows, code)),
        )
        return Candidate(
            sentence=sentence,
            source=self._source,
            rank=self._rank,
            question=self._question.text,
            words=own,
            content=self._content(code if sentence.announces else words(sentence.text) if lead else own),
            met=_with_context(met, context),
            before=before,
            direct=bool(met) or (alone and bool(headings)) or (sentence.announces and len(coded) >= CODE_TERMS),
            hanging=hanging and not lead and code_above is None,
            fit=self._fit(sentence, own, alone=alone) and follows is not None,
            qualities=qualities(sentence, Shape(shown, own, met), self._question),
            follows=follows or (),
            lead=lead,
            above=code_above,
        )

    def _fit(self, sentence: Sentence, own: Sequence[str], *, alone: bool) -> bool:
        long_enough = alone or sentence.announces or bool(sentence.row) or len(own) >= MIN_WORDS
        if not long_enough or len(own) > MAX_WORDS or _ASIDE.match(sentence.text):
            return False
        return sentence.item or not sentence.text[0].islower() or own[0] not in self._stop  # `of the …`: begun too late

    def _content(self, own: Sequence[str]) -> frozenset[str]:
        return frozenset(word for word in own if word not in self._stop and not self._matcher.matches(word))

    def _terms_above(self, sentence: Sentence) -> dict[int, float]:
        """The terms in what stands over the sentence: title, heading, term, introduction, names of columns."""
        key = (sentence.heading, sentence.term, sentence.intro, *sentence.columns)
        if key not in self._above:
            self._above[key] = met_terms(words(" ".join((self._source.title, *key))), self._matcher)
        return self._above[key]


def _worth(follows: Sequence[Block] | None, code: Sequence[str]) -> float:
    """What a term in the announced code or table counts."""
    if follows and follows[0].kind == "code" and len(code) <= LONG_CODE_WORDS:
        return CODE_CREDIT
    return LONG_CREDIT


def _with_context(own: Mapping[int, float], context: Sequence[tuple[Mapping[int, float], float]]) -> dict[int, float]:
    met = dict(own)
    for around, worth in context:
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


def same_table(one: Candidate, other: Candidate) -> bool:
    """Whether one is a row of a table that the other shows whole."""
    whole = bool(one.sentence.columns) and (one.sentence.announces or other.sentence.announces)
    mine, theirs = one.sentence, other.sentence
    return whole and one.rank == other.rank and (mine.heading, mine.columns) == (theirs.heading, theirs.columns)


def overlap(one: Candidate, other: Candidate) -> float:
    """What two sentences say beyond the question's own words: the shared part, over the shorter one; 0 to 1."""
    if one.sentence.announces or other.sentence.announces:
        return float(bool(one.follows) and one.follows[0].text == (other.follows[0].text if other.follows else ""))
    if one.words == other.words:
        return 1.0
    return len(one.content & other.content) / max(1, min(len(one.content), len(other.content)))
