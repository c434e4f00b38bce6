"""What this program finds in the text of a sealed answer: by the word comparison alone, and with its support model."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from modules.llm_platform.application.seals.trailing_markers import Place, TrailingMarkers, find_added_markers
from modules.llm_platform.domain.citations.checker import CheckedAnswer, CitationChecker
from modules.llm_platform.domain.citations.compare.undecided_claims import UndecidedClaim
from modules.llm_platform.domain.citations.read.sentences import AnswerSentence, AnswerText, read_answer
from modules.llm_platform.domain.concurrency.stoppable import StopSignal
from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.citation_dtos import Citation
from modules.llm_platform.domain.dtos.sealed_dtos import MAX_SEALED_CITATIONS
from modules.llm_platform.domain.text.sentences import Span


@dataclass(frozen=True, slots=True)
class WordComparison:
    """What the word comparison finds.

    - `undecided` are the claims that the word comparison leaves to a support model.
    - `is_read` is True if the file has verdicts of a support model. `needs_model` is also True if a model decides which sentence
      a marker cites.
    """

    text: AnswerText
    checked: CheckedAnswer
    trailing_markers: TrailingMarkers
    undecided: Sequence[UndecidedClaim]
    is_read: bool
    needs_model: bool


def compare_words_alone(response: ResearchResponse, checker: CitationChecker, signal: StopSignal) -> WordComparison:
    text = read_answer(response.synthesis, response.metadata.language)
    if added := find_added_markers(response, text):
        text = read_answer(response.synthesis, response.metadata.language, added)
    checked, trailing_markers = checker.check_text(text), TrailingMarkers(text, signal)
    is_read = any(citation.checked_by == "encoder" for citation in response.citations)
    differing = {get_place(one) for one in checked.citations} ^ {get_place(one) for one in response.citations}
    needs_model = is_read or any(map(trailing_markers.may_cite, differing))
    undecided = checker.undecided.list_first(MAX_SEALED_CITATIONS) if needs_model else ()
    return WordComparison(text, checked, trailing_markers, undecided, is_read, needs_model)


class Findings:
    """The citations and the statements without one that this program finds.

    - `words` are the citations by the word comparison alone, and `read` those with the verdicts of a support model; empty
      without one.
    - `has_model` is True if a support model read everything that the word comparison leaves to it.
    """

    def __init__(self, by_words: WordComparison, by_model: CheckedAnswer | None, *, is_degraded: bool) -> None:
        """`by_model` is None without a support model. `is_degraded` is True if it could not read everything."""
        self.by_words, self.by_model = by_words, by_model
        self.words = {get_place(citation): citation for citation in by_words.checked.citations}
        self.read = {get_place(citation): citation for citation in by_model.citations} if by_model else {}
        self.has_model = by_model is not None and not is_degraded
        self._undecided = {(claim.key.claim, claim.key.source): claim for claim in by_words.undecided}
        self._said = {(sentence.start, sentence.end): sentence for sentence in by_words.text.sentences}

    @property
    def lacks_model(self) -> bool:
        """True if the file has verdicts of a support model, but no support model could read all claims here."""
        return self.by_words.is_read and not self.has_model

    @property
    def trailing_markers(self) -> TrailingMarkers:
        return self.by_words.trailing_markers

    def find_sentence(self, span: Span) -> AnswerSentence | None:
        return self._said.get(span)

    def find_undecided(self, place: Place) -> UndecidedClaim | None:
        """Return what a support model may decide; None where it reads nothing."""
        sentence = self._said.get(place[:2])
        return self._undecided.get((sentence.claim if sentence else "", place[2]))

    def is_certain(self, place: Place) -> bool:
        """Return whether the word comparison finds a citation that no support model takes away."""
        if place not in self.words:
            return False
        return self.find_undecided(place) is None or (self.has_model and place in self.read)

    @cached_property
    def certain_spans(self) -> frozenset[Span]:
        """The sentences with a certain citation."""
        return frozenset(place[:2] for place in self.words if self.is_certain(place))


def get_place(citation: Citation) -> Place:
    return citation.start, citation.end, citation.source_index
