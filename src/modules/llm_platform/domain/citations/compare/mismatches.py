"""Find the difference between a claim and its source, as a pair of positions.

The comparison of facts finds that there is a difference. This module finds its position in both texts, to show it to a reader.
"""

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from modules.llm_platform.domain.citations.compare.alignment import SourceText
from modules.llm_platform.domain.citations.read.markup import EMPHASIS, SPACED_MARKER
from modules.llm_platform.domain.citations.read.sentences import AnswerSentence
from modules.llm_platform.domain.dtos.citation_dtos import Difference, DifferenceKind, TextSpan
from modules.llm_platform.domain.markdown.markers import LINK_TARGET
from modules.llm_platform.domain.text.positions import Offset, WordNumber
from modules.llm_platform.domain.text.sentences import Span
from modules.llm_platform.domain.text.tokens import WORD_WITH_APOSTROPHE

MAX_RECEIPT_WORDS: Final = 4  # more words on one side of a difference are not shown as a pair

_FIGURES = re.compile(r"[0-9](?:[0-9.,'’:/\u00a0\u202f]*[0-9])?")
_HAN_FIGURES = re.compile("[零〇一二三四五六七八九十百千万亿两点]{1,24}")
_WORD = re.compile(r"[^\s.,;:!?()\"“”]+")
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});?")
_REMOVED: Final = "\x00"  # stands for a character that the claim does not have


SpanPair = tuple[Span, Span]  # a span of the claim, and the span of a sentence that says otherwise


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A difference: `claimed` is a span of the claim, and `found` is the span of the source that says otherwise."""

    kind: DifferenceKind
    claimed: Span
    found: Span


def find_number(text: str, at: Offset) -> Span:
    """Return the span of the number that begins at `at`, in figures or in words."""
    found = _FIGURES.match(text, at) or _HAN_FIGURES.match(text, at) or _WORD.match(text, at)
    return found.span() if found else (at, at + 1)


def find_figure_and_sign(text: str, at: Offset) -> Span:
    """Return the span from `at` up to a space, without a stop at its end: a number in figures, with its sign or unit."""
    return at, at + len(text[at:].split()[0].rstrip(".,;:"))


def find_word(text: str, position: WordNumber) -> Span:
    """Return the span of the word with this index in `TextFacts.words`; the whole text if there are fewer words."""
    for number, found in enumerate(WORD_WITH_APOSTROPHE.finditer(text)):
        if number == position:
            return found.span()
    return 0, len(text)


def find_phrase(text: str, written: str) -> Span:
    """Return the span of the first occurrence of a word or phrase; the whole text if there is none."""
    at = text.find(written)
    return (at, at + len(written)) if written and at >= 0 else (0, len(text))


def find_words(text: str, words: Sequence[str]) -> Span:
    """Return the span from the first to the last of these words, which are adjacent."""
    if not words:
        return 0, len(text)
    start, end = find_phrase(text, words[0])[0], find_phrase(text, words[-1])[1]
    return (start, end) if start < end else find_phrase(text, words[0])


def shift(span: Span, by: int) -> Span:
    return span[0] + by, span[1] + by


def locate_difference(sentence: AnswerSentence, mismatch: Mismatch, source: SourceText) -> Difference | None:
    """Return the mismatch with its spans in the answer and in the source.

    The result is None if the claim cannot be found in the answer, or if no words of the source replace the words of the
    claim. It is also None if replaced words or names are too long to be compared: a reader would see two unrelated texts.
    """
    claimed = _convert_claimed_span(sentence, mismatch.claimed)
    if claimed is None:
        return None
    (start, end), (first, last) = claimed, mismatch.found
    mine, theirs = sentence.written[start - sentence.start : end - sentence.start], source.text[first:last]
    if mismatch.kind in ("name", "negation", "other") and mismatch.found in source.spans:
        return None
    if mismatch.kind in ("name", "other") and not _is_pair(mine, theirs):
        return None
    return Difference(claimed=TextSpan(start=start, end=end), found=TextSpan(start=first, end=last), kind=mismatch.kind)


def _is_pair(mine: str, theirs: str) -> bool:
    """Return whether both are a few words within one sentence, and differ."""
    is_short = all(0 < len(words.split()) <= MAX_RECEIPT_WORDS and "\n" not in words for words in (mine, theirs))
    return is_short and ". " not in theirs and mine.casefold() != theirs.casefold()


def _convert_claimed_span(sentence: AnswerSentence, claimed: Span) -> Span | None:
    """Convert a span of the claim, which has no markup, into a span of the answer.

    Return None if the two texts cannot be aligned.
    """
    written = sentence.written
    if written == sentence.claim and "&" not in written:
        return sentence.start + claimed[0], sentence.start + claimed[1]
    masked = SPACED_MARKER.sub(_mask, written) if sentence.cited else written
    if "](" in masked:
        masked = LINK_TARGET.sub(_mask, masked).replace("[", _REMOVED)
    masked = EMPHASIS.sub(lambda found: found[1] or _mask(found), masked)
    signs: list[str] = []
    offsets: list[int] = []
    at = 0
    while at < len(masked):
        entity = _ENTITY.match(masked, at) if masked[at] == "&" else None
        text = html.unescape(entity[0]) if entity else masked[at]
        is_repeated_blank = text.isspace() and (not signs or signs[-1] == " ")
        if text != _REMOVED and not is_repeated_blank:
            signs += " " if text.isspace() else text
            offsets += [at] * (1 if text.isspace() else len(text))
        at += len(entity[0]) if entity else 1
    if "".join(signs).rstrip() != html.unescape(sentence.claim) or not 0 <= claimed[0] < claimed[1] <= len(offsets):
        return None
    return sentence.start + offsets[claimed[0]], sentence.start + offsets[claimed[1] - 1] + 1


def _mask(found: re.Match[str]) -> str:
    return _REMOVED * len(found[0])
