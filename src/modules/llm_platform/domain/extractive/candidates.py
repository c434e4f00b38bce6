"""Compare each sentence of the sources with the terms of a question.

`find_candidates` takes a question and sources, and returns one `Candidate` for each sentence. Its `credits` say which terms the
sentence has, and how much each counts: "The saw weighs 9 kg" has `saw` itself (1.0), and its heading "Weights of tools" has
another form of `tool` (0.6 times 0.85). `scoring` then turns credits into scores. What is the same for every question, such as
the words of a sentence, is in `SentenceForm` and `SourceSentences`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.extractive.blocks import Block
from modules.llm_platform.domain.extractive.markup import strip_markup
from modules.llm_platform.domain.extractive.question import NAME_WEIGHT, Question, TermMatcher, list_symbols
from modules.llm_platform.domain.extractive.sentence_rules import (
    Boilerplate,
    depends_on_context,
    find_boilerplate,
    points_to_exhibit,
)
from modules.llm_platform.domain.extractive.sentences import (
    MAX_ROWS,
    MAX_ROWS_OF_WHOLE,
    MAX_SENTENCES,
    Sentence,
    list_sentences,
    read_table,
)
from modules.llm_platform.domain.text.language import detect_language, load_stop_words
from modules.llm_platform.domain.text.sentences import ends_sentence, is_question, split_sentences
from modules.llm_platform.domain.text.tokens import fold, split_words

LONG_WORDS = 55
# Factors on the score of a sentence, by its form.
CUT_QUALITY = 0.6
ITEM_QUALITY = 0.92  # a list item or table row is seldom a whole sentence
CODE_QUALITY = 1.15  # the sentence stands above code, and the question asks how
LONG_QUALITY = 0.8
DEFINITION_QUALITY = 1.4  # the sentence defines a term, and the question asks what something is
EXPLANATION_QUALITY = 1.8  # the sentence is the entry of a definition list for a name of the question
DEFINES_WITHIN_CHARS = 80
DEFINES_WITHIN_WORDS = 5
LEAD_WORDS = 20  # a longer heading or introduction is not repeated before a sentence
ITEM_WORDS = 25  # a longer list item can be understood without the introduction of its list
MAX_CODE_LINES = 16
MAX_CODE_CHARS = 900
MAX_LIST_ITEMS = 7
# The credit for a term of the question outside the sentence. In the sentence itself it is 1.
TITLE_CREDIT = 0.6  # the title or heading above the sentence
BEFORE_CREDIT = 0.35  # the sentence before
CODE_CREDIT = 0.85  # the code that the sentence announces
LONG_CREDIT = 0.35  # long code, or a whole table, because one of its rows is a better answer
LONG_CODE_WORDS = 30
CODE_TERMS = 2  # code with this many terms can answer, even if its heading has no term
MIN_WORDS = 3
MAX_WORDS = 110
LANGUAGE_CHARS = 1500  # the beginning of a source from which its language is detected
PREFIX_CHARS = 4  # paragraphs of long sources are ranked by the first letters of terms

_IS_A = re.compile(
    r"\b(?:(?:is|are|was|were) (?:an?|the|one|any|some)|means|refers to|stands for|(?:ist|sind|war|waren) (?:eine?"
    r"|der|die|das)|bezeichnet|bedeutet"
    r"|(?:est|sont) (?:une?|le|la|les|des)|désigne|(?:es|son) (?:una?|el|la|los|las)|significa|(?:é|são) (?:uma?|o|a"
    r"|os|as)|(?:è|sono) (?:una?|uno|il|lo|la|i|gli|le)"
    r"|это|является|означает|це|jest|is een)\b|\s[—–]\s|是|とは|は|이란|란",
    re.IGNORECASE,
)
_NAMES_ITSELF = re.compile(r"-{1,2}\w|`|[^:]{1,40}: |.{1,40}\s[–—-]+\s")  # an item that begins with its own name


def _choose_lead(sentence: Sentence, language: str) -> str:
    """Return the text to show before a sentence, so that it can be understood; empty if it needs none.

    This is the term that the sentence explains, or the introduction or heading above a list item.
    """
    if sentence.term:
        return "" if is_question(sentence.term) else sentence.term
    if not sentence.is_item or sentence.row or sentence.is_announcement or sentence.before:
        return ""
    introduction = ""
    if sentence.intro and len(sentence.text.split()) <= ITEM_WORDS:
        start, end = split_sentences(sentence.intro, language)[-1]
        last = strip_markup(sentence.intro[start:end])
        introduction = "" if depends_on_context(last, language) else _shorten(last)
    names_itself = _NAMES_ITSELF.match(sentence.text) or sentence.heading.isupper()
    fragment = not ends_sentence(sentence.text)
    return introduction or (_shorten(sentence.heading) if fragment and not names_itself else "")


def _shorten(above: str) -> str:
    """Return the text without its colon; empty if it is a question, or too long to show before a sentence."""
    bare = above.rstrip(":： ")
    return "" if is_question(bare) or len(bare.split()) > LEAD_WORDS else bare


def find_attached_blocks(sentence: Sentence, *, how: bool) -> tuple[Block, ...] | None:
    """Return the code, list or table that a sentence ending in a colon announces.

    The result is empty if the sentence announces nothing, and None if the announced block is missing or too long to show.
    With `how`, any sentence announces short code right below it.
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
    """Return whether code is short enough to show in an answer."""
    lines = code.text.count("\n") + 1
    return bool(code.text.strip()) and lines <= MAX_CODE_LINES and len(code.text) <= MAX_CODE_CHARS


