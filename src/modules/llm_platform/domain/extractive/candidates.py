"""The sentences that could answer a question, and what is known of each: its terms, its shape, what it hangs on."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from modules.llm_platform.domain.dtos.research_dtos import Source
from modules.llm_platform.domain.extractive.blocks import Block, ends_like_a_sentence, strip_markup
from modules.llm_platform.domain.extractive.question import NAME_WEIGHT, Question, TermMatcher, symbols
from modules.llm_platform.domain.extractive.sentence_rules import (
    depends_on_context,
    is_boilerplate,
    is_question,
    is_version_note,
    points_at_subject,
    shows_beside,
)
from modules.llm_platform.domain.extractive.sentences import MAX_ROWS, Sentence, read_table, sentences_in
from modules.llm_platform.domain.text.language import detect, stop_words
from modules.llm_platform.domain.text.tokens import fold, sentence_spans, words

# How much the shape of a sentence speaks for it: whole, of a usual length, of the kind that is asked for.


LONG_WORDS = 55
CUT_QUALITY = 0.6  # factors on the score
ITEM_QUALITY = 0.92  # a list item or the row of a table is seldom a sentence
TABLE_QUALITY = 1.2  # a whole table, where not one thing was asked for
CODE_QUALITY = 1.15  # where a way to do something was asked for
HEADED_CODE_EXPLAINS = 0.6  # code under a heading, where not a way to do something was asked for
LONG_QUALITY = 0.8
VERSION_NOTE_QUALITY = 0.5
NUMBER_QUALITY = 1.2
REASON_QUALITY = 1.1
DEFINITION_QUALITY = 1.4
EXPLANATION_QUALITY = 1.8  # in a definition list, of a name that was asked for
OPENING_QUALITY = 1.05
OPENING_SENTENCES = 3
DEFINES_WITHIN_CHARS = 80
DEFINES_WITHIN_WORDS = 5

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


@dataclass(frozen=True, slots=True)
class Shape:
    """A sentence as it would be shown, its words, and the terms that it meets."""

    text: str
    words: Sequence[str]
    met: Mapping[int, float]


def qualities(sentence: Sentence, shape: Shape, question: Question) -> tuple[float, ...]:
    """How much the shape of a sentence speaks for it: whole, of a usual length, of the kind that each part asks for."""
    quality = CUT_QUALITY if not sentence.whole else ITEM_QUALITY if sentence.item else 1.0
    if is_version_note(shape.text, question.text):
        quality *= VERSION_NOTE_QUALITY
    if len(shape.words) > LONG_WORDS:
        quality *= LONG_QUALITY
    return tuple(quality * _quality(kind, sentence, shape, question) for kind in question.kinds)


def _quality(kind: str, sentence: Sentence, shape: Shape, question: Question) -> float:
    shows_code = bool(sentence.after) and sentence.after[0].kind == "code"
    if sentence.announces and shows_code and kind != "how":
        return HEADED_CODE_EXPLAINS
    if sentence.announces and kind == "other":
        return TABLE_QUALITY
    if kind == "how":
        return CODE_QUALITY if shows_code else 1.0
    if kind in ("when", "count"):
        return NUMBER_QUALITY if _NUMBER.search(shape.text) else 1.0
    if kind == "why":
        return REASON_QUALITY if _REASON.search(shape.text) else 1.0
    if kind == "what":
        opening = OPENING_QUALITY if sentence.position <= OPENING_SENTENCES else 1.0
        if _explains(sentence, question):
            return opening * EXPLANATION_QUALITY
        return opening * (DEFINITION_QUALITY if shape.met and _defines(shape, question) else 1.0)
    return 1.0


def _explains(sentence: Sentence, question: Question) -> bool:
    """Whether a definition list gives the sentence for a name that was asked for."""
    if not sentence.term:
        return False
    named = {*words(sentence.term), *symbols(sentence.term)}
    return any(term.weight >= NAME_WEIGHT and term.word in named for term in question.terms)


def _defines(shape: Shape, question: Question) -> bool:
    """Whether the sentence says what its subject is, and the subject is what was asked for."""
    copula = _IS_A.search(shape.text)
    if not copula or copula.start() > DEFINES_WITHIN_CHARS:
        return False
    subject = words(shape.text[: copula.start()])
    asked = {question.terms[number].word for number in shape.met}
    return any(word in asked for word in subject[:DEFINES_WITHIN_WORDS]) and len(shape.words) > len(subject) + 2


# What must be said before a sentence so that it can stand by itself, and what belongs behind it.


LEAD_WORDS = 20  # a longer heading or introduction is not said again before a sentence
ITEM_WORDS = 25  # a longer item of a list is understood without what introduces the list
NAME_WORDS = 8  # of a title that names a thing
MAX_CODE_LINES = 16
MAX_CODE_CHARS = 900
MAX_LIST_ITEMS = 7

_ASKS = re.compile(
    r"(?:what|how|why|when|where|who|which|was|wie|warum|wann|wo|wer|welche\w*|comment|pourquoi|quand|qué|cómo|cuándo"
    r"|что|как|почему|зачем|когда|где)\b",
    re.IGNORECASE,
)
_NAMES_ITSELF = re.compile(r"-{1,2}\w|`|[^:]{1,40}: |.{1,40}\s[–—-]+\s")


class LeadIns:
    """Finds what stands above the sentences of one source and must be said again before them."""

    def __init__(self, title: str, language: str, matcher: TermMatcher) -> None:
        self._title, self._language, self._matcher = title, language, matcher
        self._intros: dict[str, str] = {}

    def before(self, sentence: Sentence, *, hanging: bool) -> str:
        """The term explained, what a fragment is one of, what `This` means; empty where nothing is needed or known."""
        if sentence.term:
            return "" if is_question(sentence.term) else sentence.term
        if sentence.row or sentence.announces:
            return ""
        if hanging:
            return (
                self._subject(sentence) if sentence.opens and points_at_subject(sentence.text, self._language) else ""
            )
        if not sentence.item or sentence.before:
            return ""
        introduction = self._introduction(sentence.intro) if len(sentence.text.split()) <= ITEM_WORDS else ""
        fragment = not ends_like_a_sentence(sentence.text)
        return introduction or (_heading_of(sentence) if fragment else "")

    def code(self, sentence: Sentence) -> Block | None:
        """The code that the sentence speaks of: `This installs …`, right below the command that does."""
        code = sentence.above
        spoken_of = code is not None and is_short(code) and points_at_subject(sentence.text, self._language)
        return code if spoken_of else None

    def _subject(self, sentence: Sentence) -> str:
        """The heading or title right above, if it names what was asked for."""
        names = (_short(sentence.heading), _short(self._title))
        return next((name for name in names if _is_name(name) and any(map(self._matcher.matches, words(name)))), "")

    def _introduction(self, intro: str) -> str:
        if intro and intro not in self._intros:
            start, end = sentence_spans(intro, self._language)[-1]
            last = strip_markup(intro[start:end])
            self._intros[intro] = "" if depends_on_context(last, self._language) else _short(last)
        return self._intros.get(intro, "")


def _is_name(title: str) -> bool:
    """Whether it names a thing, so that `It` can mean that: not `How a pump works`."""
    return 0 < len(title.split()) <= NAME_WORDS and not _ASKS.match(title)


def _heading_of(item: Sentence) -> str:
    """The heading, unless the item says by itself what it is about, or the heading is one of a manual's usual ones."""
    return "" if _NAMES_ITSELF.match(item.text) or item.heading.isupper() else _short(item.heading)


