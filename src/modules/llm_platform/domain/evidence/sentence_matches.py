"""Match the sentences of the sources with a question: which of its words they have, and which new names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.extractive.candidates import Candidate, match_terms
from modules.llm_platform.domain.extractive.question import WEAK_WEIGHT, Question
from modules.llm_platform.domain.extractive.scoring import weigh_terms
from modules.llm_platform.domain.extractive.sentence_forms import SourceSentences
from modules.llm_platform.domain.text.language import load_stop_words
from modules.llm_platform.domain.text.tokens import fold, normalize, split_words

HAS_TERM = 0.5  # credit from which a sentence counts as having a term
MIN_NAME_CHARS = 3
MAX_NAME_CHARS = 60
MAX_NAMES = 12  # names of one sentence
LINE_MARKS = " |*_-"  # before the first word of a row or an item

_CAPITAL = r"[^\W\d_a-zа-яёß-öø-ÿ][\w'’.-]*"
_LINK = r"(?:of|the|de|von|van|der|al|for|del|la|le|and|y|du|di|und|et)"
# `University of Oslo`, `Kim Jong-il`, `XR-200`, `1842 treaty` without the treaty
_NAME = re.compile(rf"\b{_CAPITAL}(?:(?: {_LINK}){{0,3}} (?:{_CAPITAL}|\d[\w.-]*))*|\b[a-z]+[-_.]?\d[\w.-]*\b")
_LETTERS = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class Name:
    """A name as it is written, its folded text between spaces, and its words."""

    text: str
    folded: str
    words: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Name:
        return cls(text, normalize(text), tuple(split_words(text)))


class IndexedSource:
    """A source with its sentences. Their names and folded texts are computed on first use, once for all questions."""

    def __init__(self, sentences: SourceSentences) -> None:
        self.sentences = sentences

    @property
    def source(self) -> Source:
        return self.sentences.source

    @cached_property
    def title(self) -> Name:
        return Name.of(self.source.title)

    @cached_property
    def texts(self) -> list[str]:
        """The folded words of the title and of one sentence, between spaces; one text for each sentence."""
        return [normalize(f"{self.source.title} {form.sentence.text}") for form in self.sentences.forms]

    @cached_property
    def text_words(self) -> list[frozenset[str]]:
        """The words of each text in `texts`."""
        return [frozenset(text.split()) for text in self.texts]

    @cached_property
    def _names(self) -> dict[int, tuple[Name, ...]]:
        return {}

    def list_names(self, position: int) -> tuple[Name, ...]:
        """Return the names of a sentence. They are found on demand, because most sentences of a long source never need them."""
        if position not in self._names:
            self._names[position] = tuple(map(Name.of, list_names(self.sentences.forms[position].sentence.text)))
        return self._names[position]


@dataclass(slots=True, eq=False)
class MatchedSentence:
    """A sentence, its position in its source (from 0), and the share of the question's words that it has (`value`)."""

    candidate: Candidate
    found_in: IndexedSource
    position: int
    value: float

    @property
    def text(self) -> str:
        """The folded words of the sentence and its title, between spaces."""
        return self.found_in.texts[self.position]

    @property
    def text_words(self) -> frozenset[str]:
        return self.found_in.text_words[self.position]

    def begins_with(self, name: Name) -> bool:
        """Return whether this name is only the first word of the sentence or row, which always has a capital."""
        is_word = name.text[0].isupper() and len(_LETTERS.findall(name.text)) == 1
        return is_word and self.candidate.form.sentence.text.lstrip(LINE_MARKS).startswith(name.text)

    @property
    def title(self) -> Name:
        return self.found_in.title


class SentenceMatches:
    """All sentences of the sources, matched with one question, and the weights of the question's terms."""

    def __init__(
        self,
        question: Question,
        sources: Sequence[IndexedSource],
        candidates: Sequence[Sequence[Candidate]],
    ) -> None:
        """Match sources with a question. `candidates` has the sentences of each source, compared with the question."""
        self.question = question
        weights = weigh_terms(question, [candidate for found in candidates for candidate in found]).subject
        # Words about the form of the answer need no quote.
        strong = [term.weight > WEAK_WEIGHT for term in question.terms]
        self.weights = [weight * kept for weight, kept in zip(weights, strong, strict=True)] if any(strong) else weights
        self._total = sum(self.weights)
        self._known = frozenset(split_words(question.text)) | load_stop_words(question.language) | load_stop_words("en")
        self.by_source = [
            (
                source,
                [
                    MatchedSentence(one, source, position, self.measure_coverage(one.credits))
                    for position, one in enumerate(found)
                ],
            )
            for source, found in zip(sources, candidates, strict=True)
        ]
        self.all = [sentence for _, sentences in self.by_source for sentence in sentences]

    @cached_property
    def sources(self) -> list[MatchedSource]:
        """The sources that have sentences."""
        return [self._rate_source(source, sentences) for source, sentences in self.by_source if sentences]

    def measure_coverage(self, term_credits: dict[int, float]) -> float:
        """Return the weighted share of the question's terms that these credits cover, 0 to 1."""
        return (
            sum(self.weights[number] * credit for number, credit in term_credits.items()) / self._total
            if self._total
            else 0.0
        )

    def is_new(self, name: Name) -> bool:
        """Return whether the name has a word that is neither in the question nor a stop word."""
        return not self._known.issuperset(name.words)

    def list_new_names(self, sentence: MatchedSentence) -> list[Name]:
        """Return the names of a sentence that the question lacks."""
        return [name for name in sentence.found_in.list_names(sentence.position) if self.is_new(name)][:MAX_NAMES]

    def _rate_source(self, source: IndexedSource, sentences: list[MatchedSentence]) -> MatchedSource:
        titled = match_terms(source.title.words, self.question.matcher)
        term_credits = dict(titled)
        for sentence in sentences:
            for number, credit in sentence.candidate.credits.items():
                term_credits[number] = max(term_credits.get(number, 0.0), credit)
        asked = [word in self._known for word in source.title.words]
        about = sum(asked) / len(asked) * self.measure_coverage(titled) if asked else 0.0
        return MatchedSource(
            source.title,
            sentences[0].candidate.source_rank,
            sentences,
            term_credits,
            self.measure_coverage(term_credits) + about,
        )


@dataclass(slots=True, eq=False)
class MatchedSource:
    """A source with its matched sentences, and the credits of the question's terms in it.

    `value` is the weighted share of these terms, plus a bonus if the question is about the title.
    """

    title: Name
    rank: int
    sentences: list[MatchedSentence]
    credits: dict[int, float]
    value: float


def list_names(sentence: str) -> list[str]:
    """Return the capitalised names and the identifiers of a sentence, in order, without leading function words."""
    stops = load_stop_words("en")
    found: list[str] = []
    for match in _NAME.finditer(sentence):
        parts = match.group().strip(" .'’-").split()
        while parts and fold(parts[0]) in stops:
            parts = parts[1:]
        name = " ".join(parts)
        if MIN_NAME_CHARS <= len(name) <= MAX_NAME_CHARS and name not in found:
            found.append(name)
    return found