@dataclass(eq=False)
class SentenceForm:
    """The properties of a sentence that are the same for every question.

    - `lead` is the text to show before the sentence. `shown` has the lead and the sentence.
    - `words` are the words of `shown` and of the column names.
    - `above` is the code right above the sentence, if the sentence refers to it (`This command …`).
    - `refers_back` is True if the first words refer to the sentence before.
    - `is_alone` is True if the sentence is the whole text of its source, such as a bare answer.
    - `is_usable` is True if the sentence has a beginning and is neither too short nor too long.
    - `context` has the heading, the defined term, the introduction and the column names.
    """

    sentence: Sentence
    lead: str
    shown: str
    words: list[str]
    above: Block | None
    refers_back: bool
    is_alone: bool
    is_usable: bool
    context: tuple[str, ...]

    @cached_property
    def boilerplate(self) -> Boilerplate:
        """The reasons not to quote the sentence."""
        return find_boilerplate(self.sentence.text)


class SourceSentences:
    """The sentences of a source, to be compared with any number of questions.

    - `language` is the language of the question. It is used if the language of the source cannot be detected.
    - `relevance` returns how many terms of the question a paragraph has. Only the best paragraphs of a long source are read.
    """

    def __init__(self, source: Source, blocks: Sequence[Block], language: str, relevance: Callable[[str], int]) -> None:
        self.source = source
        self.language = detect_language(source.text[:LANGUAGE_CHARS]) or language
        self.stop_words = load_stop_words(self.language)
        whole = source.text.strip()
        limit = MAX_ROWS_OF_WHOLE if source.is_whole else MAX_SENTENCES
        read = list_sentences(blocks, self.language, relevance, limit=limit)
        self.forms = [self._read_form(sentence, whole) for sentence in read]
        self.context_words = {
            context: split_words(" ".join((source.title, *context)))
            for context in {form.context for form in self.forms}
        }

    def _read_form(self, sentence: Sentence, whole: str) -> SentenceForm:
        refers_back = depends_on_context(sentence.text, self.language)
        lead = _choose_lead(sentence, self.language)
        shown = f"{lead}: {sentence.text}" if lead else sentence.text
        columns = (column.replace("_", " ") for column in sentence.columns)  # a question asks for `hours per week`
        own = split_words(" ".join((shown, *columns)) if sentence.columns else shown)
        is_alone = sentence.text == whole
        is_long_enough = is_alone or sentence.is_announcement or bool(sentence.row) or len(own) >= MIN_WORDS
        begins_small = not sentence.is_item and sentence.text[0].islower()
        is_beginning_missing = begins_small and own[:1] != [] and own[0] in self.stop_words  # `of the …`
        return SentenceForm(
            sentence=sentence,
            lead=lead,
            shown=shown,
            words=own,
            above=sentence.above if refers_back and sentence.above and is_short(sentence.above) else None,
            refers_back=refers_back,
            is_alone=is_alone,
            is_usable=is_long_enough and len(own) <= MAX_WORDS and not is_beginning_missing,
            context=(sentence.heading, sentence.term, sentence.intro, *sentence.columns),
        )


