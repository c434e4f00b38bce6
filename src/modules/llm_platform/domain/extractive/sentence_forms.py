"""Describe each sentence of a source before any question is asked: how it is shown, and whether it can be understood alone.

`SourceSentences` has the sentences of a source, and `candidates` compares them with any number of questions. `describe_sentences`
reads a source, and `describe_cached_sentences` caches short ones, because all questions about a folder have the same sources.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.extractive.announced_blocks import is_short_code
from modules.llm_platform.domain.extractive.blocks import Block
from modules.llm_platform.domain.extractive.markup import strip_markup
from modules.llm_platform.domain.extractive.sentence_rules import (
    Boilerplate,
    addresses_reader_formally,
    depends_on_context,
    find_boilerplate,
)
from modules.llm_platform.domain.extractive.sentences import (
    MAX_PARAGRAPHS,
    MAX_ROWS_OF_WHOLE,
    MAX_SENTENCES,
    Sentence,
    list_sentences,
    read_source_blocks,
)
from modules.llm_platform.domain.text.language import detect_language, load_stop_words
from modules.llm_platform.domain.text.replies import is_reply, strip_question_label
from modules.llm_platform.domain.text.sentences import QUESTION_MARKS, ends_sentence, is_question, split_sentences
from modules.llm_platform.domain.text.tokens import split_words

MIN_WORDS = 3
MAX_WORDS = 110
MAX_LEAD_WORDS = 20  # a longer heading or introduction is not repeated before a sentence
MAX_LED_ITEM_WORDS = 25  # a longer list item can be understood without the introduction of its list
MAX_NAME_CHARS = 120
LANGUAGE_CHARS = 1500  # the beginning of a source from which its language is detected
CACHED_CHARS: Final = 10_000  # longer sources are not cached
CACHED_BARS: Final = 600  # neither are larger tables, because each row has the words of all columns
CACHED_SOURCES: Final = 48  # a source of CACHED_CHARS with ordinary sentences takes 0.2 MB

_NAMES_ITSELF = re.compile(r"-{1,2}\w|`|[^:]{1,40}: |.{1,40}\s[–—-]+\s")  # an item that begins with its own name


@dataclass(eq=False)
class SentenceForm:
    """The properties of a sentence that are the same for every question.

    - `lead` is the text to show before the sentence. `shown` has the lead and the sentence.
    - `words` are the words of `shown` and of the column names.
    - `above` is the code right above the sentence, if the sentence refers to it (`This command …`).
    - `refers_back` is True if the first words refer to the sentence before.
    - `is_alone` is True if the sentence is the whole text of its source, such as a bare answer.
    - `is_usable` is True if the sentence has a beginning and is neither too short nor too long.
    - `context` has the heading, the defined term, the introduction, the date of the entry and the column names.
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


@dataclass(frozen=True, slots=True, eq=False)
class SourceSentences:
    """The sentences of a source, to be compared with any number of questions.

    - `name` is the first heading of a whole document, such as a letterhead. The title may only be the name of a file.
    - `context_words` maps the context of a sentence to the words of the context, the title and the name.
    """

    source: Source
    name: str
    language: str
    forms: Sequence[SentenceForm]
    context_words: Mapping[tuple[str, ...], Sequence[str]]

    @property
    def stop_words(self) -> frozenset[str]:
        return load_stop_words(self.language)


def describe_sentences(
    source: Source, blocks: Sequence[Block], language: str, relevance: Callable[[str], int]
) -> SourceSentences:
    """Return the sentences of a source.

    - `language` is the language of the question. It is used if the language of the source cannot be detected.
    - `relevance` returns how many terms of the question a paragraph has. Only the best paragraphs of a long source are read.
    """
    described = _describe(source.text, source.title, language, blocks, relevance, is_whole=source.is_whole)
    return SourceSentences(source, *described)


def describe_cached_sentences(source: Source, language: str, relevance: Callable[[str], int]) -> SourceSentences:
    """Return the sentences of a source, as `describe_sentences` does. A short source is read only once for many questions."""
    if len(source.text) <= CACHED_CHARS and source.text.count("|") <= CACHED_BARS:
        described = _describe_short_text(source.text, source.title, language, is_whole=source.is_whole)
        if described is not None:
            return SourceSentences(source, *described)
    return describe_sentences(source, read_source_blocks(source.text), language, relevance)


class _Described(NamedTuple):
    """What `SourceSentences` has of a text. Questions and threads share it."""

    name: str
    language: str
    forms: Sequence[SentenceForm]
    context_words: Mapping[tuple[str, ...], Sequence[str]]


