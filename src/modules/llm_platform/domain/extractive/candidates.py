"""Compare each sentence of the sources with the terms of a question.

`match_sources` takes a question and sources, and returns one `Candidate` for each sentence. Its `credits` say which
terms the sentence has, and how much each counts: "The saw weighs 9 kg" has `saw` itself (1.0), and its heading "Weights
of tools" has another form of `tool` (0.6 times 0.85). `scoring` then turns credits into scores. `sentence_forms` has
the properties of a sentence that are the same for every question.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.extractive.announced_blocks import AnnouncedBlocks, find_announced_blocks
from modules.llm_platform.domain.extractive.blocks import Block
from modules.llm_platform.domain.extractive.definitions import defines_asked_term, is_definition
from modules.llm_platform.domain.extractive.question import Question, TermMatcher, list_symbols, remove_name_ampersands
from modules.llm_platform.domain.extractive.sentence_forms import (
    SentenceForm,
    SourceSentences,
    describe_cached_sentences,
    describe_sentences,
)
from modules.llm_platform.domain.extractive.sentence_rules import points_to_exhibit
from modules.llm_platform.domain.extractive.sentences import (
    MAX_ROWS_OF_WHOLE,
    MAX_SENTENCES,
    Sentence,
    list_sentences,
    read_source_blocks,
)
from modules.llm_platform.domain.text.data_files import load_words
from modules.llm_platform.domain.text.sentences import is_question
from modules.llm_platform.domain.text.tokens import fold, split_words

LONG_WORDS = 55
# Factors on the score of a sentence, by its form.
CUT_QUALITY = 0.6
ITEM_QUALITY = 0.92  # a list item or table row is seldom a whole sentence
CODE_QUALITY = 1.15  # the sentence is above code, and the question asks how
LONG_QUALITY = 0.8
DEFINITION_QUALITY = 1.4  # the sentence defines a term, and the question asks what something is
EXPLANATION_QUALITY = 1.8  # the sentence is the entry of a definition list for a name of the question
# The credit for a term of the question outside the sentence. In the sentence itself it is 1.
TITLE_CREDIT = 0.6  # the title or heading above the sentence
BEFORE_CREDIT = 0.35  # the sentence before
CODE_TERMS = 2  # code with this many terms can answer, even if its heading has no term
PREFIX_CHARS = 4  # paragraphs of long sources are ranked by the first letters of terms


@dataclass(eq=False)
class Candidate:
    """A sentence of a source, matched with a question.

    - `form` is the sentence, and `found_in` has all sentences of its source.
    - `source_rank` is the position of the source, from 0.
    - `before` is the candidate right before it.
    - `announced` are the blocks that the sentence announces.
    - `own_credits` maps the number of each term in the sentence to a credit, 0 to 1.
    - `credits` also counts terms in the title, the heading, the sentence before, and the announced blocks.
    - `is_found` is False for a sentence of a whole document that the search did not find. `choose_by_words` skips it.
    - `score_candidates` sets `score` and `source_match` (how well the whole source matches, 0 to 1), and adds the terms of
      the source to `credits`.
    """

    form: SentenceForm
    found_in: SourceSentences
    source_rank: int
    question: Question
    before: Candidate | None
    announced: AnnouncedBlocks
    own_credits: dict[int, float]
    credits: dict[int, float]
    is_found: bool = True
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
    def columns_key(self) -> tuple[int, tuple[str, ...]]:
        """Equal for the rows of one source that have the same columns, even below different headings.

        A question that names a row may mean any of them.
        """
        return self.source_rank, self.sentence.columns

    @property
    def table_key(self) -> tuple[int, tuple[str, ...], str]:
        """Equal for the rows of one table, and for the sentence that announces it: the same columns below the same heading.

        Only the rows of one table are compared or counted.
        """
        return *self.columns_key, self.sentence.heading

    @property
    def lead(self) -> str:
        return self.form.lead

    @property
    def is_dependent(self) -> bool:
        """True if the sentence refers to the sentence before it, and no lead, code or word of the question explains it."""
        is_unexplained = self.form.refers_back and not self.form.lead and self.form.above is None
        return is_unexplained and not self._begins_with_asked_noun

    @property
    def _begins_with_asked_noun(self) -> bool:
        """True if a paragraph begins with a noun of the question after a demonstrative: `This offer is valid until May`."""
        demonstratives, words = load_words("quoting", "demonstratives"), self.words[:2]
        if self.sentence.before is not None or len(words) < 2 or words[0] not in demonstratives:
            return False
        return 1.0 in match_terms(words[1:], self.question.matcher).values()  # "agreement" is not "agreed"

    @property
    def attachments(self) -> tuple[Block, ...]:
        """The blocks to show below the sentence."""
        return self.announced.blocks

    @cached_property
    def has_own_term(self) -> bool:
        """True if the sentence itself has a term.

        The lead and the column names count as parts of the sentence. For a bare answer, its title counts too. For a heading
        above code or a table, that code or table counts if it has at least CODE_TERMS terms.
        """
        if self.own_credits:
            return True
        matcher, form = self.question.matcher, self.form
        if form.is_alone and match_terms(self.found_in.context_words[form.context], matcher):
            return True
        return self.sentence.is_announcement and len(match_terms(self.announced.words, matcher)) >= CODE_TERMS

    @property
    def has_usable_form(self) -> bool:
        """False if the form of the sentence excludes it from all answers."""
        return self.form.is_usable and not self.announced.are_missing

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
        elif question.asks_what and self.own_credits and is_definition(self.form.shown, self.words, self._own_terms):
            quality *= DEFINITION_QUALITY
        return quality

    @property
    def _own_terms(self) -> set[str]:
        return {self.question.terms[number].word for number in self.own_credits}

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
        if self.sentence.is_announcement:
            words = self.announced.words
        else:
            words = split_words(self.sentence.text) if self.lead else self.words
        matcher, stop_words = self.question.matcher, self.found_in.stop_words
        return frozenset(word for word in words if word not in stop_words and not matcher[word])


def match_sources(
    question: Question, sources: Sequence[Source], blocks: Sequence[Sequence[Block]] | None = None
) -> list[Candidate]:
    """Return one candidate for each sentence, in order. `blocks` are the parsed sources, if the caller has them."""
    relevance = make_relevance([question])
    candidates: list[Candidate] = []
    for source_rank, source in enumerate(sources):
        if blocks is None:
            sentences = describe_cached_sentences(source, question.language, relevance)
        else:
            sentences = describe_sentences(source, blocks[source_rank], question.language, relevance)
        of_source = match_source(sentences, source_rank, question)
        if source.excerpt is not None:
            limit = MAX_ROWS_OF_WHOLE if source.is_whole else MAX_SENTENCES
            excerpt = list_sentences(read_source_blocks(source.excerpt), sentences.language, relevance, limit=limit)
            found = {sentence.text for sentence in excerpt}
            for candidate in of_source:
                candidate.is_found = candidate.sentence.text in found
        candidates += of_source
    return candidates


def make_relevance(questions: Sequence[Question]) -> Callable[[str], int]:
    """Return a function that estimates how many terms of the questions a paragraph has, by their first PREFIX_CHARS."""
    beginnings = {re.escape(term.word[:PREFIX_CHARS]) for question in questions for term in question.terms}
    pattern = re.compile("|".join(sorted(beginnings, key=len, reverse=True)) or r"(?!)")
    return lambda text: len(set(pattern.findall(fold(text))))


def match_source(sentences: SourceSentences, source_rank: int, question: Question) -> list[Candidate]:
    """Return one candidate for each sentence of a source, in order."""
    matcher = question.matcher
    heading_credits = {context: match_terms(words, matcher) for context, words in sentences.context_words.items()}
    asks_for_symbols = bool(list_symbols(remove_name_ampersands(question.text)))
    candidates: list[Candidate] = []
    for form in sentences.forms:
        before = candidates[-1] if candidates and candidates[-1].sentence is form.sentence.before else None
        announced = find_announced_blocks(form.sentence, asks_how=question.asks_how)
        own_words = [*form.words, *list_symbols(form.shown)] if asks_for_symbols else form.words
        own_credits = match_terms(own_words, matcher)
        all_credits = dict(own_credits)
        raise_credits(all_credits, heading_credits[form.context].items(), TITLE_CREDIT)
        if before:
            raise_credits(all_credits, before.credits.items(), BEFORE_CREDIT)
        raise_credits(all_credits, match_terms(announced.words, matcher).items(), announced.credit)
        candidates.append(
            Candidate(form, sentences, source_rank, question, before, announced, own_credits, credits=all_credits)
        )
    return candidates


def match_terms(words: Sequence[str], matcher: TermMatcher) -> dict[int, float]:
    """Return the numbers of the terms that the words match, each with its credit, 0 to 1."""
    term_credits: dict[int, float] = {}
    raise_credits(term_credits, itertools.chain.from_iterable(matcher.find_matches(words)))
    return term_credits


def raise_credits(term_credits: dict[int, float], found: Iterable[tuple[int, float]], factor: float = 1.0) -> None:
    """Raise the credit of each found term to `factor` times the found credit, unless it is higher already."""
    for number, credit in found:
        term_credits[number] = max(term_credits.get(number, 0.0), factor * credit)


def is_in_same_table(one: Candidate, other: Candidate) -> bool:
    """Return whether both belong to the same table, and one of them announces the whole table."""
    has_announcement = one.sentence.is_announcement or other.sentence.is_announcement
    return has_announcement and bool(one.sentence.columns) and one.table_key == other.table_key


def measure_overlap(one: Candidate, other: Candidate) -> float:
    """Return the share of the shorter sentence's words that both have, 0 to 1. Words of the question do not count.

    For announcements, the result is 1 if both announce the same block, and else 0.
    """
    if one.sentence.is_announcement or other.sentence.is_announcement:
        has_both = bool(one.attachments and other.attachments)
        return float(has_both and one.attachments[0].text == other.attachments[0].text)
    if one.words == other.words:
        return 1.0
    return len(one.content & other.content) / max(1, min(len(one.content), len(other.content)))