@dataclass(eq=False)
class Candidate:
    """A sentence of a source beside a question.

    - `form` is the sentence, and `found_in` has all sentences of its source. `rank` is the position of the source, from 0.
    - `before` is the candidate right before it.
    - `announced` are the blocks that the sentence announces, None if they are missing or too long to show.
    - `own_credits` maps the number of each term in the sentence to a credit, 0 to 1.
    - `credits` also counts terms in the title, the heading, the sentence before, and the announced code.
    - `score_candidates` sets `source_match`, how well the whole source matches, 0 to 1, and `score`.
    """

    form: SentenceForm
    found_in: SourceSentences
    rank: int
    question: Question
    before: Candidate | None
    announced: tuple[Block, ...] | None
    own_credits: dict[int, float]
    credits: dict[int, float]
    source_match: float = 0.0
    score: float = 0.0

    @property
    def source(self) -> Source:
        return self.found_in.source

    @property
    def sentence(self) -> Sentence:
        return self.form.sentence

    @property
    def words(self) -> list[str]:
        return self.form.words

    @property
    def lead(self) -> str:
        return self.form.lead

    @property
    def is_dependent(self) -> bool:
        """True if the sentence can only be understood with the sentence before, and has no lead or code instead."""
        return self.form.refers_back and not self.form.lead and self.form.above is None

    @property
    def attachments(self) -> tuple[Block, ...]:
        """The blocks to show below the sentence."""
        return self.announced or ()

    @cached_property
    def has_own_term(self) -> bool:
        """True if the sentence or its lead has a term, or the title of a bare answer, or the code that is announced."""
        matcher, form = self.question.matcher, self.form
        return (
            bool(self.own_credits)
            or (form.is_alone and bool(match_terms(self.found_in.context_words[form.context], matcher)))
            or (
                self.sentence.is_announcement
                and len(match_terms(_list_code_words(self.announced), matcher)) >= CODE_TERMS
            )
        )

    @property
    def has_usable_form(self) -> bool:
        """False if the form of the sentence excludes it from all answers."""
        return self.form.is_usable and self.announced is not None

    @cached_property
    def quality(self) -> float:
        """The factor by which the form of the sentence (completeness, length, kind) multiplies its score."""
        sentence, question = self.sentence, self.question
        quality = CUT_QUALITY if not sentence.is_complete else ITEM_QUALITY if sentence.is_item else 1.0
        if len(self.words) > LONG_WORDS:
            quality *= LONG_QUALITY
        if question.asks_how and sentence.after and sentence.after[0].kind == "code":
            quality *= CODE_QUALITY
        if question.asks_what and defines_asked_term(sentence, question):
            quality *= EXPLANATION_QUALITY
        elif question.asks_what and self.own_credits and _says_what_it_is(self):
            quality *= DEFINITION_QUALITY
        return quality

    @cached_property
    def is_quotable(self) -> bool:
        """True if the sentence can be part of an answer."""
        text, asked = self.sentence.text, self.question.text
        shows_nothing = not self.attachments and points_to_exhibit(text, asked)
        if shows_nothing or not self.has_usable_form or is_question(text):
            return False
        return not self.form.boilerplate.is_unasked(asked)

    @cached_property
    def content(self) -> frozenset[str]:
        """The words that the sentence adds to the question, without function words.

        An announcement has the words of what it announces.
        """
        own = self.words if not self.lead else split_words(self.sentence.text)
        if self.sentence.is_announcement:
            own = _list_code_words(self.announced)
        matcher, stop_words = self.question.matcher, self.found_in.stop_words
        return frozenset(word for word in own if word not in stop_words and not matcher[word])


def defines_asked_term(sentence: Sentence, question: Question) -> bool:
    """Return whether a definition list uses the sentence to define what the question names.

    The defined term must be a name of the question, or consist only of words of the question.
    """
    if not sentence.term:
        return False
    named = {*split_words(sentence.term), *list_symbols(sentence.term)}
    if any(term.weight >= NAME_WEIGHT and term.word in named for term in question.terms):
        return True
    return bool(named) and named <= {term.word for term in question.terms}


def _says_what_it_is(candidate: Candidate) -> bool:
    """Return whether the sentence says what its subject is, and the subject is a term of the question."""
    shown = candidate.form.shown
    copula = _IS_A.search(shown)
    if not copula or copula.start() > DEFINES_WITHIN_CHARS:
        return False
    subject = split_words(shown[: copula.start()])
    terms = {candidate.question.terms[number].word for number in candidate.own_credits}
    is_about_term = any(word in terms for word in subject[:DEFINES_WITHIN_WORDS])
    return is_about_term and len(candidate.words) > len(subject) + 2


