"""Index the sentences of a source, and find the passage that shares most words with a claim.

`prepare_source` splits and indexes a source once, and `SourceText.find_best_passage` compares it with many claims. `facts` then
compares the claim with the passage.

Sets of sentences, and sets of words of a claim, are bitmasks. If a sentence has the words 0 and 2 of a claim, its mask is 0b101.
"""

import html
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from modules.llm_platform.domain.citations.compare.claim_masks import ClaimMasks, MaskWeights
from modules.llm_platform.domain.citations.read.amounts import Amount, list_amounts
from modules.llm_platform.domain.citations.read.claims import Claim, TextFacts
from modules.llm_platform.domain.citations.read.words import WORD, Word, is_unspaced
from modules.llm_platform.domain.row_claims.source_tables import SourceTable, read_source_tables
from modules.llm_platform.domain.text.language import detect_language, load_stop_words
from modules.llm_platform.domain.text.memoized import Memoized
from modules.llm_platform.domain.text.negation import count_negators
from modules.llm_platform.domain.text.numbers import list_spelling_words, load_other_writings
from modules.llm_platform.domain.text.positions import Offset, SentenceNumber
from modules.llm_platform.domain.text.replies import is_bare_reply, is_yes
from modules.llm_platform.domain.text.sentences import Span, is_question, iterate_sentences
from modules.llm_platform.domain.text.stemming import MIN_SHARED, is_form, load_related_words
from modules.llm_platform.domain.text.tokens import (
    WORD_WITH_APOSTROPHE,
    fold,
    normalize,
    normalize_each,
    split_word_parts,
    split_words,
)

MAX_QUOTE_SENTENCES = 3
MAX_PIECE_CHARS = 600  # longer text without a full stop is cut, so that a quote stays readable
LIST_SENTENCE_CHARS = 160  # a longer "sentence" of several lines is a list or a table, and is split at its line breaks
MAX_TEXT_CHARS = 200_000  # the rest of a longer source is not searched
SEEDS = 3  # the best sentences around which passages are tried
NEARLY_BEST_MATCH = 0.8  # a further sentence needs this share of the best sentence's match
SENTENCE_COST = 0.03  # a further sentence must add this share of the claim to the quote
MAX_INITIALS = 6  # of an acronym that the source may spell out
UNSPELLED = frozenset({"of", "the", "and", "for", "de", "der", "für", "la", "le", "du", "des"})  # left out of acronyms
MAX_LANGUAGE_CHARS = 500  # the beginning of a source from which its language is detected
MEMOIZED_RUNS = 1 << 13  # runs of characters between spaces; pages on one subject share most of them

_ADDRESS = re.compile(r"\]\([^()\s]*(?:\([^()\s]*\)[^()\s]*)*\)|\s?<https?://[^>\s]+>")  # the target of a link
MARKS = "*_ \t\r\n"
_AROUND_A_WORD = "\"'()[]*,.:;!?"
_WORDS = re.compile(r"\w+")
_LINE_CUT = re.compile(r"(?<!\s)\s*\n\s*")


@dataclass(frozen=True, slots=True)
class Passage:
    """One to three adjacent sentences of a source that fit a claim best.

    - `span` delimits the passage in the source.
    - `sentences` has the best sentence, then other sentences of the source that are nearly as good.
    - `matched` has the words of the claim that occur in the passage, as bits.
    - `known_share` is the share of the claim's words, by weight, that occur anywhere in the source, 0 to 1.
    - `masks` maps each sentence of the source to the words of the claim that it has, as bits.
    - `ranked` are the sentences that share most with the claim, best first.
    """

    span: Span
    sentences: tuple[SentenceNumber, ...]
    matched: int
    known_share: float
    masks: Mapping[SentenceNumber, int]
    ranked: tuple[SentenceNumber, ...]