@lru_cache(CACHED_SOURCES)
def _describe_short_text(text: str, title: str, language: str, *, is_whole: bool) -> _Described | None:
    """Return the sentences of a text; None if it has so many paragraphs that the question chooses which are read."""
    blocks = read_source_blocks(text)
    if len(blocks) > MAX_PARAGRAPHS:
        return None
    return _describe(text, title, language, blocks, lambda _: 0, is_whole=is_whole)


def _describe(
    text: str, title: str, language: str, blocks: Sequence[Block], relevance: Callable[[str], int], *, is_whole: bool
) -> _Described:
    language = detect_language(text[:LANGUAGE_CHARS]) or language
    limit = MAX_ROWS_OF_WHOLE if is_whole else MAX_SENTENCES
    whole = text.strip()
    is_formal = addresses_reader_formally(text, language)
    forms = [
        _describe_form(sentence, language, is_alone=sentence.text == whole, is_formal=is_formal)
        for sentence in list_sentences(blocks, language, relevance, limit=limit)
    ]
    contexts = {form.context for form in forms}
    name = blocks[0].text[:MAX_NAME_CHARS] if is_whole and blocks and blocks[0].kind == "heading" else ""
    words = {context: split_words(" ".join((title, name, *context))) for context in contexts}
    return _Described(name, language, forms, words)


def _describe_form(sentence: Sentence, language: str, *, is_alone: bool, is_formal: bool) -> SentenceForm:
    lead = _choose_lead(sentence, language)
    shown = f"{lead}: {sentence.text}" if lead else sentence.text
    columns = [column.replace("_", " ") for column in sentence.columns]  # a question asks for `hours per week`
    words = split_words(" ".join((shown, *columns)))
    refers_back = depends_on_context(sentence.text, language, addresses_reader=is_formal)
    has_code_above = refers_back and sentence.above is not None and is_short_code(sentence.above)
    is_long_enough = is_alone or sentence.is_announcement or bool(sentence.row) or len(words) >= MIN_WORDS
    return SentenceForm(
        sentence=sentence,
        lead=lead,
        shown=shown,
        words=words,
        above=sentence.above if has_code_above else None,
        refers_back=refers_back,
        is_alone=is_alone,
        is_usable=is_long_enough and len(words) <= MAX_WORDS and not _lacks_beginning(sentence, words, language),
        context=(sentence.heading, sentence.term, sentence.intro, sentence.entry, *sentence.columns),
    )


def _lacks_beginning(sentence: Sentence, words: Sequence[str], language: str) -> bool:
    """Return whether the sentence begins with a function word in small letters, such as `of the …`."""
    begins_small = not sentence.is_item and sentence.text[0].islower()
    return begins_small and bool(words) and words[0] in load_stop_words(language)


def _choose_lead(sentence: Sentence, language: str) -> str:
    """Return the text to show before a sentence, so that it can be understood; empty if it needs none.

    The lead is the date of the entry that the sentence begins, the question to which it replies, the term that it explains, or
    the introduction or heading above a list item.
    """
    if sentence.entry and not sentence.before:
        return sentence.entry
    if sentence.question:
        return _read_question(sentence.question) if _is_reply(sentence.text, language) else ""
    if sentence.term:
        return sentence.term
    if not sentence.is_item or sentence.row or sentence.is_announcement or sentence.before:
        return ""
    return _choose_introduction(sentence, language) or _choose_heading(sentence)


def _is_reply(text: str, language: str) -> bool:
    """Return whether a sentence says nothing without the question before it: `No.`, `Yes, on Mondays.`, `It is free.`"""
    return is_reply(text) or len(split_words(text)) < MIN_WORDS or depends_on_context(text, language)


def _choose_introduction(item: Sentence, language: str) -> str:
    """Return the last sentence above the list; empty if the item needs no lead, or if the sentence cannot be one."""
    if not item.intro or len(item.text.split()) > MAX_LED_ITEM_WORDS:
        return ""
    start, end = split_sentences(item.intro, language)[-1]
    last = strip_markup(item.intro[start:end])
    return "" if depends_on_context(last, language) else _read_lead(last)


def _choose_heading(item: Sentence) -> str:
    """Return the heading above the list; empty if the item is a whole sentence or names itself."""
    if ends_sentence(item.text) or _NAMES_ITSELF.match(item.text) or item.heading.isupper():
        return ""
    return _read_lead(item.heading)


def _read_question(question: str) -> str:
    """Return the question without its label and marks, because a lead ends in a colon; empty if it is too long to show."""
    lead = strip_question_label(question).strip(f"{QUESTION_MARKS}¿ ")
    return "" if len(lead.split()) > MAX_LEAD_WORDS else lead


def _read_lead(above: str) -> str:
    """Return the text without its colon; empty if it is a question, or too long to show before a sentence."""
    lead = above.rstrip(":： ")
    return "" if is_question(lead) or len(lead.split()) > MAX_LEAD_WORDS else lead