def find_candidates(question: Question, sources: Sequence[Source], texts: Sequence[Sequence[Block]]) -> list[Candidate]:
    """Return the sentences of all sources in order. `texts` has the blocks of each source."""
    relevance = make_relevance([question])
    read = (
        SourceSentences(source, blocks, question.language, relevance)
        for source, blocks in zip(sources, texts, strict=True)
    )
    return [found for rank, sentences in enumerate(read) for found in list_candidates(sentences, rank, question)]


def make_relevance(questions: Sequence[Question]) -> Callable[[str], int]:
    """Return a function that estimates how many terms of the questions a paragraph has, by their first PREFIX_CHARS."""
    beginnings = {re.escape(term.word[:PREFIX_CHARS]) for question in questions for term in question.terms}
    pattern = re.compile("|".join(sorted(beginnings, key=len, reverse=True)) or r"(?!)")
    return lambda text: len(set(pattern.findall(fold(text))))


def list_candidates(sentences: SourceSentences, rank: int, question: Question) -> list[Candidate]:
    """Return the sentences of one source, compared with the question."""
    matcher = question.matcher
    heading_credits = {context: match_terms(found, matcher) for context, found in sentences.context_words.items()}
    asks_for_symbols = bool(list_symbols(question.text))
    candidates: list[Candidate] = []
    for form in sentences.forms:
        sentence = form.sentence
        before = candidates[-1] if candidates and candidates[-1].sentence is sentence.before else None
        announced = find_attached_blocks(sentence, how=question.asks_how)
        code = _list_code_words(announced)
        own_words = [*form.words, *list_symbols(form.shown)] if asks_for_symbols else form.words
        own_credits = match_terms(own_words, matcher)
        around = (
            (heading_credits[form.context], TITLE_CREDIT),
            (before.credits if before else {}, BEFORE_CREDIT),
            (match_terms(code, matcher), _choose_announced_credit(announced, code)),
        )
        all_credits = _add_context(own_credits, around)
        candidates.append(
            Candidate(form, sentences, rank, question, before, announced, own_credits, credits=all_credits)
        )
    return candidates


def _choose_announced_credit(announced: Sequence[Block] | None, words: Sequence[str]) -> float:
    """Return the credit for a term in the block that a sentence announces. `words` are the words of the block."""
    is_short_code = announced and announced[0].kind == "code" and len(words) <= LONG_CODE_WORDS
    return CODE_CREDIT if is_short_code else LONG_CREDIT


def _list_code_words(announced: Sequence[Block] | None) -> list[str]:
    """Return the words of announced code, or of an announced table."""
    return split_words(announced[0].text) if announced and announced[0].kind != "item" else []


def _add_context(own: Mapping[int, float], around: Sequence[tuple[Mapping[int, float], float]]) -> dict[int, float]:
    """Return the credits of a sentence, raised by terms around it. Each pair of `around` has credits and their factor."""
    term_credits = dict(own)
    for found, factor in around:
        for number, credit in found.items():
            term_credits[number] = max(term_credits.get(number, 0.0), factor * credit)
    return term_credits


def match_terms(found: Sequence[str], matcher: TermMatcher) -> dict[int, float]:
    """Return the numbers of the terms that the words match, each with its credit, 0 to 1."""
    term_credits: dict[int, float] = {}
    for matches in matcher.find_matches(found):
        for number, credit in matches:
            term_credits[number] = max(term_credits.get(number, 0.0), credit)
    return term_credits


def is_in_same_table(one: Candidate, other: Candidate) -> bool:
    """Return whether both belong to the same table, and one of them announces the whole table."""
    whole = bool(one.sentence.columns) and (one.sentence.is_announcement or other.sentence.is_announcement)
    mine, theirs = one.sentence, other.sentence
    return whole and one.rank == other.rank and (mine.heading, mine.columns) == (theirs.heading, theirs.columns)


def measure_overlap(one: Candidate, other: Candidate) -> float:
    """Return the share of the shorter sentence's words that both have, 0 to 1. Words of the question do not count.

    Announcements overlap only if they announce the same block.
    """
    if one.sentence.is_announcement or other.sentence.is_announcement:
        return float(
            bool(one.attachments)
            and one.attachments[0].text == (other.attachments[0].text if other.attachments else "")
        )
    if one.words == other.words:
        return 1.0
    return len(one.content & other.content) / max(1, min(len(one.content), len(other.content)))