class SourceText:
    """The text of one source, with an index from words to the sentences that have them. `prepare_source` makes it.

    `spans` delimits the sentences of the source, in order.
    """

    def __init__(
        self, text: str, spans: list[Span], title: str, stop_words: frozenset[str], *, is_whole: bool = False
    ) -> None:
        self.text = text
        self.title = title
        self._is_whole = is_whole
        self.spans = spans
        self._stop_words = stop_words
        self._postings, self._buckets = _index_words(text, spans)
        self._related: dict[str, int] = {}
        self._facts: dict[Span, TextFacts] = {}

    @cached_property
    def language(self) -> str | None:
        """The language at the beginning of the source; None if it is uncertain."""
        return detect_language(self.text[:MAX_LANGUAGE_CHARS])

    @cached_property
    def tables(self) -> list[SourceTable]:
        return read_source_tables(self.text, self.title, is_whole=self._is_whole)

    @cached_property
    def amounts(self) -> list[Amount]:
        """The numbers with units of the whole text."""
        return list_amounts(self.text)

    def read_facts(self, span: Span) -> TextFacts:
        """Return the facts of a passage or sentence. The result is cached for other claims."""
        facts = self._facts.get(span)
        if facts is None:
            text = self.text[slice(*span)]
            facts = self._facts[span] = TextFacts(text, self._stop_words, spells_numbers=self._spells_numbers)
        return facts

    @cached_property
    def _spells_numbers(self) -> bool:
        """True if the source may have numbers in words. It is always True for text beyond ASCII, where the index cannot tell."""
        return not (self.text.isascii() and self._postings.keys().isdisjoint(list_spelling_words()))

    @cached_property
    def sentences_with_numbers(self) -> int:
        """The sentences that may have a number in figures or words, as bits."""
        spelling, found = list_spelling_words(), 0
        for word, sentences in self._postings.items():
            if not word.isalpha() or word in spelling or (not word.isascii() and is_unspaced(word)):
                found |= sentences
        return found

    def capitalizes_inside(self, word: str) -> bool:
        """Return whether the source has the word, written like this, inside a sentence. Headings and brackets do not count."""
        found = re.compile(rf"(?<![\w(\[]){re.escape(word)}(?!\w)")
        for start, end in self.spans:
            text = self.text[start:end]
            if word not in text or text.lstrip().startswith("#"):
                continue
            facts = self.read_facts((start, end))
            if any(facts.find_position(Offset(at.start())) not in facts.sentence_starts for at in found.finditer(text)):
                return True
        return False

    @cached_property
    def normalized(self) -> str:
        """The normalized words of all sentences, with a bar between sentences.

        Targets of links are left out, and HTML entities are decoded.
        """
        text = self.text
        pieces = [text[start:end] for start, end in self.spans]
        if "](" in text or "<http" in text:
            pieces = [_ADDRESS.sub(" ", piece) for piece in pieces]
        if "&" in text:
            pieces = [html.unescape(piece) for piece in pieces]
        return normalize_each(pieces)

    @cached_property
    def normalized_without_bars(self) -> str:
        return self.normalized.replace(" | ", " ")

    @cached_property
    def normalized_title(self) -> str:
        return normalize(self.title)

    def find_exact_sentences(self, word: str) -> int:
        """Return the sentences that have this folded word, as bits."""
        return self._postings.get(word, 0)

    def find_sentences(self, word: str) -> int:
        """Return the sentences that have the word, another form of it, or the same number written differently, as bits."""
        known = self._related.get(word)
        if known is None:
            known = self._related[word] = self._find_related_sentences(word)
        return known

    def _find_related_sentences(self, word: str) -> int:
        postings = self._postings
        found = postings.get(word, 0)
        for key in self._buckets.get(word[:MIN_SHARED], ()):
            if key != word and is_form(word, key):
                found |= postings[key]
        for key in (*load_related_words().get(word, ()), *load_other_writings().get(word, ())):
            found |= postings.get(key, 0)
        return found

    def knows(self, word: str, written: str) -> bool:
        """Return whether the source has the word, or spells it out if it is an acronym."""
        return bool(self.find_sentences(word)) or (written.isupper() and self._spells_out(written))

    def measure_known_share(self, words: Iterable[Word]) -> float:
        """Return the share of the content words, by weight, that the source has, 0 to 1; 0 if there are none."""
        content = [word for word in words if word.is_content]
        total = sum(word.weight for word in content)
        known = sum(word.weight for word in content if self.knows(word.key, word.written))
        return known / total if total else 0.0

    def _spells_out(self, initials: str) -> bool:
        """Return whether adjacent words of the source begin with these letters: "World Health Organization" for WHO.

        Fewer than two letters, or more than MAX_INITIALS, are not looked for.
        """
        if not 2 <= len(initials) <= MAX_INITIALS or not initials.isalnum():
            return False
        return any(initials.casefold() in of_words for of_words in self._initials)

    @cached_property
    def _initials(self) -> tuple[str, str]:
        """The first letters of all words, and of all words except UNSPELLED. A word of one letter gives a space.

        They are cached, because searching the whole text for each acronym would take seconds.
        """
        words = [word.casefold() for word in _WORDS.findall(self.text)]
        letters = [word[0] if len(word) > 1 else " " for word in words]
        named = [letter for letter, word in zip(letters, words, strict=True) if word not in UNSPELLED]
        return "".join(letters), "".join(named)

    def find_best_passage(self, claim: Claim) -> Passage | None:
        """Return the passage that shares most with the claim; None if no sentence shares a content word with it.

        A longer passage must share more: at least SENTENCE_COST of the claim for each further sentence.
        """
        masks = ClaimMasks([self.find_sentences(word.key) if word.is_content else 0 for word in claim.words])
        if not masks.all_words:
            return None
        worth = MaskWeights(claim.weights).__getitem__
        ranked = masks.rank(worth)
        cost = SENTENCE_COST * claim.total
        first, last, matched = max(
            self._grow_passages(ranked[:SEEDS], masks),
            key=lambda found: (worth(found[2]) - cost * (found[1] - found[0]), -found[0], -found[1]),
        )
        best = max(map(SentenceNumber, range(first, last + 1)), key=lambda at: worth(masks[at]))
        enough = NEARLY_BEST_MATCH * worth(masks[best])
        others = (at for at in ranked[:MAX_QUOTE_SENTENCES] if at != best and worth(masks[at]) >= enough)
        return Passage(
            span=(self.spans[first][0], self.spans[last][1]),
            sentences=(best, *others),
            matched=matched,
            known_share=worth(masks.all_words) / claim.total,
            masks=masks,
            ranked=tuple(ranked),
        )

    def collect_text(self, passage: Passage, limit: int) -> str:
        """Return the passage and further sentences that share most with the claim, on one line, in the order of the source.

        The sentences together have at most `limit` characters. A longer passage is cut.
        """
        start, end = passage.span
        chosen, used = [(start, min(end, start + limit))], end - start
        for sentence in passage.ranked:
            first, last = self.spans[sentence]
            if first >= start and last <= end:
                continue
            used += last - first
            if used > limit:
                break
            chosen.append((first, last))
        return " ".join(" ".join(self.text[slice(*span)].split()) for span in sorted(chosen))

    def cut_windows(self, limit: int) -> list[Span]:
        """Return spans of whole sentences that cover the text, up to `limit` characters each.

        Adjacent spans overlap by about half. A sentence longer than the limit is cut, and its end is in no span.
        """
        windows: list[Span] = []
        first, count = 0, len(self.spans)
        while first < count:
            start, end = self.spans[first]
            after = first + 1
            while after < count and self.spans[after][1] - start <= limit:
                end = self.spans[after][1]
                after += 1
            windows.append((start, min(end, start + limit)))
            first = count if after == count else max(first + 1, (first + after) // 2)
        return windows

    def _grow_passages(
        self, seeds: Sequence[SentenceNumber], masks: Mapping[SentenceNumber, int]
    ) -> Iterator[tuple[SentenceNumber, SentenceNumber, int]]:
        """Yield the first sentence, the last sentence and the joint mask of each passage around the seeds.

        A passage has at most MAX_QUOTE_SENTENCES sentences. Its first and last sentence share words with the claim.
        """
        tried: set[SentenceNumber] = set()
        for seed in seeds:
            for first in map(SentenceNumber, range(max(0, seed - MAX_QUOTE_SENTENCES + 1), seed + 1)):
                if first in tried or not masks[first]:
                    continue
                tried.add(first)
                mask = 0
                for last in map(SentenceNumber, range(first, min(len(self.spans), first + MAX_QUOTE_SENTENCES))):
                    if masks[last]:
                        mask |= masks[last]
                        yield first, last, mask


def prepare_source(text: str, title: str, language: str, *, is_whole: bool = False) -> SourceText:
    """Return a source with this text and title. `language` decides where sentences end, and which words are stop words.

    `is_whole` is True if the text is known to be a whole document, so that its tables have all their rows. Only the first
    MAX_TEXT_CHARS characters are read. The result does not depend on other sources, because their pages arrive in any order.
    """
    is_whole = is_whole and len(text) <= MAX_TEXT_CHARS
    text = text[:MAX_TEXT_CHARS]
    spans: list[Span] = []
    for start, end in iterate_sentences(text, language):
        if end - start <= LIST_SENTENCE_CHARS and not _is_table(text[start:end]):
            spans.append((start, end))
        else:
            spans += _split_readable(text, start, end)
    return SourceText(text, _join_replies(text, spans), title, load_stop_words(language), is_whole=is_whole)


def _join_replies(text: str, spans: Sequence[Span]) -> list[Span]:
    """Return the spans with each question and its reply in one: `Are dogs allowed? No.` denies what the question asks.

    Marks alone belong to the span before, such as the end of bold text. A no with more words stays alone, because the denial does
    not hold for these words: `No, but the garage opposite is free.` So do a no that is not known as a negation, and a reply to
    a question with a negation: `Isn't it free? No.`
    """
    joined: list[Span] = []
    for start, end in spans:
        asked = text[slice(*joined[-1])] if joined else ""
        said = text[start:end]
        is_mark = not any(map(str.isalnum, said))
        if joined and is_question(asked.rstrip(MARKS)) and (is_mark or _is_answered(asked, said)):
            joined[-1] = joined[-1][0], end
        else:
            joined.append((start, end))
    return joined


def _is_answered(asked: str, said: str) -> bool:
    negators = count_negators(split_words(fold(said)))
    answers = (is_yes(said) and not negators) or (is_bare_reply(said) and negators == 1)
    return answers and not count_negators(WORD_WITH_APOSTROPHE.findall(fold(asked).replace("’", "'")))


def _is_table(text: str) -> bool:
    """Return whether the text is several rows of a table. `prepare_source` then makes each row a sentence."""
    return "|" in text and text.count("\n") > 0 and all("|" in line for line in text.splitlines())


def _index_words(text: str, spans: list[Span]) -> tuple[dict[str, int], dict[str, list[str]]]:
    """Return the sentences that have each word, as bits, and the words by their first MIN_SHARED letters.

    Most runs of characters between spaces occur more than once, so each run is split into words once.
    """
    runs: defaultdict[str, int] = defaultdict(int)
    for number, (start, end) in enumerate(spans):
        bit = 1 << number
        for run in set(text[start:end].split()):
            runs[run] |= bit
    postings: dict[str, int] = {}
    for run, sentences in runs.items():
        for key in _KEYS[run]:
            postings[key] = postings.get(key, 0) | sentences
    buckets: dict[str, list[str]] = {}
    for key in postings:
        if len(key) >= MIN_SHARED:
            buckets.setdefault(key[:MIN_SHARED], []).append(key)
    return postings, buckets


def _fold_words(run: str) -> tuple[str, ...]:
    """Return the folded words in a run of characters between spaces.

    A joined word is followed by its parts. A word of a script without spaces is replaced by its bigrams.
    """
    bare = run.strip(_AROUND_A_WORD)
    if bare.isalnum() and bare.isascii():
        return (bare.lower(),)
    folded = fold(run)
    keys: list[str] = []
    for word in WORD.findall(folded):
        if not word.isascii() and is_unspaced(word):
            keys += [word[i : i + 2] for i in range(max(1, len(word) - 1))]
        elif word.isalnum():
            keys.append(word)
        else:
            keys += [word.removesuffix("()"), *split_word_parts(word)]
    return tuple(dict.fromkeys(keys))


_KEYS: Final = Memoized(_fold_words, max_entries=MEMOIZED_RUNS)


def _split_readable(text: str, start: int, end: int) -> list[Span]:
    """Return the span of a sentence on one line, or the spans of the lines of a list or table, without empty ones.

    What is longer than MAX_PIECE_CHARS is cut into pieces, at blanks where possible.
    """
    if end <= start or (end - start <= MAX_PIECE_CHARS and "\n" not in text[start:end]):
        return [(start, end)] if end > start else []
    spans = []
    cuts = [found.span() for found in _LINE_CUT.finditer(text, start, end)]
    starts, ends = [start, *(cut[1] for cut in cuts)], [*(cut[0] for cut in cuts), end]
    for piece_start, piece_end in zip(starts, ends, strict=True):
        while piece_end - piece_start > MAX_PIECE_CHARS:
            blank = text.rfind(" ", piece_start + 1, piece_start + MAX_PIECE_CHARS)
            cut = blank if blank > 0 else piece_start + MAX_PIECE_CHARS
            spans.append((piece_start, cut))
            piece_start = cut + (blank > 0)
        if piece_end > piece_start:
            spans.append((piece_start, piece_end))
    return spans