def _short(above: str) -> str:
    """Without the colon, and nothing where it is too long to be said again, or asks something."""
    bare = above.rstrip(":： ")
    return "" if is_question(bare) or len(bare.split()) > LEAD_WORDS else bare


def followers(sentence: Sentence, *, how: bool) -> tuple[Block, ...] | None:
    """The code, list or table that a sentence with a colon at its end announces; None when it announces something else.

    Where a way to do something was asked for, code that stands right below any sentence belongs to it.
    """
    first = sentence.after[0] if sentence.after else None
    if sentence.text[-1] not in ":：":
        return (first,) if how and first and first.kind == "code" and is_short(first) else ()
    if first is None:
        return None
    if first.kind == "code":
        return (first,) if is_short(first) else None
    if first.kind == "table":
        return (first,) if 0 < len(read_table(first)[1]) <= MAX_ROWS else None
    items = tuple(itertools.takewhile(lambda block: block.kind == "item", sentence.after))
    return items if 0 < len(items) <= MAX_LIST_ITEMS else None


def is_short(code: Block) -> bool:
    """Whether code can be shown in an answer."""
    lines = code.text.count("\n") + 1
    return bool(code.text.strip()) and lines <= MAX_CODE_LINES and len(code.text) <= MAX_CODE_CHARS


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
                and not is_boilerplate(text, self.question)
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
        judge = _CandidateScorer(source, rank, question, matcher)
        for sentence in sentences_in(blocks, judge.language, relevance):
            before = found[-1] if found and found[-1].sentence is sentence.before else None
            found.append(judge.candidate(sentence, before))
    return found


def _relevance(question: Question) -> Callable[[str], int]:
    """How many terms a paragraph seems to hold, by their beginnings: a first look at long sources."""
    starts = sorted({re.escape(term.word[:PREFIX_CHARS]) for term in question.terms}, key=len, reverse=True)
    pattern = re.compile("|".join(starts) or r"(?!)")
    return lambda text: len(set(pattern.findall(fold(text))))


class _CandidateScorer:
    """Makes candidates of the sentences of one source."""

    def __init__(self, source: Source, rank: int, question: Question, matcher: TermMatcher) -> None:
        self.language = detect(source.text[:LANGUAGE_CHARS]) or question.language
        self._source, self._rank, self._question, self._matcher = source, rank, question, matcher
        self._stop = stop_words(self.language)
        self._bare = source.text.strip()
        self._above: dict[tuple[str, ...], dict[int, float]] = {}
        self._leads = LeadIns(source.title, self.language, matcher)
        self._how = "how" in question.kinds
        self._has_symbols = bool(symbols(question.text))

    def candidate(self, sentence: Sentence, before: Candidate | None) -> Candidate:
        hanging = depends_on_context(sentence.text, self.language)
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
