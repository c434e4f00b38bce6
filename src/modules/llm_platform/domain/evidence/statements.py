"""The sentences of the sources as evidence for a question: the words of it that they have, and the names that they bring in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from modules.llm_platform.domain.dtos.research_dtos import Source
from modules.llm_platform.domain.extractive.candidates import Candidate, find_candidates, met_terms
from modules.llm_platform.domain.extractive.question import WEAK_WEIGHT, Question, TermMatcher
from modules.llm_platform.domain.extractive.scoring import weigh
from modules.llm_platform.domain.extractive.sentences import blocks_of
from modules.llm_platform.domain.text.language import stop_words
from modules.llm_platform.domain.text.tokens import fold, normalize, words

HAS_TERM = 0.5  # credit from which a sentence counts as having a term
MIN_NAME_CHARS = 3
MAX_NAME_CHARS = 60
MAX_NAMES = 12  # of one sentence

_CAPITAL = r"[^\W\d_a-zа-яёß-öø-ÿ][\w'’.-]*"
_LINK = r"(?:of|the|de|von|van|der|al|for|del|la|le|and|y|du|di|und|et)"
# `University of Oslo`, `Kim Jong-il`, `XR-200`, `1842 treaty` without the treaty
_NAME = re.compile(rf"\b{_CAPITAL}(?:(?: {_LINK}){{0,3}} (?:{_CAPITAL}|\d[\w.-]*))*|\b[a-z]+[-_.]?\d[\w.-]*\b")


@dataclass(slots=True, eq=False)
class Statement:
    """A sentence, the names that the question lacks, and its words with those of its title, between blanks."""

    candidate: Candidate
    names: tuple[str, ...]
    text: str
    title: str
    position: int  # in its source, from 0
    value: float  # share of the question's words that it has


class Statements:
    """The statements of the sources, with the weights of the question's terms among them."""

    def __init__(self, question: Question, sources: Sequence[Source]) -> None:
        matcher = TermMatcher(question.terms)
        candidates = find_candidates(question, sources, [blocks_of(source.text) for source in sources], matcher)
        self.question = question
        weights = weigh(question, candidates).subject
        strong = [term.weight > WEAK_WEIGHT for term in question.terms]  # words about the form of the answer need no quote
        self.weights = [weight * kept for weight, kept in zip(weights, strong, strict=True)] if any(strong) else weights
        self._total = sum(self.weights)
        self._known = frozenset(words(question.text)) | stop_words(question.language) | stop_words("en")
        self.passages = [
            self._passage(list(members), matcher) for _, members in groupby(candidates, key=lambda one: one.rank)
        ]
        self.all = [statement for passage in self.passages for statement in passage.statements]

    def coverage(self, met: dict[int, float]) -> float:
        """Return the weighted share of the question's terms."""
        return sum(self.weights[number] * credit for number, credit in met.items()) / self._total if self._total else 0.0

    def is_new(self, name: str) -> bool:
        """Return whether the name has a word that neither the question nor the language brings along."""
        return any(word not in self._known for word in words(name))

    def _passage(self, members: Sequence[Candidate], matcher: TermMatcher) -> Passage:
        source = members[0].source
        title = normalize(source.title)
        statements = [
            Statement(
                candidate=one,
                names=tuple(name for name in names_of(one.sentence.text) if self.is_new(name))[:MAX_NAMES],
                text=normalize(f"{source.title} {one.sentence.text}"),
                title=title,
                position=position,
                value=self.coverage(one.met),
            )
            for position, one in enumerate(members)
        ]
        titled = met_terms(words(source.title), matcher)
        met = dict(titled)
        for one in members:
            for number, credit in one.met.items():
                met[number] = max(met.get(number, 0.0), credit)
        asked = [word in self._known for word in words(source.title)]
        about = sum(asked) / len(asked) * self.coverage(titled) if asked else 0.0
        return Passage(source, members[0].rank, statements, met, self.coverage(met) + about)


@dataclass(slots=True, eq=False)
class Passage:
    """A source, the terms of the question that it has, and its value: their share, and more where its title is asked for."""

    source: Source
    rank: int
    statements: list[Statement]
    met: dict[int, float]
    value: float


def names_of(sentence: str) -> list[str]:
    """Return the capitalised names and the identifiers of a sentence, in order, without function words in front."""
    stops = stop_words("en")
    found: list[str] = []
    for match in _NAME.finditer(sentence):
        parts = match.group().strip(" .'’-").split()
        while parts and fold(parts[0]) in stops:
            parts = parts[1:]
        name = " ".join(parts)
        if MIN_NAME_CHARS <= len(name) <= MAX_NAME_CHARS and name not in found:
            found.append(name)
    return found
